package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/team"
)

// delivery is a push of work to a branch.
type delivery struct {
	*Mirror
	host.Work
	branch, base string // base is known after receive
	last         string // the commit that was delivered last, empty if there is none
	commands     string // of which Look.Proof tells
	try          bool   // nothing is pushed
	again        bool   // the last delivery counts as nothing if its branch was deleted since
	fence        *fence // the claim that is pushed together with the branch; nil for none
}

// DeliverWorkspace pushes HEAD of a workspace on this machine as host.DeliverRequest
// describes.
func (m *Mirror) DeliverWorkspace(
	ctx context.Context, workspace string, cloned host.Origin, q host.DeliverRequest,
) (answer host.DeliverAnswer, err error) {
	work, err := m.workOf(workspace, cloned)
	if err != nil {
		return answer, m.failed(host.CodeDeliveryFailed, "read HEAD of "+workspace, err)
	}
	answer, err = m.Deliver(ctx, q, work)
	if err != nil {
		return answer, err
	}
	if answer.Commits > 0 && !q.Try {
		// If this fails, the workspace is kept as unsaved.
		_ = git.SetRemoteBranch(workspace, q.Branch, answer.Commit)
	}
	if answer.Head != "" {
		// The tree is the same. If this fails, the next delivery finds the signed commits in
		// the mirror.
		_ = git.MoveHead(workspace, answer.Head, answer.Commit)
	}
	return answer, nil
}

// workOf returns HEAD of a workspace on this machine.
func (m *Mirror) workOf(workspace string, cloned host.Origin) (work host.Work, err error) {
	head, err := git.HeadOf(workspace)
	if err != nil {
		return work, err
	}
	work = host.Work{Commit: head.Commit, Cloned: cloned, GitDir: head.GitDir()}
	work.Pack = func(ctx context.Context, have []string, to io.Writer) (err error) {
		objects, err := m.takeObjects(workspace, cloned)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(objects)) }()
		return m.pack(ctx, objects, []string{head.Commit}, have, to)
	}
	return work, nil
}

// WithHashedClone calls use with what is known of the clone in a workspace, completed by HEAD and
// by the objects as a delivery would push them: git hashed them in a directory that exists until
// use returns, or they are in the mirror.
func (m *Mirror) WithHashedClone(
	ctx context.Context,
	workspace string,
	clone git.Clone,
	use func(git.Clone) error,
) (failed error) {
	work, err := m.workOf(workspace, clone.Origin)
	if err != nil {
		return git.Failed(err, "read HEAD of %s", workspace)
	}
	clone.Commit = work.Commit
	clone.Objects = []string{filepath.Join(m.path, "objects")}
	if err := m.renewConfig(); err != nil {
		return git.Failed(err, "read the commits of %s", workspace)
	}
	d := &delivery{Mirror: m, Work: work}
	if work.Commit == "" || d.isComplete(ctx) {
		return use(clone)
	}
	incoming, err := d.hashCommits(ctx)
	defer func() { failed = errors.Join(failed, os.RemoveAll(incoming)) }()
	if err != nil {
		return git.Failed(err, "read the commits of %s", workspace)
	}
	clone.Objects = append([]string{incoming}, clone.Objects...)
	return use(clone)
}

