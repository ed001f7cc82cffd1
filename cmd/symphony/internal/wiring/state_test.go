package wiring

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

func newDB(t *testing.T, now time.Time) *state.DB {
	t.Helper()
	db := test.Must(state.Create(t.Context(), t.TempDir()+"/state", now))
	t.Cleanup(func() { db.Close() })
	return db
}

// A schedule is active for three times the median of its last five gaps, at least three
// minutes and at most a day. Within a boot the monotonic clock counts, so that setting the
// wall clock neither revives nor ends a schedule.
func TestScheduleAlive(t *testing.T) {
	boot := test.Must(proc.BootID())
	minutely := func(newest time.Duration) (ages []time.Duration) {
		for n := range 6 {
			ages = append(ages, newest+time.Duration(5-n)*time.Minute)
		}
		return ages
	}
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		trigger string
		ages    []time.Duration // of the passes on the wall clock, the oldest first
		boot    string
		awake   time.Duration // age of the newest pass on the monotonic clock
		want    bool
	}{
		"none":                       {TriggerCron, nil, "", 0, false},
		"only manual passes":         {TriggerManual, []time.Duration{time.Second}, "", 0, false},
		"only passes of workers":     {TriggerWorker, []time.Duration{time.Second}, "", 0, false},
		"one, just now":              {TriggerCron, []time.Duration{time.Second}, "", 0, true},
		"one, long ago":              {TriggerTimer, []time.Duration{4 * time.Minute}, "", 0, false},
		"every minute, active":       {TriggerCron, minutely(2 * time.Minute), "", 0, true},
		"every minute, stopped":      {TriggerTimer, minutely(4 * time.Minute), "", 0, false},
		"a loop that has just ended": {TriggerLoop, minutely(10 * time.Second), "", 0, false},
		"hourly, two hours ago": {
			TriggerCron,
			[]time.Duration{4 * time.Hour, 3 * time.Hour, 2 * time.Hour},
			"",
			0,
			true,
		},
		"hourly, four hours ago": {
			TriggerCron,
			[]time.Duration{6 * time.Hour, 5 * time.Hour, 4 * time.Hour},
			"",
			0,
			false,
		},
		"weekly, two days ago": {TriggerCron, []time.Duration{9 * day, 2 * day}, "", 0, false},
		"one long gap": {
			TriggerCron,
			[]time.Duration{100 * time.Hour, 10 * time.Minute, 9 * time.Minute, 8 * time.Minute, 7 * time.Minute},
			"",
			0,
			false,
		},
		"set back a day, stopped":      {TriggerCron, minutely(-day), boot, 10 * time.Minute, false},
		"set back a day, active":       {TriggerCron, minutely(-day), boot, 10 * time.Second, true},
		"set forward a day, active":    {TriggerCron, minutely(day), boot, 10 * time.Second, true},
		"before a reboot":              {TriggerCron, minutely(10 * time.Second), "another", time.Hour, true},
		"before a reboot and set back": {TriggerCron, minutely(-time.Hour), "another", time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			db := newDB(t, now)
			for _, age := range c.ages {
				sinceNewest := age - c.ages[len(c.ages)-1]
				pass := state.Pass{
					Trigger:   c.trigger,
					StartedAt: now.Add(-age),
					BootID:    c.boot,
					Mono:      proc.Monotonic() - c.awake - sinceNewest,
				}
				test.Must(db.Store.SavePass(t.Context(), pass))
			}
			test.Equal(t, "the schedule is active", test.Must(ScheduleAlive(t.Context(), db, now)), c.want)
		})
	}
}

// A schedule that was just installed is active until its first pass is a minute late, or until
// it is removed.
func TestInstalledScheduleIsAlive(t *testing.T) {
	for name, c := range map[string]struct {
		every, age time.Duration
		passes     []time.Duration // the ages of the passes of cron, the oldest first
		removed    bool
		want       bool
	}{
		"just now":                         {time.Minute, 0, nil, false, true},
		"the first pass is due":            {time.Minute, 100 * time.Second, nil, false, true},
		"the first pass is late":           {time.Minute, 2 * time.Minute, nil, false, false},
		"hourly, half an hour ago":         {time.Hour, 30 * time.Minute, nil, false, true},
		"in the future":                    {time.Minute, -time.Hour, nil, false, false},
		"removed":                          {time.Minute, time.Second, nil, true, false},
		"beside passes of long ago":        {time.Minute, time.Second, []time.Duration{time.Hour}, false, true},
		"its passes came and then no more": {time.Hour, 50 * time.Minute, []time.Duration{40 * time.Minute}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			db := newDB(t, now)
			p := &Project{StateDir: db.Dir()}
			at := func(age time.Duration) *environ.Env {
				return &environ.Env{Now: func() time.Time { return now.Add(-age) }}
			}
			for _, age := range c.passes {
				test.Must(db.Store.SavePass(t.Context(), state.Pass{Trigger: TriggerCron, StartedAt: now.Add(-age)}))
			}
			p.Env = at(c.age)
			test.OK(t, RecordInstalled(t.Context(), p, InstalledSchedule{Trigger: TriggerCron, Every: c.every}))
			if c.removed {
				p.Env = at(0)
				test.OK(t, RecordRemoved(t.Context(), p))
			}
			test.Equal(t, "the schedule is active", test.Must(ScheduleAlive(t.Context(), db, now)), c.want)
		})
	}
}

