package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// Files in the directory of an agent's run.
const (
	settingsFile = "agent.json"
	// a FIFO; its worker reads it, and a client writes a byte after storing a call
	wakeFile = "wake"
)

// Settings of an agent, which do not change while it lives.
type Settings struct {
	ID  string `json:"id"`
	Cwd string `json:"cwd"` // absolute, without symlinks
	// Shared: other agents may work in the same directory.
	Shared bool `json:"shared,omitempty"`
	// Worktree: the agent works in a clone of the repository around Cwd, which takes the place
	// of Cwd; nil for Cwd itself.
	Worktree *Worktree `json:"worktree,omitempty"`
	// Codex is the program of codex; if it is empty, a login shell finds the program.
	Codex string `json:"codex,omitempty"`
	// AutoApprove approves every request of codex; for tests.
	AutoApprove     bool          `json:"autoApprove,omitempty"`
	ApprovalTimeout time.Duration `json:"approvalTimeout"`
	CallTimeout     time.Duration `json:"callTimeout"`
	IdleTimeout     time.Duration `json:"idleTimeout"` // 0: never
	// Permit reports whether the operator permitted agents in a directory. Nil permits all.
	// It returns an error for a directory in which even a person can't permit them, such as
	// ~/.ssh.
	Permit func(dir paths.Place) (permitted bool, err error) `json:"-"`
	// Permission is the question for a person if the operator did not permit the directory,
	// else nil.
	Permission *Permission `json:"permission,omitempty"`
	// Host is the process with which the agent ends; nil if it outlives its host.
	Host *reconcile.Handle `json:"host,omitempty"`
}

// Defaults of the settings.
const (
	DefaultApprovalTimeout = 15 * time.Minute
	DefaultCallTimeout     = time.Minute
	DefaultIdleTimeout     = time.Hour

	turnSilence = time.Hour       // without a line of codex during a turn
	turnStall   = 5 * time.Minute // without progress during a turn
)

// prepare validates the settings and completes them: with the directory without symlinks, the
// worktree, and the question for a person. It refuses a symlink in a directory where an agent
// worked, because the agent may have made it.
func (s *Settings) prepare(ctx context.Context, a *Agents) error {
	if !validID().MatchString(s.ID) {
		return reconcile.NewError(CodeInvalid, fmt.Sprintf("id %q is not valid", s.ID),
			"use up to 64 letters, digits, - and _, beginning with a letter or digit")
	}
	place, err := findDir(s.Cwd)
	if err != nil {
		return err
	}
	if err := a.p.Nested(); err != nil {
		return err
	}
	if s.Worktree != nil {
		return s.prepareWorktree(ctx, a.p, place)
	}
	known, err := a.DB.Clients.FreeAgents(ctx)
	if err != nil {
		return err
	}
	if err := refuseMadeLinks(place, known); err != nil {
		return err
	}
	s.Cwd = place.Path
	if err := outsideOthers(a.p, place); err != nil {
		return err
	}
	if _, err := guarded(ctx, a.p.Env, place); err != nil {
		return err
	}
	return s.setQuestion(place)
}

// prepareWorktree is prepare for an agent in a worktree. The operator may have permitted the
// directory, or the whole repository around it.
func (s *Settings) prepareWorktree(ctx context.Context, p *wiring.Project, place paths.Place) error {
	permitted, err := s.permits(place)
	if err != nil {
		return err
	}
	if err := s.placeWorktree(ctx, p); err != nil {
		return err
	}
	if permitted {
		s.Permission = nil
		return nil
	}
	source, err := findDir(s.Worktree.Source)
	if err != nil {
		return err
	}
	return s.setQuestion(source)
}

// permits reports whether the operator permitted agents in a directory.
func (s *Settings) permits(dir paths.Place) (bool, error) {
	if s.Permit == nil {
		return true, nil
	}
	return s.Permit(dir)
}

// setQuestion sets the question for a person, unless the operator permitted agents in a directory.
func (s *Settings) setQuestion(dir paths.Place) error {
	permitted, err := s.permits(dir)
	if err != nil {
		return err
	}
	if permitted {
		s.Permission = nil
		return nil
	}
	if s.Permission == nil {
		s.Permission = &Permission{}
	}
	s.Permission.Dir = dir.Path
	return nil
}

