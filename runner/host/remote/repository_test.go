package remote

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // git's
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
)

// carrying is a machine with its own mirror, and the remote that only this side reaches.
type carrying struct {
	t    *testing.T
	dir  string
	env  []string
	url  string  // of the remote
	sent *record // what the newest client has sent
	// received counts the bytes that clients have received.
	received atomic.Int64
}

// record keeps what the client writes.
type record struct {
	io.ReadWriteCloser
	received *atomic.Int64
	mu       sync.Mutex
	text     strings.Builder
}

func (r *record) Read(b []byte) (int, error) {
	n, err := r.ReadWriteCloser.Read(b)
	r.received.Add(int64(n))
	return n, err
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.text.Write(b)
	r.mu.Unlock()
	return r.ReadWriteCloser.Write(b)
}

func newCarrying(t *testing.T) *carrying {
	t.Helper()
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	c := &carrying{t: t, dir: dir, url: filepath.Join(dir, "remote.git"), env: []string{
		"PATH=" + os.Getenv(
			"PATH",
		), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@b",
	}}
	c.sh(
		`git init -q --bare -b main remote.git; git init -q -b main seed; cd seed; head -c 300000 /dev/urandom > large; git add .; git commit -qm one
		git tag -am first first; git push -q --follow-tags ../remote.git main`,
	)
	return c
}

func (c *carrying) sh(script string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "sh", "-ec", script)
	cmd.Dir = c.dir
	cmd.Env = c.env
	return test.Run(c.t, cmd)
}

// changedRun is a run of the machine with other calls for clones and deliveries.
type changedRun struct {
	host.Run
	host.RepositorySteps
}

// oneRun is a machine with one run.
type oneRun struct {
	host.Machine
	run host.Run
}

func (m oneRun) Run(string) host.Run { return m.run }

// prepare prepares the workspace of an issue on the machine, which may be a changed one, and
// returns the run.
func (c *carrying) prepare(
	issue string,
	change func(host.RepositorySteps) host.RepositorySteps,
) (host.Run, host.PrepareAnswer) {
	c.t.Helper()
	there := local.Machine{
		StateDir: filepath.Join(c.dir, "there"),
		Account:  host.Account{Env: c.env},
	}
	of := Incarnation{"run-" + issue, 1, "s"}
	test.OK(c.t, os.MkdirAll(host.RunDir(there.StateDir, of.RunID), 0o700))
	real := there.Run(of.RunID)
	bundled := real.(host.RepositorySteps)
	if change != nil {
		bundled = change(bundled)
	}
	r := &rig{Server: NewServer(oneRun{there, changedRun{real, bundled}}, of)}
	client := test.Must(Connect(c.t.Context(), func(ctx context.Context) (io.ReadWriteCloser, error) {
		conn, err := r.dial(ctx)
		c.sent = &record{ReadWriteCloser: conn, received: &c.received}
		return c.sent, err
	}, of))
	c.t.Cleanup(func() {
		client.Close()
		test.OK(c.t, r.Close())
	})
	run := Machine{
		Client:  client,
		Mirrors: local.Mirrors{Dir: filepath.Join(c.dir, "mirrors")},
	}.Run(of.RunID)
	answer := test.Must(run.Prepare(c.t.Context(), host.PrepareRequest{
		Root: filepath.Join(c.dir, "spaces"),
		Issue: host.Issue{
			ID: issue, Identifier: issue, Project: "p", StateDir: there.StateDir,
		},
	}))
	return run, answer
}

func (c *carrying) clone(run host.Run, branch, delivered string) host.CloneAnswer {
	c.t.Helper()
	answer := test.Must(run.Clone(c.t.Context(), host.CloneRequest{
		Repository:  host.Repository{URL: c.url},
		Branch:      branch,
		Delivered:   delivered,
		Timeout:     test.Patience(),
		Env:         append([]string{"TOKEN=secretsecret"}, c.env...),
		CheckoutEnv: c.env,
	}))
	test.OK(c.t, run.Confirm(c.t.Context(), host.ConfirmRequest{}))
	return answer
}