// After a loop has ended, the passes of cron decide whether the schedule is alive, however
// many passes the loop has run.
func TestEndedLoopBesideCron(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		cron, loop []int // the ages of their passes in minutes
		runs       bool  // the loop has not ended
		alive      bool
		last, gap  int // the age of the last pass of the schedule, and the usual gap
	}{
		"a pass of the loop after those of cron": {[]int{190, 130, 70, 10}, []int{5}, false, true, 10, 60},
		"a pass of the loop before one of cron":  {[]int{190, 130, 70, 10}, []int{15}, false, true, 10, 60},
		"more passes of the loop than are read": {
			[]int{190, 130, 70, 10},
			[]int{9, 8, 7, 6, 5, 4, 3, 2},
			false,
			true,
			10,
			60,
		},
		"cron has stopped, too":      {[]int{800, 740, 680}, []int{5}, false, false, 5, 60},
		"the loop alone":             {nil, []int{4, 3, 2}, false, false, 2, 0},
		"the loop alone, which runs": {nil, []int{4, 3, 2}, true, true, 2, 1},
		"a loop that runs":           {[]int{62}, []int{4, 3, 2, 1}, true, true, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t, now)
			if c.runs {
				defer test.Must(TakeLoopLock(t.Context(), db.Dir())).Close()
			}
			triggers := map[int]string{}
			for _, age := range c.cron {
				triggers[age] = TriggerCron
			}
			for _, age := range c.loop {
				triggers[age] = TriggerLoop
			}
			for _, age := range slices.Backward(slices.Sorted(maps.Keys(triggers))) {
				pass := state.Pass{
					Trigger:   triggers[age],
					StartedAt: now.Add(-time.Duration(age) * time.Minute),
				}
				test.Must(db.Store.SavePass(t.Context(), pass))
			}
			r := test.Must(ReadRhythm(t.Context(), db, now))
			got := []any{r.Alive, now.Sub(r.Last.StartedAt).Round(time.Minute), r.Gap.Round(time.Minute)}
			test.Equal(t, "alive, age of the last pass, and gap", got,
				[]any{c.alive, time.Duration(c.last) * time.Minute, time.Duration(c.gap) * time.Minute})
		})
	}
}

// Run ids sort in the order in which they were made, within a pass and across passes, whatever
// the wall clock does.
func TestRunIDsSort(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	db := newDB(t, noon)
	var ids []string
	for _, off := range []time.Duration{0, time.Minute, -time.Hour, -time.Hour, 365 * 24 * time.Hour, 0, time.Minute} {
		next := RunIDs(db, func() time.Time { return noon.Add(off) }) // a pass
		for range 3 {
			id := next()
			ids = append(ids, id)
			run := reconcile.Run{
				ID:        id,
				Kind:      reconcile.CleanupRun,
				Phase:     reconcile.Starting,
				StartedAt: noon,
			}
			test.OK(t, db.Store.Commit(t.Context(), noon, reconcile.Change{Insert: &run}))
		}
	}
	test.Equal(t, "the order of the ids", ids, slices.Sorted(slices.Values(ids)))
	// While the clock is right, the id contains the time.
	test.Equal(t, "the beginning of an id", ids[0][:20], "20260302T120000.000-")
}

// A worker may record the outcome of its run and end after the run was read. Then it has not
// died.
func TestWorkerThatHasJustEndedIsNotDead(t *testing.T) {
	now := time.Now()
	db := newDB(t, now)
	p := &Project{Env: &environ.Env{Now: time.Now}, StateDir: t.TempDir()} // no worker is alive
	run := reconcile.Run{
		ID:         "20260101T000000.000-aaaaaa",
		Kind:       reconcile.AgentRun,
		Phase:      reconcile.Starting,
		IssueID:    "1",
		Identifier: "A-1",
		StartedAt:  now,
	}
	test.OK(t, db.Store.Commit(t.Context(), now, reconcile.Change{Insert: &run}))
	run = test.Must(db.Journal.TakeRun(t.Context(), run.ID, reconcile.Handle{
		Boot:  "boot",
		PID:   4711,
		Start: 1,
	}, now))
	run.Phase = reconcile.StreamingTurn
	test.Must(db.Journal.UpdateRun(t.Context(), now, run))
	_, dead := ConfirmDead(t.Context(), p, db.Runs, run)
	test.Equal(t, "before the end it has died", dead, true)

	ended := run
	ended.Outcome = reconcile.Failed
	ended.EndedAt = now
	test.OK(t, db.Journal.Finish(t.Context(), now, ended))
	read, dead := ConfirmDead(t.Context(), p, db.Runs, run)
	test.Equal(t, "after the end it has died", dead, false)
	test.Equal(t, "outcome", read.Outcome, reconcile.Failed)
}

// A state directory that was moved aside, as a hint advises, belongs to no project any more.
func TestStateDirsAside(t *testing.T) {
	w := &environ.Env{Home: t.TempDir()}
	for _, name := range []string{"web-1", "web-1.old", "web-2.aside"} {
		db := test.Must(state.Create(t.Context(), filepath.Join(StateHome(w), name), time.Now()))
		test.OK(t, db.Close())
	}
	test.Equal(t, "state directories", test.Must(StateDirs(w)), []string{filepath.Join(StateHome(w), "web-1")})
}
