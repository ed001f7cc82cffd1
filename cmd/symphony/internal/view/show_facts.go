package view

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// issueFacts are what the view is made of.
type issueFacts struct {
	id, identifier string
	// issue is what is known of it, nil for no more than its name; source says from where.
	issue    *reconcile.Issue
	source   string
	asked    error // by which the question to the tracker ended
	now      time.Time
	rec      reconcile.State
	claim    *reconcile.Claim
	skip     *state.StoredSkip
	rivals   int // how many other claims are due when this issue is
	runs     []reconcile.Run
	kept     int
	requests []reconcile.Request
	totals   state.Totals
	schedule bool
	passes   []state.Pass // of the schedule, the newest first
	cfg      *workflow.Config
	cfgErr   error
	// workerGone: nobody is left of the run that is not settled.
	workerGone bool
	block      *project.BlockedRow // what stops every issue of the project, nil for nothing
	low        time.Time           // until then the tracker's allowance counts as low
}

// shownRuns is how many runs stand on the screen.
const shownRuns = 10

// trackerPatience bounds the question to the tracker: a person waits.
const trackerPatience = 10 * time.Second

// lookAtIssue gathers what there is of an issue; where no pass has run yet that is what the tracker says.
func LookAtIssue(ctx context.Context, p *project.Project, ref string, offline bool) (IssueView, error) {
	f := issueFacts{now: p.Env.Now().UTC(), identifier: ref}
	db, err := project.OpenForReading(ctx, p)
	switch {
	case errors.Is(err, state.ErrNoState) && !offline && p.SourceErr == nil:
		db = nil
	case err != nil:
		return IssueView{}, err
	default:
		defer db.Close()
	}
	if db != nil && p.SourceErr != nil {
		if p, err = ownedProject(ctx, p, db); err != nil {
			return IssueView{}, err
		}
	}
	f.cfg, f.cfgErr = readingConfig(p)
	if db != nil {
		if err := f.read(ctx, p, db, ref); err != nil {
			return IssueView{}, err
		}
	}
	if f.block = project.BlockedBy(f.rec); f.block == nil && f.cfg != nil {
		f.block = project.AccountBlock(project.OpenAccount(p, f.cfg.Codex.Home), f.now)
	}
	if f.claim == nil {
		if err := f.ask(ctx, p, db, ref, offline); err != nil {
			return IssueView{}, err
		}
	}
	return viewIssue(ctx, p, &f)
}

// owned is the project whose state that is, where the state directory alone was named: it has its workflow elsewhere.
func ownedProject(ctx context.Context, p *project.Project, db *state.DB) (*project.Project, error) {
	path, known, err := db.Meta(ctx, project.OwnerKey)
	if err != nil || !known {
		return p, err
	}
	return project.New(p.Env, path, p.StateDir), nil
}

// readingConfig is the configuration without a key, which only asking the tracker needs.
func readingConfig(p *project.Project) (*workflow.Config, error) {
	switch {
	case p.SourceErr != nil:
		return nil, p.SourceErr
	case p.EnvErr != nil:
		return nil, p.EnvErr
	}
	env := p.Environment(nil)
	env.KeyOptional = true
	return workflow.Parse(p.Source, env)
}

// read takes from the database what it has of the issue.
func (f *issueFacts) read(ctx context.Context, p *project.Project, db *state.DB, ref string) error {
	id, identifier, known, err := db.FindIssue(ctx, ref)
	if err != nil {
		return err
	}
	if f.rec, err = db.StateOf(ctx, id); err != nil {
		return err
	}
	if f.rivals, err = db.CountDue(ctx, id, f.now); err != nil {
		return err
	}
	if f.passes, err = db.ScheduleGaps(ctx); err != nil {
		return err
	}
	if f.schedule, err = project.ScheduleAlive(ctx, db, f.now); err != nil {
		return err
	}
	if f.low, err = project.LowUntil(ctx, p, db); err != nil {
		return err
	}
	f.schedule = f.schedule || project.Looping(p.StateDir)
	if !known {
		return nil
	}
	f.id, f.identifier = id, identifier
	if f.runs, err = db.RunsOfIssue(ctx, id, shownRuns); err != nil {
		return err
	}
	if f.kept, err = db.CountRuns(ctx, id); err != nil {
		return err
	}
	if f.totals, err = db.IssueTotals(ctx, id); err != nil {
		return err
	}
	if err := f.find(ctx, db); err != nil {
		return err
	}
	open, err := OpenRequests(ctx, p, db)
	for _, r := range open {
		if r.IssueID == id {
			f.requests = append(f.requests, r)
		}
	}
	return err
}

// find takes the claim and the skip of the issue, and its record from the best place there is.
func (f *issueFacts) find(ctx context.Context, db *state.DB) error {
	skip, skipped, err := db.SkipOf(ctx, f.id)
	if err != nil {
		return err
	}
	if skipped {
		f.skip = &skip
	}
	for i := range f.rec.Claims {
		if c := &f.rec.Claims[i]; c.IssueID == f.id {
			f.claim, f.issue, f.source = c, &c.Issue, "claim"
			f.rivals, err = db.CountDue(ctx, f.id, latest(c.DueAt, f.now))
			return err
		}
	}
	if len(f.runs) > 0 {
		f.issue, f.source = &f.runs[0].Issue, "run"
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ask asks the tracker about an issue that is not claimed. Of one that is known here its silence hides only how it
// stands now.
func (f *issueFacts) ask(ctx context.Context, p *project.Project, db *state.DB, ref string, offline bool) error {
	if offline {
		if f.id == "" {
			return UnknownIssue(ctx, db, ref, "without --offline the tracker is asked")
		}
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, trackerPatience)
	defer cancel()
	name := ref
	if f.id != "" {
		name = f.id
	}
	issue, err := project.FetchIssue(bounded, p, name)
	switch {
	case err == nil:
		f.id, f.identifier, f.issue, f.source = issue.ID, issue.Identifier, issue, "tracker"
	case f.id != "":
		f.asked = err
	case db != nil && exit.From(err).Code == "issue_not_found":
		return UnknownIssue(ctx, db, ref, "the tracker has no such issue, or hides it from this key")
	default:
		return err
	}
	return nil
}
