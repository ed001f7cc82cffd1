package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// agentProcess is the run's app-server process and the session with it.
type agentProcess struct {
	*job
	session agent.Session
	child   host.Process
	stderr  *agent.TailFile
	drained chan struct{} // closed when stderr is read to its end
	ready   chan struct{} // closed when session is set
	// launched releases the launch lock of a codex home that was not used before. It must be called.
	launched func(used bool)
	environ  codexEnviron // set once codex has answered
	// sandboxUnproven: codex could not be asked whether it can sandbox commands.
	sandboxUnproven bool

	mu       sync.Mutex
	baseline map[reconcile.Process]bool // the processes below the agent when the turn began
	commands int                        // command items completed in this turn
	refused  int                        // those that look as if they could not be sandboxed
}

const stderrLimit = 256 << 10 // bytes kept of the agent's stderr

// launchAgent starts codex.command in the workspace (specification 10.1). Only the worker holds the other end of its stdin, so
// that the agent ends when the worker dies. Options are made for the process, whose session is not set yet.
func launchAgent(ctx context.Context, j *job, options func(*agentProcess) agent.Options) (*agentProcess, error) {
	launched, err := j.lockLaunch(ctx)
	if err != nil {
		return nil, err
	}
	stderr, err := agent.OpenTailFile(filepath.Join(j.Dir, stderrFile), stderrLimit, j.Redactor)
	if err != nil {
		launched(false)
		return nil, err
	}
	// The login shell's profile may change the directory and set secrets.
	withheld := j.Config.withheld(j.Env)
	command := proc.ShellIn(j.space.Path, proc.ShellUnset(withheld, j.Config.Command))
	command = proc.ShellReport(withheld, filepath.Join(j.Dir, profileFile), command)
	child, err := j.Host.Start(ctx, host.StartRequest{
		Run: j.hostRun(), Argv: []string{"bash", "-lc", command}, Env: j.env().codex(), Dir: j.space.Path,
	})
	if err != nil {
		launched(false)
		if closeErr := stderr.Close(); closeErr != nil {
			j.Log.LogAttrs(ctx, slog.LevelWarn, "agent's stderr", slog.String("error", closeErr.Error()))
		}
		if isCode(err, reconcile.CodeResourceLimit) {
			return nil, err
		}
		return nil, noShell(err)
	}
	g := &agentProcess{job: j, child: child, stderr: stderr, drained: make(chan struct{}), ready: make(chan struct{}), launched: launched}
	go g.drain()
	o := options(g)
	o.PID = child.Process().PID
	g.session = j.Config.StartAgent(agent.Streams{Stdin: child.Stdin(), Stdout: child.Stdout()}, o)
	close(g.ready)
	j.noteProcesses()
	return g, nil
}

// noShell is the error of a codex.command that could not be started.
func noShell(err error) error {
	return &reconcile.Error{
		Code: "codex_not_found", Message: "starting bash for codex.command: " + err.Error(),
		Hint: "codex.command is run by bash -lc; install bash", Err: err,
	}
}

// profileHasKey reports whether the login profile sets a secret. The shell has reported it before codex answered.
func (g *agentProcess) profileHasKey() bool {
	_, err := os.Lstat(filepath.Join(g.Dir, profileFile))
	return err == nil
}

// drain reads stderr to its end, so that an agent never blocks on it, even if the disk is full.
func (g *agentProcess) drain() {
	defer close(g.drained)
	_, err := io.Copy(g.stderr, g.child.Stderr())
	if err = errors.Join(err, g.stderr.Err()); err != nil && !errors.Is(err, os.ErrClosed) {
		g.Log.Warn("agent's stderr", slog.String("error", err.Error()))
	}
}

// launchBound is how long the first agent on a codex home may keep others waiting.
const launchBound = 5 * time.Second

// lockLaunch lets the first agent on a codex home start alone, because simultaneous starts on a fresh home disturb each other.
// Once a home is known to be used there is no lock.
func (j *job) lockLaunch(ctx context.Context) (launched func(used bool), err error) {
	key := "codex_home:" + j.Config.CodexHome
	unlocked := func(bool) {}
	if _, used, err := j.Journal.Meta(ctx, key); err != nil || used {
		return unlocked, err
	}
	lock := flock.New(filepath.Join(j.StateDir, "launch.lock"), flock.SetPermissions(0o600))
	bounded, cancel := context.WithTimeout(ctx, launchBound)
	defer cancel()
	held, err := lock.TryLockContext(bounded, 20*time.Millisecond)
	switch {
	case ctx.Err() != nil:
		return unlocked, context.Cause(ctx)
	case !held && err != nil && bounded.Err() == nil:
		return unlocked, fmt.Errorf("launch lock: %w", err)
	case !held:
		return unlocked, nil // the first one takes long; all launch
	}
	unlock := sync.OnceFunc(func() {
		if err := lock.Unlock(); err != nil {
			j.Log.Warn("launch lock", slog.String("error", err.Error()))
		}
	})
	if _, used, err := j.Journal.Meta(ctx, key); err != nil || used {
		unlock()
		return unlocked, err
	}
	timer := time.AfterFunc(launchBound, unlock)
	return func(used bool) {
		timer.Stop()
		if used {
			if err := j.Journal.SetMeta(context.WithoutCancel(ctx), key, "used"); err != nil {
				j.Log.Warn("codex home not remembered", slog.String("error", err.Error()))
			}
		}
		crash.At("runner.launch.noted")
		unlock()
	}, nil
}

