package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The list of candidates that is remembered.
type (
	list = repoissue.List[record]
	part = repoissue.Part[record]
)

const (
	// listLongest is when the list is read anew although GitHub reports no change: an issue
	// that was transferred, or a label that was renamed, leaves no trace in the latest
	// changes.
	listLongest = 24 * time.Hour
	perPage     = 100
)

// Candidates implements reconcile.Tracker: the issues in the given states, the newest first.
// Without states no request is made.
func (c *Client) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	wanted := map[string]bool{}
	for _, s := range states {
		if state := reconcile.NormalizeState(s); state != "" {
			wanted[state] = true
		}
	}
	if len(wanted) == 0 {
		return []reconcile.Issue{}, nil
	}
	remembers := c.o.Project == "" && c.o.Memory != nil && !wanted["closed"]
	var found listed
	var err error
	switch {
	case c.o.Project != "":
		found, err = c.board(ctx)
	case remembers:
		found, err = c.changed(ctx, wanted)
	default:
		found, err = c.allOfAll(ctx, wanted["closed"])
	}
	if err != nil {
		return nil, err
	}
	isCandidate := func(r record) bool { return c.in(wanted, r) && (r.item == nil || !r.item.Archived) }
	records := text.Filter(found.records, isCandidate)
	repoissue.NewestFirst(records)
	return text.Map(records, func(r record) reconcile.Issue {
		r.lastCommentAt = nil // the list of a repository lacks it
		issue := c.issue(r, found.me)
		issue.PullsUnread = remembers
		return issue
	}), nil
}

// allOfAll reads the open issues of all repositories, also the closed ones if withClosed.
func (c *Client) allOfAll(ctx context.Context, withClosed bool) (listed, error) {
	var found listed
	for _, repo := range c.o.Repositories {
		of, err := c.all(ctx, repo, withClosed, time.Time{})
		if err != nil {
			return listed{}, err
		}
		found.records = append(found.records, of.records...)
		found.me = of.me
	}
	return found, nil
}

// all reads the open issues of a repository, also the closed issues if withClosed; only issues
// changed at since or later, unless it is zero.
func (c *Client) all(ctx context.Context, repo string, withClosed bool, since time.Time) (listed, error) {
	owner, name, _ := strings.Cut(c.Present(repo), "/")
	vars := map[string]any{"owner": owner, "name": name}
	if !withClosed {
		vars["states"] = []string{"OPEN"}
	}
	if !since.IsZero() {
		vars["since"] = since.Format(time.RFC3339)
	}
	me := ""
	var records repoissue.Set[record] // an issue that changes between two requests is on both pages
	err := transport.Pages(c.api, "issues of "+repo, vars, func() (nodes[json.RawMessage], error) {
		data, _, err := graphQL[struct {
			Viewer     account `json:"viewer"`
			Repository *struct {
				Name   string                 `json:"nameWithOwner"`
				Issues nodes[json.RawMessage] `json:"issues"`
			} `json:"repository"`
		}](ctx, c.requests, document("issues", "issue_fields"), vars)
		if errors.Is(err, reconcile.ErrGone) {
			return nodes[json.RawMessage]{}, c.NoRepository(repo, "")
		}
		if err != nil {
			return nodes[json.RawMessage]{}, err
		}
		if data.Repository == nil {
			return nodes[json.RawMessage]{}, c.NoRepository(repo, "")
		}
		me, err = c.me(data.Viewer)
		if err != nil {
			return nodes[json.RawMessage]{}, err
		}
		c.Rename(repo, data.Repository.Name)
		for _, raw := range data.Repository.Issues.Nodes {
			records.Put(fromGraphQL(repo, "", raw))
		}
		return data.Repository.Issues, nil
	})
	if err != nil {
		return listed{}, err
	}
	return listed{records: records.Sorted(), me: me}, nil
}

// changed brings the list in Memory up to date, by a conditional request for each repository,
// and returns it.
func (c *Client) changed(ctx context.Context, wanted map[string]bool) (listed, error) {
	c.memory.Lock()
	defer c.memory.Unlock()
	l := c.memory.Read(ctx)
	changed := false
	if settings := c.settings(wanted); l.For != settings {
		l = list{For: settings, Repos: map[string]*part{}}
		changed = true
	}
	var records []record
	for _, repo := range c.o.Repositories {
		p := l.Repos[repo]
		if p == nil || c.Now().Before(p.At) || c.Now().Sub(p.At) > listLongest {
			p = &part{}
		}
		next, err := c.update(ctx, repo, p, wanted)
		if err != nil {
			return listed{}, err
		}
		changed = changed || next != p
		l.Repos[repo] = next
		records = append(records, next.Issues...)
	}
	// another token changes the list, too
	if c.AsksForMe() && (changed || l.Me == "") {
		login, err := c.login(ctx)
		if err != nil {
			return listed{}, err
		}
		l.Me = login
		changed = true
	}
	if changed {
		if err := c.memory.Write(ctx, l); err != nil {
			return listed{}, err
		}
	}
	return listed{records: records, me: l.Me}, nil
}

// login asks for the login of the token's account.
func (c *Client) login(ctx context.Context) (string, error) {
	data, _, err := graphQL[struct {
		Viewer account `json:"viewer"`
	}](ctx, c.requests, "query { viewer { login } }", nil)
	if err != nil {
		return "", err
	}
	return c.loginOf(data.Viewer)
}

