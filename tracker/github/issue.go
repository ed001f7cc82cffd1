package github

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

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
		if p.URL == "" || p.State != "OPEN" || p.Own {
			continue
		}
		if n.o.Branch != nil && !p.Foreign && p.Branch == n.o.Branch(issue) {
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

// assignee chooses among several accounts: the account that the workflow names, or else the
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

// blocker returns an issue that blocks another, by its name in the project.
func (n *names) blocker(b blocker) reconcile.BlockerRef {
	state := "open"
	if b.Closed {
		state = "closed"
	}
	// A repository of the project is called as in the workflow.
	isItsRepo := func(r string) bool { return strings.EqualFold(n.present(r), b.Repo) }
	i := slices.IndexFunc(n.o.Repositories, isItsRepo)
	if i < 0 {
		name := fmt.Sprintf("%s#%d", b.Repo, b.Number)
		return reconcile.BlockerRef{ID: &name, Identifier: &name, State: &state}
	}
	id, identifier := n.called(n.o.Repositories[i], b.Number)
	return reconcile.BlockerRef{ID: &id, Identifier: &identifier, State: &state}
}
