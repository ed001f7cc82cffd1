package repository

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/team"
)

// claimBranch keeps each claim as a file on a branch, such as 3f2a9c1b04de55aa10c7.json. Each push adds
// a commit, because forges may forbid anything else.
type claimBranch struct {
	claimsRepository
	branch string
}

// claimFile ends the names of files with claims.
const claimFile = ".json"

// otherFile is a file that people may add, to tell what the branch is.
const otherFile = "README.md"

// mostMoves is how often a push is tried while other machines are faster.
const mostMoves = 10

// pause waits a random time before another push: up to 0.2 s before the second, up to 1 s before the
// tenth.
func pause(ctx context.Context, moves int) error {
	select {
	case <-time.After(rand.N(time.Duration(moves) * 100 * time.Millisecond)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b claimBranch) place() string { return "branch " + b.branch }

func (b claimBranch) ref() string { return "refs/heads/" + b.branch }

// check returns an error for a branch that is no branch of claims by its name.
func (b claimBranch) check(ctx context.Context) error {
	valid, err := git.IsBranchName(ctx, b.branch)
	if err != nil {
		return b.unavailable("check the name of the branch", err)
	}
	why := "it is the base, or the default branch of the remote"
	switch {
	case !valid:
		why = "git does not take this name for a branch"
	case b.branch != b.remote.Base && b.branch != b.headBranch():
		return nil
	}
	return reconcile.NewError(
		host.CodeClaimsRefused,
		fmt.Sprintf("repository.claims names the branch %q: %s", b.branch, why),
		"name a branch that nothing else uses, such as symphony-claims",
	)
}

func (b claimBranch) look(ctx context.Context) (seen claimsSeen, err error) {
	fetch := func(w writer) error {
		if err := b.check(ctx); err != nil {
			return err
		}
		err := b.fetch(ctx, w, "+"+b.ref()+":"+b.ref())
		if noRemoteRef().MatchString(host.GitOutput(err)) {
			return b.unavailable("forget the claims", b.run(b.localGit(ctx, "update-ref", "-d", b.ref())))
		}
		return b.unavailable("fetch the claims", err)
	}
	read := func(writer) (err error) {
		seen, err = b.read(ctx)
		return b.unavailable("read the claims", err)
	}
	err = b.fetched(ctx, fetch, read)
	if err != nil {
		return claimsSeen{}, err
	}
	return seen, b.checkFiles(seen)
}

// noRemoteRef matches git's message for a branch that the remote does not have.
var noRemoteRef = text.Pattern(`fatal: couldn't find remote ref refs/heads/`)

// read reads the claims that were fetched.
func (b claimBranch) read(ctx context.Context) (seen claimsSeen, err error) {
	seen.tip, err = b.output(b.localGit(ctx, "for-each-ref", "--format=%(objectname)", b.ref()))
	if err != nil || seen.tip == "" {
		return seen, err
	}
	files, err := b.entries(b.localGit(ctx, "ls-tree", "-z", "--long", seen.tip))
	if err != nil {
		return seen, err
	}
	for _, line := range files {
		file, err := branchFileIn(line)
		if err != nil {
			return seen, err
		}
		seen.files = append(seen.files, file)
	}
	var objects []claimObject
	for _, file := range seen.files {
		if strings.HasSuffix(file.name, claimFile) {
			objects = append(objects, file.claimObject)
		}
	}
	seen.entries, err = b.readEntries(ctx, objects, "blob")
	return seen, err
}

// branchFile is a file or a directory at the top of the branch.
type branchFile struct {
	claimObject
	mode, name string
}

// branchFileIn reads a line of git ls-tree --long: "MODE KIND ID SIZE", a tab, and the name. A
// directory has - as its size.
func branchFileIn(line string) (branchFile, error) {
	head, name, _ := strings.Cut(line, "\t")
	words := strings.Fields(head)
	if len(words) != 4 {
		return branchFile{}, fmt.Errorf("git prints %q", line)
	}
	size, _ := strconv.Atoi(words[3])
	file := branchFile{mode: words[0], name: name}
	file.claimObject = claimObject{
		key:  strings.TrimSuffix(name, claimFile),
		id:   words[2],
		kind: words[1],
		size: size,
	}
	return file, nil
}

// checkFiles returns an error for a branch that has something else than claims, which somebody uses.
func (b claimBranch) checkFiles(seen claimsSeen) error {
	for _, file := range seen.files {
		isKnown := strings.HasSuffix(file.name, claimFile) || file.name == otherFile
		if file.kind == "blob" && isKnown {
			continue
		}
		return reconcile.NewError(
			host.CodeClaimsRefused,
			fmt.Sprintf("repository.claims names the branch %q, which has other files: %s",
				b.branch, text.Visible(file.name)),
			"name a branch that nothing else uses, such as symphony-claims",
		)
	}
	return nil
}

func (b claimBranch) prepare(
	ctx context.Context,
	change team.Change,
	seen *claimsSeen,
) (p claimPush, err error) {
	if seen == nil {
		now, err := b.look(ctx)
		if err != nil {
			return p, err
		}
		seen = &now
	}
	if seen.find(change.Key).Object != change.Old {
		p.object, err = b.write(ctx, "blob", change.New)
		if err != nil {
			return p, b.unavailable("write the claim of "+change.Key, err)
		}
		return p, errClaimMoved
	}
	p, objects, err := b.commit(ctx, *seen, []team.Change{change})
	p.object = objects[change.Key]
	return p, err
}

// commit makes the commit that carries changes out, and returns the objects of their new contents.
//
// The branch grows with each push, by three objects of 3 KB together where it has 40 claims. After git
// gc 10,000 renewals have 3.3 MB, and before it 120 MB: 30,000 small files, which servers pack from
// 6,700 on. Forty issues that are worked on all the time make so many in two days. Whoever minds
// deletes the branch while no machine works.
func (b claimBranch) commit(
	ctx context.Context,
	seen claimsSeen,
	changes []team.Change,
) (p claimPush, objects map[string]string, err error) {
	failed := func(err error) error { return b.unavailable("write the claims", err) }
	objects = map[string]string{}
	isChanged := func(f branchFile) bool {
		is := func(c team.Change) bool { return f.name == c.Key+claimFile }
		return slices.ContainsFunc(changes, is)
	}
	var tree strings.Builder
	for _, file := range seen.files {
		if !isChanged(file) {
			fmt.Fprintf(&tree, "%s %s %s\t%s\x00", file.mode, file.kind, file.id, file.name)
		}
	}
	for _, change := range changes {
		if change.New == "" {
			continue
		}
		id, err := b.write(ctx, "blob", change.New)
		if err != nil {
			return p, nil, failed(err)
		}
		objects[change.Key] = id
		fmt.Fprintf(&tree, "100644 blob %s\t%s\x00", id, change.Key+claimFile)
	}
	makeTree := b.localGit(ctx, "-c", fsyncObjects, "mktree", "-z")
	makeTree.Stdin = strings.NewReader(tree.String())
	id, err := b.output(makeTree)
	if err != nil {
		return p, nil, failed(err)
	}
	subject := changes[0].Key
	if len(changes) > 1 {
		subject = fmt.Sprintf("%d issues", len(changes))
	}
	args := []string{"-c", fsyncObjects, "commit-tree", id, "-m", "claims: " + subject}
	if seen.tip != "" {
		args = append(args, "-p", seen.tip)
	}
	commit := b.localGit(ctx, args...)
	name, email := b.author()
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		commit.Env = append(commit.Env, "GIT_"+who+"_NAME="+name, "GIT_"+who+"_EMAIL="+email)
	}
	p.ref = b.ref()
	p.expected = seen.tip
	p.commit, err = b.output(commit)
	return p, objects, failed(err)
}

func (b claimBranch) change(
	ctx context.Context,
	changes []team.Change,
	atomic bool,
) (map[string]team.Changed, error) {
	results := map[string]team.Changed{}
	for move := 1; move <= mostMoves; move++ {
		if move > 1 {
			if err := pause(ctx, move); err != nil {
				return nil, b.unavailable("push the claims", err)
			}
		}
		seen, err := b.look(ctx)
		if err != nil {
			return nil, err
		}
		changes = takeFitting(seen, changes, results)
		if len(changes) == 0 {
			return results, nil
		}
		isDone, err := b.pushAll(ctx, seen, changes, atomic, results)
		if err != nil || isDone {
			return results, err
		}
	}
	err := fmt.Errorf("the branch %s moved during each of %d pushes", b.branch, mostMoves)
	return nil, b.unavailable("push the claims", err)
}

// takeFitting returns the changes of claims that are as the changes expect, and adds the results of
// the others.
func takeFitting(
	seen claimsSeen,
	changes []team.Change,
	results map[string]team.Changed,
) (fitting []team.Change) {
	for _, change := range changes {
		there := seen.find(change.Key)
		switch {
		case there.Object != change.Old:
			results[change.Key] = team.Changed{Refused: errClaimMoved.Error()}
		case there.Content == change.New:
			results[change.Key] = team.Changed{Refused: sameContent}
		default:
			fitting = append(fitting, change)
		}
	}
	return fitting
}

// pushAll pushes changes in one commit. It is not done if another machine was faster.
func (b claimBranch) pushAll(
	ctx context.Context,
	seen claimsSeen,
	changes []team.Change,
	atomic bool,
	results map[string]team.Changed,
) (isDone bool, err error) {
	p, objects, err := b.commit(ctx, seen, changes)
	if err != nil {
		return false, err
	}
	crash.At("repository.claims.committed")
	statuses, said, err := b.push(ctx, atomic, p)
	if err != nil {
		return false, err
	}
	status := statuses[p.ref]
	if status.done() {
		for _, change := range changes {
			results[change.Key] = team.Changed{Object: objects[change.Key]}
		}
		return true, nil
	}
	if !status.byRemote() {
		return false, nil
	}
	now, err := b.remoteRefs(ctx, p.ref)
	if err != nil {
		return false, b.unavailable("look for the claims", err)
	}
	if now[p.ref] == p.expected {
		return false, claimsRefused(b, b.Address(), whyRefused(said, status), said)
	}
	return false, nil
}
