package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/backup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/support"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

func backupCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "backup",
		Usage:       "save the records of the project in one file",
		UsageText:   usageText("backup", "FILE"),
		Description: helpText("backup", "symphony backup ~/backups/web-shop-$(date +%F).tar.gz"),
		Flags: workflowFlags(&cli.BoolFlag{
			Name:  "secrets",
			Usage: "also the environment files, which contain keys",
		}),
		Action: onProject(w, []string{"FILE"}, func(c *cli.Context, p *wiring.Project, args []string) error {
			m, err := backup.Write(c.Context, p, args[0], c.Bool("secrets"))
			if err != nil {
				return err
			}
			for _, f := range m.Files {
				fmt.Fprintf(w.Stdout, "%-28s %s\n", f.Name, text.BytesText(int64(len(f.Data))))
			}
			return nil
		}),
	}
}

func restoreStateCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "restore-state",
		Usage:     "restore the records of a project from a backup",
		UsageText: usageText("restore-state", "FILE"),
		Description: helpText(
			"restore-state",
			"symphony restore-state ~/web-shop-2026-01-31.tar.gz",
			"symphony doctor",
			"symphony tick",
		),
		Flags: workflowFlags(),
		Action: onProject(w, []string{"FILE"}, func(c *cli.Context, p *wiring.Project, args []string) error {
			out, err := backup.Restore(c.Context, p, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(
				w.Stdout,
				text.Visible(
					fmt.Sprintf("the state of %s now belongs to %s, in %s", out.From, p.Path, p.StateDir),
				),
			)
			for _, path := range out.Made {
				fmt.Fprintln(w.Stdout, text.Visible("made "+path))
			}
			for _, path := range out.Kept {
				fmt.Fprintln(w.Stdout, text.Visible("kept "+path+", which existed"))
			}
			return nil
		}),
	}
}

func supportCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "support",
		Usage:       "collect in one file what explains a problem, without keys",
		UsageText:   usageText("support", "[FILE]"),
		Description: helpText("support", "symphony support --issue ABC-7"),
		Flags: workflowFlags(&cli.StringFlag{
			Name:  "issue",
			Usage: "also collect what happened to `ISSUE`",
		}),
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return unexpected(c, c.Args().Get(1))
			}
			p, err := openProject(w, c, "")
			if err != nil {
				return err
			}
			return support.Write(c.Context, w, p, support.Options{
				File:     c.Args().First(),
				Issue:    c.String("issue"),
				StateDir: c.String("state-dir"),
			})
		},
	}
}
