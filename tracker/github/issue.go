package github

import (
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// state returns the state of an issue: closed, the column of the board, the first label that
// is a state, or open.
func (n *names) state(r record) string {
	if !r.Closed && r.item != nil && strings.TrimSpace(r.item.Column.Name) != "" {
		return strings.TrimSpace(r.item.Column.Name)
	}
	return n.StateByLabels(r.Record)
}

// in reports whether a record is a candidate for the states: malformed records are, so that
// they are reported.
func (n *names) in(states map[string]bool, r record) bool {
	return r.Malformed != "" || states[reconcile.NormalizeState(n.state(r))]
}

// issue turns a record into an issue. me is the login of the token's account, if
// Options.Assignee asks for it.
func (n *names) issue(r record, me string) reconcile.Issue {
	issue := n.Issue(r.Record, n.state(r), me)
	if issue.Malformed != "" {
		return issue
	}
	issue.NativeRef["node_id"] = r.Node
	issue.LastCommentAt = r.lastCommentAt
	issue.PullRequest = r.pullRequest
	issue.Elsewhere = n.o.Project != "" && r.item == nil
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
