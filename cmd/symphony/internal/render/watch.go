package render

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	xterm "golang.org/x/term"
)

// watchStep is how often ps --watch reads the state.
const watchStep = time.Second

// watch prints ps every second until ctx ends. A terminal is cleared before each print and shows as many lines as it has.
func Watch(ctx context.Context, p *project.Project, o view.ViewOptions) error {
	for {
		v, err := view.ReadViewFor(ctx, p, o)
		if err != nil {
			return err
		}
		if out, ok := p.Env.Stdout.(*os.File); ok && p.Env.Width > 0 && !p.Env.JSON && p.Env.Getenv("TERM") != "dumb" {
			printScreen(p.Env, out, v)
		} else {
			ShowView(p.Env, v)
		}
		if !project.Sleep(ctx, watchStep) {
			return nil
		}
	}
}

// printScreen clears the terminal and prints what fits, in one write so that no half of it is ever visible.
func printScreen(w *term.Env, out *os.File, v view.View) {
	var page bytes.Buffer
	screen := *w
	screen.Stdout = &page
	columns, rows, err := xterm.GetSize(int(out.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		columns, rows = w.Width, 24
	}
	screen.Width = columns
	printView(&screen, v)
	lines := strings.Split(strings.TrimSuffix(page.String(), "\n"), "\n")
	if more := len(lines) - rows + 2; len(lines) > rows-1 {
		lines = append(lines[:max(rows-2, 0)], fmt.Sprintf("… %d more lines: symphony ps shows them", more))
	}
	fmt.Fprint(out, clearScreen+strings.Join(lines, "\n")+"\n")
}

// clearScreen moves the cursor to the first cell and erases everything after it.
const clearScreen = "\x1b[H\x1b[2J"
