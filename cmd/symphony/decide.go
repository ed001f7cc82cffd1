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

// decideUsage tells how to name a request.
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
			return decide(c, w, d, approveByHand)
		},
	}
}

func denyCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "deny", Usage: "refuse what an agent asks for; it goes on without", UsageText: usageText("deny", "REQUEST") + decideUsage,
		Description: exampleText("symphony deny ABC-7.3 --reason 'leave the lock file alone'"),
		Flags:       decideFlags(&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the run's log"}),
		Action: func(c *cli.Context) error {
			return decide(c, w, decision{how: reconcile.DecideDeny, answer: reconcile.RequestAnswer{Reason: c.String("reason")}}, denyByHand)
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
			return decide(c, w, d, answerByHand)
		},
	}
}

func decideFlags(more ...cli.Flag) []cli.Flag {
	return workflowFlags(append(more, &cli.BoolFlag{Name: "json", Usage: "print the request as JSON"})...)
}

// decision is what a person wants.
type decision struct {
	how    reconcile.RequestDecision
	answer reconcile.RequestAnswer
	// texts or choices answer the questions in their order; neither where somebody is to be asked.
	texts   []string
	choices []int
}

// byHand asks on the terminal what is to be decided; false where nothing is.
type byHand func(ctx context.Context, w *term.Env, r reconcile.Request, d *decision) (bool, error)

func decide(c *cli.Context, w *term.Env, d decision, ask byHand) error {
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
		return err // an agent must not answer itself
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

func recordDecision(ctx context.Context, p *project.Project, db *state.DB, ref string, d decision, ask byHand) error {
	r, named, err := findRequest(ctx, p, db, ref, d)
	if err != nil {
		return err
	}
	if !named || d.how == reconcile.DecideAnswer && len(d.texts)+len(d.choices) == 0 {
		if !p.Env.OnTerminal() {
			return notPending(ctx, p, db, r, named, d)
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
	if r, err = db.DecideRequest(ctx, p.Env.Now(), at, r, !project.Alive(p.StateDir, r.RunID)); err != nil {
		return notOpen(err)
	}
	if r.Fate == "" {
		r, err = takenUp(ctx, p, db, r)
	}
	if err != nil {
		return err
	}
	printDecided(p.Env, r)
	return nil
}

// findRequest finds the request that is named, or the first of an issue that this decision fits.
func findRequest(ctx context.Context, p *project.Project, db *state.DB, ref string, d decision) (r reconcile.Request, named bool, err error) {
	identifier, number := reconcile.RequestRef(ref)
	if number > 0 {
		r, err = db.FindRequest(ctx, identifier, number)
		if errors.Is(err, state.ErrNotFound) {
			return r, true, noRequest(identifier + "." + fmt.Sprint(number))
		}
		if err == nil && !fits(r, d) {
			err = unfit(r, d)
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
		case fits(r, d):
			return r, false, nil
		default:
			other = &r
		}
	}
	if other != nil {
		return r, false, unfit(*other, d)
	}
	return r, false, noRequest(identifier)
}

// fits reports whether a request can be decided so: a question wants an answer, the others do not. All can be denied.
func fits(r reconcile.Request, d decision) bool {
	return d.how == reconcile.DecideDeny || (d.how == reconcile.DecideAnswer) == (r.Kind == reconcile.QuestionRequest)
}

func unfit(r reconcile.Request, d decision) error {
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
	return &reconcile.Error{Code: "request_not_found", Message: "nobody asks anything by the name " + ref, Hint: "symphony ps shows what is asked"}
}

// notOpen gives the hint that is right for a request which was deleted meanwhile.
func notOpen(err error) error {
	if errors.Is(err, state.ErrNotFound) {
		return &reconcile.Error{Code: "request_not_found", Message: "the request is no longer there", Hint: "symphony ps shows what is asked", Err: err}
	}
	return err
}

// notAsked refuses where there is nobody to ask, and says what to type instead; what is asked it shows.
func notPending(ctx context.Context, p *project.Project, db *state.DB, r reconcile.Request, named bool, d decision) error {
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
		if other.IssueID == r.IssueID && fits(other, d) {
			commands = append(commands, other.ID()+" ("+other.Summary+")")
		}
	}
	return &reconcile.Error{
		Code: "not_a_terminal", Message: r.Identifier + " names an issue, and here nobody can be asked which of its requests is meant",
		Hint: "name the request: " + strings.Join(commands, ", "),
	}
}

const (
	// pickUp is how long the command waits for the worker to act upon a decision.
	pickUp     = 5 * time.Second
	pickUpLook = 50 * time.Millisecond
)

// takenUp waits until the worker has taken the decision up. What is too late for a run that ends at this very moment
// has ended with it.
func takenUp(ctx context.Context, p *project.Project, db *state.DB, r reconcile.Request) (reconcile.Request, error) {
	for end := p.Env.Now().Add(pickUp); ; {
		dead := !project.Alive(p.StateDir, r.RunID) // before the look: what it took up at last counts
		is, err := db.RequestByID(ctx, r.IssueID, r.Number)
		if err == nil && dead && is.EndedAt.IsZero() {
			is.Fate = reconcile.RequestRunEnded
		}
		switch {
		case err != nil:
			return r, notOpen(err)
		case is.Fate == reconcile.RequestAnswered && !is.EndedAt.IsZero():
			return is, nil
		case is.Fate == reconcile.RequestRunEnded && is.Decision == reconcile.DecideAnswer && !is.Secret():
			return is, nil // the next run is told
		case is.Fate == reconcile.RequestRunEnded, is.Fate == reconcile.RequestWithdrawn:
			return r, &reconcile.Error{
				Code: "request_ended", Message: r.ID() + " ended in this moment, " + string(is.Fate), Hint: "symphony ps shows what is open",
			}
		case p.Env.Now().After(end) || !project.Sleep(ctx, pickUpLook):
			return r, nil
		}
	}
}

// printDecided says what was decided, and never what was answered to a secret question.
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
	// Taken: the worker has acted upon it.
	Taken bool `json:"taken"`
}
