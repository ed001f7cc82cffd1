package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/text"
)

// RawDiff prints the changes in the workspace of an issue, or between two attempts, as git
// writes them.
func RawDiff(ctx context.Context, w *term.Env, p *wiring.Project, ref, attempts string) error {
	_, err := detail.WriteDiff(ctx, p, ref, attempts, w.Stdout)
	return err
}

// Diff prints the changes in the workspace of an issue, or between two attempts, for a person.
func Diff(ctx context.Context, w *term.Env, p *wiring.Project, ref, attempts string) error {
	lines := &diffPrinter{w: w}
	_, err := detail.WriteDiff(ctx, p, ref, attempts, lines)
	if len(lines.rest) > 0 {
		err = errors.Join(err, lines.line(string(lines.rest)))
	}
	if err == nil && !lines.some {
		fmt.Fprintln(w.Stderr, "nothing has changed, except what git ignores, if there is anything")
	}
	return err
}

// diffPrinter colours a diff and shows its control characters as text.
type diffPrinter struct {
	w    *term.Env
	read patch.Reader
	rest []byte
	some bool // there was something to print
}

// Write implements io.Writer.
func (d *diffPrinter) Write(b []byte) (int, error) {
	d.rest = append(d.rest, b...)
	d.some = d.some || len(b) > 0
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
	_, err := fmt.Fprintln(d.w.Stdout, d.w.PaintDiff(d.read.Line(line).Kind, shown))
	return err
}

// DiffStat prints the files that have changed in the workspace of an issue, or between two
// attempts, and how many lines of each were added and removed.
func DiffStat(ctx context.Context, w *term.Env, p *wiring.Project, ref, attempts string) error {
	var stat patch.Reader
	if _, err := detail.WriteDiff(ctx, p, ref, attempts, &stat); err != nil {
		return err
	}
	t := term.Table{
		Head:     []string{"FILE", "+", "-", ""},
		Figures:  []int{1, 2},
		Optional: []int{3},
	}
	for _, f := range stat.Files {
		var notes []string
		if f.Binary {
			notes = append(notes, "binary")
		}
		if f.NotCommitted {
			notes = append(notes, "not committed")
		}
		t.Add(f.Path, strconv.Itoa(f.Added), strconv.Itoa(f.Removed), strings.Join(notes, ", "))
	}
	w.PrintTable("FILES", t)
	if !w.Piped() {
		added, removed := stat.Total()
		fmt.Fprintf(w.Stdout, "%s, %s added, %d removed\n",
			text.Plural(len(stat.Files), "file"), text.Plural(added, "line"), removed)
	}
	return nil
}
