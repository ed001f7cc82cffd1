// Package repoissue has what those trackers share whose issues belong to repositories with names
// such as acme/shop, and whose labels are states: the names of issues, their records, and the
// list that is remembered between passes.
package repoissue

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
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options are the settings of a workflow on which names and states depend.
type Options struct {
	Prefix       string   // of identifiers: GH for GH-12
	Repositories []string // OWNER/NAME; with Groups also the number of a project
	// Groups: owners are groups that may be in other groups, as in group/sub/project.
	Groups bool
	// Open is the state of an open issue without a label that is a state; "open" if empty.
	Open string
	// StateLabels are the labels that are states; empty if issues are only open or closed.
	StateLabels []string
	// PriorityLabels are the labels of the priorities 1, 2 and so on.
	PriorityLabels []string
	// Assignee is the login, or "me", for which the workflow looks among several assignees of
	// an issue; may be empty.
	Assignee string
	// Board: the columns of a board are states, too.
	Board bool
}

// Names translates the names of issues and repositories between a tracker, the workflow and
// people. It sends nothing.
type Names struct {
	api *transport.Client
	o   Options

	mu sync.Mutex
	// the present names of renamed repositories, by the former in lower case
	renamed map[string]string
}

// NewNames returns the names of issues in the repositories of the options.
func NewNames(api *transport.Client, o Options) *Names {
	o.Open = cmp.Or(o.Open, "open")
	return &Names{api: api, o: o, renamed: map[string]string{}}
}

// Check returns an error with the code unless each repository is named OWNER/NAME, and there is
// at least one.
func (o Options) Check(code, hint string) error {
	for _, repo := range o.Repositories {
		parts := strings.Split(repo, "/")
		isOdd := func(part string) bool {
			return url.PathEscape(part) != part || strings.Trim(part, ".") == ""
		}
		if o.Groups && text.IsNumber(repo) {
			continue
		}
		if len(parts) < 2 || len(parts) > 2 && !o.Groups || slices.ContainsFunc(parts, isOdd) {
			return reconcile.NewError(code, fmt.Sprintf("%q is not the name of a repository", repo), hint)
		}
	}
	if len(o.Repositories) == 0 {
		return reconcile.NewError(code, "no repository is named", hint)
	}
	return nil
}

// Ref names an issue.
type Ref struct {
	Repo   string // as in Options.Repositories
	Number int
}

// Called returns the id and the identifier of an issue: 12 and GH-12, or with several
// repositories owner/name#12 and name-12.
func (n *Names) Called(repo string, number int) (id, identifier string) {
	digits := strconv.Itoa(number)
	if number < 1 {
		digits = "unknown"
	}
	if len(n.o.Repositories) == 1 {
		return digits, n.o.Prefix + "-" + digits
	}
	return repo + "#" + digits, nameOf(repo) + "-" + digits
}

// nameOf returns the name of a repository without its owner: shop for acme/shop.
func nameOf(repo string) string { return repo[strings.LastIndexByte(repo, '/')+1:] }

// IssueOf returns the repository and the number of an issue, given its id: the number, or
// OWNER/NAME#NUMBER in a project with several repositories.
func (n *Names) IssueOf(id string) (Ref, error) {
	repo, digits, several := strings.Cut(id, "#")
	if !several {
		digits = repo
		repo = n.o.Repositories[0]
	}
	number, err := strconv.Atoi(digits)
	i := slices.IndexFunc(n.o.Repositories, func(r string) bool { return strings.EqualFold(r, repo) })
	if err != nil || number < 1 || i < 0 || several != (len(n.o.Repositories) > 1) {
		return Ref{}, n.Missing(id)
	}
	return Ref{n.o.Repositories[i], number}, nil
}

// IssuesOf returns those issues of the project that have these ids, each once.
func (n *Names) IssuesOf(ids []string) []Ref {
	var refs []Ref
	for _, id := range text.Unique(ids) {
		at, err := n.IssueOf(id)
		if err == nil { // else it is not of this project
			refs = append(refs, at)
		}
	}
	return refs
}

// Missing returns the error of an issue that does not exist.
func (n *Names) Missing(name string) error {
	repos := strings.Join(n.o.Repositories, ", ")
	return &reconcile.Error{
		Code:    "issue_not_found",
		Message: n.api.Scrub(fmt.Sprintf("%s shows no issue %q of %s", n.api.Name, name, repos)),
		Hint: "check the number, which may be that of a pull or merge request, and that the token may read " +
			"the issue",
		Err: reconcile.ErrGone,
	}
}

