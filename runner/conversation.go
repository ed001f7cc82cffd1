package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// conversation launches the agent and takes it through its turns (specification 10.2 and 10.3).
type conversation struct {
	*job
	ending <-chan struct{} // closed when the run is to end
	agent  *agentProcess   // nil until it is launched
	guide  *guide
	limits limitsReporter
	used   agent.Usage // what was counted last; only the handler of events uses it
}

func newConversation(j *job, ending <-chan struct{}) *conversation {
	return &conversation{job: j, ending: ending, guide: &guide{job: j}, limits: limitsReporter{job: j}}
}

// run goes on until the issue wants no further turn.
func (c *conversation) run(ctx context.Context, prompt string) error {
	c.rec.phase(ctx, reconcile.LaunchingAgent)
	run := c.hostRun()
	if _, err := c.Host.Facts(ctx, host.FactsRequest{Run: &run, Path: c.space.Path}); err != nil {
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
	for turn := 1; ; turn++ {
		if err := c.turn(ctx, input, turn); err != nil {
			return c.agent.explain(ctx, err)
		}
		more, err := c.wantsMore(ctx, turn)
		if !more || err != nil {
			return err
		}
		input = c.guide.laterTurnText(ctx, turn+1)
	}
}

// start launches the agent and opens its thread. An agent that can't sandbox is replaced once before the machine is blamed,
// because agents that start at the same moment can delete each other's helper program codex-linux-sandbox.
func (c *conversation) start(ctx context.Context) (thread openedThread, err error) {
	for replaced := false; ; replaced = true {
		if c.agent, err = launchAgent(ctx, c.job, c.options); err != nil {
			return thread, err
		}
		if thread, err = c.handshake(ctx); err == nil {
			return thread, nil
		}
		if code, _ := codeOf(err); replaced || ctx.Err() != nil || code != string(agent.CodeSandboxUnavailable) {
			return thread, c.agent.explainStart(ctx, err)
		}
		c.Log.Info("the agent can't sandbox commands and is replaced once")
		c.agent.end(ctx)
	}
}

// options are those of the session with g, which may speak before the session is set.
func (c *conversation) options(g *agentProcess) agent.Options {
	o := agent.Options{
		TurnTimeout: c.Config.TurnTimeout, StallTimeout: c.Config.StallTimeout,
		OnApproval: c.Config.OnApproval, OnQuestion: c.Config.OnQuestion, Busy: g.busy,
		Ask: func(ctx context.Context, ask agent.Request) agent.Decision {
			<-g.ready
			desk := agent.Desk{
				Store: c.Requests, Timeout: c.Config.AnswerTimeout, Redactor: c.Redactor, Log: c.Log, Now: c.Now, Notify: c.Attend,
				Instant: func() reconcile.Instant { return reconcile.Instant{Boot: c.Boot, Mono: c.Mono()} },
				Run:     c.rec.get, Ending: c.ending, Gone: g.session.Done(),
			}
			return desk.Decide(ctx, ask)
		},
		OnEvent: func(e agent.Event) {
			<-g.ready
			c.onEvent(g, e)
		},
	}
	if tool := c.Tracker.Tool; tool != nil {
		o.Tools = []agent.Tool{{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema}}
		o.CallTool = func(ctx context.Context, _ string, args json.RawMessage) agent.ToolResult {
			answer := c.callTool(ctx, args)
			return agent.ToolResult{Text: c.agentRedactor.Text(answer.Text), Success: answer.Success}
		}
	}
	return o
}

// wantsMore asks the tracker whether the issue wants another turn. A stop after a completed turn takes nothing from it: the
// run succeeds.
func (c *conversation) wantsMore(ctx context.Context, turn int) (bool, error) {
	if ctx.Err() != nil || c.overBudget.Load() {
		return false, nil //nolint:nilerr // see above
	}
	err := c.refreshPatiently(ctx)
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // see above
	}
	var moved runEnd
	if errors.As(err, &moved) && moved.outcome == reconcile.Canceled {
		c.Log.Info("issue moved on", "reason", moved.code)
		return false, nil // it was handed over, so the run succeeds
	}
	return turn < c.Config.MaxTurns, err
}

