package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// The triggers of a pass.
const (
	TriggerCron    = "cron"
	TriggerTimer   = "timer"
	TriggerLoop    = "loop"
	TriggerManual  = "manual"
	TriggerCommand = "command"
	TriggerWorker  = "worker"
)

// PastRuns is the default number of ended runs in a list.
const PastRuns = 20

// LastPassRow is the last pass of a project.
type LastPassRow struct {
	ID         int64             `json:"id"`
	Trigger    string            `json:"trigger"`
	StartedAt  time.Time         `json:"started_at"`
	DurationMS int64             `json:"duration_ms"`
	Errors     []reconcile.Error `json:"errors"`

	obstacle string
}

// Obstacle is the error for which the pass started nothing, whatever the issue; nil for none.
func (r LastPassRow) Obstacle() *reconcile.Error {
	i := slices.IndexFunc(r.Errors, func(e reconcile.Error) bool { return e.Code == r.obstacle })
	if i < 0 {
		return nil
	}
	return &r.Errors[i]
}

// LastPass returns the last pass of a project, nil if there was none.
func LastPass(ctx context.Context, db *state.DB) (*LastPassRow, error) {
	last, err := LastPasses(ctx, db, 1)
	if err != nil || len(last) == 0 {
		return nil, err
	}
	return &last[0], nil
}

// LastPasses returns the newest passes of a project, whatever started them, at most limit of
// them.
func LastPasses(ctx context.Context, db *state.DB, limit int) ([]LastPassRow, error) {
	passes, err := db.Views.LastPasses(ctx, limit)
	if err != nil {
		return nil, err
	}
	return text.Map(passes, func(p state.Pass) LastPassRow {
		return LastPassRow{
			ID:         p.ID,
			Trigger:    p.Trigger,
			StartedAt:  p.StartedAt.UTC(),
			DurationMS: p.Duration.Milliseconds(),
			Errors:     append([]reconcile.Error{}, p.Errors...),
			obstacle:   p.Obstacle,
		}
	}), nil
}

// Rhythm describes the schedule by its last passes, started by cron, a timer or a loop.
type Rhythm struct {
	// Last is the last pass of the schedule that is alive, or of any schedule if none is. It
	// is zero before the first pass.
	Last  state.Pass
	Gap   time.Duration // the usual time between passes; 0 if that is not known yet
	Grace time.Duration // how long after its last pass the schedule counts as dead
	Alive bool          // see ReadRhythm
	// First is the schedule that was just installed, if its first pass has still to come;
	// nil for another schedule.
	First *InstalledSchedule
}

// The bounds of the grace of a Rhythm.
const (
	shortestSchedule = 3 * time.Minute
	longestSchedule  = 24 * time.Hour
)

// ReadRhythm reads the rhythm of the schedule. The schedule is alive if its last pass began
// within the grace time, which is three times the usual gap between its passes, and no
// schedule was removed after that pass. If no loop is running, the passes of loops do not
// count: a loop that ended starts no more passes, but cron or a timer may. A schedule that was
// just installed is alive, too, until its first pass is late.
func ReadRhythm(ctx context.Context, db *state.DB, now time.Time) (Rhythm, error) {
	r, err := rhythmOfPasses(ctx, db, now)
	if err != nil || r.Alive {
		return r, err
	}
	s, err := readInstalled(ctx, db)
	if err != nil || !s.awaited(r.Last, now) {
		return r, err
	}
	r.Alive = true
	r.First = &s
	return r, nil
}

// rhythmOfPasses reads the rhythm by the passes alone.
func rhythmOfPasses(ctx context.Context, db *state.DB, now time.Time) (Rhythm, error) {
	r := Rhythm{Grace: shortestSchedule}
	passes, err := db.Views.ScheduledPasses(ctx)
	if err != nil || len(passes) == 0 {
		return r, err
	}
	r.Last = passes[0]
	isLoop := func(p state.Pass) bool { return p.Trigger == TriggerLoop }
	if slices.ContainsFunc(passes, isLoop) && !Looping(db.Dir()) {
		passes, err = db.Views.ScheduledPassesWithoutLoop(ctx)
		if err != nil || len(passes) == 0 {
			return r, err
		}
	}
	boot, err := proc.BootID()
	if err != nil {
		return r, fmt.Errorf("boot id: %w", err)
	}
	r.Gap = usualGap(passes)
	if r.Gap != 0 {
		r.Grace = min(max(3*r.Gap, shortestSchedule), longestSchedule)
	}
	removed, _, err := db.Meta(ctx, removedKey)
	if err != nil {
		return r, err
	}
	removedAt, _ := time.Parse(time.RFC3339Nano, removed) // the zero time if none was removed
	last := passes[0]
	age := timeBetween(last, state.Pass{StartedAt: now, BootID: boot, Mono: proc.Monotonic()})
	r.Alive = age >= 0 && age < r.Grace && last.StartedAt.After(removedAt)
	if r.Alive {
		r.Last = last
	}
	return r, nil
}

