package runner

import (
	"context"
	"encoding/json"
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

// agent is the run's app-server process and the session with it.
type agentProcess struct {
	session agent.Session
	child   host.Process
	host    host.Host
	stderr  *agent.TailFile
	drained chan struct{} // stderr is read to its end
	ready   chan struct{} // session is set
	// launched gives back the launch of the first agent on a codex home; a no-op where it was not taken.
	launched func(used bool)
	// used is what was last counted; only the handler of events looks at it.
	used agent.Usage

	// sandboxUnproven: codex could not be asked whether it can sandbox commands.
	sandboxUnproven bool

	mu       sync.Mutex
	baseline map[reconcile.Process]bool // what lived below the agent when the turn began
	commands int                        // command items completed in this turn
	refused  int                        // those that look as if they could not be sandboxed
}

const stderrLimit = 256 << 10 // bytes kept of the agent's stderr

// launch starts codex.command in the workspace (specification 10.1). Its stdin is a pipe that the worker
// alone holds, so that the agent ends when the worker dies.
func (a *attempt) launch(ctx context.Context) error {
	launched, err := a.takeLaunch(ctx)
	if err != nil {
		return err
	}
	out, err := agent.OpenTailFile(filepath.Join(a.Dir, stderrFile), stderrLimit, a.Redactor)
	if err != nil {
		launched(false)
		return err
	}
	child, err := a.Host.Start(ctx, host.StartRequest{
		Run: a.hostRun(), Argv: []string{"bash", "-lc", a.agentCommand()}, Env: a.env().codex(), Dir: a.space.Path,
	})
	if err != nil {
		launched(false)
		if closeErr := out.Close(); closeErr != nil {
			a.Log.LogAttrs(ctx, slog.LevelWarn, "agent's stderr", slog.String("error", closeErr.Error()))
		}
		if isCode(err, reconcile.CodeResourceLimit) {
			return err
		}
		return &reconcile.Error{
			Code: "codex_not_found", Message: "starting bash for codex.command: " + err.Error(),
			Hint: "codex.command is run by bash -lc; install bash", Err: err,
		}
	}
	a.agent = &agentProcess{child: child, host: a.Host, stderr: out, drained: make(chan struct{}), ready: make(chan struct{}), launched: launched}
	go a.agent.drain(a.Log)
	options := a.sessionOptions()
	options.PID = child.Process().PID
	a.agent.session = a.Config.StartAgent(agent.Streams{Stdin: child.Stdin(), Stdout: child.Stdout()}, options)
	close(a.agent.ready)
	a.noteProcesses()
	return nil
}

func (a *attempt) sessionOptions() agent.Options {
	o := agent.Options{
		ClientVersion: a.Version, ReadTimeout: a.Config.ReadTimeout, InitializeTimeout: a.Config.InitializeTimeout,
		TurnTimeout: a.Config.TurnTimeout, StallTimeout: a.Config.StallTimeout,
		OnApproval: a.Config.OnApproval, OnQuestion: a.Config.OnQuestion, Ask: a.askPerson,
		Busy: a.agent.busy, OnEvent: a.onEvent,
	}
	if tool := a.Tracker.Tool; tool != nil {
		o.Tools = []agent.Tool{{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema}}
		o.CallTool = func(ctx context.Context, _ string, args json.RawMessage) agent.ToolResult {
			answer := a.callTool(ctx, args)
			return agent.ToolResult{Text: a.exact.Text(answer.Text), Success: answer.Success}
		}
	}
	return o
}

// callTool runs the agent's call. What changes the issue is announced in the run's row before it is sent,
// and the state that it led to is noted after: so a pass can tell a handoff from somebody else's move.
func (a *attempt) callTool(ctx context.Context, args json.RawMessage) reconcile.ToolAnswer {
	if !a.Tracker.Tool.ChangesIssue(args) {
		return a.callAndNote(ctx, args)
	}
	a.rec.handsOver()
	a.rec.flush(ctx)
	answer := a.callAndNote(ctx, args)
	found, err := a.Tracker.ByIDs(ctx, []string{a.run.IssueID})
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "handoff not confirmed", slog.String("error", err.Error()))
		return answer
	}
	a.rec.change(func(r *reconcile.Run) { r.HandoffState = found[a.run.IssueID].State })
	a.rec.flush(ctx)
	if issue, visible := found[a.run.IssueID]; visible && answer.Success {
		a.noteDescription(ctx, args, issue)
	}
	return answer
}

// agentCommand is codex.command for a login shell, whatever the profile does.
func (a *attempt) agentCommand() string {
	kept := a.Config.withheld(a.Env)
	command := proc.ShellIn(a.space.Path, proc.ShellUnset(kept, a.Config.Command))
	return proc.ShellReport(kept, filepath.Join(a.Dir, profileFile), command)
}

// profileHasKey reports whether the login profile sets a secret. The agent's command has reported it before
// the agent could answer anything.
func (a *attempt) profileHasKey() bool {
	_, err := os.Lstat(filepath.Join(a.Dir, profileFile))
	return err == nil
}

// drain reads stderr to its end, so that a talkative agent never blocks on it, be the disk full or not.
func (g *agentProcess) drain(log *slog.Logger) {
	defer close(g.drained)
	_, err := io.Copy(g.stderr, g.child.Stderr())
	if err = errors.Join(err, g.stderr.Err()); err != nil && !errors.Is(err, os.ErrClosed) {
		log.Warn("agent's stderr", slog.String("error", err.Error()))
	}
}

// How long the first agent on a codex home may keep the others waiting.
const launchBound = 5 * time.Second