// IDOf returns the id of the issue that people call GH-12, 12, #12, name-12, owner/name#12, or
// by its address. It is false for anything else, and for a number alone in a project with
// several repositories.
func (n *Names) IDOf(name string) (string, bool) {
	repo, digits, ok := n.splitName(strings.TrimSpace(name))
	if !ok {
		return "", false
	}
	number, err := strconv.Atoi(digits)
	if err != nil || number < 1 {
		return "", false
	}
	repos := n.o.Repositories
	if repo == "" || strings.EqualFold(repo, n.o.Prefix) {
		if len(repos) > 1 {
			return "", false
		}
		repo = repos[0]
	}
	i := slices.IndexFunc(repos, func(r string) bool {
		return strings.EqualFold(r, repo) || strings.EqualFold(n.Present(r), repo) ||
			strings.EqualFold(nameOf(r), repo)
	})
	if i < 0 {
		return "", false
	}
	id, _ := n.Called(repos[i], number)
	return id, true
}

// splitName divides the name of an issue, such as name-12 or its address, into a repository,
// which may be empty, and a number. ok is false for the address of something else.
func (n *Names) splitName(name string) (repo, digits string, ok bool) {
	u, err := url.Parse(name)
	if err == nil && u.Host != "" {
		return n.splitAddress(u)
	}
	i := strings.LastIndexAny(name, "#-")
	if i < 0 {
		return "", name, true
	}
	return name[:i], name[i+1:], true
}

// splitAddress divides the address of an issue, such as https://HOST/OWNER/NAME/issues/12.
func (n *Names) splitAddress(u *url.URL) (repo, digits string, ok bool) {
	path := strings.Trim(u.Path, "/")
	if n.o.Groups {
		// a server may be at a path below its host, as its API is
		site, err := url.Parse(n.api.Endpoint)
		if err == nil {
			below := strings.Trim(strings.TrimSuffix(site.Path, "/api/v4"), "/") + "/"
			path = strings.TrimPrefix(path, below)
		}
		repo, page, isPage := strings.Cut(path, "/-/")
		kind, digits, _ := strings.Cut(page, "/")
		return repo, digits, isPage && (kind == "issues" || kind == "work_items")
	}
	parts := strings.Split(path, "/")
	if len(parts) < 4 || parts[len(parts)-2] != "issues" {
		return "", "", false
	}
	parts = parts[len(parts)-4:] // a server may be at a path below its host
	return parts[0] + "/" + parts[1], parts[3], true
}

// Present returns the present name of a repository, which may have been renamed.
func (n *Names) Present(repo string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.renamed[strings.ToLower(repo)], repo)
}

// Rename records the present name of a repository, and warns once if the workflow uses another
// name. A number stays right, whatever the name.
func (n *Names) Rename(repo, name string) {
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
	if strings.EqualFold(repo, name) || text.IsNumber(repo) {
		return
	}
	n.api.WarnOnce(fmt.Sprintf("the repository %s is now called %s: correct tracker.provider", repo, name))
}

// OfIssue turns the error of a request about an issue that does not exist into
// issue_not_found.
func (n *Names) OfIssue(id string, err error) error {
	if errors.Is(err, reconcile.ErrGone) {
		return n.Missing(id)
	}
	return err
}

// NoRepository returns the error of a repository whose issues the token does not see. said is
// the tracker's message about it; may be empty.
func (n *Names) NoRepository(repo, said string) error {
	if said != "" {
		said = ": " + said
	}
	kind := "repository"
	form := "OWNER/NAME"
	if n.o.Groups {
		kind = "project"
		form = "GROUP/PROJECT"
	}
	return reconcile.NewError(
		"tracker_project_not_found",
		n.api.Scrub(fmt.Sprintf("%s shows no issues of the %s %q%s", n.api.Name, kind, repo, said)),
		fmt.Sprintf("check the name %s, that the %s has issues, and that the token may read it", form, kind),
	)
}

// CheckRights returns why the token's account can't change anything in a repository; nil if it can.
func (n *Names) CheckRights(repo, login string, isArchived, mayWrite bool) *reconcile.Error {
	switch {
	case isArchived:
		return &reconcile.Error{
			Message: n.api.Scrub(repo + " is archived, so that nothing in it can be changed"),
			Hint:    "unarchive it in its settings",
		}
	case !mayWrite:
		return &reconcile.Error{
			Message: n.api.Scrub(login + " may only read " + repo),
			Hint:    "let that account write there",
		}
	}
	return nil
}

