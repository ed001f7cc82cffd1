package wiring

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/workers"
	"github.com/symphony-cron/symphony/state"
)

// AliveFile is the file that the run's worker keeps open for writing while it lives.
func AliveFile(stateDir, id string) string {
	return filepath.Join(host.RunDir(stateDir, id), host.AliveFile)
}

// Alive reports whether the run's worker is alive.
func Alive(stateDir, id string) bool { return workers.Alive(stateDir, id) }

// WorkerDead reports whether no worker will record an outcome for the run: it died, or never
// started. The worker may have ended regularly after the run was read: see ConfirmDead.
func WorkerDead(p *Project, run reconcile.Run) bool {
	if run.Outcome != "" || Alive(p.StateDir, run.ID) {
		return false
	}
	return run.Phase != reconcile.Starting || p.Env.Now().Sub(run.StartedAt) > startBound
}

// ConfirmDead reads a run again whose worker seems to be dead, and reports whether it died
// without an outcome.
func ConfirmDead(ctx context.Context, p *Project, runs state.Runs, run reconcile.Run) (reconcile.Run, bool) {
	if !WorkerDead(p, run) {
		return run, false
	}
	again, err := runs.Find(ctx, run.ID)
	if err != nil { // a pass removed it
		return run, true
	}
	return again, again.Outcome == ""
}

// startBound is how long a run may have no worker before it counts as never started.
const startBound = 10 * time.Second

// LivingRuns returns the ids of the runs whose workers are alive.
func LivingRuns(p *Project) []string {
	// without the directory there are no runs
	entries, _ := os.ReadDir(filepath.Join(p.StateDir, "runs"))
	ids := text.Map(entries, fs.DirEntry.Name)
	return text.Filter(ids, func(id string) bool { return Alive(p.StateDir, id) })
}

// OrphanAge is how old a run directory without a row must be before prune removes it.
const OrphanAge = time.Hour

// Rowless lists the run directories without a row in the database, such as the directories of
// takeovers.
func Rowless(ctx context.Context, p *Project, db *state.DB) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(filepath.Join(p.StateDir, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
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

const runStamp = "20060102T150405.000"

// NewRunID returns an id that sorts by time in milliseconds, such as
// 20260224T170501.250-k3x7qa.
func NewRunID(now time.Time) string {
	return now.UTC().Format(runStamp) + "-" + strings.ToLower(rand.Text()[:6])
}

// RunIDs returns a function whose ids sort in the order of its calls, even after the clock was
// set back: the id identifies an issue's last run.
func RunIDs(db *state.DB, now func() time.Time) func() string {
	last := ""
	return func() string {
		if last == "" {
			last = newestRunID(db)
		}
		last = runIDAfter(last, now())
		return last
	}
}

// newestRunID returns the id of the newest run, empty if there is none. If the database can't
// be read, the row of the next run can't be written either, which is reported.
func newestRunID(db *state.DB) string {
	runs, err := db.Runs.Recent(context.Background(), 1)
	if err != nil || len(runs) == 0 {
		return ""
	}
	return runs[0].ID
}

// runIDAfter returns an id that sorts after last.
func runIDAfter(last string, now time.Time) string {
	id := NewRunID(now)
	if len(last) <= len(runStamp) || id[:len(runStamp)] > last[:len(runStamp)] {
		return id
	}
	at, err := time.Parse(runStamp, last[:len(runStamp)])
	if err != nil { // such as an id of a test
		return id
	}
	return NewRunID(at.Add(time.Millisecond))
}
