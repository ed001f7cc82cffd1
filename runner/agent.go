package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	drained chan struct{} // closed when stderr is read to its end
	ready   chan struct{} // closed when session is set
	gone    chan struct{} // closed when the session ends
	started []string      // the environment that codex.command was started with
	environ []string      // the environment of codex; set when codex first answers

	mu     sync.Mutex
	before []reconcile.Process // descendants of the agent when the turn started
}

const (
	stderrLimit   = 256 << 10 // bytes kept of the agent's stderr
	lastWordsKept = 4 << 10   // bytes at its end that are searched for the last line
)

// openAgent launches an agent and opens its session. It returns the agent also with the error
// of open. An agent that collided with another is replaced once.
func openAgent(
	ctx context.Context,
	j *job,
	options func(*agentProcess) agent.Options,
	open func(*agentProcess) error,
) (*agentProcess, error) {
	g, err := tryAgent(ctx, j, options, open)
	if g == nil || err == nil || ctx.Err() != nil || !Collided(err) {
		return g, err
	}
	j.Log.Info("the agent collided with another and is replaced once", "error", err)
	g.end(ctx)
	return tryAgent(ctx, j, options, open)
}

// tryAgent is a single attempt of openAgent. If it returns no agent, none was launched.
func tryAgent(
	ctx context.Context,
	j *job,
	options func(*agentProcess) agent.Options,
	open func(*agentProcess) error,
) (*agentProcess, error) {
	g, err := launchAgent(ctx, j, options)
	if err != nil {
		return nil, err
	}
	if err := open(g); err != nil {
		return g, g.explainStart(ctx, err)
	}
	return g, nil
}

// Collided reports whether an agent failed because another started at the same moment. They
// can delete each other's helper program, codex-linux-sandbox, and up to codex 0.166 they
// can't both create the database of a new codex home.
func Collided(err error) bool {
	if err == nil {
		return false
	}
	code, message := codeOf(err)
	return code == string(agent.CodeSandboxUnavailable) && strings.Contains(message, "No such file") ||
		strings.Contains(message, "failed to initialize sqlite state runtime")
}

// launchAgent starts codex.command in the workspace (specification 10.1). Only the worker
// holds the other end of its stdin, so that the agent exits when the worker dies. options is
// called before the session of the process is set.
func launchAgent(
	ctx context.Context,
	j *job,
	options func(*agentProcess) agent.Options,
) (*agentProcess, error) {
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
	g := &agentProcess{
		job:     j,
		started: env,
		child:   child,
		stderr:  stderr,
		drained: make(chan struct{}),
		ready:   make(chan struct{}),
		gone:    make(chan struct{}),
	}
	go g.drain()
	o := options(g)
	o.PID = child.Process().PID
	o.ClientVersion = j.Version
	o.Unheard = j.linkUnsettled
	o.ReadTimeout = j.Config.ReadTimeout
	o.InitializeTimeout = j.Config.InitializeTimeout
	g.session = j.Config.StartAgent(agent.Streams{Stdin: child.Stdin(), Stdout: child.Stdout()}, o)
	close(g.ready)
	go func() {
		defer close(g.gone)
		<-g.session.Done()
	}()
	j.observe(host.ObserveRequest{})
	return g, nil
}

// CheckHome returns the home that codex reports, without links; empty if it reports none. The
// warning is set if it is not the home of agents.
func (c Config) CheckHome(
	ctx context.Context,
	m host.Paths,
	reported string,
) (home, warning string, err error) {
	if reported == "" {
		return "", "", nil
	}
	homes, err := m.Resolve(ctx, []string{reported, c.AgentHome})
	if err != nil {
		return "", "", err
	}
	home = homes[0]
	if c.AgentHome != "" && home != homes[1] {
		warning = fmt.Sprintf(
			"codex uses the home %s, not that of agents, %s: its rules and programs work outside the sandbox",
			reported,
			c.AgentHome,
		)
	}
	return home, warning, nil
}

