package github

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// record is an issue as either of GitHub's APIs describes it. Memory has records, so that
// settings such as the labels of priorities may change.
type record struct {
	Repo      string    `json:"repo"` // as in Options.Repositories
	Number    int       `json:"number"`
	ID        int64     `json:"id"`
	Node      string    `json:"node"`
	Title     string    `json:"title"`
	Body      string    `json:"body,omitempty"`
	URL       string    `json:"url"`
	Closed    bool      `json:"closed,omitempty"`
	Labels    []string  `json:"labels,omitempty"`
	Assignees []string  `json:"assignees,omitempty"` // logins
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Blockers  []blocker `json:"blockers,omitempty"`
	// why the record is no issue; empty if it is one
	Malformed string `json:"malformed,omitempty"`

	spelled       []string   // Labels as GitHub spells them
	blocked       bool       // the issue has blockers, which are not in Blockers
	pull          bool       // it is a pull request
	lastCommentAt *time.Time // not in the list of a repository
	pullRequest   *reconcile.PullRequest
	closedBy      []closing  // not in the list of a repository
	item          *boardItem // its place on the board; nil if it is not there, or there is no board
}

type blocker struct {
	Repo   string `json:"repo"` // as GitHub names it
	Number int    `json:"number"`
	Closed bool   `json:"closed,omitempty"`
}

// closing is a pull request that closes an issue when it is merged.
type closing struct {
	URL     string `json:"url"`
	State   string `json:"state"`
	Branch  string `json:"headRefName"`
	Foreign bool   `json:"isCrossRepository"`
	Own     bool   `json:"viewerDidAuthor"`
	Author  *struct {
		Type  string `json:"__typename"`
		Login string `json:"login"`
	} `json:"author"` // nil for a deleted account
}

// restIssue is an issue in the answers of the REST API.
type restIssue struct {
	ID           int64     `json:"id"`
	Node         string    `json:"node_id"`
	Number       int       `json:"number"`
	Title        string    `json:"title"`
	Body         *string   `json:"body"`
	State        string    `json:"state"`
	URL          string    `json:"html_url"`
	Labels       []label   `json:"labels"`
	Assignees    []account `json:"assignees"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	Dependencies struct {
		Blockers int `json:"total_blocked_by"`
	} `json:"issue_dependencies_summary"`
	PullRequest any `json:"pull_request"`
}

// label is an object, or in some answers only its name.
type label struct {
	Name string `json:"name"`
}

func (l *label) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &l.Name) == nil {
		return nil
	}
	type object label
	return json.Unmarshal(data, (*object)(l))
}

type account struct {
	Login string `json:"login"`
	ID    int64  `json:"databaseId"` // only where a query asks for it
}

// nodes are a connection.
type nodes[T any] = transport.List[T]

type repositoryName struct {
	Name string `json:"nameWithOwner"`
}

// graphIssue is an issue in the answers of the GraphQL API.
type graphIssue struct {
	Node      string          `json:"id"`
	ID        json.RawMessage `json:"fullDatabaseId"` // a number, or a number in quotes
	Number    int             `json:"number"`
	Title     string          `json:"title"`
	Body      string          `json:"body"`
	URL       string          `json:"url"`
	State     string          `json:"state"`
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"`
	Assignees nodes[account]  `json:"assignees"`
	Labels    nodes[label]    `json:"labels"`
	Comments  nodes[struct {
		CreatedAt time.Time `json:"createdAt"`
	}] `json:"comments"`
	BlockedBy nodes[struct {
		Number     int            `json:"number"`
		State      string         `json:"state"`
		Repository repositoryName `json:"repository"`
	}] `json:"blockedBy"`
	ClosedBy nodes[closing]   `json:"closedByPullRequestsReferences"`
	Items    nodes[boardItem] `json:"projectItems"`
}

// boardItem is the place of an issue on a board.
type boardItem struct {
	ID       json.Number `json:"fullDatabaseId"` // in quotes
	Archived bool        `json:"isArchived"`
	Project  struct {
		URL string `json:"url"`
	} `json:"project"`
	Column struct {
		Name string `json:"name"`
	} `json:"fieldValueByName"`
}

