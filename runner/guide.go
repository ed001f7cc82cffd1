package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// guide writes the text of each turn, and records which part of its issue the thread saw. The
// loop of turns uses it; the handler of the agent's events uses the fields below mu and below
// saving.
type guide struct {
	run          reconcile.Run // as dispatched
	rec          *record
	events       *eventLog
	threads      ThreadJournal
	messages     MessageJournal
	tracker      *reconcile.TrackerAdapter
	policy       reconcile.Policy
	maxTurns     int
	resumeThread bool
	now          func() time.Time
	log          *slog.Logger
	redactor     *agent.Redactor
	// agentRedactor removes only the tracker's key from the text for the agent.
	agentRedactor *agent.Redactor
	pull          *pullRequest
	branch        *issueBranch

	codexHome string // where codex stores the thread

	// the ids of messages that are in the text of a turn or were added to a running turn
	given       []string
	toldRework  bool         // the agent knows why its pull request came back
	toldPushed  *host.Pushed // others' commits on the branch, in the text of a turn
	undelivered string       // why the work can't be delivered, which the agent was not told yet
	// told is the result of verify in the text of the last turn.
	told *reconcile.Verification
	// commentsRefused: the tracker does not know the request for comments.
	commentsRefused bool

	mu      sync.Mutex
	seen    reconcile.LastSeen // the part of the issue that the thread knows
	pending *pendingUpdate     // replaces seen once codex accepts the next turn

	saving  sync.Mutex
	created []reconcile.Created // entities that the agent created in the tracker, not stored yet
}

func (j *job) newGuide() *guide {
	w := j.worker
	return &guide{
		run:           j.run,
		rec:           j.rec,
		events:        j.events,
		threads:       w.Journal,
		messages:      w.Journal,
		tracker:       w.Tracker,
		policy:        w.Here.Config.Policy,
		maxTurns:      w.Here.Config.MaxTurns,
		resumeThread:  w.Here.Config.ResumeThread,
		now:           w.Now,
		log:           w.Log,
		redactor:      w.Redactor,
		agentRedactor: j.agentRedactor,
		pull:          j.pull,
		branch:        j.branch,
	}
}

// pendingUpdate is a thread's knowledge of its issue after the text of a turn. It is stored
// when codex accepts the turn.
type pendingUpdate struct {
	seen     reconcile.LastSeen
	answers  []reconcile.Request
	messages []reconcile.Message
}

// firstTurnText returns the text of the run's first turn: the prompt for a new thread,
// guidance for a resumed thread. The guidance contains the prompt if it changed with the
// workflow's template, the attempt or the issue.
func (g *guide) firstTurnText(ctx context.Context, prompt string, t openedThread) (string, error) {
	issue := g.rec.get().Issue
	if !t.resumed {
		seen := reconcile.LastSeen{
			Description: hashOf(text.OrEmpty(issue.Description)),
			Prompt:      hashOf(prompt),
		}
		update := g.updateForNewThread(ctx, issue, seen, t)
		return g.agentRedactor.Text(agent.FirstTurn(prompt, t.note(), update)), nil
	}
	seen, last, err := g.lastRun(ctx, t.id, issue)
	if err != nil {
		return "", err
	}
	r := agent.Resumption{
		Issue:     issue,
		Attempt:   g.run.Attempt,
		Policy:    g.policy,
		Last:      last,
		Elsewhere: t.elsewhere,
	}
	hash := hashOf(prompt)
	if seen.Prompt != "" && seen.Prompt != hash { // a worker that died early stored none
		r.NewPrompt = prompt
	}
	seen.Prompt = hash
	r.Update = g.update(ctx, seen)
	return g.agentRedactor.Text(r.Text()), nil
}

// laterTurnText returns the text of a later turn of the run.
func (g *guide) laterTurnText(ctx context.Context, turn int) string {
	g.mu.Lock()
	seen := g.seen
	g.mu.Unlock()
	update := g.update(ctx, seen)
	return g.agentRedactor.Text(agent.Continuation(g.rec.get().Issue, turn, g.maxTurns, update))
}