// Deliver implements host.Mirror. It overwrites the branch only if it is where symphony left
// it, or where replaceable allows it.
func (m *Mirror) Deliver(
	ctx context.Context,
	q host.DeliverRequest,
	work host.Work,
) (answer host.DeliverAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	d := &delivery{
		Mirror:   m,
		Work:     work,
		branch:   q.Branch,
		last:     q.Delivered,
		commands: q.Commands,
		try:      q.Try,
		again:    q.Again,
	}
	answer.Commit = d.Commit
	if err := host.CheckCommit(d.Commit, q.Commit); err != nil {
		return answer, err
	}
	if cloned := work.Cloned; cloned.URL != m.remote.URL && cloned.URL != m.Address() {
		// there is nothing to deliver
		if d.Commit != "" && (d.Commit == cloned.Commit || d.Commit == d.last) {
			return answer, nil
		}
		if err := d.mustContain(ctx); err != nil {
			return answer, err
		}
	}
	if err := d.receive(ctx); err != nil {
		return answer, err
	}
	answer.Base = d.base
	if q.TakeDropped {
		answer.BaseCommit, err = d.commitOf(ctx, d.base)
	} else {
		err = d.checkDropped(ctx)
	}
	if err == nil {
		err = d.checkRelated(ctx)
	}
	if err != nil {
		return answer, err
	}
	if m.remote.Sign && d.Commit != "" && !q.Try {
		if err := d.sign(ctx); err != nil {
			return answer, err
		}
		if answer.Commit != d.Commit {
			answer.Head = answer.Commit
			answer.Commit = d.Commit
		}
	}
	answer.Look, err = d.look(ctx)
	if err != nil {
		return answer, err
	}
	answer.Commits, err = d.count(ctx)
	if err != nil || answer.Commits == 0 {
		return answer, err
	}
	if err := d.checkSubmodules(ctx); err != nil {
		return answer, err
	}
	if err := d.check(ctx, q.Check); err != nil {
		return answer, err
	}
	if err := d.deliverLargeFiles(ctx); err != nil || q.Try {
		return answer, err
	}
	crash.At("repository.deliver.copied")
	if err := d.pushFenced(ctx, q); err != nil {
		return answer, err
	}
	crash.At("repository.deliver.pushed")
	// as a fetch would; if this fails, the next fetch does it
	_ = d.record(ctx, "refs/heads/"+d.branch)
	return answer, nil
}

// mustContain returns an error unless the remote contains the commit of another address from
// which the workspace was cloned: else that was another repository, and a push would bring its
// whole history here. An empty address is not known, and no reason to refuse.
func (d *delivery) mustContain(ctx context.Context) error {
	cloned := d.Cloned
	if cloned.URL == "" {
		return nil
	}
	if d.exists() && d.renewConfig() == nil {
		known, err := d.has(ctx, cloned.Commit)
		if err == nil && known {
			return nil // else the mirror is updated, and asked again
		}
	}
	if _, err := d.current(ctx); err != nil {
		return err
	}
	known, err := d.has(ctx, cloned.Commit)
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "look for the clone's commit", err)
	}
	if known {
		return nil
	}
	return reconcile.NewError(
		host.CodeRepositoryChanged,
		fmt.Sprintf("the workspace was cloned from %s, and %s is another repository", cloned.URL, d.Address()),
		"set repository.url back, or push the commits yourself",
	)
}

// has reports whether a branch or a tag of the mirror contains a commit. None contains the
// empty commit.
func (m *Mirror) has(ctx context.Context, commit string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	out, err := m.output(
		m.localGit(ctx, "for-each-ref", "--count=1", "--contains="+commit, "refs/heads", "refs/tags"),
	)
	if gitcmd.ExitedWith(err, exitUsage) {
		return false, nil
	}
	return out != "", err
}

// exitUsage is the exit code of git for-each-ref for a commit that does not exist.
const exitUsage = 129

// receive brings HEAD of a workspace with its history into the mirror, and finds the base. It
// creates the mirror if it is missing.
func (d *delivery) receive(ctx context.Context) error {
	if err := d.findPresentBase(ctx); err != nil {
		return err
	}
	if !d.try {
		if err := d.checkNotCheckedOut(ctx, d.branch); err != nil {
			return err
		}
	}
	if err := d.checkBranch(ctx, d.branch, d.base); err != nil {
		return err
	}
	if d.Commit == "" || d.isComplete(ctx) {
		return nil
	}
	return d.failed(host.CodeDeliveryFailed, "copy the commits of the workspace", d.copyCommits(ctx))
}

// findPresentBase finds the base. It updates the mirror if the mirror does not know the base,
// or if the default branch of the remote or the base changed since the mirror was fetched, and
// there is something to push: a person may rename main to trunk, or replace its history, during
// a run.
func (d *delivery) findPresentBase(ctx context.Context) (err error) {
	if d.exists() {
		if err := d.renewConfig(); err != nil {
			return err
		}
		d.base, _ = d.findBase(ctx) // the update finds a base that is missing here
	}
	pushes := !d.try && d.Commit != "" && d.Commit != d.last
	if d.base != "" && (!pushes || !d.hasOtherBase(ctx)) {
		return nil
	}
	d.base, err = d.current(ctx)
	return err
}

