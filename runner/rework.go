package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// rework returns what the issue has come back for; nil if it has not.
func (j *job) rework(ctx context.Context) (*reconcile.Rework, error) {
	if j.Forge == nil || j.Journal == nil {
		return nil, nil
	}
	w, _, err := j.Journal.Watch(ctx, j.run.IssueID)
	return w.Rework, err
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

// quotation is the text of an agent below what symphony writes. Nothing in it can end the quotation.
func quotation(words string) string {
	return "\n\n> " + strings.ReplaceAll(strings.ReplaceAll(words, "\r", ""), "\n", "\n> ")
}
