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

// deliveryStep delivers the commits of the workspace, and hands the issue over.
type deliveryStep struct {
	*job
	workspace *workspaceStep
	// changesWorkflow: the delivered commits change the WORKFLOW.md of their own project.
	changesWorkflow bool
}

// deliver pushes the commits of the workspace, stores the result, and opens a pull request if
// the workflow wants that. A branch that someone deleted before its pull request was opened is
// pushed again. head is the newest commit of the workspace.
func (d *deliveryStep) deliver(
	ctx context.Context,
) (result reconcile.DeliveryResult, head string, err error) {
	branch, last, err := d.branch(ctx, reconcile.Delivered{})
	if err != nil {
		return result, "", err
	}
	d.rec.phase(ctx, reconcile.DeliveringWork)
	env, err := d.gitEnv(ctx)
	if err != nil {
		return result, "", err
	}
	result, head, err = d.deliverSince(ctx, branch, last, env)
	if errors.Is(err, reconcile.ErrNoBranch) {
		result, head, err = d.deliverSince(ctx, branch, reconcile.Delivered{}, env)
	}
	return result, head, err
}

// deliverable returns why the commits of the workspace can't be delivered, as far as that is
// their own fault, such as a missing file of Git LFS.
func (j *job) deliverable(ctx context.Context) error {
	branch, last, err := j.branch(ctx, reconcile.Delivered{})
	if err != nil {
		return err
	}
	env, err := j.gitEnv(ctx)
	if err != nil {
		return err
	}
	_, err = j.host.Deliver(ctx, host.DeliverRequest{
		Repository: j.Config.Repository.Repository,
		Branch:     branch,
		Delivered:  last.Commit,
		Try:        true,
		Timeout:    repositoryTimeout,
		Env:        env,
	})
	return err
}

// deliverSince delivers the commits that the last delivery to the branch did not contain.
func (d *deliveryStep) deliverSince(
	ctx context.Context,
	branch string,
	last reconcile.Delivered,
	env []string,
) (result reconcile.DeliveryResult, head string, err error) {
	repository := d.Config.Repository.Repository
	answer, err := d.host.Deliver(ctx, host.DeliverRequest{
		Repository: repository,
		Branch:     branch,
		Delivered:  last.Commit,
		Again:      d.run.Kind == reconcile.DeliveryRun,
		Timeout:    max(repositoryTimeout, d.Config.Hooks.Timeout),
		Env:        env,
	})
	if err != nil {
		d.logOutput(err)
		return result, "", err
	}
	d.takeSigned(answer)
	d.changesWorkflow = answer.ChangesWorkflow
	if answer.Commits == 0 {
		d.Log.Info("nothing to push")
	} else {
		result.Branch = branch
		result.Commit = answer.Commit
		result.Commits = answer.Commits
		d.Log.Info("delivered", "branch", branch, "commit", answer.Commit, "commits", answer.Commits)
		last = reconcile.Delivered{
			URL:    repository.URL,
			Branch: branch,
			Commit: answer.Commit,
			Base:   answer.Base,
			At:     d.Now(),
		}
		err := d.Journal.RecordDelivered(context.WithoutCancel(ctx), d.run.IssueID, last)
		if err != nil {
			return result, answer.Commit, err
		}
	}
	if d.wantsPullRequest(last) {
		result.PullRequest, err = d.openPullRequest(ctx, last, env)
	}
	return result, answer.Commit, err
}

// takeSigned moves the verification to the signed copy of the verified commit, which contains
// the same files.
func (d *deliveryStep) takeSigned(answer host.DeliverAnswer) {
	h := d.rec.get().Delivery.Handover
	if answer.Head == "" || h == nil || h.Verification == nil || h.Verification.Commit != answer.Head {
		return
	}
	handover := *h
	verification := *h.Verification
	verification.Commit = answer.Commit
	handover.Verification = &verification
	d.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &handover })
}