// updateForNewThread returns the news that a new thread needs besides the prompt. The first
// thread of an issue needs nothing. A thread that replaces another does not know the comments,
// and a comment may have ended a hold. If resuming is off, though, the operator wants every
// run to start from the prompt alone.
func (g *guide) updateForNewThread(
	ctx context.Context,
	issue reconcile.Issue,
	seen reconcile.LastSeen,
	t openedThread,
) agent.Update {
	if t.replaces && g.resumeThread {
		return g.update(ctx, seen)
	}
	if issue.LastCommentAt != nil {
		seen.CommentAt = *issue.LastCommentAt
	} else if g.tracker.LastComments != nil {
		seen.CommentAt = g.tracker.TimeThere(g.now())
	}
	u := g.newUpdate(ctx, &seen)
	g.propose(seen, u)
	return u
}

// lastRun returns the part of the issue that the thread knows, and the thread's last run, nil
// if it is no longer stored. If the known part is not stored, it is everything up to the start
// of the last run.
func (g *guide) lastRun(
	ctx context.Context,
	thread string,
	issue reconcile.Issue,
) (reconcile.LastSeen, *reconcile.Run, error) {
	last, found, err := g.threads.LastRunOf(ctx, g.run.IssueID, thread)
	if err != nil {
		return reconcile.LastSeen{}, nil, err
	}
	seen, known, err := g.threads.LastSeen(ctx, thread)
	if !found {
		last.StartedAt = g.run.StartedAt
		last.Issue = issue
	}
	if !known {
		seen = reconcile.LastSeen{
			CommentAt:   last.StartedAt,
			Description: hashOf(text.OrEmpty(last.Issue.Description)),
		}
	}
	if !found {
		return seen, nil, err
	}
	return seen, &last, err
}

// update returns the news for a thread that knows seen. News that can't be read now is left to
// a later turn.
func (g *guide) update(ctx context.Context, seen reconcile.LastSeen) agent.Update {
	issue := g.rec.get().Issue
	u := g.newUpdate(ctx, &seen)
	description := text.OrEmpty(issue.Description)
	hash := hashOf(description)
	if hash != seen.Description {
		u.Description = &description
		seen.Description = hash
	}
	comments, newest, err := g.newComments(ctx, issue, seen.CommentAt)
	warn(g.log, "comments not read, starting the turn without them", err)
	u.Comments = comments
	seen.CommentAt = newest
	g.propose(seen, u)
	return u
}

// newUpdate returns the news for any thread, and records it in seen.
func (g *guide) newUpdate(ctx context.Context, seen *reconcile.LastSeen) agent.Update {
	messages, err := g.takeMessages(ctx)
	warn(g.log, "messages of operators not read, starting the turn without them", err)
	return agent.Update{
		Answers:     g.lateAnswers(ctx),
		Messages:    messages,
		Refused:     g.untold(),
		Base:        g.newBase(seen),
		Rework:      g.reworkText(ctx),
		Pushed:      g.newPushed(),
		Undelivered: g.takeUndelivered(),
	}
}

// takeUndelivered returns why the work can't be delivered, once.
func (g *guide) takeUndelivered() string {
	why := g.undelivered
	g.undelivered = ""
	return why
}

// newPushed returns others' pushes to the branch, once for each fetch: a run after a lost run
// tells it again.
func (g *guide) newPushed() *host.Pushed {
	p := g.branch.base.Pushed
	if p == nil || p == g.toldPushed {
		return nil
	}
	g.toldPushed = p
	return p
}

// newBase returns the base if the thread does not know it, and records it in seen.
func (g *guide) newBase(seen *reconcile.LastSeen) (base host.FetchAnswer) {
	if g.branch.base.Commit != "" && g.branch.base.Commit != seen.Base {
		base = g.branch.base
		seen.Base = g.branch.base.Commit
	}
	return base
}