// beginTurn notes the processes below the agent: those that appear later belong to the turn.
func (g *agentProcess) beginTurn() {
	found, err := g.Host.List(context.Background(), host.ListRequest{Below: g.child.Process()})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commands, g.refused = 0, 0
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

// watch counts commands, and those that seem not to have been sandboxed.
func (g *agentProcess) watch(item *agent.Item) {
	if item == nil || item.Kind != agent.ItemCommand || !item.Ended {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commands++
	if item.Unsandboxed {
		g.refused++
	}
}

// sandboxFault reports a turn whose every command failed as if the machine could not sandbox: codex calls such a turn
// completed. What a command prints proves nothing if the sandbox was probed, or another command worked.
func (g *agentProcess) sandboxFault() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.sandboxUnproven || g.refused < g.commands || g.commands == 0 {
		return nil
	}
	return sandboxUnavailable(fmt.Sprintf("all %d commands of the turn failed in its sandbox", g.commands))
}

// exitWait is how long an agent that ended unasked waits for a signal to the worker: a scope that is stopped, or a shutdown,
// ends both, and then the agent has not failed.
const exitWait = time.Second

// explain replaces the error of a session whose agent has ended by how it ended.
func (g *agentProcess) explain(ctx context.Context, err error) error {
	var e *agent.Error
	if !errors.As(err, &e) || e.Code != agent.CodePortExit || ctx.Err() != nil {
		return err
	}
	exit := g.exitWithin(ctx, exitWait)
	select {
	case <-ctx.Done():
		return err
	case <-time.After(exitWait):
	}
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	if exit == nil {
		return g.withStderr(err)
	}
	if exit.Code == 127 || exit.Code == 126 {
		return &reconcile.Error{
			Code: "codex_not_found", Message: fmt.Sprintf("codex.command %q can't be run: %s", g.Config.Command, words),
			Hint: "install codex, or give its path in codex.command; it is looked up by bash -lc",
		}
	}
	message := fmt.Sprintf("the agent ended unasked, %s", exit.Text)
	if words != "" {
		message += ": " + words
	}
	return &reconcile.Error{
		Code: string(agent.CodePortExit), Message: message, Hint: "its stderr: " + filepath.Join(g.Dir, stderrFile),
	}
}

// withStderr adds the last line of the agent's stderr to the error of a session.
func (g *agentProcess) withStderr(err error) error {
	var e *agent.Error
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	if !errors.As(err, &e) || words == "" {
		return err
	}
	told := *e
	told.Message += "; the last line of its stderr: " + words
	return &told
}

// startFault explains why the agent could not start, or what it wrote if it still runs.
func (g *agentProcess) startFault(ctx context.Context, err error) error {
	var e *agent.Error
	if errors.As(err, &e) && e.Code != agent.CodePortExit {
		return g.withStderr(err)
	}
	return g.explain(ctx, err)
}

// exitWithin waits for the agent's own end; nil if it goes on.
func (g *agentProcess) exitWithin(ctx context.Context, d time.Duration) *host.Exit {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	if err := g.child.Wait(ctx); err != nil {
		return nil
	}
	select {
	case <-g.drained:
	case <-ctx.Done(): // another process still holds its stderr
	}
	exit, err := g.child.Close()
	if err != nil {
		return nil
	}
	return &exit
}

// The steps of ending an agent, which together are shorter than a stop may take.
const (
	interruptBound = 2 * time.Second
	stdinBound     = 1500 * time.Millisecond
	termBound      = time.Second
	outputBound    = 500 * time.Millisecond
)

// end ends the agent, gently first: turn/interrupt, so that the thread can be resumed; the end of its stdin, upon which codex
// exits; SIGTERM; SIGKILL of the group.
func (g *agentProcess) end(ctx context.Context) {
	if g == nil {
		return
	}
	g.launched(false)
	bounded, cancel := context.WithTimeout(ctx, interruptBound)
	g.warn(ctx, "turn not interrupted", g.session.Interrupt(bounded))
	cancel()
	g.rec.usage(ctx, g.session.UsageByThread())
	g.noteProcesses()
	g.warn(ctx, "agent's stdin", g.session.Close())
	if !g.endedWithin(ctx, stdinBound) {
		g.warn(ctx, "agent not signalled", g.child.SignalGroup(unix.SIGTERM))
		if !g.endedWithin(ctx, termBound) {
			g.warn(ctx, "agent not killed", g.child.SignalGroup(unix.SIGKILL))
		}
	}
	bounded, cancel = context.WithTimeout(ctx, outputBound)
	defer cancel()
	for _, over := range []<-chan struct{}{g.session.Done(), g.drained} {
		select {
		case <-over:
		case <-bounded.Done(): // another process still holds its streams
		}
	}
	_, err := g.child.Close()
	g.warn(ctx, "agent", err)
	g.warn(ctx, "agent's stderr", g.stderr.Close())
}

func (g *agentProcess) endedWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return g.child.Wait(ctx) == nil
}

func (g *agentProcess) warn(ctx context.Context, what string, err error) {
	if err != nil {
		g.Log.LogAttrs(ctx, slog.LevelWarn, what, slog.String("error", err.Error()))
	}
}
