package mcpserver

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/mcpserver/calls"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
)

// codeNotDecided is the code of a call that starts an agent in a directory about which no
// person decided yet.
const codeNotDecided = "needs_person"

// permissions say where agents may work.
type permissions struct {
	agents *agents.Agents
	env    *environ.Env
	// named are the directories of --dir, and started the one in which the server was started, as
	// they were then: an agent could put a link in the place of one.
	named, started []paths.Place
}

// newPermissions looks the directories up.
func newPermissions(known *agents.Agents, env *environ.Env, dirs []string) permissions {
	p := permissions{agents: known, env: env, named: placesOf(env, dirs)}
	// Hosts with windows start it in the home directory or in /, which says nothing about the
	// wishes of their users.
	if env.Dir != "/" && !paths.SameDir(env.Dir, env.Home) {
		p.started = placesOf(env, []string{env.Dir})
	}
	// An agent of an earlier server may have put a link into one of them.
	open := slices.Concat(p.named, p.started)
	isMade := func(link paths.Place) bool { return isIn(link, open) }
	p.named = slices.DeleteFunc(p.named, func(dir paths.Place) bool { return slices.ContainsFunc(dir.Links, isMade) })
	return p
}

// placesOf leaves out the directories that can't be found.
func placesOf(env *environ.Env, dirs []string) (places []paths.Place) {
	for _, dir := range dirs {
		place, err := paths.Find(env.Absolute(dir))
		if err == nil {
			places = append(places, place)
		}
	}
	return places
}

// permit reports whether the operator permits agents in a directory. Permitted are the
// directory in which the server was started, the roots of the host, the directories of --dir,
// and everything below them. A person is asked about any other directory. An error refuses
// hidden directories of the home directory, such as ~/.ssh or ~/.local/bin, and directories of
// PATH: a file that an agent leaves there is run or obeyed without a question. byName: only --dir
// counts.
func (p permissions) permit(ctx context.Context, dir paths.Place, byName bool) (bool, error) {
	never, err := p.never(dir)
	if err != nil {
		return false, err
	}
	if never != "" {
		return false, reconcile.NewError(
			agents.CodeNotPermitted,
			fmt.Sprintf("cwd: no agent may work in %s: %s", dir.Path, never),
			"choose the directory of a repository or of a project",
		)
	}
	if isIn(dir, p.named) {
		return true, nil
	}
	return !byName && (isIn(dir, p.started) || isIn(dir, placesOf(p.env, p.roots(ctx)))), nil
}

// spawning is a call that starts an agent.
type spawning struct {
	asker  asker
	began  time.Time
	host   string // the name by which the host calls itself
	prompt string // the agent's work, if the call contains it
	// answered: the host already got a form, whose answer may have decided nothing.
	answered bool
}

// newSpawning describes a call that starts an agent.
func newSpawning(asker asker, req *mcp.CallToolRequest, began time.Time, prompt string) spawning {
	host := ""
	if info := req.ClientInfo(); info != nil {
		host = info.Name
	}
	return spawning{
		asker:    asker,
		began:    began,
		host:     host,
		prompt:   prompt,
		answered: len(req.Params.InputResponses) > 0,
	}
}

// answeredAgent returns the agent of a call that the host repeats after asking a person; ""
// for a new call.
func answeredAgent(req *mcp.CallToolRequest) string {
	for id := range req.Params.InputResponses {
		agentID, _ := reconcile.RequestRef(id)
		return agentID
	}
	return ""
}