// checkComplete returns an error if the mirror, with another directory of objects, lacks the
// commit or anything in its history. The contents of its branches and tags are not checked
// again.
func (d *delivery) checkComplete(ctx context.Context, objects string) error {
	list := d.localGit(ctx, "rev-list", "--objects", "--quiet", d.Commit, "--not", "--all")
	return d.run(withObjects(list, objects))
}

// isComplete reports whether the mirror has the commit with its history.
func (d *delivery) isComplete(ctx context.Context) bool { return d.checkComplete(ctx, "") == nil }

// copyCommits copies the commit of the workspace, and the missing part of its history, into
// the mirror. They reach the mirror only if the commit is complete, and only the objects that
// it needs.
func (d *delivery) copyCommits(ctx context.Context) (err error) {
	incoming, err := d.hashCommits(ctx)
	defer func() { err = errors.Join(err, os.RemoveAll(incoming)) }()
	if err != nil {
		return err
	}
	have, err := d.references(ctx)
	if err != nil {
		return err
	}
	to := filepath.Join(d.path, "objects", "pack", "pack")
	return d.withLock(ctx, func(writer) error {
		// The command is made under the lock, which git inherits: as long as git writes here,
		// nobody else does, even if this process dies.
		return d.run(d.packCommand(ctx, incoming, []string{d.Commit}, have, to))
	})
}

