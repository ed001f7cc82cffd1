package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

// Takeover gives the workspace of an issue to an operator, with the same lease, sandbox and
// environment as an agent gets, and the same cleanup afterwards. Close must be called, even
// after an error.
//
//	Take ─► Session ─► Close
//	CleanUp ─► Close
type Takeover struct {
	Config   Config
	StateDir string
	// used like a run's id: it marks the processes, and the workspace's record names it as the
	// last holder
	ID    string
	Issue reconcile.Issue
	Root  string // the workspace root of the claim
	// Delivered is what was pushed last for the issue. A new workspace begins there.
	Delivered reconcile.Delivered
	Env       []string
	Now       func() time.Time
	Log       *slog.Logger

	Machine host.Machine
	// Hold makes a directory count as that of a live run until the result is closed.
	Hold func(dir string) (io.Closer, error)

	step    *workspaceStep
	alive   io.Closer
	started bool // a session, which may have left processes
}

// Take takes the workspace, which it creates if there is none, and ends processes that the
// last holder left. The error is workspace_busy if a run holds it. It does not run before_run,
// which is for agents.
func (t *Takeover) Take(ctx context.Context) (host.Workspace, error) {
	err := t.open()
	if err == nil {
		err = t.step.take(ctx)
	}
	if err == nil {
		err = t.step.guardGit(ctx)
	}
	crash.At("runner.takeover.taken")
	if err != nil {
		return host.Workspace{}, err
	}
	return *t.step.space, nil
}

// CleanUp removes the workspace and empties the trash, as a cleanup run does. It returns the
// work that exists nowhere else, because of which the workspace was kept; with discard even
// that is removed.
func (t *Takeover) CleanUp(ctx context.Context, discard bool) (unsaved string, err error) {
	if err := t.open(); err != nil {
		return "", err
	}
	return t.step.cleanUp(ctx, discard)
}

const takeoverDir = "directory of the takeover"

// open creates the directory of the takeover, which is laid out like that of a run.
func (t *Takeover) open() error {
	dir := host.RunDir(t.StateDir, t.ID)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		t.alive, err = t.Hold(dir)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", takeoverDir, err)
	}
	w := &Worker{
		Here:     Place{Machine: t.Machine, StateDir: t.StateDir, Env: t.Env, Config: t.Config},
		Dir:      dir,
		Now:      t.Now,
		Log:      t.Log,
		Redactor: agent.NewRedactor(slices.Concat(t.Config.SecretValues, t.Config.SecretsIn(t.Env))),
	}
	run := reconcile.Run{
		ID:            t.ID,
		IssueID:       t.Issue.ID,
		Identifier:    t.Issue.Identifier,
		Issue:         t.Issue,
		WorkspaceRoot: t.Root,
	}
	t.step = &workspaceStep{job: w.newJob(run, func(error) {}), delivered: t.Delivered}
	return t.step.open()
}

// Session runs codex's own terminal on a thread, or on a new one if thread is "", until it
// ends. home is the codex home of the thread, "" for the workflow's. If ctx ends, codex is
// asked to end, too. It returns codex's exit code.
func (t *Takeover) Session(ctx context.Context, thread, home string, io host.Stdio) (code int, err error) {
	switch own := t.step.Config.AgentHome; {
	case own == "" && home != "":
		t.step.Config.CodexHome = home
	case own != "" && home != "" && !paths.SameDir(home, own):
		thread = "" // the thread is in a home with the operator's rights
	}
	command, err := t.command(ctx, thread)
	if err != nil {
		return 0, err
	}
	shell, env, err := t.step.codexShell(ctx, command)
	if err != nil {
		return 0, err
	}
	t.started = true
	code, err = t.step.host.RunInTerminal(ctx, shell, env, io, func(ctx context.Context) {
		repeat(ctx, heartbeat, func() { t.step.observe(host.ObserveRequest{}) })
	})
	crash.At("runner.takeover.ended")
	if errors.Is(err, host.ErrNotStarted) {
		err = noShell(err)
	}
	return code, err
}