// takeLaunch lets the first agent on a codex home start alone: simultaneous starts on a fresh home get in
// each other's way. Once a home is known to be used, nobody waits.
func (a *attempt) takeLaunch(ctx context.Context) (func(used bool), error) {
	key := "codex_home:" + a.Config.CodexHome
	nobodyWaits := func(bool) {}
	if _, used, err := a.Journal.Meta(ctx, key); err != nil || used {
		return nobodyWaits, err
	}
	lock := flock.New(filepath.Join(a.StateDir, "launch.lock"), flock.SetPermissions(0o600))
	bounded, cancel := context.WithTimeout(ctx, launchBound)
	defer cancel()
	held, err := lock.TryLockContext(bounded, 20*time.Millisecond)
	if ctx.Err() != nil {
		return nobodyWaits, context.Cause(ctx)
	}
	if !held {
		if err != nil && bounded.Err() == nil {
			return nobodyWaits, fmt.Errorf("launch lock: %w", err)
		}
		return nobodyWaits, nil // the first one takes long; all launch
	}
	unlock := func() {
		if err := lock.Unlock(); err != nil {
			a.Log.Warn("launch lock", slog.String("error", err.Error()))
		}
	}
	if _, used, err := a.Journal.Meta(ctx, key); err != nil || used {
		unlock()
		return nobodyWaits, err
	}
	var once sync.Once
	timer := time.AfterFunc(launchBound, func() { once.Do(unlock) })
	return func(used bool) {
		timer.Stop()
		if used {
			if err := a.Journal.SetMeta(context.WithoutCancel(ctx), key, "used"); err != nil {
				a.Log.Warn("codex home not remembered", slog.String("error", err.Error()))
			}
		}
		crash.At("runner.launch.noted")
		once.Do(unlock)
	}, nil
}

// beginTurn notes what lives below the agent: what it starts from here on is the turn's.
func (g *agentProcess) beginTurn() {
	found, err := g.host.List(context.Background(), host.ListRequest{Below: g.child.Process()})
	below := found.Processes
	g.mu.Lock()
	defer g.mu.Unlock()
	g.commands, g.refused = 0, 0
	g.baseline = map[reconcile.Process]bool{}
	if err != nil {
		return // then every process counts as the turn's: patience, not a wrong stall
	}
	for _, p := range below {
		g.baseline[p] = true
	}
}

// busy reports whether a process lives that the agent has started during this turn.
func (g *agentProcess) busy() bool {
	found, err := g.host.List(context.Background(), host.ListRequest{Below: g.child.Process()})
	below := found.Processes
	if err != nil {
		return true // not known: nobody is killed for that
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range below {
		if !g.baseline[p] {
			return true
		}
	}
	return false
}

// watch looks for commands that seem not to have been sandboxed, to find out whether the machine can sandbox any.
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
// completed. What a command prints proves nothing where the sandbox was probed, or another command worked.
func (g *agentProcess) sandboxFault() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.sandboxUnproven || g.refused < g.commands || g.commands == 0 {
		return nil
	}
	return sandboxUnavailable(fmt.Sprintf("all %d commands of the turn failed in its sandbox", g.commands))
}

// exitWithin waits for the agent's own end and says how it was; nil where it goes on, or nobody can tell.
func (g *agentProcess) exitWithin(ctx context.Context, d time.Duration) *host.Exit {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	if err := g.child.Wait(ctx); err != nil {
		return nil
	}
	select {
	case <-g.drained:
	case <-ctx.Done(): // somebody else still holds its stderr
	}
	exit, err := g.child.Close()
	if err != nil {
		return nil
	}
	return &exit
}

// The steps of ending an agent, each shorter than a stop may take in all.
const (
	interruptBound = 2 * time.Second
	stdinBound     = 1500 * time.Millisecond
	termBound      = time.Second
	wordsBound     = 500 * time.Millisecond
)

// endAgent ends the agent gently first: turn/interrupt, so that the thread can be gone on with; stdin's
// end, which codex takes for its own; SIGTERM; SIGKILL of the group.
func (a *attempt) endAgent(ctx context.Context) {
	if a.agent == nil {
		return
	}
	g := a.agent
	g.launched(false)
	bounded, cancel := context.WithTimeout(ctx, interruptBound)
	if err := g.session.Interrupt(bounded); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "turn not interrupted", slog.String("error", err.Error()))
	}
	cancel()
	a.rec.usage(ctx, g.session.UsageByThread())
	a.noteProcesses()
	if err := g.session.Close(); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelInfo, "agent's stdin", slog.String("error", err.Error()))
	}
	if !g.goneWithin(ctx, stdinBound) {
		g.signal(unix.SIGTERM, a.Log)
		if !g.goneWithin(ctx, termBound) {
			g.signal(unix.SIGKILL, a.Log)
		}
	}
	g.lastWords(ctx)
	if _, err := g.child.Close(); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "agent", slog.String("error", err.Error()))
	}
	if err := g.stderr.Close(); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "agent's stderr", slog.String("error", err.Error()))
	}
}

// lastWords lets what the agent said last be read; who else holds its streams is not waited for.
func (g *agentProcess) lastWords(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wordsBound)
	defer cancel()
	for _, over := range []<-chan struct{}{g.session.Done(), g.drained} {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
}

func (g *agentProcess) goneWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return g.child.Wait(ctx) == nil
}

func (g *agentProcess) signal(sig unix.Signal, log *slog.Logger) {
	if err := g.child.SignalGroup(sig); err != nil {
		log.Info("agent", slog.String("signal", sig.String()), slog.String("error", err.Error()))
	}
}
