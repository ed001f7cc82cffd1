package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
)

// stateFor is the state to which an issue is moved; empty if the workflow does not say it.
func (h Handoff) stateFor(wish reconcile.Handover) string {
	if wish.Blocked != "" {
		return h.BlockedState
	}
	return h.State
}

// handOver comments on the issue and moves it. Each step is stored before the next, and is not
// repeated. If a person moved the issue meanwhile, it stays where it is. head is the commit
// that is handed over, if it was looked for.
func (d *deliveryStep) handOver(ctx context.Context, h reconcile.Handover, head string) error {
	work, err := d.handedOver(ctx, h, head)
	if err != nil {
		return err
	}
	if err := d.confirmClaim(ctx, work); err != nil {
		return notHandedOver(work, "its claim could not be confirmed", err)
	}
	if d.site.Config.Verify.isDue(&h, work.Commit) {
		return notVerified(h, work.Commit)
	}
	issue, visible, err := d.issue.read(ctx)
	if err != nil {
		return notHandedOver(work, "the issue could not be read", err)
	}
	if !visible {
		return nil
	}
	if issue.Elsewhere {
		d.Log.Info("the issue was taken out of the project meanwhile")
		return nil
	}
	if h.Blocked == "" {
		h.Notes = text.Map(notes(d.look, h.Leave), d.Redactor.Text)
	}
	if err := d.answerRework(ctx, h, work); err != nil {
		return err
	}
	if !h.Commented && d.Tracker.Post != nil {
		comment, err := d.postHandover(ctx, h, work)
		if err != nil {
			return notHandedOver(work, "the issue got no comment", err)
		}
		h.Commented = true
		if d.Tracker.Comments != nil {
			h.CommentID = comment.ID
			h.CommentAt = comment.CreatedAt
		}
		d.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &h })
		d.rec.flush(ctx)
	}
	crash.At("runner.handover.commented")
	if reason, _ := d.site.Config.Policy.StopReason(issue, true); reason != "" {
		d.Log.Info("the issue was moved meanwhile", "reason", reason, "state", issue.State)
		return nil
	}
	state := cmp.Or(d.site.Config.Handoff.stateFor(h), h.State)
	if d.site.Config.Policy.Active(state) {
		return reconcile.NewError(
			host.CodeDeliveryFailed,
			fmt.Sprintf("the issue was to be moved to %q, which is active now", state),
			"correct handoff.state in WORKFLOW.md",
		)
	}
	d.rec.recordMove()
	d.rec.flush(ctx)
	if err := d.Tracker.Move(ctx, issue.ID, state); err != nil {
		return notHandedOver(work, fmt.Sprintf("the issue was not moved to %q", state), err)
	}
	d.rec.change(func(r *reconcile.Run) { r.MovedTo = state })
	d.rec.flush(ctx)
	crash.At("runner.handover.moved")
	d.Log.Info("handed over", "state", state)
	return nil
}

// confirmClaim makes sure that no other machine has the issue now. The claim says which reviews and checks
// are answered: those that the handover answers only after EndRework.
func (d *deliveryStep) confirmClaim(ctx context.Context, work reconcile.Delivered) error {
	watch, _, err := d.Journal.Watch(ctx, d.run.IssueID)
	if err != nil {
		return err
	}
	return d.claim.confirm(ctx, work, watch)
}

// notHandedOver adds to the error of a tracker which step failed, and where the commits are. It
// returns nil if the issue no longer exists.
func notHandedOver(work reconcile.Delivered, step string, err error) error {
	if errors.Is(err, reconcile.ErrGone) {
		return nil
	}
	if work.Branch != "" {
		step = work.Branch + " is pushed, but " + step
	}
	code, _ := codeOf(err)
	return adding(step, err, code)
}

