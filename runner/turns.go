package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/confine"
)

// turnLoop starts the agent and runs its turns (specification 10.2 and 10.3).
type turnLoop struct {
	*job
	ending <-chan struct{} // closed when the run must end
	agent  *agentProcess   // nil until it is started
	guide  *guide
	// profile is the name of the thread's permission profile, "" for none.
	profile  string
	listener *listener
	// worked: the agent has done something in the present turn.
	worked atomic.Bool
	// toldNetwork: the log has a note about the closed network. Only the handler of events uses it.
	toldNetwork bool
}

// maxIdleTurns is how many turns in a row may do nothing before the run ends. The agent may have forgotten to hand the issue over, and
// reports only that it is done; max_idle_runs counts such runs.
const maxIdleTurns = 2

func newTurnLoop(j *job, ending <-chan struct{}) *turnLoop {
	return &turnLoop{job: j, ending: ending, guide: &guide{job: j}, listener: newListener(j)}
}

// run starts the agent and runs turns until the issue needs no more.
func (c *turnLoop) run(ctx context.Context, prompt string) error {
	c.rec.phase(ctx, reconcile.LaunchingAgent)
	if err := c.host.Verify(ctx); err != nil {
		return err
	}
	thread, err := c.start(ctx)
	if err != nil {
		return err
	}
	input, err := c.guide.firstTurnText(ctx, prompt, thread)
	if err != nil {
		return err
	}
	c.rec.phase(ctx, reconcile.StreamingTurn)
	insisted := c.dayUsedUp(ctx)
	for turn, idle := 1, 0; ; turn++ {
		c.worked.Store(false)
		if err := c.turn(ctx, input, turn); err != nil {
			return c.agent.explain(ctx, err)
		}
		if idle++; c.worked.Load() {
			idle = 0
		}
		more, err := c.wantsMore(ctx, turn)
		if !more || err != nil {
			return err
		}
		if idle == maxIdleTurns {
			c.Log.Info("the run ends: the agent has done nothing in its last turns", "turns", idle)
			return nil
		}
		if !insisted && c.dayUsedUp(ctx) {
			c.Log.Info("the run ends: agent.budget_per_day is used up")
			return nil
		}
		input = c.guide.laterTurnText(ctx, turn+1)
	}
}

// dayUsedUp reports whether agent.budget_per_day is used up. A run that begins nevertheless is one that an operator asked for.
func (c *turnLoop) dayUsedUp(ctx context.Context) bool {
	budget := c.Config.Policy.DailyBudget
	if !budget.Set() {
		return false
	}
	today, err := c.Journal.UsedOn(ctx, c.Now())
	c.warn("what was used today is not read", err)
	return budget.Reached(today)
}

// start launches the agent and opens its thread.
func (c *turnLoop) start(ctx context.Context) (thread openedThread, err error) {
	c.agent, err = openAgent(ctx, c.job, c.options, func(g *agentProcess) (err error) {
		c.agent = g
		thread, err = c.handshake(ctx)
		return err
	})
	return thread, err
}

// openAgent launches an agent and opens its session. It returns the agent also with the error of open. An agent that collided with
// another is replaced once.
func openAgent(
	ctx context.Context, j *job, options func(*agentProcess) agent.Options, open func(*agentProcess) error,
) (g *agentProcess, err error) {
	for replaced := false; ; replaced = true {
		if g, err = launchAgent(ctx, j, options); err != nil {
			return nil, err
		}
		if err = open(g); err == nil {
			return g, nil
		}
		if err = g.explainStart(ctx, err); replaced || ctx.Err() != nil || !Collided(err) {
			return g, err
		}
		j.Log.Info("the agent collided with another and is replaced once", "error", err)
		g.end(ctx)
	}
}

// Collided reports whether an agent failed because another started at the same moment. They can delete each other's helper program,
// codex-linux-sandbox, and up to codex 0.166 they can't both create the database of a new codex home.
func Collided(err error) bool {
	if err == nil {
		return false
	}
	code, message := codeOf(err)
	return code == string(agent.CodeSandboxUnavailable) && strings.Contains(message, "No such file") ||
		strings.Contains(message, "failed to initialize sqlite state runtime")
}

