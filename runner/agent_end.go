package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// Timeouts of the steps that end an agent. Their sum is shorter than a stop may take.
const (
	interruptBound = 2 * time.Second
	stdinBound     = 1500 * time.Millisecond
	termBound      = time.Second
	lockBound      = 2 * time.Second // after SIGTERM, for programs that may have to remove a lock: those of hooks and login profiles
	outputBound    = 500 * time.Millisecond
)

// exitWait is how long the worker waits for a signal after the agent has exited: a shutdown, or a stopped scope, ends both, and
// then the agent has not failed.
const exitWait = time.Second

// explainStart is like explain, and adds the last line of the agent's stderr.
func (g *agentProcess) explainStart(ctx context.Context, err error) error {
	err = g.explain(ctx, err)
	var e *agent.Error
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	if !errors.As(err, &e) || strings.HasSuffix(e.Message, words) {
		return err
	}
	explained := *e
	explained.Message += "; the last line of its stderr: " + words
	return &explained
}

// explain returns why the agent exited if that ended the session, else err.
func (g *agentProcess) explain(ctx context.Context, err error) error {
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != agent.CodePortExit || ctx.Err() != nil || !g.endedWithin(ctx, exitWait) {
		return err
	}
	awaitAll(exitWait, g.drained)
	exit, closeErr := g.child.Close()
	select {
	case <-ctx.Done(): // what ends the run has also ended the agent
		return err
	case <-time.After(exitWait):
	}
	if closeErr != nil {
		return err
	}
	return g.exitError(exit)
}

// exitError is the error of an agent that has exited by itself.
func (g *agentProcess) exitError(exit host.Exit) error {
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	switch notRun := exit.Code == 126 || exit.Code == 127; {
	case notRun && g.Free != nil:
		return reconcile.NewError("codex_not_found", fmt.Sprintf("%q can't be run: %s", g.Config.Command, words),
			"install codex so that a login shell finds it, or set CODEX_BIN to its path")
	case notRun:
		return reconcile.NewError("codex_not_found", fmt.Sprintf("codex.command %q can't be run: %s", g.Config.Command, words),
			"install codex so that bash -lc finds it, or give its path in codex.command")
	}
	message := "the agent exited unexpectedly, " + exit.Text
	if words != "" {
		message += ": " + words
	}
	return &agent.Error{Code: agent.CodePortExit, Message: message}
}

// killed reports whether a signal has ended the agent, perhaps below a wrapper, or it is not known to have exited.
func (g *agentProcess) killed() bool {
	exit, err := g.child.Close()
	return err != nil || exit.Code < 0 || exit.Code > 128
}

// awaitAll waits until all channels are closed, but no longer than bound, because another process may keep the streams open.
func awaitAll(bound time.Duration, channels ...<-chan struct{}) {
	end := time.After(bound)
	for _, c := range channels {
		select {
		case <-c:
		case <-end:
			return
		}
	}
}

// end ends the agent in steps: turn/interrupt, so that the thread can be resumed; closing stdin, which makes codex exit; SIGTERM;
// SIGKILL. The signals go to the process group. A program that has not answered may be another one than codex, such as one of a
// login profile or a package manager: it gets SIGTERM at once and more time, because a lock that it leaves would delay later runs.
func (g *agentProcess) end(ctx context.Context) {
	if g == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, interruptBound)
	g.warn("turn not interrupted", g.session.Interrupt(bounded))
	cancel()
	g.rec.storeTokens(ctx, g.session)
	g.observe()
	g.warn("agent's stdin", g.session.Close())
	stdin, term := stdinBound, termBound
	if g.environ == nil {
		stdin, term = 0, lockBound
	}
	if !g.endedWithin(ctx, stdin) {
		g.warn("agent not signalled", g.child.SignalGroup(unix.SIGTERM))
		if !g.endedWithin(ctx, term) {
			g.warn("agent not killed", g.child.SignalGroup(unix.SIGKILL))
		}
	}
	awaitAll(outputBound, g.session.Done(), g.drained)
	_, err := g.child.Close()
	g.warn("agent", err)
	<-g.session.Done() // stdout is closed: the events that are still queued are stored before the log is closed
	g.warn("agent's stderr", g.stderr.Close())
}

func (g *agentProcess) endedWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return g.child.Wait(ctx) == nil
}
