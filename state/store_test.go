package state

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestEveryFieldIsStored finds a field of a domain type that is not stored.
func TestEveryFieldIsStored(t *testing.T) {
	db := newState(t)
	var c reconcile.Claim
	var r reconcile.Run
	for _, v := range []any{&c, &r} {
		populate(t, reflect.ValueOf(v).Elem(), new(int))
	}
	for _, i := range []*reconcile.Issue{&c.Issue, &r.Issue} {
		// such an issue is never claimed
		i.Malformed = ""
		i.StateMeant = ""
		// they are asked for again
		i.Remarks = nil
		for b := range i.BlockedBy {
			i.BlockedBy[b].Mend = ""
		}
		i.PullRequest = nil
		i.OtherPull = nil
		i.PullsUnread = false
	}
	c.Version = 0
	c.UpdatedAt = epoch
	fresh := r
	fresh.Phase = reconcile.Starting
	fresh.Outcome = ""
	fresh.Settled = false
	fresh.ReapTries = 0
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c, Insert: &fresh}))
	test.Must(db.Journal.TakeRun(ctx, r.ID, r.Worker, epoch))
	// RequestStop ignores the run, because the row has the reason already; so only the time is
	// missing.
	test.Must(
		db.sql.Exec(`UPDATE runs SET stop_mono = ?, stop_boot = ?`, int64(r.StopAt.Mono), r.StopAt.Boot),
	)
	for range r.ReapTries {
		test.OK(t, db.Store.ReapFailed(ctx, r.ID))
	}
	test.OK(t, db.Journal.Finish(ctx, epoch, r))
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Settle: r.ID}))

	c.Version = 1
	r.HeartbeatAt = epoch
	r.EndedAt = epoch
	stored, _, err := db.Views.ClaimByIssue(ctx, c.IssueID)
	test.OK(t, err)
	test.Equal(t, "stored", stored, c)
	test.Equal(t, "the run", mustRun(t, db, r.ID), r)
	c.Version = 1
	c.Attempt = 77
	c.TokenBase = 88
	for i := range reflect.TypeFor[reconcile.Claim]().NumField() { // and the same by an update
		if f := reflect.ValueOf(&c).Elem().Field(i); f.Kind() == reflect.String && i > 0 {
			f.SetString(f.String() + "+")
		}
	}
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Claim: &c}))
	c.Version = 2
	stored, _, err = db.Views.ClaimByIssue(ctx, c.IssueID)
	test.OK(t, err)
	test.Equal(t, "stored", stored, c)
}

// populate gives every field a different value, none of them zero.
func populate(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(epoch.Add(time.Duration(*n) * time.Minute)))
	case v.Type() == reflect.TypeFor[[]byte]():
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, *n))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		populate(t, v.Elem(), n)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		populate(t, v.Index(0), n)
	case v.Kind() == reflect.Map:
		v.Set(reflect.ValueOf(map[string]any{"key": fmt.Sprint("s", *n)}))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			populate(t, v.Field(i), n)
		}
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprint("s", *n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanUint():
		v.SetUint(uint64(*n))
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

func TestChangeIsAllOrNothing(t *testing.T) {
	db := newState(t)
	r := startedRun(t, db, 1)
	id := test.Must(db.Operator.AddCommand(ctx, reconcile.Command{
		Verb:      reconcile.VerbRetry,
		CreatedAt: epoch,
	}))
	paused := true
	fresh := claim(t, db, 2)
	fresh.Attempt = 5
	second := newRun(1) // issue 1 has a live run
	second.ID = "run-other"
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{
		Claim: &fresh, Insert: &second, Commands: []int64{id},
		Paused: &paused, AgentBlock: &reconcile.Block{Code: "network"},
	}))
	rec := test.Must(db.Store.State(ctx))
	if len(rec.Commands) != 1 || rec.Paused || rec.AgentBlock != nil || rec.Claims[0].Attempt != 0 ||
		len(rec.Runs) != 1 {
		t.Errorf("part of a refused change was stored: %+v", rec)
	}
	same := newRun(3)
	same.ID = r.ID
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{Insert: &same}))
}

func TestPauseIsStored(t *testing.T) {
	db := newState(t)
	for _, paused := range []bool{true, false} {
		test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Paused: &paused, Unblocked: epoch}))
		rec := test.Must(db.Store.State(ctx))
		test.Equal(
			t,
			"paused and unblocked",
			[]any{rec.Paused, rec.Unblocked.Equal(epoch)},
			[]any{paused, true},
		)
	}
}

func TestOneLiveAgentRunOfAnIssue(t *testing.T) {
	db := newState(t)
	first := startedRun(t, db, 1)
	second := newRun(1)
	second.ID = "run-second"
	wantConflict(t, db.Store.Commit(ctx, epoch, reconcile.Change{Insert: &second}))
	cleanup := newRun(1)
	cleanup.ID = "run-cleanup"
	cleanup.Kind = reconcile.CleanupRun
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Insert: &cleanup}))
	first.Outcome = reconcile.Succeeded
	test.OK(t, db.Journal.Finish(ctx, epoch, first))
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Settle: first.ID, Insert: &second}))
}

