package gitea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// listLongest is when all open issues are read anew: a label that was renamed, and an issue
	// that was deleted, leave no trace in the changes.
	listLongest = 24 * time.Hour
	// overlap is how far back a pass asks for changes before the pass before. Times are those
	// of Gitea in whole seconds; a proxy may tell another time.
	overlap = time.Minute
)

type (
	record = repoissue.Record
	list   = repoissue.List[record]
	part   = repoissue.Part[record]
)

// Candidates implements reconcile.Tracker: the issues in the given states, the newest first.
// Without states no request is made.
func (c *client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	wanted := map[string]bool{}
	for _, s := range states {
		if state := reconcile.NormalizeState(s); state != "" {
			wanted[state] = true
		}
	}
	if len(wanted) == 0 {
		return []reconcile.Issue{}, nil
	}
	me, err := c.me(ctx)
	if err != nil {
		return nil, err
	}
	var records []record
	if c.o.Memory != nil && !wanted["closed"] {
		records, err = c.remembered(ctx, wanted)
	} else {
		records, err = c.readAll(ctx, wanted)
	}
	if err != nil {
		return nil, err
	}
	repoissue.NewestFirst(records)
	return text.Map(records, func(r record) reconcile.Issue { return c.issue(r, me) }), nil
}

func (c *client) issue(r record, me string) reconcile.Issue {
	return c.Issue(r, c.StateByLabels(r), me)
}

// isCandidate returns a function that reports whether a record is a candidate for the states:
// malformed records are, so that they are reported.
func (c *client) isCandidate(wanted map[string]bool) func(record) bool {
	return func(r record) bool {
		return r.Malformed != "" || wanted[reconcile.NormalizeState(c.StateByLabels(r))]
	}
}

// readAll reads the candidates of all repositories.
func (c *client) readAll(ctx context.Context, wanted map[string]bool) ([]record, error) {
	var all []record
	for _, repo := range c.o.Repositories {
		p, err := c.fresh(ctx, repo, wanted)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Issues...)
	}
	return all, nil
}

// remembered brings the list in Memory up to date and returns it.
func (c *client) remembered(ctx context.Context, wanted map[string]bool) ([]record, error) {
	c.memory.Lock()
	defer c.memory.Unlock()
	l := c.memory.Read(ctx)
	settings := fmt.Sprintf(
		"%s %q %q %q",
		c.api.Endpoint, c.o.Repositories, c.o.StateLabels, slices.Sorted(maps.Keys(wanted)),
	)
	if l.For != settings {
		l = list{For: settings, Repos: map[string]*part{}}
	}
	changed := false
	closed := map[repoissue.Ref]bool{} // of the issues that have changed
	for _, repo := range c.o.Repositories {
		p := l.Repos[repo]
		next, err := c.update(ctx, repo, p, wanted, closed)
		if err != nil {
			return nil, err
		}
		changed = changed || next != p
		l.Repos[repo] = next
	}
	var all []record
	for _, p := range l.Repos {
		again, err := c.followBlockers(ctx, p, closed)
		if err != nil {
			return nil, err
		}
		changed = changed || again
		all = append(all, p.Issues...)
	}
	if !changed {
		return all, nil
	}
	return all, c.memory.Write(ctx, l)
}

// update returns the list of a repository as it is now: p itself if nothing changed. It adds to
// closed which of the issues that have changed are closed.
func (c *client) update(
	ctx context.Context,
	repo string,
	p *part,
	wanted map[string]bool,
	closed map[repoissue.Ref]bool,
) (*part, error) {
	now := c.api.Now()
	if p == nil || now.Before(p.At) || now.Sub(p.At) > listLongest {
		return c.fresh(ctx, repo, wanted)
	}
	c.Rename(repo, p.Name)
	changes, mark, err := c.list(ctx, repo, url.Values{
		"state": {"all"},
		"since": {p.Mark.Format(time.RFC3339)},
	})
	if err != nil || len(changes) == 0 {
		return p, err
	}
	for _, r := range changes {
		closed[r.Ref()] = r.Closed
	}
	is := c.isCandidate(wanted)
	if err := c.addBlockers(ctx, changes, is); err != nil {
		return nil, err
	}
	return &part{
		Name:   c.Present(repo),
		Mark:   mark,
		At:     p.At,
		Issues: repoissue.Merge(p.Issues, changes, is),
	}, nil
}

// fresh reads all candidates of a repository, with their blockers.
func (c *client) fresh(ctx context.Context, repo string, wanted map[string]bool) (*part, error) {
	state := "open"
	if wanted["closed"] {
		state = "all"
	}
	all, mark, err := c.list(ctx, repo, url.Values{"state": {state}})
	if err != nil {
		return nil, err
	}
	is := c.isCandidate(wanted)
	all = text.Filter(all, is)
	if err := c.addBlockers(ctx, all, is); err != nil {
		return nil, err
	}
	return &part{Name: c.Present(repo), Mark: mark, At: c.api.Now().UTC(), Issues: all}, nil
}

// followBlockers brings the blockers of issues up to date that were closed or reopened, and reads
// those in other repositories, whose changes are not seen. It reports whether any has changed.
func (c *client) followBlockers(ctx context.Context, p *part, closed map[repoissue.Ref]bool) (bool, error) {
	changed := false
	for i := range p.Issues {
		r := &p.Issues[i]
		elsewhere := false
		for n, b := range r.Blockers {
			repo, ours := c.Ours(b.Repo)
			elsewhere = elsewhere || !ours && !b.Closed
			is, known := closed[repoissue.Ref{Repo: repo, Number: b.Number}]
			if ours && known && is != b.Closed {
				r.Blockers[n].Closed = is
				changed = true
			}
		}
		if !elsewhere {
			continue
		}
		blockers, err := c.blockers(ctx, *r)
		if err != nil {
			return false, err
		}
		if !slices.Equal(blockers, r.Blockers) {
			r.Blockers = blockers
			changed = true
		}
	}
	return changed, nil
}

// list reads a list of issues of a repository, each once. mark is the time since which a later
// list has to contain what has changed meanwhile.
func (c *client) list(ctx context.Context, repo string, query url.Values) ([]record, time.Time, error) {
	query.Set("type", "issues")
	var found repoissue.Set[record] // an issue that changes between two requests may be on both pages
	mark := time.Time{}
	err := c.within(repo, func(base string) error {
		found = repoissue.Set[record]{}
		mark = time.Time{}
		heard := func(h http.Header) {
			at, err := http.ParseTime(h.Get("Date"))
			if err != nil {
				at = c.api.Now()
			}
			if mark.IsZero() {
				mark = at.UTC().Add(-overlap).Truncate(time.Second)
			}
		}
		return giteaapi.List(
			ctx, c.api, giteaapi.ReadIssue, base+"/issues", query, heard,
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
		return nil, mark, c.noIssues(ctx, repo)
	}
	return found.Sorted(), mark, err
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

// addBlockers reads the blockers of those records of which is returns true.
func (c *client) addBlockers(ctx context.Context, records []record, is func(record) bool) error {
	for i, r := range records {
		if !is(r) {
			continue
		}
		blockers, err := c.blockers(ctx, r)
		if err != nil {
			return err
		}
		records[i].Blockers = blockers
	}
	return nil
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
