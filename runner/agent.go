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
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
)

// agentProcess is the run's app-server process and the session with it.
type agentProcess struct {
	*job
	session agent.Session
	child   host.Process
	stderr  *agent.TailFile
	drained chan struct{} // closed when stderr has been read to its end
	ready   chan struct{} // closed when session is set
	started []string      // the environment that codex.command was started with
	environ []string      // the environment of codex; set once codex has answered

	mu     sync.Mutex
	before []reconcile.Process // descendants of the agent when the turn started
}

const (
	stderrLimit   = 256 << 10 // bytes kept of the agent's stderr
	lastWordsKept = 4 << 10   // bytes at its end that are searched for the last line
)

// launchAgent starts codex.command in the workspace (specification 10.1). Only the worker has the other end of its stdin open, so
// that the agent exits when the worker dies. options is called before the session of the process is set.
func launchAgent(ctx context.Context, j *job, options func(*agentProcess) agent.Options) (*agentProcess, error) {
	argv, env, err := j.codexShell(ctx, strings.TrimSpace(j.Config.Command+" "+j.flags))
	if err != nil {
		return nil, err
	}
	stderr, err := agent.OpenTailFile(filepath.Join(j.Dir, j.stderr), stderrLimit, j.Redactor)
	if err != nil {
		return nil, err
	}
	child, err := j.host.Start(ctx, host.StartRequest{Argv: argv, Env: env, Dir: "/"})
	if err != nil {
		j.warn("agent's stderr", stderr.Close())
		return nil, noShell(err)
	}
	g := &agentProcess{job: j, started: env, child: child, stderr: stderr, drained: make(chan struct{}), ready: make(chan struct{})}
	go g.drain()
	o := options(g)
	o.PID, o.ClientVersion = child.Process().PID, j.Version
	o.ReadTimeout, o.InitializeTimeout = j.Config.ReadTimeout, j.Config.InitializeTimeout
	g.session = j.Config.StartAgent(agent.Streams{Stdin: child.Stdin(), Stdout: child.Stdout()}, o)
	close(g.ready)
	j.observe()
	return g, nil
}

// OtherHome explains the effect if codex reports another home than it was given; "" if it reports that home, or none.
func (c Config) OtherHome(reported string) string {
	if c.AgentHome == "" || reported == "" || sameDir(reported, c.AgentHome) {
		return ""
	}
	return fmt.Sprintf("codex uses the home %s, not that of agents, %s: its rules and programs work outside the sandbox",
		reported, c.AgentHome)
}

// drain reads stderr to its end, so that an agent never blocks on it, even if the disk is full.
func (g *agentProcess) drain() {
	defer close(g.drained)
	_, err := io.Copy(g.stderr, g.child.Stderr())
	if err = errors.Join(err, g.stderr.Err()); !errors.Is(err, os.ErrClosed) {
		g.warn("agent's stderr", err)
	}
}

// readEnviron reads the environment of the running codex. If the system does not show it, readEnviron uses the environment that
// codex was started with.
func (g *agentProcess) readEnviron(ctx context.Context) {
	// The processes of codex.command: codex may run below a wrapper.
	environ, err := g.child.Environ(ctx)
	g.warn("the agent's environment can't be read: secrets that only codex.command sets are not redacted", err)
	if g.environ = environ; len(g.environ) == 0 {
		g.environ = g.started
	}
	g.Redactor.Add(g.Config.SecretsIn(g.environ))
}

// probeSandbox checks whether codex can sandbox commands in the workspace, before a turn uses tokens. If codex gives no answer,
// for instance on a busy machine, that is not an error.
func (g *agentProcess) probeSandbox(ctx context.Context) error {
	policy, err := g.Config.TurnPolicy(ctx, g.Machine, *g.space)
	if err != nil || !agent.Confines(policy) {
		return err
	}
	err = confine.TrySandbox(ctx, g.session, g.space.Path, g.Dir, policy)
	var known *reconcile.Error
	var exited *agent.Error
	if explained := g.explain(ctx, err); errors.As(explained, &exited) && exited.Code == agent.CodePortExit && !g.killed() {
		err = reconcile.NewError(string(agent.CodeSandboxUnavailable), "the agent can't try its sandbox: "+exited.Message, confine.SandboxHint())
	}
	switch {
	case errors.Is(err, agent.ErrNoProbe):
		g.warn("sandbox not probed", err)
		return nil
	case errors.As(err, &known): // the run's row has no hint
		g.Log.Warn(known.Message, "code", known.Code, "hint", known.Hint)
	}
	return err
}

