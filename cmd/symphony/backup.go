package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/backup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/support"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

func backupCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:      "backup",
		Usage:     "write what the project needs to go on into one file",
		UsageText: usageText("backup", "FILE [WORKFLOW]"),
		Description: `FILE, which must not exist, is a tar.gz with the databases of the project and of agents without an issue, the rate limits of
the account, and with --secrets the environment files. Passes and workers continue meanwhile. It does not contain WORKFLOW.md,
workspaces with what was not pushed, logs of runs, and the threads of agents. symphony restore-state reads it.

` + exampleText("symphony backup ~/backups/web-shop-$(date +%F).tar.gz"),
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
		Usage:     "make the project's state from a backup, here or on another machine",
		UsageText: usageText("restore-state", "FILE [WORKFLOW]"),
		Description: `FILE was written by symphony backup. Only one machine at a time may work on a project: first end the schedule and the work
on the old one. The state belongs to WORKFLOW then, wherever that is. Nothing that exists is replaced. The next pass settles runs
that were active as interrupted, and continues their issues in new workspaces.

Restore only your own backups: passes trust what is in them.

` + exampleText(
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
		Name:      "support",
		Usage:     "write what explains a problem into one file, without secrets",
		UsageText: usageText("support", "[FILE]"),
		Description: `It lists what FILE, a tar.gz, will contain, and asks on a terminal before it writes it: versions, symphony doctor, symphony
ps, and the last passes; with --issue also symphony show and the events of that issue's runs. It replaces the keys that it knows, the
values of variables named like secrets, and passwords in URLs. Titles, prompts, paths and the agent's words stay: read it before
you send it to anybody.

` + exampleText("symphony support --issue ABC-7"),
		Flags: workflowFlags(&cli.StringFlag{
			Name:  "issue",
			Usage: "also what happened to `ISSUE`",
		}),
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return exit.Usage("support: unexpected argument %q", c.Args().Get(1))
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