// await returns when an agent may start. It waits if the request is older than the call: then
// the host was already told to ask its user. toAsk is a request about which the result of the
// call must ask the host instead.
// Errors: agents.CodeNotPermitted; codeNotDecided, after which the agent still waits.
func (p permissions) await(
	ctx context.Context,
	call spawning,
	one agents.Agent,
) (toAsk []reconcile.Request, err error) {
	if one.Settings.Permission == nil {
		return nil, nil
	}
	limit := time.Hour // the calls of tools have a limit
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		limit = left - min(waitMargin, left/4)
	}
	timeIsUp := time.After(limit)
	step := time.NewTicker(pollStep)
	defer step.Stop()
	for {
		r, found, err := p.request(ctx, one.Identifier)
		if err != nil {
			return nil, err
		}
		if found && isGiven(r) {
			return nil, nil
		}
		if found && r.Open() {
			if call.asker.asks(r) {
				return []reconcile.Request{r}, nil
			}
			if call.answered || !r.AskedAt.Before(call.began) {
				return nil, notDecided(r)
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeIsUp:
			if !found {
				return nil, context.DeadlineExceeded
			}
			return nil, notDecided(r)
		case <-step.C:
		}
	}
}

// request returns the request of an agent to work in its directory, if the agent made it yet.
// It fails if the agent ended.
func (p permissions) request(ctx context.Context, agentID string) (reconcile.Request, bool, error) {
	one, err := p.agents.Current(ctx, agentID)
	if err != nil {
		return reconcile.Request{}, false, err
	}
	if one.Outcome != "" {
		return reconcile.Request{}, false, agents.Ended(one.Run)
	}
	return p.agents.PermissionOf(ctx, one)
}

// isGiven reports whether a permission was given and reached the agent.
func isGiven(r reconcile.Request) bool {
	approved := r.Decision == reconcile.DecideApprove || r.Decision == reconcile.DecideForSession
	return approved && !r.EndedAt.IsZero()
}

// notDecided tells the host how a person decides, and by which call it goes on after that.
func notDecided(r reconcile.Request) error {
	return reconcile.NewError(
		codeNotDecided,
		fmt.Sprintf("agent %s waits until a person permits it to %s", r.Identifier, r.Summary),
		fmt.Sprintf(
			"ask your user to decide: %s. Then call spawn_agent again with the id %s and otherwise the same arguments",
			view.HowToAnswer(r), r.Identifier,
		),
	)
}

// roots are the directories that the host opened.
func (p permissions) roots(ctx context.Context) []string {
	session := calls.Session(ctx)
	if session == nil {
		return nil
	}
	host := session.InitializeParams()
	if host == nil || host.Capabilities == nil ||
		host.Capabilities.RootsV2 == nil { //nolint:staticcheck // hosts of today have it
		return nil
	}
	list, err := session.ListRoots(ctx, &mcp.ListRootsParams{}) //nolint:staticcheck // the same
	if err != nil {
		return nil // without them the directory is refused
	}
	var dirs []string
	for _, root := range list.Roots {
		address, err := url.Parse(root.URI)
		if err != nil || address.Scheme != "file" || !filepath.IsAbs(address.Path) {
			continue
		}
		dirs = append(dirs, address.Path)
	}
	return dirs
}

// isIn reports whether a directory is one of places, or below one.
func isIn(dir paths.Place, places []paths.Place) bool {
	return slices.ContainsFunc(places, dir.Inside)
}

// never returns the reason for which no agent may work in a directory, even with a person's
// permission; empty if there is none.
func (p permissions) never(dir paths.Place) (string, error) {
	for _, home := range []string{p.env.Home, p.env.AccountHome} {
		if home == "" {
			continue
		}
		place, err := paths.Find(home)
		if err != nil {
			return "", fmt.Errorf("find the home directory: %w", err)
		}
		for _, below := range dir.Below(place) {
			if below != "." && strings.HasPrefix(below, ".") {
				return "it is in a hidden directory of the home directory", nil
			}
		}
	}
	for _, program := range filepath.SplitList(p.env.Getenv("PATH")) {
		if filepath.IsAbs(program) && isIn(dir, placesOf(p.env, []string{program})) {
			return program + " is in PATH", nil
		}
	}
	obeyed, err := wiring.ObeyedPlaces(p.env)
	if err != nil {
		return "", fmt.Errorf("find the programs and settings that are obeyed: %w", err)
	}
	for _, place := range obeyed {
		if dir.Inside(place) {
			return "a hidden link in the home directory leads to " + place.Path, nil
		}
	}
	return "", nil
}
