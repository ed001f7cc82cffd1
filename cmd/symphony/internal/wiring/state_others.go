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
// project of the tracker.
type Others struct {
	p    *Project
	warn func(string)
}

// NewOthers returns the projects beside p. warn receives the reason if a project can't be
// read.
func NewOthers(p *Project, warn func(string)) *Others { return &Others{p, warn} }

// LockIssues implements reconcile.Others.
func (o *Others) LockIssues(ctx context.Context, project string) (unlock func(), err error) {
	return state.LockTracker(ctx, o.p.Env.Getenv("XDG_STATE_HOME"), o.p.Env.Home, trackerOf(project))
}

// Claimed implements reconcile.Others.
func (o *Others) Claimed(ctx context.Context, project string) (by map[string]string, err error) {
	by = map[string]string{}
	all, err := AllProjects(o.p.Env)
	if err != nil {
		return by, err
	}
	for _, other := range all {
		if other.StateDir == o.p.StateDir {
			continue
		}
		if err := o.addClaims(ctx, by, other.StateDir, trackerOf(project)); err != nil {
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

// Sharing lists the workflows of the other projects with the same project of the tracker. It
// skips projects that can't be read.
func (o *Others) Sharing(project string) (workflows []string) {
	all, _ := AllProjects(o.p.Env)
	for _, other := range all {
		path := ownerOf(other.StateDir)
		if path == "" || other.StateDir == o.p.StateDir {
			continue
		}
		cfg, err := NewProject(o.p.Env, path, other.StateDir).ConfigWithoutKey()
		if err != nil || cfg.Policy.Project != project {
			continue
		}
		workflows = append(workflows, path)
	}
	return workflows
}
