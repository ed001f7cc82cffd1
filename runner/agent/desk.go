package agent

import (
	"context"
	"crypto/hpke"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// RequestStore stores requests of agents until an operator decides them.
type RequestStore interface {
	// AddRequest stores a request durably and assigns its number. The error wraps
	// reconcile.ErrConflict if the worker no longer owns the run.
	AddRequest(ctx context.Context, r reconcile.Request) (reconcile.Request, error)
	// RequestByID returns the request, including its decision, if any.
	RequestByID(ctx context.Context, issueID string, number int) (reconcile.Request, error)
	// ResolveRequest ends the request and returns it as it is then. A request that was decided
	// before it could expire keeps its decision.
	ResolveRequest(
		ctx context.Context,
		now time.Time,
		issueID string,
		number int,
		fate reconcile.RequestFate,
	) (reconcile.Request, error)
}

// Desk passes requests of a run's agent to an operator: it stores them and waits for the
// decision. Its method Decide is the Asker of a session.
type Desk struct {
	Store    RequestStore
	Timeout  time.Duration // for a decision
	Redactor *Redactor
	Log      *slog.Logger
	Now      func() time.Time
	Instant  func() reconcile.Instant
	// Run returns the current state of the run. Ending is closed when the run must end, Gone
	// when its agent exits.
	Run          func() reconcile.Run
	Ending, Gone <-chan struct{}
	// Notify starts to notify a person of new requests, without waiting. Nil: the next pass
	// notifies.
	Notify func(ctx context.Context)
}

const (
	answerPoll = 200 * time.Millisecond // between two reads of the store
	// withdrawGrace is how long a request that the agent no longer waits for stays open. If
	// the run ends within that time, the request ends with it, and the next run gets a late
	// answer.
	withdrawGrace = 2 * time.Second
	maxRequest    = 64 << 10 // bytes that are stored of a request: a patch may have any size
)

// question is a request that waits for a decision.
type question struct {
	reconcile.Request
	asked []Question      // the agent's own, whose ids and labels may contain secrets
	key   hpke.PrivateKey // for secret answers, nil if no question expects a secret
	log   *slog.Logger
}

// Decide stores the request and waits for the decision. A request that can't be stored is
// declined, because no operator could see it.
func (d *Desk) Decide(ctx context.Context, ask Request) Decision {
	expired := time.NewTimer(d.Timeout)
	defer expired.Stop()
	q, err := d.newQuestion(ask)
	if err != nil {
		return d.declined(err)
	}
	q.Request, err = d.Store.AddRequest(context.WithoutCancel(ctx), q.Request)
	if err != nil {
		return d.declined(err)
	}
	q.log = d.Log.With("request", q.ID())
	q.log.Info("request waits for an operator", "kind", q.Kind, "summary", q.Summary)
	if d.Notify != nil {
		d.Notify(context.WithoutCancel(ctx))
	}
	answered := d.await(ctx, q, expired.C)
	if answered.Decision == "" && ctx.Err() != nil {
		go d.withdraw(q)
		return Decision{}
	}
	if answered.Decision == "" {
		// It may have been decided at the last moment.
		answered, err = d.resolve(q, reconcile.RequestExpired)
		if err != nil {
			answered.Decision = ""
			answered.Fate = reconcile.RequestExpired
		}
	}
	q.log.Info("request ended", "fate", answered.Fate, "decision", answered.Decision)
	if answered.Decision == "" {
		return Decision{Expired: answered.Fate == reconcile.RequestExpired}
	}
	answers, err := q.answers(answered.Answer)
	if err != nil {
		q.log.Error("answer not readable", "error", err)
		return Decision{Reason: "the answer can't be read: " + err.Error(), By: "operator", Sent: d.sent(q)}
	}
	forSession := answered.Decision == reconcile.DecideForSession
	return Decision{
		Approve:    forSession || answered.Decision == reconcile.DecideApprove,
		ForSession: forSession,
		Reason:     answered.Answer.Reason,
		Answers:    q.asAsked(answers),
		By:         "operator",
		Sent:       d.sent(q),
	}
}

// declined is the decision about a request that no operator sees.
func (d *Desk) declined(err error) Decision {
	d.Log.Error("request declined: it can't be passed to an operator", "error", err)
	return Decision{Reason: "it can't be passed to an operator: " + err.Error()}
}

// sent returns the function for Decision.Sent. It marks the request as answered; earlier the
// request is not. If this run dies with the answer, the next run passes it on.
func (d *Desk) sent(q *question) func() {
	return func() { _, _ = d.resolve(q, reconcile.RequestAnswered) } // resolve logs its error
}

// await waits for a decision and returns the request, without a decision if ctx or the time
// ended first.
func (d *Desk) await(ctx context.Context, q *question, expired <-chan time.Time) reconcile.Request {
	poll := time.NewTicker(answerPoll)
	defer poll.Stop()
	logged := false
	for {
		select {
		case <-ctx.Done():
			return q.Request
		case <-expired:
			return q.Request
		case <-poll.C:
		}
		is, err := d.Store.RequestByID(ctx, q.IssueID, q.Number)
		if err == nil && is.Decision != "" {
			return is
		}
		if err != nil && ctx.Err() == nil && !logged {
			logged = true
			q.log.Warn("request not read, trying again", "error", err)
		}
	}
}

// resolve stores how the request ended. If that fails, the request ends with its run.
func (d *Desk) resolve(q *question, fate reconcile.RequestFate) (reconcile.Request, error) {
	is, err := d.Store.ResolveRequest(context.Background(), d.Now(), q.IssueID, q.Number, fate)
	if err != nil && !errors.Is(err, reconcile.ErrConflict) {
		q.log.Error("end of the request not stored", "error", err)
	}
	return is, err
}

// withdraw ends a request that the agent no longer waits for, unless the run ends.
func (d *Desk) withdraw(q *question) {
	select {
	case <-d.Ending:
	case <-d.Gone:
		if d.Run().Kind == reconcile.FreeRun { // which continues with another process of the agent
			_, _ = d.resolve(q, reconcile.RequestWithdrawn) // resolve logs its error
		}
	case <-time.After(withdrawGrace):
		if d.Run().Phase != reconcile.Finishing {
			_, _ = d.resolve(q, reconcile.RequestWithdrawn) // resolve logs its error
		}
	}
}

// newQuestion returns the request as it is stored: without secrets, and of limited size.
func (d *Desk) newQuestion(ask Request) (*question, error) {
	detail, err := d.detail(ask)
	if err != nil {
		return nil, err
	}
	deadline := d.Instant()
	deadline.Mono += d.Timeout
	now := d.Now()
	run := d.Run()
	q := &question{
		asked: ask.Questions,
		Request: reconcile.Request{
			IssueID:    run.IssueID,
			Identifier: run.Identifier,
			RunID:      run.ID,
			ThreadID:   ask.ThreadID,
			Kind:       ask.Kind,
			Summary:    d.summary(ask),
			Detail:     detail,
			Outside:    ask.OutsideSandbox,
			AskedAt:    now,
			ExpiresAt:  now.Add(d.Timeout),
			Deadline:   deadline,
		},
	}
	if q.Secret() {
		q.key, err = newSealKey()
		if err != nil {
			return nil, fmt.Errorf("key for a secret answer: %w", err)
		}
		q.Detail.SealKey = q.key.PublicKey().Bytes()
	}
	return q, nil
}

// summary returns the summary with the whole command in it, because the operator approves the
// whole command.
func (d *Desk) summary(ask Request) string {
	summary := ask.Summary
	oneLine := text.OneLine(ask.Command)
	switch {
	case strings.Contains(summary, ask.Command):
	case strings.HasPrefix(oneLine, strings.TrimSuffix(summary, ellipsis)):
		summary = ask.Command // the summary is only the beginning of the command
	default:
		summary += "\n" + ask.Command
	}
	return d.Redactor.Text(summary)
}

// detail returns the text shown to an operator. Patches may be cut. Commands, questions and
// permissions are not, because operators can only approve text that they see.
func (d *Desk) detail(ask Request) (reconcile.RequestDetail, error) {
	room := maxRequest
	cut := 0
	bounded := func(s string) string {
		s = d.Redactor.Text(s)
		short := text.Within(s, room)
		room -= len(short)
		cut += len(s) - len(short)
		return short
	}
	clean := d.Redactor.Text
	detail := reconcile.RequestDetail{
		Command:   clean(ask.Command),
		Cwd:       bounded(ask.Cwd),
		Reason:    bounded(ask.Reason),
		GrantRoot: bounded(ask.GrantRoot),
		Server:    bounded(ask.Server),
		CallID:    bounded(ask.ItemID),
	}
	for _, q := range ask.Questions {
		q.ID = clean(q.ID)
		q.Header = clean(q.Header)
		q.Text = clean(q.Text)
		q.Options = slices.Clone(q.Options)
		for i, o := range q.Options {
			q.Options[i] = Option{Label: clean(o.Label), Description: clean(o.Description)}
		}
		detail.Questions = append(detail.Questions, q)
	}
	questions, err := json.Marshal(detail.Questions)
	if err != nil {
		return detail, fmt.Errorf("questions: %w", err)
	}
	if whole := len(ask.Command) + len(questions) + len(ask.Permissions); whole > maxRequest {
		return detail, fmt.Errorf("%d bytes are more than an operator would read", whole)
	}
	if len(ask.Permissions) > 0 {
		detail.Permissions = d.Redactor.Bytes(ask.Permissions)
		if !json.Valid(detail.Permissions) { // redaction replaced a number or a word
			detail.Permissions = text.JSON(string(detail.Permissions))
		}
	}
	for _, c := range ask.Changes {
		if cut > 0 {
			cut += len(c.Path) + len(c.Diff)
			continue // the summary names the files
		}
		detail.Changes = append(detail.Changes, FileChange{
			Path: bounded(c.Path),
			Kind: c.Kind,
			Diff: bounded(c.Diff),
		})
	}
	detail.Cut = cut
	return detail, nil
}

// asAsked translates answers from the stored ids and labels, which are redacted, to the
// agent's own.
func (q *question) asAsked(answers map[string][]string) map[string][]string {
	all := map[string][]string{}
	for i, stored := range q.Detail.Questions {
		texts, answered := answers[stored.ID]
		if !answered {
			continue
		}
		texts = slices.Clone(texts)
		for n, text := range texts {
			at := slices.IndexFunc(stored.Options, func(o Option) bool { return o.Label == text })
			if at >= 0 {
				texts[n] = q.asked[i].Options[at].Label
			}
		}
		all[q.asked[i].ID] = texts
	}
	return all
}