func (c *carrying) deliver(run host.Run, branch, delivered string) (host.DeliverAnswer, error) {
	return run.Deliver(c.t.Context(), host.DeliverRequest{
		Repository: host.Repository{URL: c.url},
		Branch:     branch,
		Delivered:  delivered,
		Timeout:    test.Patience(),
		Env:        append([]string{"TOKEN=secretsecret"}, c.env...),
	})
}

// A clone on the machine and a delivery from it go through the mirror of this side. Only new
// objects travel, and no secret.
func TestCarriedRepository(t *testing.T) {
	c := newCarrying(t)
	run, _ := c.prepare("A-1", nil)
	first := c.clone(run, "work/1", "")
	test.Equal(t, "base", first.Base, "main")
	test.Equal(t, "the whole repository was sent", c.sent.text.Len() > 300000, true)
	test.Equal(t, "tag", c.sh("git -C spaces/A-1 describe"), "first")
	c.sh("cd spaces/A-1; echo two > two; git add .; git commit -qm two")
	delivered := test.Must(c.deliver(run, "work/1", ""))
	test.Equal(t, "commits", delivered.Commits, 1)
	test.Equal(t, "branch of the remote", c.sh("git -C remote.git rev-parse work/1"), delivered.Commit)
	test.Equal(
		t,
		"branch of the workspace's remote",
		c.sh("git -C spaces/A-1 rev-parse origin/work/1"),
		delivered.Commit,
	)
	test.Equal(t, "delivered again", test.Must(c.deliver(run, "work/1", delivered.Commit)).Commits, 0)
	test.Equal(t, "a secret was sent", strings.Contains(c.sent.text.String(), "secretsecret"), false)
	test.OK(t, run.Finish(t.Context()))

	// A reference is deleted, one takes the name of its directory, and one is moved back.
	c.sh(`cd seed; git commit -q --allow-empty -m newer; git push -q ../remote.git main main:other
		git push -q ../remote.git :work/1 main:work main~:other -f`)
	run, prepared := c.prepare("A-2", nil)
	newer := c.clone(run, "work2", "")
	test.Equal(t, "commit", newer.Commit, c.sh("git -C seed rev-parse HEAD"))
	test.Equal(t, "all was sent again", c.sent.text.Len() > 100000, false)
	test.Equal(
		t,
		"branches",
		c.sh("git -C "+prepared.Workspace.Path+" for-each-ref --format='%(refname)' refs/remotes/origin"),
		"refs/remotes/origin/HEAD\nrefs/remotes/origin/main\nrefs/remotes/origin/other\nrefs/remotes/origin/work",
	)
	test.OK(t, run.Finish(t.Context()))
}

// After the machine is gone, with its workspaces and its mirror, a clone begins at the commit
// that was kept here, unless that was delivered or forgotten.
func TestKeptCommits(t *testing.T) {
	c := newCarrying(t)
	begin := func(delivered string) (host.Run, host.CloneAnswer) {
		c.sh("rm -rf spaces there")
		run, _ := c.prepare("A-1", nil)
		answer := test.Must(run.Clone(t.Context(), host.CloneRequest{
			Repository:  host.Repository{URL: c.url},
			Branch:      "work/1",
			Delivered:   delivered,
			Issue:       "A-1",
			Timeout:     test.Patience(),
			Env:         c.env,
			CheckoutEnv: c.env,
		}))
		test.OK(t, run.Confirm(t.Context(), host.ConfirmRequest{}))
		test.Equal(t, "HEAD", c.sh("git -C spaces/A-1 rev-parse HEAD"), answer.Commit)
		test.Equal(t, "branches of the remote", c.sh("git -C spaces/A-1 branch -r --list '*kept*'"), "")
		return run, answer
	}
	q := host.KeepRequest{
		Repository: host.Repository{URL: c.url},
		Issue:      "A-1",
		Timeout:    test.Patience(),
		Env:        c.env,
	}
	keep := func(run host.Run, message string) string {
		c.sh("cd spaces/A-1; echo " + message + " >> work; git add .; git commit -qm " + message)
		commit := test.Must(run.Keep(t.Context(), q))
		test.Equal(t, "kept", commit, c.sh("git -C spaces/A-1 rev-parse HEAD"))
		test.Equal(t, "kept again", test.Must(run.Keep(t.Context(), q)), commit)
		return commit
	}

	run, first := begin("")
	base := first.Commit
	test.Equal(t, "kept before", first.Kept, "")
	one := keep(run, "one")
	run, second := begin("")
	test.Equal(t, "the second machine", second, host.CloneAnswer{
		Base:       "main",
		Commit:     one,
		BaseCommit: base,
		Kept:       one,
	})
	two := keep(run, "two")

	// What was delivered does not come back, although its branch is gone.
	delivered := test.Must(c.deliver(run, "work/1", ""))
	test.Equal(t, "commits", delivered.Commits, 2)
	c.sh("git -C remote.git branch -qD work/1")
	run, third := begin(two)
	test.Equal(t, "after the delivery", third, host.CloneAnswer{
		Base:       "main",
		Commit:     base,
		BaseCommit: base,
		Kept:       two,
	})

	keep(run, "three")
	test.OK(t, run.Forget(t.Context(), q))
	_, fourth := begin(two)
	test.Equal(t, "after it was forgotten", fourth, host.CloneAnswer{
		Base:       "main",
		Commit:     base,
		BaseCommit: base,
	})
}

