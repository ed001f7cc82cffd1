package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// checkCodex finds codex as a worker does, and starts it.
func checkCodex(ctx context.Context, e *environment) []finding {
	name := programOf(e.config.Codex.Command)
	path := ""
	if name != "" {
		var err error
		if path, err = e.program(ctx, name); err != nil {
			return failWith(err)
		}
		if path == "" {
			return fail("not found: bash -lc knows no "+name, e.hintForProgram(ctx, name)+"; or write its path into codex.command")
		}
	}
	i, err := e.agent()
	if err != nil {
		return failWith(err)
	}
	line := cmp.Or(i.Server.Version, "of an unknown version")
	if path != "" {
		line += ", " + path
	}
	return ok("%s", line)
}

// programOf returns the word of a shell command that names the program, empty if only a shell can tell.
func programOf(command string) string {
	for _, word := range strings.Fields(command) {
		if strings.ContainsAny(word, "\"'`$(){}[]|&;<>*?!#\\") {
			return ""
		}
		if name, _, assigned := strings.Cut(word, "="); assigned && !strings.Contains(name, "/") || word == "exec" || word == "env" {
			continue
		}
		return word
	}
	return ""
}

// loginHint is the command that logs codex in, in the codex home of agents.
func (e *environment) loginHint() string {
	home := e.codexHome()
	command := "codex login"
	if home != filepath.Join(e.p.Env.Home, ".codex") {
		command = fmt.Sprintf("mkdir -p %s && CODEX_HOME=%s codex login", term.ShellQuote(home), term.ShellQuote(home))
	}
	return command + ", as this account"
}

// checkLogin asks codex for its login. Without one a thread starts, and its first turn fails.
func checkLogin(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	account, err := i.Session.Account(ctx)
	switch {
	case errors.Is(err, agent.ErrNotSaid):
		return warn("this codex does not tell its login", "try it: codex login status")
	case err != nil:
		return failWith(err)
	case account.Kind != "":
		return ok("%s", strings.TrimSpace(account.Kind+" "+account.Email))
	case account.Needed:
		return fail("agent_auth: no login in "+i.Server.Home, e.loginHint())
	}
	// Another model provider, which may want a key of its own.
	config, err := i.Session.HomeConfig(ctx, i.Cwd)
	if err != nil {
		return nil // checkCodexHome reports it
	}
	name := config.Providers[config.Provider].EnvKey
	if name == "" {
		return ok("not needed by the model provider %s", cmp.Or(config.Provider, "that is set"))
	}
	set, err := e.shell(ctx, "printenv -- "+term.ShellQuote(name)+" >/dev/null && echo set")
	switch {
	case err != nil:
		return failWith(err)
	case set == "":
		return fail(fmt.Sprintf("agent_auth: the model provider %s wants %s, which is not set", config.Provider, name), "put it into "+e.p.EnvPath())
	}
	return ok("the model provider %s has its key in %s", config.Provider, name)
}

// checkCodexHome lists what agents inherit from the codex home. All of it runs outside the sandbox.
func checkCodexHome(ctx context.Context, e *environment) []finding {
	i, _ := e.agent()
	home := cmp.Or(i.Server.Home, e.codexHome())
	configFile := filepath.Join(home, "config.toml")
	config, err := i.Session.HomeConfig(ctx, i.Cwd)
	var ofAgent *agent.Error
	switch {
	case errors.Is(err, agent.ErrNotSaid):
		return warn("this codex does not tell what "+home+" gives agents", "look into "+configFile)
	case errors.As(err, &ofAgent):
		return fail(ofAgent.Message, "correct "+configFile+": until then codex ignores all of it")
	case err != nil:
		return failWith(err)
	}
	hint := "give agents a codex home of their own: codex.home: ~/.codex-symphony, then mkdir -p ~/.codex-symphony && CODEX_HOME=~/.codex-symphony codex login"
	if e.config.Codex.Home != "" {
		hint = "remove it from " + filepath.Join(e.config.Codex.Home, "config.toml") + ", unless agents are to have it"
	}
	var list []finding
	for _, text := range inherited(config, home, project.Resolve(e.config.Workspace.Root)) {
		list = append(list, warn(text, hint)...)
	}
	features, featuresErr := i.Session.Features(ctx)
	hooks, hooksErr := i.Session.Hooks(ctx, i.Cwd)
	for _, err := range []error{featuresErr, hooksErr} {
		if err != nil && !errors.Is(err, agent.ErrNotSaid) {
			list = append(list, failWith(err)...)
		}
	}
	if len(features) > 0 {
		list = append(list, warn(home+" switches on what codex has off by default: "+strings.Join(features, ", "), hint)...)
	}
	for _, h := range hooks {
		list = append(list, warn(fmt.Sprintf("%s has codex run at %s (%s): %s", home, h.Event, h.Trust, cmp.Or(firstWord(h.Command), "a tool or a prompt")), hint)...)
	}
	if list == nil {
		list = ok("%s, from which agents inherit the login and the model alone", home)
	}
	return list
}

// inherited names MCP servers, the program of notify, and trusted directories. It names only the program of a command, whose
// arguments may hold a password.
func inherited(config agent.HomeConfig, home, root string) (list []string) {
	var servers, trusted []string
	for name, s := range config.MCPServers {
		if s.Enabled == nil || *s.Enabled {
			servers = append(servers, fmt.Sprintf("%s (%s)", name, cmp.Or(firstWord(s.Command), origin(s.URL), "of an unknown kind")))
		}
	}
	if len(servers) > 0 {
		slices.Sort(servers)
		list = append(list, home+" gives each agent the MCP servers "+strings.Join(servers, ", ")+", which run outside the sandbox")
	}
	if len(config.Notify) > 0 {
		list = append(list, home+" has codex run "+config.Notify[0]+" after each turn (notify), outside the sandbox")
	}
	for folder, p := range config.Projects {
		if p.Level == "trusted" && (text.PathInside(folder, root) || text.PathInside(root, folder)) {
			trusted = append(trusted, folder)
		}
	}
	if len(trusted) > 0 {
		slices.Sort(trusted)
		list = append(list, home+" trusts "+strings.Join(trusted, ", ")+": what the .codex/config.toml of a repository there names is started outside the sandbox")
	}
	return list
}

func firstWord(command string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	return word
}

// origin returns scheme and host of an address: the rest may be secret.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
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
		return warn("could not be tried: "+err.Error(), "the first command of a run will tell")
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
