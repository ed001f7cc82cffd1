package reconcile

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// ask sends the two requests to the tracker at once (specification 8.1). It returns nil where the answers can't be used:
// then nothing is stopped, released or dispatched.
func (t *tick) ask(ctx context.Context) *Tracked {
	work := context.WithoutCancel(ctx)
	if t.Tracker == nil || t.limited() || t.stale && !t.load(work) {
		return nil
	}
	t.lookAtWorkspaces(work)
	// The requests depend on the claims as the local half leaves them, which a dry run has not stored.
	local := t.snapshot
	local.Tracker = nil
	claims := compute(local).remaining()
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
	return t.answer(work, tracked, ids, refreshErr, candidatesErr)
}

// answer records whether the tracker answered, and what the pass may conclude from it.
func (t *tick) answer(ctx context.Context, tracked *Tracked, ids []string, refreshErr, candidatesErr error) *Tracked {
	err := cmp.Or(refreshErr, candidatesErr)
	if resetOf(err).IsZero() && !resetOf(candidatesErr).IsZero() {
		err = candidatesErr // of two errors the one that forbids the next request counts
	}
	switch {
	case err != nil:
		t.blockTracker(ctx, err)
		t.fail("tracker_error", err)
	case len(ids) > 0 || tracked.Fetched: // otherwise no request was made
		t.unblockTracker(ctx)
	}
	if refreshErr != nil {
		return nil
	}
	t.swept(ctx)
	for _, id := range ids {
		tracked.Asked[id] = true
	}
	if candidatesErr != nil {
		tracked.Fetched, t.snapshot.DispatchOff = false, true
		t.DispatchOff = true
	}
	tracked.Low = t.TrackerLow || t.Tracker.Low(t.Now())
	t.report.TrackerLow = tracked.Low
	return tracked
}

// lookAtWorkspaces lists the workspaces, and decides whether those of unclaimed issues are refreshed in this pass.
func (t *tick) lookAtWorkspaces(ctx context.Context) {
	list, err := t.Runners.Workspaces(ctx)
	if err != nil {
		t.fail("workspace_list", err)
	}
	t.free = t.Runners.FreeBytes()
	t.snapshot.Workspaces, t.snapshot.FreeBytes = list, t.free
	// A last sweep in the future means that the clock was set back.
	if since := t.snapshot.Now.Sub(t.recorded.LastSweep); since >= 0 && since < sweepEvery {
		return
	}
	if t.snapshot.TrashDue, err = t.Runners.TrashDue(t.snapshot.Now, t.free, t.Policy.MinFreeBytes); err != nil {
		t.fail("trash", err)
	}
	t.snapshot.SweepDue = len(list) > 0 || t.snapshot.TrashDue
}

// swept records a sweep that the tracker has answered.
func (t *tick) swept(ctx context.Context) {
	if !t.snapshot.SweepDue || t.DryRun || t.Only != "" {
		return
	}
	if err := t.Store.SaveSweep(ctx, t.snapshot.Now); err != nil {
		t.fail("state_write", err)
	}
}

// idsToAsk lists the issues of the claims and, in a sweep, those of unclaimed workspaces.
func (t *tick) idsToAsk(claims []Claim) []string {
	var ids []string
	claimed := map[string]bool{}
	for _, c := range claims {
		if t.concerns(c.IssueID) && (!t.TrackerLow || c.Status == Running) {
			ids = append(ids, c.IssueID)
		}
		claimed[c.IssueID] = true
	}
	if t.snapshot.SweepDue && t.Only == "" {
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
	if t.snapshot.DispatchOff || t.TrackerLow {
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
	return running < t.Policy.MaxConcurrent || t.AnySlot
}

// limited reports whether the tracker refuses requests for a while longer.
func (t *tick) limited() bool {
	b := t.snapshot.TrackerBlock
	if b == nil || b.Code != "tracker_rate_limited" || !t.snapshot.Now.Before(b.NextTry) {
		return false
	}
	if b.NextTry.After(t.snapshot.Now.Add(longestReset)) || b.Since.After(t.snapshot.Now) {
		return false // the clock was stepped since: only the tracker knows how long it still is
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

func (t *tick) blockTracker(ctx context.Context, err error) {
	b := Block{Code: "tracker_error", Message: err.Error(), Since: t.snapshot.Now, NextTry: t.snapshot.Now}
	var known *Error
	if errors.As(err, &known) {
		b.Code, b.Message = known.Code, known.Message
	}
	if old := t.snapshot.TrackerBlock; old != nil && old.Since.Before(b.Since) {
		b.Since = old.Since
	}
	if at := resetOf(err); !at.IsZero() {
		b.NextTry = at
	}
	t.setTrackerBlock(ctx, b)
}

func (t *tick) unblockTracker(ctx context.Context) {
	if t.snapshot.TrackerBlock != nil {
		t.setTrackerBlock(ctx, Block{})
	}
}

func (t *tick) setTrackerBlock(ctx context.Context, b Block) {
	if t.DryRun {
		return
	}
	if err := t.Store.Commit(ctx, t.Now(), Change{TrackerBlock: &b}); err != nil {
		t.fail("state_write", err)
		return
	}
	t.snapshot.TrackerBlock = nil
	if b.Code != "" {
		t.snapshot.TrackerBlock = &b
	}
}
