package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/proc"
)

// aboutKind returns a check that differs between the kinds of agents.
func aboutKind(
	run func(context.Context, *environment, agent.Kind) []finding,
) func(context.Context, *environment) []finding {
	return func(ctx context.Context, e *environment) []finding {
		kind, err := wiring.AgentOf(e.config.Chosen.Kind)
		if err != nil {
			return failWith(err)
		}
		return run(ctx, e, kind)
	}
}

// checkAgent finds an agent as a worker does, and starts it.
func checkAgent(ctx context.Context, e *environment, kind agent.Kind) []finding {
	path, missing := e.agentPath(ctx, func(string) string {
		return kind.Install + ", or write its path into " + kind.CommandKey
	})
	if missing != nil {
		return missing
	}
	i, err := e.agent()
	known, _ := errors.AsType[*reconcile.Error](err)
	if known != nil && known.Code == string(agent.CodeSandboxUnavailable) {
		return nil // checkBox reports it
	}
	if err != nil {
		return e.failAgent(kind, err)
	}
	where := "without a sandbox"
	if e.config.Chosen.Boxed {
		where = "in the sandbox"
	}
	list := ok("%s %s%s, %s", kind.Name, cmp.Or(i.Server.Version, "of unknown version"), path, where)
	return append(list, e.launcher(ctx)...)
}

// launcher warns if the command of agents starts a launcher, such as npx.
func (e *environment) launcher(ctx context.Context) []finding {
	l := wiring.Launcher(ctx, e.p, e.config, e.loginEnv())
	if l.Program == "" || e.config.Chosen.TrustLauncher {
		return nil
	}
	kind, err := wiring.AgentOf(e.config.Chosen.Kind)
	if err != nil {
		return failWith(err)
	}
	return warn(wiring.LauncherWarning(kind, l), runner.LauncherHint(kind))
}

// checkBox runs a program in the sandbox that symphony makes for agents.
func checkBox(ctx context.Context, e *environment) []finding {
	if e.config == nil || !e.config.Chosen.Boxed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience(startBound))
	defer cancel()
	err := wiring.TryBox(ctx, e.p, e.config, e.trialDir(ctx))
	if err != nil {
		return failWith(err)
	}
	return ok("works")
}

// cacheVars name the caches of tools. Without them the caches are below XDG_CACHE_HOME, which is
// the agent's own, or symphony sets them.
var cacheVars = []string{
	"CARGO_HOME",
	"CCACHE_DIR",
	"GOCACHE",
	"GOMODCACHE",
	"GRADLE_USER_HOME",
	"PIP_CACHE_DIR",
	"UV_CACHE_DIR",
	"YARN_CACHE_FOLDER",
	"npm_config_cache",
}

// checkCaches names the caches that agents are told of and can't write: the same build works for
// the operator, who can.
func checkCaches(_ context.Context, e *environment) []finding {
	config := wiring.RunnerConfig(e.p, e.config)
	if !e.config.Chosen.Boxed && !confine.Confines(config.TurnSandboxPolicy) {
		return nil
	}
	_, writes := config.AgentWrites()
	if e.config.Chosen.Boxed {
		writes = append(slices.Clone(writes), "/tmp")
	}
	var found []string
	for _, entry := range e.loginEnv() {
		name, dir, _ := strings.Cut(entry, "=")
		isWritten := func(root string) bool { return paths.Inside(paths.Real(root), paths.Real(dir)) }
		if slices.Contains(cacheVars, name) && filepath.IsAbs(dir) && !slices.ContainsFunc(writes, isWritten) {
			found = append(found, entry)
		}
	}
	if found == nil {
		return nil
	}
	slices.Sort(found)
	return warn(
		"agents are told to use caches that they can't write: "+strings.Join(found, ", "),
		"unset the variables, which the environment or the login profile sets: then each workspace has its own cache; "+
			"or list caches that nobody else uses in agent.writable_roots",
	)
}

