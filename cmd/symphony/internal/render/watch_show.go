package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

func ShowIssue(ctx context.Context, p *project.Project, ref string, offline bool) error {
	v, err := view.LookAtIssue(ctx, p, ref, offline)
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
func ShowDiff(ctx context.Context, p *project.Project, ref string) error {
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
		return view.UnknownIssue(ctx, db, ref, "it has no workspace")
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
	_, err := fmt.Fprintln(d.w.Stdout, PaintDiff(d.w, strings.Join(parts, "\t")))
	return err
}

func (d *diffPrinter) end() error {
	if len(d.rest) == 0 {
		return nil
	}
	return d.line(string(d.rest))
}

func ShowView(w *term.Env, v view.View) {
	if w.JSON {
		w.PrintJSON(v)
	} else {
		printView(w, v)
	}
}

// printView is ps for a person: first who waits for an answer, then what blocks the project, then what runs, waits and is held.
func printView(w *term.Env, v view.View) {
	printRequests(w, v)
	w.PrintLines(obstacleLines(w, v))
	for _, s := range sections(w, v) {
		w.PrintTable(s.title, s.table)
	}
	w.PrintLines(closingLines(w, v))
}

func NotKept(bytes int) string {
	return fmt.Sprintf("%d bytes more are not kept; the run's log may have them", bytes)
}
