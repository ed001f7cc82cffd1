package feedback

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// armingForge is a forge with a pull request that is approved and green, whose base requires
// something else, too, so that the forge is to merge it later.
type armingForge struct {
	t     *testing.T
	db    *state.DB
	now   time.Time
	pull  reconcile.Pull
	rules reconcile.MergeRules
	armed bool  // the forge merges it by itself
	err   error // of the answer to the next change; what was asked for is done nevertheless
}

func newArmingForge(t *testing.T) *armingForge {
	f := &armingForge{
		t:     t,
		now:   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		rules: reconcile.MergeRules{Head: "c", Methods: []string{"squash"}, Missing: true, Auto: true},
		pull: reconcile.Pull{
			ID:        "x",
			Number:    1,
			URL:       "p/1",
			State:     "open",
			Branch:    "b",
			Head:      "c",
			Base:      "main",
			Mergeable: "mergeable",
			Checks: reconcile.Checks{
				Commit: "c",
				State:  reconcile.CheckSuccess,
				List:   []reconcile.Check{{Name: "test", State: reconcile.CheckSuccess}},
			},
			Reviews: []reconcile.Review{{ID: "1", Author: "ann", Writer: true, State: "approved", Commit: "c"}},
		},
	}
	f.db = test.Must(state.Create(t.Context(), t.TempDir(), f.now))
	t.Cleanup(func() { test.OK(t, f.db.Close()) })
	delivered := reconcile.Delivered{
		URL:         "u",
		Branch:      "b",
		Commit:      "c",
		Base:        "main",
		At:          f.now,
		PullRequest: "p/1",
	}
	test.OK(t, f.db.Journal.RecordDelivered(t.Context(), "id", delivered))
	f.pass() // sees the commit first
	f.now = f.now.Add(3 * time.Minute)
	return f
}

// pass looks at the pull request.
func (f *armingForge) pass() {
	f.now = f.now.Add(readStep)
	answer := func() error {
		err := f.err
		f.err = nil
		return err
	}
	forge := &reconcile.Forge{
		Number: func(string) (int, bool) { return 1, true },
		Read: func(context.Context, []int) (map[int]reconcile.Pull, error) {
			f.pull.AutoMerge = reconcile.AutoMergeOff
			if f.armed {
				f.pull.AutoMerge = reconcile.AutoMergeOn
			}
			return map[int]reconcile.Pull{1: f.pull}, nil
		},
		ReadMerge: func(context.Context, int) (reconcile.MergeRules, error) { return f.rules, nil },
		Merge:     func(context.Context, reconcile.Merging) error { return answer() },
		ArmMerge: func(context.Context, reconcile.Merging) (bool, error) {
			f.armed = true
			return false, answer()
		},
		DisarmMerge: func(context.Context, int) error {
			f.armed = false
			return answer()
		},
	}
	w := Watcher{
		Forge:   func(context.Context) (*reconcile.Forge, error) { return forge, nil },
		Tracker: &reconcile.TrackerAdapter{Tracker: inReview{}},
		DB:      f.db,
		Now:     func() time.Time { return f.now },
		Handoff: "Human Review",
		Feedback: reconcile.Feedback{
			State: "In Progress",
			Merge: reconcile.Merge{When: reconcile.MergeApproved, Method: "squash"},
		},
	}
	w.Pass(f.t.Context())
}

// errLost is the error of an answer that was lost.
var errLost = &reconcile.Error{Code: "forge_api_request", Message: "the connection was reset"}

// What symphony itself has taken back, it asks for again. What a person has taken back, it
// leaves alone.
func TestWhoHasDisarmed(t *testing.T) {
	f := newArmingForge(t)
	f.pass()
	test.Equal(t, "armed", f.armed, true)
	f.pull.Draft = true
	f.err = errLost
	f.pass()
	test.Equal(t, "armed, as a draft", f.armed, false)
	f.pull.Draft = false
	f.pass()
	test.Equal(t, "armed again", f.armed, true)
	f.armed = false
	f.pass()
	test.Equal(t, "armed after a person has ended it", f.armed, false)
}

// The forge may have got a request whose answer was lost, whatever it answers to the next one:
// it is taken back at once or, if it may still be of use, as soon as nothing may be merged.
func TestRefusedAfterALostAnswer(t *testing.T) {
	for name, next := range map[string]*reconcile.Error{
		"later":   {Code: "forge_api_status", Status: http.StatusConflict, Err: reconcile.ErrLater},
		"refused": {Code: "forge_api_status", Status: http.StatusMethodNotAllowed, Err: reconcile.ErrRejected},
	} {
		f := newArmingForge(t)
		f.err = errLost
		f.pass()
		test.Equal(t, name+": armed", f.armed, true)
		f.rules.Missing = false
		f.err = next
		f.pass()
		f.pull.Draft = true
		f.pass()
		test.Equal(t, name+": armed, as a draft", f.armed, false)
	}
}
