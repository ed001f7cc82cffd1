package runner

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
)

// deliver pushes the commits of the workspace, stores what was pushed, and opens a pull
// request if the workflow wants that. A branch that someone has deleted before it had a pull
// request is pushed again. head is the newest commit of the workspace.
func (w *workspaceStep) deliver(
	ctx context.Context,
) (result reconcile.DeliveryResult, head string, err error) {
	branch, last, err := w.branch(ctx)
	if err != nil {
		return result, "", err
	}
	w.rec.phase(ctx, reconcile.DeliveringWork)
	env, err := w.gitEnv(ctx)
	if err != nil {
		return result, "", err
	}
	result, head, err = w.deliverSince(ctx, branch, last, env)
	if errors.Is(err, reconcile.ErrNoBranch) {
		result, head, err = w.deliverSince(ctx, branch, reconcile.Delivered{}, env)
	}
	return result, head, err
}

// tryDelivery returns why the commits of the workspace can't be delivered, as far as that is
// their own fault.
func (w *workspaceStep) tryDelivery(ctx context.Context) error {
	branch, last, err := w.branch(ctx)
	if err != nil {
		return err
	}
	env, err := w.gitEnv(ctx)
	if err != nil {
		return err
	}
	_, err = w.host.Deliver(ctx, host.DeliverRequest{
		Repository: w.Config.Repository.Repository,
		Branch:     branch,
		Delivered:  last.Commit,
		Try:        true,
		Timeout:    repositoryTimeout,
		Env:        env,
	})
	return err
}

// deliverSince delivers to a branch what was not delivered there last.
func (w *workspaceStep) deliverSince(
	ctx context.Context,
	branch string,
	last reconcile.Delivered,
	env []string,
) (result reconcile.DeliveryResult, head string, err error) {
	repository := w.Config.Repository.Repository
	answer, err := w.host.Deliver(ctx, host.DeliverRequest{
		Repository: repository,
		Branch:     branch,
		Delivered:  last.Commit,
		Timeout:    max(repositoryTimeout, w.Config.Hooks.Timeout),
		Env:        env,
	})
	if err != nil {
		w.logOutput(err)
		return result, "", err
	}
	w.takeSigned(answer)
	w.changesWorkflow = answer.ChangesWorkflow
	if answer.Commits == 0 {
		w.Log.Info("nothing to push")
	} else {
		result.Branch = branch
		result.Commit = answer.Commit
		result.Commits = answer.Commits
		w.Log.Info("delivered", "branch", branch, "commit", answer.Commit, "commits", answer.Commits)
		last = reconcile.Delivered{
			URL:    repository.URL,
			Branch: branch,
			Commit: answer.Commit,
			Base:   answer.Base,
			At:     w.Now(),
		}
		err := w.Journal.RecordDelivered(context.WithoutCancel(ctx), w.run.IssueID, last)
		if err != nil {
			return result, answer.Commit, err
		}
	}
	if w.wantsPullRequest(last) {
		result.PullRequest, err = w.openPullRequest(ctx, last, env)
	}
	return result, answer.Commit, err
}

// takeSigned records that what was verified is now the signed copy, which has the same files.
func (w *workspaceStep) takeSigned(answer host.DeliverAnswer) {
	h := w.rec.get().Delivery.Handover
	if answer.Head == "" || h == nil || h.Verification == nil || h.Verification.Commit != answer.Head {
		return
	}
	handover := *h
	verification := *h.Verification
	verification.Commit = answer.Commit
	handover.Verification = &verification
	w.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &handover })
}

// wantsPullRequest reports whether a pull request is to be opened for what was pushed last.
// With handoff.state it is part of a handover.
func (w *workspaceStep) wantsPullRequest(last reconcile.Delivered) bool {
	h := w.rec.get().Delivery.Handover
	ready := w.Config.Handoff.State == "" || h.Waits() && h.Blocked == "" && !w.needsVerify(h, last.Commit)
	return ready && w.Forge != nil && last.Branch != "" && last.PullRequest == ""
}

const pullRequestTimeout = 2 * time.Minute

