package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

const (
	trackerBound = 60 * time.Second
	sweepEvery   = 10 * time.Minute
	reviewsEvery = time.Minute
	// how long a tracker contains no issue before its issues count as gone
	emptyFor     = 10 * time.Minute
	longestReset = 24 * time.Hour // more than any tracker asks to wait
)

// ask sends the two requests to the tracker concurrently (specification 8.1): the refresh, and
// the candidates. It returns nil if there is no answer to the refresh; then nothing is
// stopped, released or dispatched.
func (t *tick) ask(ctx context.Context) *Tracked {
	work := context.WithoutCancel(ctx)
	if t.Tracker == nil {
		return nil
	}
	if limit := t.rateLimit(); limit != nil {
		t.reportLimit(*limit)
		return nil
	}
	t.loadWorkspaces(work)
	t.snapshot.ReviewsDue = t.reviewsDue()
	// The requests depend on the claims after the local half, which a dry run did not store.
	claims := compute(t.snapshot).remaining()
	tracked, refreshErr, candidatesErr := t.request(ctx, t.idsToAsk(claims), t.wantCandidates(claims))
	if refreshErr == nil && candidatesErr == nil {
		candidatesErr = t.readPulls(ctx, tracked)
	}
	if t.interrupted(ctx) {
		return nil
	}
	requested := len(tracked.Refreshed) > 0 || tracked.Fetched
	err := moreTelling(refreshErr, candidatesErr)
	switch {
	case err != nil:
		t.trackerFailed(work, err)
	case requested && t.snapshot.TrackerBlock != nil:
		t.store(work, Change{TrackerBlock: &Block{}})
	}
	if refreshErr != nil {
		return nil
	}
	t.saveLooks(work)
	t.savePullRequests(work, tracked.ByID)
	if candidatesErr != nil {
		tracked.Fetched = false
		t.snapshot.DispatchOff = true
	}
	return tracked
}

// saveLooks stores when the issues of workspaces, and those in review, were last refreshed.
func (t *tick) saveLooks(ctx context.Context) {
	s := &t.snapshot
	if s.DryRun {
		return
	}
	if s.SweepDue && s.all() {
		t.wrote(t.Store.SaveSweep(ctx, s.Now))
	}
	if s.ReviewsDue {
		t.wrote(t.Store.SaveReviews(ctx, s.Now))
	}
}

// moreTelling returns the error of the refresh or, if only the error of the candidates says
// when the tracker may be asked again, that error. It is nil if both are.
func moreTelling(refreshErr, candidatesErr error) error {
	if refreshErr == nil {
		return candidatesErr
	}
	if resetOf(refreshErr).IsZero() && !resetOf(candidatesErr).IsZero() {
		return candidatesErr
	}
	return refreshErr
}

// interrupted reports whether a signal ended the wait for the tracker, which is no fault of
// the tracker.
func (t *tick) interrupted(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	_ = t.fail("", NewError("canceled", "a signal ended the wait for the tracker",
		"the pass has kept its results, and the next one continues").WithCause(context.Cause(ctx)))
	return true
}

// trackerFailed reports and stores a fault of the tracker.
func (t *tick) trackerFailed(ctx context.Context, err error) {
	known := t.fail("tracker_error", err)
	t.blockTracker(ctx, known, resetOf(err))
	t.report.Obstacle = &Obstacle{Reason: known.Code, Message: known.Message, Until: resetOf(err)}
}

// request asks for the issues with these ids, unless there are none, and for the candidates if
// they are wanted.
func (t *tick) request(
	ctx context.Context,
	ids []string,
	candidates bool,
) (tracked *Tracked, refreshErr, candidatesErr error) {
	ctx, cancel := context.WithTimeout(ctx, trackerBound)
	defer cancel()
	tracked = &Tracked{
		Refreshed: make(map[string]bool, len(ids)),
		ByID:      map[string]Issue{},
		Fetched:   candidates,
	}
	for _, id := range ids {
		tracked.Refreshed[id] = true
	}
	var wg sync.WaitGroup
	if len(ids) > 0 {
		wg.Go(func() { tracked.ByID, refreshErr = t.Tracker.ByIDs(ctx, ids) })
	}
	if candidates && t.Tracker.Expect != nil {
		inReview := text.Map(t.snapshot.Reviews, func(r InReview) string { return r.IssueID })
		t.Tracker.Expect(append(inReview, ids...))
	}
	if candidates {
		wg.Go(func() { tracked.Candidates, candidatesErr = t.Tracker.Candidates(ctx, t.Policy.ActiveStates) })
	}
	wg.Wait()
	if t.stillEmpty(refreshErr) {
		tracked.ByID = map[string]Issue{}
		refreshErr = nil // the issues are gone
	}
	return tracked, refreshErr, candidatesErr
}

