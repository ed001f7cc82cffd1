package main

import (
	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
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
			d := requests.Decision{How: reconcile.DecideApprove}
			if c.Bool("for-session") {
				d.How = reconcile.DecideForSession
			}
			return decide(c, w, d)
		},
	}
}

func denyCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "deny", Usage: "refuse what an agent asks for; it goes on without", UsageText: usageText("deny", "REQUEST") + decideUsage,
		Description: exampleText("symphony deny ABC-7.3 --reason 'leave the lock file alone'"),
		Flags:       decideFlags(&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the run's log"}),
		Action: func(c *cli.Context) error {
			return decide(c, w, requests.Decision{How: reconcile.DecideDeny, Reason: c.String("reason")})
		},
	}
}

func answerCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "answer", Usage: "answer what an agent asks", UsageText: usageText("answer", `REQUEST "TEXT"...`) + decideUsage + answerUsage,
		Description: exampleText("symphony answer ABC-7.4 'the second one'", "symphony answer ABC-7.4 --choice 2"),
		Flags:       decideFlags(&cli.IntSliceFlag{Name: "choice", Usage: "the `N`th option instead of a text; once for each question"}),
		Action: func(c *cli.Context) error {
			d := requests.Decision{How: reconcile.DecideAnswer, Choices: c.IntSlice("choice"), Texts: c.Args().Tail()}
			if len(d.Texts) > 0 && len(d.Choices) > 0 {
				return exit.Usage("answer: TEXT or --choice, not both; a text may be the label of an option")
			}
			return decide(c, w, d)
		},
	}
}

func decideFlags(more ...cli.Flag) []cli.Flag {
	return workflowFlags(append(more, &cli.BoolFlag{Name: "json", Usage: "print the request as JSON"})...)
}

func decide(c *cli.Context, w *term.Env, d requests.Decision) error {
	w.JSON = c.Bool("json")
	switch {
	case c.NArg() == 0:
		return exit.Usage("%s: REQUEST is missing", c.Command.Name)
	case c.NArg() > 1 && d.How != reconcile.DecideAnswer:
		return exit.Usage("%s: unexpected argument %q; a workflow is named by -w here", c.Command.Name, c.Args().Get(1))
	}
	p, err := openProject(w, c, "")
	if err != nil {
		return err
	}
	return requests.Decide(c.Context, p, c.Args().First(), d)
}
