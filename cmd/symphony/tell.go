package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/urfave/cli/v2"
)

func tellCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "tell",
		Usage:     orderUsage("tell"),
		UsageText: usageText("tell", "ISSUE|REQUEST [TEXT...]"),
		Description: fmt.Sprintf(helpText("tell",
			"symphony tell ABC-7 'Use port 8080, not 80.'",
			`symphony tell ABC-7 "$(cat review.md)"`,
			"symphony tell ABC-7.4 --choice 2",
			"symphony tell ABC-7.5 --stdin < answer.txt",
		), reconcile.MaxMessage),
		Flags: workflowFlags(jsonFlags[operate.ToldJSON](
			projectFlag(),
			&cli.IntSliceFlag{
				Name:  "choice",
				Usage: "the `N`th option of a question instead of a text; repeat it for each question",
			},
			&cli.BoolFlag{Name: "stdin", Usage: "read the TEXT from stdin"},
		)...),
		Action: func(c *cli.Context) error { return tellAction(c, w) },
	}
}

func tellAction(c *cli.Context, w *term.Env) error {
	if c.NArg() == 0 {
		return argumentMissing(c, "ISSUE")
	}
	command, err := tellOrder(c, w)
	if err != nil {
		return err
	}
	projects, err := chosenProjects(w, c, "")
	if err != nil {
		return err
	}
	at := 0
	if namesSeveral(c) {
		at, err = projectOf(c, w, projects, c.Args().First())
		if err != nil {
			return err
		}
	}
	return tellIssue(c, w, projects[at].Project, command)
}

// tellOrder reads the command line of tell, and stdin with --stdin.
func tellOrder(c *cli.Context, w *term.Env) (operate.Tell, error) {
	command := operate.Tell{
		Issue:   c.Args().First(),
		Texts:   c.Args().Tail(),
		Choices: c.IntSlice("choice"),
	}
	if !c.Bool("stdin") {
		for _, words := range command.Texts {
			if err := refuseFile(c, w, words); err != nil {
				return command, err
			}
		}
	} else {
		input, err := io.ReadAll(w.Stdin)
		if err != nil {
			return command, exit.Usage("tell: stdin: %v", err)
		}
		texts := strings.Split(strings.TrimSuffix(string(input), "\n"), "\x00")
		command.Texts = append(command.Texts, texts...)
	}
	if len(command.Texts) > 0 && len(command.Choices) > 0 {
		return command, exit.Usage("tell: TEXT and --choice cannot be combined; a TEXT may be the label of an option")
	}
	return command, nil
}

// tellIssue tells the agent of an issue something, for which a terminal asks if it is missing.
func tellIssue(c *cli.Context, w *term.Env, p *wiring.Project, command operate.Tell) error {
	p, isAgent := agents.ProjectOf(c.Context, p, command.Issue)
	question, asked, err := operate.Question(c.Context, p, command.Issue)
	if err != nil {
		return err
	}
	if asked {
		return answer(c, w, p, question, command)
	}
	if isAgent {
		const message = "tell: %s is an agent of an MCP host, whose tool send_user_message tells it something"
		return exit.Usage(message, command.Issue)
	}
	if len(command.Texts)+len(command.Choices) == 0 {
		if !w.OnTerminal() || w.JSON {
			return argumentMissing(c, "TEXT")
		}
		command, err = askText(c.Context, w, p, command)
		if err != nil {
			return err
		}
	}
	told, err := operate.Do(c.Context, p, command)
	return render.Applied(w, told, err)
}

// askText asks for the words to the agent of an issue, and says first if they become a comment.
func askText(ctx context.Context, w *term.Env, p *wiring.Project, command operate.Tell) (operate.Tell, error) {
	row, identifier, err := operate.TellRow(ctx, p, command.Issue)
	if err != nil {
		return command, err
	}
	command.Becomes = row.Becomes()
	asked := fmt.Sprintf("Text for the agent of %s (%s): ", text.Visible(command.Issue), row.TellBecomes(identifier))
	line, err := term.AskLine(ctx, w, asked)
	line = strings.TrimSpace(line)
	if err == nil && line == "" {
		fmt.Fprintln(w.Stderr, "symphony: nothing was said")
		return command, exit.Only(exit.Failed)
	}
	command.Texts = []string{line}
	return command, err
}

// answer answers a question. A secret never stands on the command line, where other accounts and
// the history of the shell see it.
func answer(c *cli.Context, w *term.Env, p *wiring.Project, r reconcile.Request, command operate.Tell) error {
	if err := command.CheckSecret(r); err != nil {
		return err
	}
	if r.Secret() && len(command.Texts) > 0 && !c.Bool("stdin") {
		const message = "tell: the answer to %s is secret: leave out TEXT and type it at a terminal, or use --stdin"
		return exit.Usage(message, r.ID())
	}
	return decide(c, w, p, r.ID(), requests.Decision{
		How:     reconcile.DecideAnswer,
		Texts:   command.Texts,
		Choices: command.Choices,
	})
}
