package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/sshname"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/host/ssh"
	"github.com/symphony-cron/symphony/runner/proc"
)

// sshHosts are two hosts, near and far, behind a real ssh server on this machine. Each has a
// home of its own.
type sshHosts struct {
	dir     string
	env     []string // of ssh
	program engine.Program
}

func newSSHHosts(t *testing.T) *sshHosts {
	t.Helper()
	test.Expensive(t)
	if !canServeSSH() {
		t.Skip("sshd is not installed, or may not run")
	}
	h := &sshHosts{dir: t.TempDir()}
	setup := exec.Command("sh", "-ec", made("hosts.sh"))
	setup.Dir = h.dir
	setup.Env = append(os.Environ(), "WORK="+h.dir)
	test.Run(t, setup)
	h.env = append(os.Environ(), "PATH="+filepath.Join(h.dir, "bin")+":"+os.Getenv("PATH"))
	path := test.Must(exec.LookPath("symphony"))
	data := test.Must(os.ReadFile(path))
	sum := sha256.Sum256(data)
	h.program = engine.Program{Path: path, Sum: hex.EncodeToString(sum[:]), Size: int64(len(data))}
	return h
}

// link returns a link to a run.
func (h *sshHosts) link(host, run string) ssh.Engine {
	return ssh.Engine{Host: test.Must(sshname.Parse(host)), Run: &engine.Run{
		Program: h.program, Env: h.env, Project: "shop", LostAfter: time.Minute,
		Incarnation: remote.Incarnation{RunID: run, Number: 1, Secret: "secret"},
	}}
}

// connection is a client of a daemon. Its newest stream can be cut.
type connection struct {
	*remote.Client
	mu     sync.Mutex
	stream io.Closer
}

func connect(t *testing.T, l ssh.Engine) *connection {
	t.Helper()
	test.OK(t, l.Start(t.Context()))
	c := &connection{}
	dial := func(ctx context.Context) (io.ReadWriteCloser, error) {
		s, err := l.Dial(ctx)
		if err == nil {
			c.mu.Lock()
			c.stream = s
			c.mu.Unlock()
		}
		return s, err
	}
	c.Client = test.Must(remote.Connect(t.Context(), dial, l.Incarnation))
	t.Cleanup(c.Close)
	return c
}

func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.stream.Close()
}

// start starts a shell script on the host, which prints the pid of the daemon first.
func (c *connection) start(
	t *testing.T,
	run, script string,
) (p host.Process, daemon int, lines *bufio.Scanner) {
	t.Helper()
	r := remote.Machine{Client: c.Client}.Run(run)
	test.OK(t, r.Open(t.Context()))
	p = test.Must(r.Start(t.Context(), host.StartRequest{
		Argv: []string{"sh", "-c", "echo $PPID; " + script},
		Dir:  "/",
		Env:  []string{"PATH=" + os.Getenv("PATH"), host.RunMark + "=" + run},
	}))
	lines = bufio.NewScanner(p.Stdout())
	test.Equal(t, "a line", lines.Scan(), true)
	return p, test.Must(strconv.Atoi(lines.Text())), lines
}

func codeOfError(err error) string {
	var known *reconcile.Error
	if errors.As(err, &known) {
		return known.Code
	}
	return fmt.Sprint(err)
}

// exists reports whether a process is alive. A zombie is not.
func exists(pid int) bool {
	e, err := proc.Stat(pid)
	return err == nil && !e.Dead
}

