package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	mostLogs  = 5 // of failed checks, that an agent reads
	logsBound = time.Minute
)

// reworkText tells the agent, in the first turn of a run, what its pull request has come back for; empty if it has not. Logs that can't be
// read are left out.
func (g *guide) reworkText(ctx context.Context) string {
	if g.toldRework {
		return ""
	}
	g.toldRework = true
	r, err := g.rework(ctx)
	g.warn("what the pull request asks for is not read", err)
	if r == nil {
		return ""
	}
	g.rec.change(func(run *reconcile.Run) { run.Activity = g.Redactor.Text(r.String()) })
	logs, err := g.logs(ctx, r)
	g.warn("logs of failed checks are not read", err)
	return agent.ReworkText(r, logs)
}

// rework returns what the issue has come back for; nil if it has not.
func (j *job) rework(ctx context.Context) (*reconcile.Rework, error) {
	if j.Forge == nil || j.Journal == nil {
		return nil, nil
	}
	w, _, err := j.Journal.Watch(ctx, j.run.IssueID)
	return w.Rework, err
}

// logs reads the ends of the logs of failed checks.
func (j *job) logs(ctx context.Context, r *reconcile.Rework) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, logsBound)
	defer cancel()
	forge, err := j.openForge(ctx)
	if err != nil {
		return nil, err
	}
	logs := map[string]string{}
	for _, c := range r.Checks {
		if c.Job == 0 || len(logs) == mostLogs {
			continue
		}
		log, failed := forge.ReadLog(ctx, c.Job)
		if failed == nil && log != "" {
			logs[c.Name] = log
		}
		if err == nil && !errors.Is(failed, reconcile.ErrGone) {
			err = failed
		}
	}
	return logs, err
}

// openForge returns the adapter to the pull requests, with the login of this machine.
func (j *job) openForge(ctx context.Context) (*reconcile.Forge, error) {
	env, err := j.gitEnv(ctx)
	if err != nil {
		return nil, err
	}
	return j.Forge(ctx, env)
}

// answerRework says on the pull request what was answered and by which commit, once. From then on the issue has not come back any more.
func (w *workspaceStep) answerRework(ctx context.Context, h reconcile.Handover, last reconcile.Delivered) error {
	r, err := w.rework(ctx)
	if r == nil || err != nil {
		return err
	}
	forge, err := w.openForge(ctx)
	if err != nil {
		return err
	}
	words, said := "answered by commit", h.Summary
	switch {
	case h.Blocked != "":
		words, said = "not answered, blocked at commit", h.Blocked
	case last.Commit == r.Commit:
		words = "answered without a new commit after"
	}
	mark := fmt.Sprintf("%srework %s %d -->", reconcile.CommentMarker, w.run.IssueID, r.At.Unix())
	body := fmt.Sprintf("**Rework %d of %d** %s `%.12s`", r.Round, r.Rounds, words, last.Commit) + quotation(said) + "\n\n" + mark
	if err := forge.Comment(ctx, r.Number, mark, w.Redactor.Text(body)); err != nil && !errors.Is(err, reconcile.ErrGone) {
		return err
	}
	crash.At("runner.rework.answered")
	return w.Journal.EndRework(context.WithoutCancel(ctx), w.run.IssueID)
}
