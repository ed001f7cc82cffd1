package github

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// names translates the names of issues and repositories between GitHub, the workflow and
// people. It sends nothing.
type names struct {
	api *transport.Client
	o   Options

	mu sync.Mutex
	// the present names of renamed repositories, by the former in lower case
	renamed map[string]string
}

// called returns the id and the identifier of an issue: 12 and GH-12, or with several
// repositories owner/name#12 and name-12.
func (n *names) called(repo string, number int) (id, identifier string) {
	digits := strconv.Itoa(number)
	if number < 1 {
		digits = "unknown"
	}
	if len(n.o.Repositories) == 1 {
		return digits, "GH-" + digits
	}
	_, name, _ := strings.Cut(repo, "/")
	return repo + "#" + digits, name + "-" + digits
}

// issueOf returns the repository and the number of an issue, given its id: the number, or
// OWNER/NAME#NUMBER in a project with several repositories.
func (n *names) issueOf(id string) (repo string, number int, err error) {
	repo, digits, several := strings.Cut(id, "#")
	if !several {
		digits = repo
		repo = n.o.Repositories[0]
	}
	number, err = strconv.Atoi(digits)
	i := slices.IndexFunc(n.o.Repositories, func(r string) bool { return strings.EqualFold(r, repo) })
	if err != nil || number < 1 || i < 0 || several != (len(n.o.Repositories) > 1) {
		return "", 0, n.missing(id)
	}
	return n.o.Repositories[i], number, nil
}

// missing returns the error of an issue that does not exist.
func (n *names) missing(name string) error {
	repos := strings.Join(n.o.Repositories, ", ")
	return &reconcile.Error{
		Code:    "issue_not_found",
		Message: n.api.Scrub(fmt.Sprintf("GitHub shows no issue %q of %s", name, repos)),
		Hint:    "check the number, and that the token may read the issue; a pull request is not an issue",
		Err:     reconcile.ErrGone,
	}
}

// idOf returns the id of the issue that people call GH-12, 12, #12, name-12, owner/name#12, or
// by its address. It is false for anything else, and for a number alone in a project with
// several repositories.
func (n *names) idOf(name string) (string, bool) {
	repo, digits, ok := splitName(strings.TrimSpace(name))
	if !ok {
		return "", false
	}
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 {
		return "", false
	}
	repos := n.o.Repositories
	if repo == "" || strings.EqualFold(repo, "GH") {
		if len(repos) > 1 {
			return "", false
		}
		repo = repos[0]
	}
	i := slices.IndexFunc(repos, func(r string) bool {
		_, short, _ := strings.Cut(r, "/")
		return strings.EqualFold(r, repo) || strings.EqualFold(n.present(r), repo) ||
			strings.EqualFold(short, repo)
	})
	if i < 0 {
		return "", false
	}
	id, _ := n.called(repos[i], number)
	return id, true
}

// splitName divides the name of an issue, such as name-12 or its address, into a repository,
// which may be empty, and a number. ok is false for the address of something else.
func splitName(name string) (repo, digits string, ok bool) {
	u, err := url.Parse(name)
	if err == nil && u.Host != "" {
		parts := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(parts) != 4 || parts[2] != "issues" {
			return "", "", false
		}
		return parts[0] + "/" + parts[1], parts[3], true
	}
	i := strings.LastIndexAny(name, "#-")
	if i < 0 {
		return "", name, true
	}
	return name[:i], name[i+1:], true
}

// present returns the present name of a repository, which may have been renamed.
func (n *names) present(repo string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.renamed[strings.ToLower(repo)], repo)
}

// rename records the present name of a repository, and warns once if the workflow uses another
// name.
func (n *names) rename(repo, name string) {
	if name == "" {
		return
	}
	former := strings.ToLower(repo)
	n.mu.Lock()
	n.renamed[former] = name
	if strings.EqualFold(repo, name) { // it has its name back
		delete(n.renamed, former)
	}
	n.mu.Unlock()
	if strings.EqualFold(repo, name) {
		return
	}
	n.api.WarnOnce(fmt.Sprintf("the repository %s is now called %s: correct tracker.provider", repo, name))
}

// issuePath returns the path of an issue, given its id.
func (n *names) issuePath(id string) (string, error) {
	repo, number, err := n.issueOf(id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/repos/%s/issues/%d", repo, number), nil
}

// ofIssue turns the error of a request about an issue that does not exist into
// issue_not_found.
func (n *names) ofIssue(id string, err error) error {
	if errors.Is(err, reconcile.ErrGone) {
		return n.missing(id)
	}
	return err
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

// ref names an issue.
type ref struct {
	repo   string // as in Options.Repositories
	number int
}
