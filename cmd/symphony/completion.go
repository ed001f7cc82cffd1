package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

// At each press of the tab key the scripts call the hidden command complete of the installed
// program. Unlike the scripts of the command line library, they do not evaluate the typed
// line.
//
//go:embed completion
var completionScripts embed.FS

func completionCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a completion script for a shell",
		UsageText:   "symphony completion bash|zsh|fish",
		Description: helpPart("completion"),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return exit.Usage("completion: give one shell: bash, zsh or fish")
			}
			script, err := completionScripts.ReadFile("completion/symphony." + c.Args().First())
			if err != nil {
				return exit.Usage(
					"completion: unknown shell %q, known are bash, zsh and fish",
					c.Args().First(),
				)
			}
			_, err = w.Stdout.Write(script)
			return err
		},
	}
}

// completeCommand prints the completions of its last argument, each on its own line, with a
// tab before the description. It prints nothing where only a file fits: then the shells
// complete files.
func completeCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:            "complete",
		Hidden:          true,
		SkipFlagParsing: true,
		Usage:           "list completions (called by the shells)",
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) < 2 || words[0] != "--" {
				return exit.Usage("complete: want -- WORD...")
			}
			return complete(c.Context, w, newApp(w), words[1:])
		},
	}
}

func complete(ctx context.Context, w *term.Env, app *cli.App, words []string) error {
	current := words[len(words)-1]
	typed := words[:len(words)-1]
	offer := func(word, about string) {
		// An identifier comes from a tracker: only a plain word may reach the shell's line.
		if strings.HasPrefix(word, current) && text.ShellQuote(word) == word {
			fmt.Fprintf(w.Stdout, "%s\t%s\n", word, text.Visible(about))
		}
	}
	at := commandAt(append([]string{"symphony"}, typed...))
	if at <= 0 {
		for _, c := range app.Commands {
			if !c.Hidden {
				offer(c.Name, c.Usage)
			}
		}
		return nil
	}
	command := app.Command(typed[at-1])
	if command == nil {
		return nil
	}
	if strings.HasPrefix(current, "-") {
		for _, f := range command.Flags {
			usage, _ := f.(cli.DocGenerationFlag)
			offer(dashed(f.Names()[0]), strings.ReplaceAll(usage.GetUsage(), "`", ""))
		}
		return nil
	}
	issues := strings.Contains(command.UsageText, "ISSUE")
	requests := strings.Contains(command.UsageText, "REQUEST")
	if !issues && !requests || len(typed) > at && takesValue(command, typed[len(typed)-1]) {
		return nil
	}
	p := namedProject(w, typed)
	if !p.HasState() {
		return nil
	}
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return err
	}
	defer db.Close()
	if requests {
		open, err := view.OpenRequests(ctx, p, db)
		for _, r := range open {
			offer(r.ID(), string(r.Kind)+": "+r.Summary)
		}
		return err
	}
	names, err := db.Views.Identifiers(ctx)
	for _, name := range names {
		offer(name, "")
	}
	return err
}

// namedProject is the project that flags among the words, or else the environment, name.
func namedProject(w *term.Env, typed []string) *wiring.Project {
	value := func(names ...string) string {
		for i, word := range typed {
			name, value, joined := strings.Cut(word, "=")
			if !joined && i+1 < len(typed) {
				value = typed[i+1]
			}
			if slices.Contains(names, name) {
				return strings.Trim(value, `"'`)
			}
		}
		return ""
	}
	env := w.Environment()
	return wiring.NewProject(
		env,
		cmp.Or(
			value("-w", "--workflow"),
			w.Getenv("SYMPHONY_WORKFLOW"),
			wiring.FindWorkflow(env),
			"WORKFLOW.md",
		),
		cmp.Or(value("--state-dir"), w.Getenv("SYMPHONY_STATE_DIR")),
	)
}
