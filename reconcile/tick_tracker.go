package reconcile

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	trackerBound = 60 * time.Second
	sweepEvery   = 10 * time.Minute
	// longestReset is more than any tracker asks to wait.
	longestReset = 24 * time.Hour
)

// ask sends the two requests to the tracker at once (specification 8.1). It returns nil where the answers can't be used:
// then nothing is stopped, released or dispatched.
func (t *tick) ask(ctx context.Context) *Tracked {
	work := context.WithoutCancel(ctx)
	if t.Tracker == nil || t.limited() {
		return nil
	}
	t.lookAtWorkspaces(work)
	// The requests depend on the claims as the local half leaves them, which a dry run has not stored.
	claims := compute(t.snapshot).remaining()
	ids := t.idsToAsk(claims)
	tracked := &Tracked{Asked: make(map[string]bool, len(ids)), Fetched: t.wantCandidates(claims)}
	bounded, cancel := context.WithTimeout(ctx, trackerBound)
	defer cancel()

	var wg sync.WaitGroup
	var refreshErr, candidatesErr error
	if len(ids) > 0 {
		wg.Go(func() { tracked.ByID, refreshErr = t.Tracker.ByIDs(bounded, ids) })
	}
	if tracked.Fetched {
		wg.Go(func() { tracked.Candidates, candidatesErr = t.Tracker.Candidates(bounded, t.Policy.ActiveStates) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		// The pass was interrupted, which is no fault of the tracker.
		t.fail("", &Error{
			Code: "canceled", Message: "a signal ended the wait for the tracker", Err: context.Cause(ctx),
			Hint: "what the pass has done is kept, and the next one goes on from there",
		})
		return nil
	}
	if err := cmp.Or(refreshErr, candidatesErr); err != nil {
		if resetOf(err).IsZero() && !resetOf(candidatesErr).IsZero() {
			err = candidatesErr // of two errors the one that forbids the next request counts
		}
		known := withCode("tracker_error", err)
		t.fail("", known)
		t.blockTracker(work, known, resetOf(err))
	} else if t.snapshot.TrackerBlock != nil && (len(ids) > 0 || tracked.Fetched) { // otherwise no request was made
		t.setTrackerBlock(work, Block{})
	}
	if refreshErr != nil {
		return nil
	}
	if t.snapshot.SweepDue && !t.snapshot.DryRun && t.snapshot.Only == "" {
		if err := t.Store.SaveSweep(work, t.snapshot.Now); err != nil {
			t.fail("state_write", err)
		}
	}
	for _, id := range ids {
		tracked.Asked[id] = true
	}
	if candidatesErr != nil {
		tracked.Fetched, t.snapshot.DispatchOff = false, true
	}
	tracked.Low = t.snapshot.TrackerLow || t.Tracker.Low(t.Now())
	t.report.TrackerLow = tracked.Low
	return tracked
}

// lookAtWorkspaces lists the workspaces, and decides whether those of unclaimed issues are refreshed in this pass.
func (t *tick) lookAtWorkspaces(ctx context.Context) {
	s := &t.snapshot
	s.FreeBytes = t.Runners.FreeBytes()
	list, err := t.Runners.Workspaces(ctx)
	if err != nil {
		t.fail("workspace_list", err)
		return
	}
	s.Workspaces = list
	// A last sweep in the future means that the clock was set back.
	if since := s.Now.Sub(s.LastSweep); since >= 0 && since < sweepEvery {
		return
	}
	if s.TrashDue, err = t.Runners.TrashDue(s.Now, s.FreeBytes, t.Policy.MinFreeBytes); err != nil {
		t.fail("trash", err)
	}
	s.SweepDue = len(list) > 0 || s.TrashDue
}

// idsToAsk lists the issues of the claims and, in a sweep, those of unclaimed workspaces.
func (t *tick) idsToAsk(claims []Claim) []string {
	var ids []string
	claimed := map[string]bool{}
	for _, c := range claims {
		if t.snapshot.concerns(c.IssueID) && (!t.snapshot.TrackerLow || c.Status == Running) {
			ids = append(ids, c.IssueID)
		}
		claimed[c.IssueID] = true
	}
	if t.snapshot.SweepDue && t.snapshot.Only == "" {
		for _, w := range t.snapshot.Workspaces {
			if !claimed[w.IssueID] && w.Project == t.Policy.Project {
				ids = append(ids, w.IssueID)
				claimed[w.IssueID] = true
			}
		}
	}
	return ids
}

// wantCandidates reports whether a candidate could start: otherwise the request is not made.
func (t *tick) wantCandidates(claims []Claim) bool {
	if t.snapshot.DispatchOff || t.snapshot.TrackerLow {
		return false
	}
	running := 0
	for _, c := range claims {
		switch {
		case c.Status == Running:
			running++
		case c.Status == Waiting && !c.DueAt.After(t.snapshot.Now):
			return true
		}
	}
	return running < t.Policy.MaxConcurrent || t.snapshot.AnySlot
}

// limited reports whether the tracker refuses requests for a while longer.
func (t *tick) limited() bool {
	b := t.snapshot.TrackerBlock
	now := t.snapshot.Now
	if b == nil || b.Code != "tracker_rate_limited" || !now.Before(b.NextTry) {
		return false
	}
	if b.Since.After(now) || b.NextTry.After(now.Add(longestReset)) {
		return false // the clock was set back since: only the tracker knows how long the limit still lasts
	}
	t.fail("", &Error{Code: b.Code, Message: b.Message, Hint: "the next request is made after " + b.NextTry.UTC().Format(time.RFC3339)})
	return true
}

// Limited is implemented by errors of a tracker that say when the next request may be made.
type Limited interface{ ResetAt() time.Time }

// resetOf is when the next request may be made after an error, zero where the error does not say.
func resetOf(err error) time.Time {
	var limit Limited
	if errors.As(err, &limit) {
		return limit.ResetAt()
	}
	return time.Time{}
}

func (t *tick) blockTracker(ctx context.Context, err *Error, reset time.Time) {
	b := Block{Code: err.Code, Message: err.Message, Since: t.snapshot.Now, NextTry: cmp.Or(reset, t.snapshot.Now)}
	if old := t.snapshot.TrackerBlock; old != nil && old.Since.Before(b.Since) {
		b.Since = old.Since
	}
	t.setTrackerBlock(ctx, b)
}

func (t *tick) setTrackerBlock(ctx context.Context, b Block) {
	if t.snapshot.DryRun {
		return
	}
	t.commit(ctx, Change{TrackerBlock: &b})
	t.snapshot.TrackerBlock = nil
	if b.Code != "" {
		t.snapshot.TrackerBlock = &b
	}
}
