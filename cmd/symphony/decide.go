package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/urfave/cli/v2"
)

func approveCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     orderUsage("approve"),
		UsageText: usageText("approve", "REQUEST..."),
		Description: requestHelpText(
			"requests",
			"symphony approve ABC-7.3",
			"symphony approve ABC-7.3 --for-session",
			"symphony approve --filter label=docs",
		),
		Flags: severalFlags[requests.JSON](&cli.BoolFlag{
			Name:  "for-session",
			Usage: "also allow similar requests until this agent ends",
		}),
		Action: decideEach(w, func(c *cli.Context) requests.Decision {
			return requests.Approval(c.Bool("for-session"))
		}),
	}
}

func denyCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "deny",
		Usage:     orderUsage("deny"),
		UsageText: usageText("deny", "REQUEST..."),
		Description: requestHelpText(
			"requests",
			"symphony deny ABC-7.3 --reason 'leave the lock file alone'",
			"symphony deny ABC-7.3 ABC-9.1",
		),
		Flags: severalFlags[requests.JSON](&cli.StringFlag{
			Name:  "reason",
			Usage: "`TEXT` for the run's log; the agent does not see it",
		}),
		Action: decideEach(w, func(c *cli.Context) requests.Decision {
			return requests.Decision{How: reconcile.DecideDeny, Reason: c.String("reason")}
		}),
	}
}

// requestMissing is the error of a command without a REQUEST. It names the open requests, if
// the project can be read.
func requestMissing(w *term.Env, c *cli.Context) error {
	missing := argumentMissing(c, "REQUEST")
	if namesSeveral(c) {
		return missing
	}
	p, err := openProject(w, c, "")
	if err != nil {
		return missing
	}
	db, err := wiring.OpenForReading(c.Context, p)
	if err != nil {
		return missing
	}
	defer db.Close()
	open, err := view.OpenRequests(c.Context, p, db)
	if err != nil {
		return missing
	}
	if len(open) == 0 {
		return exit.Usage("%s: REQUEST is missing, and no request is open", c.Command.Name)
	}
	names := text.Map(open, func(r reconcile.Request) string { return r.ID() })
	return exit.Usage("%s: REQUEST is missing; open: %s", c.Command.Name, strings.Join(names, ", "))
}

// requestHelpText is the description of a command about requests, with its examples.
func requestHelpText(part string, examples ...string) string {
	return helpPart("request") + "\n\n" + helpText(part, examples...)
}

// decideEach is the action of a command that decides a request, or several alike.
func decideEach(
	w *term.Env,
	decision func(*cli.Context) requests.Decision,
) cli.ActionFunc {
	order := func(c *cli.Context) (operate.Decision, error) {
		return operate.Decision{Decision: decision(c)}, nil
	}
	one := func(c *cli.Context, p *wiring.Project, request string, command operate.Decision) error {
		return decide(c, w, p, request, command.Decision)
	}
	return onIssues(w, order, one)
}

func decide(c *cli.Context, w *term.Env, p *wiring.Project, ref string, d requests.Decision) error {
	p, _ = agents.ProjectOf(c.Context, p, ref)
	db, err := requests.Open(c.Context, p)
	if err != nil {
		return err
	}
	defer db.Close()
	r, named, err := requests.Find(c.Context, p, db, ref, d.How)
	if err != nil {
		return err
	}
	if missing := d.Incomplete(r, named || c.Bool("yes")); missing != nil {
		if w.OnTerminal() || !w.JSON {
			render.RequestHead(w, r)
			render.Request(w, r)
		}
		if !w.OnTerminal() {
			return missing
		}
		asked, err := askDecision(c.Context, w, r, &d)
		if err != nil {
			return err
		}
		if !asked {
			fmt.Fprintln(w.Stderr, "symphony: nothing was decided; "+text.Visible(r.ID())+" is still open")
			return exit.Only(exit.Failed)
		}
	}
	r, err = requests.Record(c.Context, p, db, r, d)
	if err != nil {
		return err
	}
	printDecided(w, r)
	return nil
}

// printDecided prints the decision, but never the answer to a secret question.
func printDecided(w *term.Env, r reconcile.Request) {
	decided := requests.NewJSON(r)
	switch {
	case w.JSON && r.Decision == reconcile.DecideAnswer:
		w.PrintJSON(operate.ToldJSON{Answered: &decided.Request})
		return
	case w.JSON:
		w.PrintJSON(decided)
		return
	}
	done, note := requests.Describe(r)
	for _, line := range done {
		fmt.Fprintln(w.Stdout, text.Visible(line))
	}
	if note != "" {
		fmt.Fprintln(w.Stderr, "symphony: "+note)
	}
}

// askDecision asks the operator for the decision, or for the answers that are missing. It
// returns false if nothing was decided.
func askDecision(ctx context.Context, w *term.Env, r reconcile.Request, d *requests.Decision) (bool, error) {
	approving := false
	prompt := "Send your answer? [y]es, [N]o: "
	switch {
	case d.How == reconcile.DecideAnswer && len(d.Texts)+len(d.Choices) == 0:
		return askAnswers(ctx, w, r, d)
	case d.How == reconcile.DecideDeny:
		prompt = "Deny? [y]es, [N]o: "
	case d.How != reconcile.DecideAnswer:
		approving = true
		prompt = "Approve? [y]es, for the [s]ession, [d]eny, [N]ot now: "
		if r.Kind == reconcile.DirectoryRequest {
			prompt = "Approve? [y]es, [d]eny, [N]ot now: "
		}
	}
	line, err := term.AskLine(ctx, w, prompt)
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

func askAnswers(ctx context.Context, w *term.Env, r reconcile.Request, d *requests.Decision) (bool, error) {
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

// askQuestion asks until the answer is valid. An empty line gives up, or skips an optional
// question.
func askQuestion(
	ctx context.Context,
	w *term.Env,
	r reconcile.Request,
	q reconcile.RequestQuestion,
	prompt string,
) (string, error) {
	ask := term.AskLine
	if q.Secret {
		ask = term.AskSecret
	}
	for {
		line, err := ask(ctx, w, prompt)
		line = strings.TrimSpace(line)
		if err != nil || line == "" {
			return "", err
		}
		answer, err := requests.CheckAnswer(r, q, line)
		if err == nil {
			return answer, nil
		}
		fmt.Fprintln(w.Stderr, text.Visible(exit.From(err).Message))
	}
}