// Issue turns a record into an issue that is in a state. me is the login of the token's
// account, if Options.Assignee asks for it.
func (n *Names) Issue(r Record, state, me string) reconcile.Issue {
	id, identifier := n.Called(r.Repo, r.Number)
	if r.Malformed != "" {
		return reconcile.Issue{ID: id, Identifier: identifier, Malformed: n.api.Scrub(r.Malformed)}
	}
	issue := reconcile.Issue{
		ID:          id,
		Identifier:  identifier,
		Title:       n.api.Scrub(r.Title),
		Description: text.OrNull(n.api.Scrub(r.Body)),
		State:       n.api.Scrub(state),
		URL:         text.OrNull(n.api.Scrub(r.URL)),
		Labels:      text.Map(r.Labels, n.api.Scrub),
		BlockedBy:   text.Map(r.Blockers, n.blocker),
		Assignee:    n.assignee(r.Assignees, me),
		Project:     r.Repo,
		CreatedAt:   text.OrNull(r.Created),
		UpdatedAt:   text.OrNull(r.Updated),
		NativeRef: map[string]any{
			"id":     r.ID,
			"number": r.Number,
			"repo":   n.Present(r.Repo),
		},
	}
	i := slices.IndexFunc(n.o.PriorityLabels, r.Has)
	if i >= 0 {
		issue.Priority = new(i + 1)
	}
	return issue
}

// assignee chooses among several accounts: the account that the workflow names, or else the
// first.
func (n *Names) assignee(logins []string, me string) *reconcile.Assignee {
	if len(logins) == 0 {
		return nil
	}
	wanted := n.o.Assignee
	if n.AsksForMe() {
		wanted = me
	}
	for _, l := range logins {
		// an id is compared as it is spelled, which the trackers do not
		if strings.EqualFold(l, wanted) {
			return &reconcile.Assignee{ID: wanted, IsMe: wanted == me}
		}
	}
	return &reconcile.Assignee{ID: logins[0]}
}

// AsksForMe reports whether the workflow asks for the issues of the token's account.
func (n *Names) AsksForMe() bool { return strings.EqualFold(n.o.Assignee, "me") }

// blocker returns an issue that blocks another, by its name in the project.
func (n *Names) blocker(b Blocker) reconcile.BlockerRef {
	state := n.o.Open
	if b.Closed {
		state = "closed"
	}
	repo, ours := n.Ours(b.Repo)
	if !ours {
		name := fmt.Sprintf("%s#%d", b.Repo, b.Number)
		return reconcile.BlockerRef{ID: &name, Identifier: &name, State: &state}
	}
	id, identifier := n.Called(repo, b.Number)
	return reconcile.BlockerRef{ID: &id, Identifier: &identifier, State: &state}
}

// Ours returns a repository of the project as the workflow calls it, given its present name. It
// is false for other repositories.
func (n *Names) Ours(present string) (repo string, ours bool) {
	i := slices.IndexFunc(n.o.Repositories, func(r string) bool {
		return strings.EqualFold(n.Present(r), present)
	})
	if i < 0 {
		return "", false
	}
	return n.o.Repositories[i], true
}

// Misspelt returns the StateLabels that do not exist, but resemble one of the labels that do. One
// that resembles none is new: it is created when it is set.
func (n *Names) Misspelt(labels []string) []reconcile.UnknownName {
	isNew := func(u reconcile.UnknownName) bool { return len(u.Nearest) == 0 }
	return slices.DeleteFunc(transport.Unknown(n.o.StateLabels, labels, labels), isNew)
}

// StateByLabels returns the state of an issue: closed, the first label that is a state, or
// Options.Open.
func (n *Names) StateByLabels(r Record) string {
	if r.Closed {
		return "closed"
	}
	return cmp.Or(strings.TrimSpace(text.First(n.o.StateLabels, r.Has)), n.o.Open)
}

// LabelsTo returns the changes of labels that move an open issue to a state: the label to add,
// empty for none, and then the labels to remove, in order. The label of the old state is
// removed last: the first of an issue's StateLabels is its state.
func (n *Names) LabelsTo(r Record, state string) (add string, remove []string, err error) {
	to := text.First(n.o.StateLabels, func(l string) bool { return reconcile.SameState(l, state) })
	if to == "" && !reconcile.SameState(state, n.o.Open) {
		states := append([]string{n.o.Open, "closed"}, n.o.StateLabels...)
		return "", nil, reconcile.NoState(strings.Join(n.o.Repositories, ", "), state, states)
	}
	if to != "" && !r.Has(to) {
		add = to
	}
	for _, other := range slices.Backward(n.o.StateLabels) {
		if r.Has(other) && !reconcile.SameState(other, to) {
			remove = append(remove, other)
		}
	}
	return add, remove, nil
}
