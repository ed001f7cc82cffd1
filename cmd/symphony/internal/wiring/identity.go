// Package wiring opens a project and builds the program's parts for it. A project is one
// WORKFLOW.md and its state directory. It is the only package that builds adapters: the
// tracker, the forge, the machine and the agent of a configuration.
package wiring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/tracker/file"
)

// Project is one WORKFLOW.md and its state directory.
type Project struct {
	Env       *environ.Env
	Path      string // resolved through symlinks where the file exists
	Source    workflow.Source
	SourceErr error
	StateDir  string
	// EnvFile holds the variables of the environment files, SharedEnv those of the file for
	// all projects, OwnEnv those of the project's. EnvErr, a configuration error, is the
	// reason why a file can't be used.
	EnvFile, SharedEnv, OwnEnv map[string]string
	EnvErr                     error

	read   string           // the stamp of the files that NewProject has read
	gh     *sync.Map        // the tokens of gh, by API; nil if it is not asked
	nested *reconcile.Error // the workflow lies where agents write; nil if it does not
}

// NewProject reads the workflow and the environment file. An empty stateDir stands for the default
// one. A workflow that an agent could have written is not used: SourceErr is then the error of
// Foreign.
func NewProject(w *environ.Env, path, stateDir string) *Project {
	p := &Project{Env: w, Path: w.Absolute(path), gh: &sync.Map{}}
	before := Stamp(p.Path)
	p.Source, p.SourceErr = workflow.Read(p.Path)
	p.SourceErr = nameLease(p.SourceErr, p.Path)
	if p.Source.Path != "" {
		p.Path = p.Source.Path
	}
	if stateDir == "" {
		stateDir = state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, p.Path)
	}
	p.StateDir = w.Absolute(stateDir)
	p.refuseAgents()
	p.hintGone()
	p.read = before + p.stampOfEnvironment()
	p.ReadEnvFiles(os.Getuid())
	return p
}

// Stamp identifies the present versions of WORKFLOW.md and the environment files.
func (p *Project) Stamp() string { return Stamp(p.Path) + p.stampOfEnvironment() }

func (p *Project) stampOfEnvironment() string {
	return " " + Stamp(p.SharedEnvPath()) + " " + Stamp(p.EnvPath())
}

// Changed reports whether these files have changed since NewProject has read them.
func (p *Project) Changed() bool { return p.Stamp() != p.read }

// Stamp identifies a version of a file; empty if there is none.
func Stamp(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode(), statOf(info).Ino)
}

// FindWorkflow returns the path of the WORKFLOW.md in the working directory, or else in the
// nearest directory above, up to the home directory or the root of the mounted file system;
// empty if there is none. Above the working directory only a file of this account counts,
// because the hooks of a workflow run as the operator.
func FindWorkflow(w *environ.Env) string {
	for dir := w.Dir; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "WORKFLOW.md")
		if info, err := os.Lstat(path); err == nil && (dir == w.Dir || int(statOf(info).Uid) == os.Getuid()) {
			return path
		}
		here, err := os.Stat(dir)
		above, aboveErr := os.Stat(filepath.Dir(dir))
		if err != nil || aboveErr != nil || dir == w.Home || os.SameFile(here, above) ||
			statOf(here).Dev != statOf(above).Dev {
			return ""
		}
	}
}

