package main

import (
	"fmt"
	"reflect"
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
		Usage:       "bring an issue's workspace back from the trash, or list what is there",
		UsageText:   usageText("restore", "[ISSUE] [WORKFLOW]"),
		Description: helpText("restore", "symphony restore", "symphony restore ABC-7"),
		Flags: workflowFlags(jsonFlagsOf([]jsonDocument{
			{"", reflect.TypeFor[cleanup.TrashJSON]()},
			{issueName, reflect.TypeFor[cleanup.RestoreJSON]()},
		})...),
		Action: func(c *cli.Context) error {
			if !namesIssue(c) {
				return onProject(w, nil, func(c *cli.Context, p *wiring.Project, _ []string) error {
					return listTrash(c, w, p)
				})(c)
			}
			return onProject(w, []string{"ISSUE"}, func(c *cli.Context, p *wiring.Project, args []string) error {
				return restore(c, w, p, args[0])
			})(c)
		},
	}
}

// listTrash prints the workspaces in the trash.
func listTrash(c *cli.Context, w *term.Env, p *wiring.Project) error {
	tellElsewhere(w, p)
	rows, err := cleanup.Trash(c.Context, p)
	if err != nil {
		return err
	}
	render.Trash(w, rows)
	return nil
}

// restore brings the workspace of an issue back.
func restore(c *cli.Context, w *term.Env, p *wiring.Project, ref string) error {
	if isBackup(w, ref) {
		return exit.Usage("restore: %q is no issue: symphony restore-state %s makes the state from a backup",
			ref, text.ShellQuote(ref))
	}
	restored, err := cleanup.Restore(c.Context, p, ref)
	if err != nil {
		return err
	}
	render.Restored(w, restored)
	return nil
}
