package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

// Session runs codex's own terminal on a thread, or on a new thread if thread is "", until it
// ends. home is the codex home of the thread, "" for the workflow's. If ctx ends, codex is
// asked to end, too. It returns codex's exit code.
func (h *Holding) Session(ctx context.Context, thread, home string, io host.Stdio) (code int, err error) {
	own := h.step.Config.AgentHome
	if own == "" && home != "" {
		h.step.Config.CodexHome = home
	}
	if own != "" && home != "" && !paths.SameDir(home, own) {
		thread = "" // the thread is in a home with the operator's rights
	}
	command, err := h.command(ctx, thread)
	if err != nil {
		return 0, err
	}
	shell, env, err := h.step.codexShell(ctx, command)
	if err != nil {
		return 0, err
	}
	h.started = true
	code, err = h.step.host.RunInTerminal(ctx, shell, env, io, func(ctx context.Context) {
		repeat(ctx, heartbeat, func() { h.step.observe(host.ObserveRequest{}) })
	})
	crash.At("runner.takeover.ended")
	if errors.Is(err, host.ErrNotStarted) {
		err = noShell(err)
	}
	return code, err
}

// command returns the shell command for codex's terminal: codex.command with the word
// app-server replaced by the settings that a run sends in thread/start and turn/start.
func (h *Holding) command(ctx context.Context, thread string) (string, error) {
	at := regexp.MustCompile(`(?:^|\s)(app-server)(?:\s|$)`).FindAllStringSubmatchIndex(h.Here.Config.Command, -1)
	if len(at) != 1 {
		return "", incompatible(
			fmt.Sprintf(
				"codex.command must contain the word app-server exactly once: %.200s",
				h.Here.Config.Command,
			),
			"takeover replaces that word to open codex's own terminal; change codex.command",
		)
	}
	before := h.Here.Config.Command[:at[0][2]]
	after := h.Here.Config.Command[at[0][3]:]
	open := h.step.Config.Config
	open.PassEnv = nil // not passed on, because secret values would appear on a command line
	config, err := open.ThreadConfig(ctx, h.Here.Machine, h.ID, *h.step.space, h.step.codexEnv())
	if err != nil {
		return "", err
	}
	config["check_for_update_on_startup"] = false
	sandbox, err := h.sandbox(ctx, config)
	if err != nil {
		return "", err
	}
	args := append([]string{"--cd", h.step.space.Path}, sandbox...)
	if thread != "" {
		args = append([]string{"resume", thread}, args...)
	}
	var approval string
	if err := json.Unmarshal(h.Here.Config.ApprovalPolicy, &approval); err == nil && approval != "" {
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
func (h *Holding) WithheldPassEnv() []string {
	return slices.DeleteFunc(
		slices.Clone(h.Here.Config.PassEnv),
		func(name string) bool { return !confine.ExcludedByCodex(name) },
	)
}

// sandbox translates the policy of a run's turns into flags of codex's command line and
// settings, which it adds to config.
func (h *Holding) sandbox(ctx context.Context, config map[string]any) (flags []string, err error) {
	raw, err := h.step.Config.TurnPolicy(ctx, h.Here.Machine, *h.step.space)
	if err != nil {
		return nil, err
	}
	profile, err := h.step.Config.Profile(ctx, h.Here.Machine, raw)
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