// refuseMadeLinks refuses a directory whose path has a symlink that one of the known agents
// may have made.
func refuseMadeLinks(place paths.Place, known []reconcile.Run) error {
	for _, run := range known {
		theirs, err := paths.Find(run.WorkspacePath)
		if err != nil && run.Outcome != "" {
			// the path is now a circle of links, or leads into /proc: no other links can be in
			// there
			continue
		}
		if err != nil {
			return fmt.Errorf("find the directory of agent %s: %w", run.Identifier, err)
		}
		for _, link := range place.Links {
			if link.Inside(theirs) && !link.Same(theirs) { // it can't replace its own directory
				return reconcile.NewError(
					CodeInvalid,
					fmt.Sprintf(
						"cwd: %s is a symlink, which agent %s may have made",
						link.Path,
						run.Identifier,
					),
					"name the directory to which it leads, if that is the one",
				)
			}
		}
	}
	return nil
}

// outsideOthers refuses a directory that is a part of symphony, of codex, of a repository's
// git directory, or of an issue's workspace.
func outsideOthers(p *wiring.Project, dir paths.Place) error {
	own, err := wiring.OwnPlaces(p.Env)
	if err != nil {
		return err
	}
	for _, place := range own {
		if paths.Meet(dir, place) {
			return reconcile.NewError(
				CodeInvalid,
				fmt.Sprintf(
					"cwd: an agent in %s could change %s, which belongs to symphony or codex",
					dir.Path,
					place.Path,
				),
				"choose a directory that is neither inside nor around it",
			)
		}
	}
	for _, name := range dir.Names() {
		if around := wiring.ThisMachine().GitAround(name); around != "" {
			return reconcile.NewError(
				CodeInvalid,
				fmt.Sprintf(
					"cwd: %s is in the git directory %s, from which git starts programs",
					dir.Path,
					around,
				),
				"name the work tree",
			)
		}
	}
	if wiring.AgentsWriteIn(p.Env, dir) {
		return reconcile.NewError(
			CodeInvalid,
			"cwd: "+dir.Path+" is in the workspace of an issue",
			"use symphony takeover there",
		)
	}
	return nil
}

// guarded returns paths below the directory of an agent that belong to the operators of
// projects, or from which the account's programs are started, by names below that directory
// without symlinks. It adds the WORKFLOW.md of the directory, and the file HEAD that would
// make the directory itself a repository. Some paths need not exist. Error: CodeInvalid if the
// directory is within such a path, or if the sandbox could not protect a path.
func guarded(ctx context.Context, w *environ.Env, dir paths.Place) ([]string, error) {
	files, err := wiring.OperatorFiles(ctx, w)
	if err != nil {
		return nil, err
	}
	if confine.IsPattern(dir.Path) {
		return nil, reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf(
				"cwd: %s has one of *?[]{} in its path, which codex's sandbox takes for a pattern",
				dir.Path,
			),
			"choose another directory",
		)
	}
	list, err := ownNames(w, dir)
	if err != nil {
		return nil, err
	}
	obeyed, err := wiring.ObeyedPlaces(w)
	if err != nil {
		return nil, err
	}
	for _, place := range obeyed {
		if !dir.Inside(place) {
			files = append(files, wiring.Guarded{Place: place})
		}
	}
	for _, one := range files {
		below, err := pathsBelow(dir, one)
		if err != nil {
			return nil, err
		}
		list = append(list, below...)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// ownNames returns the paths in a directory that would make it a project or a repository.
func ownNames(w *environ.Env, dir paths.Place) (list []string, err error) {
	worktrees, err := paths.Find(wiring.WorktreesDir(w))
	if err != nil {
		return nil, fmt.Errorf("find the worktrees: %w", err)
	}
	if !dir.Inside(worktrees) { // a workflow in a worktree is never obeyed
		list = append(list, filepath.Join(dir.Path, "WORKFLOW.md"))
	}
	if !wiring.Exists(filepath.Join(dir.Path, ".git")) {
		list = append(list, filepath.Join(dir.Path, "HEAD"))
	}
	return list, nil
}

// pathsBelow returns the paths by which a guarded file is reached below a directory. Its error
// is CodeInvalid if an agent in the directory could change the file nevertheless.
func pathsBelow(dir paths.Place, file wiring.Guarded) (list []string, err error) {
	if dir.Inside(file.Place) {
		return nil, reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf(
				"cwd: an agent in %s could change %s, which belongs to a project of symphony",
				dir.Path,
				file.Path,
			),
			"choose a directory that is neither the same nor inside",
		)
	}
	for _, link := range file.Links {
		if link.Inside(dir) {
			return nil, reconcile.NewError(
				CodeInvalid,
				fmt.Sprintf(
					"cwd: an agent in %s could replace the symlink %s, which leads to a file of a "+
						"project, or to programs",
					dir.Path,
					link.Path,
				),
				"name the file itself in the project or in PATH, or choose another directory",
			)
		}
	}
	for _, name := range file.Below(dir) {
		path := filepath.Join(dir.Path, name)
		if confine.IsPattern(path) {
			return nil, reconcile.NewError(
				CodeInvalid,
				fmt.Sprintf(
					"cwd: an agent in %s could change %s: codex's sandbox takes its path for a pattern",
					dir.Path,
					path,
				),
				"choose another directory",
			)
		}
		list = append(list, path)
	}
	return list, nil
}