// TestHosts serves runs on machines behind ssh. The daemon of a run outlives links, and ends
// with its run.
func TestHosts(t *testing.T) {
	h := newSSHHosts(t)

	t.Run("cut", func(t *testing.T) {
		t.Parallel()
		l := h.link("far", "run-cut")
		c := connect(t, l)
		p, daemon, lines := c.start(t, l.Incarnation.RunID, `pwd; echo "$HOME"; exec cat`)
		for i := range 5 {
			_ = test.Must(fmt.Fprintf(p.Stdin(), "line %d\n", i))
			c.cut()
		}
		test.OK(t, p.Stdin().Close())
		var got []string
		for lines.Scan() {
			got = append(got, lines.Text())
		}
		test.Equal(t, "output", strings.Join(got, "|"), "/||line 0|line 1|line 2|line 3|line 4")
		test.OK(t, p.Wait(t.Context())) // its stdout may end before it does, and Close kills it
		test.Equal(t, "exit", test.Must(p.Close()).Code, 0)
		test.OK(t, l.Start(t.Context())) // again: nothing happens
		test.OK(t, remote.Machine{Client: c.Client}.Run(l.Incarnation.RunID).Finish(t.Context()))
		test.OK(t, c.Release(t.Context()))
		c.Close()
		test.Until(t, "the daemon ends", func() bool { return !exists(daemon) })
		test.Equal(t, "started later", codeOfError(l.Start(t.Context())), remote.CodeEnded)
		_, err := remote.Connect(t.Context(), l.Dial, l.Incarnation)
		test.Equal(t, "connected later", codeOfError(err), remote.CodeEnded)
		test.Equal(
			t,
			"directories",
			test.Must(
				filepath.Glob(h.dir+"/hosts/*/.local/state/symphony/hosted/shop/runs/run-cut/outcome.json"),
			),
			[]string{h.dir + "/hosts/far/.local/state/symphony/hosted/shop/runs/run-cut/outcome.json"},
		)
	})

	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		l := h.link("near", "run-lost")
		l.LostAfter = 30 * time.Second // it is idle: the other parts run meanwhile
		c := connect(t, l)
		_, daemon, lines := c.start(t, l.Incarnation.RunID, `sleep 1000 & echo $!; exec cat`)
		test.Equal(t, "a line", lines.Scan(), true)
		child := test.Must(strconv.Atoi(lines.Text()))
		c.Close()
		test.Until(t, "the daemon ends", func() bool { return !exists(daemon) })
		test.Equal(t, "its process", exists(child), false)
		err := l.Start(t.Context())
		test.Equal(t, "started later", codeOfError(err), remote.CodeEnded)
		test.Contains(t, "why", err.Error(), "heard nothing")
	})

	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		l := h.link("near", "run-killed")
		c := connect(t, l)
		_, daemon, lines := c.start(t, l.Incarnation.RunID, `sleep 1000 & echo $!; exec sleep 1001`)
		test.Equal(t, "a line", lines.Scan(), true)
		child := test.Must(strconv.Atoi(lines.Text()))
		_ = test.Must(
			remote.Machine{
				Client: c.Client,
			}.Run(l.Incarnation.RunID).
				Observe(t.Context()),
		)
		test.OK(t, unix.Kill(daemon, unix.SIGKILL))
		<-c.Done()
		test.Equal(t, "the client", codeOfError(c.Err()), remote.CodeDied)
		test.Equal(t, "its process", exists(child), true)
		of := *l.Run
		next := ssh.Engine{Host: l.Host, Run: &of}
		next.Incarnation.Number = 2
		again := connect(t, next)
		test.Equal(t, "its process", exists(child), false)
		test.Equal(t, "the old incarnation", codeOfError(l.Start(t.Context())), remote.CodeRefused)
		_, err := remote.Connect(t.Context(), l.Dial, l.Incarnation)
		test.Equal(t, "its client", codeOfError(err), remote.CodeRefused)
		test.OK(t, again.Release(t.Context()))
		test.Equal(t, "the new one", codeOfError(next.Start(t.Context())), remote.CodeEnded)
	})

	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		l := h.link("far", "run-twice")
		var starts sync.WaitGroup
		for range 4 {
			starts.Go(func() { test.OK(t, l.Start(t.Context())) })
		}
		starts.Wait()
		test.OK(t, connect(t, l).Release(t.Context()))
	})

	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		l := h.link("gone", "run-gone")
		test.Equal(t, "error", codeOfError(l.Start(t.Context())), engine.CodeUnreachable)
		_, err := remote.Connect(t.Context(), l.Dial, l.Incarnation)
		test.Contains(t, "why", fmt.Sprint(err), "gone: ", "UNKNOWN port")
		l.Env = []string{"PATH=" + filepath.Join(h.dir, "hosts")}
		test.Equal(t, "without ssh", codeOfError(l.Start(t.Context())), engine.CodeMissing)
	})
}
