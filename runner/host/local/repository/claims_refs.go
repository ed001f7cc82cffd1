package repository

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// claimsDir is the directory of the references.
const claimsDir = host.ClaimRefs

// claimRefs keeps each claim as a reference to a commit without parents and files, whose message is
// the content.
type claimRefs struct{ claimsRepository }

func (claimRefs) place() string { return claimsDir + "*" }

func (r claimRefs) look(ctx context.Context) (seen claimsSeen, err error) {
	fetch := func(w writer) error {
		err := r.fetch(ctx, w, "+"+claimsDir+"*:"+claimsDir+"*")
		return r.unavailable("fetch the claims", err)
	}
	read := func(writer) (err error) {
		seen.entries, err = r.read(ctx)
		return r.unavailable("read the claims", err)
	}
	err = r.fetched(ctx, fetch, read)
	return seen, err
}

// read reads the claims that were fetched.
func (r claimRefs) read(ctx context.Context) ([]team.Entry, error) {
	const format = "--format=%(objectname) %(objecttype) %(objectsize) %(refname)"
	list, err := r.output(r.localGit(ctx, "for-each-ref", format, claimsDir))
	if err != nil {
		return nil, err
	}
	var objects []claimObject
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		if len(words) != 4 {
			return nil, fmt.Errorf("git prints %q", line)
		}
		size, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, err
		}
		key := strings.TrimPrefix(words[3], claimsDir)
		objects = append(objects, claimObject{key: key, id: words[0], kind: words[1], size: size})
	}
	return r.readEntries(ctx, objects, "commit")
}

func (r claimRefs) prepare(
	ctx context.Context,
	change team.Change,
	_ *claimsSeen,
) (p claimPush, err error) {
	if err := r.make(ctx); err != nil {
		return p, err
	}
	tree, err := r.emptyTree(ctx)
	if err != nil {
		return p, err
	}
	return r.pushOf(ctx, change, tree)
}

// pushOf is prepare in a repository that exists and has the empty tree.
func (r claimRefs) pushOf(ctx context.Context, change team.Change, tree string) (p claimPush, err error) {
	p.ref = claimsDir + change.Key
	p.expected = change.Old
	if change.New != "" {
		p.commit, err = r.commit(ctx, tree, change.New)
		if err != nil {
			return p, r.unavailable("write the claim of "+change.Key, err)
		}
	}
	p.object = p.commit
	return p, nil
}

// emptyTree makes the tree of all commits of claims.
func (r claimRefs) emptyTree(ctx context.Context) (string, error) {
	tree, err := r.write(ctx, "tree", "")
	return tree, r.unavailable("write the claims", err)
}

// sameContent is why a change is refused that changes nothing.
const sameContent = "the content is the same"

// commit makes the commit of a content. It always makes the same one of a content, so that a push
// whose answer was lost is known again.
func (r claimRefs) commit(ctx context.Context, tree, content string) (string, error) {
	name, email := r.author()
	who := name + " <" + email + "> 0 +0000"
	return r.write(ctx, "commit", fmt.Sprintf("tree %s\nauthor %s\ncommitter %[2]s\n\n%s", tree, who, content))
}

func (r claimRefs) change(
	ctx context.Context,
	changes []team.Change,
	atomic bool,
) (map[string]team.Changed, error) {
	if err := r.make(ctx); err != nil {
		return nil, err
	}
	tree, err := r.emptyTree(ctx)
	if err != nil {
		return nil, err
	}
	results := map[string]team.Changed{}
	var pushes []claimPush
	for _, change := range changes {
		p, err := r.pushOf(ctx, change, tree)
		if err != nil {
			return nil, err
		}
		if p.commit == p.expected {
			// git would push nothing, and succeed
			results[change.Key] = team.Changed{Refused: sameContent}
			continue
		}
		pushes = append(pushes, p)
	}
	crash.At("repository.claims.written")
	for some := range slices.Chunk(pushes, claimsAtOnce) { // a command line is not endless
		if err := r.pushSome(ctx, some, atomic, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// pushSome pushes changes, and adds their results.
func (r claimRefs) pushSome(
	ctx context.Context,
	pushes []claimPush,
	atomic bool,
	results map[string]team.Changed,
) error {
	statuses, said, err := r.push(ctx, atomic, pushes...)
	if err != nil {
		return err
	}
	anyDone := false
	anyByRemote := false
	for _, p := range pushes {
		status := statuses[p.ref]
		changed := team.Changed{Object: p.object}
		if !status.done() {
			changed = team.Changed{Refused: text.Visible(status.why())}
		}
		anyDone = anyDone || status.done()
		anyByRemote = anyByRemote || status.byRemote()
		results[strings.TrimPrefix(p.ref, claimsDir)] = changed
	}
	if anyDone || !anyByRemote {
		return nil
	}
	return r.checkTaken(ctx, pushes, statuses, said)
}

// checkTaken returns an error if the remote has refused a change although the claim is as it was
// expected, so that no other machine is the reason.
func (r claimRefs) checkTaken(
	ctx context.Context,
	pushes []claimPush,
	statuses map[string]refStatus,
	said error,
) error {
	var refs []string
	for _, p := range pushes {
		if statuses[p.ref].byRemote() {
			refs = append(refs, p.ref)
		}
	}
	now, err := r.remoteRefs(ctx, refs...)
	if err != nil {
		return r.unavailable("look for the claims", err)
	}
	for _, p := range pushes {
		if statuses[p.ref].byRemote() && now[p.ref] == p.expected {
			return claimsRefused(r, r.Address(), whyRefused(said, statuses[p.ref]), said)
		}
	}
	return nil
}

// whyRefused joins what the remote printed and the reason that it gave for a reference, such as
// "remote: no pushes on Friday (pre-receive hook declined)".
func whyRefused(said error, status refStatus) string {
	reason := strings.TrimPrefix(status.why(), "remote rejected: ")
	git := host.GitOutput(said)
	if said != nil && strings.Contains(git, "remote: ") {
		return text.Visible(fmt.Sprintf("%v (%s)", said, reason))
	}
	return text.Visible(reason)
}
