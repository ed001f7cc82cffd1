// Package requests records an operator's decisions on the requests of agents: approvals,
// denials and answers.
package requests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/state"
)

const (
	// workerBound is how long the command waits for the worker to act on a decision.
	workerBound = 5 * time.Second
	workerStep  = 50 * time.Millisecond
)

// Decision is the decision of the operator.
type Decision struct {
	How    reconcile.RequestDecision
	Reason string // of a denial
	// Texts or Choices answer the questions in their order.
	Texts   []string
	Choices []int
}

// Approval allows the request; with forSession, also similar requests later.
func Approval(forSession bool) Decision {
	if forSession {
		return Decision{How: reconcile.DecideForSession}
	}
	return Decision{How: reconcile.DecideApprove}
}

// JSON is a decided request, as approve and deny print it with --json.
type JSON struct {
	Request Decided `json:"request"`
}

// Decided is a decided request, without an answer, which may be secret.
type Decided struct {
	ID         string                    `json:"id"`
	Identifier string                    `json:"issue_identifier"`
	RunID      string                    `json:"run_id"`
	Kind       reconcile.RequestKind     `json:"kind"`
	Summary    string                    `json:"summary"`
	Decision   reconcile.RequestDecision `json:"decision"`
	Fate       *reconcile.RequestFate    `json:"fate"`
	Taken      bool                      `json:"taken"` // the worker acted on it
}

// NewJSON returns the JSON of a decided request, which never contains an answer.
func NewJSON(r reconcile.Request) JSON {
	return JSON{Request: Decided{
		ID:         r.ID(),
		Identifier: r.Identifier,
		RunID:      r.RunID,
		Kind:       r.Kind,
		Summary:    r.Summary,
		Decision:   r.Decision,
		Fate:       text.OrNull(r.Fate),
		Taken:      !r.EndedAt.IsZero(),
	}}
}

