package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// undoneShown are named in the line for people, undoneKept in the event.
const (
	undoneShown = 10
	undoneKept  = 200
)

// guardGit notes what git would run for the workflow's hooks now, before an agent can change it.
func (a *attempt) guardGit(ctx context.Context) error {
	anywhere, writable := a.Config.agentWrites()
	return a.Host.GuardGit(ctx, host.GuardGitRequest{
		Run: a.hostRun(), Anywhere: anywhere, Writable: writable, Env: a.hookEnv(""),
	})
}

// restoreGit puts back what an agent has changed since. All that the agent started must have ended: what lives could
// change it again. With an error no hook may run in the workspace.
func (a *attempt) restoreGit(ctx context.Context) error {
	restored, err := a.Host.RestoreGit(ctx, host.RestoreGitRequest{Run: a.hostRun()})
	a.reportRestored(ctx, restored)
	return err
}

func (a *attempt) reportRestored(ctx context.Context, restored host.GitRestored) {
	if restored.Incomplete != "" {
		a.Log.LogAttrs(ctx, slog.LevelWarn, restored.Incomplete)
	}
	if names := restored.Names; len(names) > 0 {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "git configuration undone", slog.Any("names", names[:min(len(names), undoneShown)]))
		a.note(agent.EventGitUndone, someNames(names), agent.GitUndoneEvent{Names: names[:min(len(names), undoneKept)]})
	}
}

// someNames are the first of them, and how many there are besides.
func someNames(names []string) string {
	shown := strings.Join(names[:min(len(names), undoneShown)], ", ")
	if more := len(names) - undoneShown; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return agent.Printable(shown)
}

// agentWrites says which directories an agent of this workflow may write besides its workspace. One whose commands can be
// approved may write anywhere, for those run outside of the sandbox.
func (c Config) agentWrites() (anywhere bool, dirs []string) {
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
