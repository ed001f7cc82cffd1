package wiring

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/team"
)

// silent is a remote that never answers.
type silent struct{ host.Claims }

func (silent) Look(ctx context.Context) ([]team.Entry, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A remote that never answers keeps neither a pass nor the renewal of a claim waiting.
func TestRequestAboutClaimsEnds(t *testing.T) {
	r := &teamRemote{claims: silent{}, limit: time.Millisecond}
	_, err := r.Look(t.Context())
	known, _ := errors.AsType[*reconcile.Error](err)
	if known == nil || known.Code != host.CodeClaimsUnavailable {
		t.Fatal(err)
	}
	test.Contains(t, "message", known.Message, "the answer of the remote about claims took longer than 1ms")
}

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
func teamOf(t *testing.T, remote string, names ...string) (machines []*TeamClaims) {
	t.Helper()
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	for _, name := range names {
		db := newDB(t, now)
		repository := host.Repository{URL: remote}
		r := &teamRemote{
			config: runner.Config{Repository: runner.Repository{Repository: repository}},
			claims: local.Mirrors{Dir: t.TempDir(), RunID: "test"}.Claims(repository, "", os.Environ()),
			limit:  time.Minute,
		}
		machines = append(machines, &TeamClaims{remote: r, db: db, member: &team.Member{
			Remote:   r,
			Journal:  db.Team,
			Terms:    team.Terms{Term: time.Hour, Watch: time.Hour},
			Machine:  name,
			Project:  "demo",
			Now:      func() time.Time { return now },
			Clock:    func() team.Instant { return team.Instant{Boot: name, Since: time.Hour} },
			NewToken: rand.Text,
		}})
	}
	return machines
}

// A machine takes an issue again that it and then another one had delivered. It goes on from what the
// other one delivered and answered, not from what it did itself before.
func TestIssueTakenBack(t *testing.T) {
	remote := t.TempDir()
	runGit(t, "init", "-q", "--bare", remote)
	tree := runGit(t, "-C", remote, "write-tree")
	deliver := func(by *TeamClaims, reviews ...string) string {
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
		test.OK(t, by.db.Team.Inherit(t.Context(), "id-1", work))
		issue := team.Issue{ID: "id-1", Identifier: "ABC-1"}
		test.OK(t, by.member.Confirm(t.Context(), team.Keep{
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
	take := func(by *TeamClaims) bool {
		t.Helper()
		return !test.Must(by.Take(t.Context(), issues, false)).Has("id-1")
	}
	workOf := func(m *TeamClaims) state.Work {
		t.Helper()
		return test.Must(m.db.Team.Work(t.Context(), []string{"id-1"}))["id-1"]
	}

	test.Equal(t, "the left machine has it", take(left), true)
	deliver(left, "review 1")
	test.OK(t, right.member.Look(t.Context()))
	test.Equal(t, "the right machine has it", take(right), true)
	second := deliver(right, "review 1", "review 2")
	test.Equal(t, "the left machine learns of that", take(left), false)
	test.OK(t, left.Settle(t.Context(), nil))
	test.Equal(t, "the left machine has it again", take(left), true)
	work := workOf(left)
	test.Equal(t, "commit", work.Commit, second)
	test.Equal(t, "answered", work.Handled, []string{"review 1", "review 2"})

	third := deliver(left, "review 1", "review 2", "review 3")
	test.Equal(t, "it takes its own claim", take(left), true)
	test.Equal(t, "commit of its own", workOf(left).Commit, third)
}