// initialize opens the session, and checks the agent's report and that it can sandbox
// commands. The home that it returns is without links.
func (g *agentProcess) initialize(ctx context.Context) (agent.Server, error) {
	server, err := g.session.Initialize(ctx)
	if err != nil {
		return server, err
	}
	g.Log.Info("agent ready", "user_agent", server.UserAgent)
	if server.Version == "" {
		g.Log.Warn("the agent names no codex release: it gets only what the specification names, " +
			"no settings of codex and no permission profile, and its sandbox is not tried")
	}
	home, warning, err := g.Config.CheckHome(ctx, g.Machine, server.Home)
	if err != nil {
		return server, err
	}
	server.Home = home
	if warning != "" {
		g.Log.Warn(warning)
	}
	g.readEnviron(ctx)
	if server.Version == "" {
		return server, nil
	}
	return server, g.probeSandbox(ctx)
}

// drain reads stderr to its end, so that an agent never blocks on it, even if the disk is
// full.
func (g *agentProcess) drain() {
	defer close(g.drained)
	_, err := io.Copy(g.stderr, g.child.Stderr())
	err = errors.Join(err, g.stderr.Err())
	if !errors.Is(err, os.ErrClosed) {
		g.warn("agent's stderr", err)
	}
}

// readEnviron reads the environment of the running codex. If the system does not show it,
// readEnviron uses the environment that codex was started with.
func (g *agentProcess) readEnviron(ctx context.Context) {
	// The processes of codex.command: codex may run below a wrapper.
	environ, err := g.child.Environ(ctx)
	g.warn(
		"the agent's environment can't be read: secrets that only codex.command sets are not redacted",
		err,
	)
	g.environ = environ
	if len(environ) == 0 {
		g.environ = g.started
	}
	g.Redactor.Add(g.Config.SecretsIn(g.environ))
}

// probeSandbox checks whether codex can sandbox commands in the workspace, before a turn uses
// tokens. If codex gives no answer, for instance on a busy machine, that is not an error.
func (g *agentProcess) probeSandbox(ctx context.Context) error {
	policy, err := g.Config.TurnPolicy(ctx, g.Machine, *g.space)
	if err != nil || !confine.Confines(policy) {
		return err
	}
	err = confine.TrySandbox(ctx, g.session, g.space.Path, host.RunDir(g.StateDir, g.run.ID), policy)
	exited, _ := errors.AsType[*agent.Error](g.explain(ctx, err))
	if exited != nil && exited.Code == agent.CodePortExit && !g.killed() {
		err = reconcile.NewError(
			string(agent.CodeSandboxUnavailable),
			"the agent can't try its sandbox: "+exited.Message,
			confine.SandboxHint(),
		)
	}
	if errors.Is(err, agent.ErrNoProbe) {
		g.warn("sandbox not probed", err)
		return nil
	}
	if known, ok := errors.AsType[*reconcile.Error](err); ok { // the run's row does not store the hint
		g.Log.Warn(known.Message, "code", known.Code, "hint", known.Hint)
	}
	return err
}

// beginTurn records the descendants of the agent. Later descendants belong to the turn. If
// they can't be listed, all belong to it: a late stall is better than a false alarm.
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
	return err != nil ||
		slices.ContainsFunc(below, func(p reconcile.Process) bool { return !slices.Contains(g.before, p) })
}

// desk passes requests to an operator. ending is closed when the run must end. gone is closed
// when the asking process exits; nil if it can't.
func (j *job) desk(ending, gone <-chan struct{}) *agent.Desk {
	return &agent.Desk{
		Store:    j.Requests,
		Timeout:  j.Config.AnswerTimeout,
		Redactor: j.Redactor,
		Log:      j.Log,
		Now:      j.Now,
		Notify:   j.Attend,
		Instant:  func() reconcile.Instant { return reconcile.Instant{Boot: j.Boot, Mono: j.Mono()} },
		Run:      j.rec.get,
		Ending:   ending,
		Gone:     gone,
	}
}

// Timeouts of the steps that end an agent. Their sum is shorter than a stop may take.
const (
	interruptBound = 2 * time.Second
	stdinBound     = 1500 * time.Millisecond
	termBound      = time.Second
	// lockBound is for programs of hooks and login profiles that may have to remove a lock
	// after SIGTERM.
	lockBound   = 2 * time.Second
	outputBound = 500 * time.Millisecond
	wordsStep   = 10 * time.Millisecond // between two looks for output
)

// exitWait is how long the worker waits for a signal after the agent exits: a shutdown, or a
// stopped scope, ends both, and then the agent did not fail.
const exitWait = time.Second