// options returns the options of the session with g. Their functions wait until g.session is set, because the agent may send lines before.
func (c *turnLoop) options(g *agentProcess) agent.Options {
	o := agent.Options{
		TurnTimeout: c.Config.TurnTimeout, StallTimeout: c.Config.StallTimeout,
		OnApproval: c.Config.OnApproval, OnQuestion: c.Config.OnQuestion, Busy: g.busy,
		Ask: g.asker(c.ending),
		Now: c.Now,
		OnEvent: func(e agent.Event) {
			<-g.ready
			c.onEvent(g, e)
		},
	}
	for _, tool := range c.Tracker.Tools {
		o.Tools = append(o.Tools, agent.Tool{
			Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema, Summary: tool.Summary,
		})
	}
	o.CallTool = func(ctx context.Context, name string, args json.RawMessage) agent.ToolResult {
		i := slices.IndexFunc(c.Tracker.Tools, func(t reconcile.AgentTool) bool { return t.Name == name }) // the session calls no other
		answer := c.callTool(ctx, c.Tracker.Tools[i], args)
		return agent.ToolResult{Text: c.agentRedactor.Text(answer.Text), Success: answer.Success}
	}
	return o
}

// asker passes requests of the agent to an operator. ending is closed when the run must end.
func (g *agentProcess) asker(ending <-chan struct{}) agent.Asker {
	return func(ctx context.Context, ask agent.Request) agent.Decision {
		<-g.ready
		desk := agent.Desk{
			Store: g.Requests, Timeout: g.Config.AnswerTimeout, Redactor: g.Redactor, Log: g.Log, Now: g.Now, Notify: g.Attend,
			Instant: func() reconcile.Instant { return reconcile.Instant{Boot: g.Boot, Mono: g.Mono()} },
			Run:     g.rec.get, Ending: ending, Gone: g.session.Done(),
		}
		return desk.Decide(ctx, ask)
	}
}

// wantsMore reports whether the issue needs another turn. A stop after a completed turn does not undo it: the run succeeds.
func (c *turnLoop) wantsMore(ctx context.Context, turn int) (bool, error) {
	if ctx.Err() != nil || c.overBudget.Load() {
		return false, nil //nolint:nilerr // see above
	}
	err := c.refreshPatiently(ctx)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // see above
	}
	var moved runEnd
	if errors.As(err, &moved) && moved.outcome == reconcile.Canceled {
		c.Log.Info("the issue needs no further turn", "reason", moved.code)
		return false, nil // usually it was handed over: the run succeeds
	}
	return turn < c.Config.MaxTurns, err
}

// turn runs one turn and waits for its end.
func (c *turnLoop) turn(ctx context.Context, input string, number int) error {
	policy, err := c.Config.TurnPolicy(ctx, c.Machine, *c.space)
	if err != nil {
		return err
	}
	before := c.rec.get()
	c.rec.change(func(r *reconcile.Run) { r.Turns = number })
	c.rec.flush(ctx)
	size := utf8.RuneCountInString(input)
	c.note(agent.EventPrompt, fmt.Sprintf("turn %d, %d characters", number, size), agent.PromptEvent{Turn: number, Text: input})
	c.agent.beginTurn()
	_, err = c.agent.session.RunTurn(ctx, agent.TurnParams{
		Input: input, Cwd: c.space.Path, ApprovalPolicy: c.Config.ApprovalPolicy, SandboxPolicy: policy,
		Permissions: c.profile,
	})
	c.rec.usage(ctx, c.agent.session)
	outcome := "completed"
	if err == nil {
		c.rec.change(func(r *reconcile.Run) { r.TurnsDone = number })
		c.shareSuccess(ctx)
	} else {
		outcome = err.Error()
	}
	if after := c.rec.get(); after.TurnID != before.TurnID { // otherwise the turn never started
		c.Log.Info("turn ended", "session_id", sessionID(after), "turn", number, "outcome", outcome)
	}
	c.rec.flush(ctx)
	return err
}

// sessionID returns the session id of a turn (specification 4.1.6).
func sessionID(r reconcile.Run) string { return r.ThreadID + "-" + r.TurnID }

// onEvent handles an event of the agent.
func (c *turnLoop) onEvent(g *agentProcess, e agent.Event) {
	c.listener.heard(g, e)
	if e.Item.Works() {
		c.worked.Store(true)
	}
	c.tellClosedNetwork(e.Item)
	if e.Name != agent.EventSessionStarted {
		return
	}
	if run := c.rec.get(); e.ThreadID == run.ThreadID {
		c.Log.Info("turn started", "session_id", sessionID(run), "turn", run.Turns)
		c.guide.turnAccepted(context.Background())
	}
	c.rec.flush(context.Background()) // so that views show the session at once
}