// beginTurn records the descendants of the agent. Those that appear later belong to the turn. If they can't be listed, all
// belong to it: a late stall is better than a false one.
func (g *agentProcess) beginTurn() {
	below, _ := g.child.Descendants(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = below
}

// busy reports whether a process that the agent started during this turn is or may be alive.
func (g *agentProcess) busy() bool {
	below, err := g.child.Descendants(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	return err != nil || slices.ContainsFunc(below, func(p reconcile.Process) bool { return !slices.Contains(g.before, p) })
}

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
	case <-ctx.Done():
		return err
	case <-time.After(exitWait):
	}
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	switch {
	case closeErr != nil:
		return err
	case (exit.Code == 127 || exit.Code == 126) && g.Free != nil:
		return reconcile.NewError("codex_not_found", fmt.Sprintf("%q can't be run: %s", g.Config.Command, words),
			"install codex so that a login shell finds it, or set CODEX_BIN to its path")
	case exit.Code == 127 || exit.Code == 126:
		return reconcile.NewError("codex_not_found", fmt.Sprintf("codex.command %q can't be run: %s", g.Config.Command, words),
			"install codex so that bash -lc finds it, or give its path in codex.command")
	case words != "":
		words = ": " + words
	}
	return &agent.Error{Code: agent.CodePortExit, Message: "the agent exited unexpectedly, " + exit.Text + words}
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
	g.rec.usage(ctx, g.session)
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

// Inspection is an agent that was started like that of a run, in a temporary workspace, to query it. Close must be called.
type Inspection struct {
	Session agent.Session
	// Server is what codex reported about itself.
	Server agent.Server
	// Cwd is the temporary workspace, Policy the sandbox policy of a turn.
	Cwd    string
	Policy json.RawMessage

	dir     string
	process *agentProcess
}

// Inspect starts codex.command in a temporary workspace below parent, which must exist. env is the environment of a worker. Codex
// writes to its home as in a run. The errors are those of a run whose agent does not start.
func (c Config) Inspect(ctx context.Context, m host.Machine, env []string, parent, version string) (_ *Inspection, err error) {
	dir, err := os.MkdirTemp(parent, ".symphony-doctor-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	i := &Inspection{dir: dir, Cwd: filepath.Join(dir, "workspace")}
	space := &host.Workspace{Path: i.Cwd, TmpDir: filepath.Join(dir, "tmp"), CacheDir: filepath.Join(dir, "cache")}
	space.Codex = host.Dirs{Tmp: filepath.Join(dir, "codex-tmp"), Cache: filepath.Join(dir, "codex-cache")}
	space.Hooks = space.Codex
	for _, d := range []string{i.Cwd, space.TmpDir, space.CacheDir, space.Codex.Tmp, space.Codex.Cache} {
		if err == nil {
			err = os.Mkdir(d, 0o700)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("temporary workspace for codex: %w", err), i.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	w := &Worker{
		Config: c, Machine: m, Dir: dir, Env: env, Version: version,
		Log: slog.New(slog.DiscardHandler), Redactor: agent.NewRedactor(c.SecretValues),
	}
	// The name of the directory serves as the run's id, which marks the processes.
	j := w.newJob(reconcile.Run{ID: filepath.Base(dir)}, func(error) {})
	j.space = space
	if i.Policy, err = c.TurnPolicy(ctx, w.Machine, *space); err != nil {
		return nil, err
	}
	noOptions := func(*agentProcess) agent.Options { return agent.Options{} }
	i.process, err = openAgent(ctx, j, noOptions, func(g *agentProcess) (err error) {
		i.Session = g.session
		i.Server, err = g.session.Initialize(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	i.process.environ = i.process.started // it has answered: see end
	return i, nil
}

// TrySandbox has codex try the sandbox of a turn. Errors: sandbox_unavailable, agent.ErrNoProbe.
func (i *Inspection) TrySandbox(ctx context.Context) error {
	return confine.TrySandbox(ctx, i.Session, i.Cwd, i.dir, i.Policy)
}

// Close ends the agent and all processes that it left, and removes the temporary workspace.
func (i *Inspection) Close() (err error) {
	if i.process != nil {
		ctx := context.Background()
		i.process.end(ctx)
		// MCP servers, and programs that a login profile starts, are not in the process group.
		err = i.process.ended(i.process.host.Kill(ctx, host.KillRequest{}))
	}
	return errors.Join(err, os.RemoveAll(i.dir))
}