// malformed returns a record with the reason why it is not an issue.
func malformed(repo string, data []byte, err error) record {
	var known struct {
		Number int `json:"number"`
	}
	_ = json.Unmarshal(data, &known) // the number stays 0 if it is what is wrong
	reason := err.Error()
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		reason = wrong.Field + " has an unexpected type"
	}
	return record{Repo: repo, Number: known.Number, Malformed: reason}
}

// fromREST reads an entry of the list of a repository.
func fromREST(repo string, data []byte) record {
	var w restIssue
	if err := json.Unmarshal(data, &w); err != nil {
		return malformed(repo, data, err)
	}
	r := record{
		Repo:    repo,
		Number:  w.Number,
		ID:      w.ID,
		Node:    w.Node,
		Title:   w.Title,
		Body:    text.OrEmpty(w.Body),
		URL:     w.URL,
		Closed:  strings.EqualFold(w.State, "closed"),
		Created: w.CreatedAt.UTC(),
		Updated: w.UpdatedAt.UTC(),
		blocked: w.Dependencies.Blockers > 0,
		pull:    w.PullRequest != nil,
	}
	return r.complete(w.State, w.Labels, w.Assignees)
}

// fromGraphQL reads an issue. project is the address of the board, empty for none.
func fromGraphQL(repo, project string, data []byte) record {
	var w graphIssue
	if err := json.Unmarshal(data, &w); err != nil {
		return malformed(repo, data, err)
	}
	r := record{
		Repo:     repo,
		Number:   w.Number,
		Node:     w.Node,
		Title:    w.Title,
		Body:     w.Body,
		URL:      w.URL,
		Closed:   strings.EqualFold(w.State, "closed"),
		Created:  w.CreatedAt.UTC(),
		Updated:  w.UpdatedAt.UTC(),
		closedBy: w.ClosedBy.Nodes,
	}
	r.ID, _ = strconv.ParseInt(string(bytes.Trim(w.ID, `"`)), 10, 64) // only prompts use it
	for _, b := range w.BlockedBy.Nodes {
		r.Blockers = append(
			r.Blockers,
			blocker{b.Repository.Name, b.Number, strings.EqualFold(b.State, "closed")},
		)
	}
	for _, comment := range w.Comments.Nodes {
		at := comment.CreatedAt.UTC()
		r.lastCommentAt = &at
	}
	if i := slices.IndexFunc(w.Items.Nodes, func(i boardItem) bool { return sameBoard(i.Project.URL, project) }); i >= 0 {
		r.item = &w.Items.Nodes[i]
	}
	return r.complete(w.State, w.Labels.Nodes, w.Assignees.Nodes)
}

// complete adds labels and assignees, sorted because the APIs order them differently, and
// checks the required fields.
func (r record) complete(state string, labels []label, assignees []account) record {
	ordered := func(names []string) []string { return slices.Sorted(slices.Values(text.Unique(names))) }
	r.spelled = text.Map(labels, func(l label) string { return l.Name })
	r.Labels = ordered(text.Map(r.spelled, strings.ToLower))
	r.Assignees = ordered(text.Map(assignees, func(a account) string { return a.Login }))
	switch {
	case r.Number < 1:
		r.Malformed = "number is missing"
	case strings.TrimSpace(r.Title) == "":
		r.Malformed = "title is missing"
	case !r.Closed && !strings.EqualFold(state, "open"):
		r.Malformed = fmt.Sprintf("state is %q instead of open or closed", state)
	case r.Updated.IsZero():
		r.Malformed = "the time of the last change is missing"
	}
	return r
}

// has reports whether the issue has a label.
func (r record) has(label string) bool {
	return slices.Contains(r.Labels, reconcile.NormalizeState(label))
}

// state returns the state of an issue: closed, the column of the board, the first label that
// is a state, or open.
func (n *names) state(r record) string {
	switch {
	case r.Closed:
		return "closed"
	case r.item != nil && strings.TrimSpace(r.item.Column.Name) != "":
		return strings.TrimSpace(r.item.Column.Name)
	}
	return cmp.Or(strings.TrimSpace(text.First(n.o.StateLabels, r.has)), "open")
}