// missesNetwork matches what programs print if they can open no connection.
var missesNetwork = text.Pattern(`(?i)could not resolve host|name resolution|no such host|name or service not known|ENOTFOUND|EAI_AGAIN` +
	`|network is unreachable|socket: operation not permitted`)

// tellClosedNetwork notes once in a run that a command has failed because the sandbox closes the network, and what opens it.
func (c *turnLoop) tellClosedNetwork(i *agent.Item) {
	setting := c.Config.ClosesNetwork()
	if setting == "" || c.toldNetwork || i == nil || i.Kind != agent.ItemCommand || !i.Failed() || !missesNetwork().MatchString(i.Output) {
		return
	}
	c.toldNetwork = true
	c.note("network_closed", "a command has failed because the sandbox closes the network; in WORKFLOW.md "+setting+" opens it",
		map[string]string{"setting": setting})
}

// listener stores what the events of an agent report. Only the handler of events uses it.
type listener struct {
	*job
	limits limitsReporter
	used   agent.Usage // when an event last stored it
}

func newListener(j *job) *listener { return &listener{job: j, limits: limitsReporter{job: j}} }

// heard writes an event to the event log, and what it changes to the record.
func (l *listener) heard(g *agentProcess, e agent.Event) {
	if !e.Fragment { // fragments would fill the log, and a secret in pieces is not recognised
		l.warn("event not stored", l.events.Append(e))
	}
	ctx := context.Background()
	if used := g.session.Usage(); used != l.used { // stored at once, so that no tokens are lost if the worker dies
		l.used = used
		l.rec.usage(ctx, g.session)
	}
	l.keepLinks(linksInItem(e.Item))
	model, message, activity := g.session.Model(), l.Redactor.Text(e.Message), l.activity(e.Item)
	var limits []byte
	if record := g.session.RateLimits(); record != nil {
		if limits = l.Redactor.Bytes(record); !json.Valid(limits) {
			limits = nil // redaction has replaced a number
		}
	}
	l.rec.change(func(r *reconcile.Run) {
		r.LastEvent, r.LastEventAt, r.Model = e.Name, e.At, model
		if message != "" && !e.Fragment {
			r.LastMessage = message
		}
		if activity != "" {
			r.Activity = activity
		}
		if e.Name == agent.EventSessionStarted && e.ThreadID == r.ThreadID { // other events may come late, from an earlier turn
			r.TurnID = e.TurnID
		}
		if limits != nil {
			r.RateLimits = limits
		}
	})
	l.limits.report(ctx, limits)
}

// maxActivity is how many characters are stored of what the agent does.
const maxActivity = 200

// activity describes in a line without secrets what the agent does from an item on; empty for an item without an activity.
func (j *job) activity(i *agent.Item) string {
	line := []rune(j.Redactor.Text(i.Activity()))
	if len(line) > maxActivity {
		return string(line[:maxActivity-1]) + "…"
	}
	return string(line)
}

// callTool runs the agent's call of a tool of the tracker (specification 10.5). If the call changes the issue, this is written to
// the run's row before the call, and the new state after it, so that a pass can tell a handoff from a change by a person. What
// the call created is stored first of all.
func (c *turnLoop) callTool(ctx context.Context, tool reconcile.AgentTool, args json.RawMessage) reconcile.ToolAnswer {
	changes := tool.ChangesIssue(args)
	if changes {
		c.rec.handsOver()
		c.rec.flush(ctx)
	}
	answer := tool.Call(ctx, c.rec.get().Issue, args)
	if m := answer.Mutation; m != nil {
		message := strings.Join(m.Fields, ", ")
		if !m.Success {
			message += " failed"
		}
		c.note(agent.EventMutation, message, m)
		c.keepLinks(linksInMutation(*m))
		// If this is never stored, the next run takes the agent's own comment for that of a person.
		c.warn("what the agent created in the tracker is not stored yet", c.guide.saveCreated(ctx, m.Created))
		crash.At("runner.mutation.after")
	}
	if !changes {
		return answer
	}
	found, err := c.Tracker.ByIDs(ctx, []string{c.job.run.IssueID})
	issue, visible := found[c.job.run.IssueID]
	if err == nil && issue.Malformed != "" {
		err = errors.New(issue.Malformed)
	}
	if err != nil {
		c.warn("handoff not confirmed", err)
		return answer
	}
	c.rec.change(func(r *reconcile.Run) { r.HandoffState = issue.State })
	c.rec.flush(ctx)
	if visible && answer.Success && tool.Describes != nil && tool.Describes(issue, args) {
		c.guide.noteDescription(ctx, issue)
	}
	return answer
}

