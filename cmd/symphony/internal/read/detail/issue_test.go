package detail

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

var now = time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)

// A released issue was handed over or released as long as no pass would start it and none has
// skipped it since.
func TestReleasedIssue(t *testing.T) {
	inactive := forecast{reason: "not_active", next: "a pass starts it once its state is Todo"}
	for _, c := range []struct {
		what    string
		reason  string
		to, now string // the state at the release and in the tracker's answer; empty for none
		f       forecast
		skipped time.Time // zero for never
		want    string
	}{
		{
			"the tracker agrees",
			reconcile.StopInactive,
			"Review",
			"Review",
			inactive,
			time.Time{},
			"handed_over: Todo → Review",
		},
		{"it moved on", reconcile.StopInactive, "Review", "Done", forecast{
			reason: "terminal",
			next:   "nothing",
		}, time.Time{}, "handed_over: Todo → Review; its state is now Done"},
		{"offline", reconcile.StopInactive, "Review", "", forecast{}, time.Time{}, "handed_over: Todo → Review"},
		{
			"offline, skipped before",
			reconcile.StopInactive,
			"Review",
			"",
			forecast{},
			now.Add(-time.Hour),
			"handed_over: Todo → Review",
		},
		{"offline, skipped since", reconcile.StopInactive, "Review", "", forecast{}, now.Add(time.Hour), ""},
		{
			"it is active again",
			reconcile.StopInactive,
			"Review",
			"Todo",
			forecast{action: reconcile.ActDispatch},
			time.Time{},
			"",
		},
		{
			"it is active again, without a slot",
			reconcile.StopInactive,
			"Review",
			"Todo",
			forecast{reason: reconcile.SkipNoSlot},
			time.Time{},
			"",
		},
		{
			"without a label",
			reconcile.StopLabel,
			"Todo",
			"Todo",
			forecast{reason: reconcile.SkipLabel},
			time.Time{},
			"released: it lost a required label",
		},
		{
			"deleted",
			reconcile.StopMissing,
			"",
			"",
			forecast{},
			time.Time{},
			"released: the tracker no longer returns it",
		},
		{"never released", "", "", "Todo", inactive, time.Time{}, ""},
	} {
		r := issueReader{}
		if c.reason != "" {
			r.releases = []state.Release{{
				From:   "Todo",
				To:     text.OrNull(c.to),
				Reason: c.reason,
				At:     now,
			}}
		}
		r.skip.Since = c.skipped
		r.skipped = !c.skipped.IsZero()
		v := Issue{}
		got := ""
		if c.now != "" {
			v.Issue.State = &c.now
			r.source = SourceTracker
		}
		if r.isReleased(c.f) {
			r.explainRelease(&v, c.f)
			got = string(v.Status) + ": " + v.Why.Message
		}
		test.Equal(t, c.what, got, c.want)
	}
}

// An issue that a person has moved to a final state waits for no review any more, although no pass
// has seen that.
func TestNextAfterDone(t *testing.T) {
	r := issueReader{}
	r.releases = []state.Release{{From: "Todo", To: new("Review"), Reason: reconcile.StopInactive, InReview: true}}
	v := Issue{}
	r.explainRelease(&v, forecast{reason: "not_active"})
	test.Equal(t, "in review", v.Next.Message, "it waits for your review: take the result, or send it back")
	r.explainRelease(&v, forecast{reason: "terminal"})
	test.Equal(t, "done", v.Next.Message, "nothing to do")
}

// An issue without a run goes on by itself if something runs passes, whatever it waits for,
// unless only a person can end that.
func TestGoesOn(t *testing.T) {
	for status, want := range map[reconcile.Status]bool{
		reconcile.StatusQueued:      true,
		reconcile.StatusBlocked:     true,
		reconcile.StatusWaiting:     true,
		reconcile.StatusUndelivered: true,
		StatusReady:                 true,
		reconcile.StatusSkipped:     true,
		reconcile.StatusHeld:        false,
		reconcile.StatusNeedsAnswer: false,
		reconcile.StatusHandedOver:  false,
	} {
		test.Equal(t, string(status)+", with a schedule", Issue{
			Status:   status,
			Schedule: true,
		}.GoesOn(), want)
		test.Equal(t, string(status)+", without one", Issue{Status: status}.GoesOn(), false)
		test.Equal(t, string(status)+", paused", Issue{
			Status:   status,
			Schedule: true,
			Why:      Why{Code: reconcile.SkipPaused},
		}.GoesOn(), false)
	}
}

// A claim that waits for an agent may have another reason than what others have pushed.
func TestWhyBehind(t *testing.T) {
	for _, c := range []struct {
		what string
		kind reconcile.RetryKind
		code string // of the last delivery
		want string
	}{
		{
			"others have pushed", reconcile.Continuation, "",
			"others have pushed to its branch during its last run: its agent merges that before anything is delivered",
		},
		{
			"the commits are incomplete", reconcile.Requested, reconcile.CodeIncomplete,
			"an operator asked for another run",
		},
		{
			"the remote refuses the commits", reconcile.Continuation, reconcile.CodeDeliveryRefused,
			"the remote refuses the commits: its agent corrects them in its next run",
		},
		{"the next run has failed", reconcile.Backoff, "", "its last run failed: hook_failed: exit status 1"},
	} {
		claim := reconcile.Claim{
			Status:       reconcile.Waiting,
			Kind:         c.kind,
			DueAt:        now.Add(time.Minute),
			ErrorCode:    "hook_failed",
			ErrorMessage: "exit status 1",
			Delivery:     reconcile.Delivery{Due: true, WaitsForAgent: true, Code: c.code, Message: c.what},
		}
		r := &issueReader{Facts: view.Facts{Now: now}, claim: &claim}
		test.Equal(t, c.what, r.whyNotRunning(forecast{}).Message, c.want)
	}
}
