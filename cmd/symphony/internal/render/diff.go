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
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// Diff prints what has changed in the workspace of an issue.
func Diff(ctx context.Context, p *project.Project, ref string) error {
	path, identifier, err := view.WorkspacePath(ctx, p, ref)
	if err != nil {
		return err
	}
	lines := &diffPrinter{w: p.Env}
	found, err := git.Diff(ctx, path, lines)
	if len(lines.rest) > 0 {
		err = errors.Join(err, lines.line(string(lines.rest)))
	}
	if err != nil {
		return err
	}
	if !found {
		return &reconcile.Error{
			Code: "workspace_not_found", Message: "there is no git repository at " + path,
			Hint: "symphony show " + identifier + " says what is there",
		}
	}
	return nil
}

// diffPrinter colours a diff on a terminal and shows its control characters as text. A pipe gets what git wrote.
type diffPrinter struct {
	w    *term.Env
	rest []byte
}

// Write implements io.Writer.
func (d *diffPrinter) Write(b []byte) (int, error) {
	if d.w.Width == 0 {
		return d.w.Stdout.Write(b)
	}
	d.rest = append(d.rest, b...)
	for {
		line, rest, whole := bytes.Cut(d.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		if err := d.line(string(line)); err != nil {
			return 0, err
		}
		d.rest = rest
	}
}

func (d *diffPrinter) line(text string) error {
	parts := strings.Split(strings.TrimSuffix(text, "\r"), "\t") // tabs of source files stay
	for i := range parts {
		parts[i] = term.Visible(parts[i])
	}
	_, err := fmt.Fprintln(d.w.Stdout, d.w.PaintDiff(strings.Join(parts, "\t")))
	return err
}