// askAgain asks the tracker once more for issues whose runs have ended since. Without an
// answer the pass knows nothing of these issues, and the next pass asks.
func (t *tick) askAgain(ctx context.Context, tracked *Tracked, ids []string) error {
	found, err := t.Tracker.ByIDs(ctx, ids)
	if t.stillEmpty(err) {
		err = nil
	}
	for _, id := range ids {
		delete(tracked.ByID, id)
		tracked.Refreshed[id] = err == nil
	}
	if err != nil {
		return err
	}
	maps.Copy(tracked.ByID, found)
	t.savePullRequests(context.WithoutCancel(ctx), found)
	return nil
}

// pullsAtOnce is how many issues readPulls asks for at a time: as many as a request to a tracker
// reads.
const pullsAtOnce = 50

// readPulls reads candidates again that the pass may begin, if their list lacks pull requests.
// It ends when there is an issue with known pull requests for every free slot, or no issue is
// left.
func (t *tick) readPulls(ctx context.Context, tracked *Tracked) error {
	ctx, cancel := context.WithTimeout(ctx, trackerBound)
	defer cancel()
	pullsUnread := func(i Issue) bool { return i.PullsUnread }
	if !slices.ContainsFunc(tracked.Candidates, pullsUnread) {
		return nil
	}
	s := t.snapshot
	s.Tracker = tracked
	for {
		var ids []string
		for _, skip := range compute(s).plan.Skips {
			if skip.Reason == SkipPullRequest && skip.Subject == "" && len(ids) < pullsAtOnce {
				ids = append(ids, skip.IssueID)
				tracked.Refreshed[skip.IssueID] = true
			}
		}
		if len(ids) == 0 {
			return nil
		}
		found, err := t.Tracker.ByIDs(ctx, ids)
		if err != nil {
			return err
		}
		maps.Copy(found, tracked.ByID)
		tracked.ByID = found
	}
}

// savePullRequests stores the pull requests that the refresh found, for the views.
func (t *tick) savePullRequests(ctx context.Context, refreshed map[string]Issue) {
	issues := slices.Collect(maps.Values(refreshed))
	issues = slices.DeleteFunc(issues, func(i Issue) bool { return i.PullRequest == nil })
	if len(issues) > 0 && !t.snapshot.DryRun {
		t.wrote(t.Store.SavePullRequests(ctx, t.snapshot.Now, issues))
	}
}

// loadWorkspaces lists the workspaces, and decides whether this pass sweeps them.
func (t *tick) loadWorkspaces(ctx context.Context) {
	s := &t.snapshot
	if len(t.Policy.Hosts) == 0 {
		s.FreeBytes = t.Runners.FreeBytes()
	}
	list, err := t.Runners.Workspaces(ctx)
	if err != nil {
		_ = t.fail("workspace_failed", err)
		return
	}
	s.Workspaces = slices.Concat(list, s.RemoteWorkspaces)
	// If the last sweep is in the future, the clock was set back.
	if since := s.Now.Sub(s.LastSweep); since >= 0 && since < sweepEvery {
		return
	}
	s.TrashDue, err = t.Runners.TrashDue(s.Now, t.Policy.MinFreeBytes)
	if err != nil {
		_ = t.fail("workspace_failed", err)
	}
	s.SweepDue = len(s.Workspaces) > 0 || s.TrashDue
}

// reviewsDue decides whether this pass looks at the issues that wait for a review. If the last
// look is in the future, the clock was set back.
func (t *tick) reviewsDue() bool {
	s := t.snapshot
	since := s.Now.Sub(s.LastReviews)
	recent := since >= 0 && since < reviewsEvery
	return len(s.Reviews) > 0 && s.all() && !recent
}

