package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host"
)

// handOverTool is the agent's tool by which it asks that its issue is handed over.
var handOverTool = agent.Tool{
	Name: "hand_over",
	Description: "Hand over the issue that you work on, when its work is done and committed: " +
		"symphony then delivers the commits, comments on the issue and moves it. " +
		`Example: {"summary": "Fixed the total; the tests pass."} ` +
		"If you can't go on without a person: " +
		`{"blocked": "I need access to the staging database."} Then end your turn.`,
	InputSchema: agenttool.Object(nil, map[string]any{
		"summary": map[string]string{
			"type":        "string",
			"description": "What you have done, in Markdown, for the people who review it.",
		},
		"blocked": map[string]string{
			"type":        "string",
			"description": "What you need from a person, if the work is not done.",
		},
	}),
}

const (
	longestHandover = 16 << 10       // bytes of a summary
	longestNote     = 200            // bytes of the text in the event log
	clocksDiffer    = 24 * time.Hour // by which the tracker's clock may differ at most
)

// stateFor is the state to which an issue is moved; empty if the workflow does not say it.
func (h Handoff) stateFor(wish reconcile.Handover) string {
	if wish.Blocked != "" {
		return h.BlockedState
	}
	return h.State
}

// askHandover records the agent's request. The handover happens after the turn.
func (t *turnLoop) askHandover(ctx context.Context, args json.RawMessage) agent.ToolResult {
	wish, err := t.acceptHandover(ctx, args)
	if err != nil {
		if t.countRefusal(ctx, "hand_over", err) {
			t.interruptTurn(ctx)
		}
		return agent.ToolResult{Text: t.agentRedactor.Text(agenttool.Refused("hand_over_failed", err).Text)}
	}
	t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &wish })
	if err := t.rec.store(ctx); err != nil {
		t.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = nil })
		return agent.ToolResult{Text: agenttool.Refused("hand_over_failed", err).Text}
	}
	crash.At("runner.handover.recorded")
	t.note("handover", text.Within(text.OneLine(wish.Blocked+wish.Summary), longestNote), wish)
	return agent.ToolResult{Text: "recorded; end your turn", Success: true}
}

// acceptHandover reads the agent's request for a handover, and returns an error for the agent
// if its work can't be handed over.
func (t *turnLoop) acceptHandover(
	ctx context.Context,
	args json.RawMessage,
) (wish reconcile.Handover, err error) {
	wish, err = t.readHandover(args)
	if err != nil || wish.Blocked != "" {
		return wish, err
	}
	return wish, t.checkWork(ctx)
}

// maxRefusals is how often in a row hand_over, or the delivery, is refused for the same
// reason, while nothing changes, before the run ends. An agent that can't commit, because a
// hook of git fails for example, would try until its last turn.
const maxRefusals = 3

// refusals are the last refusals of hand_over, or of the delivery.
type refusals struct {
	mu       sync.Mutex
	sentence string // of the last refusal
	content  string // the fingerprint of the workspace then
	count    int    // how many in a row had the same two
	end      error  // why the run ends; nil as long as it goes on
}

// countRefusal counts a refusal of hand_over, or of the delivery at the end of the run. It
// reports whether the run must end because of it.
func (t *turnLoop) countRefusal(ctx context.Context, what string, refusal error) bool {
	_, sentence := codeOf(refusal)
	content, err := t.Machine.Fingerprint(ctx, t.space.Path)
	t.warn("state of the workspace, only the sentence of the refusal counts", err)
	r := &t.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if sentence != r.sentence || content != r.content {
		r.count = 0
	}
	r.count++
	r.sentence = sentence
	r.content = content
	if r.count < maxRefusals || r.end != nil {
		return false
	}
	r.end = &reconcile.Error{
		Code: reconcile.HoldRefused,
		Message: fmt.Sprintf(
			"%s was refused %d times, and nothing has changed meanwhile: %s",
			what,
			r.count,
			sentence,
		),
	}
	return true
}

// interruptTurn interrupts the turn after its present call of a tool: the agent waits for the
// answer to that first.
func (t *turnLoop) interruptTurn(ctx context.Context) {
	go func(g *agentProcess) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptBound)
		defer cancel()
		g.warn("turn not interrupted", g.session.Interrupt(bounded))
	}(t.agent)
}

