package runner

import (
	"bytes"
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

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/sandbox"
)

// launcher starts the agents of a run.
type launcher struct {
	*parts
	site   *site  // where they start
	shell  *shell // there
	stderr string // the name of the file in the run's directory with the agent's stderr
	flags  string // additional arguments of the command, for a shell
}

// agentProcess is an app-server process of the run, and the session with it.
type agentProcess struct {
	*launcher

	session agent.Session
	child   host.Process
	guarded bool // its own git is refused
	stderr  *agent.TailFile
	drained chan struct{} // closed when stderr is read to its end
	ready   chan struct{} // closed when session is set
	gone    chan struct{} // closed when the session ends
	started []string      // the environment that the command was started with
	environ []string      // the environment of the agent; set when it first answers

	mu     sync.Mutex
	before []reconcile.Process // descendants of the agent when the turn started
}

const (
	stderrLimit   = 256 << 10 // bytes kept of the agent's stderr
	lastWordsKept = 4 << 10   // bytes at its end that are searched for the last line
)

// in returns a launcher for another site. It runs the login profile there itself, unless that
// ran a short time ago.
func (l *launcher) in(s *site) *launcher {
	shell := *l.shell
	shell.site = s
	other := *l
	other.site = s
	other.shell = &shell
	return &other
}

// addPermissions starts agents with the permission profile of turns. It returns the name of
// the profile for commands, which are no turns; "" if the policy needs no profile.
func (l *launcher) addPermissions(ctx context.Context) (name string, err error) {
	_, profile, err := l.site.profile(ctx)
	if err != nil || profile == nil {
		return "", err
	}
	l.flags = confine.ProfileFlags(map[string]any{confine.ProfileName: profile})
	return confine.ProfileName, nil
}

// open launches an agent and opens its session. It returns the agent also with the error of
// openSession. An agent that collided with another is replaced once, and so is a codex whose
// own git is not guarded.
func (l *launcher) open(
	ctx context.Context,
	options func(*agentProcess) agent.Options,
	openSession func(*agentProcess) error,
) (*agentProcess, error) {
	g, err := l.try(ctx, options, openSession)
	unguarded := errors.Is(err, errUnguarded)
	if g == nil || ctx.Err() != nil || !unguarded && !Collided(err) {
		return g, err
	}
	l.Log.Info("the agent is replaced", "error", err)
	l.shell.isCodex = l.shell.isCodex || unguarded
	g.end(ctx)
	return l.try(ctx, options, openSession)
}

// errUnguarded means that the agent is codex, although its command has another name.
var errUnguarded = errors.New("the command starts codex under another name, whose own git has to be refused")

// try is a single attempt of open. If it returns no agent, none was launched.
func (l *launcher) try(
	ctx context.Context,
	options func(*agentProcess) agent.Options,
	openSession func(*agentProcess) error,
) (*agentProcess, error) {
	g, err := l.launch(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := openSession(g); err != nil {
		return g, g.explainStart(ctx, err)
	}
	return g, nil
}

// Collided reports whether an agent failed because another started at the same moment. They
// can delete each other's helper program for the sandbox, and older releases can't both create
// the database of a new home. Of several OpenCodes in a new home, one creates its database, and
// the others end with "Unexpected error".
func Collided(err error) bool {
	if err == nil {
		return false
	}
	code, message := codeOf(err)
	return code == string(agent.CodeSandboxUnavailable) && strings.Contains(message, "No such file") ||
		strings.Contains(message, "failed to initialize sqlite state runtime") ||
		code == string(agent.CodePortExit) && strings.Contains(message, "Error: Unexpected error")
}

// launch starts the agent's command in the workspace (specification 10.1). Only the worker
// holds the other end of its stdin, so that the agent exits when the worker dies. options is
// called before the session of the process is set.
func (l *launcher) launch(
	ctx context.Context,
	options func(*agentProcess) agent.Options,
) (*agentProcess, error) {
	config := l.site.Config
	request, err := l.shell.agent(ctx, strings.TrimSpace(config.Command+" "+l.flags))
	if err != nil {
		return nil, err
	}
	stderr, err := agent.OpenTailFile(filepath.Join(l.Dir, l.stderr), stderrLimit, l.Redactor)
	if err != nil {
		return nil, err
	}
	child, err := l.site.host.Start(ctx, request)
	if err != nil {
		warn(l.Log, "agent's stderr", stderr.Close())
		return nil, noShell(config.Agent, err)
	}
	g := &agentProcess{
		launcher: l,
		started:  request.Env,
		child:    child,
		guarded:  l.shell.refusesGit(config.Command),
		stderr:   stderr,
		drained:  make(chan struct{}),
		ready:    make(chan struct{}),
		gone:     make(chan struct{}),
	}
	go g.drain()
	o := options(g)
	o.PID = child.Process().PID
	o.ClientVersion = l.Version
	o.Unheard = l.site.unsettled
	o.ReadTimeout = config.ReadTimeout
	o.InitializeTimeout = config.InitializeTimeout
	o.TrustRepository = config.TrustRepository
	g.session = config.Agent.Start(agent.Streams{Stdin: child.Stdin(), Stdout: child.Stdout()}, o)
	close(g.ready)
	go func() {
		defer close(g.gone)
		<-g.session.Done()
	}()
	l.processes.observe()
	return g, nil
}

// CheckHome returns the home that the agent reports, without links; empty if it reports none. The
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
			"%s uses the home %s, not the agents' home %s: its rules and programs work outside the sandbox",
			c.Agent.Title,
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
	if !g.site.Config.Agent.Sandboxes {
		g.readEnviron(ctx)
		server.Home = g.site.Config.Agent.Name // its own sessions are no other kind's
		return server, nil
	}
	if server.Limits != "" {
		g.Log.Warn(server.Limits)
	} else if !g.guarded && g.site.Config.confinesItself() {
		return server, errUnguarded
	}
	home, warning, err := g.site.Config.CheckHome(ctx, g.site.Machine, server.Home)
	if err != nil {
		return server, err
	}
	server.Home = home
	if warning != "" {
		g.Log.Warn(warning)
	}
	g.readEnviron(ctx)
	if server.Limits != "" {
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
		warn(g.Log, "agent's stderr", err)
	}
}

