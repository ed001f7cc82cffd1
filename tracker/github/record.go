package github

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// record is an issue as either of GitHub's APIs describes it. Memory stores records, so that
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
	// why the record is no issue; empty if it is an issue
	Malformed string `json:"malformed,omitempty"`

	spelled       []string   // Labels as GitHub spells them
	blocked       bool       // other issues block this issue, but Blockers does not list them
	pull          bool       // it is a pull request
	lastCommentAt *time.Time // not in the list of a repository
	pullRequest   *reconcile.PullRequest
	closedBy      []closing  // not in the list of a repository
	item          *boardItem // its place on the board; nil if it is not there, or there is no board
}

// malformed returns a record with the reason why it is not an issue.
func malformed(repo string, data []byte, err error) record {
	var known struct {
		Number int `json:"number"`
	}
	_ = json.Unmarshal(data, &known) // the number stays 0 if the number itself is wrong
	reason := err.Error()
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if ok && wrong.Field != "" {
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
		r.Blockers = append(r.Blockers, blocker{
			Repo:   b.Repository.Name,
			Number: b.Number,
			Closed: strings.EqualFold(b.State, "closed"),
		})
	}
	for _, comment := range w.Comments.Nodes {
		at := comment.CreatedAt.UTC()
		r.lastCommentAt = &at
	}
	isOfProject := func(item boardItem) bool { return sameBoard(item.Project.URL, project) }
	if i := slices.IndexFunc(w.Items.Nodes, isOfProject); i >= 0 {
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

// has reports whether the label is set on the issue.
func (r record) has(label string) bool {
	return slices.Contains(r.Labels, reconcile.NormalizeState(label))
}

// listed are records of issues, and the login of the token's account if the workflow asks for
// it.
type listed struct {
	records []record
	me      string
}
