package remote

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

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
	sent *record // what the newest client has sent
}

// record keeps what the client writes.
type record struct {
	io.ReadWriteCloser
	mu   sync.Mutex
	text strings.Builder
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
	c := &carrying{t: t, dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@b",
	}}
	c.sh(`git init -q --bare -b main remote.git; git init -q -b main seed; cd seed; head -c 300000 /dev/urandom > large; git add .; git commit -qm one
		git tag -am first first; git push -q --follow-tags ../remote.git main`)
	return c
}

func (c *carrying) sh(script string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "sh", "-ec", script)
	cmd.Dir, cmd.Env = c.dir, c.env
	return test.Run(c.t, cmd)
}

// changedRun is a run of the machine with other calls for clones and deliveries.
type changedRun struct {
	host.Run
	host.BundledRun
}

// oneRun is a machine with one run.
type oneRun struct {
	host.Machine
	run host.Run
}

func (m oneRun) Run(string) host.Run { return m.run }

// prepare prepares the workspace of an issue on the machine, which may be a changed one, and returns the run.
func (c *carrying) prepare(issue string, change func(host.BundledRun) host.BundledRun) (host.Run, host.PrepareAnswer) {
	c.t.Helper()
	there := local.Machine{StateDir: filepath.Join(c.dir, "there"), Account: host.Account{Env: c.env}}
	of := Incarnation{"run-" + issue, 1, "s"}
	test.OK(c.t, os.MkdirAll(host.RunDir(there.StateDir, of.RunID), 0o700))
	real := there.Run(of.RunID)
	bundled := real.(host.BundledRun)
	if change != nil {
		bundled = change(bundled)
	}
	r := &rig{Server: NewServer(oneRun{there, changedRun{real, bundled}}, of, c.t.TempDir())}
	client := test.Must(Connect(c.t.Context(), func(ctx context.Context) (io.ReadWriteCloser, error) {
		conn, err := r.dial(ctx)
		c.sent = &record{ReadWriteCloser: conn}
		return c.sent, err
	}, of))
	c.t.Cleanup(func() {
		client.Close()
		test.OK(c.t, r.Close())
	})
	run := Machine{Client: client, Mirrors: local.Mirrors{Dir: filepath.Join(c.dir, "mirrors")}}.Run(of.RunID)
	answer := test.Must(run.Prepare(c.t.Context(), host.PrepareRequest{Root: filepath.Join(c.dir, "spaces"), Issue: host.Issue{
		ID: issue, Identifier: issue, Project: "p", StateDir: there.StateDir,
	}}))
	return run, answer
}

func (c *carrying) clone(run host.Run, branch, delivered string) host.CloneAnswer {
	c.t.Helper()
	answer := test.Must(run.Clone(c.t.Context(), host.CloneRequest{
		Repository: host.Repository{URL: filepath.Join(c.dir, "remote.git")}, Branch: branch, Delivered: delivered, Timeout: test.Patience(),
		Env: append([]string{"TOKEN=secretsecret"}, c.env...), CheckoutEnv: c.env,
	}))
	test.OK(c.t, run.Confirm(c.t.Context(), host.ConfirmRequest{}))
	return answer
}

func (c *carrying) deliver(run host.Run, branch, delivered string) (host.DeliverAnswer, error) {
	return run.Deliver(c.t.Context(), host.DeliverRequest{
		Repository: host.Repository{URL: filepath.Join(c.dir, "remote.git")}, Branch: branch, Delivered: delivered, Timeout: test.Patience(),
		Env: append([]string{"TOKEN=secretsecret"}, c.env...),
	})
}

// A clone on the machine and a delivery from it go through the mirror of this side. Only new objects travel, and no secret.
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
	test.Equal(t, "branch of the workspace's remote", c.sh("git -C spaces/A-1 rev-parse origin/work/1"), delivered.Commit)
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
	test.Equal(t, "branches", c.sh("git -C "+prepared.Workspace.Path+" for-each-ref --format='%(refname)' refs/remotes/origin"),
		"refs/remotes/origin/HEAD\nrefs/remotes/origin/main\nrefs/remotes/origin/other\nrefs/remotes/origin/work")
	test.OK(t, run.Finish(t.Context()))
}

// lying is a machine that is not what it should be.
type lying struct {
	host.BundledRun
	tips func(*host.TipsAnswer)
	pack func(offset int64) []byte
}

func (l lying) ReadTips(ctx context.Context, q host.TipsRequest) (host.TipsAnswer, error) {
	answer, err := l.BundledRun.ReadTips(ctx, q)
	if l.tips != nil {
		l.tips(&answer)
	}
	return answer, err
}

func (l lying) MakePack(ctx context.Context, q host.PackRequest) error {
	if l.pack != nil {
		return nil
	}
	return l.BundledRun.MakePack(ctx, q)
}

func (l lying) ReadPack(ctx context.Context, offset int64) (host.Part, error) {
	if l.pack != nil {
		return host.Part{Data: l.pack(offset)}, nil
	}
	return l.BundledRun.ReadPack(ctx, offset)
}

// What a hostile machine sends is not pushed, and leaves nothing in the mirror.
func TestHostilePack(t *testing.T) {
	c := newCarrying(t)
	run, _ := c.prepare("A-1", nil)
	c.clone(run, "work/1", "")
	test.OK(t, run.Finish(t.Context()))
	c.sh("cd spaces/A-1; echo two > two; git add .; git commit -qm two; git commit -q --allow-empty -m three")
	half := c.sh("git -C spaces/A-1 rev-parse HEAD | git -C spaces/A-1 pack-objects --stdout -q > half; base64 -w0 half")
	size := func() string { return c.sh("find mirrors -type f -path '*objects*' | sort; ls mirrors") }
	before, remoteBefore := size(), c.sh("git -C remote.git for-each-ref")
	once := func(text string) func(int64) []byte {
		return func(offset int64) []byte {
			if offset > 0 {
				return nil
			}
			return []byte(c.sh("printf %s " + text + " | base64 -d"))
		}
	}
	for name, l := range map[string]lying{
		"garbage":              {pack: once("Z2FyYmFnZQ==")},
		"nothing":              {pack: func(int64) []byte { return nil }},
		"an incomplete commit": {pack: once(half)},
		"no commit":            {tips: func(a *host.TipsAnswer) { a.Commit = "--output=" + filepath.Join(c.dir, "mirrors", "written") }},
		"another commit":       {tips: func(a *host.TipsAnswer) { a.Commit = strings.Repeat("a", 40) }},
		"tips":                 {tips: func(a *host.TipsAnswer) { a.Tips = []string{"--all\n--not", "HEAD", "x y"} }, pack: once(half)},
	} {
		t.Run(name, func(t *testing.T) {
			run, _ := c.prepare("A-1", func(r host.BundledRun) host.BundledRun { l.BundledRun = r; return l })
			defer func() { test.OK(t, run.Finish(t.Context())) }()
			_, err := c.deliver(run, "work/1", "")
			var known *reconcile.Error
			if !errors.As(err, &known) || known.Code != host.CodeDeliveryFailed {
				t.Errorf("error %v", err)
			}
			test.Equal(t, "remote", c.sh("git -C remote.git for-each-ref"), remoteBefore)
			test.Equal(t, "mirror", size(), before)
		})
	}
}
