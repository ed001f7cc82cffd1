package render

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
)

// watchStep is how often Watch reads the state.
const watchStep = time.Second

// Watch prints the result of read every second until ctx ends. A terminal is cleared before
// each print.
func Watch(ctx context.Context, w *term.Env, o OverviewOptions, read func() ([]view.Overview, error)) error {
	_, isFile := w.Stdout.(*os.File)
	screen := isFile && !w.Piped() && !w.JSON && w.Getenv("TERM") != "dumb"
	show := func() error {
		all, err := read()
		if err != nil {
			return err
		}
		if screen {
			printScreen(w, all, o)
			return nil
		}
		return Overviews(ctx, w, all, o)
	}
	for {
		err := show()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a signal ended the watch
		}
		if err != nil {
			return err
		}
		if !wiring.Sleep(ctx, watchStep) {
			return nil
		}
	}
}

// clearScreen moves the cursor to the first cell and erases everything after it.
const clearScreen = "\x1b[H\x1b[2J"

// printScreen clears the terminal and prints the lines that fit, in a single write, so that
// the screen does not flicker.
func printScreen(w *term.Env, all []view.Overview, o OverviewOptions) {
	width, height := w.Size()
	screen := *w
	screen.Width = width
	s := selected{all: all, projects: o.Projects, noMatch: o.NoMatch}
	s.confined, s.rows, s.more = o.Selection.Select(all)
	lines := newPage(&screen, s).fit(height - 1)
	for i := range lines {
		lines[i] = term.CutCells(lines[i], screen.Width)
	}
	fmt.Fprint(w.Stdout, clearScreen+strings.Join(lines, "\n")+"\n")
}