// turn runs one turn and waits for its end.
func (c *conversation) turn(ctx context.Context, input string, number int) error {
	policy, err := c.Config.TurnPolicy(ctx, c.Host, *c.space)
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
	})
	c.rec.usage(ctx, c.agent.session.UsageByThread())
	outcome := "completed"
	if err == nil {
		c.rec.change(func(r *reconcile.Run) { r.TurnsDone = number })
		c.shareSuccess(ctx)
	} else {
		outcome = err.Error()
	}
	if after := c.rec.get(); after.TurnID != before.TurnID { // else it never started
		c.Log.Info("turn ended", "session_id", sessionID(after), "turn", number, "outcome", outcome)
	}
	c.rec.flush(ctx)
	return err
}

// sessionID names a turn as the specification does (4.1.6).
func sessionID(r reconcile.Run) string { return r.ThreadID + "-" + r.TurnID }

// onEvent writes an event to the run's event file, and the latest state to its row.
func (c *conversation) onEvent(g *agentProcess, e agent.Event) {
	if !e.Fragment { // fragments would fill the bounded file, and a secret is not recognised in pieces
		c.warn("event not stored", c.events.Append(e))
	}
	ctx := context.Background()
	if used := g.session.Usage(); used != c.used { // at once, so that a worker that dies loses no tokens
		c.used = used
		c.rec.usage(ctx, g.session.UsageByThread())
	}
	c.keepLinks(linksInItem(e.Item))
	model, message := g.session.Model(), c.Redactor.Text(e.Message)
	var limits []byte
	if record := g.session.RateLimits(); record != nil {
		if limits = c.Redactor.Bytes(record); !json.Valid(limits) {
			limits = nil // a number in it was taken for a secret
		}
	}
	c.rec.change(func(r *reconcile.Run) {
		r.LastEvent, r.LastEventAt, r.Model = e.Name, e.At, model
		if message != "" && !e.Fragment {
			r.LastMessage = message
		}
		if e.Name == agent.EventSessionStarted && e.ThreadID == r.ThreadID { // other events may be late ones of an earlier turn
			r.TurnID = e.TurnID
		}
		if limits != nil {
			r.RateLimits = limits
		}
	})
	c.limits.report(ctx, limits)
	if e.Name != agent.EventSessionStarted {
		return
	}
	if run := c.rec.get(); e.ThreadID == run.ThreadID {
		c.Log.Info("turn started", "session_id", sessionID(run), "turn", run.Turns)
		c.guide.turnAccepted(ctx)
	}
	c.rec.flush(ctx) // views show the session at once
}

// callTool runs the agent's call of the tracker's tool (specification 10.5). A call that changes the issue is announced in the
// run's row before it is sent, and the state that it led to is stored after, so that a pass can tell a handoff from a move by
// a person. What it has changed is stored before anything else happens.
func (c *conversation) callTool(ctx context.Context, args json.RawMessage) reconcile.ToolAnswer {
	changes := c.Tracker.Tool.ChangesIssue(args)
	if changes {
		c.rec.handsOver()
		c.rec.flush(ctx)
	}
	answer := c.Tracker.Tool.Call(ctx, args)
	if m := answer.Mutation; m != nil {
		message := strings.Join(m.Fields, ", ")
		if !m.Success {
			message += " failed"
		}
		c.note(agent.EventMutation, message, m)
		c.keepLinks(linksInMutation(*m))
		// If it never is stored, the next run takes the agent's own comment for a person's.
		c.warn("creations of the agent not stored yet", c.guide.saveCreated(ctx, m.Created))
		crash.At("runner.mutation.after")
	}
	if !changes {
		return answer
	}
	found, err := c.Tracker.ByIDs(ctx, []string{c.job.run.IssueID})
	if err != nil {
		c.warn("handoff not confirmed", err)
		return answer
	}
	issue, visible := found[c.job.run.IssueID]
	c.rec.change(func(r *reconcile.Run) { r.HandoffState = issue.State })
	c.rec.flush(ctx)
	if visible && answer.Success {
		c.guide.noteDescription(ctx, args, issue)
	}
	return answer
}