// stillGuarded is guarded for an agent that works in a directory already. The directory must
// not have been replaced by a link.
func stillGuarded(ctx context.Context, w *environ.Env, dir string) ([]string, error) {
	place, err := paths.Find(dir)
	if err != nil {
		return nil, fmt.Errorf("find the directory of the agent: %w", err)
	}
	if place.Path != dir {
		return nil, reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf("cwd: %s leads to %s now", dir, place.Path),
			"spawn another agent there",
		)
	}
	return guarded(ctx, w, place)
}

// findDir returns the directory with an absolute path. It must be readable.
func findDir(dir string) (paths.Place, error) {
	const hint = "give the absolute path of an existing directory"
	if !filepath.IsAbs(dir) {
		return paths.Place{}, reconcile.NewError(
			CodeInvalid,
			fmt.Sprintf("cwd %q is not an absolute path", dir),
			hint,
		)
	}
	place, err := paths.Find(dir)
	if errors.Is(err, paths.ErrProc) {
		return place, reconcile.NewError(
			CodeInvalid,
			"cwd: "+dir+" leads into /proc, and from there perhaps to any other directory",
			"name the directory itself",
		)
	}
	if err == nil {
		err = readableDir(dir)
	}
	if err != nil {
		return place, reconcile.NewError(CodeInvalid, "cwd: "+err.Error(), hint+" that you may read")
	}
	return place, nil
}

func readableDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	err = unix.Access(dir, unix.R_OK|unix.X_OK)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

func readSettings(dir string) (s Settings, err error) {
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("settings of the agent: %w", err)
	}
	return s, nil
}

// runnerConfig is the configuration of the worker of an agent. The git directory is protected,
// unlike in a workspace: the directory is the user's own, and git there would run whatever an
// agent leaves.
func (s Settings) runnerConfig(p *wiring.Project) runner.Config {
	account := wiring.OpenAccount(p, "")
	kind, _ := wiring.AgentOf(workflow.AgentCodex) // without it the run is refused
	command := "codex app-server"
	if s.Codex != "" {
		command = text.ShellWord(s.Codex) + " app-server"
	}
	c := runner.Config{
		Config: confine.Config{
			ApprovalPolicy: json.RawMessage(`"on-request"`),
			OnQuestion:     agent.QuestionAsk,
			Secrets:        workflow.EveryKeyVar(),
			ProtectGit:     true,
			Unreadable:     wiring.SecretFiles(p, account),
			LoginHome:      account.Home,
			AgentHome:      account.AgentHome(),
		},
		Agent:             kind,
		Command:           command,
		TrustLauncher:     s.Codex != "",
		ReadTimeout:       cmp.Or(s.CallTimeout, DefaultCallTimeout),
		InitializeTimeout: cmp.Or(s.CallTimeout, DefaultCallTimeout) / 2,
		TurnTimeout:       turnSilence,
		StallTimeout:      turnStall,
		OnApproval:        agent.ApprovalAsk,
		AnswerTimeout:     cmp.Or(s.ApprovalTimeout, DefaultApprovalTimeout),
	}
	s.setWorktree(&c)
	if s.AutoApprove {
		c.OnApproval = agent.ApprovalApprove
	}
	return c
}
