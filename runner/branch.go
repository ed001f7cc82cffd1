package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// issueBranch is the branch of the run's issue, in its workspace and in the remote repository.
type issueBranch struct {
	*parts

	delivered reconcile.Delivered // the last push for the issue, if there is no journal
	base      host.FetchAnswer    // of the last fetch; without a Commit if nothing was fetched
}

// repositoryTimeout bounds a clone or a push, which may have to transfer much. A longer limit
// of hooks counts instead.
const repositoryTimeout = 10 * time.Minute

// name returns the name of the branch, and the last push to it. An issue keeps its branch once
// something was pushed, even if its title or the workflow changes.
func (b *issueBranch) name(ctx context.Context) (name string, last reconcile.Delivered, err error) {
	last = b.delivered
	if b.Journal != nil {
		last, _, err = b.Journal.Delivered(ctx, b.run.IssueID)
		if err != nil {
			return "", last, err
		}
	}
	repository := b.site.Config.Repository
	if last.URL == repository.URL {
		return last.Branch, last, nil
	}
	name, err = repository.Branch.Render(b.rec.get().Issue, 0)
	if err != nil || name != last.Branch {
		return name, reconcile.Delivered{}, err
	}
	// the new address may lead to the same repository
	return name, reconcile.Delivered{Commit: last.Commit}, nil
}

// recordFound records the commit of a branch that is there, although nothing was delivered to it from
// here: the next delivery continues it.
func (b *issueBranch) recordFound(
	ctx context.Context,
	branch string,
	found host.FoundBranch,
	base string,
	now time.Time,
) error {
	if b.Journal == nil {
		return nil
	}
	return b.Journal.RecordDelivered(ctx, b.run.IssueID, reconcile.Delivered{
		URL:    b.site.Config.Repository.URL,
		Branch: branch,
		Commit: found.Commit,
		Base:   base,
		At:     now,
		Proof:  reconcile.UnknownProof,
		Origin: found.Origin,
	})
}

// cloneRequest is the request to clone or to fetch.
func (b *issueBranch) cloneRequest(
	ctx context.Context,
	branch string,
	last reconcile.Delivered,
) (host.CloneRequest, error) {
	env, err := b.shell.gitEnv(ctx)
	if err != nil {
		return host.CloneRequest{}, err
	}
	checkout, err := b.shell.checkoutEnv(ctx)
	if err != nil {
		return host.CloneRequest{}, err
	}
	repository := b.site.Config.Repository.Repository
	if repository.Alone != "" {
		repository.Claim = team.Key(b.run.Issue.Origin())
	}
	return host.CloneRequest{
		Repository:  repository,
		Branch:      branch,
		Delivered:   last.Commit,
		Timeout:     max(repositoryTimeout, b.site.Config.Hooks.Timeout),
		Env:         env,
		CheckoutEnv: checkout,
	}, nil
}

// pushedMeanwhile returns others' pushes to the branch since the last delivery that the
// workspace does not contain; nil for none. Before the first delivery there is no such branch.
// Programs of the agent may be at work.
func (b *issueBranch) pushedMeanwhile(ctx context.Context) (*host.Pushed, error) {
	q, err := b.pushedRequest(ctx)
	if err != nil || q == nil {
		return nil, err
	}
	return b.look(ctx, *q)
}

// foundMeanwhile is pushedMeanwhile before the first delivery from here: another machine of a team may
// have made the branch, whose claim somebody has deleted.
func (b *issueBranch) foundMeanwhile(ctx context.Context) (*host.Pushed, error) {
	if !b.site.Config.Repository.Team {
		return nil, nil
	}
	name, last, err := b.name(ctx)
	if err != nil || last.Commit != "" {
		return nil, err
	}
	q, err := b.cloneRequest(ctx, name, last)
	if err != nil {
		return nil, err
	}
	return b.look(ctx, q)
}

// look returns others' pushes to the branch that the workspace does not contain; nil for none.
func (b *issueBranch) look(ctx context.Context, q host.CloneRequest) (*host.Pushed, error) {
	q.Look = true
	answer, err := b.site.host.Fetch(ctx, q)
	if err != nil || answer.Pushed == nil || answer.Pushed.Taken {
		return nil, err
	}
	return answer.Pushed, nil
}

