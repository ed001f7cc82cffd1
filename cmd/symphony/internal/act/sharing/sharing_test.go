package sharing

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// runGit runs git and returns what it prints.
func runGit(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %s", args, out)
	}
	return strings.TrimSpace(string(out))
}

// teamOf returns machines that share a remote.
func teamOf(t *testing.T, remote string, names ...string) (machines []*Team) {
	t.Helper()
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for _, name := range names {
		db := test.Must(state.Create(t.Context(), filepath.Join(t.TempDir(), "state"), now))
		t.Cleanup(func() { test.OK(t, db.Close()) })
		mirrors := local.Mirrors{Dir: t.TempDir(), RunID: "test"}
		claims := mirrors.Claims(host.Repository{URL: remote}, "", os.Environ())
		machines = append(machines, &Team{
			Tip:    claims.Tip,
			DB:     db,
			Branch: func(i reconcile.Issue) (string, error) { return "symphony/" + i.Identifier, nil },
			Warn:   func(string) {},
			Member: &team.Member{
				Remote:   claims,
				Journal:  db.Team,
				Terms:    team.Terms{Term: time.Hour, Watch: time.Hour},
				Machine:  name,
				Project:  "demo",
				Now:      func() time.Time { return now },
				Clock:    func() team.Instant { return team.Instant{Boot: name, Since: time.Hour} },
				NewToken: rand.Text,
			},
		})
	}
	return machines
}

// A machine takes an issue again that it and then another one had delivered. It goes on from what the
// other one delivered and answered, not from what it did itself before.
func TestIssueTakenBack(t *testing.T) {
	remote := t.TempDir()
	runGit(t, "init", "-q", "--bare", remote)
	tree := runGit(t, "-C", remote, "write-tree")
	deliver := func(by *Team, reviews ...string) string {
		t.Helper()
		commit := runGit(t, "-C", remote, "-c", "user.name=A", "-c", "user.email=a@example.com",
			"commit-tree", tree, "-m", reviews[len(reviews)-1])
		runGit(t, "-C", remote, "update-ref", "refs/heads/symphony/ABC-1", commit)
		work := by.workIn(team.Claim{
			Branch:      "symphony/ABC-1",
			Commit:      commit,
			PullRequest: "https://example.com/pull/1",
			Handled:     reviews,
			Rounds:      len(reviews),
		})
		test.OK(t, by.DB.Team.Inherit(t.Context(), "id-1", work))
		issue := team.Issue{ID: "id-1", Identifier: "ABC-1"}
		test.OK(t, by.Member.Confirm(t.Context(), team.Keep{
			Issue:  issue,
			Status: team.Working,
			Branch: work.Branch,
			Commit: commit,
		}))
		test.OK(t, by.Settle(t.Context(), nil)) // it has no free slot, and makes the claim free
		return commit
	}
	machines := teamOf(t, remote, "left", "right")
	left := machines[0]
	right := machines[1]
	issues := []reconcile.Issue{{ID: "id-1", Identifier: "ABC-1"}}
	take := func(by *Team) bool {
		t.Helper()
		return !test.Must(by.Take(t.Context(), issues, false)).Has("id-1")
	}
	workOf := func(m *Team) state.Work {
		t.Helper()
		return test.Must(m.DB.Team.Work(t.Context(), []string{"id-1"}))["id-1"]
	}

	test.Equal(t, "the left machine has it", take(left), true)
	deliver(left, "review 1")
	test.OK(t, right.Member.Look(t.Context()))
	test.Equal(t, "the right machine has it", take(right), true)
	second := deliver(right, "review 1", "review 2")
	test.Equal(t, "the left machine learns of that", take(left), false)
	test.OK(t, left.Settle(t.Context(), nil))
	test.Equal(t, "the left machine has it again", take(left), true)
	test.Equal(t, "what its checks may run", workOf(left).Proof, reconcile.UnknownProof)
	work := workOf(left)
	test.Equal(t, "commit", work.Commit, second)
	test.Equal(t, "answered", work.Handled, []string{"review 1", "review 2"})

	third := deliver(left, "review 1", "review 2", "review 3")
	test.Equal(t, "it takes its own claim", take(left), true)
	test.Equal(t, "commit of its own", workOf(left).Commit, third)
}

// A claim names a branch that repository.branch does not give its issue: that branch is not used.
func TestClaimOfAnotherBranch(t *testing.T) {
	remote := t.TempDir()
	runGit(t, "init", "-q", "--bare", remote)
	tree := runGit(t, "-C", remote, "write-tree")
	commit := runGit(t, "-C", remote, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit-tree", tree, "-m", "x")
	runGit(t, "-C", remote, "update-ref", "refs/heads/main", commit)
	runGit(t, "-C", remote, "update-ref", "refs/heads/symphony/ABC-1", commit)
	for _, branch := range []string{"main", "symphony/ABC-1"} {
		machines := teamOf(t, remote, "left", "right")
		left := machines[0]
		right := machines[1]
		issues := []reconcile.Issue{{ID: "id-" + branch, Identifier: "ABC-1"}}
		test.Equal(t, "the left machine has it", len(test.Must(left.Take(t.Context(), issues, false)).Elsewhere), 0)
		test.OK(t, left.Member.Confirm(t.Context(), team.Keep{
			Issue:  team.Issue{ID: issues[0].ID, Identifier: "ABC-1"},
			Status: team.Free,
			Branch: branch,
			Commit: commit,
		}))
		warned := ""
		right.Warn = func(text string) { warned = text }
		test.OK(t, right.Member.Look(t.Context()))
		test.Must(right.Take(t.Context(), issues, false))
		_, follows, err := right.DB.Delivered(t.Context(), issues[0].ID)
		test.OK(t, err)
		test.Equal(t, "follows "+branch, follows, branch != "main")
		test.Equal(t, "warns of "+branch, warned != "", branch == "main")
	}
}

// A look that fails is repeated a few minutes later, and not in each pass. The next one after a look is due
// an hour later.
func TestLookThatFails(t *testing.T) {
	clock := time.Duration(0)
	remote := &broken{err: errors.New("no link")}
	db := test.Must(state.Create(t.Context(), filepath.Join(t.TempDir(), "state"), time.Now()))
	t.Cleanup(func() { test.OK(t, db.Close()) })
	machine := &Team{
		DB: db,
		Member: &team.Member{
			Remote:  remote,
			Journal: db.Team,
			Terms:   team.Terms{Term: 20 * time.Minute, Watch: 24 * time.Hour},
			Now:     time.Now,
			Clock:   func() team.Instant { return team.Instant{Boot: "boot", Since: clock} },
		},
	}
	looks := func(minutes int) int {
		t.Helper()
		before := remote.looks
		for range minutes {
			clock += time.Minute
			_ = machine.lookIfDue(t.Context())
		}
		return remote.looks - before
	}
	test.Equal(t, "looks in 16 minutes that fail", looks(16), 4)
	remote.err = nil
	test.Equal(t, "looks in the next two hours", looks(120), 2)
}

// broken is a remote whose looks fail with an error, unless that is nil.
type broken struct {
	team.Remote
	err   error
	looks int
}

func (b *broken) Look(context.Context) ([]team.Entry, error) {
	b.looks++
	return nil, b.err
}
