package view

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// facts are what is known of a project, whatever the issue.
type facts struct {
	p    *project.Project
	name string    // of the project
	db   *state.DB // nil before the first pass
	now  time.Time
	// only are the ids of the issues that a view is confined to, empty for all.
	only []string

	cfg      *workflow.Config
	cfgErr   error
	recorded reconcile.State
	requests []reconcile.Request // the open ones
	comments map[string]state.Comment
	instant  reconcile.Instant   // now, on the monotonic clock
	block    *project.BlockedRow // stops every issue
	low      time.Time           // until then the tracker's allowance counts as low
	budget   *BudgetRow
	today    []reconcile.ModelUse // read with the budget
	rhythm   project.Rhythm       // of the schedule
	schedule bool                 // something runs passes
	nextPass *NextPass            // nil where the schedule's passes show no rhythm yet
}

// open opens the database. Where the command line named only a state directory, the workflow is the one that it belongs to.
func (f *facts) open(ctx context.Context) (err error) {
	f.db, err = project.OpenForReading(ctx, f.p)
	if err == nil && f.p.SourceErr != nil {
		f.p = ownerOf(ctx, f.p, f.db)
	}
	f.name = cmp.Or(f.name, newProjectRow(f.p.Path, f.p.StateDir).Name)
	return err
}

// ownerOf returns the project with the workflow that owns its state directory; the project itself if that is not known.
func ownerOf(ctx context.Context, p *project.Project, db *state.DB) *project.Project {
	if path, known, err := db.Meta(ctx, project.OwnerKey); err == nil && known {
		return project.New(p.Env, path, p.StateDir)
	}
	return p
}

// read reads the facts beside the recorded state, which the caller has read. Without a database they come from the workflow
// and the account.
func (f *facts) read(ctx context.Context) (err error) {
	f.cfg, f.cfgErr = f.p.ConfigWithoutKey()
	// The tracker's and the machine's block matter most, then the account's, then the agent's.
	f.block = project.BlockedBy(f.recorded)
	if f.cfg != nil && f.recorded.TrackerBlock == nil && f.recorded.HostBlock == nil {
		if b := project.AccountBlock(project.OpenAccount(f.p, f.cfg.Codex.Home), f.now); b != nil {
			f.block = b
		}
	}
	if f.instant, err = Instant(); err != nil || f.db == nil {
		return err
	}
	var errs [5]error
	f.budget, errs[3] = f.readBudget(ctx)
	f.requests, errs[0] = OpenRequests(ctx, f.p, f.db)
	f.comments, errs[4] = f.db.Store.Comments(ctx, nil)
	f.low, errs[1] = project.LowUntil(ctx, f.p, f.db)
	f.rhythm, errs[2] = project.ReadRhythm(ctx, f.db, f.now)
	f.schedule = f.rhythm.Alive || project.Looping(f.p.StateDir)
	if f.rhythm.Gap > 0 && f.schedule {
		f.nextPass = &NextPass{At: f.rhythm.Last.StartedAt.Add(f.rhythm.Gap), Trigger: f.rhythm.Last.Trigger}
	}
	return errors.Join(errs[:]...)
}

func (f *facts) wants(issueID string) bool {
	return len(f.only) == 0 || slices.Contains(f.only, issueID)
}

func (f *facts) project() ProjectRow {
	row := newProjectRow(f.p.Path, f.p.StateDir)
	row.Name = f.name
	if f.cfg != nil {
		row.TrackerKind, row.ProjectSlug = &f.cfg.Tracker.Kind, &f.cfg.Tracker.Place
	}
	return row
}

// Instant is the present moment on the monotonic clock, with the boot that it belongs to.
func Instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}