// checkLimits says how processes and memory of agents are limited.
func checkLimits(ctx context.Context, e *environment) []finding {
	if !e.config.Chosen.Boxed {
		return nil
	}
	limits := wiring.LimitsOf(e.config)
	memory := text.BytesText(limits.Memory)
	scopes := &proc.ScopeManager{Env: e.p.Env.Environ}
	err := scopes.AskLimits(ctx, limits)
	if err == nil {
		return ok("%d processes and %s of memory for each agent, by systemd", limits.Tasks, memory)
	}
	held := fmt.Sprintf("%d processes for each agent", limits.Tasks)
	if os.Geteuid() == 0 {
		held = "any number of processes, because the kernel does not count those of root"
	}
	return warn(
		fmt.Sprintf("%s, and any memory: %v", held, err),
		"systemd limits agents of root, and of a user who lingers (loginctl enable-linger); else limit the container: "+
			"docker run --memory --pids-limit",
	)
}

// failAgent turns an error of an agent into findings whose next step is about its kind.
func (e *environment) failAgent(kind agent.Kind, err error) []finding {
	steps := map[string]string{
		string(agent.CodeAgentIncompatible): kind.Install + "; or correct what the message quotes",
		string(agent.CodeAgentAuth):         e.logInStep(kind),
		string(agent.CodePortExit):          "start it yourself to see more: " + e.config.Chosen.Command,
		string(agent.CodeResponseTimeout): "start it yourself: it may wait for an answer on a terminal: " +
			e.config.Chosen.Command,
	}
	list := failWith(err)
	for i, f := range list {
		step := steps[f.code]
		if step != "" {
			list[i].Hint = step
		}
	}
	return list
}

// logInStep is how the operator logs an agent in. A schedule has no variable of the operator's
// shell.
func (e *environment) logInStep(kind agent.Kind) string {
	return kind.LogIn + ", as this account; a key belongs into " + e.p.EnvPath()
}

// isLoggedOut reports whether an error says that an agent has no login.
func isLoggedOut(err error) bool {
	failed, is := errors.AsType[*agent.Error](err)
	return is && failed.Code == agent.CodeAgentAuth
}

// checkAgentLogin tells what the agent says of its login when it opens a conversation, which
// uses no tokens.
func checkAgentLogin(ctx context.Context, e *environment, kind agent.Kind) []finding {
	err := e.opened()
	if isLoggedOut(err) {
		return e.failAgent(kind, err)
	}
	if err != nil {
		return nil // checkConversation reports it
	}
	i, err := e.agent()
	if err != nil {
		return nil // checkAgent reports it
	}
	login, err := i.Session.Login(ctx, i.Cwd)
	switch {
	case err != nil:
		return e.failAgent(kind, err)
	case login.Needed:
		return fail("agent_auth: it is not logged in", e.logInStep(kind))
	case login.Account != "":
		return ok("%s", login.Account)
	case e.deep:
		return nil // checkTurn tells
	}
	return ok("only a turn can tell: symphony doctor --deep tries one")
}

// checkConversation opens a conversation with the model and the mode of a run.
func checkConversation(_ context.Context, e *environment, kind agent.Kind) []finding {
	err := e.opened()
	if isLoggedOut(err) {
		return nil // checkAgentLogin reports it
	}
	if err != nil {
		return e.failAgent(kind, err)
	}
	i, err := e.agent()
	if err != nil {
		return nil // checkAgent reports it
	}
	model := i.Session.Model()
	if model == "" {
		return ok("opens, with the agent's own model")
	}
	return ok("opens, with the model %s", model)
}

// trialPrompt is the input of a trial turn.
const trialPrompt = "This only tests the connection. Run no command and change nothing: answer with the word ready."

// checkTurn lets the agent answer once, which uses tokens.
func checkTurn(ctx context.Context, e *environment, kind agent.Kind) []finding {
	if err := e.opened(); err != nil {
		return e.failAgent(kind, err)
	}
	i, err := e.agent()
	if err != nil {
		return e.failAgent(kind, err)
	}
	turn, err := i.Turn(ctx, trialPrompt)
	if err != nil {
		return e.failAgent(kind, err)
	}
	said := text.Short(text.Visible(text.FirstLine(turn.LastMessage)), mostSaid)
	used := ""
	if tokens := i.Session.Usage().Total; tokens > 0 {
		used = ", " + text.Count(tokens) + " tokens"
	}
	if turn.Cost != nil {
		used += ", " + turn.Cost.String()
	}
	return ok("it answered %q%s", said, used)
}