// openPullRequest opens a pull request for what was delivered, unless there is one, and stores
// its address.
func (w *workspaceStep) openPullRequest(
	ctx context.Context,
	last reconcile.Delivered,
	env []string,
) (address string, err error) {
	run := w.rec.get()
	body := pullRequestBody(run.Issue, run.Delivery.Handover.VerifiedText(last.Commit), w.workflowText())
	request := reconcile.NewPull{
		Branch: last.Branch,
		Commit: last.Commit,
		Base:   w.Config.Repository.Base,
		Title:  w.Redactor.Text(pullRequestTitle(run.Issue)),
		Body:   w.Redactor.Text(body),
	}
	if w.Journal != nil {
		watch, _, err := w.Journal.Watch(ctx, w.run.IssueID)
		if err != nil {
			return "", err
		}
		request.Known = watch.Pull.ID
	}
	crash.At("forge.Open.before")
	open := func(ctx context.Context) (reconcile.OpenedPull, error) {
		forge, err := w.Forge(ctx, env)
		if err != nil {
			return reconcile.OpenedPull{}, err
		}
		return forge.Open(ctx, request)
	}
	answer, err := host.Within(ctx, pullRequestTimeout, host.CodeDeliveryFailed, "the pull request", open)
	crash.At("forge.Open.after")
	if known, ok := errors.AsType[*reconcile.Error](err); ok {
		why := strings.TrimSuffix(known.Message+"; "+known.Hint, "; ")
		return "", &reconcile.Error{
			Code:    host.CodeDeliveryFailed,
			Message: last.Branch + " is pushed, but has no pull request: " + why,
			Err:     err,
		}
	}
	if err != nil {
		return "", err
	}
	if answer.URL == "" {
		w.Log.Info("no pull request: the base contains the commits", "branch", last.Branch)
		return "", nil
	}
	w.Log.Info("pull request", "url", answer.URL, "opened", answer.Opened, "by", answer.By)
	w.rec.keepLinks([]reconcile.Link{{Kind: linkPullRequest, URL: answer.URL}})
	last.PullRequest = answer.URL
	last.PullID = answer.ID
	return answer.URL, w.Journal.RecordDelivered(context.WithoutCancel(ctx), w.run.IssueID, last)
}

// maxTitle is the length of the longest title of a pull request in characters; GitHub's limit
// is 256.
const maxTitle = 200

func pullRequestTitle(issue reconcile.Issue) string {
	title := []rune(text.Visible(text.OneLine(issue.Identifier + ": " + issue.Title)))
	if len(title) > maxTitle {
		return string(title[:maxTitle]) + "…"
	}
	return string(title)
}

// workflowText warns of work that changes the WORKFLOW.md of its own project; empty for other
// work.
func (w *workspaceStep) workflowText() string {
	if !w.changesWorkflow {
		return ""
	}
	name := strings.ReplaceAll(text.Visible(w.Config.Repository.Workflow), "`", "'")
	return "The work changes `" + name + "`, which says what symphony runs for this project, " +
		"outside the sandbox, too. Review that change before you merge it."
}

// pullRequestBody contains nothing from outside but the address of the issue, without
// characters that have a meaning in Markdown.
func pullRequestBody(issue reconcile.Issue, sentences ...string) string {
	body := "Opened by symphony"
	u, err := url.Parse(text.OrEmpty(issue.URL))
	if err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") &&
		!strings.ContainsAny(u.String(), "<>()[]`\\\"") {
		body += " for <" + u.String() + ">"
	}
	body += "."
	for _, sentence := range sentences {
		if sentence != "" {
			body += "\n\n" + sentence
		}
	}
	return body
}

// deliverAfterRun delivers the commits of an agent's run, and hands its issue over if the
// agent has asked for it. A failure does not change the outcome of the run. Passes do it later
// if it fails, or if ctx ends first because the run is asked to stop.
func (w *workspaceStep) deliverAfterRun(ctx context.Context) {
	run := w.rec.get()
	delivers := w.Config.Repository.Deliver && w.space != nil && run.Turns > 0
	if run.Kind != reconcile.AgentRun || !delivers && !run.Delivery.Handover.Waits() || ctx.Err() != nil {
		return
	}
	err := w.deliverAndHandOver(ctx, delivers)
	if err == nil || ctx.Err() != nil {
		return
	}
	code, message := codeOf(err)
	w.rec.change(func(r *reconcile.Run) {
		r.Delivery.Code = code
		r.Delivery.Message = w.Redactor.Text(message)
	})
	w.warn("the work was not delivered", err)
}

