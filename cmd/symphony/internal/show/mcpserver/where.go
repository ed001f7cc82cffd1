package mcpserver

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
)

// codeNotPermitted is the code of a directory in which the operator has not permitted agents.
const codeNotPermitted = "directory_not_permitted"

// sessionKey is the key of the context's value with the host's session.
type sessionKey struct{}

// permit refuses an agent in a directory that the operator has not permitted. Permitted are the directory in which the server was
// started, the roots of the host, the directories of --dir, and what is in them; never a hidden directory of the home directory,
// such as ~/.ssh or ~/.local/bin, or a directory of PATH: what an agent leaves there is run or obeyed without a question.
func (s starter) permit(ctx context.Context, dir paths.Place) error {
	never, err := s.never(dir)
	if err != nil {
		return err
	}
	if never != "" {
		return reconcile.NewError(codeNotPermitted, fmt.Sprintf("cwd: no agent may work in %s: %s", dir.Path, never),
			"choose the directory of a repository or of a project")
	}
	if s.isIn(dir, s.options.Dirs) || s.isIn(dir, s.startedIn()) || s.isIn(dir, s.roots(ctx)) {
		return nil
	}
	flag := "symphony mcp"
	if s.options.overHTTP {
		flag = "symphony serve"
	}
	return reconcile.NewError(codeNotPermitted, fmt.Sprintf("cwd: your user has not permitted agents in %s", dir.Path),
		fmt.Sprintf("use a directory in which the server was started or that the host has opened, or ask your user to start %s with --dir %s",
			flag, dir.Path))
}

// startedIn is the directory in which the server was started. Hosts with windows start it in the home directory or in /, which
// says nothing about what their users permit.
func (s starter) startedIn() []string {
	if s.env.Dir == "/" || paths.SameDir(s.env.Dir, s.env.Home) {
		return nil
	}
	return []string{s.env.Dir}
}

// roots are the directories that the host has opened. A host of another machine names those of its own machine.
func (s starter) roots(ctx context.Context) (dirs []string) {
	session, _ := ctx.Value(sessionKey{}).(*mcp.ServerSession)
	if session == nil || s.options.overHTTP {
		return nil
	}
	p := session.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil {
		return nil
	}
	list, err := session.ListRoots(ctx, &mcp.ListRootsParams{})
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

// isIn reports whether a directory is one of several, or inside one. Those that can't be found are skipped.
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
	obeyed, err := project.ObeyedPlaces(s.env)
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