// Open opens the database with the requests of a project. Agents must not: they would answer
// their own requests.
func Open(ctx context.Context, p *wiring.Project) (*state.DB, error) {
	if err := p.Nested(); err != nil {
		return nil, err
	}
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return nil, wiring.NoState(p, err, "no agent has asked anything: %s starts agents", reconcile.CommandFor("tick", ""))
	}
	if _, err := wiring.OwnerPath(ctx, p, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// Decide records a decision about the request that ref names.
func Decide(ctx context.Context, p *wiring.Project, ref string, d Decision) (reconcile.Request, error) {
	db, err := Open(ctx, p)
	if err != nil {
		return reconcile.Request{}, err
	}
	defer db.Close()
	return DecideIn(ctx, p, db, ref, d)
}

// Named returns the request that ref names, or the first request of the issue that ref names.
func Named(
	ctx context.Context,
	p *wiring.Project,
	ref string,
	how reconcile.RequestDecision,
) (r reconcile.Request, err error) {
	db, err := Open(ctx, p)
	if err != nil {
		return r, err
	}
	defer db.Close()
	r, _, err = Find(ctx, p, db, ref, how)
	return r, err
}

// DecideIn is Decide with the open database of the project.
func DecideIn(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	ref string,
	d Decision,
) (reconcile.Request, error) {
	r, named, err := Find(ctx, p, db, ref, d.How)
	if err != nil {
		return r, err
	}
	if !named {
		return r, reconcile.NewError(
			"request_not_found",
			"there is no request "+ref,
			"name a request, such as "+r.ID(),
		)
	}
	if err := d.Incomplete(r, named); err != nil {
		return r, err
	}
	return Record(ctx, p, db, r, d)
}

// Incomplete returns an error if a decision lacks something for which a terminal would ask the
// operator: the answers, or which request of an issue is meant.
func (d Decision) Incomplete(r reconcile.Request, named bool) error {
	switch {
	case !named:
		return reconcile.NewError("not_a_terminal",
			r.Identifier+" is an issue, and without a terminal the command can't ask which request you mean", "").
			WithHint("name the request, such as %s; %s shows them all", r.ID(), reconcile.CommandFor("ps", ""))
	case d.How == reconcile.DecideAnswer && len(d.Texts)+len(d.Choices) == 0:
		asked := text.Plural(len(r.Detail.Questions), "question")
		return decideBy(r, "tell: %s asks %s, and the answer is missing", r.ID(), asked)
	}
	return nil
}

// Record stores a decision about a request, and waits a little until the worker acted on it.
// The first decision counts: a later decision fails with the code request_ended.
func Record(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	r reconcile.Request,
	d Decision,
) (reconcile.Request, error) {
	if d.How == reconcile.DecideForSession && r.Kind == reconcile.DirectoryRequest {
		return r, exit.Usage(
			"approve: %s is asked once, before its agent starts: leave out the session",
			r.ID(),
		)
	}
	r.Decision = d.How
	r.Answer = reconcile.RequestAnswer{Reason: d.Reason}
	if d.How == reconcile.DecideAnswer {
		answer, err := AnswersTo(r, d.Texts, d.Choices)
		if err != nil {
			return r, err
		}
		r.Answer = answer
	}
	r, err := store(ctx, p, db, r)
	if errors.Is(err, state.ErrNotFound) {
		return r, reconcile.NewError(
			"request_not_found",
			"the request no longer exists",
			"",
		).WithHint("%s shows the open requests", reconcile.CommandFor("ps", ""))
	}
	return r, err
}

// store stores a decided request. If its worker lives, it waits until the worker acted on it.
func store(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	r reconcile.Request,
) (reconcile.Request, error) {
	at, err := view.Instant()
	if err != nil {
		return r, err
	}
	ended := !wiring.Alive(p.StateDir, r.RunID)
	r, err = db.Operator.DecideRequest(ctx, p.Env.Now(), at, r, ended)
	if err != nil || r.Fate != "" {
		return r, err
	}
	return waitForWorker(ctx, p, db, r)
}

// notFound is the error for a reference to no open request.
func notFound(ctx context.Context, db *state.DB, ref string) error {
	_, identifier, isIssue, err := db.Views.FindIssue(ctx, ref)
	if err != nil {
		return err
	}
	if isIssue {
		return reconcile.NewError(
			"request_not_found",
			identifier+" has no open request",
			"",
		).WithHint("%s says what it does", reconcile.CommandFor("show", identifier))
	}
	return reconcile.NewError(
		"request_not_found",
		"there is no request "+ref+" in this project",
		"",
	).WithHint("%s shows the open requests", reconcile.CommandFor("ps", ""))
}

// Find finds the request that ref names, or the first request of the issue that ref names
// which takes such a decision. named is false in the second case. A subtask can have the name
// of a request: then neither is taken.
func Find(
	ctx context.Context, p *wiring.Project, db *state.DB, ref string, how reconcile.RequestDecision,
) (r reconcile.Request, named bool, err error) {
	_, ref, err = wiring.IssueName(ctx, db, ref)
	if err != nil {
		return r, false, err
	}
	candidates, err := view.OpenRequests(ctx, p, db)
	if err != nil {
		return r, false, err
	}
	candidates = text.Filter(candidates, func(r reconcile.Request) bool {
		return strings.EqualFold(r.Identifier, ref)
	})
	identifier, number := reconcile.RequestRef(ref)
	if number > 0 {
		r, err = db.Views.FindRequest(ctx, identifier, number)
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return r, false, err
		}
		named = err == nil
	}
	if named && len(candidates) > 0 {
		return r, true, exit.Usage(
			"%s is a request of %s, and an issue that asks %s: name that request, or, at a terminal, the issue %s",
			r.ID(),
			r.Identifier,
			candidates[0].ID(),
			r.Identifier,
		)
	}
	if named {
		candidates = []reconcile.Request{r}
	}
	if len(candidates) == 0 {
		return r, named, notFound(ctx, db, ref)
	}
	for _, c := range candidates {
		// Only questions can be answered, and only the others approved. All can be denied.
		if how == reconcile.DecideDeny ||
			(how == reconcile.DecideAnswer) == (c.Kind == reconcile.QuestionRequest) {
			return c, named, nil
		}
	}
	other := candidates[len(candidates)-1]
	if how == reconcile.DecideAnswer {
		return r, named, decideBy(other, "tell: %s asks for approval, not for an answer", other.ID())
	}
	return r, named, decideBy(other, "approve: %s is a question and needs an answer", other.ID())
}

// waitForWorker waits until the worker acted on the decision. A run that is ending may end
// before it does.
func waitForWorker(
	ctx context.Context,
	p *wiring.Project,
	db *state.DB,
	r reconcile.Request,
) (reconcile.Request, error) {
	for end := p.Env.Now().Add(workerBound); ; {
		// checked first: it may act and end before the next line
		dead := !wiring.Alive(p.StateDir, r.RunID)
		is, err := db.Views.RequestByID(ctx, r.IssueID, r.Number)
		if err != nil {
			return r, err
		}
		if dead && is.EndedAt.IsZero() {
			is.Fate = reconcile.RequestRunEnded
		}
		switch {
		case is.Fate == reconcile.RequestAnswered && !is.EndedAt.IsZero():
			return is, nil
		case is.Fate == reconcile.RequestRunEnded && is.Decision == reconcile.DecideAnswer && !is.Secret():
			return is, nil // the next run gets it
		case is.Fate == reconcile.RequestRunEnded, is.Fate == reconcile.RequestWithdrawn:
			return r, reconcile.NewError(
				"request_ended",
				r.ID()+" has just ended: "+string(is.Fate),
				"",
			).WithHint("%s shows the open requests", reconcile.CommandFor("ps", ""))
		case p.Env.Now().After(end) || !wiring.Sleep(ctx, workerStep):
			return r, nil
		}
	}
}

