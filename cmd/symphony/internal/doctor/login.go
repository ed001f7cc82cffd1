package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/agent"
)

// loginHint is the command that logs codex in, in the home that agents use.
func (at *place) loginHint() string {
	home := at.codexHome()
	command := "codex login"
	if home != filepath.Join(at.p.Env.Home, ".codex") {
		command = fmt.Sprintf("mkdir -p %s && CODEX_HOME=%s codex login", term.ShellQuote(home), term.ShellQuote(home))
	}
	return command + ", as this account"
}

// checkLogin asks codex who it is logged in as. Without a login a thread starts, and its first turn fails.
func checkLogin(ctx context.Context, at *place) []finding {
	i, err := at.agent()
	if err != nil {
		return nil // its own check says so
	}
	account, err := i.Session.Account(ctx)
	if errors.Is(err, agent.ErrNotSaid) {
		return []finding{wary("this codex does not tell who it is logged in as", "try it: codex login status")}
	}
	if err != nil {
		return failed(err)
	}
	if account.Kind != "" {
		return []finding{well("%s", strings.TrimSpace(account.Kind+" "+account.Email))}
	}
	if account.Needed {
		f := bad("agent_auth: nobody is logged in to "+i.Server.Home, at.loginHint())
		return []finding{f}
	}
	return at.providerKey(ctx, i)
}

// providerKey looks whether the key of another provider is set where codex is started.
func (at *place) providerKey(ctx context.Context, i *runner.Inspection) []finding {
	config, err := i.Session.HomeConfig(ctx, i.Cwd)
	if err != nil {
		return nil // the check of the codex home says so
	}
	name := config.Providers[config.Provider].EnvKey
	if name == "" {
		return []finding{well("not needed by the model provider %s", cmp.Or(config.Provider, "that is set"))}
	}
	set, err := at.shell(ctx, "printenv -- "+term.ShellQuote(name)+" >/dev/null && echo set")
	if err != nil {
		return failed(err)
	}
	if set == "" {
		return []finding{bad(fmt.Sprintf("agent_auth: the model provider %s wants %s, which is not set", config.Provider, name),
			"put it into "+at.p.EnvPath())}
	}
	return []finding{well("the model provider %s has its key in %s", config.Provider, name)}
}
