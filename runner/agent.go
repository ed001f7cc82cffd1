package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// agentProcess is the run's app-server process and the session with it.
type agentProcess struct {
	*job
	session agent.Session
	child   host.Process
	stderr  *agent.TailFile
	drained chan struct{} // closed when stderr is read to its end
	ready   chan struct{} // closed when session is set
	environ []string      // the variables that codex has; set once it has answered

	mu       sync.Mutex
	baseline map[reconcile.Process]bool // the processes below the agent when the turn began
}

const (
	stderrLimit = 256 << 10 // bytes kept of the agent's stderr
	// lastWordsKept is how much of it is looked at for its last line.
	lastWordsKept = 4 << 10
)

// launchAgent starts codex.command in the workspace (specification 10.1). Only the worker holds the other end of its stdin, so
// that the agent ends when the worker dies. Options are made for the process, whose session is not set yet.
func launchAgent(ctx context.Context, j *job, options func(*agentProcess) agent.Options) (*agentProcess, error) {
	stderr, err := agent.OpenTailFile(filepath.Join(j.Dir, stderrFile), stderrLimit, j.Redactor)
	if err != nil {
		return nil, err
	}
	// The login shell's profile may change the directory and set secrets.
	command := text.ShellIn(j.space.Path, text.ShellUnset(j.Config.withheld(j.Env), j.Config.Command))
	child, err := j.Host.Start(ctx, host.StartRequest{
		Run: j.hostRun(), Argv: []string{"bash", "-lc", command}, Env: j.codexEnv(), Dir: j.space.Path,
	})
	if err != nil {
		j.warn("agent's stderr", stderr.Close())
		return nil, noShell(err)
	}
	g := &agentProcess{job: j, child: child, stderr: stderr, drained: make(chan struct{}), ready: make(chan struct{})}
	go g.drain()
	o := options(g)
	o.PID, o.ClientVersion = child.Process().PID, j.Version
	o.ReadTimeout, o.InitializeTimeout = j.Config.ReadTimeout, j.Config.InitializeTimeout
	g.session = j.Config.StartAgent(agent.Streams{Stdin: child.Stdin(), Stdout: child.Stdout()}, o)
	close(g.ready)
	j.observe()
	return g, nil
}

// noShell is the error of a codex.command that could not be started.
func noShell(err error) error {
	if code, _ := codeOf(err); code == reconcile.CodeResourceLimit {
		return err
	}
	return &reconcile.Error{
		Code: "codex_not_found", Message: "starting bash for codex.command: " + err.Error(),
		Hint: "codex.command is run by bash -lc; install bash", Err: err,
	}
}

// drain reads stderr to its end, so that an agent never blocks on it, even if the disk is full.
func (g *agentProcess) drain() {
	defer close(g.drained)
	_, err := io.Copy(g.stderr, g.child.Stderr())
	if err = errors.Join(err, g.stderr.Err()); !errors.Is(err, os.ErrClosed) {
		g.warn("agent's stderr", err)
	}
}

// beginTurn notes the processes below the agent: those that appear later belong to the turn.
func (g *agentProcess) beginTurn() {
	found, err := g.Host.List(context.Background(), host.ListRequest{Below: g.child.Process()})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.baseline = map[reconcile.Process]bool{}
	if err != nil {
		return // then every process counts as the turn's: rather patience than a wrong stall
	}
	for _, p := range found.Processes {
		g.baseline[p] = true
	}
}

// busy reports whether a process lives that the agent has started during this turn.
func (g *agentProcess) busy() bool {
	found, err := g.Host.List(context.Background(), host.ListRequest{Below: g.child.Process()})
	if err != nil {
		return true // unknown: the run is not ended for that
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range found.Processes {
		if !g.baseline[p] {
			return true
		}
	}
	return false
}

// The steps of ending an agent, which together are shorter than a stop may take.
const (
	interruptBound = 2 * time.Second
	stdinBound     = 1500 * time.Millisecond
	termBound      = time.Second
	outputBound    = 500 * time.Millisecond
)

// exitWait is how long an agent that ended unasked waits for a signal to the worker: a scope that is stopped, or a shutdown,
// ends both, and then the agent has not failed.
const exitWait = time.Second

// explain replaces the error of a session whose agent has ended by how it ended.
func (g *agentProcess) explain(ctx context.Context, err error) error {
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != agent.CodePortExit || ctx.Err() != nil || !g.endedWithin(ctx, exitWait) {
		return err
	}
	awaitAll(exitWait, g.drained)
	exit, closeErr := g.child.Close()
	select {
	case <-ctx.Done():
		return err
	case <-time.After(exitWait):
	}
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	switch {
	case closeErr != nil:
		return err
	case exit.Code == 127 || exit.Code == 126:
		return &reconcile.Error{
			Code: "codex_not_found", Message: fmt.Sprintf("codex.command %q can't be run: %s", g.Config.Command, words),
			Hint: "install codex, or give its path in codex.command; it is looked up by bash -lc",
		}
	case words != "":
		words = ": " + words
	}
	return &agent.Error{Code: agent.CodePortExit, Message: "the agent ended unasked, " + exit.Text + words}
}

// withStderr adds the last line of the agent's stderr to the error of a session.
func (g *agentProcess) withStderr(err error) error {
	var e *agent.Error
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	if !errors.As(err, &e) || strings.HasSuffix(e.Message, words) {
		return err
	}
	told := *e
	told.Message += "; the last line of its stderr: " + words
	return &told
}

// awaitAll waits for all of the channels, no longer than bound: another process may hold the agent's streams.
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

// end ends the agent, gently first: turn/interrupt, so that the thread can be resumed; the end of its stdin, upon which codex
// exits; SIGTERM; SIGKILL of the group.
func (g *agentProcess) end(ctx context.Context) {
	if g == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, interruptBound)
	g.warn("turn not interrupted", g.session.Interrupt(bounded))
	cancel()
	if used := g.session.UsageByThread(); len(used) > 0 {
		g.rec.usage(ctx, used)
	}
	g.observe()
	g.warn("agent's stdin", g.session.Close())
	if !g.endedWithin(ctx, stdinBound) {
		g.warn("agent not signalled", g.child.SignalGroup(unix.SIGTERM))
		if !g.endedWithin(ctx, termBound) {
			g.warn("agent not killed", g.child.SignalGroup(unix.SIGKILL))
		}
	}
	awaitAll(outputBound, g.session.Done(), g.drained)
	_, err := g.child.Close()
	g.warn("agent", err)
	g.warn("agent's stderr", g.stderr.Close())
}

func (g *agentProcess) endedWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return g.child.Wait(ctx) == nil
}
