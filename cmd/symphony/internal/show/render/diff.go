package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
)

// Diff prints the changes in the workspace of an issue, or between two attempts; with raw as
// git writes them.
func Diff(ctx context.Context, w *term.Env, p *wiring.Project, ref, attempts string, raw bool) error {
	lines := &diffPrinter{w: w, raw: raw}
	_, err := detail.WriteDiff(ctx, p, ref, attempts, lines)
	if len(lines.rest) > 0 {
		err = errors.Join(err, lines.line(string(lines.rest)))
	}
	return err
}

// diffPrinter colours a diff and shows its control characters as text.
type diffPrinter struct {
	w    *term.Env
	raw  bool // print git's output unchanged
	rest []byte
}

// Write implements io.Writer.
func (d *diffPrinter) Write(b []byte) (int, error) {
	if d.raw {
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

func (d *diffPrinter) line(line string) error {
	shown := strings.TrimSuffix(text.VisibleLines(line+"\n"), "\n")
	_, err := fmt.Fprintln(d.w.Stdout, d.w.PaintDiff(shown))
	return err
}