// wantsPullRequest reports whether to open a pull request for the last push. With
// handoff.state it is part of a handover.
func (d *deliveryStep) wantsPullRequest(last reconcile.Delivered) bool {
	h := d.rec.get().Delivery.Handover
	ready := d.Config.Handoff.State == "" || h.Waits() && h.Blocked == "" && !d.needsVerify(h, last.Commit)
	return ready && d.Forge != nil && last.Branch != "" && last.PullRequest == ""
}

const pullRequestTimeout = 2 * time.Minute

// openPullRequest opens a pull request for the delivered commits, unless it exists, and stores
// its address.
func (d *deliveryStep) openPullRequest(
	ctx context.Context,
	last reconcile.Delivered,
	env []string,
) (address string, err error) {
	run := d.rec.get()
	body := pullRequestBody(run.Issue, run.Delivery.Handover.VerifiedText(last.Commit), d.workflowText())
	request := reconcile.NewPull{
		Branch: last.Branch,
		Commit: last.Commit,
		Base:   d.Config.Repository.Base,
		Title:  d.Redactor.Text(pullRequestTitle(run.Issue)),
		Body:   d.Redactor.Text(body),
	}
	if d.Journal != nil {
		watch, _, err := d.Journal.Watch(ctx, d.run.IssueID)
		if err != nil {
			return "", err
		}
		request.Known = watch.Pull.ID
	}
	crash.At("forge.Open.before")
	open := func(ctx context.Context) (reconcile.OpenedPull, error) {
		forge, err := d.Forge(ctx, env)
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
		d.Log.Info("no pull request: the base contains the commits", "branch", last.Branch)
		return "", nil
	}
	d.Log.Info("pull request", "url", answer.URL, "opened", answer.Opened, "by", answer.By)
	d.rec.keepLinks([]reconcile.Link{{Kind: linkPullRequest, URL: answer.URL}})
	last.PullRequest = answer.URL
	last.PullID = answer.ID
	return answer.URL, d.Journal.RecordDelivered(context.WithoutCancel(ctx), d.run.IssueID, last)
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
func (d *deliveryStep) workflowText() string {
	if !d.changesWorkflow {
		return ""
	}
	name := strings.ReplaceAll(text.Visible(d.Config.Repository.Workflow), "`", "'")
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
// agent asked for it. A failure does not change the outcome of the run. Passes do it later if
// it fails, or if ctx ends first because the run is asked to stop.
func (d *deliveryStep) deliverAfterRun(ctx context.Context) {
	run := d.rec.get()
	delivers := d.Config.Repository.Deliver && d.space != nil && run.Turns > 0
	if run.Kind != reconcile.AgentRun || !delivers && !run.Delivery.Handover.Waits() {
		return
	}
	if ctx.Err() != nil {
		if delivers && !run.Delivery.Handover.Waits() {
			d.noteNoCommits(ctx)
		}
		return
	}
	err := d.deliverAndHandOver(ctx, delivers)
	if err == nil || ctx.Err() != nil {
		return
	}
	code, message := codeOf(err)
	d.rec.change(func(r *reconcile.Run) {
		r.Delivery.Code = code
		r.Delivery.Message = d.Redactor.Text(message)
	})
	d.warn("the work was not delivered", err)
}

// noCommitsPatience is how long a stop may take to look for commits: the run is to end soon.
const noCommitsPatience = 2 * time.Second

// noteNoCommits records that nothing remains to be delivered, if the stopped agent has made no
// commit. Otherwise a hold would say that its work is not delivered.
func (d *deliveryStep) noteNoCommits(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noCommitsPatience)
	defer cancel()
	found, err := d.Machine.Inspect(ctx, host.WorkspaceRequest{Path: d.space.Path})
	git := found.Git
	if err != nil || git == nil || git.Ahead == nil || *git.Ahead > 0 || len(git.Elsewhere) > 0 {
		return
	}
	d.rec.change(func(r *reconcile.Run) { r.Delivery.Done = true })
}

// deliverAndHandOver delivers the commits, unless the workflow does not want that, and hands
// the issue over if the agent asked for it.
func (d *deliveryStep) deliverAndHandOver(ctx context.Context, delivers bool) (err error) {
	handover := d.rec.get().Delivery.Handover
	var result reconcile.DeliveryResult
	head := ""
	if delivers {
		result, head, err = d.deliver(ctx)
		handover = d.rec.get().Delivery.Handover
	}
	if d.othersPushed(ctx, err) {
		d.Log.Info(
			"nothing is delivered: others have pushed to the branch, which the next run's agent merges",
		)
		d.rec.change(func(r *reconcile.Run) { r.Delivery = reconcile.DeliveryResult{OthersPushed: true} })
		return nil
	}
	result.Handover = handover
	d.rec.change(func(r *reconcile.Run) { r.Delivery = result })
	if err == nil && handover.Waits() {
		err = d.handOver(ctx, *handover, head)
	}
	d.rec.change(func(r *reconcile.Run) { r.Delivery.Done = err == nil })
	return err
}

// othersPushed reports whether a delivery failed only because others pushed to the branch
// since the agent's last turn, and an agent can merge their commits: its issue is still to be
// worked on.
func (d *deliveryStep) othersPushed(ctx context.Context, err error) bool {
	known, _ := errors.AsType[*reconcile.Error](err)
	if known == nil || known.Code != host.CodeDeliveryConflict {
		return false
	}
	pushed, err := d.pushedMeanwhile(ctx)
	d.warn("it is not known whether the agent can merge what others have pushed", err)
	if pushed == nil {
		return false
	}
	issue, visible, err := d.readIssue(ctx)
	if err != nil {
		d.warn("it is not known whether an agent will merge what others have pushed", err)
		return false
	}
	reason, _ := d.Config.Policy.StopReason(issue, visible)
	return reason == ""
}

// beginAgain fills a new workspace for a delivery with the commits that this machine kept of a
// workspace that is gone with its machine. A handover needs exactly the commit that was handed
// over.
func (d *deliveryStep) beginAgain(ctx context.Context, h *reconcile.Handover) error {
	gone := &reconcile.Error{
		Code:    reconcile.CodeWorkspaceGone,
		Message: d.space.Path + " is gone, with what the last run has committed there",
	}
	if !d.farClone() {
		return gone
	}
	if err := d.workspace.cloneOrFetch(ctx); err != nil {
		return err
	}
	kept := d.workspace.cloned.Kept
	if kept == "" || h.Asked() && kept != h.Commit {
		return gone
	}
	if err := d.workspace.hook(ctx, afterCreate, d.Config.Hooks.AfterCreate, ""); err != nil {
		return err
	}
	d.Log.Info("the workspace is gone: its commits are delivered from this machine", "commit", d.workspace.cloned.Kept)
	return d.host.Confirm(ctx, host.ConfirmRequest{})
}

// redeliver is the only step of a delivery run.
func (d *deliveryStep) redeliver(ctx context.Context) error {
	h := d.rec.get().Delivery.Handover
	delivers := d.Config.Repository.Deliver
	if !delivers && h != nil && h.Delivers {
		return reconcile.NewError(
			host.CodeDeliveryFailed,
			"its commits have to be pushed before the handover, and the workflow pushes none now",
			"set repository.url again, without deliver: none; or move the issue yourself",
		)
	}
	if !delivers && !d.needsVerify(h, "") { // only the issue is to be handed over
		return d.deliverAndHandOver(ctx, false)
	}
	answer, err := d.host.Prepare(ctx, d.workspace.prepareRequest())
	d.workspace.recordWorkspace(answer)
	if err != nil {
		return err
	}
	if d.space.Created {
		if err := d.beginAgain(ctx, h); err != nil {
			return errors.Join(err, d.host.Confirm(ctx, host.ConfirmRequest{Discard: true}))
		}
	}
	if err := d.verifyAgain(ctx, h); err != nil {
		return err
	}
	if err := d.deliverAndHandOver(ctx, delivers); err != nil {
		return err
	}
	if d.rec.get().Delivery.OthersPushed {
		const why = "nothing was pushed: others have pushed to its branch meanwhile, " +
			"which its agent has to merge"
		return runEnd{reconcile.Canceled, reconcile.CodeOthersPushed, why}
	}
	return nil
}
