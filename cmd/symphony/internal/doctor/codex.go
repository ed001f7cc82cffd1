package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// checkCodex finds codex as a worker does, and starts it.
func checkCodex(ctx context.Context, e *environment) []finding {
	path := ""
	if found := programWord.FindStringSubmatch(e.config.Codex.Command); found != nil {
		var err error
		if path, err = e.program(ctx, found[1]); err != nil {
			return failWith(err)
		}
		if path == "" {
			return fail("not found: bash -lc knows no "+found[1], e.hintForProgram(ctx, found[1])+"; or write its path into codex.command")
		}
		path = ", " + path
	}
	i, err := e.agent()
	if err != nil {
		return failWith(err)
	}
	return ok("%s%s", cmp.Or(i.Server.Version, "of an unknown version"), path)
}

// programWord finds the word of a shell command that names the program, unless only a shell can tell.
var programWord = regexp.MustCompile(`^\s*(?:(?:exec|env|\w+=[\w./~@:,-]*)\s+)*([\w./~@+-]+)(?:\s|$)`)

// loginHint is the command that logs codex in, in the codex home of agents.
func (e *environment) loginHint() string {
	home := e.codexHome()
	command := "codex login"
	if home != filepath.Join(e.p.Env.Home, ".codex") {
		command = fmt.Sprintf("mkdir -p %s && CODEX_HOME=%[1]s codex login", term.ShellQuote(home))
	}
	return command + ", as this account"
}

// checkLogin asks codex for its login. Without one a thread starts, and its first turn fails.
func checkLogin(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	login, err := i.Session.Login(ctx, i.Cwd)
	switch {
	case err != nil:
		return failWith(err)
	case login.Account != "":
		return ok("%s", login.Account)
	case login.Needed:
		return fail("agent_auth: no login in "+i.Server.Home, e.loginHint())
	case login.EnvKey == "":
		return ok("not needed by the model provider %s", cmp.Or(login.Provider, "that is set"))
	}
	// A model provider that wants a key of its own.
	set, err := e.shell(ctx, "printenv -- "+term.ShellQuote(login.EnvKey)+" >/dev/null && echo set")
	switch {
	case err != nil:
		return failWith(err)
	case set == "":
		return fail(fmt.Sprintf("agent_auth: the model provider %s wants %s, which is not set", login.Provider, login.EnvKey), "put it into "+e.p.EnvPath())
	}
	return ok("the model provider %s has its key in %s", login.Provider, login.EnvKey)
}

// checkSandbox has codex try the sandbox that a turn would get.
func checkSandbox(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	if !agent.Confines(i.Policy) {
		return warn("codex.turn_sandbox_policy has codex sandbox nothing: agents can do what confines symphony itself lets them",
			"leave it out, unless this is a container or virtual machine of its own")
	}
	err := runner.ProbeSandbox(ctx, i.Session, i.Policy, i.Cwd, i.Elsewhere)
	switch {
	case errors.Is(err, agent.ErrNoProbe):
		return warn("could not be tried: "+err.Error(), "try again; runs begin all the same")
	case err != nil:
		return failWith(err)
	}
	return ok("tried, it works")
}

// checkTokens warns about tokens of GitHub that hooks get and agents do not.
func checkTokens(_ context.Context, e *environment) (list []finding) {
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN"} {
		if value, _ := e.p.Lookup(name); value != "" && !slices.Contains(e.config.Agent.PassEnv, name) {
			list = append(list, warn(name+" is set, and agents do not get it: hooks do", "add it to agent.pass_env if agents use gh or push to GitHub")...)
		}
	}
	return list
}
