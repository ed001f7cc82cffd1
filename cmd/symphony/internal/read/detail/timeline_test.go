package detail

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// Turns come from the log of their run, those of sub-agents excluded. The end of a run ends
// its last turn.
func TestTurnMoments(t *testing.T) {
	dir := t.TempDir()
	run := reconcile.Run{
		ID:       "r1",
		ThreadID: "own",
		EndedAt:  time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
	}
	path := eventlog.Path(dir, run.ID)
	log := `{"at":"2026-11-20T08:00:00Z","event":"turn_prompt","message":"turn 1, 5 characters","payload":{"turn":1,"text":"hello"}}
{"at":"2026-11-20T08:01:00Z","event":"turn_completed","thread_id":"helper","message":"turn completed"}
{"at":"2026-11-20T08:02:00Z","event":"notification","message":"\"event\":\"turn_failed\""}
{"at":"2026-11-20T08:03:00Z","event":"turn_failed","thread_id":"own","message":"no luck"}
{"at":"2026-11-20T08:04:00Z","event":"turn_prompt","message":"turn 2, 5 characters","payload":"cut"}
`
	test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	test.OK(t, os.WriteFile(path, []byte(log), 0o600))
	turns := test.Must(eventlog.Turns(dir, run))
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 8, minute, 0, 0, time.UTC) }
	want := []Moment{
		{
			At:     at(0),
			Until:  new(at(3)),
			Kind:   MomentTurn,
			RunID:  new("r1"),
			Name:   "turn 1",
			Result: "failed",
			Text:   "no luck",
		},
		{
			At:     at(4),
			Until:  &run.EndedAt,
			Kind:   MomentTurn,
			RunID:  new("r1"),
			Name:   "turn 2",
			Result: "ended with its run",
		},
	}
	test.Equal(t, "the turns", turnMoments(run, turns), want)
}

// A request has its answer, unless that is a secret.
func TestRequestMoment(t *testing.T) {
	for _, c := range []struct {
		q    reconcile.Request
		want string
	}{
		{reconcile.Request{Summary: "npm install"}, "WEB-7.1  npm install"},
		{reconcile.Request{
			Summary:  "npm install",
			Decision: reconcile.DecideDeny,
			Answer:   reconcile.RequestAnswer{Reason: "not now"},
		}, "WEB-7.1 deny npm install → not now"},
		{reconcile.Request{
			Summary: "Which?",
			Fate:    reconcile.RequestExpired,
		}, "WEB-7.1 expired Which?"},
		{reconcile.Request{
			Summary:  "Which?",
			Decision: reconcile.DecideAnswer,
			Detail:   reconcile.RequestDetail{Questions: []reconcile.RequestQuestion{{ID: "a"}, {ID: "b"}, {ID: "c"}}},
			Answer: reconcile.RequestAnswer{
				Answers: map[string][]string{"c": {"red", "blue"}, "a": {"left"}},
				By:      "ann",
			},
		}, "WEB-7.1 answer Which? → left; red, blue (ann)"},
		{reconcile.Request{
			Summary:  "Password?",
			Decision: reconcile.DecideAnswer,
			Detail: reconcile.RequestDetail{Questions: []reconcile.RequestQuestion{{
				ID:     "a",
				Secret: true,
			}}},
			Answer: reconcile.RequestAnswer{Sealed: []byte("x")},
		}, "WEB-7.1 answer Password?"},
	} {
		c.q.Identifier = "WEB-7"
		c.q.Number = 1
		m := requestMoment(c.q)
		test.Equal(t, "it", m.Name+" "+m.Result+" "+m.Text, c.want)
	}
}

// The results of several projects add up; tokens without a price, or with one in another
// currency, are unpriced.

// What happened to a pull request, and who reviewed it, is part of the timeline.
func TestPullMoments(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	w := reconcile.Watch{
		Seen: []reconcile.Observation{{
			At:     at,
			Commit: "1a2b3c4d5e6f7",
			What:   reconcile.CheckFailure,
		}, {
			At:     at,
			Commit: "2",
			What:   reconcile.PullMerged,
		}},
		Pull: reconcile.Pull{Reviews: []reconcile.Review{{
			Author: "kim",
			State:  "approved",
			At:     at,
			Commit: "2",
		}}},
		History: []reconcile.Round{{At: at, Causes: "lint failed"}},
	}
	test.Equal(t, "the moments", pullMoments(w), []Moment{
		{At: at, Kind: MomentPull, Name: "checks", Result: "failed", Text: "1a2b3c4d5e6f"},
		{At: at, Kind: MomentPull, Name: "pull request", Result: "merged", Text: "2"},
		{At: at, Kind: MomentReview, Name: "review", Result: "approved", Text: "kim, 2"},
		{At: at, Kind: MomentRework, Name: "came back", Text: "lint failed"},
	})
}
