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
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// defaultChecks are the checks of codex.
var defaultChecks = []check{
	{
		"codex",
		needsLogin,
		checkCodex,
		"write its full path into codex.command, so that both start the same program",
		ofDefault,
	},
	{"codex login", needsAgent, checkLogin, "", ofDefault},
	{"model", needsAgent, checkModel, "", ofDefault},
	{"codex home", needsDefaults, checkHome, "", ofDefault},
	{"further homes", needsLogin, checkFurtherHomes, "", ofDefault},
	{"sandbox", needsAgent, checkSandbox, "", ofDefault},
}

// doctorHints are the next steps after doctor failed to start codex. They name no logs, because
// only runs have logs.
var doctorHints = map[agent.Code]string{
	agent.CodePortExit: "correct codex.command: codex.model and codex.effort choose the model and its effort, " +
		"and codex's config.toml sets everything else",
}

// checkCodex finds codex as a worker does, and starts it.
func checkCodex(ctx context.Context, e *environment) []finding {
	path, missing := e.agentPath(ctx, func(name string) string {
		return e.hintForProgram(ctx, name) + "; or write its path into codex.command"
	})
	if missing != nil {
		return missing
	}
	return append(e.codexStarts(ctx, path), e.launcher(ctx)...)
}

// codexStarts tells whether codex starts, and in which home. path is where it is.
func (e *environment) codexStarts(ctx context.Context, path string) []finding {
	i, err := e.agent()
	if err != nil {
		return failWith(err)
	}
	list := ok("%s%s", i.Server.Version, path)
	if i.Server.Limits != "" {
		list = warn(strings.TrimPrefix(path, ", ")+": "+i.Server.Limits, "use a release of codex if you need one of these")
	}
	_, warning, err := wiring.RunnerConfig(e.p, e.config).CheckHome(ctx, wiring.ThisMachine(), i.Server.Home)
	switch {
	case err != nil:
		list = append(list, failWith(err)...)
	case warning != "":
		list = append(list, warn(warning,
			"remove CODEX_HOME from codex.command and name that home in codex.home, or set codex.inherit: true")...)
	}
	return list
}

// agentPath finds the program that the command of agents names: ", /usr/bin/codex", or empty if
// only a shell can find it. missing reports that there is none, with the hint for its name.
func (e *environment) agentPath(
	ctx context.Context,
	hint func(name string) string,
) (path string, missing []finding) {
	name := runner.ProgramWord(e.config.Chosen.Command)
	if name == "" {
		return "", nil
	}
	path, err := e.program(ctx, name)
	if err != nil {
		return "", failWith(err)
	}
	if path == "" {
		return "", fail("not found: bash -lc does not find "+name, hint(name))
	}
	return ", " + path, nil
}

// loginHint is the command that logs codex in, in the codex home of agents.
func (e *environment) loginHint() string {
	home := e.agentHome()
	command := "codex login"
	if home != filepath.Join(e.p.Env.Home, ".codex") {
		command = fmt.Sprintf("mkdir -p %s && CODEX_HOME=%[1]s codex login", text.ShellQuote(home))
	}
	kind, err := wiring.AgentOf(e.config.Chosen.Kind)
	if err == nil && !e.config.Chosen.Inherit && !kind.LoginInFile(home) {
		const store = "write cli_auth_credentials_store = \"file\" into %s/config.toml, because agents can share " +
			"only a login in a file, then %s"
		command = fmt.Sprintf(store, home, command)
	}
	return command + ", as this account"
}