// Describe returns the result of a decision in lines, and a note if the worker is yet to
// receive it.
func Describe(r reconcile.Request) (done []string, note string) {
	what := map[reconcile.RequestDecision]string{
		reconcile.DecideApprove:    "approved",
		reconcile.DecideForSession: "approved for the session",
		reconcile.DecideDeny:       "denied",
		reconcile.DecideAnswer:     "answered",
	}[r.Decision]
	done = []string{what + " " + r.ID() + ": " + r.Summary}
	switch {
	case r.Fate == reconcile.RequestRunEnded:
		done = append(done, "the run has ended; the next run of "+r.Identifier+" gets the answer")
	case r.EndedAt.IsZero():
		note = "the worker has not acted on it yet"
	}
	return done, note
}

// AnswersTo assigns the answers to the questions in their order. Answers to secret questions
// are encrypted for the worker.
func AnswersTo(
	r reconcile.Request,
	texts []string,
	choices []int,
) (answer reconcile.RequestAnswer, err error) {
	questions := r.Detail.Questions
	if given := max(len(texts), len(choices)); given != len(questions) {
		asked := text.Plural(len(questions), "question")
		return answer, decideBy(r, "tell: %s asks %s, not %d", r.ID(), asked, given)
	}
	answers := map[string][]string{}
	for i, q := range questions {
		given := make([]string, 1)
		if len(choices) > 0 {
			given[0], err = optionNumber(r, q, choices[i])
		} else {
			given, err = parseAnswer(r, q, texts[i])
		}
		if err != nil {
			return answer, err
		}
		if len(given) > 0 {
			answers[q.ID] = append(answers[q.ID], given...) // two questions may share an id
		}
	}
	switch {
	case len(answers) == 0:
		return answer, emptyAnswer(r)
	case r.Detail.SealKey == nil:
		answer.Answers = answers
	default:
		answer.Sealed, err = agent.SealAnswers(r.Detail.SealKey, answers)
	}
	return answer, err
}

// CheckAnswer returns the answer that an operator typed for a question: the text, or the label
// of the option with that number.
func CheckAnswer(r reconcile.Request, q reconcile.RequestQuestion, typed string) (string, error) {
	n, notNumber := strconv.Atoi(typed)
	if notNumber == nil && len(q.Options) > 0 {
		return optionNumber(r, q, n)
	}
	_, err := parseAnswer(r, q, typed)
	return typed, err
}

// optionNumber returns the label of the nth option.
func optionNumber(r reconcile.Request, q reconcile.RequestQuestion, n int) (string, error) {
	switch {
	case len(q.Options) == 0:
		return "", decideBy(r, "tell: %s has no options to choose from", r.ID())
	case n < 1 || n > len(q.Options):
		return "", exit.Usage("tell: --choice %d is not an option of %s:%s", n, r.ID(), numbered(q))
	}
	return q.Options[n-1].Label, nil
}

// parseAnswer accepts the answers that the question allows: any text, the label of an option,
// or several labels separated by commas. An optional question may have no answer.
func parseAnswer(r reconcile.Request, q reconcile.RequestQuestion, said string) ([]string, error) {
	if q.Optional && strings.TrimSpace(said) == "" {
		return nil, nil
	}
	one, err := parseOne(r, q, said)
	if err == nil || !q.Several {
		return []string{one}, err
	}
	var all []string
	for part := range strings.SplitSeq(said, ",") {
		one, err := parseOne(r, q, part)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// parseOne accepts an answer: the label of an option in any case, or another text if the
// question allows it. A number must be written as in JSON, so not NaN or 0x1p-2.
func parseOne(r reconcile.Request, q reconcile.RequestQuestion, said string) (string, error) {
	plain := strings.TrimSpace(said)
	for _, o := range q.Options {
		if strings.EqualFold(plain, o.Label) {
			return o.Label, nil
		}
	}
	if plain == "" {
		return "", emptyAnswer(r)
	}
	if len(q.Options) > 0 && !q.Other {
		return "", exit.Usage("tell: %s accepts only its options:%s", r.ID(), numbered(q))
	}
	switch q.Type {
	case "integer":
		if _, err := strconv.ParseInt(plain, 10, 64); err != nil {
			return "", exit.Usage("tell: %q of %s needs a whole number", q.Text, r.ID())
		}
	case "number":
		_, err := strconv.ParseFloat(plain, 64)
		if err != nil || !json.Valid([]byte(plain)) {
			return "", exit.Usage("tell: %q of %s needs a number such as 0.5", q.Text, r.ID())
		}
	}
	return said, nil
}

// numbered lists the options of a question in a line.
func numbered(q reconcile.RequestQuestion) string {
	line := ""
	for i, o := range q.Options {
		line += fmt.Sprintf("  %d) %s", i+1, o.Label)
	}
	return line
}

func emptyAnswer(r reconcile.Request) error {
	return reconcile.NewError("usage", "tell: the answer is empty", "").
		WithHint("%s refuses to answer", reconcile.CommandFor("deny", r.ID()))
}

// decideBy is the error of a decision that does not fit its request. The hint says which does.
func decideBy(r reconcile.Request, format string, args ...any) error {
	return reconcile.NewError("usage", fmt.Sprintf(format, args...), view.HowToAnswer(r))
}