func statOf(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// ReadEnvFiles reads the environment files, which must belong to uid. The project's own file
// takes precedence.
func (p *Project) ReadEnvFiles(uid int) {
	var sharedErr, ownErr error
	p.SharedEnv, sharedErr = workflow.ReadEnvFile(p.SharedEnvPath(), uid)
	p.OwnEnv, ownErr = workflow.ReadEnvFile(p.EnvPath(), uid)
	p.EnvErr = nameLease(sharedErr, p.SharedEnvPath())
	if p.EnvErr == nil {
		p.EnvErr = nameLease(ownErr, p.EnvPath())
	}
	p.EnvFile = map[string]string{}
	maps.Copy(p.EnvFile, p.SharedEnv)
	maps.Copy(p.EnvFile, p.OwnEnv)
}

// SharedEnvPath is the path of the environment file for all projects.
func (p *Project) SharedEnvPath() string {
	return workflow.EnvFilePath(p.Env.Getenv("XDG_CONFIG_HOME"), p.Env.Home, "symphony")
}

// EnvPath is the path of the project's environment file. Every pass reads it, so that cron,
// systemd and an operator have the same variables.
func (p *Project) EnvPath() string {
	return workflow.EnvFilePath(p.Env.Getenv("XDG_CONFIG_HOME"), p.Env.Home, filepath.Base(p.StateDir))
}

// TokenDir is the directory for the token of a server. Every pass of the account hides it from
// agents, whichever variables it has (see worlds). It hides the directory of the caller's
// XDG_CONFIG_HOME only if it has the same variable.
func TokenDir(w *environ.Env) string {
	return filepath.Dir(workflow.EnvFilePath("", cmp.Or(w.AccountHome, w.Home), "symphony"))
}

// Lookup finds a variable in the environment, otherwise in the environment file.
func (p *Project) Lookup(name string) (string, bool) {
	if v, ok := p.Env.Lookup(name); ok {
		return v, true
	}
	v, ok := p.EnvFile[name]
	return v, ok
}

// WorkerEnviron is the environment of workers.
func (p *Project) WorkerEnviron() []string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(p.EnvFile)), func(name string) bool {
		_, set := p.Env.Lookup(name)
		return set
	})
	if len(names) == 0 {
		return p.Environ()
	}
	return append(p.Environ(), environ.FromFileVar+"="+strings.Join(names, ","))
}

// OwnPassEnviron is the environment of the pass that a worker starts. It equals that of the
// pass that started the worker.
func OwnPassEnviron(w *environ.Env) []string {
	return host.Scrub(
		w.Environ,
		append(strings.Split(w.Getenv(environ.FromFileVar), ","), environ.FromFileVar)...)
}