// in reports whether a record is a candidate for the states: malformed records are, so that
// they are reported.
func (n *names) in(states map[string]bool, r record) bool {
	return r.Malformed != "" || states[reconcile.NormalizeState(n.state(r))]
}

// issue turns a record into an issue. me is the login of the token's account, if
// Options.Assignee asks for it.
func (n *names) issue(r record, me string) reconcile.Issue {
	id, identifier := n.called(r.Repo, r.Number)
	if r.Malformed != "" {
		return reconcile.Issue{ID: id, Identifier: identifier, Malformed: n.api.Scrub(r.Malformed)}
	}
	issue := reconcile.Issue{
		ID:            id,
		Identifier:    identifier,
		Title:         n.api.Scrub(r.Title),
		Description:   text.OrNull(n.api.Scrub(r.Body)),
		State:         n.api.Scrub(n.state(r)),
		URL:           text.OrNull(n.api.Scrub(r.URL)),
		Labels:        text.Map(r.Labels, n.api.Scrub),
		BlockedBy:     text.Map(r.Blockers, n.blocker),
		Assignee:      n.assignee(r.Assignees, me),
		Project:       r.Repo,
		CreatedAt:     text.OrNull(r.Created),
		UpdatedAt:     text.OrNull(r.Updated),
		LastCommentAt: r.lastCommentAt,
		PullRequest:   r.pullRequest,
		Elsewhere:     n.o.Project != "" && r.item == nil,
		NativeRef: map[string]any{
			"id":      r.ID,
			"node_id": r.Node,
			"number":  r.Number,
			"repo":    n.present(r.Repo),
		},
	}
	if i := slices.IndexFunc(n.o.PriorityLabels, r.has); i >= 0 {
		issue.Priority = new(i + 1)
	}
	if r.item != nil {
		issue.Archived = r.item.Archived
		issue.NativeRef["item"] = r.item.ID.String()
	}
	issue.OtherPull = n.otherPull(issue, r.closedBy)
	return issue
}

// otherPull returns the first open pull request that is neither of the token's account nor of
// the issue's branch, which symphony may push with another token; nil if there is none.
func (n *names) otherPull(issue reconcile.Issue, list []closing) *reconcile.OtherPull {
	for _, p := range list {
		if p.URL == "" || p.State != "OPEN" || p.Own ||
			n.o.Branch != nil && !p.Foreign && p.Branch == n.o.Branch(issue) {
			continue
		}
		author := "ghost"
		if a := p.Author; a != nil {
			author = a.Login
			if a.Type == "Bot" { // a user could have the same login
				author += "[bot]"
			}
		}
		return &reconcile.OtherPull{URL: n.api.Scrub(p.URL), Author: n.api.Scrub(author)}
	}
	return nil
}

// assignee chooses one of several accounts: the one that the workflow names, or else the
// first.
func (n *names) assignee(logins []string, me string) *reconcile.Assignee {
	if len(logins) == 0 {
		return nil
	}
	wanted := n.o.Assignee
	if strings.EqualFold(wanted, "me") {
		wanted = me
	}
	for _, l := range logins {
		// an id is compared as it is spelled, which GitHub does not
		if strings.EqualFold(l, wanted) {
			return &reconcile.Assignee{ID: wanted, IsMe: wanted == me}
		}
	}
	return &reconcile.Assignee{ID: logins[0]}
}

func (n *names) blocker(b blocker) reconcile.BlockerRef {
	repo := b.Repo
	state := "open"
	if b.Closed {
		state = "closed"
	}
	// A repository of the project has the name by which the workflow knows it.
	i := slices.IndexFunc(
		n.o.Repositories,
		func(r string) bool { return strings.EqualFold(n.present(r), b.Repo) },
	)
	if i < 0 {
		name := fmt.Sprintf("%s#%d", repo, b.Number)
		return reconcile.BlockerRef{ID: &name, Identifier: &name, State: &state}
	}
	id, identifier := n.called(n.o.Repositories[i], b.Number)
	return reconcile.BlockerRef{ID: &id, Identifier: &identifier, State: &state}
}
