package confine

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// TurnPolicy is the sandbox policy that is sent with every turn, because codex forgets it over a resume. By default the agent may
// write the workspace, its own temporary and cache directories, and what git commit needs. The workflow's own policy passes
// through; a workspaceWrite without writable roots is given these directories.
func (c Config) TurnPolicy(ctx context.Context, h host.Host, w host.Workspace) (json.RawMessage, error) {
	facts, err := h.Facts(ctx, host.FactsRequest{Path: w.Path, GitDirs: true, Opened: c.WritableRoots})
	if err != nil {
		return nil, err
	}
	policy := map[string]any{
		"type": "workspaceWrite", "networkAccess": c.Network, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
	}
	if c.TurnSandboxPolicy != nil {
		policy = nil
		if err := json.Unmarshal(c.TurnSandboxPolicy, &policy); err != nil {
			return c.TurnSandboxPolicy, nil //nolint:nilerr // not an object: codex will refuse it
		}
		if _, has := policy["writableRoots"]; policy["type"] != "workspaceWrite" || has {
			return c.TurnSandboxPolicy, nil
		}
	}
	policy["writableRoots"] = slices.Concat([]string{w.TmpDir, w.CacheDir}, facts.GitWritable, c.WritableRoots)
	return json.Marshal(policy)
}

// networkOf reports whether a policy lets sandboxed commands reach the network.
func networkOf(policy json.RawMessage) bool {
	var p struct {
		NetworkAccess bool `json:"networkAccess"`
	}
	return json.Unmarshal(policy, &p) == nil && p.NetworkAccess
}

// AgentWrites says which directories an agent may write besides its workspace. An agent whose commands can be approved may
// write anywhere, because those run outside of the sandbox.
func (c Config) AgentWrites() (anywhere bool, dirs []string) {
	dirs = c.WritableRoots
	if c.TurnSandboxPolicy != nil {
		var policy struct {
			Type          string    `json:"type"`
			WritableRoots *[]string `json:"writableRoots"`
		}
		err := json.Unmarshal(c.TurnSandboxPolicy, &policy)
		switch {
		case err != nil || policy.Type != "workspaceWrite" && policy.Type != "readOnly":
			return true, nil
		case policy.WritableRoots != nil:
			dirs = *policy.WritableRoots
		}
	}
	return string(c.ApprovalPolicy) != `"never"`, dirs
}

// ThreadConfig is codex's configuration for a thread: no goals, by which codex starts turns itself; no endless reconnecting;
// which variables its commands get; and no trust in the repository, which an operator may have granted earlier, for instance
// while working in the main repository of this worktree. codexEnv are the variables that codex has.
func (c Config) ThreadConfig(ctx context.Context, h host.Host, runID string, w host.Workspace, codexEnv []string) (map[string]any, error) {
	config := map[string]any{
		"features.goals":                        false,
		"features.unbounded_connection_retries": false,
		// Login shells of codex's own, and copies of what they export, would set again what is kept from commands. Codex itself
		// was started by a login shell, and commands have what that exported.
		"allow_login_shell":        false,
		"features.shell_snapshot":  false,
		"shell_environment_policy": c.commandEnv(runID, codexEnv),
	}
	if c.OnQuestion == agent.QuestionAsk {
		config["features.default_mode_request_user_input"] = true // without it the model cannot ask
	}
	if c.TrustRepository && c.ThreadSandbox != nil {
		return config, nil
	}
	facts, err := h.Facts(ctx, host.FactsRequest{Path: w.Path, GitDirs: true})
	if err != nil {
		return nil, err
	}
	untrusted := map[string]any{"trust_level": "untrusted"}
	config["projects"] = map[string]any{w.Path: untrusted, facts.RepoRoot: untrusted}
	return config, nil
}

// probeTries and probePause bound the probes in one workspace. Codex protects a repository by mount points that it makes
// and removes in its git directory. In linked worktrees of one repository two sandboxes can meet there, and one fails.
const (
	probeTries = 5
	probePause = 200 * time.Millisecond
)

// TrySandbox has codex try the sandbox of a turn in the workspace. If that fails it tries the plainest sandbox in elsewhere, a
// directory that no agent can write. What fails there too is the machine's fault, else the workspace's.
//
// Errors: *reconcile.Error of code sandbox_unavailable or sandbox_failed; agent.ErrNoProbe; those of the session.
func TrySandbox(ctx context.Context, s agent.Session, workspace, elsewhere string, policy json.RawMessage) error {
	plainest, err := json.Marshal(map[string]any{"type": "readOnly", "networkAccess": networkOf(policy)})
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		var here, there *agent.Error
		err := s.ProbeSandbox(ctx, workspace, policy)
		if !errors.As(err, &here) || here.Code != agent.CodeSandboxUnavailable {
			return err
		}
		if try == 1 {
			if err := s.ProbeSandbox(ctx, elsewhere, plainest); errors.As(err, &there) && there.Code == agent.CodeSandboxUnavailable {
				return &reconcile.Error{
					Code: string(agent.CodeSandboxUnavailable), Hint: SandboxHint(),
					Message: "codex can't sandbox commands on this machine: " + there.Message,
				}
			} else if err != nil {
				return err
			}
		}
		if try == probeTries {
			return &reconcile.Error{
				Code: "sandbox_failed", Message: "codex can't sandbox commands in " + workspace + ", though it can elsewhere: " + here.Message,
				Hint: "look at what that names: a .git, .codex or .agents that is a symlink or broken, or a path in agent.writable_roots that is missing",
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probePause):
		}
	}
}

// SandboxHint says what to do where this system can't sandbox, and what it costs.
func SandboxHint() string {
	hint := "run symphony outside of another sandbox"
	if runtime.GOOS == "linux" {
		hint = "allow unprivileged user namespaces (sysctl user.max_user_namespaces=15000, and where they exist " +
			"kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0), or install bubblewrap with its " +
			"AppArmor profile; a container must be let make namespaces (--security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
	}
	return hint + "; or, only in a container or virtual machine of its own, codex.turn_sandbox_policy: {type: externalSandbox}: codex " +
		"confines nothing then; or {type: dangerFullAccess}: no sandbox at all, the agent can do whatever this account can"
}
