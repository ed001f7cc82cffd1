package operate

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
)

const (
	// waitStep is how often Wait reads the state.
	waitStep = time.Second
	// askStep is how often Wait asks the tracker about an issue without a claim.
	askStep = 30 * time.Second
)

// Wait waits until an issue does not go on by itself, and prints what became of it. The exit code says it, too. With a timeout above
// zero it waits no longer. A signal ends the wait and changes nothing.
func Wait(ctx context.Context, p *project.Project, ref string, timeout time.Duration) error {
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	v, err := waitFor(waiting, p, ref)
	switch {
	case ctx.Err() != nil:
		return exit.Fault("canceled", "ended by a signal; nothing was changed", "symphony show "+ref+" shows the issue")
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		if v, err = view.ReadIssue(ctx, p, ref, view.IssueOptions{Offline: true}); err == nil {
			render.WaitEnd(p.Env, v)
			err = exit.Only(exit.TimedOut)
		}
		return err
	case err != nil:
		return err
	}
	if p.Env.JSON { // with what a wait does not read each time
		all, err := view.ReadIssue(ctx, p, v.Issue.ID, view.IssueOptions{Offline: true})
		if err != nil {
			return err
		}
		v.Workspace, v.Log, v.LastMessage = all.Workspace, all.Log, all.LastMessage
	}
	render.WaitEnd(p.Env, v)
	switch {
	case v.Status == view.StatusHandedOver:
		return nil
	case v.Status == view.StatusHeld:
		return exit.Only(exit.Held)
	case v.Status == view.StatusAsks:
		return exit.Only(exit.Asks)
	case v.Claim != nil && v.Failed():
		return exit.Only(exit.Failed)
	}
	return exit.Only(exit.NotStarted)
}

// waitFor reads the issue again and again until it does not go on by itself, and prints each status on stderr.
func waitFor(ctx context.Context, p *project.Project, ref string) (v view.Issue, err error) {
	began, last := p.Env.Now(), ""
	var asked time.Time
	for {
		ask := p.Env.Now().Sub(asked) >= askStep
		v, err = view.ReadIssue(ctx, p, ref, view.IssueOptions{Brief: true, Offline: !ask})
		switch {
		case err != nil && ask, ctx.Err() != nil:
			return v, err
		case ask:
			asked, ref = p.Env.Now(), v.Issue.ID
		}
		// Without the tracker's answer only a new release says what became of an issue without a claim.
		if ask || v.Claim != nil || err == nil && v.Released != nil && v.Released.At.After(began) {
			if !v.GoesOn() {
				return v, nil
			}
			if now := string(v.Status) + v.Why.Code; now != last {
				last = now
				render.WaitStatus(p.Env, v)
			}
		}
		if !project.Sleep(ctx, waitStep) {
			return v, ctx.Err()
		}
	}
}
