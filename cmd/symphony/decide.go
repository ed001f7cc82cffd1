package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

// decideUsage says how to name a request.
const decideUsage = "\n\nREQUEST is what symphony ps shows, ABC-7.3 for instance. With ABC-7 alone the first request of that issue is\n" +
	"shown in full, and on a terminal you are asked. No pass and no lock are needed; the worker sees the decision\nwithin a second."

const answerUsage = "\n\nOne TEXT or --choice for each question. Commas stand between several options of one, an empty TEXT leaves an\n" +
	"optional question out, and a TEXT that begins with a dash comes after --. Without a TEXT you are asked on a\n" +
	"terminal, where a secret is not echoed and stays out of the shell's history."

func approveCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "approve", Usage: "let an agent do what it asks for", UsageText: usageText("approve", "REQUEST") + decideUsage,
		Description: exampleText("symphony approve ABC-7.3", "symphony approve ABC-7.3 --for-session"),
		Flags:       decideFlags(&cli.BoolFlag{Name: "for-session", Usage: "also the next ones like it, as long as this agent lives"}),
		Action: func(c *cli.Context) error {
			d := decision{how: reconcile.DecideApprove}
			if c.Bool("for-session") {
				d.how = reconcile.DecideForSession
			}
			return decideAction(c, w, d, confirmApproval)
		},
	}
}

func denyCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "deny", Usage: "refuse what an agent asks for; it goes on without", UsageText: usageText("deny", "REQUEST") + decideUsage,
		Description: exampleText("symphony deny ABC-7.3 --reason 'leave the lock file alone'"),
		Flags:       decideFlags(&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the run's log"}),
		Action: func(c *cli.Context) error {
			return decideAction(c, w, decision{how: reconcile.DecideDeny, answer: reconcile.RequestAnswer{Reason: c.String("reason")}}, confirmDenial)
		},
	}
}

func answerCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "answer", Usage: "answer what an agent asks", UsageText: usageText("answer", `REQUEST "TEXT"...`) + decideUsage + answerUsage,
		Description: exampleText("symphony answer ABC-7.4 'the second one'", "symphony answer ABC-7.4 --choice 2"),
		Flags:       decideFlags(&cli.IntSliceFlag{Name: "choice", Usage: "the `N`th option instead of a text; once for each question"}),
		Action: func(c *cli.Context) error {
			d := decision{how: reconcile.DecideAnswer, choices: c.IntSlice("choice")}
			if args := c.Args().Slice(); len(args) > 1 {
				d.texts = args[1:]
			}
			if len(d.texts) > 0 && len(d.choices) > 0 {
				return exit.Usage("answer: TEXT or --choice, not both; a text may be the label of an option")
			}
			return decideAction(c, w, d, askAnswers)
		},
	}
}

func decideFlags(more ...cli.Flag) []cli.Flag {
	return workflowFlags(append(more, &cli.BoolFlag{Name: "json", Usage: "print the request as JSON"})...)
}

// decision is the decision of the operator.
type decision struct {
	how    reconcile.RequestDecision
	answer reconcile.RequestAnswer
	// texts or choices answer the questions in their order; both are empty if the operator is to be asked.
	texts   []string
	choices []int
}

// askFunc asks for the decision on the terminal; false if there is none.
type askFunc func(ctx context.Context, w *term.Env, r reconcile.Request, d *decision) (bool, error)

func decideAction(c *cli.Context, w *term.Env, d decision, ask askFunc) error {
	w.JSON = c.Bool("json")
	args := c.Args().Slice()
	switch {
	case len(args) == 0:
		return exit.Usage("%s: REQUEST is missing", c.Command.Name)
	case len(args) > 1 && d.how != reconcile.DecideAnswer:
		return exit.Usage("%s: unexpected argument %q; a workflow is named by -w here", c.Command.Name, args[1])
	}
	p, err := openProject(w, c, "")
	if err != nil {
		return err
	}
	if err := p.Nested(); err != nil {
		return err // an agent must not answer its own requests
	}
	db, err := state.Open(c.Context, p.StateDir)
	if err != nil {
		return project.NoState(p, err)
	}
	defer db.Close()
	if _, err := project.OwnerPath(c.Context, p, db); err != nil {
		return err
	}
	return recordDecision(c.Context, p, db, args[0], d, ask)
}

func recordDecision(ctx context.Context, p *project.Project, db *state.DB, ref string, d decision, ask askFunc) error {
	r, named, err := findRequest(ctx, p, db, ref, d)
	if err != nil {
		return err
	}
	if !named || d.how == reconcile.DecideAnswer && len(d.texts)+len(d.choices) == 0 {
		if !p.Env.OnTerminal() {
			return notAskable(ctx, p, db, r, named, d)
		}
		if decided, err := ask(ctx, p.Env, r, &d); err != nil || !decided {
			return err
		}
	}
	if d.how == reconcile.DecideAnswer {
		if d.answer, err = answersTo(r, d.texts, d.choices); err != nil {
			return err
		}
	}
	r.Decision, r.Answer = d.how, d.answer
	at, err := view.Instant()
	if err != nil {
		return err
	}
	if r, err = db.Operator.DecideRequest(ctx, p.Env.Now(), at, r, !project.Alive(p.StateDir, r.RunID)); err != nil {
		return withoutRow(err)
	}
	if r.Fate == "" {
		r, err = waitForWorker(ctx, p, db, r)
	}
	if err != nil {
		return err
	}
	printDecided(p.Env, r)
	return nil
}