// checkLogin asks codex for its login. Without a login a thread starts, but its first turn
// fails.
func checkLogin(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	if i.Server.Limits != "" { // checkCodex says it, which starts the same program
		return nil
	}
	login, err := i.Session.Login(ctx, i.Cwd)
	switch {
	case err != nil:
		return failWith(err)
	case login.Account != "":
		return ok("%s", login.Account)
	case login.Needed:
		home := i.Server.Home
		if !e.config.Chosen.Inherit {
			home = e.agentHome()
		}
		return fail("agent_auth: no login in "+home, e.loginHint())
	case login.EnvKey == "":
		return ok("not needed by the model provider %s", cmp.Or(login.Provider, "in use"))
	}
	// The model provider needs its own key.
	set, err := e.shell(ctx, "printenv -- "+text.ShellQuote(login.EnvKey)+" >/dev/null && echo set")
	switch {
	case err != nil:
		return failWith(err)
	case set == "":
		return fail(
			fmt.Sprintf(
				"agent_auth: the model provider %s needs %s, which is not set",
				login.Provider,
				login.EnvKey,
			),
			"put it into "+e.p.EnvPath(),
		)
	}
	return ok("the model provider %s has its key in %s", login.Provider, login.EnvKey)
}

// checkFurtherHomes starts codex in each home of codex.home besides the first, and asks for its
// login. Its account works while the accounts before it can't be used.
func checkFurtherHomes(_ context.Context, e *environment) []finding {
	if e.other != nil && e.other.config != nil {
		_ = e.other.further() // not at the same time in the same home
	}
	return e.further()
}

func (e *environment) examineFurther(ctx context.Context) (list []finding) {
	for _, choice := range e.config.AgentsFor(nil)[1:] {
		if choice.Kind == workflow.DefaultAgent && choice.Home != e.config.Chosen.Home {
			list = append(list, e.examineHome(ctx, choice)...)
		}
	}
	return list
}

// examineHome starts codex in the home of a choice, and asks for its login.
func (e *environment) examineHome(ctx context.Context, choice workflow.AgentChoice) []finding {
	in := *e
	in.config = e.config.ForIssueBy(choice, nil)
	in.other = nil
	i, err := in.startAgent(ctx)
	if err != nil {
		return failWith(err)
	}
	in.agent = func() (*runner.Inspection, error) { return i, nil }
	list := checkLogin(ctx, &in)
	for n := range list {
		if list[n].Status == statusOK {
			list[n].Message = choice.Home + ": " + list[n].Message
		}
	}
	if err := i.Close(); err != nil {
		list = append(list, warn("the check of "+choice.Home+" left something behind: "+err.Error(),
			"see what it is and end or remove it")...)
	}
	return list
}

// checkModel asks codex whether it knows the model. An unknown model fails only in the first
// turn.
func checkModel(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	model, known, err := i.Session.Models(ctx, i.Cwd)
	if err != nil {
		return failWith(err)
	}
	model = cmp.Or(e.config.Chosen.Model, model)
	if model == "" || len(known) == 0 || slices.Contains(known, model) {
		return nil
	}
	return warn("codex knows no model "+model+", "+suggest.Instead(model, known),
		"correct codex.model, or model in codex's config.toml")
}

// systemHome is where codex finds the settings of all accounts.
const systemHome = "/etc/codex"

// checkHome reports which parts of the operator's codex home agents get, and which they don't.
func checkHome(_ context.Context, e *environment) []finding {
	home := wiring.OpenAccount(e.p, e.config.Chosen.Home).Home
	kind, err := wiring.AgentOf(e.config.Chosen.Kind)
	if err != nil {
		return failWith(err)
	}
	unshared, err := kind.OperatorOnly(home)
	if err != nil {
		return failWith(err)
	}
	if !wiring.Exists(home) {
		return warn(home+", from which agents get the login and the model, does not exist yet",
			e.loginHint())
	}
	list := ok("codex runs with the login and the model of %s, and with nothing else of it", home)
	names := strings.Join(unshared, ", ")
	switch {
	case names == "" && e.config.Chosen.Inherit:
		list = ok("agents inherit %s (codex.inherit)", home)
	case names != "" && e.config.Chosen.Inherit:
		list = warn(
			fmt.Sprintf("agents inherit all of %s (codex.inherit): %s", home, names),
			"rules, hooks and MCP servers work outside the sandbox: remove codex.inherit, or name a "+
				"home for agents in codex.home",
		)
	case names != "":
		list = ok("codex runs with the login and the model of %s, but not with: %s", home, names)
	}
	system, err := kind.OperatorOnly(systemHome)
	if err != nil {
		return append(list, failWith(err)...)
	}
	if len(system) > 0 {
		list = append(list, warn(
			fmt.Sprintf("what %s sets applies to agents, too: %s", systemHome, strings.Join(system, ", ")),
			"remove what must not work outside the sandbox",
		)...)
	}
	return list
}

