package agent

import (
	"context"
	"crypto/ecdh"
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

// RequestStore is where requests of agents wait for a person.
type RequestStore interface {
	// AddRequest stores a request durably and gives it its number. If the run is no longer the worker's the error wraps
	// reconcile.ErrConflict.
	AddRequest(ctx context.Context, r reconcile.Request) (reconcile.Request, error)
	// RequestByID reads it again, perhaps with a decision.
	RequestByID(ctx context.Context, issueID string, number int) (reconcile.Request, error)
	// ResolveRequest stores what became of it, and returns it as it is then: a request that was decided meanwhile has not
	// expired.
	ResolveRequest(ctx context.Context, now time.Time, issueID string, number int, fate reconcile.RequestFate) (reconcile.Request, error)
}

// Desk passes requests of a run's agent to a person: it stores them and waits for the answer. Its method Decide is the
// Asker of a session.
type Desk struct {
	Store    RequestStore
	Timeout  time.Duration // for an answer
	Redactor *Redactor
	Log      *slog.Logger
	Now      func() time.Time
	Instant  func() reconcile.Instant
	// Run returns the run as it is now. Ending is closed when it is to end, Gone when its agent has ended.
	Run          func() reconcile.Run
	Ending, Gone <-chan struct{}
	// Notify has the person notified of new requests, and returns at once. Nil: a pass notifies.
	Notify func(ctx context.Context)
}

const (
	answerPoll = 200 * time.Millisecond // between two looks at the store
	// withdrawGrace is how long a request that the agent no longer waits for stays open. If the run ends meanwhile the
	// request ends with it, and a late answer is for the next run.
	withdrawGrace = 2 * time.Second
	maxRequest    = 64 << 10 // bytes that are kept of a request: a patch may be of any size
)

// question is a request that waits.
type question struct {
	reconcile.Request
	asked []Question      // as the agent asks them, with ids and labels that may hold secrets
	key   hpke.PrivateKey // for a secret answer, nil if none is expected
	log   *slog.Logger
}

// Decide stores the request and waits for the answer. A request that can't be stored is declined, because no person could
// see it.
func (d *Desk) Decide(ctx context.Context, ask Request) Decision {
	expired := time.NewTimer(d.Timeout)
	defer expired.Stop()
	q, err := d.newQuestion(ask)
	if err == nil {
		q.Request, err = d.Store.AddRequest(context.WithoutCancel(ctx), q.Request)
	}
	if err != nil {
		d.Log.Error("request declined, it can't be left to a person", "error", err)
		return Decision{Reason: "not left to a person: " + err.Error()}
	}
	q.log = d.Log.With("request", q.ID())
	q.log.Info("waits for a person", "kind", q.Kind, "summary", q.Summary)
	if d.Notify != nil {
		d.Notify(context.WithoutCancel(ctx))
	}
	answered := d.await(ctx, q, expired.C)
	if answered.Decision == "" && ctx.Err() != nil {
		go d.withdraw(q)
		return Decision{}
	}
	if answered.Decision == "" {
		if answered, err = d.resolve(q, reconcile.RequestExpired); err != nil { // else it may have been decided in the last moment
			answered.Decision, answered.Fate = "", reconcile.RequestExpired
		}
	}
	q.log.Info("request over", "fate", answered.Fate, "decision", answered.Decision)
	if answered.Decision == "" {
		return Decision{Expired: answered.Fate == reconcile.RequestExpired}
	}
	answers, err := q.answers(answered.Answer)
	if err != nil {
		q.log.Error("answer not readable", "error", err)
		answered = reconcile.Request{Answer: reconcile.RequestAnswer{Reason: "the answer can't be read: " + err.Error()}}
	}
	return Decision{
		Approve:    answered.Decision == reconcile.DecideApprove || answered.Decision == reconcile.DecideForSession,
		ForSession: answered.Decision == reconcile.DecideForSession,
		Reason:     answered.Answer.Reason, Answers: q.asAsked(answers), By: "operator",
		// Only once the agent was told is the request answered: an answer that a dying run could not pass on is for the next one.
		Sent: func() { _, _ = d.resolve(q, reconcile.RequestAnswered) }, // it logs its error
	}
}

// await waits for a decision. The request has none if there was none in time.
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

// resolve stores what became of the request. One whose fate can't be stored ends with its run.
func (d *Desk) resolve(q *question, fate reconcile.RequestFate) (reconcile.Request, error) {
	is, err := d.Store.ResolveRequest(context.Background(), d.Now(), q.IssueID, q.Number, fate)
	if err != nil && !errors.Is(err, reconcile.ErrConflict) {
		q.log.Error("what became of the request is not stored", "error", err)
	}
	return is, err
}

// withdraw ends a request that the agent no longer waits for, unless its run ends.
func (d *Desk) withdraw(q *question) {
	select {
	case <-d.Ending:
	case <-d.Gone:
	case <-time.After(withdrawGrace):
		if d.Run().Phase != reconcile.Finishing {
			_, _ = d.resolve(q, reconcile.RequestWithdrawn) // it logs its error
		}
	}
}

// newQuestion is the request as it is stored: without secrets, and bounded.
func (d *Desk) newQuestion(ask Request) (*question, error) {
	detail, err := d.detail(ask)
	if err != nil {
		return nil, err
	}
	deadline := d.Instant()
	deadline.Mono += d.Timeout
	now, run := d.Now(), d.Run()
	q := &question{asked: ask.Questions, Request: reconcile.Request{
		IssueID: run.IssueID, Identifier: run.Identifier, RunID: run.ID, ThreadID: ask.ThreadID,
		Kind: ask.Kind, Summary: d.summary(ask), Detail: detail, Outside: ask.OutsideSandbox,
		AskedAt: now, ExpiresAt: now.Add(d.Timeout), Deadline: deadline,
	}}
	if q.Secret() {
		if q.key, err = hpke.DHKEM(ecdh.X25519()).GenerateKey(); err != nil {
			return nil, fmt.Errorf("key for a secret answer: %w", err)
		}
		q.Detail.SealKey = q.key.PublicKey().Bytes()
	}
	return q, nil
}

// summary contains a command as it is and to its end, because the person approves exactly that.
func (d *Desk) summary(ask Request) string {
	summary := ask.Summary
	oneLine := strings.Join(strings.Fields(ask.Command), " ")
	switch {
	case strings.Contains(summary, ask.Command):
	case strings.HasPrefix(oneLine, strings.TrimSuffix(summary, ellipsis)):
		summary = ask.Command // the summary is only its beginning
	default:
		summary += "\n" + ask.Command
	}
	return d.Redactor.Text(summary)
}

// detail is what a person is shown. A command, questions and permissions are never cut, because the person could not say yes
// to the rest; patches are.
func (d *Desk) detail(ask Request) (reconcile.RequestDetail, error) {
	room, cut := maxRequest, 0
	bounded := func(s string) string {
		s = d.Redactor.Text(s)
		short := text.Within(s, room)
		room -= len(short)
		cut += len(s) - len(short)
		return short
	}
	clean := d.Redactor.Text
	detail := reconcile.RequestDetail{
		Command: clean(ask.Command), Cwd: bounded(ask.Cwd), Reason: bounded(ask.Reason), GrantRoot: bounded(ask.GrantRoot), Server: bounded(ask.Server),
	}
	for _, q := range ask.Questions {
		q.ID, q.Header, q.Text, q.Options = clean(q.ID), clean(q.Header), clean(q.Text), slices.Clone(q.Options)
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
		return detail, fmt.Errorf("%d bytes are more than a person would read", whole)
	}
	if len(ask.Permissions) > 0 {
		detail.Permissions = d.Redactor.Bytes(ask.Permissions)
		if !json.Valid(detail.Permissions) { // a number or a word of it was a secret
			detail.Permissions = marshal(string(detail.Permissions))
		}
	}
	for _, c := range ask.Changes {
		if cut > 0 {
			cut += len(c.Path) + len(c.Diff)
			continue // the summary names the files
		}
		detail.Changes = append(detail.Changes, FileChange{Path: bounded(c.Path), Kind: c.Kind, Diff: bounded(c.Diff)})
	}
	detail.Cut = cut
	return detail, nil
}

// A secret answer passes through the database on its way to the worker. It is sealed with a key whose private part is only
// in the worker's memory, so that the database does not reveal it.

var sealInfo = []byte("symphony answer")

// SealAnswers encrypts answers for the worker that made the key.
func SealAnswers(key []byte, answers map[string][]string) ([]byte, error) {
	public, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("key for a secret answer: %w", err)
	}
	plain, err := json.Marshal(answers)
	if err != nil {
		return nil, fmt.Errorf("secret answer: %w", err)
	}
	return hpke.Seal(public, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), sealInfo, plain)
}

// answers are those of an answer, sealed or not.
func (q *question) answers(a reconcile.RequestAnswer) (map[string][]string, error) {
	if a.Sealed == nil {
		return a.Answers, nil
	}
	if q.key == nil {
		return nil, fmt.Errorf("%s: sealed, but not for this worker", q.ID())
	}
	plain, err := hpke.Open(q.key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), sealInfo, a.Sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.ID(), err)
	}
	var answers map[string][]string
	if err := json.Unmarshal(plain, &answers); err != nil {
		return nil, fmt.Errorf("%s: secret answer: %w", q.ID(), err)
	}
	return answers, nil
}

// asAsked returns answers by the ids and with the labels that the agent used, in place of those that are stored.
func (q *question) asAsked(answers map[string][]string) map[string][]string {
	all := map[string][]string{}
	for i, stored := range q.Detail.Questions {
		texts, answered := answers[stored.ID]
		if !answered {
			continue
		}
		texts = slices.Clone(texts)
		for n, text := range texts {
			if at := slices.IndexFunc(stored.Options, func(o Option) bool { return o.Label == text }); at >= 0 {
				texts[n] = q.asked[i].Options[at].Label
			}
		}
		all[q.asked[i].ID] = texts
	}
	return all
}
