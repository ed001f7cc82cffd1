package state

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/reconcile"
)

// A pass, which reads meta once, is told what anybody else is told who reads all of it, after each write of its own and of
// others.
func TestRecordedOfAPass(t *testing.T) {
	ctx, dir := context.Background(), newDir(t)
	paused, going := true, false
	block := reconcile.Block{Code: "linear_api_status", Message: "m", Since: epoch, NextTry: epoch}
	for _, step := range []struct {
		name  string
		write func(t *testing.T, pass, other *DB)
	}{
		{"nothing", func(*testing.T, *DB, *DB) {}},
		{"blocked and paused", func(t *testing.T, pass, _ *DB) {
			check(t, pass.Commit(ctx, epoch, reconcile.Change{TrackerBlock: &block, HostBlock: &block, Paused: &paused}))
		}},
		{"resumed", func(t *testing.T, pass, _ *DB) {
			check(t, pass.Commit(ctx, epoch, reconcile.Change{Paused: &going, HostBlock: &reconcile.Block{}}))
		}},
		{"swept", func(t *testing.T, pass, _ *DB) { check(t, pass.SaveSweep(ctx, epoch)) }},
		{"told to pause", func(t *testing.T, _, other *DB) {
			_, err := other.AddCommand(ctx, reconcile.Command{Verb: reconcile.VerbPause, CreatedAt: epoch})
			check(t, err)
		}},
		{"claimed", func(t *testing.T, pass, _ *DB) { claim(t, pass, 1) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			pass, other := createIn(t, dir), openIn(t, dir)
			for _, when := range []string{"before", "after"} {
				want, err := other.State(ctx)
				check(t, err)
				got, err := pass.State(ctx)
				check(t, err)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-read by another +read by the pass):\n%s", when, diff)
				}
				if when == "before" {
					step.write(t, pass, other)
				}
			}
		})
	}
}

// What a dead pass has left of its hooks is found, and so is what this one has made to be told: none of it is taken for
// the calm of a moment ago.
func TestAttentionsOfAPass(t *testing.T) {
	ctx, dir := context.Background(), newDir(t)
	later := epoch.Add(2 * tellPatience)
	read := func(pass *DB) *DB {
		t.Helper()
		_, err := pass.State(ctx)
		check(t, err)
		return pass
	}
	left := func(pass *DB, want bool) {
		t.Helper()
		if some, err := pass.LeftAttentions(ctx, later, tellPatience, "pass"); err != nil || some != want {
			t.Errorf("something is left: %v, %v; want %v", some, err, want)
		}
	}
	pass := read(createIn(t, dir))
	left(pass, false)
	a := reconcile.HoldAttention(heldAt(t, pass, claim(t, pass, 1), epoch))
	takes(t, pass, epoch, a, "pass")
	left(pass, true)
	left(read(createIn(t, dir)), true)

	check(t, pass.DropAttentions(ctx, later))
	calm := read(createIn(t, dir))
	left(calm, false)
	b := heldAt(t, calm, claim(t, calm, 2), epoch)
	wantOpen(t, calm, epoch, reconcile.HoldAttention(b).Key)
	check(t, calm.DropAttentions(ctx, later))
	wantOpen(t, calm, epoch)
}
