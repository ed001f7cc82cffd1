package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// holdThreadCmd has another codex open the thread of an issue's last run, and keep it until release-thread: a
// stranger's, or, with ours, one that carries the thread's id as what codex has started does. hold-thread ABC-1 [ours]
func holdThreadCmd(ts *testscript.TestScript, neg bool, args []string) {
	ours := len(args) == 2 && args[1] == "ours"
	if neg || len(args) != 1 && !ours {
		ts.Fatalf("usage: hold-thread ISSUE [ours]")
	}
	thread, err := query(ts.Getenv("STATE"), fmt.Sprintf("SELECT thread_id FROM runs WHERE identifier = '%s' ORDER BY id DESC LIMIT 1", args[0]))
	ts.Check(err)
	thread = strings.TrimSpace(thread)
	command := strings.Fields(ts.Getenv("REAL_CODEX"))
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = ts.MkAbs("."), scriptEnv(ts), io.Discard
	if ours {
		cmd.Env = append(cmd.Env, "CODEX_THREAD_ID="+thread)
	}
	h, err := holdThread(cmd, thread, ts.MkAbs("."))
	ts.Check(err)
	ts.Defer(h.end) // after release-thread it does nothing
	stageOf(ts).holder = h
}

// releaseThreadCmd ends what hold-thread started, which must not have ended before; ! release-thread demands that
// somebody else has ended it.
func releaseThreadCmd(ts *testscript.TestScript, neg bool, args []string) {
	h := stageOf(ts).holder
	if len(args) != 0 || h == nil {
		ts.Fatalf("usage: [!] release-thread, after hold-thread")
	}
	if neg {
		waitFor(ts, "the end of the codex that holds the thread", func() (bool, string) { return h.ended(), "alive" })
	} else if h.ended() {
		ts.Fatalf("somebody ended the codex that held the thread")
	}
	h.end()
}

// holder is a codex beside symphony's.
type holder struct {
	session agent.Session
	cmd     *exec.Cmd
	exited  chan struct{}
}

func holdThread(cmd *exec.Cmd, thread, dir string) (*holder, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &holder{cmd: cmd, exited: make(chan struct{})}
	h.session = codex.New(agent.Streams{Stdin: stdin, Stdout: stdout}, agent.Options{ReadTimeout: bound, OnEvent: func(agent.Event) {}})
	go func() {
		<-h.session.Done() // Wait would take what is still to be read
		_ = cmd.Wait()     // how it ended is nobody's business
		close(h.exited)
	}()
	ctx := context.Background()
	_, err = h.session.Initialize(ctx)
	if err == nil {
		err = h.session.ResumeThread(ctx, thread, agent.ThreadParams{Cwd: dir})
	}
	if err != nil {
		h.end()
	}
	return h, err
}

func (h *holder) ended() bool {
	select {
	case <-h.exited:
		return true
	default:
		return false
	}
}

func (h *holder) end() {
	_ = h.session.Close() // codex ends with its stdin
	select {
	case <-h.exited:
	case <-time.After(bound):
		_ = h.cmd.Process.Kill()
		<-h.exited
	}
}
