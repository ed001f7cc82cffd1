package repository

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/team"
)

// Claims are the claims of issues in a remote. It implements host.Claims.
//
// What was read of them, and what is to be pushed, is in a small bare repository beside the mirror:
// agents' workspaces borrow the mirror's objects, and never these. It is a cache, so that any of its
// faults is mended by making it anew.
type Claims struct {
	dir     string
	remote  host.Repository
	env     []string
	inherit func(...*os.File) []*os.File
	branch  string
}

// NewClaims returns the claims in a remote, with the arguments of New. They are references below
// refs/symphony/claims/, or, if branch is not empty, files on that branch.
func NewClaims(
	dir string,
	remote host.Repository,
	env []string,
	inherit func(...*os.File) []*os.File,
	branch string,
) *Claims {
	return &Claims{dir: dir, remote: remote, env: env, inherit: inherit, branch: branch}
}

// claimsOf returns the claims in the remote of a mirror.
func (m *Mirror) claimsOf(branch string) *Claims {
	return NewClaims(filepath.Dir(m.path), m.remote, m.env, m.inherit, branch)
}

// layout returns how the claims are kept in the remote.
func (c *Claims) layout() claimLayout {
	m := New(c.dir, c.remote, c.env, c.inherit)
	// without .git, so that In does not take it for a mirror
	m.path = strings.TrimSuffix(m.path, ".git") + ".claims"
	r := claimsRepository{Mirror: m}
	if c.branch == "" {
		return claimRefs{r}
	}
	return claimBranch{claimsRepository: r, branch: c.branch}
}

// claimLayout is a way to keep claims in a remote.
type claimLayout interface {
	// look reads all claims.
	look(ctx context.Context) (claimsSeen, error)
	// change implements team.Remote. atomic asks for a push that carries out everything or nothing, as
	// a delivery does.
	change(ctx context.Context, changes []team.Change, atomic bool) (map[string]team.Changed, error)
	// prepare makes the objects of a change, with which a delivery pushes it. It may have to look at
	// the claims, unless the caller has. It returns errClaimMoved, and the object of the new content,
	// if it sees that the claim is not as the change expects.
	prepare(ctx context.Context, change team.Change, seen *claimsSeen) (claimPush, error)
	// place names where the claims are, for people.
	place() string
	// objects is the directory of the objects.
	objects() string
}

// claimsSeen are the claims of a remote at a moment.
type claimsSeen struct {
	entries []team.Entry
	tip     string // of the branch; empty if there is none, and for references
	files   []branchFile
}

// find returns the claim with a key. It is empty if there is none.
func (s claimsSeen) find(key string) team.Entry {
	for _, entry := range s.entries {
		if entry.Key == key {
			return entry
		}
	}
	return team.Entry{}
}

// claimPush is the change of one reference, which changes a claim.
type claimPush struct {
	refChange
	object string // the claim's Entry.Object then
}

// errClaimMoved is the error of a change whose claim is another one in the remote.
var errClaimMoved = errors.New("stale info")

// Look implements team.Remote.
func (c *Claims) Look(ctx context.Context) ([]team.Entry, error) {
	seen, err := c.layout().look(ctx)
	return seen.entries, host.WithCode(err)
}

// Change implements team.Remote.
func (c *Claims) Change(ctx context.Context, changes []team.Change) (map[string]team.Changed, error) {
	if len(changes) == 0 {
		return map[string]team.Changed{}, nil
	}
	results, err := c.layout().change(ctx, changes, false)
	return results, host.WithCode(err)
}

// Try finds out whether the remote takes claims: it creates one, reads, replaces and deletes it. No
// machine takes it for a claim of an issue.
func (c *Claims) Try(ctx context.Context) (failed error) {
	key := host.TrialClaim + strings.ToLower(rand.Text())
	change := team.Change{Key: key, New: "a trial of symphony doctor, " + key + "\n"}
	var err error
	change.Old, err = c.tryChange(ctx, change)
	if err != nil {
		return err
	}
	defer func() {
		change.New = ""
		_, err := c.tryChange(context.WithoutCancel(ctx), change)
		failed = errors.Join(failed, err)
	}()
	seen, err := c.layout().look(ctx)
	if err != nil {
		return host.WithCode(err)
	}
	if seen.find(key).Object != change.Old {
		return c.refused("it does not show a claim that it took")
	}
	change.New += "replaced\n"
	object, err := c.tryChange(ctx, change)
	if err != nil {
		return err
	}
	change.Old = object
	return nil
}

