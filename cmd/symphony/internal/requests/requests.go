// Package requests records an operator's decisions on the requests of agents: approvals, denials and answers.
package requests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
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
	// Texts or Choices answer the questions in their order. If both are empty, the operator is asked.
	Texts   []string
	Choices []int
}

// decided is the JSON of a decided request.
type decided struct {
	ID         string                    `json:"id"`
	Identifier string                    `json:"issue_identifier"`
	RunID      string                    `json:"run_id"`
	Kind       reconcile.RequestKind     `json:"kind"`
	Summary    string                    `json:"summary"`
	Decision   reconcile.RequestDecision `json:"decision"`
	Fate       *reconcile.RequestFate    `json:"fate"`
	Taken      bool                      `json:"taken"` // the worker has acted on it
}

// JSON is what approve, deny and answer print with --json.
type JSON struct {
	Request decided `json:"request"`
}

// Decide records the decision about the request that ref names. If ref names an issue or no answer is given, it asks on the
// terminal.
func Decide(ctx context.Context, p *project.Project, ref string, d Decision) error {
	if err := p.Nested(); err != nil {
		return err // an agent must not answer its own requests
	}
	db, err := state.Open(ctx, p.StateDir)
	if err != nil {
		return project.NoState(p, err)
	}
	defer db.Close()
	if _, err := project.OwnerPath(ctx, p, db); err != nil {
		return err
	}
	r, named, err := d.find(ctx, p, db, ref)
	if err != nil {
		return err
	}
	if !named || d.How == reconcile.DecideAnswer && len(d.Texts)+len(d.Choices) == 0 {
		if w := p.Env; w.OnTerminal() || !w.JSON {
			fmt.Fprintln(w.Stdout, w.Bold(text.Visible(r.ID()+"  "+strings.ReplaceAll(string(r.Kind), "_", " "))))
			if r.Outside {
				fmt.Fprintln(w.Stdout, "  "+w.Red("runs outside the sandbox"))
			}
			render.Request(w, r)
		}
		switch {
		case p.Env.OnTerminal():
		case named:
			return exit.Usage("answer: %s asks %s, and the answer is missing: %s", r.ID(), text.Plural(len(r.Detail.Questions), "question"), view.HowToAnswer(r))
		default:
			return &reconcile.Error{
				Code: "not_a_terminal", Message: r.Identifier + " is an issue, and without a terminal the command can't ask which request you mean",
				Hint: "name the request, such as " + r.ID() + "; symphony ps shows them all",
			}
		}
		if asked, err := d.ask(ctx, p.Env, r); err != nil || !asked {
			if err == nil {
				fmt.Fprintln(p.Env.Stderr, "symphony: nothing was decided; "+text.Visible(r.ID())+" is still open")
			}
			return err
		}
	}
	if r, err = Record(ctx, p, db, r, d); err == nil {
		printDecided(p.Env, r)
	}
	return err
}

// Record stores a decision about a request, and waits a little until the worker has acted on it. The first decision counts: the error of
// a later one has the code request_ended.
func Record(ctx context.Context, p *project.Project, db *state.DB, r reconcile.Request, d Decision) (reconcile.Request, error) {
	var err error
	r.Decision, r.Answer = d.How, reconcile.RequestAnswer{Reason: d.Reason}
	if d.How == reconcile.DecideAnswer {
		if r.Answer, err = AnswersTo(r, d.Texts, d.Choices); err != nil {
			return r, err
		}
	}
	at, err := view.Instant()
	if err != nil {
		return r, err
	}
	if r, err = db.Operator.DecideRequest(ctx, p.Env.Now(), at, r, !project.Alive(p.StateDir, r.RunID)); err == nil && r.Fate == "" {
		r, err = waitForWorker(ctx, p, db, r)
	}
	if errors.Is(err, state.ErrNotFound) {
		err = &reconcile.Error{Code: "request_not_found", Message: "the request no longer exists", Hint: "symphony ps shows the open requests", Err: err}
	}
	return r, err
}

// Find finds the request that ref names if it takes such a decision.
func Find(ctx context.Context, p *project.Project, db *state.DB, ref string, how reconcile.RequestDecision) (reconcile.Request, error) {
	r, named, err := Decision{How: how}.find(ctx, p, db, ref)
	if err == nil && !named {
		err = exit.Fault("request_not_found", "there is no request "+ref, "name a request, such as "+r.ID())
	}
	return r, err
}