// returnForDelivery reports whether the agent must go on after its last turn, because a clone
// of its commits would lack files. The agent learns that in its next turn. With a state for
// handovers hand_over already told it.
func (t *turnLoop) returnForDelivery(ctx context.Context, turn int) (more bool, err error) {
	if t.Config.Handoff.State != "" || t.rec.overBudget.Load() || ctx.Err() != nil {
		return false, nil //nolint:nilerr // a stop after a completed turn does not undo it
	}
	refusal := t.tryDelivery(ctx)
	if refusal == nil {
		return false, nil
	}
	if t.countRefusal(ctx, "the delivery", refusal) {
		return false, t.refusals.hopeless()
	}
	if turn >= t.Config.MaxTurns || t.closedByOthers(ctx) {
		return false, nil
	}
	t.rec.waitForCorrection(ctx)
	_, t.guide.undelivered = codeOf(refusal)
	t.Log.Info("the work can't be delivered, which the agent is told", "why", t.guide.undelivered)
	return true, nil
}

// closedByOthers reports whether the issue is, or may be, in a terminal state that its agent
// did not set: then the agent gets no further turn.
func (t *turnLoop) closedByOthers(ctx context.Context) bool {
	issue, _, err := t.readIssue(ctx)
	if err != nil {
		t.warn("it is not known whether the issue is closed", err)
		return true
	}
	own := t.rec.get().MovedTo
	closed := t.Config.Policy.Terminal(issue.State) && !reconcile.SameState(own, issue.State)
	if closed {
		t.Log.Info("the work can't be delivered, but the issue was closed meanwhile", "state", issue.State)
	}
	return closed
}