// hashCommits brings the objects of the workspace's commit that the mirror lacks into a
// directory, which the caller removes, even after an error: there git hashes all objects.
// Nothing is missing then. An agent can make all this wait, so the lock is not held meanwhile.
func (d *delivery) hashCommits(ctx context.Context) (incoming string, err error) {
	pack, err := d.temporary()
	if err != nil {
		return "", err
	}
	defer pack.Close()
	have, err := d.commonCommits(ctx)
	if err != nil {
		return "", err
	}
	if err := d.Pack(ctx, have, pack); err != nil {
		return "", err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	incoming, err = os.MkdirTemp(filepath.Dir(d.path), incomingPrefix)
	if err != nil {
		return "", err
	}
	index := withObjects(d.localGit(ctx, "index-pack", "--stdin"), filepath.Join(d.path, "objects"))
	index.Env = append(index.Env, "GIT_OBJECT_DIRECTORY="+incoming, allocLimit)
	index.Stdin = pack
	if err := d.run(index); err != nil {
		return incoming, err
	}
	return incoming, d.checkComplete(ctx, incoming)
}

// commonCommits returns commits that need not be copied.
func (d *delivery) commonCommits(ctx context.Context) ([]string, error) {
	if len(d.Work.Tips) == 0 {
		return d.references(ctx)
	}
	return d.existing(ctx, "", append(slices.Clone(d.Work.Tips), d.last))
}

// references lists the commits of all references.
func (d *delivery) references(ctx context.Context) ([]string, error) {
	out, err := d.output(d.localGit(ctx, "for-each-ref", "--format=%(objectname)"))
	return strings.Fields(out), err
}

// count returns the number of commits to push.
func (d *delivery) count(ctx context.Context) (int, error) {
	n, err := d.countNew(ctx)
	if err != nil || n > 0 || !d.again {
		return n, err
	}
	return d.countGone(ctx)
}

// countNew returns the number of commits in neither the base nor the last delivery. Commits
// delivered to another address of the repository count as new, because this address may lead
// to another repository.
func (d *delivery) countNew(ctx context.Context) (n int, err error) {
	if d.Commit == "" {
		return 0, nil
	}
	failed := func(err error) error { return d.failed(host.CodeDeliveryFailed, "count the commits", err) }
	args := []string{"rev-list", "--count", d.Commit, "^refs/heads/" + d.base}
	isOurs, err := d.attempted(ctx, d.branch, d.last)
	if err != nil {
		return 0, failed(err)
	}
	if isOurs {
		args = append(args, "^"+d.last)
	}
	out, err := d.output(d.localGit(ctx, append(args, "--")...))
	if err != nil {
		return 0, failed(err)
	}
	n, err = strconv.Atoi(out)
	return n, failed(err)
}

// countGone returns the number of commits that the last delivery pushed, if its branch is gone:
// then nothing counts as delivered. It is 0 if the branch exists.
func (d *delivery) countGone(ctx context.Context) (int, error) {
	if d.Commit == "" || d.last == "" {
		return 0, nil
	}
	at, err := d.remoteCommit(ctx, d.branch)
	if err != nil || at != "" {
		return 0, d.failed(host.CodeDeliveryFailed, "", err)
	}
	d.last = ""
	return d.countNew(ctx)
}

// pushFenced is push, together with the change of a claim if the request has one.
func (d *delivery) pushFenced(ctx context.Context, q host.DeliverRequest) error {
	if q.Fence == nil {
		return d.push(ctx)
	}
	return q.Fence(ctx, func(claim team.Change) (string, error) {
		d.fence = d.newFence(claim, q.ClaimsBranch)
		err := d.push(ctx)
		return d.fence.object, err
	})
}

// push pushes the commit to the branch, and makes sure that it is there, whatever git push
// reports.
func (d *delivery) push(ctx context.Context) error {
	if err := d.checkInherited(ctx); err != nil {
		return err
	}
	expected := d.last
	ref := "refs/heads/" + d.branch
	if err := d.record(ctx, attempts+d.branch+"/"+d.Commit); err != nil {
		return d.failed(host.CodeDeliveryFailed, "record the push to "+d.branch, err)
	}
	if d.fence != nil {
		if err := d.fence.prepare(ctx); err != nil {
			return err
		}
	}
	for moved := 0; moved < 2; {
		pushErr := d.runWithin(d.deliverCommand(ctx, ref, expected), gitcmd.NoLimit)
		at, claimAt, err := d.remoteState(ctx, ref)
		if err != nil && pushErr != nil {
			err = pushErr // it says more
		}
		if err != nil {
			return d.failed(host.CodeDeliveryFailed, "", err)
		}
		if pushErr != nil && d.fence != nil {
			again, err := d.checkClaim(ctx, at, claimAt)
			if err != nil {
				return err
			}
			if again {
				continue
			}
		}
		if at == d.Commit && (pushErr == nil || d.fence == nil || d.fence.isThere(claimAt)) {
			return nil
		}
		if pushErr == nil {
			return d.checkMoved(at, expected)
		}
		if at == expected || at == d.Commit {
			return d.notPushed(ctx, pushErr)
		}
		mayReplace, err := d.replaceable(ctx, at)
		if err != nil {
			return d.failed(host.CodeDeliveryFailed, "compare the commits with the branch "+d.branch, err)
		}
		if !mayReplace {
			return d.conflict(at)
		}
		expected = at
		moved++
	}
	return d.conflict(expected)
}

// checkInherited returns an error if another machine of a team has made the last delivery, and the
// commit does not build on it: it would be pushed over.
func (d *delivery) checkInherited(ctx context.Context) error {
	if d.fence == nil || d.last == "" {
		return nil
	}
	mayReplace, err := d.attempted(ctx, d.branch, d.last)
	if err == nil && !mayReplace {
		mayReplace, err = d.anyContains(ctx, []string{d.Commit, "refs/heads/" + d.base}, d.last)
	}
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "compare the commits with the last delivery", err)
	}
	if !mayReplace {
		return d.conflict(d.last)
	}
	return nil
}

// deliverCommand is the command that pushes the commit to the branch, which must be at expected, or
// must not exist if that is empty. With a claim it pushes both or nothing.
func (d *delivery) deliverCommand(ctx context.Context, ref, expected string) *exec.Cmd {
	branch := refChange{ref: ref, expected: expected, commit: d.Commit}
	if d.fence == nil {
		return d.pushCommand(ctx, []string{"--quiet"}, branch)
	}
	push := d.pushCommand(ctx, []string{"--quiet", "--atomic"}, branch, d.fence.refChange)
	return withObjects(push, d.fence.layout.objects())
}

