//go:build linux

package chaos

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// remote is the repository that the workflow names, on a server whose connections fail at
// random. Its folder is not in the project's, so that its processes do not belong to the
// project, as on another machine.
type remote struct {
	dir, git string
	first    string // the first commit
	server   net.Listener
	all      sync.WaitGroup
	// of the storm; when it ends, connections that hang are closed, and later ones succeed
	ctx   context.Context
	calm  context.CancelFunc
	rests atomic.Bool   // all connections succeed for now
	ended chan struct{} // gets a value when a connection has ended
	forge *forge        // with its pull requests
	// command serves a connection by its input and output; if it is empty, the server at address to does
	command []string
	to      string

	mu     sync.Mutex
	random *rand.Rand
	theirs []string // commits of other people
}

// The remote refuses, waits for long, and dies after it has accepted a push.
var remoteHooks = map[string]string{
	"pre-receive":           `case $((RANDOM % 12)) in 0 | 1) echo no space for you; exit 1;; 2) sleep 2;; 3) sleep 600;; esac`,
	"reference-transaction": `if [ $1 = committed ] && [ $((RANDOM % 8)) = 0 ]; then kill -KILL $PPID; fi`,
}

func newRemote(random *rand.Rand) *remote {
	r := &remote{dir: stage.Get(os.MkdirTemp("", "symphony-remote-")), random: random}
	r.git = filepath.Join(r.dir, remoteName+".git")
	r.ctx, r.calm = context.WithCancel(context.Background())
	r.command = []string{"git", "daemon", "--inetd", "--enable=receive-pack", "--export-all", "--base-path=" + r.dir}
	r.ended = make(chan struct{}, 1)
	stage.Get(r.run("init", "-q", "--bare", "-b", "main", r.git))
	// what the hooks write
	stage.Must(os.WriteFile(filepath.Join(r.dir, "ignore"), []byte("*.txt\n"), 0o600))
	blob := stage.Get(r.run("hash-object", "-w", filepath.Join(r.dir, "ignore")))
	stage.Get(r.run("update-index", "--add", "--cacheinfo", "100644,"+blob+",.gitignore"))
	r.theirs = []string{stage.Get(r.run("commit-tree", stage.Get(r.run("write-tree")), "-m", "first"))}
	r.first = r.theirs[0]
	stage.Get(r.run("update-ref", "refs/heads/main", r.first))
	stage.Get(r.run("config", "transfer.hideRefs", "refs/kept"))
	for name, text := range remoteHooks {
		text = "#!/bin/bash\n[ \"$CHAOS_STORM\" ] || exit 0\n" + text + "\n"
		stage.Must(os.WriteFile(filepath.Join(r.git, "hooks", name), []byte(text), 0o700))
	}
	r.server = stage.Get(net.Listen("tcp", "127.0.0.1:0"))
	r.all.Go(func() {
		for conn, err := r.server.Accept(); err == nil; conn, err = r.server.Accept() {
			r.all.Go(func() { r.answer(conn) })
		}
	})
	return r
}

// remoteName is the owner and the name of the repository.
const remoteName = "acme/project"

func (r *remote) url() string { return "git://" + r.server.Addr().String() + "/" + remoteName + ".git" }