// A later run on the machine gets the newer commits through the mirrors, and what a merge into
// its commits, which were never delivered, would do.
func TestCarriedFetch(t *testing.T) {
	c := newCarrying(t)
	run, prepared := c.prepare("A-1", nil)
	c.clone(run, "work/1", "")
	test.OK(t, run.Finish(t.Context()))
	c.sh(
		"cd spaces/A-1; echo agent > two; git add .; git commit -qm two; cd ../../seed; echo main > " +
			"two; git add .; git commit -qm newer; git push -q ../remote.git main",
	)
	status := func() string {
		return c.sh(
			"cd spaces/A-1; git --no-optional-locks status --porcelain=v2 --branch; git hash-object .git/index",
		)
	}
	before := status()
	fetch := func(change func(host.RepositorySteps) host.RepositorySteps) (host.FetchAnswer, error) {
		run, again := c.prepare("A-1", change)
		test.Equal(t, "workspace", again.Workspace.Path, prepared.Workspace.Path)
		answer, err := run.Fetch(t.Context(), host.CloneRequest{
			Repository:  host.Repository{URL: c.url},
			Branch:      "work/1",
			Timeout:     test.Patience(),
			Env:         c.env,
			CheckoutEnv: c.env,
		})
		test.OK(t, run.Finish(t.Context()))
		return answer, err
	}
	newer := c.sh("git -C seed rev-parse HEAD")
	want := host.FetchAnswer{
		Base:   "main",
		Commit: newer,
		Behind: 1,
	}
	test.Equal(t, "answer", test.Must(fetch(nil)), want)
	test.Equal(t, "base", c.sh("git -C spaces/A-1 rev-parse origin/main"), newer)
	test.Equal(t, "the workspace", status(), before)
	test.Equal(t, "all was sent again", c.sent.text.Len() > 100000, false)

	want.Behind = -1
	lie := func(s host.RepositorySteps) host.RepositorySteps { return lyingFetch{s} }
	test.Equal(t, "answer of a hostile machine", test.Must(fetch(lie)), want)
	c.sh("mv remote.git away")
	if _, err := fetch(nil); err == nil ||
		!strings.Contains(err.Error(), "does not appear to be a git repository") {
		t.Errorf("without the remote: %v", err)
	}
	test.Equal(t, "base without the remote", c.sh("git -C spaces/A-1 rev-parse origin/main"), newer)
}

// The fetches of a run may bring less than its clone.
func TestFetchAfterClone(t *testing.T) {
	c := newCarrying(t)
	run, _ := c.prepare("A-1", nil)
	first := c.clone(run, "work/1", "")
	newer := c.sh(`cd seed; git commit -q --allow-empty -m newer; git push -q ../remote.git main; git rev-parse HEAD`)
	answer := test.Must(run.Fetch(t.Context(), host.CloneRequest{
		Repository:  host.Repository{URL: c.url},
		Branch:      "work/1",
		Timeout:     test.Patience(),
		Env:         c.env,
		CheckoutEnv: c.env,
	}))
	test.Equal(t, "base", []string{first.Base, answer.Commit}, []string{"main", newer})
	test.OK(t, run.Finish(t.Context()))
}