// find finds the request that ref names, or the first one of the issue that ref names that takes this decision. named is false in
// the second case. A subtask can have the name of a request: then neither is taken.
func (d Decision) find(ctx context.Context, p *project.Project, db *state.DB, ref string) (r reconcile.Request, named bool, err error) {
	ref = project.IssueName(ctx, p, db, ref)
	candidates, err := view.OpenRequests(ctx, p, db)
	if err != nil {
		return r, false, err
	}
	candidates = slices.DeleteFunc(candidates, func(r reconcile.Request) bool { return !strings.EqualFold(r.Identifier, ref) })
	if identifier, number := reconcile.RequestRef(ref); number > 0 {
		r, err = db.Views.FindRequest(ctx, identifier, number)
		switch {
		case err == nil && len(candidates) > 0:
			return r, true, exit.Usage("%s is a request of %s, and an issue that asks %s: name that request, or, at a terminal, the issue %s",
				r.ID(), r.Identifier, candidates[0].ID(), r.Identifier)
		case err == nil:
			named, candidates = true, []reconcile.Request{r}
		case !errors.Is(err, state.ErrNotFound):
			return r, false, err
		}
	}
	if len(candidates) == 0 {
		return r, named, exit.Fault("request_not_found", "there is no request "+ref, "symphony ps shows the open requests")
	}
	for _, c := range candidates {
		// Only questions can be answered, and only the others approved. All can be denied.
		if d.How == reconcile.DecideDeny || (d.How == reconcile.DecideAnswer) == (c.Kind == reconcile.QuestionRequest) {
			return c, named, nil
		}
	}
	other := candidates[len(candidates)-1]
	if d.How == reconcile.DecideAnswer {
		return r, named, exit.Usage("answer: %s asks for approval, not for an answer: %s", other.ID(), view.HowToAnswer(other))
	}
	return r, named, exit.Usage("approve: %s is a question and needs an answer: %s", other.ID(), view.HowToAnswer(other))
}

// waitForWorker waits until the worker has acted on the decision. A run that is ending may end before it does.
func waitForWorker(ctx context.Context, p *project.Project, db *state.DB, r reconcile.Request) (reconcile.Request, error) {
	for end := p.Env.Now().Add(workerBound); ; {
		dead := !project.Alive(p.StateDir, r.RunID) // checked first: it may act and end before the next line
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
			return r, &reconcile.Error{
				Code: "request_ended", Message: r.ID() + " has just ended: " + string(is.Fate), Hint: "symphony ps shows the open requests",
			}
		case p.Env.Now().After(end) || !project.Sleep(ctx, workerStep):
			return r, nil
		}
	}
}

// printDecided prints the decision, but never the answer to a secret question.
func printDecided(w *term.Env, r reconcile.Request) {
	taken := !r.EndedAt.IsZero()
	if w.JSON {
		row := decided{r.ID(), r.Identifier, r.RunID, r.Kind, r.Summary, r.Decision, text.OrNull(r.Fate), taken}
		w.PrintJSON(JSON{row})
		return
	}
	what := map[reconcile.RequestDecision]string{
		reconcile.DecideApprove: "approved", reconcile.DecideForSession: "approved for the session",
		reconcile.DecideDeny: "denied", reconcile.DecideAnswer: "answered",
	}[r.Decision]
	fmt.Fprintln(w.Stdout, text.Visible(what+" "+r.ID()+": "+r.Summary))
	switch {
	case r.Fate == reconcile.RequestRunEnded:
		fmt.Fprintln(w.Stdout, text.Visible("the run has ended; the next run of "+r.Identifier+" gets the answer"))
	case !taken:
		fmt.Fprintln(w.Stderr, "symphony: the worker has not acted on it yet")
	}
}

// ask asks the operator for the decision, or for the answers that are missing. It returns false if nothing was decided.
func (d *Decision) ask(ctx context.Context, w *term.Env, r reconcile.Request) (bool, error) {
	approving, prompt := false, "Send your answer? [y]es, [N]o: "
	switch {
	case d.How == reconcile.DecideAnswer && len(d.Texts)+len(d.Choices) == 0:
		return d.askAnswers(ctx, w, r)
	case d.How == reconcile.DecideDeny:
		prompt = "Deny? [y]es, [N]o: "
	case d.How != reconcile.DecideAnswer:
		approving, prompt = true, "Approve? [y]es, for the [s]ession, [d]eny, [N]ot now: "
	}
	line, err := term.AskLine(ctx, w, prompt, false)
	line = strings.ToLower(strings.TrimSpace(line))
	switch {
	case approving && (line == "s" || line == "session"):
		d.How = reconcile.DecideForSession
		return true, err
	case approving && (line == "d" || line == "deny"):
		d.How = reconcile.DecideDeny
		return true, err
	}
	return line == "y" || line == "yes", err
}

