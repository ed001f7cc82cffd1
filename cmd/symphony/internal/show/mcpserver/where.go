package mcpserver

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
)

// codeNotDecided is the code of a call that starts an agent in a directory about which a
// person has not decided yet.
const codeNotDecided = "directory_not_decided"

// sessionKey is the key of the context's value with the host's session.
type sessionKey struct{}

// permit reports whether the operator has permitted agents in a directory. Permitted are the
// directory in which the server was started, the roots of the host, the directories of --dir,
// and what is in them. A person is asked about any other. An error refuses hidden directories
// of the home directory, such as ~/.ssh or ~/.local/bin, and directories of PATH: what an
// agent leaves there is run or obeyed without a question.
func (s starter) permit(ctx context.Context, dir paths.Place) (permitted bool, err error) {
	never, err := s.never(dir)
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
	return s.isIn(dir, s.options.Dirs) || s.isIn(dir, s.startedIn()) || s.isIn(dir, s.roots(ctx)), nil
}

// spawning is a call that starts an agent.
type spawning struct {
	asker
	began  time.Time
	host   string // the name by which the host calls itself
	prompt string // the agent's work, if the call has it
	// answered: the host has had a form, which may have decided nothing.
	answered bool
	tool     string // that was called
}

// spawning returns what is known of a call that starts an agent, and carries out what a person
// has answered at the host.
func (s starter) spawning(
	ctx context.Context,
	e *elicitor,
	req *mcp.CallToolRequest,
	prompt string,
) spawning {
	began := s.env.Now()
	e.takeAnswers(ctx, req)
	host := ""
	if info := req.ClientInfo(); info != nil {
		host = info.Name
	}
	return spawning{
		asker:    e.asker(req),
		began:    began,
		host:     host,
		prompt:   prompt,
		answered: len(req.Params.InputResponses) > 0,
		tool:     req.Params.Name,
	}
}

// answeredAgent is the agent of a call that the host repeats after it has asked a person; ""
// for a new call.
func answeredAgent(req *mcp.CallToolRequest) string {
	for id := range req.Params.InputResponses {
		agentID, _ := reconcile.RequestRef(id)
		return agentID
	}
	return ""
}

// awaitPermission returns when an agent may start. It waits while a person sees a form at the
// host. It also waits if the request is older than the call: then the host has been told to
// ask its user. toAsk is a request about which the result of the call has to ask the host
// instead. Errors: agents.CodeNotPermitted; codeNotDecided, after which the agent still waits.
func (s starter) awaitPermission(
	ctx context.Context,
	host spawning,
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
	formOpen := false
	timeIsUp := time.After(limit)
	step := time.NewTicker(pollStep)
	defer step.Stop()
	for {
		one, err = s.agents.Current(ctx, one.Identifier)
		if err != nil {
			return nil, err
		}
		if one.Outcome != "" {
			return nil, agents.Ended(one.Run)
		}
		r, found, err := s.agents.PermissionOf(ctx, one)
		if err != nil {
			return nil, err
		}
		approved := r.Decision == reconcile.DecideApprove || r.Decision == reconcile.DecideForSession
		if found && approved && !r.EndedAt.IsZero() {
			return nil, nil
		}
		if found && r.Open() {
			shown, byResult := host.ask(ctx, r)
			if byResult {
				return []reconcile.Request{r}, nil
			}
			host.answered = host.answered || formOpen
			formOpen = shown
			if !shown && (host.answered || !r.AskedAt.Before(host.began)) {
				return nil, notDecided(r, host.tool, one.Identifier)
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeIsUp:
			if !found {
				return nil, context.DeadlineExceeded
			}
			return nil, notDecided(r, host.tool, one.Identifier)
		case <-step.C:
		}
	}
}

// notDecided tells the host how a person decides, and by which call it goes on after that.
func notDecided(r reconcile.Request, tool, agentID string) error {
	return reconcile.NewError(
		codeNotDecided,
		fmt.Sprintf("agent %s waits until a person permits it to %s", r.Identifier, r.Summary),
		fmt.Sprintf(
			"ask your user to decide: %s. Then call %s again with the id %s and otherwise the same arguments",
			view.HowToAnswer(r), tool, agentID,
		),
	)
}

// startedIn is the directory in which the server was started. Hosts with windows start it in
// the home directory or in /, which says nothing about what their users permit.
func (s starter) startedIn() []string {
	if s.env.Dir == "/" || paths.SameDir(s.env.Dir, s.env.Home) {
		return nil
	}
	return []string{s.env.Dir}
}

// roots are the directories that the host has opened. A host of another machine names those of
// its own machine.
func (s starter) roots(ctx context.Context) (dirs []string) {
	session, _ := ctx.Value(sessionKey{}).(*mcp.ServerSession)
	if session == nil || s.options.overHTTP {
		return nil
	}
	p := session.InitializeParams()
	if p == nil || p.Capabilities == nil ||
		p.Capabilities.RootsV2 == nil { //nolint:staticcheck // hosts of today have it
		return nil
	}
	list, err := session.ListRoots(ctx, &mcp.ListRootsParams{}) //nolint:staticcheck // the same
	if err != nil {
		return nil // without them the directory is refused
	}
	for _, root := range list.Roots {
		address, err := url.Parse(root.URI)
		if err == nil && address.Scheme == "file" && filepath.IsAbs(address.Path) {
			dirs = append(dirs, address.Path)
		}
	}
	return dirs
}

// isIn reports whether a directory is one of several, or inside one. Those that can't be found
// are skipped.
func (s starter) isIn(dir paths.Place, dirs []string) bool {
	for _, one := range dirs {
		place, err := paths.Find(s.env.Absolute(one))
		if err == nil && dir.Inside(place) {
			return true
		}
	}
	return false
}

// never says why no agent may work in a directory, whoever permits it; empty if one may.
func (s starter) never(dir paths.Place) (why string, err error) {
	for _, home := range []string{s.env.Home, s.env.AccountHome} {
		if home == "" {
			continue
		}
		place, err := paths.Find(home)
		if err != nil {
			return "", fmt.Errorf("find the home directory: %w", err)
		}
		for _, below := range dir.Below(place) {
			if below != "." && strings.HasPrefix(below, ".") {
				return "it is in a hidden directory of the home directory, where programs keep what they obey", nil
			}
		}
	}
	for _, program := range filepath.SplitList(s.env.Getenv("PATH")) {
		if filepath.IsAbs(program) && s.isIn(dir, []string{program}) {
			return program + " is in PATH, and programs are started from there", nil
		}
	}
	obeyed, err := wiring.ObeyedPlaces(s.env)
	if err != nil {
		return "", err
	}
	for _, place := range obeyed {
		if dir.Inside(place) {
			return "a hidden link in the home directory leads to " + place.Path + ", where programs keep what they obey", nil
		}
	}
	return "", nil
}