// idsToAsk lists the issues to refresh: every claimed issue; in a sweep, every issue with an
// unclaimed workspace; once a minute, every issue that waits for a review.
func (t *tick) idsToAsk(claims []Claim) []string {
	var ids []string
	claimed := map[string]bool{}
	for _, c := range claims {
		if t.snapshot.concerns(c.IssueID) {
			ids = append(ids, c.IssueID)
		}
		claimed[c.IssueID] = true
	}
	if t.snapshot.SweepDue && t.snapshot.all() {
		for _, w := range t.snapshot.Workspaces {
			if !claimed[w.IssueID] && w.Project == t.Policy.Project {
				ids = append(ids, w.IssueID)
				claimed[w.IssueID] = true
			}
		}
	}
	if t.snapshot.ReviewsDue {
		for _, r := range t.snapshot.Reviews {
			if !claimed[r.IssueID] {
				ids = append(ids, r.IssueID)
				claimed[r.IssueID] = true
			}
		}
	}
	return ids
}

// wantCandidates reports whether the candidates are needed: an issue could start.
func (t *tick) wantCandidates(claims []Claim) bool {
	if t.snapshot.DispatchOff {
		return false
	}
	taken := 0
	for _, c := range claims {
		switch {
		case c.delivering():
		case c.Status == Running:
			taken++
		case c.Status == Waiting && !c.DueAt.After(t.snapshot.Now):
			return true
		}
	}
	return taken < t.Policy.MaxConcurrent || t.snapshot.AtOnce
}

// rateLimit returns the tracker's last rate limit, nil if it is over. A pass that starts an
// issue at once asks nevertheless: its operator's command just got an answer.
func (t *tick) rateLimit() *Block {
	b := t.snapshot.TrackerBlock
	now := t.snapshot.Now
	switch {
	case b == nil, b.Code != "tracker_rate_limited", t.snapshot.AtOnce:
		return nil
	case !now.Before(b.NextTry):
		return nil
	case b.Since.After(now), b.NextTry.After(now.Add(longestReset)):
		// the clock was set back since, and only the tracker knows how long the limit still
		// lasts
		return nil
	}
	return b
}

// reportLimit reports that the tracker is not asked because of its rate limit.
func (t *tick) reportLimit(b Block) {
	hint := "the next request is made after " + b.NextTry.UTC().Format(time.RFC3339)
	_ = t.fail("", &Error{Code: b.Code, Message: b.Message, Status: b.Status, Hint: hint})
	t.report.Obstacle = &Obstacle{Reason: b.Code, Message: b.Message, Until: b.NextTry}
}

// stillEmpty reports whether an error means that the tracker contains no issue, and for so
// long that the known issues are gone.
func (t *tick) stillEmpty(err error) bool {
	b := t.snapshot.TrackerBlock
	known, is := errors.AsType[*Error](err)
	if !is || known.Code != CodeTrackerEmpty {
		return false
	}
	t.gone = t.gone || b != nil && b.Code == known.Code && t.snapshot.Now.Sub(b.Since) >= emptyFor
	return t.gone
}

// blockTracker stores a fault of the tracker. It counts from the start of the previous fault
// if that was not over.
func (t *tick) blockTracker(ctx context.Context, err *Error, reset time.Time) {
	b := Block{
		Code:    err.Code,
		Message: err.Message,
		Status:  err.Status,
		Since:   t.snapshot.Now,
		NextTry: cmp.Or(reset, t.snapshot.Now),
	}
	if old := t.snapshot.TrackerBlock; old != nil && old.Since.Before(b.Since) &&
		(b.Code != CodeTrackerEmpty || old.Code == b.Code) {
		b.Since = old.Since
	}
	t.store(ctx, Change{TrackerBlock: &b})
}

// resetOf returns when the tracker accepts the next request after an error, zero if the error
// does not say.
func resetOf(err error) time.Time {
	var limit Limited
	if errors.As(err, &limit) {
		return limit.ResetAt()
	}
	return time.Time{}
}
