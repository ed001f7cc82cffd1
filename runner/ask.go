package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Requests is where an agent asks a person, and where that person answers (design 9).
type Requests interface {
	// AddRequest stores a request durably and gives it its number. A run that is no longer the worker's gives an error
	// that wraps reconcile.ErrConflict.
	AddRequest(ctx context.Context, r reconcile.Request) (reconcile.Request, error)
	// RequestByID reads it again, perhaps with a decision.
	RequestByID(ctx context.Context, issueID string, number int) (reconcile.Request, error)
	// ResolveRequest writes down what became of it, and returns it as it stands then: one that was decided meanwhile has
	// not expired.
	ResolveRequest(ctx context.Context, now time.Time, issueID string, number int, fate reconcile.RequestFate) (reconcile.Request, error)
}

const (
	// answerPoll is how often the worker looks whether somebody has decided.
	answerPoll = 200 * time.Millisecond
	// askTries is how often it is tried to store a request, askPause the time between.
	askTries = 3
	askPause = 500 * time.Millisecond
	// withdrawGrace is how long a request that the agent no longer waits for stays open: where its run ends meanwhile it
	// ends with that, and a late answer is for the next run.
	withdrawGrace = 2 * time.Second
)

// question is a request under way.
type question struct {
	reconcile.Request
	seal *seal // of a secret answer, nil where there is none to expect
}

// askPerson implements agent.Asker: it leaves the request in the database and waits for the answer there. A request
// that can't be stored is declined: nobody could know of it.
func (a *attempt) askPerson(ctx context.Context, ask agent.Request) agent.Decision {
	<-a.agent.ready // the agent may ask before launch has taken hold of the session
	q, err := a.newQuestion(ask)
	if err == nil {
		q.Request, err = a.storeRequest(ctx, q.Request)
	}
	if err != nil {
		a.Log.LogAttrs(ctx, slog.LevelError, "request declined, it can't be left to a person", slog.String("error", err.Error()))
		return agent.Decision{Reason: "not left to a person: " + err.Error()}
	}
	log := a.Log.With(slog.String("request", q.ID()))
	log.LogAttrs(ctx, slog.LevelInfo, "waits for a person", slog.String("kind", string(q.Kind)), slog.String("summary", q.Summary))
	if a.Attend != nil {
		a.Attend(context.WithoutCancel(ctx))
	}
	is, fate := a.await(ctx, q, log)
	if fate == reconcile.RequestWithdrawn {
		go a.withdraw(q, log)
		return agent.Decision{}
	}
	if fate == reconcile.RequestExpired {
		is = a.expire(ctx, q, log)
	}
	log.LogAttrs(ctx, slog.LevelInfo, "request over", slog.String("fate", string(is.Fate)), slog.String("decision", string(is.Decision)))
	decision := a.decisionOf(q, is, log)
	if is.Decision != "" {
		// Not before the agent has been told: an answer that a dying run could not pass on is for the next one.
		decision.Sent = func() { a.settle(ctx, q, reconcile.RequestAnswered, log) }
	}
	return decision
}

// expire ends a request that nobody has decided, unless somebody does in the last moment.
func (a *attempt) expire(ctx context.Context, q *question, log *slog.Logger) reconcile.Request {
	if is, stored := a.settle(ctx, q, reconcile.RequestExpired, log); stored {
		return is
	}
	is, err := a.Requests.RequestByID(context.WithoutCancel(ctx), q.IssueID, q.Number)
	if err != nil {
		is = q.Request
	}
	if is.Decision == "" {
		is.Fate = reconcile.RequestExpired
	}
	return is
}

// settle writes down what became of the request; where that can't be, it goes on trying.
func (a *attempt) settle(ctx context.Context, q *question, fate reconcile.RequestFate, log *slog.Logger) (is reconcile.Request, stored bool) {
	is, err := a.resolve(q, fate)
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "what became of the request is not stored, trying again", slog.String("error", err.Error()))
		go a.resolvePatiently(q, fate, log)
	}
	return is, err == nil
}

// storeRequest tries a few times: the agent waits, and a database that takes nothing may do so for a moment only.
func (a *attempt) storeRequest(ctx context.Context, r reconcile.Request) (stored reconcile.Request, err error) {
	for try := 1; ; try++ {
		stored, err = a.Requests.AddRequest(context.WithoutCancel(ctx), r)
		if err == nil || errors.Is(err, reconcile.ErrConflict) || try == askTries {
			return stored, err
		}
		a.Log.LogAttrs(ctx, slog.LevelWarn, "request not stored, trying again", slog.String("error", err.Error()))
		pause := time.NewTimer(askPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return stored, err
		}
	}
}

// await gives what became of the request, as far as the worker can see, and where somebody has decided the request as
// it stands then. The timer runs on the monotonic clock.
func (a *attempt) await(ctx context.Context, q *question, log *slog.Logger) (reconcile.Request, reconcile.RequestFate) {
	expired := time.NewTimer(q.Deadline.Mono - proc.Monotonic())
	defer expired.Stop()
	look := time.NewTicker(answerPoll)
	defer look.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return q.Request, reconcile.RequestWithdrawn
		case <-expired.C:
			return q.Request, reconcile.RequestExpired
		case <-look.C:
		}
		is, err := a.Requests.RequestByID(ctx, q.IssueID, q.Number)
		switch {
		case err == nil && is.Decision != "":
			return is, reconcile.RequestAnswered
		case err != nil && ctx.Err() == nil && !said:
			said = true
			log.LogAttrs(ctx, slog.LevelWarn, "request not read, trying again", slog.String("error", err.Error()))
		}
	}
}

func (a *attempt) resolve(q *question, fate reconcile.RequestFate) (reconcile.Request, error) {
	return a.Requests.ResolveRequest(context.Background(), a.Now(), q.IssueID, q.Number, fate)
}

// withdraw ends a request that the agent no longer waits for, unless its run ends.
func (a *attempt) withdraw(q *question, log *slog.Logger) {
	grace := time.NewTimer(withdrawGrace)
	defer grace.Stop()
	select {
	case <-a.ending:
		return
	case <-a.agent.session.Done():
		return
	case <-grace.C:
	}
	if a.rec.get().Phase != reconcile.Finishing {
		a.resolvePatiently(q, reconcile.RequestWithdrawn, log)
	}
}

// resolvePatiently tries until the run ends, and the request with it.
func (a *attempt) resolvePatiently(q *question, fate reconcile.RequestFate, log *slog.Logger) {
	for {
		_, err := a.resolve(q, fate)
		if err == nil || errors.Is(err, reconcile.ErrConflict) {
			return
		}
		log.Warn("what became of the request is not stored, trying again", slog.String("error", err.Error()))
		pause := time.NewTimer(concludePause)
		select {
		case <-pause.C:
		case <-a.ending:
			pause.Stop()
			return
		}
	}
}

// decisionOf is what the agent is told.
func (a *attempt) decisionOf(q *question, is reconcile.Request, log *slog.Logger) agent.Decision {
	if is.Decision == "" {
		return agent.Decision{Expired: is.Fate == reconcile.RequestExpired}
	}
	answers, err := q.answers(is.Answer)
	if err != nil {
		log.Error("answer not readable", slog.String("error", err.Error()))
		return agent.Decision{Reason: fmt.Sprintf("the answer can't be read: %v", err)}
	}
	return agent.Decision{
		Approve:    is.Decision == reconcile.DecideApprove || is.Decision == reconcile.DecideForSession,
		ForSession: is.Decision == reconcile.DecideForSession,
		Reason:     is.Answer.Reason, Answers: answers, By: "operator",
	}
}
