package wiring

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Others are the other projects of the account, as a pass sees them: some may have the same
// project of the tracker. They implement reconcile.IssueClaims: the rows of claims in their databases
// are their claims.
type Others struct {
	reconcile.NoClaims // a look at other databases is made only for a start; deleted rows are given back
	p                  *Project
	project            string // Policy.Project
	warn               func(string)

	unlock    func()            // nil while nothing is locked
	elsewhere map[string]string // what Take found, while it is locked
}

// NewOthers returns the projects beside p, which has a project of the tracker (Policy.Project). warn
// receives the reason if a project can't be read.
func NewOthers(p *Project, project string, warn func(string)) *Others {
	return &Others{p: p, project: project, warn: warn}
}

// Take implements reconcile.IssueClaims. It returns all issues of the tracker that other projects have,
// and keeps them from starting runs for others until Release.
func (o *Others) Take(
	ctx context.Context,
	_ []reconcile.Issue,
	dryRun bool,
) (not reconcile.NotTaken, err error) {
	if o.unlock != nil {
		return reconcile.NotTaken{Elsewhere: o.elsewhere}, nil
	}
	unlock := func() {}
	if !dryRun {
		unlock, err = state.LockTracker(ctx, o.p.Env.Getenv("XDG_STATE_HOME"), o.p.Env.Home, trackerOf(o.project))
		if err != nil {
			return not, err
		}
	}
	o.unlock = unlock
	o.elsewhere, err = o.Claimed(ctx)
	return reconcile.NotTaken{Elsewhere: o.elsewhere}, err
}

// Release implements reconcile.IssueClaims.
func (o *Others) Release() {
	if o.unlock != nil {
		o.unlock()
	}
	o.unlock = nil
}

// Claimed returns the issues of the tracker that other projects have claimed, with a sentence that names
// the workflow and the purpose. Without a live worker an issue counts only if that project has a
// workflow and ran a pass within a day.
func (o *Others) Claimed(ctx context.Context) (by map[string]string, err error) {
	by = map[string]string{}
	all, err := AllProjects(o.p.Env)
	if err != nil {
		return by, err
	}
	for _, other := range all {
		if other.StateDir == o.p.StateDir {
			continue
		}
		if err := o.addClaims(ctx, by, other.StateDir, trackerOf(o.project)); err != nil {
			const unknown = "%s: could not find out which issues this project works on: %v"
			o.warn(fmt.Sprintf(unknown, other.StateDir, err))
		}
	}
	return by, nil
}

// trackerOf returns the part of a project (Policy.Project) within which the same id means the
// same issue. Ids are unique at an endpoint, so projects at the same endpoint share that part.
// Without an endpoint the place is a path.
func trackerOf(project string) string {
	at, place, _ := strings.Cut(project, " ")
	if strings.Contains(at, "://") {
		return at
	}
	return at + " " + paths.Real(place)
}

// abandoned is how long after its last pass a project with a workflow keeps issues without a
// run.
const abandoned = 24 * time.Hour

// addClaims adds the issues of a tracker that a project claimed, each with the workflow and a
// verb, such as "/home/me/web/WORKFLOW.md holds it".
func (o *Others) addClaims(ctx context.Context, by map[string]string, stateDir, tracker string) error {
	db, err := state.OpenReadOnly(ctx, stateDir)
	if errors.Is(err, state.ErrNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	claims, err := db.Views.Claims(ctx)
	if err != nil {
		return err
	}
	// If these can't be read, the project keeps the issues that its workers work on.
	workflow, _, ownerErr := db.Meta(ctx, OwnerKey)
	pass, _, passErr := db.Views.LastPass(ctx)
	live := Exists(workflow) && o.p.Env.Now().Sub(pass.StartedAt) < abandoned
	does := map[reconcile.ClaimStatus]string{
		reconcile.Running: "works on it",
		reconcile.Waiting: "will continue it",
		reconcile.Held:    "holds it",
	}
	for _, c := range claims {
		if trackerOf(c.Project) == tracker && (live || c.RunID != "" && Alive(stateDir, c.RunID)) {
			by[c.IssueID] = workflow + " " + does[c.Status]
		}
	}
	return errors.Join(ownerErr, passErr)
}