// deliverAndHandOver delivers the commits, unless the workflow does not want that, and hands
// the issue over if the agent has asked for it.
func (w *workspaceStep) deliverAndHandOver(ctx context.Context, delivers bool) (err error) {
	handover := w.rec.get().Delivery.Handover
	var result reconcile.DeliveryResult
	head := ""
	if delivers {
		result, head, err = w.deliver(ctx)
		handover = w.rec.get().Delivery.Handover
	}
	if w.othersPushed(ctx, err) {
		w.Log.Info(
			"nothing is delivered: others have pushed to the branch, which the next run's agent merges",
		)
		w.rec.change(func(r *reconcile.Run) { r.Delivery = reconcile.DeliveryResult{OthersPushed: true} })
		return nil
	}
	result.Handover = handover
	w.rec.change(func(r *reconcile.Run) { r.Delivery = result })
	if err == nil && handover.Waits() {
		err = w.handOver(ctx, *handover, head)
	}
	w.rec.change(func(r *reconcile.Run) { r.Delivery.Done = err == nil })
	return err
}

// othersPushed reports whether a delivery has failed only because others have pushed to the
// branch since the agent's last turn, and an agent can merge that: its issue is still to be
// worked on.
func (w *workspaceStep) othersPushed(ctx context.Context, err error) bool {
	known, _ := errors.AsType[*reconcile.Error](err)
	if known == nil || known.Code != host.CodeDeliveryConflict {
		return false
	}
	pushed, err := w.pushedMeanwhile(ctx)
	w.warn("it is not known whether the agent can merge what others have pushed", err)
	if pushed == nil {
		return false
	}
	issue, visible, err := w.readIssue(ctx)
	if err != nil {
		w.warn("it is not known whether an agent will merge what others have pushed", err)
		return false
	}
	reason, _ := w.Config.Policy.StopReason(issue, visible)
	return reason == ""
}

// beginAgain fills a new workspace for a delivery with the commits that this machine has kept
// of one that is gone with its machine. A handover needs the very commit that it is about.
func (w *workspaceStep) beginAgain(ctx context.Context, h *reconcile.Handover) error {
	gone := &reconcile.Error{
		Code:    reconcile.CodeWorkspaceGone,
		Message: w.space.Path + " is gone, with what the last run has committed there",
	}
	if !w.farClone() {
		return gone
	}
	if err := w.cloneOrFetch(ctx); err != nil {
		return err
	}
	kept := w.cloned.Kept
	if kept == "" || h.Asked() && kept != h.Commit {
		return gone
	}
	if err := w.hook(ctx, afterCreate, w.Config.Hooks.AfterCreate, ""); err != nil {
		return err
	}
	w.Log.Info("the workspace is gone: its commits are delivered from this machine", "commit", w.cloned.Kept)
	return w.host.Confirm(ctx, host.ConfirmRequest{})
}

// redeliver is the only step of a delivery run.
func (w *workspaceStep) redeliver(ctx context.Context) error {
	h := w.rec.get().Delivery.Handover
	delivers := w.Config.Repository.Deliver
	if !delivers && h != nil && h.Delivers {
		return reconcile.NewError(
			host.CodeDeliveryFailed,
			"its commits have to be pushed before the handover, and the workflow pushes none now",
			"set repository.url again, without deliver: none; or move the issue yourself",
		)
	}
	if !delivers && !w.needsVerify(h, "") { // only the issue is to be handed over
		return w.deliverAndHandOver(ctx, false)
	}
	answer, err := w.host.Prepare(ctx, w.prepareRequest())
	w.recordWorkspace(answer)
	if err != nil {
		return err
	}
	if w.space.Created {
		if err := w.beginAgain(ctx, h); err != nil {
			return errors.Join(err, w.host.Confirm(ctx, host.ConfirmRequest{Discard: true}))
		}
	}
	if err := w.verifyAgain(ctx, h); err != nil {
		return err
	}
	if err := w.deliverAndHandOver(ctx, delivers); err != nil {
		return err
	}
	if w.rec.get().Delivery.OthersPushed {
		const why = "nothing was pushed: others have pushed to its branch meanwhile, " +
			"which its agent has to merge"
		return runEnd{reconcile.Canceled, reconcile.CodeOthersPushed, why}
	}
	return nil
}
