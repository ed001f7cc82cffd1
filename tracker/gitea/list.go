package gitea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/reconcile"
)

type record = repoissue.Record

// Candidates implements reconcile.Tracker: the issues in the given states, the newest first.
// Without states no request is made.
func (c *client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	return c.candidates.Read(ctx, states)
}

func (c *client) issue(r record, me string) reconcile.Issue {
	return c.Issue(r, c.StateByLabels(r), me)
}

// list reads a list of issues of a repository, each once. mark is the time since which a later
// list has to contain what has changed meanwhile.
func (c *client) list(ctx context.Context, repo string, which repoissue.Which) ([]record, time.Time, error) {
	query := url.Values{"type": {"issues"}, "state": {"open"}}
	if which.Closed {
		query.Set("state", "all")
	}
	if !which.Since.IsZero() {
		query.Set("since", which.Since.Format(time.RFC3339))
	}
	var found repoissue.Set[record] // an issue that changes between two requests may be on both pages
	var mark repoissue.Mark
	err := c.within(repo, func(base string) error {
		found = repoissue.Set[record]{}
		mark = repoissue.Mark{Now: c.api.Now}
		return giteaapi.List(
			ctx, c.api, giteaapi.ReadIssue, base+"/issues", query, mark.Hear,
			func(entries []json.RawMessage) bool {
				for _, entry := range entries {
					if r, isIssue := read(repo, entry); isIssue {
						found.Put(r)
					}
				}
				return true
			},
		)
	})
	if errors.Is(err, reconcile.ErrGone) {
		return nil, mark.Since, c.noIssues(ctx, repo)
	}
	return found.Sorted(), mark.Since, err
}

// noIssues returns the error of a repository whose issues Gitea does not show: with the reason,
// if that can be found out.
func (c *client) noIssues(ctx context.Context, repo string) error {
	found, err := c.repository(ctx, repo)
	if err != nil {
		return err
	}
	if !found.HasIssues {
		return c.NoRepository(repo, "its issues are disabled")
	}
	return c.NoRepository(repo, "")
}

// repository is a repository in Gitea's words.
type repository struct {
	ID          int64  `json:"id"`
	Name        string `json:"full_name"`
	URL         string `json:"html_url"`
	Archived    bool   `json:"archived"`
	HasIssues   bool   `json:"has_issues"`
	Permissions struct {
		Push bool `json:"push"`
	} `json:"permissions"`
	Tracker *struct {
		Dependencies bool `json:"enable_issue_dependencies"`
	} `json:"internal_tracker"` // nil if issues are disabled, or elsewhere
}

// repository reads a repository. The error of one that the token does not see has the code
// tracker_project_not_found.
func (c *client) repository(ctx context.Context, repo string) (repository, error) {
	found, err := do[repository](ctx, c, giteaapi.ReadRepository, repo, http.MethodGet, "", nil)
	if errors.Is(err, reconcile.ErrGone) {
		return found, c.NoRepository(repo, "")
	}
	if err == nil && found.Name == "" {
		return found, c.api.Fail(unknownPayload, "the answer contains no repository "+repo)
	}
	if err == nil {
		c.Rename(repo, found.Name)
	}
	return found, err
}

// blockers reads the issues on which an open issue depends. A closed issue waits for nothing.
func (c *client) blockers(ctx context.Context, r record) ([]repoissue.Blocker, error) {
	if r.Closed || r.Malformed != "" {
		return nil, nil
	}
	var blockers []repoissue.Blocker
	err := c.within(r.Repo, func(base string) error {
		blockers = nil
		path := fmt.Sprintf("%s/issues/%d/dependencies", base, r.Number)
		return giteaapi.List(
			ctx, c.api, giteaapi.ReadIssue, path, url.Values{}, nil,
			func(issues []wireIssue) bool {
				for _, w := range issues {
					blockers = append(blockers, repoissue.Blocker{
						Repo:   w.Repository.Name,
						Number: w.Number,
						Closed: w.State == "closed",
					})
				}
				return true
			},
		)
	})
	if !errors.Is(err, reconcile.ErrGone) {
		return blockers, err
	}
	found, err := c.repository(ctx, r.Repo)
	if err != nil {
		return nil, err
	}
	if found.Tracker == nil || !found.Tracker.Dependencies {
		c.api.WarnOnce("dependencies between issues are disabled in " + found.Name +
			": no issue there waits for another")
	}
	return nil, nil // or the issue was deleted since
}