func (r *remote) close() error {
	r.calm()
	err := r.server.Close()
	r.all.Wait()
	if *keep {
		fmt.Fprintln(os.Stderr, "chaos: kept", r.dir)
		return err
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// run runs git in the remote repository.
func (r *remote) run(args ...string) (string, error) {
	return gitIn(r.git, args...)
}

func gitIn(dir string, args ...string) (string, error) {
	cmd := exec.Command(
		"git",
		append(
			[]string{"--git-dir", dir, "-c", "user.name=Other", "-c", "user.email=other@example.com"},
			args...)...)
	out, err := cmd.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func (r *remote) choose(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// answer answers one connection: in a storm perhaps late, not at all, with an error, with
// garbage, or with a part of the answer.
func (r *remote) answer(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	ctx := r.ctx
	most := int64(1 << 40)
	least := int64(1 << 40) // of the answer and of the request
	if ctx.Err() != nil || r.rests.Load() {
		ctx = context.Background()
	} else {
		// long enough for the killer to find git
		longest := 1000
		if *merges {
			longest = 200
		}
		pause(ctx, time.Duration(r.choose(longest))*time.Millisecond)
		ways := 24
		if *merges {
			ways = 96
		}
		if request, _ := in.Peek(24); !bytes.Contains(request, []byte("git-receive-pack")) {
			ways = 72 // a clone that fails blocks all issues for a while
		}
		switch r.choose(ways) {
		case 0, 1:
			return
		case 2:
			fmt.Fprint(conn, "000fERR not now")
			return
		case 3:
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\nwelcome")
			return
		case 4:
			pause(ctx, time.Duration(r.choose(40))*time.Second)
			return
		case 5, 6:
			least = int64(r.choose(3000))
		case 7, 8, 9:
			most = int64(r.choose(3000))
		}
	}
	if r.to != "" {
		r.forward(ctx, conn, in, least, most)
		return
	}
	cmd := exec.CommandContext(ctx, r.command[0], r.command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if ctx == r.ctx {
		cmd.Env = append(os.Environ(), "CHAOS_STORM=1")
	}
	stdin, inErr := cmd.StdinPipe()
	stdout, outErr := cmd.StdoutPipe()
	if errors.Join(inErr, outErr, cmd.Start()) != nil {
		return
	}
	r.all.Go(func() {
		_, _ = io.CopyN(stdin, in, least) // either side may end
		_ = stdin.Close()
	})
	_, _ = io.CopyN(conn, stdout, most)
	_ = conn.Close()
	select {
	case r.ended <- struct{}{}:
	default: // the striker is busy
	}
	_, _ = io.Copy(io.Discard, stdout)
	_ = cmd.Wait()
}

// forward lets another server answer a connection, of whose request and answer only a part may arrive.
func (r *remote) forward(ctx context.Context, conn net.Conn, in io.Reader, least, most int64) {
	far, err := net.Dial("tcp", r.to)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() { _ = far.Close() })() // it may have ended
	r.all.Go(func() {
		_, _ = io.CopyN(far, in, least) // either side may end
		_ = far.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.CopyN(conn, far, most)
}

// others changes branches as other people do. A step fails if a push has moved its branch
// meanwhile.
func (r *remote) others(ctx context.Context, random *rand.Rand) {
	for pause(ctx, time.Duration(300+random.IntN(3000))*time.Millisecond) {
		branch := fmt.Sprintf("refs/heads/symphony/ABC-%d", 1+random.IntN(issueCount()))
		tip, _ := r.run("rev-parse", "--verify", "-q", branch)
		step := random.IntN(5)
		if *merges && tip == "" {
			continue // nothing is delivered to a branch that somebody else has made
		}
		if *merges && step > 2 {
			step = 0 // a branch that is removed ends its pull request
		}
		switch step {
		case 0:
			_ = r.change("refs/heads/main")
		case 1:
			if tip != "" && r.change("refs/heads/main", tip) == nil {
				r.forge.removed(branch, true)
				_ = r.remove(branch)
			}
		case 2:
			_ = r.change(branch)
		default:
			_ = r.remove(branch)
		}
	}
}

// change adds a commit of someone else to a branch, which it creates at main if it is missing.
// The commit merges those that are given.
func (r *remote) change(branch string, merged ...string) error {
	old, _ := r.run("rev-parse", "--verify", "-q", branch)
	args := []string{
		"commit-tree",
		"main^{tree}",
		"-m",
		fmt.Sprintf("by someone else, %d", time.Now().UnixNano()),
		"-p",
		cmp.Or(old, "main"),
	}
	for _, m := range merged {
		args = append(args, "-p", m)
	}
	next, err := r.run(args...)
	if err == nil {
		_, err = r.run("update-ref", branch, next, cmp.Or(old, strings.Repeat("0", 40)))
	}
	if err == nil {
		r.theirs = append(r.theirs, next)
	}
	return err
}

// remove deletes a branch. Its commits stay in the repository, so that the checker finds them.
func (r *remote) remove(branch string) error {
	tip, err := r.run("rev-parse", "--verify", "-q", branch)
	if err == nil {
		_, err = r.run("update-ref", "refs/kept/"+tip, tip)
	}
	if err == nil {
		_, err = r.run("update-ref", "-d", branch, tip)
	}
	if err == nil {
		r.forge.removed(branch, false)
	}
	return err
}

// commits returns the commits that the references of a repository contain.
func commits(git string, of ...string) map[string]bool {
	has := map[string]bool{}
	for _, id := range strings.Fields(stage.Get(gitIn(git, append([]string{"rev-list"}, of...)...))) {
		has[id] = true
	}
	return has
}

// made is a commit of an agent, with the time at which it was complete.
type made struct {
	id string
	at int64 // Unix milliseconds
}

// made lists the commits of the agents of an issue.
func (s *scene) made(issue string) (list []made) {
	data, err := os.ReadFile(filepath.Join(s.Dir, "made", issue))
	if !os.IsNotExist(err) {
		stage.Must(err)
	}
	for line := range strings.Lines(string(data)) {
		// the agent may have been killed in between
		if id, at, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			list = append(list, made{id, stage.Get(strconv.ParseInt(at, 10, 64))})
		}
	}
	return list
}

// checkReleases checks that the remote has the work of every issue that was handed over since
// the last call.
func (c *checker) checkReleases(ctx context.Context) {
	for _, row := range c.query(ctx, `SELECT id || ' ' || identifier || ' ' || released_at || ' ' || reason FROM releases
		WHERE id > ? AND reason IN ('terminal', 'inactive')`, c.released) {
		w := strings.Fields(row)
		has := commits(c.remote.git, "--all")
		at := stage.Get(strconv.ParseInt(w[2], 10, 64))
		for _, m := range c.made(w[1]) {
			if m.at < at && !has[m.id] {
				c.fault("handed over without delivery", "%s (%s) without %s", w[1], w[3], m.id)
			}
		}
		c.released = stage.Get(strconv.Atoi(w[0]))
	}
}

// removeForeign removes the branches that contain commits of other people, as the message
// about such a branch asks for.
func (c *checker) removeForeign() {
	for _, branch := range strings.Fields(stage.Get(c.remote.run("for-each-ref", "--format=%(refname)", "refs/heads/symphony"))) {
		has := commits(c.remote.git, branch, "^main")
		if slices.ContainsFunc(c.remote.theirs, func(id string) bool { return has[id] }) {
			stage.Must(c.remote.remove(branch))
		}
	}
}

// checkCommits checks where the commits of agents and of other people are.
func (c *checker) checkCommits() {
	onRemote := commits(c.remote.git, "--all")
	kept := map[string]bool{}
	for _, root := range c.spaces() {
		for _, pattern := range []string{"*/.git", ".symphony/trash/*/.git"} {
			for _, git := range stage.Get(filepath.Glob(filepath.Join(root, pattern))) {
				for id := range commits(git, "--all", "HEAD") {
					kept[id] = true
				}
			}
		}
	}
	for _, id := range c.remote.theirs {
		if !onRemote[id] {
			c.fault("commits lost", "%s of someone else was overwritten", id)
		}
	}
	for id := range commits(c.remote.git, "--first-parent", "main") {
		if !slices.Contains(c.remote.theirs, id) {
			c.fault("commits on a wrong branch", "%s is on main", id)
		}
	}
	owner := map[string]string{} // by commit
	for _, i := range c.tracker.Issues() {
		for _, m := range c.made(i.Identifier) {
			c.commits++
			owner[m.id] = "refs/heads/symphony/" + i.Identifier
			if onRemote[m.id] {
				c.delivered++
			} else if !kept[m.id] {
				c.fault("commits lost", "%s of %s", m.id, i.Identifier)
			}
		}
	}
	for _, branch := range strings.Fields(stage.Get(c.remote.run("for-each-ref", "--format=%(refname)", "refs/heads"))) {
		for id := range commits(c.remote.git, branch, "^main") {
			if of := owner[id]; of != "" && of != branch {
				c.fault("commits on a wrong branch", "%s is on %s, not on %s", id, branch, of)
			}
		}
		seen := map[string]bool{}
		for subject := range strings.Lines(stage.Get(c.remote.run("log", "--format=%s", branch))) {
			if seen[subject] && !isUpdate(subject) { // the base may move on several times
				c.fault("commits delivered twice", "%s: %s", branch, subject)
			}
			seen[subject] = true
		}
	}
}

// checkMirrors checks that git commands have left nothing unfinished in the mirrors, and that
// they are complete.
func (c *checker) checkMirrors() {
	mirrors := c.mirrors()
	if want := len(c.spaces()); len(mirrors) < want || len(mirrors) > want+1 {
		c.fault("leftovers in the mirror", "mirrors: %q", mirrors)
	}
	for _, mirror := range mirrors {
		stage.Must(filepath.WalkDir(filepath.Dir(mirror), func(path string, d os.DirEntry, err error) error {
			if name := d.Name(); strings.Contains(name, "tmp") || strings.HasSuffix(name, ".incoming") ||
				strings.HasSuffix(name, ".lock") && path != mirror+".lock" {
				c.fault("leftovers in the mirror", "%s", path)
			}
			return err
		}))
		if out, err := gitIn(mirror, "fsck", "--connectivity-only", "--no-dangling"); err != nil ||
			out != "" {
			c.fault("leftovers in the mirror", "%s: %v %s", mirror, err, out)
		}
	}
}
