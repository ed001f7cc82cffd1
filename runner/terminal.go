package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

// Session runs the agent's own terminal on a thread, or on a new thread if thread is "", until
// it ends. home is the home of the thread, "" for the workflow's. If ctx ends, the agent
// is asked to end, too. It returns the agent's exit code.
func (h *Holding) Session(ctx context.Context, thread, home string, io host.Stdio) (code int, err error) {
	own := h.job.site.Config.AgentHome
	if own == "" && home != "" {
		h.job.site.Config.NamedHome = home
	}
	if own != "" && home != "" && !paths.SameDir(home, own) {
		thread = "" // the thread is in a home with the operator's rights
	}
	command, err := h.command(ctx, thread)
	if err != nil {
		return 0, err
	}
	request, err := h.job.shell.agent(ctx, command)
	if err != nil {
		return 0, err
	}
	if request.Box != nil {
		request.Box.Terminal = true
		request.Box.Programs = append(request.Box.Programs, programsOf(h.program())...)
	}
	h.started = true
	code, err = h.job.site.host.RunInTerminal(ctx, request, io, func(ctx context.Context) {
		repeat(ctx, heartbeat, func() { h.job.processes.observe() })
	})
	crash.At("runner.takeover.ended")
	if errors.Is(err, host.ErrNotStarted) {
		err = noShell(h.Here.Config.Agent, err)
	}
	return code, err
}

// command returns the shell command for the agent's terminal. A kind without one gets the command
// of the workflow, with the word app-server replaced by the settings that a run sends in
// thread/start and turn/start.
func (h *Holding) command(ctx context.Context, thread string) (string, error) {
	if terminal := h.Here.Config.Agent.Terminal; terminal != nil {
		words := terminal(thread, h.Here.Config.Model)
		if !h.Here.Config.TrustRepository {
			words = append(words, h.Here.Config.Agent.Untrusting.Words...)
		}
		return strings.Join(text.Map(words, text.ShellWord), " "), nil
	}
	before, after, err := cutServer(h.Here.Config.Agent, h.program())
	if err != nil {
		return "", err
	}
	args, err := h.arguments(ctx)
	if err != nil {
		return "", err
	}
	if thread != "" {
		args = append([]string{"resume", thread}, args...)
	}
	// Newer releases share a server between sessions. It would have neither this environment
	// nor the lease.
	line := `alone=; case "$(` + before + `resume --help 2>&1)" in *--no-daemon*) alone=--no-daemon ;; esac; ` + before
	for _, arg := range args {
		line += text.ShellWord(arg) + " "
	}
	return line + "$alone" + after, nil
}

// program returns the agent's command as it starts in the sandbox of symphony, where ~ is
// another home.
func (h *Holding) program() string {
	config := h.job.site.Config
	if config.Sandbox == nil {
		return config.Command
	}
	return atHome(config.Command, config.Sandbox.AccountHome)
}

var serverWord = text.Pattern(`(?:^|\s)(app-server)(?:\s|$)`)

// cutServer returns what is before and after the word app-server in a command.
func cutServer(kind agent.Kind, command string) (before, after string, err error) {
	at := serverWord().FindAllStringSubmatchIndex(command, -1)
	if len(at) != 1 {
		return "", "", incompatible(
			fmt.Sprintf("%s must contain the word app-server exactly once: %.200s", kind.CommandKey, command),
			"takeover replaces that word to open "+kind.Title+"'s own terminal; change "+kind.CommandKey,
		)
	}
	return command[:at[0][2]], command[at[0][3]:], nil
}

// arguments returns the settings of a run as arguments of the agent.
func (h *Holding) arguments(ctx context.Context) ([]string, error) {
	space := *h.job.site.space
	open := h.job.site.Config.Config
	open.PassEnv = nil // not passed on, because secret values would appear on a command line
	config, err := open.ThreadConfig(ctx, h.Here.Machine, h.ID, space, h.job.shell.agentEnv())
	if err != nil {
		return nil, err
	}
	config["check_for_update_on_startup"] = false
	sandbox, err := h.sandbox(ctx, config)
	if err != nil {
		return nil, err
	}
	approval, err := h.approval(config)
	if err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"--cd", space.Path}, sandbox, approval)
	for _, key := range slices.Sorted(maps.Keys(config)) {
		args = append(args, "-c", key+"="+confine.TOML(config[key]))
	}
	return args, nil
}

// approval translates the approval policy of a run's turns into flags of the agent's command line.
// A policy that is no word, such as {"granular": {"rules": true}}, has no flag: it is added to
// config.
func (h *Holding) approval(config map[string]any) (flags []string, err error) {
	key := h.Here.Config.Agent.Key("approval_policy")
	var policy any
	if err := json.Unmarshal(h.Here.Config.ApprovalPolicy, &policy); err != nil {
		return nil, incompatible(key+": "+err.Error(), "correct it in the workflow")
	}
	switch policy := policy.(type) {
	case string:
		return []string{"--ask-for-approval", policy}, nil
	case map[string]any:
		config["approval_policy"] = withoutNulls(policy)
		return nil, nil
	}
	return nil, incompatible(key+": neither a word nor an object", "correct it in the workflow")
}

// withoutNulls returns an object without the members that are null, which TOML can't express.
func withoutNulls(object map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range object {
		if value == nil {
			continue
		}
		if inner, isObject := value.(map[string]any); isObject {
			value = withoutNulls(inner)
		}
		out[name] = value
	}
	return out
}

// WithheldPassEnv returns the variables of agent.pass_env that commands of a session do not
// get, because the agent takes them for secrets.
func (h *Holding) WithheldPassEnv() []string {
	return slices.DeleteFunc(
		slices.Clone(h.Here.Config.PassEnv),
		func(name string) bool { return !confine.LooksSecret(name) },
	)
}

// sandbox translates the policy of a run's turns into flags of the agent's command line and
// settings, which it adds to config.
func (h *Holding) sandbox(ctx context.Context, config map[string]any) (flags []string, err error) {
	raw, profile, err := h.job.site.profile(ctx)
	if err != nil {
		return nil, err
	}
	if profile != nil {
		confine.AddProfile(config, profile)
		return nil, nil
	}
	kind := h.Here.Config.Agent
	var p struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
		NetworkAccess bool     `json:"networkAccess"`
		NoTmpdir      bool     `json:"excludeTmpdirEnvVar"`
		NoSlashTmp    bool     `json:"excludeSlashTmp"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, incompatible(kind.Key("turn_sandbox_policy")+": "+err.Error(), "correct it in the workflow")
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
		fmt.Sprintf(
			"%s's terminal knows no sandbox of type %q (%s)",
			kind.Title,
			p.Type,
			kind.Key("turn_sandbox_policy"),
		),
		"symphony show prints the workspace and the thread: run "+kind.Title+" yourself",
	)
}
