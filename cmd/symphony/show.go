package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
	"github.com/urfave/cli/v2"
)

func showCommand(w *term.Env) *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "everything about one issue: why it runs or does not, its runs, its workspace, what comes next",
		UsageText: usageText("show", "ISSUE [WORKFLOW]"),
		Description: "It looks and changes nothing. The tracker is asked only about an issue that is not claimed.\n\n" +
			exampleText("symphony show ABC-7", "symphony show ABC-7 --diff"),
		Flags: workflowFlags(
			&cli.BoolFlag{Name: "diff", Usage: "what the work has changed in the workspace since it left its base, as git diff shows it"},
			&cli.BoolFlag{Name: "offline", Usage: "do not ask the tracker"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "no-pager", Usage: "print a diff at once, also on a terminal"},
		),
		Action: func(c *cli.Context) error {
			w.JSON = c.Bool("json")
			args, positional, err := arguments(c, "ISSUE")
			switch {
			case err != nil:
				return err
			case c.Bool("diff") && w.JSON:
				return exit.Usage("show: --diff is no JSON: name one of them")
			case c.Bool("no-pager") && !c.Bool("diff"):
				return exit.Usage("show: --no-pager belongs to --diff: nothing else is paged")
			}
			p, err := openProject(w, c, positional)
			if err != nil {
				return err
			}
			if c.Bool("diff") {
				return w.Paged(c.Context, !c.Bool("no-pager"), func() error { return showDiff(c.Context, p, args[0]) })
			}
			return showIssue(c.Context, p, args[0], c.Bool("offline"))
		},
	}
}

func showIssue(ctx context.Context, p *project.Project, ref string, offline bool) error {
	v, err := lookAtIssue(ctx, p, ref, offline)
	if err != nil {
		return err
	}
	if p.Env.JSON {
		p.Env.PrintJSON(v)
		return nil
	}
	printIssue(p.Env, v)
	return nil
}

// showDiff prints what is changed in the issue's workspace.
func showDiff(ctx context.Context, p *project.Project, ref string) error {
	db, err := project.OpenForReading(ctx, p)
	if err != nil {
		return err
	}
	defer db.Close()
	id, identifier, ok, err := db.FindIssue(ctx, ref)
	if err != nil {
		return err
	}
	if !ok {
		return unknownIssue(ctx, db, ref, "it has no workspace")
	}
	run, _, err := db.LastRun(ctx, id)
	if err != nil {
		return err
	}
	if run.WorkspacePath == "" {
		return &reconcile.Error{Code: "workspace_not_found", Message: identifier + " has had no workspace yet", Hint: "symphony show " + identifier + " says why"}
	}
	lines := &diffPrinter{w: p.Env}
	ok, err = workspace.Diff(ctx, run.WorkspacePath, lines)
	if err := errors.Join(err, lines.end()); err != nil {
		return project.WorkspaceError(err)
	}
	if !ok {
		return &reconcile.Error{
			Code: "workspace_not_found", Message: "there is no git repository at " + run.WorkspacePath,
			Hint: "symphony show " + identifier + " says what is there",
		}
	}
	return nil
}

// unknownIssue names what was probably meant.
func unknownIssue(ctx context.Context, db *state.DB, ref, why string) error {
	names, err := db.Identifiers(ctx)
	if err != nil {
		return err
	}
	return &reconcile.Error{
		Code: "issue_not_found", Message: ref + " is not known here: " + why + nearestIssue(ref, names),
		Hint: "symphony ps --all lists what there is",
	}
}

// diffPrinter colours a diff on a terminal, where nothing of it may steer that; a pipe gets what git gives.
type diffPrinter struct {
	w    *term.Env
	rest []byte
}

func (d *diffPrinter) Write(b []byte) (int, error) {
	if d.w.Width == 0 {
		return d.w.Stdout.Write(b)
	}
	d.rest = append(d.rest, b...)
	for {
		line, rest, ok := bytes.Cut(d.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		d.rest = rest
		if err := d.line(string(line)); err != nil {
			return 0, err
		}
	}
}

func (d *diffPrinter) line(text string) error {
	// A tab is what it is in a source file.
	parts := strings.Split(strings.TrimSuffix(text, "\r"), "\t")
	for i := range parts {
		parts[i] = term.Visible(parts[i])
	}
	_, err := fmt.Fprintln(d.w.Stdout, paintDiff(d.w, strings.Join(parts, "\t")))
	return err
}

func (d *diffPrinter) end() error {
	if len(d.rest) == 0 {
		return nil
	}
	return d.line(string(d.rest))
}