// reworkText tells the agent, in the first turn of a run, why its pull request came back;
// empty if it did not. Logs that can't be read are left out.
func (g *guide) reworkText(ctx context.Context) string {
	if g.toldRework {
		return ""
	}
	g.toldRework = true
	r, err := g.pull.rework(ctx)
	warn(g.log, "what the pull request asks for is not read", err)
	if r == nil {
		return ""
	}
	g.rec.change(func(run *reconcile.Run) { run.Activity = g.redactor.Text(r.String()) })
	logs, err := g.logs(ctx, r)
	warn(g.log, "logs of failed checks are not read", err)
	return agent.ReworkText(r, logs)
}

const (
	mostLogs  = 5 // of failed checks, that an agent reads
	logsBound = time.Minute
)

// logs reads the ends of the logs of failed checks.
func (g *guide) logs(ctx context.Context, r *reconcile.Rework) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, logsBound)
	defer cancel()
	forge, err := g.pull.openForge(ctx)
	if err != nil {
		return nil, err
	}
	logs := map[string]string{}
	var firstErr error
	for _, c := range r.Checks {
		if c.Job == 0 || len(logs) == mostLogs {
			continue
		}
		log, err := forge.ReadLog(ctx, c.Job)
		if err == nil && log != "" {
			logs[c.Name] = log
		}
		if firstErr == nil && !errors.Is(err, reconcile.ErrGone) {
			firstErr = err
		}
	}
	return logs, firstErr
}

// commentsBound is how long a turn waits for the comments of its issue.
const commentsBound = 30 * time.Second

// newComments returns the comments of people since a time, the newest first, and the time of
// the newest comment of all. Comments of agents and of symphony, and replies that decided a
// request, are recognised by their ids, because agents may share the tracker's user with a
// person.
func (g *guide) newComments(
	ctx context.Context,
	issue reconcile.Issue,
	since time.Time,
) (fromPeople []reconcile.Comment, newest time.Time, err error) {
	if g.tracker.Comments == nil || g.commentsRefused {
		return nil, since, nil
	}
	known := g.tracker.LastComments == nil // with the issue
	if known && (issue.LastCommentAt == nil || !issue.LastCommentAt.After(since)) {
		return nil, since, nil
	}
	ctx, cancel := context.WithTimeout(ctx, commentsBound)
	defer cancel()
	all, err := g.tracker.Comments(ctx, issue.ID, since)
	g.commentsRefused = errors.Is(err, reconcile.ErrRejected)
	if err != nil {
		return nil, since, err
	}
	if err := g.saveCreated(ctx, nil); err != nil {
		return nil, since, err
	}
	byAgents, err := g.messages.Created(ctx, text.Map(all, func(c reconcile.Comment) string { return c.ID }))
	if err != nil {
		return nil, since, err
	}
	newest = since
	for _, c := range all {
		if c.CreatedAt.After(newest) {
			newest = c.CreatedAt
		}
		if !byAgents[c.ID] && !reconcile.Marked(c.Body) {
			fromPeople = append(fromPeople, c)
		}
	}
	return fromPeople, newest, nil
}

// saveCreated stores entities that the agent created in the tracker, together with earlier
// entities that could not be stored.
func (g *guide) saveCreated(ctx context.Context, more []reconcile.Created) error {
	g.saving.Lock()
	defer g.saving.Unlock()
	g.created = append(g.created, more...)
	if len(g.created) == 0 {
		return nil
	}
	err := g.messages.SaveCreated(context.WithoutCancel(ctx), g.run.ID, g.run.IssueID, g.created, g.now())
	if err != nil {
		return err
	}
	g.created = nil
	return nil
}

// untold returns the last failure of verify, once for each failure. A new run repeats the
// last, which an earlier run may have told.
func (g *guide) untold() *reconcile.Verification {
	h := g.rec.get().Delivery.Handover
	if !h.Refused() || h.Verification == g.told {
		return nil
	}
	g.told = h.Verification
	return g.told
}