// Close ends all processes that the session has left, restores git settings as after an agent,
// and releases the workspace. If that fails, the next holder of the workspace does it.
func (t *Takeover) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	if t.step != nil {
		if t.started { // otherwise children of this process are not of the takeover
			err = t.step.killAll(ctx)
		}
		if err == nil {
			err = t.step.restoreGit(ctx)
		}
		err = errors.Join(err, t.step.host.Finish(ctx))
		t.step.close()
	}
	if t.alive != nil {
		err = errors.Join(err, t.alive.Close())
	}
	if err == nil {
		err = os.RemoveAll(host.RunDir(t.StateDir, t.ID))
	}
	return err
}

// command returns the shell command for codex's terminal: codex.command with the word
// app-server replaced by the settings that a run sends in thread/start and turn/start.
func (t *Takeover) command(ctx context.Context, thread string) (string, error) {
	at := regexp.MustCompile(`(?:^|\s)(app-server)(?:\s|$)`).FindAllStringSubmatchIndex(t.Config.Command, -1)
	if len(at) != 1 {
		return "", incompatible(
			fmt.Sprintf(
				"codex.command must contain the word app-server exactly once: %.200s",
				t.Config.Command,
			),
			"takeover replaces that word to open codex's own terminal; change codex.command",
		)
	}
	before := t.Config.Command[:at[0][2]]
	after := t.Config.Command[at[0][3]:]
	open := t.step.Config.Config
	open.PassEnv = nil // not passed on, because secret values would appear on a command line
	config, err := open.ThreadConfig(ctx, t.Machine, t.ID, *t.step.space, t.step.codexEnv())
	if err != nil {
		return "", err
	}
	config["check_for_update_on_startup"] = false
	sandbox, err := t.sandbox(ctx, config)
	if err != nil {
		return "", err
	}
	args := append([]string{"--cd", t.step.space.Path}, sandbox...)
	if thread != "" {
		args = append([]string{"resume", thread}, args...)
	}
	var approval string
	if err := json.Unmarshal(t.Config.ApprovalPolicy, &approval); err == nil && approval != "" {
		args = append(args, "--ask-for-approval", approval)
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		args = append(args, "-c", key+"="+confine.TOML(config[key]))
	}
	// Newer releases share a server between sessions. It would have neither this environment
	// nor the lease.
	line := `alone=; case "$(` + before + `resume --help 2>&1)" in *--no-daemon*) alone=--no-daemon ;; esac; ` + before
	for _, arg := range args {
		line += text.ShellWord(arg) + " "
	}
	return line + "$alone" + after, nil
}

// WithheldPassEnv returns the variables of agent.pass_env that commands of a session do not
// get, because codex takes them for secrets.
func (t *Takeover) WithheldPassEnv() []string {
	return slices.DeleteFunc(
		slices.Clone(t.Config.PassEnv),
		func(name string) bool { return !confine.ExcludedByCodex(name) },
	)
}

// sandbox translates the policy of a run's turns into flags of codex's command line and
// settings, which it adds to config.
func (t *Takeover) sandbox(ctx context.Context, config map[string]any) (flags []string, err error) {
	raw, err := t.step.Config.TurnPolicy(ctx, t.Machine, *t.step.space)
	if err != nil {
		return nil, err
	}
	profile, err := t.step.Config.Profile(ctx, t.Machine, raw)
	if err != nil {
		return nil, err
	}
	if profile != nil {
		confine.AddProfile(config, profile)
		return nil, nil
	}
	var p struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
		NetworkAccess bool     `json:"networkAccess"`
		NoTmpdir      bool     `json:"excludeTmpdirEnvVar"`
		NoSlashTmp    bool     `json:"excludeSlashTmp"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, incompatible("codex.turn_sandbox_policy: "+err.Error(), "correct it in the workflow")
	}
	switch p.Type {
	case "workspaceWrite":
		config["sandbox_workspace_write"] = map[string]any{
			"writable_roots":         append([]string{}, p.WritableRoots...),
			"network_access":         p.NetworkAccess,
			"exclude_tmpdir_env_var": p.NoTmpdir,
			"exclude_slash_tmp":      p.NoSlashTmp,
		}
		return []string{"--sandbox", "workspace-write"}, nil
	case "readOnly":
		return []string{"--sandbox", "read-only"}, nil
	case "dangerFullAccess":
		return []string{"--sandbox", "danger-full-access"}, nil
	}
	return nil, incompatible(
		fmt.Sprintf("codex's terminal knows no sandbox of type %q (codex.turn_sandbox_policy)", p.Type),
		"symphony show prints the workspace and the thread: run codex yourself",
	)
}