// readEnviron reads the environment of the running agent. If the system does not show it,
// readEnviron uses the environment that the agent was started with.
func (g *agentProcess) readEnviron(ctx context.Context) {
	// The processes of the command: the agent may run below a wrapper.
	environ, err := g.child.Environ(ctx)
	warn(
		g.Log,
		"the agent's environment can't be read: secrets in it are not redacted",
		err,
	)
	g.environ = environ
	if len(environ) == 0 {
		g.environ = g.started
	}
	g.Redactor.Add(g.site.Config.SecretsIn(g.environ))
}

// probeSandbox checks whether the agent can sandbox commands in the workspace, before a turn uses
// tokens. If the agent gives no answer, for instance on a busy machine, that is not an error.
func (g *agentProcess) probeSandbox(ctx context.Context) error {
	policy, err := g.site.turnPolicy(ctx)
	if err != nil || !confine.Confines(policy) {
		return err
	}
	runDir := host.RunDir(g.site.StateDir, g.run.ID)
	err = g.sandboxFault(ctx, confine.TrySandbox(ctx, g.session, g.site.space.Path, runDir, policy))
	if errors.Is(err, agent.ErrNoProbe) {
		warn(g.Log, "sandbox not probed", err)
		return nil
	}
	known, ok := errors.AsType[*reconcile.Error](err)
	if ok { // the run's row does not store the hint
		g.Log.Warn(known.Message, "code", known.Code, "hint", known.Hint)
	}
	return err
}

// sandboxFault returns the error of a probe: an agent that exits during the probe can't try its
// sandbox.
func (g *agentProcess) sandboxFault(ctx context.Context, err error) error {
	exited, _ := errors.AsType[*agent.Error](g.explain(ctx, err))
	if exited == nil || exited.Code != agent.CodePortExit || g.killed() {
		return err
	}
	return reconcile.NewError(
		string(agent.CodeSandboxUnavailable),
		"the agent can't try its sandbox: "+exited.Message,
		confine.SandboxHint(),
	)
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

const (
	// exitWait is how long the worker waits for a signal after the agent exits: a shutdown, or
	// a stopped scope, ends both, and then the agent did not fail.
	exitWait = time.Second
	// lastOutput is how long the worker reads what an agent wrote before it exited. It takes
	// longer only if a process of the agent has kept the stream.
	lastOutput = 5 * time.Second
)

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
	broken, isAgentError := errors.AsType[*agent.Error](err)
	if !isAgentError || broken.Code != agent.CodePortExit {
		return err
	}
	exit, exited := g.awaitExit(ctx)
	if !exited {
		return err
	}
	return g.exitError(exit, broken.Said)
}

// awaitExit waits until the agent has exited by itself. It returns false if the agent only
// closed its stdout, or if ctx ends: then a signal that ends the run may have reached the
// agent first.
func (g *agentProcess) awaitExit(ctx context.Context) (exit host.Exit, exited bool) {
	if ctx.Err() != nil || !g.endedWithin(ctx, exitWait) {
		return host.Exit{}, false
	}
	awaitAll(lastOutput, g.drained)
	exit, err := g.child.Close()
	if err != nil {
		return host.Exit{}, false
	}
	select {
	case <-ctx.Done():
		return host.Exit{}, false
	case <-time.After(exitWait):
		return exit, true
	}
}