type lyingFetch struct{ host.RepositorySteps }

func (lyingFetch) FetchBundle(context.Context, host.BundleRequest) (host.FetchAnswer, error) {
	return host.FetchAnswer{Base: "trunk", Commit: "another", Behind: -1}, nil
}

// lying is a machine that is not what it should be.
type lying struct {
	host.RepositorySteps
	tips func(*host.TipsAnswer)
	size int64
	pack func(offset int64) []byte
}

func (l lying) ReadTips(ctx context.Context, q host.TipsRequest) (host.TipsAnswer, error) {
	answer, err := l.RepositorySteps.ReadTips(ctx, q)
	if l.tips != nil {
		l.tips(&answer)
	}
	return answer, err
}

func (l lying) MakePack(ctx context.Context, q host.PackRequest) (host.PackAnswer, error) {
	if l.pack != nil {
		return host.PackAnswer{Size: l.size}, nil
	}
	return l.RepositorySteps.MakePack(ctx, q)
}

func (l lying) ReadPack(ctx context.Context, offset int64) (host.Part, error) {
	if l.pack != nil {
		return host.Part{Data: l.pack(offset)}, nil
	}
	return l.RepositorySteps.ReadPack(ctx, offset)
}

// What a hostile machine sends is not pushed, and leaves nothing in the mirror.
func TestHostilePack(t *testing.T) {
	c := newCarrying(t)
	run, _ := c.prepare("A-1", nil)
	c.clone(run, "work/1", "")
	test.OK(t, run.Finish(t.Context()))
	c.sh("cd spaces/A-1; echo two > two; git add .; git commit -qm two; git commit -q --allow-empty -m three")
	c.sh("git -C spaces/A-1 rev-parse HEAD | git -C spaces/A-1 pack-objects --stdout -q > half")
	half := test.Must(os.ReadFile(filepath.Join(c.dir, "half")))
	size := func() string { return c.sh("find mirrors -type f -path '*objects*' | sort; ls mirrors") }
	before := size()
	remoteBefore := c.sh("git -C remote.git for-each-ref")
	whole := func(data []byte) lying {
		return lying{size: int64(len(data)), pack: func(int64) []byte { return data }}
	}
	for name, l := range map[string]lying{
		"garbage":              whole([]byte("garbage")),
		"nothing":              {pack: func(int64) []byte { return nil }},
		"less than it has":     {size: 9, pack: func(int64) []byte { return []byte("garbage") }},
		"too much":             {size: maxPack + 1, pack: func(int64) []byte { return nil }},
		"an incomplete commit": whole(half),
		"a large tree":         whole(largeTree(1 << 30)),
		"no commit":            {tips: func(a *host.TipsAnswer) { a.Commit = "--output=" + filepath.Join(c.dir, "mirrors", "written") }},
		"another commit":       {tips: func(a *host.TipsAnswer) { a.Commit = strings.Repeat("a", 40) }},
		"tips":                 {tips: func(a *host.TipsAnswer) { a.Tips = []string{"--all\n--not", "HEAD", "x y"} }},
	} {
		t.Run(name, func(t *testing.T) {
			run, _ := c.prepare(
				"A-1",
				func(r host.RepositorySteps) host.RepositorySteps { l.RepositorySteps = r; return l },
			)
			defer func() { test.OK(t, run.Finish(t.Context())) }()
			_, err := c.deliver(run, "work/1", "")
			known, is := errors.AsType[*reconcile.Error](err)
			if !is || !slices.Contains([]string{host.CodeDeliveryFailed, host.CodeGitLimit, codeFailed}, known.Code) {
				t.Errorf("error %v", err)
			}
			test.Equal(t, "remote", c.sh("git -C remote.git for-each-ref"), remoteBefore)
			test.Equal(t, "mirror", size(), before)
		})
	}
}

