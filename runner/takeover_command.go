package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// command is the shell line that opens codex's terminal: codex.command, with its word app-server replaced. It runs as an
// agent's does: in the workspace, without the secrets that the login profile may set.
func (t *Takeover) command(ctx context.Context, thread string) (string, error) {
	at := regexp.MustCompile(`(?:^|\s)(app-server)(?:\s|$)`).FindAllStringSubmatchIndex(t.Config.Command, -1)
	if len(at) != 1 {
		return "", incompatible(fmt.Sprintf("codex.command has no single word app-server: %.200s", t.Config.Command),
			"takeover puts codex's own terminal in its place: write the command so that the word stands in it once")
	}
	before, after := t.Config.Command[:at[0][2]], t.Config.Command[at[0][3]:]
	args, err := t.arguments(ctx)
	if err != nil {
		return "", err
	}
	if thread != "" {
		args = append([]string{"resume", thread}, args...)
	}
	// Newer releases share a server between sessions, which would know neither this environment nor the lease.
	line := `alone=; case "$(` + before + `resume --help 2>&1)" in *--no-daemon*) alone=--no-daemon ;; esac; ` + before
	for _, arg := range args {
		line += proc.ShellWord(arg) + " "
	}
	return proc.ShellIn(t.step.space.Path, proc.ShellUnset(t.Config.withheld(t.Env), line+"$alone"+after)), nil
}

// arguments tell codex what a run tells it in thread/start and turn/start.
func (t *Takeover) arguments(ctx context.Context) ([]string, error) {
	config, err := t.step.Config.threadConfig(ctx, &t.host, t.ID, *t.step.space, nil)
	if err != nil {
		return nil, err
	}
	// Commands get no variable that looks like a secret, agent.pass_env or not: its value would stand on a command line.
	// A login shell could bring it back.
	config["allow_login_shell"], config["features.shell_snapshot"] = false, false
	config["check_for_update_on_startup"] = false
	mode, err := t.sandbox(ctx, config)
	if err != nil {
		return nil, err
	}
	args := []string{"--cd", t.step.space.Path, "--sandbox", mode}
	var policy string
	if err := json.Unmarshal(t.Config.ApprovalPolicy, &policy); err == nil && policy != "" {
		args = append(args, "--ask-for-approval", policy)
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		args = append(args, "-c", key+"="+toml(config[key]))
	}
	return args, nil
}

// LeftOut names the variables of agent.pass_env that commands of a session do not get, because they hold secrets.
func (t *Takeover) LeftOut() []string {
	return slices.DeleteFunc(slices.Clone(t.Config.PassEnv), func(name string) bool { return !excludedByCodex(name) })
}

// sandbox returns the mode of codex's command line for the policy of a run's turns, and adds its settings to config.
func (t *Takeover) sandbox(ctx context.Context, config map[string]any) (mode string, err error) {
	raw, err := t.step.Config.sandboxPolicy(ctx, &t.host, *t.step.space)
	if err != nil {
		return "", err
	}
	var p struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
		NetworkAccess bool     `json:"networkAccess"`
		NoTmpdir      bool     `json:"excludeTmpdirEnvVar"`
		NoSlashTmp    bool     `json:"excludeSlashTmp"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return "", incompatible("codex.turn_sandbox_policy: "+err.Error(), "correct it in the workflow")
	}
	switch p.Type {
	case "workspaceWrite":
		config["sandbox_workspace_write"] = map[string]any{
			"writable_roots": append([]string{}, p.WritableRoots...), "network_access": p.NetworkAccess,
			"exclude_tmpdir_env_var": p.NoTmpdir, "exclude_slash_tmp": p.NoSlashTmp,
		}
		return "workspace-write", nil
	case "readOnly":
		return "read-only", nil
	case "dangerFullAccess":
		return "danger-full-access", nil
	}
	return "", incompatible(fmt.Sprintf("codex's terminal knows no sandbox of type %q (codex.turn_sandbox_policy)", p.Type),
		"symphony show names the workspace and the thread: open them by hand")
}

// toml encodes a value: tables in one line, the rest as JSON, which TOML reads as well.
func toml(value any) string {
	if table, ok := value.(map[string]any); ok {
		pairs := make([]string, 0, len(table))
		for _, key := range slices.Sorted(maps.Keys(table)) {
			pairs = append(pairs, toml(key)+"="+toml(table[key]))
		}
		return "{" + strings.Join(pairs, ",") + "}"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return `""` // strings, booleans and lists of strings always encode
	}
	return strings.TrimSpace(b.String())
}

// incompatible says that codex.command can't be made to open a session.
func incompatible(message, hint string) error {
	return &reconcile.Error{Code: string(agent.CodeIncompatible), Message: message, Hint: hint}
}
