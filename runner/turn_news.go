package runner

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// turnNews tells the agent in a turn, once, what is new beside its issue: why its pull request
// came back, what others pushed, why its work was refused.
type turnNews struct {
	*parts
	pull   *pullRequest
	branch *issueBranch

	undelivered string       // why the work can't be delivered, which the agent was not told yet
	toldRework  bool         // the agent knows why its pull request came back
	toldPushed  *host.Pushed // others' commits on the branch, in the text of a turn
	// toldRefusal is the result of verify in the text of the last turn.
	toldRefusal *reconcile.Verification
}

// takeUndelivered returns why the work can't be delivered, once.
func (n *turnNews) takeUndelivered() string {
	why := n.undelivered
	n.undelivered = ""
	return why
}

// pushed returns others' pushes to the branch, once for each fetch: a run after a lost run
// tells it again.
func (n *turnNews) pushed() *host.Pushed {
	p := n.branch.base.Pushed
	if p == nil || p == n.toldPushed {
		return nil
	}
	n.toldPushed = p
	return p
}

// newBase returns the base if the thread does not know it, and records it in seen.
func (n *turnNews) newBase(seen *reconcile.LastSeen) (base host.FetchAnswer) {
	if n.branch.base.Commit != "" && n.branch.base.Commit != seen.Base {
		base = n.branch.base
		seen.Base = n.branch.base.Commit
	}
	return base
}

// rework tells the agent, in the first turn of a run, why its pull request came back; empty if
// it did not. Logs that can't be read are left out.
func (n *turnNews) rework(ctx context.Context) string {
	if n.toldRework {
		return ""
	}
	n.toldRework = true
	r, err := n.pull.rework(ctx)
	warn(n.Log, "what the pull request asks for is not read", err)
	if r == nil {
		return ""
	}
	n.rec.change(func(run *reconcile.Run) { run.Activity = n.Redactor.Text(r.String()) })
	logs, err := n.logs(ctx, r)
	warn(n.Log, "logs of failed checks are not read", err)
	return agent.ReworkText(n.pull.words(), r, logs)
}

const (
	mostLogs  = 5 // of failed checks, that an agent reads
	logsBound = time.Minute
)

// logs reads the ends of the logs of failed checks, by their jobs.
func (n *turnNews) logs(ctx context.Context, r *reconcile.Rework) (map[int64]string, error) {
	ctx, cancel := context.WithTimeout(ctx, logsBound)
	defer cancel()
	forge, err := n.pull.openForge(ctx)
	if err != nil {
		return nil, err
	}
	logs := map[int64]string{}
	var firstErr error
	for _, c := range r.Checks {
		if c.Job == 0 || len(logs) == mostLogs {
			continue
		}
		log, err := forge.ReadLog(ctx, c.Job)
		if err == nil && log != "" {
			logs[c.Job] = log
		}
		if firstErr == nil && !errors.Is(err, reconcile.ErrGone) {
			firstErr = err
		}
	}
	return logs, firstErr
}

// refused returns the last failure of verify, once for each failure. A new run repeats the
// last, which an earlier run may have told.
func (n *turnNews) refused() *reconcile.Verification {
	h := n.rec.get().Delivery.Handover
	if !h.Refused() || h.Verification == n.toldRefusal {
		return nil
	}
	n.toldRefusal = h.Verification
	return n.toldRefusal
}