// usualGap is the median of the times between passes, the newest pass first; 0 for a single
// pass.
func usualGap(passes []state.Pass) time.Duration {
	var gaps []time.Duration
	for i, p := range passes[1:] {
		gaps = append(gaps, timeBetween(p, passes[i]))
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// ScheduleAlive reports whether a schedule runs passes. Only then do the passes of workers and
// commands start runs, so that stopping the timer stops the system.
func ScheduleAlive(ctx context.Context, db *state.DB, now time.Time) (bool, error) {
	r, err := ReadRhythm(ctx, db, now)
	return r.Alive, err
}

// timeBetween uses the monotonic clock within a boot, so that neither a stepped clock nor a
// suspend changes the result.
func timeBetween(a, b state.Pass) time.Duration {
	if a.BootID != "" && a.BootID == b.BootID {
		return b.Mono - a.Mono
	}
	return b.StartedAt.Sub(a.StartedAt)
}

// Keys of the database: the time at which the schedule was removed, empty while a schedule is
// installed; and the schedule that was installed last, empty after its removal.
const (
	removedKey   = "schedule_removed_at"
	installedKey = "schedule_installed"
)

// InstalledSchedule is a schedule that symphony schedule install has switched on.
type InstalledSchedule struct {
	Trigger string        `json:"trigger"` // of its passes: cron or timer
	At      time.Time     `json:"at"`
	Every   time.Duration `json:"every"` // a pass
}

// Due is when the first pass comes at the latest.
func (s InstalledSchedule) Due() time.Time { return s.At.Add(s.Every) }

// lateFirst is how late the first pass of a schedule may be: the schedule has to notice its
// installation, and the pass is stored at its end.
const lateFirst = time.Minute

// awaited reports whether the first pass of the schedule has still to come, and is not late.
// last is the last pass of a schedule.
func (s InstalledSchedule) awaited(last state.Pass, now time.Time) bool {
	age := now.Sub(s.At)
	return s.Every > 0 && age >= 0 && age < s.Every+lateFirst && !last.StartedAt.After(s.At)
}

func readInstalled(ctx context.Context, db *state.DB) (s InstalledSchedule, err error) {
	stored, _, err := db.Meta(ctx, installedKey)
	if err != nil || stored == "" {
		return s, err
	}
	if err := json.Unmarshal([]byte(stored), &s); err != nil {
		return s, fmt.Errorf("the schedule that was installed: %w", err)
	}
	return s, nil
}

// RecordInstalled records that a schedule of the project was installed. Views say when its
// first pass is due, so that a project without a pass gets its state here.
func RecordInstalled(ctx context.Context, p *Project, s InstalledSchedule) error {
	if err := makeState(ctx, p); err != nil {
		return err
	}
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return err
	}
	defer db.Close()
	s.At = p.Env.Now().UTC()
	stored, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("the schedule that was installed: %w", err)
	}
	if err := db.SetMeta(ctx, installedKey, string(stored)); err != nil {
		return err
	}
	return db.SetMeta(ctx, removedKey, "")
}

// makeState makes the state of a project as its first pass does, if there is none.
func makeState(ctx context.Context, p *Project) error {
	if p.HasState() {
		return nil
	}
	release, err := LockProject(ctx, p.Env, p.StateDir)
	if err != nil && p.HasState() { // the first pass has made it meanwhile, and is long
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(createOwned(ctx, p), release())
}

// createOwned makes the state of a project, which belongs to its workflow from then on.
func createOwned(ctx context.Context, p *Project) error {
	db, err := state.Create(ctx, p.StateDir, p.Env.Now())
	if err != nil {
		return err
	}
	defer db.Close()
	if err := TakeOwnership(ctx, p, db); err != nil {
		return err
	}
	return RegisterProject(ctx, p, db)
}

// RecordRemoved records that the schedule of the project was removed.
func RecordRemoved(ctx context.Context, p *Project) error {
	if !p.HasState() {
		return nil
	}
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.SetMeta(ctx, removedKey, p.Env.Now().UTC().Format(time.RFC3339Nano)); err != nil {
		return err
	}
	return db.SetMeta(ctx, installedKey, "")
}

// LoopLock is the file of the lock that tick --loop holds for its whole life.
func LoopLock(stateDir string) string { return filepath.Join(stateDir, "loop.lock") }

// TakeLoopLock takes the loop's lock. It outwaits processes that only check whether a loop is
// running. If a loop is, the error is lock.ErrHeld.
func TakeLoopLock(ctx context.Context, stateDir string) (*os.File, error) {
	return lock.Take(ctx, LoopLock(stateDir), lock.Exclusive, lookPatience)
}

// lookPatience is longer than such a check holds the lock.
const lookPatience = 500 * time.Millisecond

// Looping reports whether a tick --loop is running on the state directory.
func Looping(stateDir string) bool {
	file, err := os.Open(LoopLock(stateDir))
	if err != nil {
		return false
	}
	err = lock.Try(file, lock.Shared, 0)
	_ = lock.Release(file)
	return errors.Is(err, lock.ErrHeld)
}

// RequestFile changes when a worker asks the loop for a pass: its agent asks for something, or its
// run has ended.
func RequestFile(stateDir string) string { return filepath.Join(stateDir, "asked") }

// AskForPass asks the loop of a state directory for a pass.
func AskForPass(stateDir string) error {
	return os.WriteFile(RequestFile(stateDir), []byte(strconv.Itoa(os.Getpid())), 0o600)
}
