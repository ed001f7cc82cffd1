package gitea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ByIDs implements reconcile.Tracker: the issues with these ids that exist, by their ids. Gitea
// can be asked for one at a time only.
func (c *client) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	refs := c.IssuesOf(ids)
	found := make(map[string]reconcile.Issue, len(refs))
	if len(refs) == 0 {
		return found, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return nil, err
	}
	var gone []repoissue.Ref
	for _, at := range refs {
		r, _, err := c.one(ctx, at)
		if errors.Is(err, reconcile.ErrGone) {
			gone = append(gone, at)
			continue
		}
		if err != nil {
			return nil, err
		}
		r.Blockers, err = c.blockers(ctx, r)
		if err != nil {
			return nil, err
		}
		issue := c.issue(r, me)
		found[issue.ID] = issue
	}
	if err := c.confirm(ctx, gone); err != nil {
		return nil, err
	}
	return found, nil
}

// confirm returns an error unless issues that Gitea does not show are gone: it answers the same
// for a repository that is hidden, and for disabled issues.
func (c *client) confirm(ctx context.Context, gone []repoissue.Ref) error {
	repos := text.Unique(text.Map(gone, func(at repoissue.Ref) string { return at.Repo }))
	for _, repo := range repos {
		found, err := c.repository(ctx, repo)
		if err != nil {
			return err
		}
		if !found.HasIssues {
			return c.NoRepository(repo, "its issues are disabled")
		}
	}
	return c.memory.Forget(ctx, gone)
}

// one reads an issue, without its blockers. The error wraps reconcile.ErrGone if there is none,
// which may also be because the repository is hidden.
func (c *client) one(ctx context.Context, at repoissue.Ref) (record, wireIssue, error) {
	id, _ := c.Called(at.Repo, at.Number)
	path := fmt.Sprintf("/issues/%d", at.Number)
	raw, err := do[json.RawMessage](ctx, c, giteaapi.ReadIssue, at.Repo, http.MethodGet, path, nil)
	if err != nil {
		return record{}, wireIssue{}, err
	}
	r, isIssue := read(at.Repo, raw)
	switch {
	case r.Malformed != "":
		return r, wireIssue{}, c.api.Fail(
			unknownPayload,
			fmt.Sprintf("issue %q is malformed: %s", id, r.Malformed),
		)
	case r.Number != at.Number:
		return r, wireIssue{}, c.api.Fail(
			unknownPayload,
			fmt.Sprintf("the answer contains issue %d of %s instead of %d", r.Number, at.Repo, at.Number),
		)
	case !isIssue:
		return r, wireIssue{}, c.Missing(id)
	}
	w, err := transport.Decode[wireIssue](c.api.Client, raw)
	return r, w, err
}

// existing reads an issue that a person or a claim names. The code of the error is
// issue_not_found if there is none.
func (c *client) existing(ctx context.Context, id string) (record, wireIssue, error) {
	at, err := c.IssueOf(id)
	if err != nil {
		return record{}, wireIssue{}, err
	}
	r, w, err := c.one(ctx, at)
	if !errors.Is(err, reconcile.ErrGone) {
		return r, w, err
	}
	if err := c.confirm(ctx, []repoissue.Ref{at}); err != nil {
		return record{}, wireIssue{}, err
	}
	return record{}, wireIssue{}, c.Missing(id)
}

// find returns the issue that people call GT-12, 12, #12, name-12, owner/name#12, or by its
// address. The code of the error is issue_not_found if there is none.
func (c *client) find(ctx context.Context, name string) (*reconcile.Issue, error) {
	id, ok := c.IDOf(name)
	if !ok {
		return nil, c.Missing(name)
	}
	found, err := c.ByIDs(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	issue, there := found[id]
	if !there {
		return nil, c.Missing(name)
	}
	return &issue, nil
}
