package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// guide writes the text of each turn.
type guide struct {
	*parts
	messages *operatorMessages
	comments *issueComments
	memory   *threadMemory
	news     *turnNews
}

func (j *job) newGuide() *guide {
	messages := &operatorMessages{parts: j.parts}
	return &guide{
		parts:    j.parts,
		messages: messages,
		comments: &issueComments{parts: j.parts, created: &creations{parts: j.parts}},
		memory:   &threadMemory{parts: j.parts, messages: messages},
		news:     &turnNews{parts: j.parts, pull: j.pull, branch: j.branch, undelivered: j.run.Delivery.Mend},
	}
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
	seen, last, err := g.memory.lastRun(ctx, t.id, issue)
	if err != nil {
		return "", err
	}
	r := agent.Resumption{
		Issue:     issue,
		Attempt:   g.run.Attempt,
		Policy:    g.site.Config.Policy,
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
	update := g.update(ctx, g.memory.knows())
	return g.agentRedactor.Text(agent.Continuation(g.rec.get().Issue, turn, g.site.Config.MaxTurns, update))
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
	if t.replaces && g.site.Config.ResumeThread {
		return g.update(ctx, seen)
	}
	seen.CommentAt = g.comments.knownUntil(issue)
	u := g.newUpdate(ctx, &seen)
	g.memory.propose(seen, u)
	return u
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
	comments, newest, err := g.comments.since(ctx, issue, seen.CommentAt)
	warn(g.Log, "comments not read, starting the turn without them", err)
	u.Comments = comments
	seen.CommentAt = newest
	g.memory.propose(seen, u)
	return u
}

// newUpdate returns the news for any thread, and records it in seen.
func (g *guide) newUpdate(ctx context.Context, seen *reconcile.LastSeen) agent.Update {
	messages, err := g.messages.take(ctx)
	warn(g.Log, "messages of operators not read, starting the turn without them", err)
	return agent.Update{
		Answers:     g.messages.lateAnswers(ctx),
		Messages:    messages,
		Refused:     g.news.refused(),
		Base:        g.news.newBase(seen),
		Rework:      g.news.rework(ctx),
		Pushed:      g.news.pushed(),
		Undelivered: g.news.takeUndelivered(),
	}
}

// tell adds the operators' messages to the running turn, once the agent accepted it.
func (g *guide) tell(ctx context.Context, session agent.Session) error {
	if !g.memory.isAccepted() {
		return nil
	}
	return g.messages.tell(ctx, session)
}

// hashOf returns a hash of a text. It is never "", even for an empty text.
func hashOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:12])
}