// handedOver returns the work with which an issue is handed over: its last push; only the
// commit head if nothing was pushed, because the base contains it; nothing if the handover does
// not deliver.
func (d *deliveryStep) handedOver(
	ctx context.Context,
	h reconcile.Handover,
	head string,
) (reconcile.Delivered, error) {
	if !h.Delivers {
		return reconcile.Delivered{}, nil
	}
	last, _, err := d.Journal.Delivered(ctx, d.run.IssueID)
	if err != nil {
		return last, err
	}
	if head != "" && head != last.Commit {
		return reconcile.Delivered{Commit: head}, nil
	}
	return last, nil
}

// postHandover comments on the issue, unless the comment is there, and returns the comment.
func (d *deliveryStep) postHandover(
	ctx context.Context,
	h reconcile.Handover,
	work reconcile.Delivered,
) (reconcile.Comment, error) {
	body := d.Redactor.Text(handoverText(h, work, d.workflowText()))
	return d.Tracker.PostOnce(ctx, d.run.IssueID, body, h.Marker(), h.At)
}

// handoverText is the comment about a handover.
func handoverText(h reconcile.Handover, work reconcile.Delivered, warning string) string {
	if h.Blocked != "" {
		return "**Blocked**: the agent can't go on without you. Answer here by a comment, and an agent goes on." +
			quotation(h.Blocked)
	}
	words := "**Handed over**"
	if h.NoChange {
		words += ", without a change"
	}
	if work.Branch != "" {
		words += fmt.Sprintf("\n\nBranch `%s`, commit `%.12s`.", work.Branch, work.Commit)
	}
	if work.PullRequest != "" {
		words += "\n\n" + reconcile.PullWordsOf(work.PullRequest).Title() + ": " + work.PullRequest
	}
	if verified := h.VerifiedText(work.Commit); verified != "" {
		words += "\n\n" + verified
	}
	if warning != "" {
		words += "\n\n" + warning
	}
	return strings.Join(append([]string{words}, h.Notes...), "\n\n") + quotation(h.Summary)
}

// answerRework comments on the pull request, once, with the answer to the rework and its
// commit. From then on the issue no longer counts as come back, and its claim says so: a machine that
// goes on after the death of this one answers nothing twice.
func (d *deliveryStep) answerRework(
	ctx context.Context,
	h reconcile.Handover,
	work reconcile.Delivered,
) error {
	r, err := d.pull.rework(ctx)
	if r == nil || err != nil {
		return err
	}
	forge, err := d.pull.openForge(ctx)
	if err != nil {
		return err
	}
	words := "answered by commit"
	said := h.Summary
	switch {
	case h.Blocked != "":
		words = "not answered, blocked at commit"
		said = h.Blocked
	case work.Commit == r.Commit:
		words = "answered without a new commit after"
	}
	mark := fmt.Sprintf("%srework %s %d -->", reconcile.CommentMarker, d.run.IssueID, r.At.Unix())
	body := fmt.Sprintf("**Rework %d of %d** %s `%.12s`", r.Round, r.Rounds, words, work.Commit)
	if warning := d.workflowText(); warning != "" {
		body += "\n\n" + warning
	}
	body += quotation(said) + "\n\n" + mark
	err = forge.Comment(ctx, r.Number, mark, d.Redactor.Text(body))
	if err != nil && !errors.Is(err, reconcile.ErrGone) {
		return err
	}
	crash.At("runner.rework.answered")
	if err := d.Journal.EndRework(context.WithoutCancel(ctx), d.run.IssueID); err != nil {
		return err
	}
	crash.At("runner.rework.ended")
	if err := d.confirmClaim(ctx, work); err != nil {
		return notHandedOver(work, "its claim could not be confirmed", err)
	}
	return nil
}

// quotation is the text of an agent below symphony's own text. Nothing in it can end the
// quotation.
func quotation(words string) string {
	return "\n\n> " + strings.ReplaceAll(strings.ReplaceAll(words, "\r", ""), "\n", "\n> ")
}
