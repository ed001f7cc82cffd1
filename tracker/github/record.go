package github

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// record is an issue as either of GitHub's APIs describes it.
type record struct {
	repoissue.Record
	Node string `json:"node"`

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
	return record{Record: repoissue.Malformed(repo, data, err)}
}

// fromREST reads an entry of the list of a repository.
func fromREST(repo string, data []byte) record {
	var w restIssue
	if err := json.Unmarshal(data, &w); err != nil {
		return malformed(repo, data, err)
	}
	r := record{
		Record: repoissue.Record{
			Repo:    repo,
			Number:  w.Number,
			ID:      w.ID,
			Title:   w.Title,
			Body:    text.OrEmpty(w.Body),
			URL:     w.URL,
			Created: w.CreatedAt.UTC(),
			Updated: w.UpdatedAt.UTC(),
		},
		Node:    w.Node,
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
		Record: repoissue.Record{
			Repo:    repo,
			Number:  w.Number,
			Title:   w.Title,
			Body:    w.Body,
			URL:     w.URL,
			Created: w.CreatedAt.UTC(),
			Updated: w.UpdatedAt.UTC(),
		},
		Node:     w.Node,
		closedBy: w.ClosedBy.Nodes,
	}
	r.ID, _ = strconv.ParseInt(string(bytes.Trim(w.ID, `"`)), 10, 64) // only prompts use it
	for _, b := range w.BlockedBy.Nodes {
		r.Blockers = append(r.Blockers, repoissue.Blocker{
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

// complete adds labels and assignees, and checks the required fields.
func (r record) complete(state string, labels []label, assignees []account) record {
	r.spelled = text.Map(labels, func(l label) string { return l.Name })
	r.Complete(state, r.spelled, text.Map(assignees, func(a account) string { return a.Login }))
	return r
}

// listed are records of issues, and the login of the token's account if the workflow asks for
// it.
type listed struct {
	records []record
	me      string
}
