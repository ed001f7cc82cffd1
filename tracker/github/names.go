package github

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

type ref = repoissue.Ref

// names translates the names of issues, repositories and boards between GitHub, the workflow
// and people. It sends nothing.
type names struct {
	*repoissue.Names
	api *transport.Client
	o   Options
}

// issuePath returns the path of an issue, given its id.
func (n *names) issuePath(id string) (string, error) {
	at, err := n.IssueOf(id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/repos/%s/issues/%d", at.Repo, at.Number), nil
}

// boardAddress reads the address of a project: https://github.com/orgs/LOGIN/projects/NUMBER,
// or with users instead of orgs, which is kind.
func boardAddress(address string) (kind, login string, number int, err error) {
	wrong := reconcile.NewError(
		"tracker_project_not_found",
		fmt.Sprintf("%q is not the address of a project", address),
		"copy it from the browser: https://github.com/orgs/OWNER/projects/1",
	)
	u, err := url.Parse(address)
	if err != nil {
		return "", "", 0, wrong
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) < 4 || owners[parts[0]] == "" || parts[1] == "" || parts[2] != "projects" {
		return "", "", 0, wrong
	}
	number, err = strconv.Atoi(parts[3])
	if err != nil || number < 1 {
		return "", "", 0, wrong
	}
	return parts[0], parts[1], number, nil
}

// owners are the fields of a GraphQL query that return the owner, by the word in the address
// of a project.
var owners = map[string]string{"orgs": "organization", "users": "user"}

// boardOf returns the path of a project in the REST API; empty if it is not the address of a
// project.
func boardOf(address string) string {
	kind, login, number, err := boardAddress(address)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("/%s/%s/projectsV2/%d", kind, login, number)
}

// sameBoard reports whether two addresses, perhaps of views, lead to the same project.
func sameBoard(a, b string) bool {
	path := boardOf(a)
	return path != "" && strings.EqualFold(path, boardOf(b))
}