// remoteState asks the remote for the commit of the branch, and of the reference with the claim;
// both are empty if there are none.
func (d *delivery) remoteState(ctx context.Context, ref string) (at, claimAt string, err error) {
	refs := []string{ref}
	if d.fence != nil {
		refs = append(refs, d.fence.ref)
	}
	now, err := d.remoteRefs(ctx, refs...)
	if err != nil || d.fence == nil {
		return now[ref], "", err
	}
	return now[ref], now[d.fence.ref], nil
}

// checkClaim finds out whether a push failed because of its claim. It returns an error if this
// machine has lost the claim, and whether to push again.
func (d *delivery) checkClaim(ctx context.Context, at, claimAt string) (again bool, err error) {
	if claimAt == d.fence.expected || d.fence.isThere(claimAt) {
		return false, nil
	}
	err = d.fence.again(ctx)
	return err == nil, err
}

// notPushed is the error of a push that failed although the remote is as it was expected.
func (d *delivery) notPushed(ctx context.Context, pushErr error) error {
	if d.fence != nil && noAtomic().MatchString(host.GitOutput(pushErr)) {
		return notAtomic(d.Address(), pushErr)
	}
	if refused := d.refused(ctx, pushErr); refused != nil {
		return refused
	}
	return d.failed(host.CodeDeliveryFailed, "", pushErr)
}

// byGit matches the reasons of git itself in the refusal of a push: nothing that other commits would help.
var byGit = text.Pattern(`(?i)^(?:unpacker error|failed to|cannot |funny |missing necessary|shallow|branch is currently|` +
	`atomic |deny |transaction|reference already|incorrect old|deletion |working directory|inconsistent|internal |` +
	`proc-receive failed|permission denied|.* is at .* but expected)`)

// rejected matches the refusal of a reference, with its reason; ofLimit what git says of commits that the
// settings of the remote refuse, before any hook: receive.maxInputSize and receive.fsckObjects.
var (
	rejected = text.Pattern(`\[remote rejected\].*\((.*)\)$`)
	ofLimit  = text.Pattern(`fatal: (?:pack exceeds maximum allowed size|fsck error in pack)`)
)

// isRule reports whether a line of git says that a rule of the remote refuses the push: one of a hook, of
// the service, or a limit.
func isRule(line string) bool {
	reason := rejected().FindStringSubmatch(line)
	return reason != nil && !byGit().MatchString(reason[1]) || ofLimit().MatchString(line)
}

// whatever matches sentences of the remote for which no other commits help: about a missing right, or a fault
// of its own. They begin the line: a word such as permission can be in the path of a file, too.
var whatever = text.Pattern(`(?i)^remote:\s*(?:[\w-]+:\s*)*(?:you are not (?:allowed|authorized) to push|permission (?:to \S+ )?denied|` +
	`you (?:do not|don't|can't) (?:have|push)|write access|(?:the|this|your) repository (?:is|was|has been) (?:read[- ]only|archived)|` +
	`(?:http )?5\d\d\b|internal server error|no space|no permission|(?:the )?disk\b.*\bfull|.*no space left on device|.*disk quota exceeded)`)

// Of what the remote says, an agent gets the last lines.
const (
	mostSaid    = 8
	longestSaid = 200 // bytes of a line
)

// refused returns the error of a push that a rule of the remote refused because of the commits, which an
// agent can replace by others; nil for other errors.
func (d *delivery) refused(ctx context.Context, pushErr error) error {
	said, ok := errors.AsType[host.GitError](pushErr)
	if !ok || !slices.ContainsFunc(said.Lines, isRule) {
		return nil
	}
	isRewritten := false
	if d.last != "" {
		builds, err := d.contains(ctx, d.Commit, d.last)
		isRewritten = err == nil && !builds
	}
	if !isRewritten && slices.ContainsFunc(said.Lines, whatever().MatchString) {
		return nil
	}
	lines := text.Filter(said.Lines, func(line string) bool { return strings.HasPrefix(line, "remote:") })
	if len(lines) == 0 {
		lines = text.Filter(said.Lines, isRule)
	}
	if isRewritten {
		lines = append(lines, "it may take no rewritten history: put your work on top of refs/remotes/origin/"+d.branch)
	}
	return refusal("the remote", lines)
}