// whoami implements reconcile.TrackerAdapter.
func (c *Client) whoami(ctx context.Context) ([]string, error) {
	login, err := c.login(ctx)
	return []string{login}, err
}

// settings are the settings on which the list in Memory depends.
func (c *Client) settings(wanted map[string]bool) string {
	states := slices.Sorted(maps.Keys(wanted))
	return fmt.Sprintf("%s %q %q %q %q", c.Endpoint, c.o.Repositories, c.o.StateLabels, states, c.o.Assignee)
}

// update returns the list of a repository as it is now: p itself if nothing changed.
//
// The request is for the latest changes. If there may be more of them than it returns, all
// changes since the mark are read, and without a mark all open issues. They are read later
// than the mark is set, so that no change can fall between the two.
func (c *Client) update(ctx context.Context, repo string, p *part, wanted map[string]bool) (*part, error) {
	c.Rename(repo, p.Name)
	path := "/repos/" + c.Present(repo) + "/issues"
	a, err := c.Follow(ctx, transport.Request{
		Method: http.MethodGet,
		Path:   path,
		ETag:   p.ETag,
		Query: url.Values{
			"state":     {"all"},
			"sort":      {"updated"},
			"direction": {"desc"},
			"per_page":  {strconv.Itoa(perPage)},
		},
	})
	if err != nil {
		return nil, err
	}
	switch {
	case a.Status == http.StatusNotModified && p.ETag != "":
		return c.blockersOf(ctx, repo, p, c.elsewhere)
	case a.Status == http.StatusNotFound || a.Status == http.StatusGone:
		return nil, c.NoRepository(repo, githubapi.Message(a.Body))
	case a.Status != http.StatusOK:
		return nil, c.Refusal(a, nil)
	}
	entries, err := githubapi.DecodeList[json.RawMessage](c.api, "list of issues", a.Body)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(a.URL, c.Endpoint+path) { // redirected
		if err := c.askName(ctx, repo); err != nil {
			return nil, err
		}
	}
	next := &part{ETag: a.Header.Get("ETag"), At: p.At, Mark: p.Mark}
	if name := c.Present(repo); name != repo {
		next.Name = name
	}
	isFirst := p.At.IsZero()
	if isFirst {
		next.At = c.Now().UTC()
	}
	changes := text.Map(entries, func(entry json.RawMessage) record { return fromREST(repo, entry) })
	for _, r := range changes {
		if r.Updated.After(next.Mark) {
			next.Mark = r.Updated
		}
	}
	isOld := func(r record) bool { return !r.Updated.IsZero() && r.Updated.Before(p.Mark) }
	isComplete := len(entries) < perPage || slices.ContainsFunc(changes, isOld)
	if !isComplete {
		more, err := c.all(ctx, repo, !isFirst, p.Mark)
		if err != nil {
			return nil, err
		}
		changes = append(changes, more.records...)
	}
	next.Issues = c.merge(p.Issues, changes, wanted)
	return c.blockersOf(ctx, repo, next, mayBeBlocked)
}

// merge returns the records with the changes, the later the more recent, without issues that
// are no candidates for the states. A pull request changes nothing.
func (c *Client) merge(records, changes []record, wanted map[string]bool) []record {
	changes = text.Filter(changes, func(r record) bool { return !r.pull })
	return repoissue.Merge(records, changes, func(r record) bool { return c.in(wanted, r) })
}

// mayBeBlocked reports whether an open or unknown issue blocks the issue.
func mayBeBlocked(r record) bool {
	return r.blocked || slices.ContainsFunc(r.Blockers, func(b repoissue.Blocker) bool { return !b.Closed })
}

// elsewhere reports whether an open blocker is in a repository whose changes are not seen.
func (c *Client) elsewhere(r record) bool {
	return slices.ContainsFunc(r.Blockers, func(b repoissue.Blocker) bool {
		_, ours := c.Ours(b.Repo)
		return !b.Closed && !ours
	})
}

// blockersOf reads the issues for which due is true again, with their blockers: the list
// contains only their number.
func (c *Client) blockersOf(
	ctx context.Context,
	repo string,
	p *part,
	due func(record) bool,
) (*part, error) {
	again := text.Filter(p.Issues, func(r record) bool { return r.Malformed == "" && due(r) })
	refs := text.Map(again, func(r record) ref { return r.Ref() })
	if len(refs) == 0 {
		return p, nil
	}
	next := *p
	next.Issues = slices.Clone(p.Issues)
	err := c.read(ctx, refs, nil, func(at ref, r *record, _ string) error {
		i := slices.IndexFunc(next.Issues, func(r record) bool { return r.Number == at.Number })
		if r == nil {
			next.Issues = slices.Delete(next.Issues, i, i+1)
			return nil
		}
		next.Issues[i] = *r
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &next, nil
}

// askName learns the present name of a repository that was renamed.
func (c *Client) askName(ctx context.Context, repo string) error {
	a, err := c.Do(ctx, http.MethodGet, "/repos/"+repo, nil, nil)
	if err != nil {
		return err
	}
	named, err := githubapi.Decode[struct {
		Name string `json:"full_name"`
	}](c.api, "repository", a.Body)
	if err != nil {
		return err
	}
	c.Rename(repo, named.Name)
	return nil
}
