package main

import (
	"fmt"
	"io"
	"strings"
)

// table is aligned on a terminal and tab-separated in a pipe.
type table struct {
	head []string
	rows [][]string
	// state is the column that says how a row stands. On a terminal it and the first have the row's colour.
	state   int
	colours []string // by row, "" for none
}

func (t *table) add(cells ...string) { t.addIn("", cells...) }

// addIn adds a row of a colour.
func (t *table) addIn(colour string, cells ...string) {
	for i := range cells {
		cells[i] = visible(cells[i])
	}
	t.rows, t.colours = append(t.rows, cells), append(t.colours, colour)
}

func (w *world) printTable(title string, t table) {
	if len(t.rows) == 0 {
		return
	}
	if w.width == 0 {
		for _, row := range t.rows {
			fmt.Fprintf(w.stdout, "%s\t%s\n", strings.ToLower(title), strings.Join(row, "\t"))
		}
		return
	}
	fmt.Fprintln(w.stdout, w.bold(title))
	t.print(w.stdout, w)
}

// print pads the columns and cuts each line at the terminal's edge.
func (t table) print(out io.Writer, w *world) {
	for _, line := range t.lines(w, len(t.rows)) {
		fmt.Fprintln(out, cutCells(line, w.width))
	}
}

// lines are the head and the first rows, padded.
func (t table) lines(w *world, rows int) []string {
	shown := append([][]string{t.head}, t.rows[:rows]...)
	widths := make([]int, len(t.head))
	for _, row := range shown {
		for i, cell := range row {
			widths[i] = max(widths[i], cells(cell))
		}
	}
	lines := make([]string, 0, len(shown))
	for n, row := range shown {
		last := len(row) - 1
		for last > 0 && row[last] == "" {
			last-- // no blanks at a line's end
		}
		var b strings.Builder
		for i, cell := range row[:last+1] {
			b.WriteString("  ")
			width := widths[i]
			if i == last {
				width = 0
			}
			if n > 0 && (i == 0 || i == t.state) {
				b.WriteString(w.paint(t.colours[n-1], cell))
				cell = padCells(cell, width)[len(cell):]
			} else {
				cell = padCells(cell, width)
			}
			b.WriteString(cell)
		}
		line := b.String()
		if n == 0 {
			line = w.dim(line)
		}
		lines = append(lines, line)
	}
	return lines
}
