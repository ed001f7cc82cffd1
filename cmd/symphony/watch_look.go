package main

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/state"
)

const (
	// freshStep is how long a view counts that nothing in the database contradicts: WORKFLOW.md, the account, a loop or
	// the whole state directory may have changed beside it. Nobody rests for longer.
	freshStep = 10 * time.Second
	// restFactor is how many times as long as a look took nobody looks again: however much there is to read, reading
	// takes one part in so many.
	restFactor = 60
)

// looker keeps a view up to date at little cost: it reads again only where the database or the life of a worker says
// that something has changed.
type looker struct {
	p       *project.Project
	options viewOptions

	db      *state.DB // nil before the first look, and after one that failed
	opened  time.Time
	version int64

	view view
	rest time.Time // until then nobody looks
}

func newLooker(p *project.Project, o viewOptions) *looker { return &looker{p: p, options: o} }

func (l *looker) close() error {
	if l.db == nil {
		return nil
	}
	db := l.db
	l.db = nil
	return db.Close()
}

// refresh gives the view as of now. Where that can't be had the last one comes beside the error.
func (l *looker) refresh(ctx context.Context) (view, error) {
	start := l.p.Env.Now()
	if left := l.rest.Sub(start); left > 0 && left <= freshStep { // more is left after the clock was set back
		l.view.GeneratedAt = start.UTC()
		return l.view, nil
	}
	err := l.update(ctx, start)
	end := l.p.Env.Now()
	l.view.GeneratedAt = end.UTC()
	if err != nil {
		return l.view, errors.Join(err, l.close()) // the next look begins anew
	}
	l.rest = end.Add(min(restFactor*end.Sub(start), freshStep))
	return l.view, nil
}

func (l *looker) update(ctx context.Context, now time.Time) error {
	if age := now.Sub(l.opened); l.db == nil || age < 0 || age >= freshStep {
		return l.begin(ctx, now)
	}
	changed, err := l.changed(ctx)
	if err != nil || !changed {
		return err
	}
	return l.look(ctx)
}

// begin opens the database anew and reads all.
func (l *looker) begin(ctx context.Context, now time.Time) error {
	if err := l.close(); err != nil {
		return err
	}
	l.p = project.New(l.p.Env, l.p.Path, l.p.StateDir)
	db, err := project.OpenForReading(ctx, l.p)
	if err != nil {
		return err
	}
	l.db, l.opened = db, now
	if l.version, err = db.DataVersion(ctx); err != nil {
		return err
	}
	return l.look(ctx)
}

// changed asks before anything is read: what is written meanwhile is seen by the next question.
func (l *looker) changed(ctx context.Context) (bool, error) {
	version, err := l.db.DataVersion(ctx)
	if err != nil || version != l.version {
		l.version = version
		return true, err
	}
	for _, r := range l.view.Running {
		if project.Alive(l.p.StateDir, r.RunID) != r.Alive {
			return true, nil // a worker that was killed has written nothing
		}
	}
	return false, nil
}

func (l *looker) look(ctx context.Context) error {
	v, err := viewOf(ctx, l.p, l.db, l.options)
	if err == nil {
		l.view = v
	}
	return err
}