func (d *Decision) askAnswers(ctx context.Context, w *term.Env, r reconcile.Request) (bool, error) {
	for i, q := range r.Detail.Questions {
		prompt := "Answer"
		if len(r.Detail.Questions) > 1 {
			prompt += fmt.Sprintf(" %d", i+1)
		}
		switch {
		case len(q.Options) > 0 && q.Other:
			prompt += fmt.Sprintf(" (1-%d, or a text)", len(q.Options))
		case len(q.Options) > 0:
			prompt += fmt.Sprintf(" (1-%d)", len(q.Options))
		}
		answer, err := askQuestion(ctx, w, r, q, prompt+": ")
		if err != nil || answer == "" && !q.Optional {
			return false, err
		}
		d.Texts = append(d.Texts, answer)
	}
	return true, nil
}

// askQuestion asks until the answer is valid. An empty line gives up, or skips an optional question.
func askQuestion(ctx context.Context, w *term.Env, r reconcile.Request, q reconcile.RequestQuestion, prompt string) (string, error) {
	for {
		line, err := term.AskLine(ctx, w, prompt, q.Secret)
		line = strings.TrimSpace(line)
		if err != nil || line == "" {
			return "", err
		}
		if n, notNumber := strconv.Atoi(line); notNumber == nil && len(q.Options) > 0 {
			line, err = optionNumber(r, q, n)
		} else {
			_, err = parseAnswer(r, q, line)
		}
		if err == nil {
			return line, nil
		}
		fmt.Fprintln(w.Stderr, text.Visible(exit.From(err).Message))
	}
}

// AnswersTo assigns the answers to the questions in their order. Answers to secret questions are encrypted for the worker.
func AnswersTo(r reconcile.Request, texts []string, choices []int) (answer reconcile.RequestAnswer, err error) {
	questions := r.Detail.Questions
	if given := max(len(texts), len(choices)); given != len(questions) {
		return answer, exit.Usage("answer: %s asks %s, not %d: %s", r.ID(), text.Plural(len(questions), "question"), given, view.HowToAnswer(r))
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
			answers[q.ID] = append(answers[q.ID], given...) // two questions may have one id
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

// optionNumber returns the label of the nth option.
func optionNumber(r reconcile.Request, q reconcile.RequestQuestion, n int) (string, error) {
	switch {
	case len(q.Options) == 0:
		return "", exit.Usage("answer: %s has no options to choose from: %s", r.ID(), view.HowToAnswer(r))
	case n < 1 || n > len(q.Options):
		return "", exit.Usage("answer: --choice %d is not an option of %s:%s", n, r.ID(), numbered(q))
	}
	return q.Options[n-1].Label, nil
}

// parseAnswer accepts what the question allows: any text, the label of an option, or several labels separated by commas.
// An optional question may have no answer.
func parseAnswer(r reconcile.Request, q reconcile.RequestQuestion, text string) ([]string, error) {
	if q.Optional && strings.TrimSpace(text) == "" {
		return nil, nil
	}
	one, err := parseOne(r, q, text)
	if err == nil || !q.Several {
		return []string{one}, err
	}
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		if one, err = parseOne(r, q, part); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func parseOne(r reconcile.Request, q reconcile.RequestQuestion, text string) (string, error) {
	plain := strings.TrimSpace(text)
	for _, o := range q.Options {
		if strings.EqualFold(plain, o.Label) {
			return o.Label, nil
		}
	}
	switch {
	case plain == "":
		return "", emptyAnswer(r)
	case len(q.Options) > 0 && !q.Other:
		return "", exit.Usage("answer: %s accepts only its options:%s", r.ID(), numbered(q))
	}
	if q.Type == "integer" {
		if _, err := strconv.ParseInt(plain, 10, 64); err != nil {
			return "", exit.Usage("answer: %q of %s needs a whole number", q.Text, r.ID())
		}
	}
	if q.Type == "number" {
		if _, err := strconv.ParseFloat(plain, 64); err != nil || !json.Valid([]byte(plain)) { // not NaN
			return "", exit.Usage("answer: %q of %s needs a number such as 0.5", q.Text, r.ID())
		}
	}
	return text, nil
}

// numbered lists the options of a question in one line.
func numbered(q reconcile.RequestQuestion) string {
	line := ""
	for i, o := range q.Options {
		line += fmt.Sprintf("  %d) %s", i+1, o.Label)
	}
	return line
}

func emptyAnswer(r reconcile.Request) error {
	return exit.Usage("answer: the answer is empty; to refuse an answer, use symphony deny %s", r.ID())
}
