package github

import (
	"context"
	"errors"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// squash is a merge of pull request 1.
var squash = reconcile.Merging{
	Number: 1,
	Head:   "c0",
	Method: "squash",
}

func TestMergeRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*place)
		pull    func(*githubtest.Pull)
		arm     bool
		wraps   error
		message []string
	}{
		"the base was pushed": {
			change:  func(p *place) { test.OK(t, p.Fail(githubtest.Failure{Kind: githubtest.FailMergeRace})) },
			wraps:   reconcile.ErrLater,
			message: []string{"GitHub answers 405: Base branch was modified"},
		},
		"the head was pushed": {
			pull:    func(pull *githubtest.Pull) { pull.Commit = "c1" },
			wraps:   reconcile.ErrLater,
			message: []string{"GitHub answers 409: Head branch was modified"},
		},
		"a rule about authors": {
			change:  func(p *place) { test.OK(t, p.Fail(githubtest.Failure{Kind: githubtest.FailNoMerge})) },
			wraps:   reconcile.ErrRejected,
			message: []string{"Commit author email must match"},
		},
		"no right": {
			change:  func(p *place) { test.OK(t, p.Fail(githubtest.Failure{Kind: githubtest.FailForbidden})) },
			message: []string{"$TEAM_TOKEN needs the right to write contents and pull requests of team/repo"},
		},
		"no right to arm": {
			change:  func(p *place) { test.OK(t, p.Fail(githubtest.Failure{Kind: githubtest.FailForbidden, Skip: 1})) },
			arm:     true,
			message: []string{"$TEAM_TOKEN needs the right to write contents and pull requests of team/repo"},
		},
		"another method": {
			change:  func(p *place) { p.Methods = []string{"rebase"} },
			wraps:   reconcile.ErrRejected,
			message: []string{"Squash merges are not allowed"},
		},
		"an approval is missing": {
			pull:    func(pull *githubtest.Pull) { pull.Approvals = 1 },
			wraps:   reconcile.ErrRejected,
			message: []string{"At least 1 approving review is required"},
		},
		"auto-merge is not allowed": {
			change:  func(p *place) { p.NoAutoMerge = true },
			pull:    func(pull *githubtest.Pull) { pull.Approvals = 1 },
			arm:     true,
			wraps:   reconcile.ErrRejected,
			message: []string{"Auto merge is not allowed"},
		},
	} {
		p := newPlace(t)
		p.Push("main", "b0")
		p.add(func(pull *githubtest.Pull) {
			if c.pull != nil {
				c.pull(pull)
			}
		})
		if c.change != nil {
			c.change(p)
		}
		merge := p.Merge
		if c.arm {
			merge = func(ctx context.Context, m reconcile.Merging) error {
				_, err := p.ArmMerge(ctx, m)
				return err
			}
		}
		err := merge(t.Context(), squash)
		known, is := errors.AsType[*reconcile.Error](err)
		if !is || c.wraps != nil && !errors.Is(err, c.wraps) {
			t.Fatalf("%s: error %v, want %v", name, err, c.wraps)
		}
		test.Contains(t, name, known.Message+"; "+known.Hint, c.message...)
		test.Equal(t, name, p.one().State, "open")
	}
}

// GitHub lets nobody arm what is ready: then it is merged at once, or put into the queue.
func TestArmWhatIsReady(t *testing.T) {
	t.Parallel()
	for _, queue := range []bool{false, true} {
		p := newPlace(t)
		p.Queue = queue
		p.Push("main", "b0")
		p.add(func(*githubtest.Pull) {})
		test.Equal(t, "a queue", test.Must(p.ReadMerge(t.Context(), 1)).Queue, queue)
		merged := test.Must(p.ArmMerge(t.Context(), squash))
		test.Equal(t, "merged", merged, !queue)
		if !queue {
			test.Equal(t, "state", p.one().State, reconcile.PullMerged)
			continue
		}
		test.Equal(t, "in the queue", []any{p.one().State, p.one().AutoMerge}, []any{"open", reconcile.AutoMergeOn})
		test.Equal(t, "again", test.Must(p.ArmMerge(t.Context(), squash)), false)
		test.OK(t, p.DisarmMerge(t.Context(), 1))
		test.Equal(t, "out of the queue", p.one().AutoMerge, reconcile.AutoMergeOff)
	}
}

func TestReadMerge(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Methods = []string{"rebase", "squash"}
	p.NoAutoMerge = true
	p.Push("main", "b0")
	p.add(func(pull *githubtest.Pull) { pull.Behind = true })
	rules := test.Must(p.ReadMerge(t.Context(), 1))
	test.Equal(t, "rules", rules, reconcile.MergeRules{
		Head:    "c0",
		Methods: []string{"squash", "rebase"},
		Behind:  true,
	})
}