// tryChange carries a change of Try out.
func (c *Claims) tryChange(ctx context.Context, change team.Change) (object string, err error) {
	results, err := c.layout().change(ctx, []team.Change{change}, true)
	if err != nil {
		return "", host.WithCode(err)
	}
	result := results[change.Key]
	if result.Refused != "" {
		return "", c.refused(result.Refused)
	}
	return result.Object, nil
}

func (c *Claims) refused(why string) error {
	return claimsRefused(c.layout(), c.Address(), why, nil)
}

// Tip implements host.Claims.
func (c *Claims) Tip(ctx context.Context, branch string) (string, error) {
	m := New(c.dir, c.remote, c.env, c.inherit)
	commit, err := m.remoteCommit(ctx, branch)
	return commit, m.failed(host.CodeRepositoryUnavailable, "look for the branch "+branch, err)
}

// Address is the address of the remote without a password.
func (c *Claims) Address() string { return New(c.dir, c.remote, nil, nil).Address() }

// claimsRefused is the error of a remote that does not take the claims.
func claimsRefused(l claimLayout, address, why string, err error) *reconcile.Error {
	hint := "let this account push there, or set repository.claims: {branch: symphony-claims}"
	if _, isBranch := l.(claimBranch); isBranch {
		hint = "let this account push to that branch, without review or checks"
	}
	return &reconcile.Error{
		Code:    host.CodeClaimsRefused,
		Message: fmt.Sprintf("%s refuses the claims (%s): %s", address, l.place(), why),
		Hint:    hint,
		Err:     err,
	}
}

// claimsRepository is the repository of the claims on this machine.
type claimsRepository struct{ *Mirror }

func (r claimsRepository) objects() string { return filepath.Join(r.path, "objects") }

// unavailable is the error of a git command about the claims; nil stays nil.
func (r claimsRepository) unavailable(what string, err error) error {
	return r.failed(host.CodeClaimsUnavailable, what, err)
}

// make makes the repository if it is missing. A new one asks the remote how it names objects.
func (r claimsRepository) make(ctx context.Context) error {
	if r.exists() {
		return r.renewConfig()
	}
	return r.locked(ctx, func(writer) error { return nil })
}

// locked calls f while no other process writes references to the repository.
func (r claimsRepository) locked(ctx context.Context, f func(writer) error) error {
	err := r.withLock(ctx, func(w writer) error {
		if r.exists() {
			return f(w)
		}
		head, err := r.askHead(ctx)
		if err != nil {
			return r.unavailable("ask for the names of objects", ofSignal(ctx, err))
		}
		reference := head.reference
		if reference == "" {
			reference = "refs/heads/main"
		}
		if err := w.create(reference, head.sha256); err != nil {
			return err
		}
		return f(w)
	})
	if errors.Is(err, lock.ErrHeld) {
		return r.unavailable("wait for another process", err)
	}
	return err
}

// fetched calls read after a fetch. If read fails, something has damaged the repository: it is made
// anew, once.
func (r claimsRepository) fetched(ctx context.Context, fetch, read func(writer) error) error {
	return r.locked(ctx, func(w writer) error {
		fetchErr := fetch(w)
		if fetchErr == nil {
			r.tidy(ctx)
			if err := read(w); err == nil || ctx.Err() != nil {
				return err
			}
		}
		if fetchErr != nil && !r.isDamaged(ctx) {
			return fetchErr
		}
		if err := r.empty(); err != nil {
			return r.unavailable("make the repository of the claims anew", err)
		}
		if err := fetch(w); err != nil {
			return err
		}
		return read(w)
	})
}

// isDamaged reports whether an object is missing or false, such as one that was not on disk yet when
// the power failed.
func (r claimsRepository) isDamaged(ctx context.Context) bool {
	// With --connectivity-only git 2.47 succeeds although it can't read a pack.
	err := r.run(r.localGit(ctx, "fsck", "--no-dangling", "--no-progress"))
	return ctx.Err() == nil && gitcmd.Exited(err)
}