// outputOf runs a command in a sandbox to its end, and returns the beginning of what it printed
// and the last line of its stderr.
func (l *launcher) outputOf(
	ctx context.Context,
	request host.StartRequest,
) (printed, words string, exit host.Exit, err error) {
	child, err := l.site.host.Start(ctx, request)
	if err != nil {
		return "", "", exit, noShell(l.site.Config.Agent, err)
	}
	var output bytes.Buffer
	said := &text.Tail{Limit: lastWordsKept}
	var reading sync.WaitGroup
	read := make(chan struct{})
	// what is read until an error is all that there is
	reading.Go(func() { _, _ = io.Copy(&output, io.LimitReader(child.Stdout(), agent.MostOutput)) })
	reading.Go(func() { _, _ = io.Copy(said, child.Stderr()) })
	go func() {
		defer close(read)
		reading.Wait()
	}()
	_ = child.Wait(ctx) // Close ends what still runs
	awaitAll(outputBound, read)
	exit, err = child.Close()
	<-read
	last, _ := said.Text()
	return output.String(), agent.LastWords(string(last)), exit, err
}

// exitError is the error of an agent that exited by itself. said is what it wrote to its stdout
// in place of its first message.
func (g *agentProcess) exitError(exit host.Exit, said string) error {
	words := agent.LastWords(g.stderr.Tail(lastWordsKept))
	if exit.NoSandbox {
		return sandboxError(words)
	}
	kind := g.site.Config.Agent
	notFound := exit.Code == 126 || exit.Code == 127 // as the shell reports it
	if notFound {
		key := kind.CommandKey
		if g.Free != nil {
			key = kind.ProgramVar
		}
		return reconcile.NewError(
			string(kind.NotFound),
			fmt.Sprintf("%s %q can't be run: %s; %s", key, g.site.Config.Command, words, kind.Install),
			kind.Install+", or give its path in "+key,
		)
	}
	message := "the agent exited unexpectedly, " + exit.Text
	if g.site.Config.Sandbox != nil && exit.Code == exitKilled {
		message += " (killed, perhaps by agent.max_memory_bytes)"
	}
	if words != "" {
		message += ": " + words
	}
	exited := &agent.Error{Code: agent.CodePortExit, Message: message}
	if g.environ == nil && exit.Code == 0 {
		// an app-server waits for messages: this ended as it would for anybody
		exited.Cause = kind.Incompatible
		exited.Message += fmt.Sprintf(", before it answered: %q does not start %s", g.site.Config.Command, kind.Starts)
	}
	if said != "" {
		return exited.Saying(said, kind.Incompatible)
	}
	return exited
}

// sandboxError is the error of a sandbox that could not be made. words are the last line of
// bubblewrap, or of the first process inside.
func sandboxError(words string) error {
	cure := sandbox.Cure(words)
	return reconcile.NewError(
		string(agent.CodeSandboxUnavailable),
		"the agent gets no sandbox: "+words+": "+cure,
		cure,
	)
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

// end ends the agent in steps: an interrupt of the turn, so that the thread can be resumed;
// closing stdin, which makes the agent exit; SIGTERM; SIGKILL. The signals go to the process
// group. A program that did not answer may not be the agent, but for example a login profile
// or a package manager: it gets SIGTERM at once and more time, because a lock that it leaves
// would delay later runs.
func (g *agentProcess) end(ctx context.Context) {
	if g == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, interruptBound)
	warn(g.Log, "turn not interrupted", g.session.Interrupt(bounded))
	cancel()
	g.rec.storeTokens(ctx, g.session)
	g.processes.observe()
	warn(g.Log, "agent's stdin", g.session.Close())
	stdin := stdinBound
	term := termBound
	if g.environ == nil {
		stdin = 0
		term = lockBound
	}
	if !g.endedWithin(ctx, stdin) {
		warn(g.Log, "agent not signalled", g.child.SignalGroup(unix.SIGTERM))
		if !g.endedWithin(ctx, term) {
			warn(g.Log, "agent not killed", g.child.SignalGroup(unix.SIGKILL))
		}
	}
	awaitAll(outputBound, g.session.Done(), g.drained)
	_, err := g.child.Close()
	warn(g.Log, "agent", err)
	// stdout is closed: the events that are still queued are stored before the log is closed
	<-g.session.Done()
	warn(g.Log, "agent's stderr", g.stderr.Close())
}

func (g *agentProcess) endedWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return g.child.Wait(ctx) == nil
}
