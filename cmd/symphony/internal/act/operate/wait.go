package operate

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// waitStep is how often Wait reads the state.
	waitStep = time.Second
	// askStep is how often Wait asks the tracker about an issue without a claim.
	askStep = 30 * time.Second
)

// WaitOptions tell Wait which issue to watch, and for how long.
type WaitOptions struct {
	Issue   string
	Timeout time.Duration      // zero for none
	Whole   bool               // read also the parts that are not needed while waiting
	Status  func(detail.Issue) // is called with each status
}

// Wait waits until an issue does not go on by itself, and returns its state then. The error
// after the timeout is an exit.Only, and comes with the issue as it was then. A signal ends
// the wait and changes nothing.
func Wait(ctx context.Context, p *wiring.Project, o WaitOptions) (detail.Issue, error) {
	waiting := ctx
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	v, err := waitFor(waiting, p, o)
	if err != nil && ctx.Err() != nil {
		return v, reconcile.NewError(
			"canceled",
			"ended by a signal; nothing was changed",
			"",
		).WithHint("%s shows the issue", reconcile.CommandFor("show", o.Issue))
	}
	if err != nil && errors.Is(waiting.Err(), context.DeadlineExceeded) {
		v, err = detail.Read(ctx, p, o.Issue, detail.Options{Offline: true})
		if err != nil {
			return v, err
		}
		return v, exit.Only(exit.TimedOut)
	}
	if err != nil || !o.Whole {
		return v, err
	}
	all, err := detail.Read(ctx, p, v.Issue.ID, detail.Options{Offline: true})
	v.Workspace = all.Workspace
	v.Log = all.Log
	v.LastMessage = all.LastMessage
	return v, err
}

// waitFor reads the issue again and again until it does not continue by itself.
func waitFor(ctx context.Context, p *wiring.Project, o WaitOptions) (v detail.Issue, err error) {
	ref := o.Issue
	began := p.Env.Now()
	last := ""
	var asked time.Time
	for {
		ask := p.Env.Now().Sub(asked) >= askStep
		v, err = detail.Read(ctx, p, ref, detail.Options{Brief: true, Offline: !ask})
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		if err != nil && ask {
			return v, err
		}
		if ask {
			asked = p.Env.Now()
			ref = v.Issue.ID
		}
		// Without the tracker's answer, only a new release shows how an unclaimed issue ended.
		wasReleased := err == nil && v.Released != nil && v.Released.At.After(began)
		isKnown := ask || v.Claim != nil || wasReleased
		if isKnown && !v.GoesOn() {
			return v, nil
		}
		now := string(v.Status) + v.Why.Code
		if isKnown && now != last {
			last = now
			o.Status(v)
		}
		if !wiring.Sleep(ctx, waitStep) {
			return v, ctx.Err()
		}
	}
}

// IssueAddress returns the address of an issue in the web.
func IssueAddress(ctx context.Context, p *wiring.Project, ref string) (string, error) {
	return findAddress(ctx, p, ref, detail.Issue.Address, "no web page: its tracker gives no address")
}

// PullRequestAddress returns the address of the pull request of an issue.
func PullRequestAddress(ctx context.Context, p *wiring.Project, ref string) (string, error) {
	return findAddress(ctx, p, ref, detail.Issue.PullRequestAddress, "no pull request that symphony knows of")
}

// findAddress returns an address of an issue. It asks the tracker only if the database does not
// know it. Without says what the issue has if it has no address.
func findAddress(
	ctx context.Context,
	p *wiring.Project,
	ref string,
	of func(detail.Issue) string,
	without string,
) (string, error) {
	v, err := detail.Read(ctx, p, ref, detail.Options{Offline: true, Brief: true})
	if err != nil || of(v) == "" {
		v, err = detail.Read(ctx, p, ref, detail.Options{Brief: true})
		if err != nil {
			return "", err
		}
	}
	if address := of(v); isWebAddress(address) {
		return address, nil
	}
	name := v.Issue.Identifier
	return "", reconcile.NewError(
		"not_found",
		name+" has "+without,
		"",
	).WithHint("%s prints what is known of it", reconcile.CommandFor("show", name))
}

// isWebAddress reports whether a browser may be given an address.
func isWebAddress(address string) bool {
	page, err := url.Parse(address)
	return err == nil && (page.Scheme == "https" || page.Scheme == "http")
}