// explainStart is like explain, and adds the last line of the agent's stderr.
func (g *agentProcess) explainStart(ctx context.Context, err error) error {
	err = g.explain(ctx, err)
	e, ok := errors.AsType[*agent.Error](err)
	if !ok {
		return err
	}
	words := g.lastWords()
	if strings.HasSuffix(e.Message, words) {
		return err
	}
	explained := *e
	explained.Message += "; the last line of its stderr: " + words
	return &explained
}

// lastWords returns the last line of the agent's stderr. The agent is about to be ended:
// output that it wrote before its answer may arrive after the answer.
func (g *agentProcess) lastWords() string {
	end := time.After(outputBound)
	look := time.NewTicker(wordsStep)
	defer look.Stop()
	for {
		words := agent.LastWords(g.stderr.Tail(lastWordsKept))
		if words != "" {
			return words
		}
		select {
		case <-g.drained:
			return agent.LastWords(g.stderr.Tail(lastWordsKept))
		case <-end:
			return ""
		case <-look.C:
		}
	}
}

// explain returns why the agent exited if that ended the session, else err.
func (g *agentProcess) explain(ctx context.Context, err error) error {
	e, isAgentError := errors.AsType[*agent.Error](err)
	if !isAgentError || e.Code != agent.CodePortExit || ctx.Err() != nil {
		return err
	}
	if !g.endedWithin(ctx, exitWait) {
		return err // it only closed its stdout
	}
	awaitAll(exitWait, g.drained)
	exit, closeErr := g.child.Close()
	if closeErr != nil {
		return err
	}
	// A signal that ends the run may have reached the agent first.
	select {
	case <-ctx.Done():
		return err
	case <-time.After(exitWait):
	}
	exited := g.exitError(exit)
	ended, isAgentError := errors.AsType[*agent.Error](exited)
	if isAgentError && e.Said != "" {
		return ended.Saying(e.Said)
	}
	return exited
}

// exitError is the error of an agent that exited by itself.
func (g *agentProcess) exitError(exit host.Exit) error {
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	notFound := exit.Code == 126 || exit.Code == 127 // as the shell reports it
	if notFound && g.Free != nil {
		return reconcile.NewError(
			"codex_not_found",
			fmt.Sprintf("%q can't be run: %s", g.Config.Command, words),
			"install codex so that a login shell finds it, or set CODEX_BIN to its path",
		)
	}
	if notFound {
		return reconcile.NewError(
			"codex_not_found",
			fmt.Sprintf("codex.command %q can't be run: %s", g.Config.Command, words),
			"install codex so that bash -lc finds it, or give its path in codex.command",
		)
	}
	message := "the agent exited unexpectedly, " + exit.Text
	if words != "" {
		message += ": " + words
	}
	exited := &agent.Error{Code: agent.CodePortExit, Message: message}
	if g.environ == nil && exit.Code == 0 {
		// an app-server waits for messages: this ended as it would for anybody
		exited.Cause = agent.CodeIncompatible
		exited.Message += fmt.Sprintf(", before it answered: %q does not start codex app-server", g.Config.Command)
	}
	return exited
}

// killed reports whether a signal ended the agent, perhaps below a wrapper, or its exit is not
// known.
func (g *agentProcess) killed() bool {
	exit, err := g.child.Close()
	return err != nil || exit.Code < 0 || exit.Code > 128
}

// awaitAll waits until all channels are closed, but no longer than bound, because another
// process may keep the streams open.
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

// end ends the agent in steps: turn/interrupt, so that the thread can be resumed; closing
// stdin, which makes codex exit; SIGTERM; SIGKILL. The signals go to the process group. A
// program that did not answer may not be codex, but for example a login profile or a package
// manager: it gets SIGTERM at once and more time, because a lock that it leaves would delay
// later runs.
func (g *agentProcess) end(ctx context.Context) {
	if g == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, interruptBound)
	g.warn("turn not interrupted", g.session.Interrupt(bounded))
	cancel()
	g.rec.storeTokens(ctx, g.session)
	g.observe(host.ObserveRequest{})
	g.warn("agent's stdin", g.session.Close())
	stdin := stdinBound
	term := termBound
	if g.environ == nil {
		stdin = 0
		term = lockBound
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
	// stdout is closed: the events that are still queued are stored before the log is closed
	<-g.session.Done()
	g.warn("agent's stderr", g.stderr.Close())
}

func (g *agentProcess) endedWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return g.child.Wait(ctx) == nil
}
