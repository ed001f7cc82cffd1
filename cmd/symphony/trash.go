package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

func trashCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "trash",
		Usage:       "list removed workspaces",
		UsageText:   usageText("trash", "[WORKFLOW]"),
		Description: helpText("trash", "symphony trash", "symphony restore ABC-7"),
		Flags:       workflowFlags(jsonFlags[cleanup.TrashJSON]()...),
		Action: onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
			tellElsewhere(w, p)
			rows, err := cleanup.Trash(c.Context, p)
			if err != nil {
				return err
			}
			render.Trash(w, rows)
			return nil
		}),
	}
}

// tellElsewhere names the machines that a command does not reach.
func tellElsewhere(w *term.Env, p *wiring.Project) {
	cfg, err := p.ConfigWithoutKey()
	if err != nil || len(cfg.Policy.Hosts) == 0 { // the command reports the error
		return
	}
	hosts := strings.Join(cfg.Policy.Hosts, ", ")
	fmt.Fprintln(w.Stderr, "symphony: workspaces on other machines are not looked at: "+hosts)
}

// isBackup reports whether the argument of restore is the name of an archive, or of another file that
// does not look like an issue.
func isBackup(w *term.Env, arg string) bool {
	endings := []string{".bak", ".tar", ".tar.gz", ".tgz"}
	isArchive := slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(arg, ending) })
	return isArchive || !isIssueName(arg) && isFile(w.Absolute(arg))
}

func restoreCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "restore",
		Usage:       "bring an issue's workspace back from the trash",
		UsageText:   usageText("restore", "ISSUE [WORKFLOW]"),
		Description: helpText("restore", "symphony restore ABC-7"),
		Flags:       workflowFlags(jsonFlags[cleanup.RestoreJSON]()...),
		Action: onProject(
			w,
			[]string{"ISSUE"},
			func(c *cli.Context, p *wiring.Project, args []string) error {
				if isBackup(w, args[0]) {
					return exit.Usage("restore: %q is no issue: symphony restore-state %s makes the state from a backup",
						args[0], text.ShellQuote(args[0]))
				}
				restored, err := cleanup.Restore(c.Context, p, args[0])
				if err != nil {
					return err
				}
				render.Restored(w, restored)
				return nil
			},
		),
	}
}