// maxThreadFailures is how many runs in a row may fail on a thread before a new one is started.
const maxThreadFailures = 2

// handshake opens the session and the thread.
func (c *conversation) handshake(ctx context.Context) (openedThread, error) {
	c.rec.phase(ctx, reconcile.InitializingSession)
	server, err := c.agent.session.Initialize(ctx)
	if err != nil {
		return openedThread{}, err
	}
	c.Log.Info("agent ready", "user_agent", server.UserAgent)
	c.agent.readEnviron(ctx)
	if c.codexHome, err = filepath.EvalSymlinks(server.Home); err != nil {
		c.codexHome = server.Home
	}
	if err := c.agent.probeSandbox(ctx); err != nil {
		return openedThread{}, err
	}
	params, err := c.threadParams(ctx)
	if err != nil {
		return openedThread{}, err
	}
	thread, err := c.openThread(ctx, params)
	// Also after a failed resume: a thread that can't be loaded is given up after some runs.
	c.rec.change(func(r *reconcile.Run) { r.ThreadID, r.Model = thread.id, c.agent.session.Model() })
	return thread, err
}

func (c *conversation) threadParams(ctx context.Context) (agent.ThreadParams, error) {
	config, err := c.Config.ThreadConfig(ctx, c.Host, c.job.run.ID, *c.space, c.agent.environ)
	issue := c.job.run.Issue
	return agent.ThreadParams{
		Name: c.agentRedactor.Text(issue.Identifier + ": " + issue.Title),
		Cwd:  c.space.Path, ApprovalPolicy: c.Config.ApprovalPolicy, Sandbox: c.Config.ThreadSandbox, Config: config,
	}, err
}

// openThread resumes the thread that worked in this very workspace and is in this codex home, or starts one. With an error
// it names the thread that could not be resumed.
func (c *conversation) openThread(ctx context.Context, params agent.ThreadParams) (openedThread, error) {
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
	if workedHere(here) && c.Config.ResumeThread && here.Failed < maxThreadFailures {
		opened, err := c.resumeThread(ctx, here.ID, params)
		if opened.elsewhere = elsewhere; opened.resumed || err != nil {
			return opened, err
		}
	}
	id, err := c.agent.session.StartThread(ctx, params)
	return openedThread{id: id, worked: workedHere(newest), replaces: newest.ID != "", elsewhere: elsewhere}, err
}

// resumeThread loads a thread. Not resumed and without an error, the thread can't be loaded and a new one is to be started.
func (c *conversation) resumeThread(ctx context.Context, thread string, params agent.ThreadParams) (openedThread, error) {
	err := c.agent.session.ResumeThread(ctx, thread, params)
	if errors.Is(err, agent.ErrThreadBusy) {
		// An orphan of ours may hold it. Another holder is not ours to end.
		killErr := c.kill(ctx, host.KillRequest{
			Owned: host.Owned{Run: c.hostRun(), ThreadID: thread}, ThreadOnly: true, Spare: c.agent.child.Process(),
		})
		if killErr != nil {
			return openedThread{}, killErr // it says nothing about the thread
		}
		err = c.agent.session.ResumeThread(ctx, thread, params)
	}
	if errors.Is(err, agent.ErrNoThread) || errors.Is(err, agent.ErrThreadBusy) {
		c.Log.Info("thread not resumed, a new one is started", "thread_id", thread, "error", err)
		return openedThread{}, nil
	}
	return openedThread{id: thread, resumed: err == nil, worked: true}, err
}

