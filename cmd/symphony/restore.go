package main

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
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

func restoreCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name:        "restore",
		Usage:       "bring a workspace back from the trash, or list what is there",
		UsageText:   usageText("restore", "[ISSUE]"),
		Description: helpText("restore", "symphony restore ABC-7"),
		Flags: workflowFlags(jsonFlagsOf([]jsonDocument{
			{"", reflect.TypeFor[cleanup.TrashJSON]()},
			{"ISSUE", reflect.TypeFor[cleanup.RestoreJSON]()},
		})...),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
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
	restored, err := cleanup.Restore(c.Context, p, ref)
	if err != nil {
		return err
	}
	render.Restored(w, restored)
	return nil
}
