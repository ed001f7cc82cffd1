package gitea

import (
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/text"
)

// wireIssue is an issue in Gitea's words.
type wireIssue struct {
	ID          int64              `json:"id"`
	Number      int                `json:"number"`
	Title       string             `json:"title"`
	Body        string             `json:"body"`
	URL         string             `json:"html_url"`
	State       string             `json:"state"`
	Labels      []label            `json:"labels"`
	Assignees   []giteaapi.Account `json:"assignees"`
	CreatedAt   time.Time          `json:"created_at"`
	UpdatedAt   time.Time          `json:"updated_at"`
	PullRequest any                `json:"pull_request"` // nil for an issue
	Repository  struct {
		Name string `json:"full_name"`
	} `json:"repository"`
}

// label is a label of a repository or an organization. Two may have the same name.
type label struct {
	ID       int64  `json:"id"`
	Name     string `json:"name"`
	Archived bool   `json:"is_archived"` // it can't be chosen any more
}

// read decodes an issue of a repository. It is false for a pull request.
func read(repo string, data json.RawMessage) (r repoissue.Record, isIssue bool) {
	var w wireIssue
	if err := json.Unmarshal(data, &w); err != nil {
		return repoissue.Malformed(repo, data, err), true
	}
	return w.record(repo), w.PullRequest == nil
}

func (w wireIssue) record(repo string) repoissue.Record {
	r := repoissue.Record{
		Repo:    repo,
		Number:  w.Number,
		ID:      w.ID,
		Title:   w.Title,
		Body:    w.Body,
		URL:     w.URL,
		Created: w.CreatedAt.UTC(),
		Updated: w.UpdatedAt.UTC(),
	}
	r.Complete(
		w.State,
		text.Map(w.Labels, func(l label) string { return l.Name }),
		text.Map(w.Assignees, func(a giteaapi.Account) string { return a.Login }),
	)
	return r
}