// largeTree returns a pack with one tree of that many zeros, which is small.
func largeTree(size int64) []byte {
	pack := append([]byte("PACK"), 0, 0, 0, 2, 0, 0, 0, 1)
	kind := byte(2<<4) | byte(size&15)
	rest := size >> 4
	for ; rest > 0; rest >>= 7 {
		pack = append(pack, kind|0x80)
		kind = byte(rest & 0x7f)
	}
	out := bytes.NewBuffer(append(pack, kind))
	deflate := zlib.NewWriter(out)
	_, _ = io.CopyN(deflate, zeros{}, size) // into memory
	_ = deflate.Close()
	sum := sha1.Sum(out.Bytes()) //nolint:gosec // git's
	return append(out.Bytes(), sum[:]...)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A link that is lost for too long, and a worker that dies after a push, lose and double
// nothing; and what agents or operators do to repositories and workspaces there neither.
func TestCarriedLater(t *testing.T) {
	c := newCarrying(t)
	refused := false
	run, prepared := c.prepare(
		"A-1",
		func(r host.RepositorySteps) host.RepositorySteps { return forgetful{r, &refused} },
	)
	c.clone(run, "work/1", "")
	at := prepared.Workspace.Path
	c.sh("cd " + at + "; head -c 300000 /dev/urandom > more; git add .; git commit -qm two")
	refused = true
	first := test.Must(c.deliver(run, "work/1", "")) // although that can't be recorded there
	refused = false

	// The next delivery brings only what is new, although the mirror there has never seen the
	// first one.
	c.sh("cd " + at + "; git commit -q --allow-empty -m three")
	before := c.received.Load()
	second := test.Must(c.deliver(run, "work/1", first.Commit))
	test.Equal(t, "the first commit was sent again", c.received.Load()-before > 100000, false)
	test.Equal(t, "branch", c.sh("git -C remote.git rev-parse work/1"), second.Commit)

	// The repository has another address, for which there is no mirror there.
	c.sh("mv remote.git moved.git; git -C " + at + " commit -q --allow-empty -m four")
	c.url = filepath.Join(c.dir, "moved.git")
	third := test.Must(c.deliver(run, "work/1", second.Commit))
	test.Equal(t, "branch", c.sh("git -C moved.git rev-parse work/1"), third.Commit)
	test.OK(t, run.Finish(t.Context()))

	// A hook has made the workspace.
	run, prepared = c.prepare("A-2", nil)
	c.sh(
		"git clone -q moved.git " + prepared.Workspace.Path + "; git -C " + prepared.Workspace.Path + " commit -q --allow-empty -m five",
	)
	test.OK(t, run.Confirm(t.Context(), host.ConfirmRequest{}))
	test.Equal(t, "commits", test.Must(c.deliver(run, "work/2", "")).Commits, 1)
	test.OK(t, run.Finish(t.Context()))
	test.Equal(
		t,
		"files left",
		c.sh("cd there/runs; ls run-A-1 run-A-2"),
		"run-A-1:\nprocs\ntree\n\nrun-A-2:\nprocs\ntree",
	)
}

// forgetful is a machine that can't record deliveries for a while.
type forgetful struct {
	host.RepositorySteps
	refuses *bool
}

func (f forgetful) RecordDelivered(ctx context.Context, q host.DeliveredRequest) error {
	if *f.refuses {
		return errors.New("lost")
	}
	return f.RepositorySteps.RecordDelivered(ctx, q)
}

// A slow host delays a delivery up to its limit.
func TestSlowPack(t *testing.T) {
	c := newCarrying(t)
	run, _ := c.prepare("A-1", func(r host.RepositorySteps) host.RepositorySteps {
		return lying{RepositorySteps: r, size: maxPack, pack: func(int64) []byte {
			time.Sleep(10 * time.Millisecond)
			return make([]byte, host.PartSize)
		}}
	})
	c.clone(run, "work/1", "")
	c.sh("git -C spaces/A-1 commit -q --allow-empty -m two")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		test.Until(t, "the pack is read", func() bool { return c.received.Load() > 8*host.PartSize })
		cancel()
	}()
	_, err := run.Deliver(ctx, host.DeliverRequest{
		Repository: host.Repository{URL: c.url},
		Branch:     "work/1",
		Timeout:    test.Patience(),
		Env:        c.env,
	})
	test.ErrorIs(t, "the delivery", err, context.Canceled)
	test.OK(t, run.Finish(t.Context()))
}