// findRequest finds the named request, or the first of an issue that can be decided so. named is false for the latter.
func findRequest(ctx context.Context, p *project.Project, db *state.DB, ref string, d decision) (r reconcile.Request, named bool, err error) {
	identifier, number := reconcile.RequestRef(ref)
	if number > 0 {
		r, err = db.Views.FindRequest(ctx, identifier, number)
		if errors.Is(err, state.ErrNotFound) {
			return r, true, noRequest(identifier + "." + fmt.Sprint(number))
		}
		if err == nil && !decidable(r, d) {
			err = wrongVerb(r, d)
		}
		return r, true, err
	}
	open, err := view.OpenRequests(ctx, p, db)
	if err != nil {
		return r, false, err
	}
	var other *reconcile.Request
	for _, r := range open {
		switch {
		case !strings.EqualFold(r.Identifier, identifier):
		case decidable(r, d):
			return r, false, nil
		default:
			other = &r
		}
	}
	if other != nil {
		return r, false, wrongVerb(*other, d)
	}
	return r, false, noRequest(identifier)
}

// decidable reports whether a request takes this decision: a question wants an answer, others do not. All can be denied.
func decidable(r reconcile.Request, d decision) bool {
	return d.how == reconcile.DecideDeny || (d.how == reconcile.DecideAnswer) == (r.Kind == reconcile.QuestionRequest)
}

// wrongVerb is the error of a command that does not go with the request.
func wrongVerb(r reconcile.Request, d decision) error {
	verb := "approve"
	if d.how == reconcile.DecideAnswer {
		verb = "answer"
	}
	if r.Kind == reconcile.QuestionRequest {
		return exit.Usage("%s: %s is a question: %s", verb, r.ID(), view.HowToAnswer(r))
	}
	return exit.Usage("%s: %s asks for consent: %s", verb, r.ID(), view.HowToAnswer(r))
}

func noRequest(ref string) error {
	return &reconcile.Error{Code: "request_not_found", Message: "there is no request " + ref, Hint: "symphony ps shows what is asked"}
}

// withoutRow replaces the error of a request that was deleted meanwhile.
func withoutRow(err error) error {
	if errors.Is(err, state.ErrNotFound) {
		return &reconcile.Error{Code: "request_not_found", Message: "the request is no longer there", Hint: "symphony ps shows what is asked", Err: err}
	}
	return err
}

// notAskable shows the request, and says what to type where the operator can't be asked.
func notAskable(ctx context.Context, p *project.Project, db *state.DB, r reconcile.Request, named bool, d decision) error {
	if !p.Env.JSON {
		showRequest(p.Env, r)
	}
	if named {
		return exit.Usage("answer: %s asks %s, and no answer is given: %s", r.ID(), text.Plural(len(r.Detail.Questions), "question"), view.HowToAnswer(r))
	}
	open, err := view.OpenRequests(ctx, p, db)
	if err != nil {
		return err
	}
	var commands []string
	for _, other := range open {
		if other.IssueID == r.IssueID && decidable(other, d) {
			commands = append(commands, other.ID()+" ("+other.Summary+")")
		}
	}
	return &reconcile.Error{
		Code: "not_a_terminal", Message: r.Identifier + " names an issue, and without a terminal you can't be asked which of its requests you mean",
		Hint: "name the request: " + strings.Join(commands, ", "),
	}
}

const (
	// workerBound is how long the command waits until the worker acts on a decision.
	workerBound = 5 * time.Second
	workerStep  = 50 * time.Millisecond
)

// waitForWorker waits until the worker has acted on the decision. A run that ends at this moment may end without it.
func waitForWorker(ctx context.Context, p *project.Project, db *state.DB, r reconcile.Request) (reconcile.Request, error) {
	for end := p.Env.Now().Add(workerBound); ; {
		dead := !project.Alive(p.StateDir, r.RunID) // checked first: it may act and end before the next line
		is, err := db.RequestByID(ctx, r.IssueID, r.Number)
		if err == nil && dead && is.EndedAt.IsZero() {
			is.Fate = reconcile.RequestRunEnded
		}
		switch {
		case err != nil:
			return r, withoutRow(err)
		case is.Fate == reconcile.RequestAnswered && !is.EndedAt.IsZero():
			return is, nil
		case is.Fate == reconcile.RequestRunEnded && is.Decision == reconcile.DecideAnswer && !is.Secret():
			return is, nil // the next run gets it
		case is.Fate == reconcile.RequestRunEnded, is.Fate == reconcile.RequestWithdrawn:
			return r, &reconcile.Error{
				Code: "request_ended", Message: r.ID() + " has just ended, " + string(is.Fate), Hint: "symphony ps shows what is open",
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
		w.PrintJSON(map[string]any{"request": decidedRow{r.ID(), r.Identifier, r.RunID, string(r.Kind), r.Summary, string(r.Decision), term.OrNull(string(r.Fate)), taken}})
		return
	}
	what := map[reconcile.RequestDecision]string{
		reconcile.DecideApprove: "approved", reconcile.DecideForSession: "approved for the session",
		reconcile.DecideDeny: "denied", reconcile.DecideAnswer: "answered",
	}[r.Decision]
	fmt.Fprintln(w.Stdout, term.Visible(what+" "+r.ID()+": "+r.Summary))
	switch {
	case r.Fate == reconcile.RequestRunEnded:
		fmt.Fprintln(w.Stdout, term.Visible("its run has ended: the next run of "+r.Identifier+" is told"))
	case !taken:
		fmt.Fprintln(w.Stderr, "symphony: its worker has not taken it up yet")
	}
}

type decidedRow struct {
	ID         string  `json:"id"`
	Identifier string  `json:"issue_identifier"`
	RunID      string  `json:"run_id"`
	Kind       string  `json:"kind"`
	Summary    string  `json:"summary"`
	Decision   string  `json:"decision"`
	Fate       *string `json:"fate"`
	// Taken reports whether the worker has acted on it.
	Taken bool `json:"taken"`
}