// The kinds of links.
const (
	linkPullRequest = "pull_request"
	linkAttachment  = "attachment"
)

// maxLink is the length above which an address is ignored.
const maxLink = 400

// keepLinks adds links to the work of the run. They are written at once, so that they are not lost if the worker dies.
func (j *job) keepLinks(links []reconcile.Link) {
	for i := range links {
		links[i].URL = j.Redactor.Text(links[i].URL)
	}
	more := false
	j.rec.change(func(r *reconcile.Run) {
		before := len(r.Links)
		r.Links = reconcile.MergeLinks(r.Links, links)
		more = len(r.Links) > before
	})
	if more {
		j.rec.flush(context.Background())
	}
}

// createPullRequest are words in the command lines of gh, glab, tea and hub.
var createPullRequest = []string{"pr create", "mr create", "pulls create", "pull-request"}

// linksInItem returns the pull requests that a message of the agent names, or that a command has printed which created one.
// The agent's other items may name unrelated pull requests.
func linksInItem(item *agent.Item) []reconcile.Link {
	creates := func(words string) bool { return strings.Contains(item.Command, words) }
	switch {
	case item == nil || !item.Ended:
	case item.Kind == agent.ItemMessage:
		return linksIn(item.Text, false)
	case item.Kind == agent.ItemCommand && slices.ContainsFunc(createPullRequest, creates):
		return linksIn(item.Output, false)
	}
	return nil
}

// linksInMutation returns what a successful mutation has attached in the tracker, and the pull requests that it names.
func linksInMutation(m reconcile.Mutation) []reconcile.Link {
	if !m.Success {
		return nil
	}
	attaches := slices.ContainsFunc(m.Fields, func(f string) bool { return strings.HasPrefix(f, "attachment") })
	text := m.Query + " " + string(m.Variables)
	return linksIn(strings.NewReplacer(`\/`, "/", `\u0026`, "&").Replace(text), attaches) // as JSON may write an address
}

// linksIn returns the pull requests that a text names, and its other addresses if they are attachments.
func linksIn(text string, attachments bool) []reconcile.Link {
	var links, others []reconcile.Link
	for _, u := range urlsIn(text) {
		if pr := pullRequest(u); pr != nil {
			links = append(links, reconcile.Link{Kind: linkPullRequest, URL: pr.String()})
		} else if attachments {
			others = append(others, reconcile.Link{Kind: linkAttachment, URL: u.String()})
		}
	}
	return append(links, others...)
}

// pullRequestPath matches OWNER/REPO/pull/7, and the corresponding paths of GitLab, Bitbucket and Gitea.
var pullRequestPath = regexp.MustCompile(`^(/[^/]+/[^/]+/(?:[^/]+/)*?(?:pull|merge_requests|pull-requests|pulls)/\d+)(?:/|$)`)

// pullRequest returns the main page of the pull request that an address belongs to, nil if it belongs to none.
func pullRequest(u *url.URL) *url.URL {
	found := pullRequestPath.FindStringSubmatch(u.Path)
	if found == nil {
		return nil
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: found[1]}
}

// anyURL ends an address at characters that it cannot contain unquoted, and at marks that texts and GraphQL put around one.
var anyURL = regexp.MustCompile("https?://[^\\x00-\\x20\\x7f\"<>()\\[\\]{}|\\\\^`]+")

// urlsIn finds the addresses in a text, and removes names and passwords from them.
func urlsIn(text string) []*url.URL {
	var all []*url.URL
	for _, word := range anyURL.FindAllString(text, -1) {
		word = strings.TrimRight(word, ".,;:!?*_'")
		if u, err := url.Parse(word); err == nil && u.Host != "" && len(word) <= maxLink {
			u.User = nil
			all = append(all, u)
		}
	}
	return all
}
