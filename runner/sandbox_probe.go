package runner

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/codex"
)

// CodeSandboxFailed: the machine can sandbox, but not in this workspace, or not with these writable roots.
const CodeSandboxFailed = "sandbox_failed"

// probeTries and probePause bound the tries in one workspace. Codex protects a repository by mount points that it makes
// in its git directory and removes again: in linked worktrees of one repository two sandboxes can meet there, and one
// of them fails.
const (
	probeTries = 5
	probePause = 200 * time.Millisecond
)

// TrySandbox has codex try the sandbox of a turn in cwd. Where that fails it tries the plainest one in elsewhere, a
// directory that no agent can write: what fails there too is the machine's fault, else the workspace's, unless it goes
// away by itself within a second.
//
// Errors: *reconcile.Error of code sandbox_unavailable or sandbox_failed; codex.ErrNoProbe where only a turn can tell;
// the session's.
func TrySandbox(ctx context.Context, s *codex.Session, policy json.RawMessage, cwd, elsewhere string) error {
	var here *codex.Error
	err := s.ProbeSandbox(ctx, cwd, policy)
	if !errors.As(err, &here) || here.Code != codex.CodeSandboxUnavailable {
		return err
	}
	var there *codex.Error
	err = s.ProbeSandbox(ctx, elsewhere, plainest(policy))
	switch {
	case err == nil:
		return trySandboxAgain(ctx, s, policy, cwd)
	case errors.As(err, &there) && there.Code == codex.CodeSandboxUnavailable:
		return sandboxUnavailable(there.Message)
	}
	return err
}

// trySandboxAgain is for a sandbox that failed once in cwd, and works elsewhere. Errors: sandbox_failed, the session's, ctx's.
func trySandboxAgain(ctx context.Context, s *codex.Session, policy json.RawMessage, cwd string) error {
	var here *codex.Error
	for range probeTries - 1 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probePause):
		}
		err := s.ProbeSandbox(ctx, cwd, policy)
		if !errors.As(err, &here) || here.Code != codex.CodeSandboxUnavailable {
			return err
		}
	}
	return &reconcile.Error{
		Code: CodeSandboxFailed, Message: "codex can't sandbox commands in " + cwd + ", though it can elsewhere: " + here.Message,
		Hint: "look at what that names: a .git, .codex or .agents that is a symlink or broken, or a path in agent.writable_roots that is missing",
	}
}

// plainest is the policy that allows least and needs least of a directory, with the same network: without one the
// sandbox has to make a network namespace.
func plainest(policy json.RawMessage) json.RawMessage {
	if networkOf(policy) {
		return json.RawMessage(`{"type":"readOnly","networkAccess":true}`)
	}
	return json.RawMessage(`{"type":"readOnly","networkAccess":false}`)
}

func networkOf(policy json.RawMessage) bool {
	var p struct {
		NetworkAccess bool `json:"networkAccess"`
	}
	return json.Unmarshal(policy, &p) == nil && p.NetworkAccess
}

func sandboxUnavailable(words string) *reconcile.Error {
	return &reconcile.Error{
		Code:    string(codex.CodeSandboxUnavailable),
		Message: "codex can't sandbox commands on this machine: " + words,
		Hint:    SandboxWaysOut(runtime.GOOS),
	}
}

// SandboxWaysOut says what to do where a system can't sandbox, and what it costs.
func SandboxWaysOut(system string) string {
	ways := "run symphony outside of another sandbox"
	if system == "linux" {
		ways = "allow unprivileged user namespaces (sysctl user.max_user_namespaces=15000, and where they exist " +
			"kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0), or install bubblewrap with its " +
			"AppArmor profile; a container must be let make namespaces (--security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
	}
	return ways + "; or, only in a container or virtual machine of its own, codex.turn_sandbox_policy: {type: externalSandbox}: codex " +
		"confines nothing then; or {type: dangerFullAccess}: no sandbox at all, the agent can do whatever this account can"
}