// refusal is the error of commits that the remote or repository.check refuses, with its last lines.
func refusal(who string, lines []string) error {
	lines = lines[max(0, len(lines)-mostSaid):]
	shown := text.Map(lines, func(line string) string {
		return text.Within(strings.TrimSpace(strings.TrimPrefix(line, "remote:")), longestSaid)
	})
	return reconcile.NewError(host.CodeDeliveryRefused, who+host.RefusesCommits+strings.Join(shown, "; "), "")
}

// checkMoved returns an error if the remote accepted a push, and the branch is gone or where it
// was before. At another commit it is in order: someone has pushed on top meanwhile, such as a
// program that formats each push, which the next fetch finds.
func (d *delivery) checkMoved(at, before string) error {
	if at != "" && at != before {
		return nil
	}
	err := fmt.Errorf("the remote accepted the push, but has no branch %s", d.branch)
	if at != "" {
		err = fmt.Errorf("the remote accepted the push, but its branch %s is still at %.12s", d.branch, at)
	}
	return d.failed(host.CodeDeliveryFailed, "", err)
}

// replaceable reports whether the commit may replace the commit on the branch if that is not
// the last delivery.
func (d *delivery) replaceable(ctx context.Context, at string) (bool, error) {
	if at == "" { // the branch was deleted, for instance after it was merged
		return true, nil
	}
	if d.last == "" {
		// otherwise it was there before the first delivery: an agent can build on any branch
		isOurs, err := d.attempted(ctx, d.branch, at)
		if err != nil || !isOurs {
			return false, err
		}
	}
	// someone made the branch, or moved it back
	isOld, err := d.anyContains(ctx, []string{"refs/heads/" + d.base, d.last}, at)
	if err != nil || isOld {
		return false, err
	}
	// the answer to an earlier push was lost, or the work includes the push of someone else
	return d.contains(ctx, d.Commit, at)
}

// attempts is the directory of references to all commits that were to be pushed to a branch,
// in a directory for each branch.
const attempts = "refs/symphony/"

// record sets a reference of the mirror to the commit.
func (d *delivery) record(ctx context.Context, reference string) error {
	return d.withLock(ctx, func(writer) error {
		return d.run(d.localGit(ctx, "update-ref", reference, d.Commit))
	})
}

// attempted reports whether a commit may have been pushed to the branch from here. It is false
// for the empty commit.
func (m *Mirror) attempted(ctx context.Context, branch, commit string) (bool, error) {
	return m.says(m.localGit(ctx, "show-ref", "--verify", "--quiet", attempts+branch+"/"+commit))
}

// conflict is the error of a branch that someone else made or changed.
func (d *delivery) conflict(at string) error {
	now := "it is at " + at[:min(12, len(at))]
	if at == "" {
		now = "it was deleted meanwhile"
	}
	err := fmt.Errorf("someone else has made or changed the branch %s: %s", d.branch, now)
	if at != "" && d.last == "" && d.fence == nil {
		err = fmt.Errorf("%w; another symphony may work on this project (repository.claims)", err)
	}
	return d.failed(host.CodeDeliveryConflict, "", err)
}

// remoteCommit asks the remote for the commit of a branch, empty if there is none.
func (m *Mirror) remoteCommit(ctx context.Context, branch string) (string, error) {
	ref := "refs/heads/" + branch
	now, err := m.remoteRefs(ctx, ref)
	return now[ref], err
}

// remoteRefs asks the remote for what references lead to. Those that do not exist are missing. A symbolic
// reference is an error.
func (m *Mirror) remoteRefs(ctx context.Context, refs ...string) (map[string]string, error) {
	list := m.remoteGit(ctx, append([]string{"ls-remote", "--symref", "--", m.remote.URL}, refs...)...)
	out, err := m.outputWithin(list, gitcmd.NoLimit)
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	for line := range strings.Lines(out) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		other, isOther := strings.CutPrefix(id, "ref: ")
		switch {
		case !slices.Contains(refs, name):
		case isOther: // a push would move the other one
			return nil, fmt.Errorf("on the remote %s is only another name of %s", name, other)
		default:
			now[name] = id
		}
	}
	return now, nil
}
