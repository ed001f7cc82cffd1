package gitlab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ByIDs implements reconcile.Tracker: the issues with these ids that exist, by their ids.
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
	for _, project := range text.Unique(text.Map(refs, func(at repoissue.Ref) string { return at.Repo })) {
		here := text.Filter(refs, func(at repoissue.Ref) bool { return at.Repo == project })
		for batch := range slices.Chunk(here, gitlabapi.Page) {
			records, err := c.batch(ctx, project, batch)
			if err != nil {
				return nil, err
			}
			for _, at := range batch {
				r, there := records[at.Number]
				if !there {
					gone = append(gone, at)
					continue
				}
				if !r.Closed {
					r.Blockers, err = c.blockers(ctx, r)
					if err != nil {
						return nil, err
					}
				}
				issue := c.issue(r, me)
				found[issue.ID] = issue
			}
		}
	}
	if err := c.confirm(ctx, gone); err != nil {
		return nil, err
	}
	return found, nil
}

// batch reads issues of a project by a single request, without their blockers.
func (c *client) batch(ctx context.Context, project string, refs []repoissue.Ref) (map[int]record, error) {
	query := url.Values{
		"issue_type": {issueType},
		"state":      {"all"},
		"per_page":   {strconv.Itoa(gitlabapi.Page)},
		"iids[]":     text.Map(refs, func(at repoissue.Ref) string { return strconv.Itoa(at.Number) }),
	}
	raw, err := do[[]json.RawMessage](ctx, c, project, http.MethodGet, "/issues?"+query.Encode(), nil)
	if errors.Is(err, reconcile.ErrGone) {
		return nil, c.noIssues(ctx, project)
	}
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, c.api.Fail(unknownPayload, "the answer contains no list of issues")
	}
	records := map[int]record{}
	for _, entry := range raw {
		r, isHere := read(project, entry)
		if r.Malformed != "" {
			id, _ := c.Called(project, r.Number)
			return nil, c.api.Fail(unknownPayload, fmt.Sprintf("issue %q is malformed: %s", id, r.Malformed))
		}
		if !slices.Contains(refs, r.Ref()) {
			return nil, c.api.Fail(
				unknownPayload,
				fmt.Sprintf("the answer contains issue %d of %s, which was not asked for", r.Number, project),
			)
		}
		if isHere {
			records[r.Number] = r
		}
	}
	return records, nil
}

// confirm returns an error unless issues that GitLab does not show are gone: it answers the same
// if issues are disabled, or if the account does not see them any more.
func (c *client) confirm(ctx context.Context, gone []repoissue.Ref) error {
	for _, name := range text.Unique(text.Map(gone, func(at repoissue.Ref) string { return at.Repo })) {
		p, err := c.project(ctx, name)
		if err != nil {
			return err
		}
		if err := c.checkSeesAll(ctx, p); err != nil {
			return err
		}
	}
	return c.memory.Forget(ctx, gone)
}

// checkSeesAll returns an error unless the token's account sees confidential issues. GitLab hides
// these from others as if they did not exist.
func (c *client) checkSeesAll(ctx context.Context, p gitlabapi.Project) error {
	if p.Level() >= gitlabapi.Planner {
		return nil
	}
	viewer, level, err := c.role(ctx, p)
	if err != nil || viewer.IsAdmin || level >= gitlabapi.Planner {
		return err
	}
	return reconcile.NewError(
		"tracker_project_not_found",
		c.api.Scrub(fmt.Sprintf("GitLab may hide issues of %s: who sees confidential ones needs the role Planner "+
			"or a higher one, and %s has lost it or never had it", p.Name, viewer.Login)),
		"give that account the role Developer there",
	)
}

// existing reads an issue that a person or a claim names. The code of the error is
// issue_not_found if there is none.
func (c *client) existing(ctx context.Context, id string) (record, wireIssue, error) {
	at, err := c.IssueOf(id)
	if err != nil {
		return record{}, wireIssue{}, err
	}
	raw, err := do[json.RawMessage](
		ctx, c, at.Repo, http.MethodGet, fmt.Sprintf("/issues/%d", at.Number), nil,
	)
	if errors.Is(err, reconcile.ErrGone) {
		return record{}, wireIssue{}, c.gone(ctx, id)
	}
	if err != nil {
		return record{}, wireIssue{}, err
	}
	r, isHere := read(at.Repo, raw)
	switch {
	case r.Malformed != "":
		return r, wireIssue{}, c.api.Fail(unknownPayload, fmt.Sprintf("issue %q is malformed: %s", id, r.Malformed))
	case r.Number != at.Number:
		return r, wireIssue{}, c.api.Fail(
			unknownPayload,
			fmt.Sprintf("the answer contains issue %d of %s instead of %d", r.Number, at.Repo, at.Number),
		)
	case !isHere:
		return r, wireIssue{}, c.Missing(id)
	}
	w, err := transport.Decode[wireIssue](c.api.Client, raw)
	return r, w, err
}

// gone returns the error of an issue that GitLab does not show.
func (c *client) gone(ctx context.Context, id string) error {
	at, err := c.IssueOf(id)
	if err != nil {
		return err
	}
	if err := c.confirm(ctx, []repoissue.Ref{at}); err != nil {
		return err
	}
	return c.Missing(id)
}

// find returns the issue that people call GL-12, 12, #12, name-12, group/name#12, or by its
// address. The code of the error is issue_not_found if there is none.
func (c *client) find(ctx context.Context, name string) (*reconcile.Issue, error) {
	id, ok := c.IDOf(name)
	if !ok && len(c.o.Projects) == 1 && text.IsNumber(c.o.Projects[0]) {
		// it may be an address, which has the name of the project
		if _, err := c.project(ctx, c.o.Projects[0]); err != nil {
			return nil, err
		}
		id, ok = c.IDOf(name)
	}
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