// hopeless returns the error with which the run ends because of refusals, nil if it goes on.
func (r *refusals) hopeless() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// readHandover reads the arguments of the tool.
func (t *turnLoop) readHandover(args json.RawMessage) (reconcile.Handover, error) {
	invalid := func(why string) (reconcile.Handover, error) {
		return reconcile.Handover{}, agenttool.Refusal("invalid_input", why)
	}
	var in struct{ Summary, Blocked string }
	d := json.NewDecoder(strings.NewReader(string(args)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return invalid("arguments must be an object with summary or blocked: " + err.Error())
	}
	wish := reconcile.Handover{
		RunID:    t.job.run.ID,
		At:       t.Now(),
		Summary:  t.Redactor.Text(strings.TrimSpace(in.Summary)),
		Blocked:  t.Redactor.Text(strings.TrimSpace(in.Blocked)),
		Delivers: t.Config.Repository.Deliver,
		Verifies: t.Config.Verify.Command != "",
	}
	wish.State = t.Config.Handoff.stateFor(wish)
	if (wish.Summary == "") == (wish.Blocked == "") {
		return invalid("give either summary or blocked, as a text that is not empty")
	}
	words := wish.Summary + wish.Blocked
	if len(words) > longestHandover {
		return invalid(fmt.Sprintf("the text is longer than %d bytes", longestHandover))
	}
	if strings.Contains(words, reconcile.CommentMarker) {
		return invalid("the text contains " + reconcile.CommentMarker +
			", which only symphony writes: leave it out")
	}
	return wish, nil
}

// checkWork returns an error for the agent if something in the workspace is not committed, or
// if nothing is.
func (t *turnLoop) checkWork(ctx context.Context) error {
	found, err := t.Machine.Inspect(ctx, host.WorkspaceRequest{Path: t.space.Path})
	if err != nil || found.Git == nil {
		return err
	}
	if refusal := uncommitted(found.Git); refusal != nil {
		return refusal
	}
	if t.Config.Repository.Deliver && found.Git.Ahead != nil && *found.Git.Ahead == 0 {
		return noCommit(found.Git)
	}
	return t.tryDelivery(ctx)
}

// noCommit returns the error for an agent whose branch contains no commit of its own.
func noCommit(g *host.GitStatus) error {
	branches := g.Elsewhere
	if len(branches) == 0 {
		return agenttool.Refusal(
			"no_commit",
			"the branch has no commit of yours: commit the work, or say with blocked what you need",
		)
	}
	return agenttool.Refusal("no_commit", fmt.Sprintf(
		"HEAD (%s) has no commit of yours: they are on %s; run git merge %s, or git switch to it, "+
			"then hand over again",
		headName(g),
		strings.Join(branches, ", "),
		branches[0],
	))
}

// headName returns the branch of HEAD, or its commit if it is detached.
func headName(g *host.GitStatus) string {
	if g.Branch != nil {
		return *g.Branch
	}
	return fmt.Sprintf("detached at %.12s", text.OrEmpty(g.Commit))
}

// tryDelivery returns an error for the agent if a clone of the commits that it hands over
// would lack some of its files. Other faults of a delivery are none of the agent's, and the
// delivery reports them.
func (t *turnLoop) tryDelivery(ctx context.Context) error {
	if !t.Config.Repository.Deliver {
		return nil
	}
	err := t.deliverable(ctx)
	known, _ := errors.AsType[*reconcile.Error](err)
	if known != nil && known.Code == host.CodeIncomplete {
		return agenttool.Refusal(known.Code, known.Message+": "+known.Hint)
	}
	t.warn("the delivery was not tried", err)
	return nil
}

// checkMove returns an error for an agent that moves its issue out of the active states, if it
// must hand it over instead.
func (t *turnLoop) checkMove(ctx context.Context, tool reconcile.AgentTool, args json.RawMessage) error {
	if t.Config.Handoff.State == "" || tool.MovesTo == nil {
		return nil
	}
	states, err := tool.MovesTo(ctx, t.rec.get().Issue, args)
	if err != nil {
		return err
	}
	leaves := func(state string) bool { return !t.Config.Policy.Active(state) }
	if !slices.ContainsFunc(states, leaves) {
		return nil
	}
	return agenttool.Refusal(
		"use_hand_over",
		"nothing was changed: use the tool hand_over, and symphony moves the issue after your turn",
	)
}

// handOver comments on the issue and moves it. Each step is stored before the next, and is not
// repeated. If a person moved the issue meanwhile, it stays where it is. head is the commit
// that is handed over, if it was looked for.
func (d *deliveryStep) handOver(ctx context.Context, h reconcile.Handover, head string) error {
	last, _, err := d.Journal.Delivered(ctx, d.run.IssueID)
	if err != nil {
		return err
	}
	if !h.Delivers {
		last = reconcile.Delivered{}
	} else if head != "" && head != last.Commit { // nothing was pushed, because the base contains it
		last = reconcile.Delivered{Commit: head}
	}
	if d.needsVerify(&h, last.Commit) {
		return notVerified(h, last.Commit)
	}
	issue, visible, err := d.readIssue(ctx)
	if err != nil || !visible {
		return err
	}
	if issue.Elsewhere {
		d.Log.Info("the issue was taken out of the project meanwhile")
		return nil
	}
	if err := d.answerRework(ctx, h, last); err != nil {
		return err
	}
	if !h.Commented && d.Tracker.Post != nil {
		if err := d.postHandover(ctx, h, last); err != nil {
			return unlessGone(err)
		}
		h.Commented = true
		d.rec.change(func(r *reconcile.Run) { r.Delivery.Handover = &h })
		d.rec.flush(ctx)
	}
	crash.At("runner.handover.commented")
	if reason, _ := d.Config.Policy.StopReason(issue, true); reason != "" {
		d.Log.Info("the issue was moved meanwhile", "reason", reason, "state", issue.State)
		return nil
	}
	state := cmp.Or(d.Config.Handoff.stateFor(h), h.State)
	if d.Config.Policy.Active(state) {
		return reconcile.NewError(
			host.CodeDeliveryFailed,
			fmt.Sprintf("the issue was to be moved to %q, which is active now", state),
			"correct handoff.state in WORKFLOW.md",
		)
	}
	d.rec.recordMove()
	d.rec.flush(ctx)
	if err := d.Tracker.Move(ctx, issue.ID, state); err != nil {
		return unlessGone(err)
	}
	d.rec.change(func(r *reconcile.Run) { r.MovedTo = state })
	d.rec.flush(ctx)
	crash.At("runner.handover.moved")
	d.Log.Info("handed over", "state", state)
	return nil
}

func unlessGone(err error) error {
	if errors.Is(err, reconcile.ErrGone) {
		return nil
	}
	return err
}

// postHandover comments on the issue, unless the comment is there.
func (d *deliveryStep) postHandover(
	ctx context.Context,
	h reconcile.Handover,
	last reconcile.Delivered,
) error {
	mark := reconcile.CommentMarker + "handover " + h.RunID + " -->"
	if d.Tracker.Comments != nil {
		list, err := d.Tracker.Comments(ctx, d.run.IssueID, h.At.Add(-clocksDiffer))
		if err != nil {
			return err
		}
		isOurs := func(c reconcile.Comment) bool { return strings.Contains(c.Body, mark) }
		if text.First(list, isOurs).ID != "" {
			return nil
		}
	}
	body := d.Redactor.Text(handoverText(h, last, d.workflowText()))
	_, err := d.Tracker.Post(ctx, d.run.IssueID, body+"\n\n"+mark)
	return err
}

// handoverText is the comment about a handover.
func handoverText(h reconcile.Handover, last reconcile.Delivered, warning string) string {
	if h.Blocked != "" {
		return "**Blocked**" + quotation(h.Blocked)
	}
	words := "**Handed over**"
	if last.Branch != "" {
		words += fmt.Sprintf("\n\nBranch `%s`, commit `%.12s`.", last.Branch, last.Commit)
	}
	if last.PullRequest != "" {
		words += "\n\nPull request: " + last.PullRequest
	}
	if verified := h.VerifiedText(last.Commit); verified != "" {
		words += "\n\n" + verified
	}
	if warning != "" {
		words += "\n\n" + warning
	}
	return words + quotation(h.Summary)
}

// rework returns why the issue came back; nil if it did not.
func (j *job) rework(ctx context.Context) (*reconcile.Rework, error) {
	if j.Forge == nil || j.Journal == nil {
		return nil, nil
	}
	w, _, err := j.Journal.Watch(ctx, j.run.IssueID)
	return w.Rework, err
}

// openForge returns the adapter to the pull requests, with the login of this machine.
func (j *job) openForge(ctx context.Context) (*reconcile.Forge, error) {
	env, err := j.gitEnv(ctx)
	if err != nil {
		return nil, err
	}
	return j.Forge(ctx, env)
}

// answerRework comments on the pull request, once, with the answer to the rework and its
// commit. From then on the issue no longer counts as come back.
func (d *deliveryStep) answerRework(
	ctx context.Context,
	h reconcile.Handover,
	last reconcile.Delivered,
) error {
	r, err := d.rework(ctx)
	if r == nil || err != nil {
		return err
	}
	forge, err := d.openForge(ctx)
	if err != nil {
		return err
	}
	words := "answered by commit"
	said := h.Summary
	switch {
	case h.Blocked != "":
		words = "not answered, blocked at commit"
		said = h.Blocked
	case last.Commit == r.Commit:
		words = "answered without a new commit after"
	}
	mark := fmt.Sprintf("%srework %s %d -->", reconcile.CommentMarker, d.run.IssueID, r.At.Unix())
	body := fmt.Sprintf("**Rework %d of %d** %s `%.12s`", r.Round, r.Rounds, words, last.Commit)
	if warning := d.workflowText(); warning != "" {
		body += "\n\n" + warning
	}
	body += quotation(said) + "\n\n" + mark
	err = forge.Comment(ctx, r.Number, mark, d.Redactor.Text(body))
	if err != nil && !errors.Is(err, reconcile.ErrGone) {
		return err
	}
	crash.At("runner.rework.answered")
	return d.Journal.EndRework(context.WithoutCancel(ctx), d.run.IssueID)
}

// quotation is the text of an agent below symphony's own text. Nothing in it can end the
// quotation.
func quotation(words string) string {
	return "\n\n> " + strings.ReplaceAll(strings.ReplaceAll(words, "\r", ""), "\n", "\n> ")
}