// maxThreadFailures is how many runs in a row may fail on a thread before a new thread is started.
const maxThreadFailures = 2

// handshake opens the session and the thread.
func (c *turnLoop) handshake(ctx context.Context) (openedThread, error) {
	c.rec.phase(ctx, reconcile.InitializingSession)
	server, err := c.agent.initialize(ctx)
	if err != nil {
		return openedThread{}, err
	}
	if c.codexHome, err = filepath.EvalSymlinks(server.Home); err != nil {
		c.codexHome = server.Home
	}
	params, err := c.threadParams(ctx)
	if err != nil {
		return openedThread{}, err
	}
	thread, err := c.openThread(ctx, params)
	// Also after a failed resume, so that the failure counts for maxThreadFailures.
	c.rec.change(func(r *reconcile.Run) { r.ThreadID, r.Model = thread.id, c.agent.session.Model() })
	return thread, err
}

// initialize opens the session, and checks what the agent reports and that it can sandbox commands.
func (g *agentProcess) initialize(ctx context.Context) (agent.Server, error) {
	server, err := g.session.Initialize(ctx)
	if err != nil {
		return server, err
	}
	g.Log.Info("agent ready", "user_agent", server.UserAgent)
	if warning := g.Config.OtherHome(server.Home); warning != "" {
		g.Log.Warn(warning)
	}
	g.readEnviron(ctx)
	return server, g.probeSandbox(ctx)
}

func (c *turnLoop) threadParams(ctx context.Context) (agent.ThreadParams, error) {
	config, err := c.Config.ThreadConfig(ctx, c.Machine, c.job.run.ID, *c.space, c.agent.environ)
	if err != nil {
		return agent.ThreadParams{}, err
	}
	policy, err := c.Config.TurnPolicy(ctx, c.Machine, *c.space)
	if profile := c.Config.Profile(policy); profile != nil && err == nil {
		confine.AddProfile(config, profile)
		c.profile = confine.ProfileName
	}
	issue := c.job.run.Issue
	return agent.ThreadParams{
		Name: c.agentRedactor.Text(issue.Identifier + ": " + issue.Title),
		Cwd:  c.space.Path, ApprovalPolicy: c.Config.ApprovalPolicy, Sandbox: c.Config.ThreadSandbox, Config: config,
		Model: c.Config.Model,
	}, err
}

// openThread resumes the thread of this workspace in this codex home, or starts a new one. With an error it returns the thread
// that could not be resumed.
func (c *turnLoop) openThread(ctx context.Context, params agent.ThreadParams) (openedThread, error) {
	newest, here, err := c.Journal.LastThread(ctx, c.job.run.IssueID, c.codexHome)
	if err != nil {
		return openedThread{}, err
	}
	workedHere := func(t reconcile.Thread) bool {
		return t.ID != "" && t.WorkspaceID == c.space.ID && !c.space.Created
	}
	elsewhere := newest.ID != here.ID
	if elsewhere {
		c.Log.Info("the issue's last thread is in another codex home", "thread_id", newest.ID, "its_home", newest.CodexHome, "home", c.codexHome)
	}
	if workedHere(here) && c.Config.ResumeThread && !here.Ended && here.Failed < maxThreadFailures {
		opened, err := c.resumeThread(ctx, here.ID, params)
		if opened.elsewhere = elsewhere; opened.resumed || err != nil {
			return opened, err
		}
	}
	id, err := c.agent.session.StartThread(ctx, params)
	return openedThread{id: id, worked: workedHere(newest), replaces: newest.ID != "", elsewhere: elsewhere}, err
}

// resumeThread resumes a thread. If the result is neither resumed nor an error, the caller should start a new thread.
func (c *turnLoop) resumeThread(ctx context.Context, thread string, params agent.ThreadParams) (openedThread, error) {
	err := c.agent.session.ResumeThread(ctx, thread, params)
	if errors.Is(err, agent.ErrThreadBusy) {
		// A process that an earlier run left may have it open. Other processes are left alone.
		killErr := c.ended(c.agent.child.KillThread(context.WithoutCancel(ctx), thread))
		if killErr != nil {
			return openedThread{}, killErr // this is no evidence about the thread
		}
		err = c.agent.session.ResumeThread(ctx, thread, params)
	}
	if errors.Is(err, agent.ErrNoThread) || errors.Is(err, agent.ErrThreadBusy) {
		c.Log.Info("thread not resumed, starting a new one", "thread_id", thread, "error", err)
		return openedThread{}, nil
	}
	return openedThread{id: thread, resumed: err == nil, worked: true}, err
}
