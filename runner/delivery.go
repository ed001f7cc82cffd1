package runner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// deliveryStep delivers the commits of the workspace, and hands the issue over.
type deliveryStep struct {
	*parts
	issue     *issueReader
	claim     *claimKeeper
	branch    *issueBranch
	pull      *pullRequest
	verifier  *verifier
	workspace *workspaceStep

	look host.Look // at the delivered commits
}

// deliver pushes the commits of the workspace, stores the result, and opens a pull request if
// the workflow wants that. A branch that someone deleted before its pull request was opened is
// pushed again. head is the newest commit of the workspace.
func (d *deliveryStep) deliver(
	ctx context.Context,
) (result reconcile.DeliveryResult, head string, err error) {
	branch, last, err := d.branch.name(ctx)
	if err != nil {
		return result, "", err
	}
	d.rec.phase(ctx, reconcile.DeliveringWork)
	env, err := d.shell.gitEnv(ctx)
	if err != nil {
		return result, "", err
	}
	result, head, err = d.deliverSince(ctx, branch, last, env)
	if errors.Is(err, reconcile.ErrNoBranch) {
		result, head, err = d.deliverSince(ctx, branch, reconcile.Delivered{}, env)
	}
	return result, head, err
}

// deliverSince delivers the commits that the last delivery to the branch did not contain.
func (d *deliveryStep) deliverSince(
	ctx context.Context,
	branch string,
	last reconcile.Delivered,
	env []string,
) (result reconcile.DeliveryResult, head string, err error) {
	if err := d.disarm(ctx, env); err != nil {
		return result, "", err
	}
	repository := d.site.Config.Repository.Repository
	timeout := max(repositoryTimeout, d.site.Config.Hooks.Timeout)
	answer, err := d.site.host.Deliver(ctx, host.DeliverRequest{
		Repository:   repository,
		Branch:       branch,
		Delivered:    last.Commit,
		Again:        d.mayPushAgain(last),
		TakeDropped:  d.rec.get().Delivery.Handover.TakesAnything(),
		Fence:        d.claim.fence(branch, timeout),
		ClaimsBranch: d.site.Config.Repository.ClaimsBranch,
		Check: host.Check{
			Script:  d.site.Config.Repository.Check,
			Timeout: d.site.Config.Hooks.Timeout,
			Env:     d.site.Config.Repository.withoutToken(env),
		},
		Commands: d.site.Config.scripts(),
		Timeout:  timeout,
		Env:      env,
	})
	if err != nil {
		logOutput(d.Log, err)
		return result, "", err
	}
	d.takeSigned(answer)
	d.look = answer.Look
	isUnknown := last.Proof == reconcile.UnknownProof && answer.Commit == last.Commit
	switch {
	case answer.Commits == 0 && !isUnknown:
		d.Log.Info("nothing to push")
	case answer.Commits == 0:
		d.Log.Info("nothing to push, and the commits were looked at")
		last.Proof = reconcile.QuotedNames(answer.Proof)
		if err := d.Journal.RecordDelivered(context.WithoutCancel(ctx), d.run.IssueID, last); err != nil {
			return result, answer.Commit, err
		}
	default:
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
			// such as "ops/WORKFLOW.md, bin/tracker"
			Workflow: strings.Join(answer.Obeyed, ", "),
			Proof:    reconcile.QuotedNames(answer.Proof),
			Origin:   last.Origin,
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

// mayPushAgain reports whether to look for a branch that someone deleted, if nothing is new: for an
// operator, and at a hand-over, which names the branch. That of a pull request may have been merged.
func (d *deliveryStep) mayPushAgain(last reconcile.Delivered) bool {
	if d.run.Kind == reconcile.DeliveryRun {
		return true
	}
	return d.rec.get().Delivery.Handover.Waits() && last.PullRequest == ""
}

// disarm takes back that the forge merges the pull request by itself: it would merge what is
// pushed now, which nobody has approved.
func (d *deliveryStep) disarm(ctx context.Context, env []string) error {
	if d.Forge == nil {
		return nil
	}
	watch, _, err := d.Journal.Watch(ctx, d.run.IssueID)
	if err != nil || !watch.MayBeArmed() {
		return err
	}
	if err := d.claim.confirm(ctx, reconcile.Delivered{}, watch); err != nil {
		return err
	}
	if err := d.Journal.BeginDisarm(ctx, d.run.IssueID); err != nil {
		return err
	}
	crash.At("runner.disarming")
	disarm := func(ctx context.Context) (struct{}, error) {
		forge, err := d.Forge(ctx, env)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, forge.DisarmMerge(ctx, watch.Pull.Number)
	}
	_, err = host.Within(ctx, pullRequestTimeout, host.CodeDeliveryFailed, "the end of auto-merge", disarm)
	if err != nil {
		return adding("nothing is pushed, because auto-merge could not be ended", err, host.CodeDeliveryFailed)
	}
	crash.At("runner.disarmed")
	d.Log.Info("auto-merge was ended before the push", "url", watch.Pull.URL)
	return d.Journal.EndMerge(context.WithoutCancel(ctx), d.run.IssueID)
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
	if d.Forge == nil || last.Branch == "" || last.PullRequest != "" {
		return false
	}
	if d.site.Config.Handoff.State == "" {
		return true
	}
	return h.Waits() && h.Blocked == "" && !d.site.Config.Verify.isDue(h, last.Commit)
}

const pullRequestTimeout = 2 * time.Minute

// openPullRequest opens a pull request for the delivered commits, unless it exists, and stores
// its address.
func (d *deliveryStep) openPullRequest(
	ctx context.Context,
	last reconcile.Delivered,
	env []string,
) (address string, err error) {
	request, err := d.newPull(ctx, last)
	if err != nil {
		return "", err
	}
	crash.At("forge.Open.before")
	open := func(ctx context.Context) (reconcile.OpenedPull, error) {
		forge, err := d.Forge(ctx, env)
		if err != nil {
			return reconcile.OpenedPull{}, err
		}
		return forge.Open(ctx, request)
	}
	answer, err := host.Within(ctx, pullRequestTimeout, host.CodeDeliveryFailed, "the "+d.pull.words().Name, open)
	crash.At("forge.Open.after")
	if err != nil {
		failed := last.Branch + " is pushed, but has no " + d.pull.words().Name
		return "", adding(failed, err, host.CodeDeliveryFailed)
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

// newPull describes the pull request for the delivered commits.
func (d *deliveryStep) newPull(ctx context.Context, last reconcile.Delivered) (reconcile.NewPull, error) {
	watch, _, err := d.Journal.Watch(ctx, d.run.IssueID)
	if err != nil {
		return reconcile.NewPull{}, err
	}
	run := d.rec.get()
	body := pullRequestBody(run.Issue, run.Delivery.Handover.VerifiedText(last.Commit), d.workflowText())
	return reconcile.NewPull{
		Known:  watch.Pull.ID,
		Branch: last.Branch,
		Commit: last.Commit,
		Base:   last.Base,
		Title:  d.Redactor.Text(pullRequestTitle(run.Issue)),
		Body:   d.Redactor.Text(body),
	}, nil
}

// adding returns the error of a forge or a tracker with a code, and with what failed because of it.
func adding(what string, err error, code string) error {
	known, ok := errors.AsType[*reconcile.Error](err)
	if !ok {
		return err
	}
	why := strings.TrimSuffix(known.Message+"; "+known.Hint, "; ")
	return &reconcile.Error{Code: code, Message: what + ": " + why, Err: err}
}

// workflowText warns of work that changes the WORKFLOW.md of its own project, or another file
// that decides what symphony runs; empty for other work.
func (d *deliveryStep) workflowText() string {
	if len(d.look.Obeyed) == 0 {
		return ""
	}
	return "The work changes what symphony runs for this project, outside the sandbox, too: " +
		reconcile.QuotedNames(d.look.Obeyed) + ". Review that before you merge it."
}

// notes says what people should know about the work that is handed over, a line each.
func notes(look host.Look, leave []string) (lines []string) {
	if look.Unrelated {
		lines = append(lines, "The work has no common history with the base.")
	}
	for _, list := range []struct {
		says  string
		names []string
	}{
		{"A merge has left its marks in ", look.Markers},
		{"The work deletes tests: ", look.DeletedTests},
		{"The work changes tests: ", look.ChangedTests},
		{"Left as it is, on purpose: ", leave},
	} {
		if len(list.names) > 0 {
			lines = append(lines, list.says+reconcile.QuotedNames(list.names)+".")
		}
	}
	return lines
}

// deliverAfterRun delivers the commits of an agent's run, and hands its issue over if the
// agent asked for it. Passes do it later if it fails, or if ctx ends first because the run is
// asked to stop: neither changes the outcome of the run. Only a claim that another machine has
// is returned as an error.
func (d *deliveryStep) deliverAfterRun(ctx context.Context) error {
	run := d.rec.get()
	delivers := d.site.Config.Repository.Deliver && d.site.space != nil && run.Turns > 0
	if run.Kind != reconcile.AgentRun || !delivers && !run.Delivery.Handover.Waits() {
		return nil
	}
	if ctx.Err() != nil {
		if delivers && !run.Delivery.Handover.Waits() {
			d.noteNoCommits(ctx)
		}
		return lostClaim(ctx)
	}
	end := d.handOverAlone
	if delivers {
		end = d.deliverAndHandOver
	}
	err := end(ctx)
	if err == nil || team.IsLost(err) {
		return err
	}
	if ctx.Err() == nil {
		d.noteFailure(err)
	}
	return lostClaim(ctx)
}

// noteFailure records why the commits were not delivered.
func (d *deliveryStep) noteFailure(err error) {
	code, message := codeOf(err)
	d.rec.change(func(r *reconcile.Run) {
		r.Delivery.Code = code
		r.Delivery.Message = d.Redactor.Text(message)
	})
	warn(d.Log, "the work was not delivered", err)
}

// noCommitsPatience is how long a stop may take to look for commits: the run is to end soon.
const noCommitsPatience = 2 * time.Second

// noteNoCommits records that nothing remains to be delivered, if the stopped agent has made no
// commit. Otherwise a hold would say that its work is not delivered.
func (d *deliveryStep) noteNoCommits(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noCommitsPatience)
	defer cancel()
	found, err := d.site.Machine.Inspect(ctx, host.WorkspaceRequest{Path: d.site.space.Path})
	git := found.Git
	if err != nil || git == nil || git.Ahead == nil || *git.Ahead > 0 || len(git.Elsewhere) > 0 {
		return
	}
	d.rec.change(func(r *reconcile.Run) { r.Delivery.Done = true })
}

// handOverAlone hands the issue over if the agent asked for it, and delivers nothing.
func (d *deliveryStep) handOverAlone(ctx context.Context) error {
	d.rec.change(func(r *reconcile.Run) {
		r.Delivery = reconcile.DeliveryResult{Handover: r.Delivery.Handover}
	})
	return d.handOverIfAsked(ctx, "")
}

// deliverAndHandOver delivers the commits, and hands the issue over if the agent asked for it.
func (d *deliveryStep) deliverAndHandOver(ctx context.Context) error {
	result, head, err := d.deliver(ctx)
	if isConflict(err) {
		taken := d.takenElsewhere(ctx)
		if taken != nil {
			err = taken
		}
	}
	if d.othersPushed(ctx, err) {
		d.Log.Info("nothing is delivered: others have pushed to the branch")
		d.rec.change(func(r *reconcile.Run) { r.Delivery = reconcile.DeliveryResult{OthersPushed: true} })
		return nil
	}
	d.rec.change(func(r *reconcile.Run) {
		result.Handover = r.Delivery.Handover
		r.Delivery = result
	})
	if err != nil {
		return err
	}
	return d.handOverIfAsked(ctx, head)
}

// takenElsewhere returns why a delivery conflicts, if a claim in the remote says it: another machine has
// the issue, or the branch belongs to another issue. Otherwise it returns nil.
func (d *deliveryStep) takenElsewhere(ctx context.Context) error {
	if err := d.claim.takenElsewhere(ctx); err != nil {
		return err
	}
	branch, last, err := d.branch.name(ctx)
	if err != nil || last.Commit != "" {
		return nil //nolint:nilerr // the conflict is what people read
	}
	return d.claim.checkBranch(ctx, branch)
}

// handOverIfAsked hands the issue over if the agent asked for it, and records that the delivery
// is done.
func (d *deliveryStep) handOverIfAsked(ctx context.Context, head string) error {
	handover := d.rec.get().Delivery.Handover
	if handover.Waits() {
		if err := d.handOver(ctx, *handover, head); err != nil {
			return err
		}
	}
	d.rec.change(func(r *reconcile.Run) { r.Delivery.Done = true })
	return nil
}

// isConflict reports whether a delivery failed because the branch has commits that it would push over.
func isConflict(err error) bool {
	known, ok := errors.AsType[*reconcile.Error](err)
	return ok && known.Code == host.CodeDeliveryConflict
}

// othersPushed reports whether a delivery failed only because others pushed to the branch
// since the agent's last turn, and an agent can merge their commits: its issue is still to be
// worked on.
func (d *deliveryStep) othersPushed(ctx context.Context, err error) bool {
	if !isConflict(err) {
		return false
	}
	pushed, err := d.branch.pushedMeanwhile(ctx)
	if pushed == nil && err == nil {
		pushed, err = d.branch.foundMeanwhile(ctx)
	}
	warn(d.Log, "branch not fetched", err)
	if pushed == nil {
		return false
	}
	issue, visible, err := d.issue.read(ctx)
	if err != nil {
		warn(d.Log, "issue not read", err)
		return false
	}
	reason, _ := d.site.Config.Policy.StopReason(issue, visible)
	return reason == ""
}

// beginAgain fills a new workspace for a delivery with the commits that this machine kept of a
// workspace that is gone with its machine. A handover needs exactly the commit that was handed
// over.
func (d *deliveryStep) beginAgain(ctx context.Context, h *reconcile.Handover) error {
	gone := &reconcile.Error{
		Code:    reconcile.CodeWorkspaceGone,
		Message: d.site.space.Path + " is gone, with what the last run has committed there",
	}
	if !d.site.farClone() {
		return gone
	}
	if err := d.workspace.cloneOrFetch(ctx); err != nil {
		return err
	}
	kept := d.workspace.cloned.Kept
	if kept == "" || h.Asked() && kept != h.Commit {
		return gone
	}
	if err := d.workspace.hook(ctx, afterCreate, d.site.Config.Hooks.AfterCreate, ""); err != nil {
		return err
	}
	d.Log.Info("the workspace is gone: kept commits are delivered", "commit", kept)
	return d.site.host.Confirm(ctx, host.ConfirmRequest{})
}

// redeliver is the only step of a delivery run.
func (d *deliveryStep) redeliver(ctx context.Context) error {
	h := d.rec.get().Delivery.Handover
	delivers := d.site.Config.Repository.Deliver
	if !delivers && h != nil && h.Delivers {
		return reconcile.NewError(
			host.CodeDeliveryFailed,
			"its commits have to be pushed, and the workflow pushes none now",
			"set repository.url and deliver again, or move the issue yourself",
		)
	}
	delivers = delivers && (h == nil || !h.NoChange || h.Delivers)
	if !delivers && !d.site.Config.Verify.isDue(h, "") { // only the issue is to be handed over
		return d.handOverAlone(ctx)
	}
	answer, err := d.site.host.Prepare(ctx, d.workspace.prepareRequest())
	d.workspace.recordWorkspace(answer)
	if err != nil {
		return err
	}
	if d.site.space.Created {
		if err := d.beginAgain(ctx, h); err != nil {
			return errors.Join(err, d.site.host.Discard(ctx))
		}
	}
	if err := d.verifyAgain(ctx, h); err != nil {
		return err
	}
	end := d.handOverAlone
	if delivers {
		end = d.deliverAndHandOver
	}
	if err := end(ctx); err != nil {
		return err
	}
	if d.rec.get().Delivery.OthersPushed {
		const why = "nothing was pushed: others have pushed to its branch meanwhile"
		return runEnd{reconcile.Canceled, reconcile.CodeOthersPushed, why}
	}
	return nil
}
