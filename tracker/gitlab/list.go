package gitlab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

type record = repoissue.Record

// Candidates implements reconcile.Tracker: the issues in the given states, the newest first.
// Without states no request is made.
func (c *client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	return c.candidates.Read(ctx, states)
}

// issue returns a record as an issue. Its native_ref has the names of the reference implementation,
// too, so that its prompts find them here.
func (c *client) issue(r record, me string) reconcile.Issue {
	if text.IsNumber(r.Repo) { // a project that the workflow names by its number
		c.Rename(r.Repo, r.Path)
	}
	issue := c.Issue(r, c.StateByLabels(r), me)
	if r.Malformed == "" {
		path := cmp.Or(r.Path, c.Present(r.Repo))
		number := fmt.Sprint("#", r.Number)
		issue.NativeRef["iid"] = r.Number
		issue.NativeRef["project_id"] = r.Project
		issue.NativeRef["project_path"] = path
		issue.NativeRef["references"] = map[string]any{
			"short":    number,
			"relative": number,
			"full":     path + number,
		}
	}
	return issue
}

// issueType leaves out incidents, tasks and tickets, which are in GitLab's lists of issues, too.
const issueType = "issue"

// list reads a list of issues of a project, each once. mark is the time since which a later list
// has to contain what has changed meanwhile.
func (c *client) list(ctx context.Context, project string, which repoissue.Which) ([]record, time.Time, error) {
	query := url.Values{"issue_type": {issueType}, "state": {stateOpen}}
	if which.Closed {
		query.Set("state", "all")
	}
	if !which.Since.IsZero() {
		query.Set("updated_after", which.Since.Format(time.RFC3339))
	}
	var found repoissue.Set[record] // an issue that changes between two requests may be on both pages
	var mark repoissue.Mark
	err := c.within(ctx, project, func(base string) error {
		found = repoissue.Set[record]{}
		mark = repoissue.Mark{Now: c.api.Now}
		return gitlabapi.List(ctx, c.api, base+"/issues", query, mark.Hear, func(entries []json.RawMessage) bool {
			for _, entry := range entries {
				r, isHere := read(project, entry)
				if !isHere {
					r.Closed = true // it goes on elsewhere
				}
				found.Put(r)
			}
			return true
		})
	})
	if errors.Is(err, reconcile.ErrGone) {
		return nil, mark.Since, c.noIssues(ctx, project)
	}
	return found.Sorted(), mark.Since, err
}

// noIssues returns the error of a project whose issues GitLab does not show: with the reason, if
// that can be found out.
func (c *client) noIssues(ctx context.Context, project string) error {
	_, err := c.project(ctx, project)
	if err != nil {
		return err
	}
	return c.NoRepository(project, "")
}

// project reads a project whose issues GitLab shows. The error of another one has the code
// tracker_project_not_found.
func (c *client) project(ctx context.Context, name string) (gitlabapi.Project, error) {
	found, err := c.api.Find(ctx, c.Present(name))
	switch {
	case errors.Is(err, reconcile.ErrGone):
		return found, c.NoRepository(name, "")
	case err != nil:
		return found, c.elsewhere(name, err)
	case found.Issues == "disabled":
		return found, c.NoRepository(name, "its issues are disabled")
	}
	c.Rename(name, found.Name)
	if found.Issues == "private" {
		return found, c.checkMember(ctx, name, found)
	}
	return found, nil
}

// checkMember returns an error unless the token's account is a member of a project whose issues are
// for members only. GitLab hides these issues from others as if there were none.
func (c *client) checkMember(ctx context.Context, name string, p gitlabapi.Project) error {
	viewer, level, err := c.role(ctx, p)
	if err == nil && level == 0 && !viewer.IsAdmin {
		return c.NoRepository(name, "only its members may see them, and "+viewer.Login+" is none")
	}
	return err
}

// role returns the token's account and the level of its role in a project, also of a role that it
// has as a member of an invited group; 0 for none.
func (c *client) role(ctx context.Context, p gitlabapi.Project) (gitlabapi.Account, int, error) {
	viewer, err := c.api.Me(ctx)
	if err != nil {
		return viewer, 0, err
	}
	path := fmt.Sprintf("/projects/%d/members/all/%d", p.ID, viewer.ID)
	access, err := gitlabapi.Get[gitlabapi.Access](ctx, c.api, path, nil)
	if errors.Is(err, reconcile.ErrGone) {
		return viewer, 0, nil
	}
	return viewer, access.Level, err
}

// wireLink is an issue that is linked with another, in GitLab's words.
type wireLink struct {
	Number int      `json:"iid"`
	State  string   `json:"state"`
	Kind   string   `json:"link_type"`
	Names  fullName `json:"references"`
}

// blockers reads the issues that block an open issue.
func (c *client) blockers(ctx context.Context, r record) ([]repoissue.Blocker, error) {
	var blockers []repoissue.Blocker
	path := fmt.Sprintf("/issues/%d/links", r.Number)
	links, err := do[[]wireLink](ctx, c, r.Repo, http.MethodGet, path, nil)
	if errors.Is(err, reconcile.ErrGone) { // it was deleted since
		return nil, nil
	}
	for _, l := range links {
		if l.Kind != "is_blocked_by" {
			continue
		}
		blockers = append(blockers, repoissue.Blocker{
			Repo:   l.Names.project(),
			Number: l.Number,
			Closed: l.State == "closed",
		})
	}
	return blockers, err
}
