package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// undoneShown are named in the line for people; undoneKept in the event.
const (
	undoneShown = 10
	undoneKept  = 200
)

// trustGit writes down what git would run for the workflow's hooks now, before an agent can have a hand in it.
func (a *attempt) trustGit(ctx context.Context) error {
	if a.Config.KeepGitConfig {
		return a.space.ForgetGit()
	}
	return a.space.TrustGit(ctx, workspace.GuardOptions{Reaches: a.Config.reaches, Env: a.env().hook(a.rec.get().Issue, a.run.Attempt, "")})
}

// undoGit takes back what an agent has put there since, and reports it. All that the agent has started must be gone:
// who lives could put it there again. With an error no hook may run in the workspace.
func (a *attempt) undoGit(ctx context.Context) error {
	if a.space == nil {
		return nil
	}
	if a.Config.KeepGitConfig {
		return a.space.ForgetGit()
	}
	undone, err := a.space.UndoGit(ctx)
	if undone.Unsettled != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "git configuration will be looked at again", slog.String("error", undone.Unsettled.Error()))
	}
	if undone.Partial {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the workspace is too large to look at every git repository in it: hooks see none but its own")
	}
	if len(undone.Names) > 0 {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "git configuration undone", slog.Any("names", undone.Names[:min(len(undone.Names), undoneShown)]))
		a.note(agent.EventGitUndone, someNames(undone.Names), agent.GitUndoneEvent{Names: undone.Names[:min(len(undone.Names), undoneKept)]})
	}
	return err
}

// someNames are the first of them, and how many there are besides.
func someNames(names []string) string {
	shown := strings.Join(names[:min(len(names), undoneShown)], ", ")
	if more := len(names) - undoneShown; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return agent.Printable(shown)
}

// gitEnv is a hook's environment, with what git in it has to be told of a workspace that an agent has had.
func (a *attempt) gitEnv(ctx context.Context, env []string) ([]string, error) {
	if a.Config.KeepGitConfig {
		return env, nil
	}
	settings, reasons, err := a.space.HookGit()
	for _, reason := range reasons {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "the repository's git hooks do not run in this hook, the agent can write them", slog.String("because", reason))
	}
	return withGitConfig(env, settings), err
}

// withGitConfig adds settings to those that the environment has for git.
func withGitConfig(env []string, settings [][2]string) []string {
	const name = "GIT_CONFIG_COUNT"
	if len(settings) == 0 {
		return env
	}
	count := 0
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		value, ok := strings.CutPrefix(kv, name+"=")
		if n, err := strconv.Atoi(value); ok && err == nil {
			count = max(n, 0)
		}
		return ok
	})
	for i, s := range settings {
		n := strconv.Itoa(count + i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+s[0], "GIT_CONFIG_VALUE_"+n+"="+s[1])
	}
	return append(env, name+"="+strconv.Itoa(count+len(settings)))
}

// reaches reports whether an agent of this workflow may write to a directory outside of its workspace, or to one in it. One
// whose commands can be approved may, for those run outside of the sandbox.
func (c Config) reaches(path string) bool {
	roots := c.WritableRoots
	if c.TurnSandboxPolicy != nil {
		var policy struct {
			Type          string    `json:"type"`
			WritableRoots *[]string `json:"writableRoots"`
		}
		err := json.Unmarshal(c.TurnSandboxPolicy, &policy)
		switch {
		case err != nil || policy.Type != "workspaceWrite" && policy.Type != "readOnly":
			return true
		case policy.WritableRoots != nil:
			roots = *policy.WritableRoots
		}
	}
	path = resolved(path)
	return string(c.ApprovalPolicy) != `"never"` || slices.ContainsFunc(roots, func(root string) bool {
		root = resolved(root)
		return isIn(root, path) || isIn(path, root)
	})
}
