package repoissue

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Candidates reads the candidates of a tracker that tells which issues have changed since a
// time, but neither that none has nor who blocks them. Memory.Store remembers the candidates
// between passes; without it every call reads all.
type Candidates struct {
	*Names
	Memory *Memory[Record]
	Now    func() time.Time
	// Me returns the login of the token's account if the workflow asks for it, and else nothing.
	Me func(ctx context.Context) (string, error)
	// List reads a list of issues of a repository, each once. mark is the time since which a
	// later list has to contain what has changed meanwhile.
	List func(ctx context.Context, repo string, which Which) (found []Record, mark time.Time, err error)
	// Show returns a record as an issue. me is the answer of Me.
	Show func(r Record, me string) reconcile.Issue
	// Blockers reads the issues that block an open issue.
	Blockers func(ctx context.Context, r Record) ([]Blocker, error)
}

// Which selects issues of a repository.
type Which struct {
	Closed bool      // the closed issues, too, and not only the open ones
	Since  time.Time // only those that have changed since then; zero for all
}

// overlap is how far before the time of one list the next one begins. Times are those of the
// tracker in whole seconds; a proxy may tell another time.
const overlap = time.Minute

// Mark finds the time since which a later list has to contain what has changed meanwhile.
type Mark struct {
	Now   func() time.Time
	Since time.Time
}

// Hear reads the headers of a page of a list. The first page counts.
func (m *Mark) Hear(h http.Header) {
	if !m.Since.IsZero() {
		return
	}
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		at = m.Now()
	}
	m.Since = at.UTC().Add(-overlap).Truncate(time.Second)
}

// readAgain is when all open issues are read anew: a label that was renamed, and an issue that
// was deleted, leave no trace in the changes.
const readAgain = 24 * time.Hour

// Read returns the issues in the given states, the newest first. Without states no request is
// made.
func (c *Candidates) Read(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	wanted := map[string]bool{}
	for _, s := range states {
		if state := reconcile.NormalizeState(s); state != "" {
			wanted[state] = true
		}
	}
	if len(wanted) == 0 {
		return []reconcile.Issue{}, nil
	}
	me, err := c.Me(ctx)
	if err != nil {
		return nil, err
	}
	var records []Record
	if c.Memory.Store != nil && !wanted["closed"] {
		records, err = c.remembered(ctx, wanted)
	} else {
		records, err = c.readAll(ctx, wanted)
	}
	if err != nil {
		return nil, err
	}
	NewestFirst(records)
	return text.Map(records, func(r Record) reconcile.Issue {
		return c.Show(r, me)
	}), nil
}

// isCandidate returns a function that reports whether a record is a candidate for the states:
// malformed records are, so that they are reported.
func (c *Candidates) isCandidate(wanted map[string]bool) func(Record) bool {
	return func(r Record) bool {
		return r.Malformed != "" || wanted[reconcile.NormalizeState(c.StateByLabels(r))]
	}
}

// readAll reads the candidates of all repositories.
func (c *Candidates) readAll(ctx context.Context, wanted map[string]bool) ([]Record, error) {
	var all []Record
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
func (c *Candidates) remembered(ctx context.Context, wanted map[string]bool) ([]Record, error) {
	c.Memory.Lock()
	defer c.Memory.Unlock()
	l := c.Memory.Read(ctx)
	settings := fmt.Sprintf(
		"%s %q %q %q",
		c.api.Endpoint, c.o.Repositories, c.o.StateLabels, slices.Sorted(maps.Keys(wanted)),
	)
	if l.For != settings {
		l = List[Record]{For: settings, Repos: map[string]*Part[Record]{}}
	}
	changed := false
	closed := map[Ref]bool{} // of the issues that have changed
	for _, repo := range c.o.Repositories {
		p := l.Repos[repo]
		next, err := c.update(ctx, repo, p, wanted, closed)
		if err != nil {
			return nil, err
		}
		changed = changed || next != p
		l.Repos[repo] = next
	}
	var all []Record
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
	return all, c.Memory.Write(ctx, l)
}

// update returns the list of a repository as it is now: p itself if nothing changed. It adds to
// closed which of the issues that have changed are closed.
func (c *Candidates) update(
	ctx context.Context,
	repo string,
	p *Part[Record],
	wanted map[string]bool,
	closed map[Ref]bool,
) (*Part[Record], error) {
	now := c.Now()
	if p == nil || now.Before(p.At) || now.Sub(p.At) > readAgain {
		return c.fresh(ctx, repo, wanted)
	}
	c.Rename(repo, p.Name)
	changes, mark, err := c.List(ctx, repo, Which{Closed: true, Since: p.Mark})
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
	return &Part[Record]{
		Name:   c.Present(repo),
		Mark:   mark,
		At:     p.At,
		Issues: Merge(p.Issues, changes, is),
	}, nil
}

// fresh reads all candidates of a repository, with their blockers.
func (c *Candidates) fresh(ctx context.Context, repo string, wanted map[string]bool) (*Part[Record], error) {
	all, mark, err := c.List(ctx, repo, Which{Closed: wanted["closed"]})
	if err != nil {
		return nil, err
	}
	is := c.isCandidate(wanted)
	all = text.Filter(all, is)
	if err := c.addBlockers(ctx, all, is); err != nil {
		return nil, err
	}
	return &Part[Record]{Name: c.Present(repo), Mark: mark, At: c.Now().UTC(), Issues: all}, nil
}

// followBlockers brings the blockers of issues up to date that were closed or reopened, and reads
// those in other repositories, whose changes are not seen. It reports whether any has changed.
func (c *Candidates) followBlockers(ctx context.Context, p *Part[Record], closed map[Ref]bool) (bool, error) {
	changed := false
	for i := range p.Issues {
		r := &p.Issues[i]
		elsewhere := false
		for n, b := range r.Blockers {
			repo, ours := c.Ours(b.Repo)
			elsewhere = elsewhere || !ours && !b.Closed
			is, known := closed[Ref{Repo: repo, Number: b.Number}]
			if ours && known && is != b.Closed {
				r.Blockers[n].Closed = is
				changed = true
			}
		}
		if !elsewhere {
			continue
		}
		blockers, err := c.Blockers(ctx, *r)
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

// addBlockers reads the blockers of those records of which is returns true. A closed issue waits
// for nothing.
func (c *Candidates) addBlockers(ctx context.Context, records []Record, is func(Record) bool) error {
	for i, r := range records {
		if !is(r) || r.Closed || r.Malformed != "" {
			continue
		}
		blockers, err := c.Blockers(ctx, r)
		if err != nil {
			return err
		}
		records[i].Blockers = blockers
	}
	return nil
}