func (g *guide) lateAnswers(ctx context.Context) []reconcile.Request {
	answers, err := g.messages.LateAnswers(ctx, g.run.IssueID)
	warn(g.log, "late answers not read, starting the turn without them", err)
	return answers
}

func (g *guide) propose(seen reconcile.LastSeen, u agent.Update) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = &pendingUpdate{seen, u.Answers, u.Messages}
}

// turnAccepted stores that the thread knows the text of the turn. After a crash before that,
// the text is sent again.
func (g *guide) turnAccepted(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending != nil {
		g.store(ctx, *g.pending)
		g.pending = nil
	}
}

// store stores the thread's knowledge of its issue. The caller holds mu.
func (g *guide) store(ctx context.Context, p pendingUpdate) {
	g.seen = p.seen
	run := g.rec.get()
	ctx = context.WithoutCancel(ctx)
	thread := reconcile.Thread{
		ID:          run.ThreadID,
		WorkspaceID: run.WorkspaceID,
		CodexHome:   g.codexHome,
	}
	seenErr := g.threads.RecordLastSeen(ctx, run.ID, run.IssueID, thread, p.seen, g.now())
	answersErr := g.messages.MarkAnswersSeen(ctx, p.answers, run.ID)
	err := errors.Join(seenErr, answersErr)
	warn(g.log, "what the thread has seen is not stored, a later turn may repeat it", err)
	g.reached(ctx, p.messages)
}

// noteDescription marks the description as seen, because the agent itself may have written it.
// issue is the issue after the agent's call of the tool.
func (g *guide) noteDescription(ctx context.Context, issue reconcile.Issue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pending
	if p == nil {
		p = &pendingUpdate{seen: g.seen}
	}
	p.seen.Description = hashOf(text.OrEmpty(issue.Description))
	if g.pending == nil && p.seen != g.seen {
		g.store(ctx, *p)
	}
}

// hashOf returns a hash of a text. It is never "", even for an empty text.
func hashOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:12])
}

// takeMessages returns the operators' messages to the agent that this run did not try to pass
// on, the oldest first. It records the attempt before this run makes it: after a crash the
// agent learns that it may have read them.
func (g *guide) takeMessages(ctx context.Context) ([]reconcile.Message, error) {
	list, err := g.messages.MessagesOf(ctx, g.run.IssueID, true, reconcile.MaxMessages)
	if err != nil {
		return nil, err
	}
	list = text.Filter(list, func(m reconcile.Message) bool { return !slices.Contains(g.given, m.ID) })
	if err := g.messages.MarkMessages(ctx, list, g.run.ID, time.Time{}); err != nil {
		return nil, err
	}
	slices.Reverse(list)
	for _, m := range list {
		g.given = append(g.given, m.ID)
	}
	return list, nil
}

// reached records that the agent got messages.
func (g *guide) reached(ctx context.Context, list []reconcile.Message) {
	err := g.messages.MarkMessages(context.WithoutCancel(ctx), list, g.run.ID, g.now())
	warn(g.log, "what the agent was told is not stored, a later run may repeat it", err)
	for _, m := range list {
		g.events.note(agent.EventTold, m.By+": "+text.OneLine(m.Text), m.Words)
	}
}

// tell adds the operators' messages to the running turn.
func (g *guide) tell(ctx context.Context, session agent.Session) error {
	g.mu.Lock()
	begun := g.pending == nil
	g.mu.Unlock()
	if !begun {
		return nil
	}
	list, err := g.takeMessages(ctx)
	if err != nil || len(list) == 0 {
		return nil //nolint:nilerr // heartbeats report that the database can't be used
	}
	err = session.Steer(ctx, []agent.Input{{
		Type: "text",
		Text: g.agentRedactor.Text(agent.MessagesText(list)),
	}})
	if err != nil {
		g.given = g.given[:len(g.given)-len(list)]
		return err
	}
	g.reached(ctx, list)
	return nil
}
