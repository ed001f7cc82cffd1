package runner

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

// sandboxPolicy is sent with every turn, because codex forgets it over a resume. By default the agent may write the
// workspace, its own temporary and cache directories, and what git commit needs. The workflow's own policy passes
// through; a workspaceWrite without writable roots is given these directories.
func (c Config) sandboxPolicy(ctx context.Context, h host.Host, w host.Workspace) (json.RawMessage, error) {
	facts, err := h.Facts(ctx, host.FactsRequest{Path: w.Path, GitDirs: true, Opened: c.WritableRoots})
	if err != nil {
		return nil, err
	}
	roots := slices.Concat([]string{w.TmpDir, w.CacheDir}, facts.GitWritable, c.WritableRoots)
	if c.TurnSandboxPolicy == nil {
		return json.Marshal(map[string]any{
			"type": "workspaceWrite", "writableRoots": roots, "networkAccess": c.Network,
			"excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
		})
	}
	var policy map[string]any
	if err := json.Unmarshal(c.TurnSandboxPolicy, &policy); err != nil {
		return c.TurnSandboxPolicy, nil //nolint:nilerr // not an object: codex will refuse it
	}
	if _, has := policy["writableRoots"]; policy["type"] != "workspaceWrite" || has {
		return c.TurnSandboxPolicy, nil
	}
	policy["writableRoots"] = roots
	return json.Marshal(policy)
}

// networkOf reports whether a policy lets sandboxed commands reach the network.
func networkOf(policy json.RawMessage) bool {
	var p struct {
		NetworkAccess bool `json:"networkAccess"`
	}
	return json.Unmarshal(policy, &p) == nil && p.NetworkAccess
}

// threadConfig is codex's configuration for a thread: no goals, by which codex starts turns itself; no endless
// reconnecting; which variables its commands get (see commandEnv); and no trust in the repository, which an operator may
// have granted earlier, for instance while working in the main repository of this worktree. Passed are variables that
// commands get whatever their names.
func (c Config) threadConfig(ctx context.Context, h host.Host, runID string, w host.Workspace, passed map[string]string) (map[string]any, error) {
	config := map[string]any{
		"features.goals":                        false,
		"features.unbounded_connection_retries": false,
		// Login shells of codex's own, and copies of what they export, would set again what is kept from commands. Codex itself
		// was started by a login shell, and commands have what that exported.
		"allow_login_shell":        false,
		"features.shell_snapshot":  false,
		"shell_environment_policy": commandEnv(runID, passed),
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

// probeSandbox finds out before the first turn, and so before a token is spent, whether codex can sandbox commands in the
// workspace. A codex that gives no answer, on a busy machine for instance, is not a fault.
func (g *agentProcess) probeSandbox(ctx context.Context) error {
	policy, err := g.Config.sandboxPolicy(ctx, g.Host, *g.space)
	if err != nil || !agent.Confines(policy) {
		return err
	}
	err = g.trySandbox(ctx, policy)
	var known *reconcile.Error
	switch {
	case errors.Is(err, agent.ErrNoProbe):
		g.warn("sandbox not probed", err)
		return nil
	case errors.As(err, &known): // the run's row has only code and message
		g.Log.Warn(known.Message, "code", known.Code, "hint", known.Hint)
	}
	return err
}

// trySandbox has codex try the sandbox of a turn in the workspace. If that fails it tries the plainest sandbox in the run's
// directory, which no agent can write. What fails there too is the machine's fault, else the workspace's.
//
// Errors: *reconcile.Error of code sandbox_unavailable or sandbox_failed; agent.ErrNoProbe; those of the session.
func (g *agentProcess) trySandbox(ctx context.Context, policy json.RawMessage) error {
	plainest, err := json.Marshal(map[string]any{"type": "readOnly", "networkAccess": networkOf(policy)})
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		var here, there *agent.Error
		err := g.session.ProbeSandbox(ctx, g.space.Path, policy)
		if !errors.As(err, &here) || here.Code != agent.CodeSandboxUnavailable {
			return err
		}
		if try == 1 {
			if err := g.session.ProbeSandbox(ctx, g.Dir, plainest); errors.As(err, &there) && there.Code == agent.CodeSandboxUnavailable {
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
				Code: "sandbox_failed", Message: "codex can't sandbox commands in " + g.space.Path + ", though it can elsewhere: " + here.Message,
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
