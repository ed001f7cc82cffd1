package agents

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// ProjectOf returns the project that knows ref, the name of an issue, an agent, or a request
// of either: p, or the directory of the agents. If both know it, the issue wins, and a note
// explains that.
func ProjectOf(ctx context.Context, p *wiring.Project, ref string) (of *wiring.Project, isAgent bool) {
	theirs := openProject(p.Env)
	name, _ := reconcile.RequestRef(ref)
	if !validID().MatchString(name) || !knows(ctx, theirs, func(db *state.DB) (bool, error) {
		_, found, err := db.Clients.FreeAgent(ctx, name)
		return found, err
	}) {
		return p, false
	}
	if p.StateDir != theirs.StateDir && knows(ctx, p, func(db *state.DB) (bool, error) {
		_, _, found, err := db.Views.FindIssue(ctx, name)
		return found, err
	}) {
		p.Env.Warn(
			fmt.Sprintf(
				"%s is an issue, and an agent of --state-dir %s; this is about the issue",
				name,
				text.ShellQuote(theirs.StateDir),
			),
		)
		return p, false
	}
	return theirs, true
}

// knows reports whether find finds its object in the state of a project. It is false for a
// state that can't be read: the command that follows reports why, if it is about this project.
func knows(ctx context.Context, p *wiring.Project, find func(*state.DB) (bool, error)) bool {
	if !p.HasState() {
		return false
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return false
	}
	defer db.Close()
	found, err := find(db)
	return found && err == nil
}

// AsProject is the state directory of the agents in the shape of a project; nil if there never
// was an agent.
func AsProject(w *environ.Env) *wiring.Project {
	if !wiring.IsState(wiring.AgentsDir(w)) {
		return nil
	}
	return openProject(w)
}

// OpenRequests reads the open requests of live agents, in the shape of requests of a project.
func OpenRequests(ctx context.Context, w *environ.Env) ([]view.RequestRow, error) {
	p := AsProject(w)
	if p == nil {
		return nil, nil
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return nil, err
	}
	rows, err := view.RequestRows(ctx, p, db, view.AgentsProject)
	return rows, errors.Join(err, db.Close())
}

// Stop ends an agent, and returns it as it is then.
func Stop(ctx context.Context, w *environ.Env, id string) (ended Agent, err error) {
	a, err := Open(ctx, w)
	if err != nil {
		return ended, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.Kill(ctx, id); err != nil {
		return ended, err
	}
	return a.Find(ctx, id)
}

// Requests returns the undecided requests of live agents, oldest first.
func (a *Agents) Requests(ctx context.Context) ([]reconcile.Request, error) {
	return view.OpenRequests(ctx, a.p, a.DB)
}

// Decide records a decision about a request such as a1.3. The first decision counts: a later
// decision fails with the code request_ended.
func (a *Agents) Decide(ctx context.Context, id string, d requests.Decision) (reconcile.Request, error) {
	if err := a.p.Nested(); err != nil {
		return reconcile.Request{}, err // an agent must not answer its own requests
	}
	return requests.DecideIn(ctx, a.p, a.DB, id, d)
}

// DecideAsModel is Decide for a tool that the model of a host calls. A model must not decide
// where agents work, because a text that it reads may have told it to. Error: CodeNeedsPerson.
func (a *Agents) DecideAsModel(
	ctx context.Context,
	id string,
	d requests.Decision,
) (reconcile.Request, error) {
	r, _, err := requests.Find(ctx, a.p, a.DB, id, d.How)
	if err != nil {
		return r, err
	}
	if r.Kind == reconcile.DirectoryRequest {
		return reconcile.Request{}, reconcile.NewError(CodeNeedsPerson,
			r.ID()+" is for your user",
			"ask your user to decide: "+view.HowToAnswer(r))
	}
	return a.Decide(ctx, id, d)
}
