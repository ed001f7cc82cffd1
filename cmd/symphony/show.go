package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/text"
)

func showCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show why one issue runs or does not, and what happens next",
		UsageText: usageText("show", "ISSUE"),
		Description: helpText(
			"show",
			"symphony show ABC-7",
			"symphony show ABC-7 --web --pr",
		),
		Flags: workflowFlags(jsonFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[detail.Issue]()},
				{"--attempts", reflect.TypeFor[detail.AttemptList]()},
			},
			&cli.BoolFlag{Name: "attempts", Usage: "show the runs of the agent side by side"},
			&cli.BoolFlag{Name: "prompt", Usage: "print the prompt that its next run would get"},
			&cli.IntFlag{
				Name:        "attempt",
				Usage:       "with --prompt: as retry or continuation `N`",
				DefaultText: "as a first run",
			},
			&cli.BoolFlag{
				Name:  "raw",
				Usage: "with --prompt: do not escape control characters",
			},
			&cli.BoolFlag{Name: "web", Usage: "open it in the web browser"},
			&cli.BoolFlag{Name: "pr", Usage: "with --web: open its pull request"},
			&cli.BoolFlag{Name: "offline", Usage: "do not ask the tracker"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print without a pager"},
		)...),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				if err := checkShowFlags(c); err != nil {
					return err
				}
				switch {
				case c.Bool("prompt"):
					return printPrompt(c, w, p, args[0])
				case c.Bool("web"):
					return openPage(c, w, p, args[0])
				case c.Bool("attempts"):
					attempts, err := detail.ReadAttempts(c.Context, p, args[0])
					if err != nil {
						return err
					}
					render.Attempts(w, attempts)
					return nil
				}
				v, err := detail.Read(c.Context, p, args[0], detail.Options{Offline: c.Bool("offline")})
				if err != nil {
					return err
				}
				return w.Paged(c.Context, !c.Bool("no-pager"), func() error {
					render.Issue(w, v)
					return nil
				})
			},
		),
	}
}

// checkShowFlags refuses flags of show that have no effect together.
func checkShowFlags(c *cli.Context) error {
	return firstError(
		onlyOne(c, "attempts", "prompt", "web"),
		onlyOne(c, "prompt", "web", "json"),
		onlyWith(c, "prompt", "attempt", "raw"),
		onlyWith(c, "web", "pr"),
	)
}

// printPrompt prints the prompt that the next run of an issue would get.
func printPrompt(c *cli.Context, w *term.Env, p *wiring.Project, ref string) error {
	cfg, err := p.Config()
	if err != nil {
		return err
	}
	issue, err := wiring.FetchIssue(c.Context, p, ref)
	if err != nil {
		return err
	}
	prompt, err := cfg.Prompt.Render(*issue, max(c.Int("attempt"), 0))
	if err != nil {
		return err
	}
	if !c.Bool("raw") {
		prompt = text.VisibleLines(prompt)
	}
	fmt.Fprintln(w.Stdout, prompt)
	return nil
}

// openPage opens an issue, or its pull request, in the web browser.
func openPage(c *cli.Context, w *term.Env, p *wiring.Project, ref string) error {
	find := operate.IssueAddress
	if c.Bool("pr") {
		find = operate.PullRequestAddress
	}
	address, err := find(c.Context, p, ref)
	if err != nil {
		return err
	}
	fmt.Fprintln(w.Stdout, text.Visible(address))
	opened, err := w.OpenPage(c.Context, address)
	if err != nil {
		return err
	}
	if !opened {
		fmt.Fprintln(w.Stderr, "symphony: "+term.NoDisplay)
	}
	return nil
}

func diffCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "show what has changed in an issue's workspace",
		UsageText: usageText("diff", "ISSUE"),
		Description: helpText(
			"diff",
			"symphony diff ABC-7 --attempt 1..2",
			"symphony diff ABC-7 --raw > work.diff",
		),
		Flags: workflowFlags(jsonFlags[detail.Diff](
			&cli.StringFlag{
				Name:  "attempt",
				Usage: "what differs between the ends of the runs `A..B`, as show --attempts counts them; 0 is the beginning",
			},
			&cli.BoolFlag{Name: "stat", Usage: "print the files, and how many of their lines have changed"},
			&cli.BoolFlag{
				Name:  "raw",
				Usage: "do not escape control characters",
			},
			&cli.BoolFlag{Name: "no-pager", Usage: "print the diff without a pager"},
		)...),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				p, _ = agents.ProjectOf(c.Context, p, args[0])
				attempts := c.String("attempt")
				err := alone(c, "stat", "raw", "json")
				switch {
				case err != nil:
					return err
				case w.JSON:
					return diffJSON(c.Context, w, p, args[0], attempts)
				case c.Bool("stat"):
					return render.DiffStat(c.Context, w, p, args[0], attempts)
				}
				diff := render.Diff
				if c.Bool("raw") {
					diff = render.RawDiff
				}
				return w.Paged(c.Context, !c.Bool("no-pager"), func() error {
					return diff(c.Context, w, p, args[0], attempts)
				})
			},
		),
	}
}

// diffJSON prints the diff of an issue, and its files, as JSON.
func diffJSON(ctx context.Context, w *term.Env, p *wiring.Project, issue, attempts string) error {
	var diff strings.Builder
	stat := patch.Reader{Files: []patch.File{}}
	run, err := detail.WriteDiff(ctx, p, issue, attempts, io.MultiWriter(&diff, &stat))
	if err != nil {
		return err
	}
	w.PrintJSON(detail.Diff{
		Identifier: run.Identifier,
		Attempts:   text.OrNull(attempts),
		Files:      stat.Files,
		Diff:       diff.String(),
	})
	return nil
}
