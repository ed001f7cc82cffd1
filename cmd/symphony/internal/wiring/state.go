package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// OrphanAge is how old a run directory without a row must be before prune removes it.
const OrphanAge = time.Hour

// OpenForReading opens the database read-only. It refuses the state of another workflow and
// that of a newer program.
func OpenForReading(ctx context.Context, p *Project) (*state.DB, error) {
	db, err := state.OpenReadOnly(ctx, p.StateDir)
	if err != nil {
		return nil, NoState(p, err)
	}
	err = db.Newer()
	// without a workflow, the state directory alone names the project
	if err == nil && p.SourceErr == nil {
		_, err = OwnerPath(ctx, p, db)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// NoState explains a missing database: no pass has run yet, or the workflow is missing, too.
func NoState(p *Project, err error) error {
	switch {
	case !errors.Is(err, state.ErrNoState):
		return err
	case p.SourceErr != nil:
		return p.SourceErr
	}
	if cfg, wrong := p.ConfigWithoutKey(); wrong == nil {
		if root, found, _ := workspace.FindRoot(cfg.Workspace.Root); found &&
			len(root.Projects().Of(p.StateDir)) > 0 {
			return reconcile.NewError("state_missing", p.StateDir+" has no state.db, but its project has workspaces in "+root.Path,
				"mount or restore it; if it is lost, symphony tick makes a new one and continues in these workspaces").
				WithCause(err)
		}
	}
	e := reconcile.NewError("no_state", "no pass has run yet for "+p.Path+" with the state directory "+p.StateDir,
		"run one with symphony tick, or name the right project with -w and --state-dir").
		WithCause(err)
	hintMoved(p, e)
	return e
}

// FindIssue finds an issue by its identifier or web address in the database, otherwise in the
// tracker.
func FindIssue(ctx context.Context, p *Project, db *state.DB, ref string) (id, identifier string, err error) {
	id, identifier, ok, err := db.Views.FindIssue(ctx, ref)
	if err != nil || ok {
		return id, identifier, err
	}
	issue, err := FetchIssue(ctx, p, ref)
	if err != nil {
		return "", "", err
	}
	return issue.ID, issue.Identifier, nil
}

// KnowsIssue reports whether the project's state has records of an issue with that identifier.
func KnowsIssue(ctx context.Context, p *Project, identifier string) (known bool, err error) {
	if !p.HasState() {
		return false, nil
	}
	db, err := OpenForReading(ctx, p)
	if err != nil {
		return false, err
	}
	defer db.Close()
	_, _, known, err = db.Views.FindIssue(ctx, identifier)
	return known, err
}

// IssueName returns the identifier of the issue with a web address, and anything else
// unchanged.
func IssueName(ctx context.Context, p *Project, db *state.DB, ref string) string {
	if _, isAddress := text.IssueAddress(ref); isAddress {
		if _, identifier, err := FindIssue(ctx, p, db, ref); err == nil {
			return identifier
		}
	}
	return ref
}

// Rowless lists the run directories without a row in the database, for instance those of
// takeovers.
func Rowless(ctx context.Context, p *Project, db *state.DB) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(filepath.Join(p.StateDir, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	// read after the directories, because a run's row is written before its directory
	known, err := db.Runs.IDs(ctx)
	if err != nil {
		return nil, err
	}
	return text.Filter(entries, func(e fs.DirEntry) bool { return !known[e.Name()] }), nil
}

// OwnerPath returns the workflow that the state directory belongs to. It refuses the state of
// another workflow that exists, because a pass would release everything that the other one has
// claimed. If the workflow was moved, its state still belongs to it.
func OwnerPath(ctx context.Context, p *Project, db *state.DB) (path string, err error) {
	path, known, err := db.Meta(ctx, OwnerKey)
	switch {
	case err != nil || !known || path == p.Path:
		return path, err
	case p.SourceErr != nil:
		return path, p.SourceErr // the missing workflow is not the one that owns this directory
	case !Exists(path) || SameFile(path, p.Path):
		return path, nil
	}
	return path, reconcile.NewError(
		"state_conflict",
		fmt.Sprintf("the state directory %s belongs to %s, not to %s", p.StateDir, path, p.Path),
		"each workflow needs its own state directory: leave out --state-dir and SYMPHONY_STATE_DIR, or name another directory",
	)
}

// OriginalPath returns the path that the state directory had at the last pass. It refuses a
// copy whose original exists: the workers hold their locks in the original, so that a pass on
// the copy would take them for dead.
func OriginalPath(ctx context.Context, p *Project, db *state.DB) (path string, err error) {
	path, known, err := db.Meta(ctx, placeKey)
	theirs := filepath.Join(path, "state.db")
	if err != nil || !known || !Exists(theirs) || SameFile(theirs, filepath.Join(p.StateDir, "state.db")) {
		return path, err
	}
	return path, reconcile.NewError("state_conflict",
		fmt.Sprintf("the state directory %s is a copy of %s, which still exists", p.StateDir, path),
		"use "+path+", or move it away while no worker is running")
}

// TakeOwnership records that the state directory belongs to this workflow.
func TakeOwnership(ctx context.Context, p *Project, db *state.DB) error {
	place, err := OriginalPath(ctx, p, db)
	if err == nil && place != p.StateDir {
		err = db.SetMeta(ctx, placeKey, p.StateDir)
	}
	if err != nil {
		return err
	}
	path, err := OwnerPath(ctx, p, db)
	if err != nil || path == p.Path || p.SourceErr != nil {
		return err
	}
	return db.SetMeta(ctx, OwnerKey, p.Path)
}

// Keys of the database: the path of the workflow that owns it, and the path of its directory.
const (
	OwnerKey = "workflow_path"
	placeKey = "state_dir"
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
	return text.Map(passes, func(p state.Pass) LastPassRow {
		return LastPassRow{
			ID:         p.ID,
			Trigger:    p.Trigger,
			StartedAt:  p.StartedAt.UTC(),
			DurationMS: p.Duration.Milliseconds(),
			Errors:     append([]reconcile.Error{}, p.Errors...),
		}
	}), err
}

// LockProject takes the lock of a project, which keeps passes out until release is called.
func LockProject(ctx context.Context, w *environ.Env, stateDir string) (release func() error, err error) {
	me := state.Holder{Trigger: TriggerCommand, Since: w.Now()}
	release, holder, err := state.Acquire(ctx, stateDir, me, CommandPatience, false)
	if err == nil && holder != nil {
		NameHolder(stateDir, holder)
		err = LockedError(holder)
	}
	return release, err
}

// LockedError is the error of a command that could not get the project lock in time.
func LockedError(h *state.Holder) *reconcile.Error {
	if h.Name != "" {
		return reconcile.NewError("locked", "the lock of the project is held by "+h.Name,
			"a worker ends what its agent holds within 5 s: try again, or end that process")
	}
	return reconcile.NewError(
		"locked",
		"another pass holds the lock: "+h.String(),
		"try again when it has ended",
	)
}

// RegisterProject records a state directory that is not in the default place, so that symphony
// projects finds it.
func RegisterProject(p *Project) error {
	base, _ := p.Lookup("XDG_STATE_HOME")
	home := filepath.Dir(state.DefaultDir(base, p.Env.Home, p.Path))
	if filepath.Dir(p.StateDir) == home {
		return nil
	}
	return state.RegisterDir(home, p.StateDir)
}

// StateHome is the default place for the account's state directories.
func StateHome(w *environ.Env) string {
	return filepath.Dir(state.DefaultDir(w.Getenv("XDG_STATE_HOME"), w.Home, "/WORKFLOW.md"))
}

// AgentsDir is the state directory of agents without an issue, beside those of the projects.
func AgentsDir(w *environ.Env) string { return state.AgentsDir(w.Getenv("XDG_STATE_HOME"), w.Home) }

// StateDirs lists the state directories of the account's projects.
func StateDirs(w *environ.Env) ([]string, error) {
	base := StateHome(w)
	dirs, err := state.RegisteredDirs(base)
	if err != nil {
		return nil, err
	}
	if named := w.Getenv("SYMPHONY_STATE_DIR"); named != "" {
		dirs = append(dirs, w.Absolute(named))
	}
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the account's state directories: %w", err)
	}
	for _, e := range entries {
		if dir := filepath.Join(base, e.Name()); dir != AgentsDir(w) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.DeleteFunc(slices.Compact(dirs), func(dir string) bool {
		// A directory without read permission is listed with its error.
		_, err := os.Stat(filepath.Join(dir, "state.db"))
		return err != nil && !errors.Is(err, fs.ErrPermission) && !Exists(filepath.Join(dir, "runs"))
	}), nil
}

// AllProjects opens all projects of the account.
func AllProjects(w *environ.Env) ([]*Project, error) {
	dirs, err := StateDirs(w)
	// A state directory has no workflow in it: readers find the one that owns the directory.
	return text.Map(
		dirs,
		func(dir string) *Project { return NewProject(w, filepath.Join(dir, "WORKFLOW.md"), dir) },
	), err
}

// WaitStep is how often a command checks whether something has happened.
const WaitStep = 200 * time.Millisecond

// Rhythm is what the last passes that a schedule started (cron, timer, loop) show.
type Rhythm struct {
	// of the schedule that is alive; if none is, of any schedule; zero before the first one
	Last  state.Pass
	Gap   time.Duration // between passes, usually; 0 if that is not known yet
	Grace time.Duration // how long after its last pass the schedule counts as dead
	Alive bool          // see ReadRhythm
}

// removedKey names, in the database, the time at which the schedule was removed; empty while
// one is installed.
const removedKey = "schedule_removed_at"

// RecordSchedule records that a schedule of the project was installed, or that it was removed.
func RecordSchedule(ctx context.Context, p *Project, installed bool) error {
	if !p.HasState() {
		return nil
	}
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return err
	}
	defer db.Close()
	removed := ""
	if !installed {
		removed = p.Env.Now().UTC().Format(time.RFC3339Nano)
	}
	return db.SetMeta(ctx, removedKey, removed)
}

// ReadRhythm reads the rhythm of the schedule. The schedule is alive if its last pass began
// within the grace time, which is three times the usual gap between its passes, and no
// schedule was removed after that pass. If no loop is running, the passes of loops do not
// count: a loop that has ended starts no more passes, but cron or a timer may.
func ReadRhythm(ctx context.Context, db *state.DB, now time.Time) (r Rhythm, err error) {
	passes, err := db.Views.ScheduledPasses(ctx)
	if len(passes) > 0 {
		r.Last = passes[0]
	}
	isLoop := func(p state.Pass) bool { return p.Trigger == TriggerLoop }
	if err == nil && slices.ContainsFunc(passes, isLoop) && !Looping(db.Dir()) {
		passes, err = db.Views.ScheduledPassesWithoutLoop(ctx)
	}
	if r.Grace = shortestSchedule; err != nil || len(passes) == 0 {
		return r, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return r, fmt.Errorf("boot id: %w", err)
	}
	var gaps []time.Duration
	for i, p := range passes[1:] { // the newest is first
		gaps = append(gaps, timeBetween(p, passes[i]))
	}
	if slices.Sort(gaps); len(gaps) > 0 {
		r.Gap = gaps[len(gaps)/2]
		r.Grace = min(max(3*r.Gap, shortestSchedule), longestSchedule)
	}
	age := timeBetween(passes[0], state.Pass{StartedAt: now, BootID: boot, Mono: proc.Monotonic()})
	removed, _, err := db.Meta(ctx, removedKey)
	at, _ := time.Parse(time.RFC3339Nano, removed) // the zero time if none was removed
	if r.Alive = age >= 0 && age < r.Grace && passes[0].StartedAt.After(at); r.Alive {
		r.Last = passes[0]
	}
	return r, err
}

// ScheduleAlive reports whether a schedule runs passes. Only then do the passes of workers and
// commands start runs, so that stopping the timer stops the system.
func ScheduleAlive(ctx context.Context, db *state.DB, now time.Time) (bool, error) {
	r, err := ReadRhythm(ctx, db, now)
	return r.Alive, err
}

// timeBetween uses the monotonic clock within one boot, so that neither a stepped clock nor a
// suspend changes the result.
func timeBetween(a, b state.Pass) time.Duration {
	if a.BootID != "" && a.BootID == b.BootID {
		return b.Mono - a.Mono
	}
	return b.StartedAt.Sub(a.StartedAt)
}

// Looping reports whether a tick --loop is running on the state directory.
func Looping(stateDir string) bool {
	lock := LoopLock(stateDir)
	if !Exists(lock.Path()) {
		return false
	}
	free, err := lock.TryRLock()
	if free {
		_ = lock.Unlock()
	}
	return err == nil && !free
}

// RequestFile is written by a worker whose agent asks for something, so that the loop runs a
// pass.
func RequestFile(stateDir string) string { return filepath.Join(stateDir, "asked") }

// LoopLock is the lock that tick --loop holds for its whole life.
func LoopLock(stateDir string) *flock.Flock {
	return flock.New(filepath.Join(stateDir, "loop.lock"), flock.SetPermissions(0o600))
}

// TryLoopLock takes the loop's lock. It outwaits processes that only check whether a loop is
// running.
func TryLoopLock(ctx context.Context, lock *flock.Flock) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	held, err := lock.TryLockContext(bounded, 10*time.Millisecond)
	if bounded.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return held, err
}

// lookPatience is longer than such a check holds the lock.
const lookPatience = 500 * time.Millisecond

// AliveFile is the file that the run's worker keeps open for writing while it lives.
func AliveFile(stateDir, id string) string {
	return filepath.Join(host.RunDir(stateDir, id), host.AliveFile)
}

// Alive reports whether the run's worker is alive.
func Alive(stateDir, id string) bool { return workers.Alive(stateDir, id) }

// WorkerDead reports whether no worker will record an outcome for the run: it has died, or
// never started. The worker may have ended regularly after the run was read: see ConfirmDead.
func WorkerDead(p *Project, run reconcile.Run) bool {
	if run.Outcome != "" || Alive(p.StateDir, run.ID) {
		return false
	}
	return run.Phase != reconcile.Starting || p.Env.Now().Sub(run.StartedAt) > startBound
}

// ConfirmDead reads a run again whose worker seems to have died, and reports whether it has
// died without an outcome.
func ConfirmDead(ctx context.Context, p *Project, runs state.Runs, run reconcile.Run) (reconcile.Run, bool) {
	if !WorkerDead(p, run) {
		return run, false
	}
	if again, err := runs.Find(ctx, run.ID); err == nil { // else a pass has removed it
		run = again
	}
	return run, run.Outcome == ""
}

// startBound is how long a run may have no worker before it counts as never started.
const startBound = 10 * time.Second

// Sleep waits for d. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// The triggers of a pass.
const (
	TriggerCron    = "cron"
	TriggerTimer   = "timer"
	TriggerLoop    = "loop"
	TriggerManual  = "manual"
	TriggerCommand = "command"
	TriggerWorker  = "worker"
)

// The bounds of the grace of a Rhythm.
const (
	shortestSchedule = 3 * time.Minute
	longestSchedule  = 24 * time.Hour
)

// CommandPatience is how long an operator's command waits for the project lock.
const CommandPatience = 10 * time.Second

// LivingRuns returns the ids of the runs whose workers are alive.
func LivingRuns(p *Project) []string {
	// without the directory there are no runs
	entries, _ := os.ReadDir(filepath.Join(p.StateDir, "runs"))
	return text.Filter(
		text.Map(entries, fs.DirEntry.Name),
		func(id string) bool { return Alive(p.StateDir, id) },
	)
}