// Environ is the environment of hooks and agents: that of the process and the variables of the
// file, each name once.
func (p *Project) Environ() []string {
	vars := map[string]string{}
	maps.Copy(vars, p.EnvFile)
	for _, entry := range p.Env.Environ {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	delete(vars, environ.FromFileVar)
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env
}

// Environment resolves the values of the workflow. The variables in extra take precedence.
func (p *Project) Environment(extra map[string]string) workflow.Environment {
	return workflow.Environment{
		Home:    p.Env.Home,
		Temp:    cmp.Or(p.Env.Getenv("TMPDIR"), "/tmp"),
		UID:     os.Getuid(),
		EnvFile: p.EnvPath(),
		GhToken: p.GhToken,
		Lookup: func(name string) (string, bool) {
			if v, ok := extra[name]; ok {
				return v, true
			}
			return p.Lookup(name)
		},
	}
}

// Config parses the workflow.
func (p *Project) Config() (*workflow.Config, error) { return p.parse(p.Environment(nil)) }

// ConfigWithoutKey parses the workflow for a command that does not need the tracker's key.
func (p *Project) ConfigWithoutKey() (*workflow.Config, error) {
	env := p.Environment(nil)
	env.KeyOptional = true
	env.GhToken = nil
	return p.parse(env)
}

// parseWithoutKey parses a workflow of the project, the present one or another, without the
// tracker's key.
func (p *Project) parseWithoutKey(src workflow.Source) (*workflow.Config, error) {
	env := p.Environment(nil)
	env.KeyOptional = true
	return workflow.Parse(src, env)
}

// LastGoodKey names the last valid workflow in the database.
const LastGoodKey = "last_good_workflow"

// LastGood returns the last valid workflow that a pass has stored, read as if it were at path,
// and its text; nil if there is none.
func LastGood(
	ctx context.Context,
	p *Project,
	db *state.DB,
	path string,
) (cfg *workflow.Config, text string, err error) {
	text, known, err := db.Meta(ctx, LastGoodKey)
	if err != nil || !known {
		return nil, "", err
	}
	src, err := workflow.NewSource(path, path, []byte(text))
	if err == nil {
		cfg, err = p.parseWithoutKey(src)
	}
	return cfg, text, err
}

func (p *Project) parse(env workflow.Environment) (*workflow.Config, error) {
	if p.SourceErr != nil {
		return nil, p.SourceErr
	}
	if p.EnvErr != nil {
		return nil, p.EnvErr
	}
	cfg, err := workflow.Parse(p.Source, env)
	if err == nil {
		switch {
		case cfg.KeyIsLiteral:
			cfg.KeySource = p.Path
		case cfg.KeyFromGh:
			cfg.KeySource = "gh auth token"
		default:
			cfg.KeySource = p.KeySource(cfg.Tracker.APIKey.Reveal(), cfg.SecretVars...)
		}
		return cfg, nil
	}
	for _, e := range workflow.Faults(err) {
		e.Hint = cmp.Or(e.Hint, "correct that line; symphony check checks the file")
		// the environment file has the name of the old path
		if e.Code == workflow.CodeMissingAPIKey && !p.HasState() {
			hintMoved(p, e)
		}
	}
	return nil, err // not the part that could be parsed
}

// KeySource names the variable or environment file that contains a key, if it is the value of
// a variable with one of the names.
func (p *Project) KeySource(key string, names ...string) string {
	for _, name := range names {
		fromFile := slices.Contains(strings.Split(p.Env.Getenv(environ.FromFileVar), ","), name)
		if v, _ := p.Env.Lookup(name); !fromFile && strings.TrimSpace(v) == key {
			return "the variable " + name
		}
		if strings.TrimSpace(p.OwnEnv[name]) == key {
			return p.EnvPath()
		}
	}
	return p.SharedEnvPath()
}

// Name is the name of the folder of WORKFLOW.md.
func (p *Project) Name() string { return filepath.Base(filepath.Dir(p.Path)) }

// HasState reports whether a pass has ever run here.
func (p *Project) HasState() bool { return Exists(filepath.Join(p.StateDir, "state.db")) }

// RootsFolder is the directory below the home directory in which init proposes workspace
// roots.
const RootsFolder = "symphony"

// RootsKey names the list of workspace roots in the database.
const RootsKey = "workspace_roots"

// Exists reports whether there is a file at the path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// RootsOf returns the workspace roots that a project has used, the current one first.
func RootsOf(ctx context.Context, db *state.DB) ([]string, error) {
	roots := []string{}
	text, known, err := db.Meta(ctx, RootsKey)
	if err == nil && known {
		err = json.Unmarshal([]byte(text), &roots)
	}
	if err != nil {
		return []string{}, fmt.Errorf("%s: %w", RootsKey, err)
	}
	return roots, nil
}

// TemporaryAbove returns the temporary directory that contains a path, empty for none. A home
// directory below /tmp is as permanent as the account itself, so /tmp is not temporary for
// /tmp/build/bin/symphony if HOME is /tmp/build. ~/tmp is, if TMPDIR names it.
func TemporaryAbove(path string, env *environ.Env) string {
	home := paths.Real(env.Home)
	for _, name := range []string{"/tmp", "/var/tmp", "/dev/shm", env.Getenv("TMPDIR")} {
		if name == "" {
			continue
		}
		temporary := paths.Real(name)
		if !paths.Inside(temporary, path) {
			continue
		}
		atHome := env.Home != "" && temporary != home && paths.Inside(temporary, home) &&
			paths.Inside(home, path)
		if !atHome {
			return name
		}
	}
	return ""
}

// RootFits checks the workspace root before a run starts in it. Unless dryRun is set, it
// claims the root for the project, and a folder of issues for the account.
func RootFits(ctx context.Context, p *Project, cfg *workflow.Config, dryRun bool) error {
	root := paths.Real(cfg.Workspace.Root)
	folder := cfg.Tracker.Folder
	if folder != "" {
		issues, err := paths.Find(folder)
		if err != nil {
			return fmt.Errorf("find the folder of the issues: %w", err)
		}
		workspaces, err := paths.Find(root)
		if err != nil {
			return fmt.Errorf("find the workspace root: %w", err)
		}
		folder = issues.Path
		if paths.Meet(issues, workspaces) {
			return reconcile.NewError(
				"invalid_config",
				fmt.Sprintf(
					"%s: tracker.provider.path: %s overlaps workspace.root %s, where agents write",
					p.Path,
					folder,
					root,
				),
				"keep the issues where agents cannot write",
			)
		}
	}
	_, err := WritableRoots(ctx, p, cfg)
	if err != nil {
		return err
	}
	if len(cfg.Policy.Hosts) == 0 { // otherwise workspaces are elsewhere
		if err := workspace.CheckLinks(cfg.Workspace.Root); err != nil {
			return err
		}
		if err := claimRoot(p, cfg, root, dryRun); err != nil {
			return err
		}
	}
	if folder == "" || !Exists(folder) {
		return nil
	}
	return file.Claim(folder, paths.Real(StateHome(p.Env)), p.Env.Now(), dryRun)
}

// UnclaimFolder gives up the account's claim on a folder of issues, if that is what identity
// (Policy.Project) names. The next pass of another project with this folder renews it.
func UnclaimFolder(w *environ.Env, identity string) error {
	folder, is := strings.CutPrefix(identity, "file ")
	if !is {
		return nil
	}
	return file.Unclaim(paths.Real(folder), paths.Real(StateHome(w)))
}

// claimRoot claims the workspace root for the project, or returns the reason why it can't.
func claimRoot(p *Project, cfg *workflow.Config, root string, dryRun bool) (err error) {
	var moved error
	refuse := func(project, stateDir string) error {
		moved = refuseMoved(p, cfg, project, stateDir)
		return moved
	}
	if dryRun {
		err = workspace.CheckRoot(root, cfg.Policy.Project, p.StateDir, refuse)
	} else if opened, openErr := workspace.OpenRoot(root); openErr != nil {
		return openErr
	} else {
		err = opened.Projects().Claim(cfg.Policy.Project, p.StateDir, refuse)
	}
	if known, ok := errors.AsType[*reconcile.Error](err); ok && known.Code == workspace.CodeProjectConflict &&
		moved == nil {
		hintMoved(p, known)
	}
	return err
}

// CheckReport is the result of checking a workflow.
type CheckReport struct {
	Workflow string             `json:"workflow"`
	OK       bool               `json:"ok"`
	Errors   []*reconcile.Error `json:"errors"`
	Warnings []string           `json:"warnings"`
	Tracker  *TrackerReport     `json:"tracker,omitempty"` // nil if it was not checked
}

// CheckResult parses the workflow as a pass would, without the tracker's key, and checks every
// branch of the template. The configuration is nil if the workflow can't be parsed.
func CheckResult(p *Project) (CheckReport, *workflow.Config) {
	out := CheckReport{Workflow: p.Path, Warnings: []string{}}
	err := p.SourceErr
	var cfg *workflow.Config
	if err == nil {
		cfg, err = p.parseWithoutKey(p.Source)
	}
	out.Errors = text.Map(
		slices.Concat(workflow.Faults(err), workflow.Faults(p.EnvErr)),
		func(e *reconcile.Error) *reconcile.Error {
			return reconcile.NewError(e.Code, e.Message, cmp.Or(e.Hint, "correct that line"))
		},
	)
	if cfg != nil {
		out.Warnings = text.Map(cfg.Warnings, workflow.Warning.String)
		if cfg.Prompt != nil {
			for _, problem := range cfg.Prompt.Check() {
				const hint = "correct that line of the prompt: a run that renders it fails"
				out.Errors = append(
					out.Errors,
					reconcile.NewError(workflow.CodeTemplateRender, problem.String(), hint),
				)
			}
		}
	}
	if err == nil {
		out.Errors = append(out.Errors, scriptFaults(p, cfg)...)
	}
	out.OK = len(out.Errors) == 0
	if err != nil {
		cfg = nil
	}
	return out, cfg
}

// scriptFaults returns an error for each script that its shell can't read. Nothing is run.
func scriptFaults(p *Project, cfg *workflow.Config) (list []*reconcile.Error) {
	for _, h := range []struct{ key, shell, script string }{
		{"hooks.after_create", "sh", cfg.Hooks.AfterCreate},
		{"hooks.before_run", "sh", cfg.Hooks.BeforeRun},
		{"hooks.after_run", "sh", cfg.Hooks.AfterRun},
		{"hooks.before_remove", "sh", cfg.Hooks.BeforeRemove},
		{"hooks.on_attention", "sh", cfg.Hooks.OnAttention},
		{"verify.command", "bash", cfg.Verify.Command},
	} {
		if strings.TrimSpace(h.script) == "" {
			continue
		}
		message, inScript := workspace.CheckScript(h.shell, h.script)
		if message == "" {
			continue
		}
		line := cfg.Lines[h.key]
		// it begins on the line after its key
		if more := strings.Count(strings.TrimSpace(h.script), "\n"); more > 0 {
			line += min(inScript, more+1)
		}
		list = append(
			list,
			reconcile.NewError(
				workflow.CodeInvalid,
				fmt.Sprintf("%s:%d: %s: %s", p.Path, line, h.key, message),
				fmt.Sprintf("correct the script, which is run by %s; %[1]s -n checks it", h.shell),
			),
		)
	}
	return list
}

// folderFaults returns an error if the folder of the issues is missing.
func folderFaults(p *Project, cfg *workflow.Config) []*reconcile.Error {
	folder := cfg.Tracker.Folder
	if folder == "" || Exists(folder) {
		return nil
	}
	var names []string
	entries, _ := os.ReadDir(filepath.Dir(folder)) // without it nothing is suggested
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	hint := "create the folder, or correct the path"
	if near := text.Nearest(filepath.Base(folder), names); len(near) > 0 {
		hint = "did you mean " + filepath.Join(filepath.Dir(folder), near[0]) + "?"
	}
	message := fmt.Sprintf("%s: tracker.provider.path: %s does not exist", p.Path, folder)
	return []*reconcile.Error{reconcile.NewError("tracker_project_not_found", message, hint)}
}

// Err returns an exit.Only if the check has found an error, which the caller has printed.
func (out CheckReport) Err() error {
	switch {
	case !out.OK:
		return exit.Only(exit.Workflow)
	case out.Tracker != nil && out.Tracker.code != exit.OK:
		return exit.Only(out.Tracker.code)
	}
	return nil
}

// CheckFile checks the workflow, and its tracker if withTracker is set.
func CheckFile(ctx context.Context, p *Project, withTracker bool) (CheckReport, error) {
	out, cfg := CheckResult(p)
	if cfg != nil {
		out.Errors = append(out.Errors, folderFaults(p, cfg)...)
		out.OK = len(out.Errors) == 0
		if l := Launcher(ctx, p, cfg, p.Environ()); l.Program != "" && !cfg.Codex.TrustLauncher {
			out.Warnings = append(out.Warnings, LauncherWarning(l)+": "+runner.LauncherHint(l))
		}
	}
	var err error
	if withTracker && out.OK {
		out.Tracker, err = CheckTracker(ctx, p)
	}
	return out, err
}
