package repository

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/team"
)

// fence is the change of a claim that a delivery pushes together with its branch, so that a machine
// that has lost its claim delivers nothing.
type fence struct {
	claimPush
	layout claimLayout
	change team.Change
	// moves counts how often the claim, or the branch of all claims, was another one than expected.
	moves int
}

// newFence returns the fence of a push with a change of a claim. branch is where the claims are; empty
// for references.
func (m *Mirror) newFence(change team.Change, branch string) *fence {
	return &fence{layout: m.claimsOf(branch).layout(), change: change}
}

// prepare makes the objects to push.
func (f *fence) prepare(ctx context.Context) (err error) {
	f.claimPush, err = f.layout.prepare(ctx, f.change, nil)
	if errors.Is(err, errClaimMoved) {
		return f.again(ctx)
	}
	return err
}

// isThere reports whether the remote has the new claim, whose reference it has at a commit.
func (f *fence) isThere(at string) bool { return at == f.commit }

// again prepares another push after one that failed, or tells why there is none.
func (f *fence) again(ctx context.Context) error {
	f.moves++
	if f.moves > mostMoves {
		return reconcile.NewError(
			host.CodeDeliveryFailed,
			fmt.Sprintf("the claims (%s) changed during each of %d pushes", f.layout.place(), mostMoves),
			"",
		)
	}
	if f.moves > 1 {
		if err := pause(ctx, f.moves); err != nil {
			return err
		}
	}
	seen, err := f.layout.look(ctx)
	if err != nil {
		return err
	}
	there := seen.find(f.change.Key)
	switch there.Object {
	case f.change.Old:
	case f.object: // an earlier push has put it there, and its answer was lost
		f.change.Old = f.object
	default:
		return f.lost(there)
	}
	f.claimPush, err = f.layout.prepare(ctx, f.change, &seen)
	return err
}

// lost is the error of a claim that is another one in the remote, or none.
func (f *fence) lost(there team.Entry) error {
	who := "it was deleted"
	if there.Object != "" {
		who = "it was replaced"
		claim, err := team.Parse(there.Content)
		if err == nil {
			who = text.Visible(claim.Holder()) + " has it"
		}
	}
	return reconcile.NewError(
		host.CodeClaimLost,
		fmt.Sprintf("this machine has lost the claim %s: %s",
			f.change.Key, who),
		"the commits are kept in the workspace",
	)
}

// refuseClaimed returns an error if another machine has the claim of the run's issue, which was fetched with the
// branches. Nobody counts its term here, so that the time in the claim has to do.
func (m *Mirror) refuseClaimed(ctx context.Context) error {
	if m.remote.Claim == "" {
		return nil
	}
	var found gitcmd.Answer
	cmd := m.localGit(ctx, "cat-file", "--batch")
	cmd.Stdin = strings.NewReader(claimsDir + m.remote.Claim + "\n" +
		host.UsualClaimsBranch + ":" + m.remote.Claim + claimFile + "\n")
	cmd.Stdout = &found
	if err := m.run(cmd); err != nil {
		return m.failed(host.CodeRepositoryUnavailable, "look for a claim of the issue", err)
	}
	for line := range strings.Lines(found.String()) {
		claim, err := team.Parse(line)
		if err != nil || claim.Holder() == m.remote.Alone || !claim.MayLive(time.Now()) {
			continue
		}
		return reconcile.NewError(
			host.CodeIssueElsewhere,
			fmt.Sprintf("%s has %s since %s, and repository.claims is off here",
				text.Visible(claim.Holder()), text.Visible(claim.Identifier), claim.Since.Local().Format("Jan 2 15:04")),
			"set repository.claims: true here, too",
		)
	}
	return nil
}

// noAtomic matches git's message for a remote that can't carry out several changes or none of them.
var noAtomic = text.Pattern(`the receiving end does not support --atomic push`)

// notAtomic is the error of such a remote.
func notAtomic(address string, err error) error {
	return &reconcile.Error{
		Code:    host.CodeClaimsNotAtomic,
		Message: address + " knows no atomic pushes, for a branch with its claim",
		Hint:    "set receive.advertiseAtomic there, or leave out repository.claims",
		Err:     err,
	}
}