// checkSandbox lets codex try the sandbox that a turn would get.
func checkSandbox(ctx context.Context, e *environment) []finding {
	if e.config != nil && e.config.Chosen.Boxed {
		return nil // checkBox tries it
	}
	i, _ := e.agent()
	if !confine.Confines(i.Policy) {
		return warn(
			"codex.turn_sandbox_policy turns codex's sandbox off: agents can do whatever symphony's own "+
				"account or container can",
			"remove it, unless this is a dedicated container or virtual machine",
		)
	}
	err := i.TrySandbox(ctx)
	if runner.Collided(err) { // such as by the codex of the other environment
		err = e.trySandboxAgain(ctx)
	}
	switch {
	case errors.Is(err, agent.ErrNoProbe):
		return warn("could not be tried: "+err.Error(), "run doctor again; runs start without this check")
	case err != nil:
		return failWith(err)
	}
	return ok("works")
}

// trySandboxAgain lets a codex of its own try the sandbox.
func (e *environment) trySandboxAgain(ctx context.Context) error {
	i, err := e.startAgent(ctx)
	if err != nil {
		return err
	}
	tryErr := i.TrySandbox(ctx)
	closeErr := i.Close()
	if tryErr != nil {
		return tryErr
	}
	return closeErr
}

// checkSecrets reports whether agents can read the environment files of all projects and
// codex's login.
func checkSecrets(_ context.Context, e *environment) []finding {
	var found []string
	for _, path := range wiring.RunnerConfig(e.p, e.config).Unreadable {
		files, _ := os.ReadDir(path)
		for _, file := range files {
			// a home of codex has many others
			if filepath.Ext(file.Name()) == ".env" || file.Name() == "auth.json" {
				found = append(found, filepath.Join(path, file.Name()))
			}
		}
		if files == nil && wiring.Exists(path) {
			found = append(found, path)
		}
	}
	names := strings.Join(found, ", ")
	hidden := names
	own := e.p.Env.AccountHome
	if own != "" && own != e.p.Env.Home { // a pass of cron hides the files of its own HOME alone
		hidden += ", unless a pass starts with HOME=" + own
	}
	switch {
	case found == nil:
		return nil
	case e.config.Chosen.Boxed:
	case e.config.Chosen.Kind != workflow.DefaultAgent:
		return warn(
			"agents can read "+names+", because agent.sandbox is none",
			"run symphony under an account of its own",
		)
	case e.config.Chosen.TurnSandboxPolicy != nil && !confine.Hides(e.config.Chosen.TurnSandboxPolicy):
		return warn(
			"agents can read "+names+", because codex.turn_sandbox_policy replaces the sandbox that denies it",
			"remove codex.turn_sandbox_policy, or run symphony under an account of its own",
		)
	case e.config.Chosen.OnApproval == workflow.Approve && string(e.config.Chosen.ApprovalPolicy) != `"never"`:
		return warn(
			"agents can read "+names+" by commands that codex asks about, because agent.on_approval: "+
				"approve lets them leave the sandbox",
			"set agent.on_approval: ask, or run symphony under an account of its own",
		)
	}
	if e.config.Chosen.Boxed { // which shows none of them
		return ok("agents cannot read %s", hidden)
	}
	paths := slices.Concat([]string{e.config.Workspace.Root}, e.config.Chosen.WritableRoots, found)
	if i := slices.IndexFunc(paths, confine.IsPattern); i >= 0 {
		return warn(
			"agents can read "+names+", because codex takes "+paths[i]+" for a pattern, so that its "+
				"sandbox can't deny it",
			"use names without * ? [ ] { } for workspace.root, agent.writable_roots and environment files",
		)
	}
	return ok("agents cannot read %s", hidden)
}
