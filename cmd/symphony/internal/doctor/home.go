package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/agent"
)

// checkCodexHome lists what agents would inherit from the codex home, all of it outside the sandbox.
func checkCodexHome(ctx context.Context, at *place) []finding {
	i, err := at.agent()
	if err != nil {
		return nil
	}
	home := cmp.Or(i.Server.Home, at.codexHome())
	config, err := i.Session.HomeConfig(ctx, i.Cwd)
	if errors.Is(err, agent.ErrNotSaid) {
		return []finding{wary("this codex does not tell what "+home+" gives agents", "look into "+filepath.Join(home, "config.toml"))}
	}
	if err != nil {
		var said *agent.Error
		if errors.As(err, &said) {
			return []finding{bad(said.Message, "mend "+filepath.Join(home, "config.toml")+": until then codex goes on without any of it")}
		}
		return failed(err)
	}
	list := at.inherited(config, home)
	features, featuresErr := i.Session.Features(ctx)
	hooks, hooksErr := i.Session.Hooks(ctx, i.Cwd)
	for _, err := range []error{featuresErr, hooksErr} {
		if err != nil && !errors.Is(err, agent.ErrNotSaid) {
			list = append(list, failed(err)...)
		}
	}
	if len(features) > 0 {
		list = append(list, wary(home+" switches on what codex has off by itself: "+strings.Join(features, ", "), at.ownHome()))
	}
	for _, h := range hooks {
		list = append(list, wary(fmt.Sprintf("%s has codex run at %s (%s): %s", home, h.Event, h.Trust, cmp.Or(firstWord(h.Command), "a tool or a prompt")), at.ownHome()))
	}
	if list == nil {
		list = append(list, well("%s, from which agents inherit the login and the model alone", home))
	}
	return list
}

// inherited names MCP servers, the program of notify and trusted folders. Of a command only the program is told: what
// follows may hold a password.
func (at *place) inherited(config agent.HomeConfig, home string) []finding {
	var list []finding
	var servers []string
	for name, s := range config.MCPServers {
		if s.Enabled == nil || *s.Enabled {
			servers = append(servers, fmt.Sprintf("%s (%s)", name, cmp.Or(firstWord(s.Command), origin(s.URL), "of a kind unknown here")))
		}
	}
	if len(servers) > 0 {
		list = append(list, wary(home+" gives each agent the MCP servers "+strings.Join(sorted(servers), ", ")+", which run outside the sandbox", at.ownHome()))
	}
	if len(config.Notify) > 0 {
		list = append(list, wary(home+" has codex run "+config.Notify[0]+" after each turn (notify), outside the sandbox", at.ownHome()))
	}
	var trusted []string
	root := project.Resolve(at.cfg.Workspace.Root)
	for folder, p := range config.Projects {
		if p.Level == "trusted" && (text.PathInside(folder, root) || text.PathInside(root, folder)) {
			trusted = append(trusted, folder)
		}
	}
	if len(trusted) > 0 {
		list = append(list, wary(home+" trusts "+strings.Join(sorted(trusted), ", ")+": what the .codex/config.toml of a repository there names is started outside the sandbox", at.ownHome()))
	}
	return list
}

// ownHome is how none of it is inherited.
func (at *place) ownHome() string {
	if at.cfg.Codex.Home != "" {
		return "remove it from " + filepath.Join(at.cfg.Codex.Home, "config.toml") + ", unless agents are to have it"
	}
	return "give agents a codex home of their own: codex.home: ~/.codex-symphony, then mkdir -p ~/.codex-symphony && CODEX_HOME=~/.codex-symphony codex login"
}

func firstWord(command string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(command), " ")
	return word
}

// origin is the address of a server without what may be secret in it.
func origin(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	host, _, _ = strings.Cut(host, "?")
	return scheme + "://" + host[strings.LastIndex(host, "@")+1:]
}
