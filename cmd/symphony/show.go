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
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/text"
)

func showCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show why one issue runs or does not, and what happens next; its prompt; its page",
		UsageText: usageText("show", "ISSUE [WORKFLOW]"),
		Description: helpText(
			"show",
			"symphony show ABC-7",
			"symphony show ABC-7 --attempts",
			"symphony show ABC-7 --prompt",
			"symphony show ABC-7 --web --pr",
		),
		Flags: workflowFlags(jsonFlagsOf(
			[]jsonDocument{
				{"", reflect.TypeFor[detail.Issue]()},
				{"--attempts", reflect.TypeFor[detail.AttemptList]()},
			},
			&cli.BoolFlag{Name: "attempts", Usage: "show the runs of the agent side by side, counted from 1"},
			&cli.BoolFlag{Name: "prompt", Usage: "print the prompt that its next run would get"},
			&cli.IntFlag{
				Name:        "attempt",
				Usage:       "with --prompt: as retry or continuation `N`",
				DefaultText: "as a first run",
			},
			&cli.BoolFlag{
				Name:  "raw",
				Usage: "with --prompt: print exactly what the agent gets, without escaping control characters",
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
				if err := checkShowFlags(c, w); err != nil {
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
func checkShowFlags(c *cli.Context, w *term.Env) error {
	isSet := func(name string) bool { return c.IsSet(name) }
	views := text.Filter([]string{"attempts", "prompt", "web"}, isSet)
	switch {
	case len(views) > 1:
		return exit.Usage("show: --%s and --%s cannot be combined", views[0], views[1])
	case w.JSON && (c.Bool("prompt") || c.Bool("web")):
		return exit.Usage("show: --%s and --json cannot be combined", views[0])
	case !c.Bool("prompt") && (c.IsSet("attempt") || c.Bool("raw")):
		return exit.Usage("show: --attempt and --raw work only with --prompt; --attempts shows the runs")
	case !c.Bool("web") && c.Bool("pr"):
		return exit.Usage("show: --pr works only with --web")
	case c.Int("attempt") < 0:
		return exit.Usage("show: --attempt must not be negative")
	}
	return nil
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
	prompt, err := cfg.Prompt.Render(*issue, c.Int("attempt"))
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
		UsageText: usageText("diff", "ISSUE [WORKFLOW]"),
		Description: helpText(
			"diff",
			"symphony diff ABC-7",
			"symphony diff ABC-7 --stat",
			"symphony diff ABC-7 --attempt 1..2",
			"symphony diff ABC-7 --raw > work.diff",
		),
		Flags: workflowFlags(jsonFlags[detail.Diff](
			&cli.StringFlag{
				Name:  "attempt",
				Usage: "what differs between the ends of two runs `A..B`, by their numbers in show --attempts; 0 is the beginning",
			},
			&cli.BoolFlag{Name: "stat", Usage: "print the files, and how many lines of each have changed"},
			&cli.BoolFlag{Name: "name-only", Usage: "print only the names of the files"},
			&cli.BoolFlag{
				Name:  "raw",
				Usage: "print the diff exactly as git does, without escaping control characters",
			},
			&cli.BoolFlag{Name: "no-pager", Usage: "print the diff without a pager"},
		)...),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				p, _ = agents.ProjectOf(c.Context, p, args[0])
				attempts := c.String("attempt")
				listed := c.Bool("stat") || c.Bool("name-only")
				switch {
				case c.Bool("stat") && c.Bool("name-only"), listed && c.Bool("raw"):
					return exit.Usage("diff: --stat, --name-only and --raw cannot be combined")
				case listed && w.JSON:
					return exit.Usage("diff: --stat and --name-only are for text: --json files has both")
				case w.JSON:
					return diffJSON(c.Context, w, p, args[0], attempts)
				case c.Bool("stat"):
					return render.DiffStat(c.Context, w, p, args[0], attempts)
				case listed:
					return render.DiffNames(c.Context, w, p, args[0], attempts)
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
