package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// PullRequest is the newest pull request of an issue's branch, as the tracker described it at SeenAt.
type PullRequest struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"issue_identifier"`
	reconcile.PullRequest
	SeenAt time.Time `json:"seen_at"`
}

const pullRequestColumns = `issue_id, identifier, request, seen_at`

func pullRequestFields(p *PullRequest) []any {
	return []any{&p.IssueID, &p.Identifier, jsonOf(&p.PullRequest), stampOf(&p.SeenAt)}
}

// SavePullRequests implements reconcile.Store. A power failure may lose them: the next refresh reads them again.
func (s Store) SavePullRequests(ctx context.Context, now time.Time, issues []reconcile.Issue) error {
	return s.update(ctx, "store the pull requests", normal, func(t tx) error {
		for _, i := range issues {
			p := PullRequest{i.ID, i.Identifier, *i.PullRequest, now}
			if err := t.run(`INSERT OR REPLACE INTO pull_requests (`+pullRequestColumns+`) VALUES (`+marks(pullRequestColumns)+`)`,
				pullRequestFields(&p)...); err != nil {
				return err
			}
		}
		return nil
	})
}

// PullRequests returns the pull requests of all issues, by the ids of the issues.
func (v Views) PullRequests(ctx context.Context) (byID map[string]PullRequest, err error) {
	err = v.view(ctx, "read the pull requests", func(t tx) error {
		byID, err = readPullRequests(t)
		return err
	})
	return byID, err
}

func readPullRequests(t tx) (map[string]PullRequest, error) {
	list, err := rows(t, pullRequestFields, `SELECT `+pullRequestColumns+` FROM pull_requests`)
	byID := make(map[string]PullRequest, len(list))
	for _, p := range list {
		byID[p.IssueID] = p
	}
	return byID, err
}