func TestRuntimeOfADeadRunEndsWithItsHeartbeat(t *testing.T) {
	db := newState(t)
	r := startedRun(t, db, 1)
	test.Must(db.Journal.UpdateRun(ctx, epoch.Add(time.Minute), r))
	monday := epoch.Add(60 * time.Hour)
	test.OK(t, db.Store.EndDead(ctx, monday, r, reconcile.InterruptedRun, "worker_lost", "rebooted"))
	test.OK(t, db.Store.Commit(ctx, monday, reconcile.Change{Settle: r.ID}))
	wantTotals(t, db, Totals{Runtime: time.Minute})
	ended := mustRun(t, db, r.ID)
	test.Equal(
		t,
		"end, code and text",
		[]any{ended.EndedAt, ended.ErrorCode, ended.ErrorText},
		[]any{monday, "worker_lost", "rebooted"},
	)

	back := startedRun(t, db, 2) // the clock was set back while it ran
	back.Outcome = reconcile.Succeeded
	test.OK(t, db.Journal.Finish(ctx, epoch.Add(-time.Hour), back))
	test.OK(t, db.Store.Commit(ctx, epoch, reconcile.Change{Settle: back.ID}))
	wantTotals(t, db, Totals{Runtime: time.Minute})
}

func TestRunIsTakenOnce(t *testing.T) {
	db := newState(t)
	r := insertedRun(t, db, 1)
	test.OK(t, db.Store.RequestStop(ctx, r.ID, reconcile.StopLabel, reconcile.Instant{
		Boot: "boot",
		Mono: 7,
	}))
	other := openIn(t, db.Dir())
	const workers = 10
	results := make(chan error, workers)
	for i := range workers {
		go func() {
			taken, err := []*DB{db, other}[i%2].Journal.TakeRun(ctx, r.ID, reconcile.Handle{
				Boot:  "b",
				PID:   i + 1,
				Start: 9,
			}, epoch)
			if err == nil && (taken.Worker.PID != i+1 || taken.StopReason != reconcile.StopLabel) {
				err = fmt.Errorf("taken as %+v", taken)
			}
			results <- err
		}()
	}
	wins := 0
	for range workers {
		if err := <-results; err == nil {
			wins++
		} else {
			wantConflict(t, err)
		}
	}
	test.Equal(t, "workers that took the run", wins, 1)
	ended := insertedRun(t, db, 2)
	test.OK(t, db.Store.EndDead(ctx, epoch, ended, reconcile.Lost, "", "failed to spawn agent"))
	for _, id := range []string{"no such run", ended.ID} {
		wantConflict(t, test.Err(db.Journal.TakeRun(ctx, id, worker, epoch)))
	}
	test.ErrorIs(t, "the error", test.Err(db.Runs.Find(ctx, "no such run")), ErrNotFound)
}

// TestDurabilityFollowsWhatChanged checks that a heartbeat alone does not wait for the disk,
// and that everything on which decisions depend does.
func TestDurabilityFollowsWhatChanged(t *testing.T) {
	db := newState(t)
	r := startedRun(t, db, 1)
	for name, step := range map[string]struct {
		change func(*reconcile.Run)
		want   durability
	}{
		"heartbeat": {func(r *reconcile.Run) { r.Beats++; r.Tokens.Total++; r.LastEvent = "e" }, normal},
		"phase":     {func(r *reconcile.Run) { r.Phase = reconcile.Finishing }, full},
		"thread":    {func(r *reconcile.Run) { r.ThreadID = "t" }, full},
		"turn":      {func(r *reconcile.Run) { r.TurnsDone++ }, full},
		"progress":  {func(r *reconcile.Run) { r.Progress = !r.Progress }, full},
		"workspace": {func(r *reconcile.Run) { r.WorkspaceID += "w" }, full},
		"handoff":   {func(r *reconcile.Run) { r.MovedAt = epoch }, full},
		"model":     {func(r *reconcile.Run) { r.Model = "gpt" }, full},
		"link": {
			func(r *reconcile.Run) { r.Links = append(r.Links, reconcile.Link{URL: "https://example.com"}) },
			full,
		},
	} {
		step.change(&r)
		test.Must(db.Journal.UpdateRun(ctx, epoch, r))
		test.Equal(t, "durability of a "+name, synchronous(t, db), step.want)
	}
	test.Must(db.Journal.UpdateRun(ctx, epoch, r))
	test.OK(t, db.Store.RequestStop(ctx, r.ID, reconcile.StopAll, reconcile.Instant{
		Boot: "boot",
		Mono: 7,
	}))
	test.Equal(t, "durability of a stop request after a heartbeat", synchronous(t, db), full)
}

// synchronous returns the durability of the last write.
func synchronous(t *testing.T, db *DB) durability {
	t.Helper()
	var level int
	test.OK(t, db.sql.QueryRow(`PRAGMA synchronous`).Scan(&level))
	return map[int]durability{1: normal, 2: full}[level]
}