// empty removes everything but the configuration and HEAD.
func (r claimsRepository) empty() error {
	for _, name := range []string{"objects", "refs", "packed-refs"} {
		if err := os.RemoveAll(filepath.Join(r.path, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"objects", "refs"} {
		if err := os.Mkdir(filepath.Join(r.path, name), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// fetch makes references the same as in the remote.
func (r claimsRepository) fetch(ctx context.Context, w writer, refspec string) error {
	return w.unlessKilled(ctx, func() error {
		// An object that somebody else has pushed must not keep the claims from being read.
		cmd := r.remoteGit(
			ctx, "-c", "fetch.fsckObjects=false", "-c", "transfer.fsckObjects=false",
			"fetch", "--quiet", "--force", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-gc",
			"--", r.remote.URL, refspec,
		)
		return r.runWithin(cmd, gitcmd.NoLimit)
	})
}

const (
	// maxLooseInOne is how many objects of their own one of the 256 directories of objects may have.
	maxLooseInOne = 4
	// maxLooseRefs is how many references may have files of their own.
	maxLooseRefs = 100
)

// tidy removes claims of the past, which nobody needs, and joins packs and references. A claim that
// another process is about to push is younger than a day. Failures are tried again after a later fetch.
func (r claimsRepository) tidy(ctx context.Context) {
	if len(find(r.path, claimsDir+"*")) > maxLooseRefs {
		_ = r.run(r.localGit(ctx, "pack-refs", "--all"))
	}
	loose := len(find(r.path, "objects/17/*"))
	packs := len(find(r.path, "objects/pack/*.pack"))
	if loose > maxLooseInOne || packs > maxPacks {
		_ = r.run(r.localGit(ctx, "repack", "-a", "-d", "-n", "-q"))
		_ = r.run(r.localGit(ctx, "prune", "--expire=1.day.ago"))
	}
}

// claimObject is an object in the place of a claim.
type claimObject struct {
	key, id, kind string
	size          int
}

// maxClaim is the most bytes of a claim that are read, one more than team.Parse accepts.
const maxClaim = team.MaxContent + 1

// maxCommit is the most bytes of a commit whose message may be a claim.
const maxCommit = maxClaim + 1<<10

// claimsAtOnce is how many claims a git command gets.
const claimsAtOnce = 1000

// readEntries reads the contents of claims, which are objects of a kind. What can't be a claim gets a
// content that says so, which team.Parse refuses.
func (r claimsRepository) readEntries(
	ctx context.Context,
	objects []claimObject,
	kind string,
) ([]team.Entry, error) {
	entries := make([]team.Entry, 0, len(objects))
	for some := range slices.Chunk(objects, claimsAtOnce) {
		contents, err := r.contents(ctx, some, kind)
		if err != nil {
			return nil, err
		}
		for _, o := range some {
			content, isRead := contents[o.id]
			if !isRead {
				content = fmt.Sprintf("a %s of %d bytes", o.kind, o.size)
			}
			entries = append(entries, team.Entry{Key: o.key, Object: o.id, Content: content})
		}
	}
	return entries, nil
}

// contents reads the contents of objects that have the kind, and that are not too large.
func (r claimsRepository) contents(
	ctx context.Context,
	objects []claimObject,
	kind string,
) (map[string]string, error) {
	var ids strings.Builder
	for _, o := range objects {
		if o.kind == kind && o.size <= maxCommit {
			fmt.Fprintln(&ids, o.id)
		}
	}
	contents := map[string]string{}
	if ids.Len() == 0 {
		return contents, nil
	}
	var out gitcmd.Answer
	cmd := r.localGit(ctx, "cat-file", "--batch")
	cmd.Stdin = strings.NewReader(ids.String())
	cmd.Stdout = &out
	if err := r.run(cmd); err != nil {
		return nil, fmt.Errorf("read the claims: %w", err)
	}
	rest := out.String()
	for rest != "" { // "ID KIND SIZE", the content, and the end of a line
		head, after, _ := strings.Cut(rest, "\n")
		words := strings.Fields(head)
		if len(words) != 3 {
			return nil, fmt.Errorf("read the claims: git prints %q", head)
		}
		size, err := strconv.Atoi(words[2])
		if err != nil || size >= len(after) {
			return nil, fmt.Errorf("read the claims: git prints %q", head)
		}
		content := after[:size]
		if words[1] == "commit" {
			_, content, _ = strings.Cut(content, "\n\n")
		}
		contents[words[0]] = content[:min(len(content), maxClaim)]
		rest = after[size+1:]
	}
	return contents, nil
}

// fsyncObjects makes git write an object to disk before it ends, from git 2.36 on.
const fsyncObjects = "core.fsync=loose-object"

// write writes an object, and returns its id. It is on disk before anything is pushed.
func (r claimsRepository) write(ctx context.Context, kind, content string) (string, error) {
	cmd := r.localGit(ctx, "-c", fsyncObjects, "hash-object", "-w", "-t", kind, "--stdin")
	cmd.Stdin = strings.NewReader(content)
	return r.output(cmd)
}

// author is the line of a commit for its author and its committer.
func (r claimsRepository) author() (name, email string) {
	name = r.remote.Name
	if name == "" {
		name = "symphony"
	}
	email = r.remote.Email
	if email == "" {
		email = "symphony@localhost"
	}
	clean := strings.NewReplacer("<", "", ">", "", "\n", " ", "\x00", "")
	return clean.Replace(name), clean.Replace(email)
}

// push runs git push with leases, and returns the status of each reference. After an error nothing is
// known of any of them. said is the error of git, which also fails if a reference is refused.
func (r claimsRepository) push(
	ctx context.Context,
	atomic bool,
	pushes ...claimPush,
) (statuses map[string]refStatus, said, err error) {
	options := []string{"--porcelain"}
	if atomic {
		options = append(options, "--atomic")
	}
	var changes []refChange
	for _, p := range pushes {
		changes = append(changes, p.refChange)
	}
	var out gitcmd.Answer
	cmd := r.pushCommand(ctx, options, changes...)
	cmd.Stdout = &out
	said = r.runWithin(cmd, gitcmd.NoLimit)
	crash.At("repository.claims.pushed")
	statuses = statusesIn(out.String())
	for _, p := range pushes {
		if !statuses[p.ref].known() {
			return nil, said, r.notPushed(ctx, said)
		}
	}
	return statuses, said, nil
}

// notPushed is the error of a git push that did not say what became of each reference. A remote that
// can be read refuses the push itself.
func (r claimsRepository) notPushed(ctx context.Context, said error) error {
	if said == nil {
		said = errors.New("git push did not say what it did")
	}
	output := host.GitOutput(said)
	if noAtomic().MatchString(output) {
		return notAtomic(r.Address(), said)
	}
	if !mayNotPush().MatchString(output) {
		if r.isDamaged(ctx) {
			_ = r.empty() // the next look fetches everything again
		}
		return r.unavailable("push the claims", said)
	}
	if _, err := r.askHead(ctx); err != nil {
		return r.unavailable("push the claims", said)
	}
	return &reconcile.Error{
		Code:    host.CodeClaimsRefused,
		Message: fmt.Sprintf("%s can be read, and refuses the push: %v", r.Address(), said),
		Hint:    "let this account push there",
		Err:     said,
	}
}

// mayNotPush matches the messages of forges and of git for an account that may only read.
var mayNotPush = text.Pattern(
	`(?i)returned error: 40[13]|read.?only|permission|denied|not allowed|unauthorized|forbidden|not permitted`,
)

// refStatus is what git push --porcelain says of a reference.
type refStatus struct {
	flag    byte   // 0 if it says nothing
	summary string // such as "[remote rejected] (pre-receive hook declined)"
}

// statusesIn reads the output of git push --porcelain: lines with a flag, the names here and there,
// and a summary. It is the same in all languages, but for the reasons.
func statusesIn(output string) map[string]refStatus {
	statuses := map[string]refStatus{}
	for line := range strings.Lines(output) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) != 3 || len(fields[0]) != 1 {
			continue
		}
		ref := fields[1][strings.LastIndexByte(fields[1], ':')+1:]
		statuses[ref] = refStatus{flag: fields[0][0], summary: fields[2]}
	}
	return statuses
}

// known reports whether the remote has answered.
func (s refStatus) known() bool {
	return s.flag != 0 && !strings.HasPrefix(s.summary, "[remote failure]") &&
		!strings.HasPrefix(s.summary, "[no match]")
}

// done reports whether this push changed the reference. It did not if the reference was there
// already: git then says that it is up to date, and succeeds.
func (s refStatus) done() bool { return s.flag != '!' && s.flag != '=' }

// byRemote reports whether the remote has refused the change, and not git itself, which compares the
// references that the remote showed it.
func (s refStatus) byRemote() bool { return strings.HasPrefix(s.summary, "[remote rejected]") }

// why returns why the change was refused, in git's words.
func (s refStatus) why() string {
	if s.flag == '=' {
		return "it is there already"
	}
	_, reason, _ := strings.Cut(s.summary, "(")
	reason = strings.TrimSuffix(reason, ")")
	if s.byRemote() {
		return "remote rejected: " + reason
	}
	return reason
}