// fetchPushed fetches others' pushes to the branch since the last delivery, and moves the
// workspace to them, where that is possible; nil for none.
func (b *issueBranch) fetchPushed(ctx context.Context) (*host.Pushed, error) {
	q, err := b.pushedRequest(ctx)
	if err != nil || q == nil {
		return nil, err
	}
	answer, err := b.site.host.Fetch(ctx, *q)
	return answer.Pushed, err
}

// pushedRequest is the request to fetch the branch of the last delivery; nil if nothing was
// delivered to the repository, or nothing is to be.
func (b *issueBranch) pushedRequest(ctx context.Context) (*host.CloneRequest, error) {
	repository := b.site.Config.Repository
	if !repository.Deliver {
		return nil, nil
	}
	last, _, err := b.Journal.Delivered(ctx, b.run.IssueID)
	if err != nil || last.Branch == "" || last.URL != repository.URL {
		return nil, err
	}
	q, err := b.cloneRequest(ctx, last.Branch, last)
	return &q, err
}

// takePushed records others' pushes, which the next turn tells the agent. A merge of the base that
// a pass has pushed looks like one.
func (b *issueBranch) takePushed(ctx context.Context, p *host.Pushed) {
	b.base.Pushed = p
	if p == nil {
		return
	}
	watch, _, err := b.Journal.Watch(ctx, b.run.IssueID)
	warn(b.Log, "state of the pull request not read", err)
	p.OfBase = watch.IsBaseMerge(p.Commit)
	who := "others have pushed"
	if p.OfBase {
		who = "symphony has merged the base and pushed"
	}
	b.Log.Info(
		who+" to the branch",
		"commit", p.Commit,
		"commits", p.Total,
		"taken", p.Taken,
		"why", p.Why,
	)
	how := "the workspace has them"
	if !p.Taken {
		how = fmt.Sprintf("the agent has to merge %.12s, because %s", p.Commit, p.Why)
	}
	b.events.note("pushed", who+" "+text.Plural(p.Total, "commit")+" to the branch: "+how, p)
}

// deliverable returns what people should know about the commits of the workspace, or why they
// can't be delivered, as far as that is their own fault, such as a missing file of Git LFS.
func (b *issueBranch) deliverable(ctx context.Context) (look host.Look, err error) {
	branch, last, err := b.name(ctx)
	if err != nil {
		return look, err
	}
	env, err := b.shell.gitEnv(ctx)
	if err != nil {
		return look, err
	}
	answer, err := b.site.host.Deliver(ctx, host.DeliverRequest{
		Repository: b.site.Config.Repository.Repository,
		Branch:     branch,
		Delivered:  last.Commit,
		Try:        true,
		Timeout:    repositoryTimeout,
		Env:        env,
	})
	return answer.Look, err
}

// keep copies the commits of the workspace to this machine, if they are on another machine: if
// that dies, such as a container, it costs at most the running turn. A handover knows which
// commit it is about.
func (b *issueBranch) keep(ctx context.Context) {
	if !b.site.farClone() {
		return
	}
	commit, err := b.site.host.Keep(ctx, b.site.here.keepRequest(b.run.IssueID))
	if err != nil {
		warn(b.Log, "the commits are not copied to this machine", err)
		return
	}
	b.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = r.Delivery.Handover.About(commit) })
}

// forget drops the commits that were kept of a workspace, after it was removed.
func (b *issueBranch) forget(ctx context.Context) {
	err := b.site.host.Forget(ctx, b.site.here.keepRequest(b.run.IssueID))
	warn(b.Log, "the commits of the workspace stay on this machine", err)
}

// keepRequest asks this machine to keep the commits of an issue. That needs no remote, and so
// no login shell.
func (p Place) keepRequest(issueID string) host.KeepRequest {
	return host.KeepRequest{
		Repository: p.Config.Repository.Repository,
		Issue:      issueID,
		Timeout:    max(repositoryTimeout, p.Config.Hooks.Timeout),
		Env:        p.Config.HookEnv(p.Env),
	}
}
