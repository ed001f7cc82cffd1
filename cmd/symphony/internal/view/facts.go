package view

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// facts are what is known of a project, whatever the issue.
type facts struct {
	p   *project.Project
	db  *state.DB // nil before the first pass
	now time.Time

	cfg      *workflow.Config
	cfgErr   error
	recorded reconcile.State
	requests []reconcile.Request // the open ones
	instant  reconcile.Instant   // now, on the monotonic clock
	block    *project.BlockedRow // stops every issue
	low      time.Time           // until then the tracker's allowance counts as low
	schedule bool                // something runs passes
	nextPass *NextPass           // nil where the schedule's passes show no rhythm yet
}

// open opens the database. Where the command line named only a state directory, the workflow is the one that it belongs to.
func (f *facts) open(ctx context.Context) (err error) {
	if f.db, err = project.OpenForReading(ctx, f.p); err != nil || f.p.SourceErr == nil {
		return err
	}
	path, known, err := f.db.Meta(ctx, project.OwnerKey)
	if err == nil && known {
		f.p = project.New(f.p.Env, path, f.p.StateDir)
	}
	return err
}

// read reads the facts beside the recorded state, which the caller has read. Without a database they come from the workflow
// and the account.
func (f *facts) read(ctx context.Context) (err error) {
	f.cfg, f.cfgErr = readConfig(f.p)
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
	var errs [4]error
	f.requests, errs[0] = OpenRequests(ctx, f.p, f.db)
	f.low, errs[1] = project.LowUntil(ctx, f.p, f.db)
	f.schedule, errs[2] = project.ScheduleAlive(ctx, f.db, f.now)
	f.schedule = f.schedule || project.Looping(f.p.StateDir)
	passes, err := f.db.Views.ScheduleGaps(ctx)
	errs[3] = err
	if gap, known := project.UsualGap(passes); known && f.schedule {
		f.nextPass = &NextPass{At: passes[0].StartedAt.Add(gap), Trigger: passes[0].Trigger}
	}
	return errors.Join(errs[:]...)
}

func (f *facts) project() ProjectRow {
	row := ProjectRow{WorkflowPath: f.p.Path, StateDir: f.p.StateDir}
	if f.cfg != nil {
		row.TrackerKind, row.ProjectSlug = &f.cfg.Tracker.Kind, &f.cfg.Tracker.ProjectSlug
	}
	return row
}

// readConfig parses the workflow without the tracker's key; nil if it is not valid.
func readConfig(p *project.Project) (*workflow.Config, error) {
	switch {
	case p.SourceErr != nil:
		return nil, p.SourceErr
	case p.EnvErr != nil:
		return nil, p.EnvErr
	}
	env := p.Environment(nil)
	env.KeyOptional = true
	cfg, err := workflow.Parse(p.Source, env)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// Instant is the present moment on the monotonic clock, with the boot that it belongs to.
func Instant() (reconcile.Instant, error) {
	boot, err := proc.BootID()
	return reconcile.Instant{Boot: boot, Mono: proc.Monotonic()}, err
}
