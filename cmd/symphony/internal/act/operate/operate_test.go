package operate

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// A delivery counts although another run of the issue has begun since. A run from before does
// not count.
func TestDeliveryBeforeAnotherRun(t *testing.T) {
	for _, c := range []struct {
		name, want string
		runs       []reconcile.RunKind // that begin during the pass
	}{
		{"delivered", "new-0", []reconcile.RunKind{reconcile.DeliveryRun}},
		{"delivered, and another run begun", "new-0", []reconcile.RunKind{reconcile.DeliveryRun, reconcile.AgentRun}},
		{"not delivered", "", []reconcile.RunKind{reconcile.AgentRun}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			now := time.Now()
			path := filepath.Join(dir, "WORKFLOW.md")
			test.OK(
				t,
				os.WriteFile(
					path,
					[]byte(
						"---\ntracker:\n  kind: file\n  provider: {path: .}\nrepository:\n  url: /nowhere\n---\nWork.",
					),
					0o600,
				),
			)
			p := wiring.NewProject(&environ.Env{
				Environ: []string{"TMPDIR=" + t.TempDir()},
				Dir:     dir,
				Home:    dir,
				Now:     time.Now,
			}, path, filepath.Join(dir, "state"))
			db := test.Must(state.Create(t.Context(), p.StateDir, now))
			issue := reconcile.Issue{ID: "1", Identifier: "A-1"}
			claim := reconcile.Claim{
				IssueID:       "1",
				Identifier:    "A-1",
				Issue:         issue,
				Status:        reconcile.Waiting,
				WorkspaceRoot: dir,
				ClaimedAt:     now,
				Delivery:      reconcile.Delivery{Due: true},
			}
			before := reconcile.Run{
				ID:         "before",
				Kind:       reconcile.DeliveryRun,
				IssueID:    "1",
				Identifier: "A-1",
				Issue:      issue,
				StartedAt:  now,
			}
			test.OK(
				t,
				db.Store.Commit(
					t.Context(),
					now,
					reconcile.Change{Claim: &claim},
					reconcile.Change{Insert: &before},
				),
			)
			runPass := func(ctx context.Context, _ *wiring.Project, o pass.Options) (pass.Result, error) {
				for i, kind := range c.runs {
					run := before
					run.ID = "new-" + string(rune('0'+i))
					run.Kind = kind
					test.OK(t, o.DB.Store.Commit(ctx, now, reconcile.Change{Insert: &run}))
				}
				return pass.Result{}, nil
			}
			r, err := retry(t.Context(), p, Retry{Issue: "A-1", NoWait: true}, DeliveryCalls{}, runPass)
			test.Equal(t, "the run", r.RunID, c.want)
			test.Equal(t, "it has not started", err != nil, c.want == "")
			test.OK(t, db.Close())
		})
	}
}

// An issue that is held because its pull request was closed is in no active state. retry
// does not start it, so the hint says that the issue has to be moved.
func TestHeldIssueIsNotStarted(t *testing.T) {
	for reason, want := range map[string]string{
		reconcile.HoldOperator:   "symphony retry ABC-7 ends the hold",
		reconcile.HoldPullClosed: "symphony retry ABC-7 ends the hold; so does moving the issue to an active state",
	} {
		claim := &reconcile.Claim{Identifier: "ABC-7", Status: reconcile.Held, HoldReason: reason}
		test.Equal(t, "the hint for "+reason, exit.From(claimedError("ABC-7", claim)).Hint, want)
	}
}

// Words of a person have the person's name, also where symphony has an account of its own.
func TestAccount(t *testing.T) {
	test.Equal(t, "with a name", personOf(&user.User{Username: "ann", Name: "Ann Miller"}), "Ann Miller (ann)")
	test.Equal(t, "without", personOf(&user.User{Username: "ann", Name: "ann"}), "ann")
	by := &environ.Env{Environ: []string{"SUDO_USER=daemon"}}
	test.Contains(t, "with sudo", Account(by), "daemon")
	test.Equal(t, "as root", Account(&environ.Env{Environ: []string{"SUDO_USER=root"}}), Account(&environ.Env{}))
}
