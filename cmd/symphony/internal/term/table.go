package term

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// table is aligned on a terminal and tab-separated in a pipe.
type Table struct {
	Head []string
	Rows [][]string
	// state is the column that says how a row stands. On a terminal it and the first have the row's colour.
	State   int
	Colours []string // by row, "" for none
}

func (t *Table) Add(cells ...string) { t.AddIn("", cells...) }

// addIn adds a row of a colour.
func (t *Table) AddIn(colour string, cells ...string) {
	for i := range cells {
		cells[i] = Visible(cells[i])
	}
	t.Rows, t.Colours = append(t.Rows, cells), append(t.Colours, colour)
}

func (w *Env) PrintTable(title string, t Table) {
	if len(t.Rows) == 0 {
		return
	}
	if w.Width == 0 {
		for _, row := range t.Rows {
			fmt.Fprintf(w.Stdout, "%s\t%s\n", strings.ToLower(title), strings.Join(row, "\t"))
		}
		return
	}
	fmt.Fprintln(w.Stdout, w.Bold(title))
	t.print(w.Stdout, w)
}

// print pads the columns and cuts each line at the terminal's edge.
func (t Table) print(out io.Writer, w *Env) {
	for _, line := range t.Lines(w, len(t.Rows)) {
		fmt.Fprintln(out, CutCells(line, w.Width))
	}
}

// lines are the head and the first rows, padded.
func (t Table) Lines(w *Env, rows int) []string {
	shown := append([][]string{t.Head}, t.Rows[:rows]...)
	widths := make([]int, len(t.Head))
	for _, row := range shown {
		for i, cell := range row {
			widths[i] = max(widths[i], Cells(cell))
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
			if n > 0 && (i == 0 || i == t.State) {
				b.WriteString(w.Paint(t.Colours[n-1], cell))
				cell = padCells(cell, width)[len(cell):]
			} else {
				cell = padCells(cell, width)
			}
			b.WriteString(cell)
		}
		line := b.String()
		if n == 0 {
			line = w.Dim(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// Without is the table Without a column.
func (t Table) Without(column int) Table {
	drop := func(row []string) []string {
		if column >= len(row) {
			return row
		}
		return slices.Delete(slices.Clone(row), column, column+1)
	}
	t.Head = drop(t.Head)
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = drop(row)
	}
	t.Rows = rows
	return t
}

// Cut leaves the first rows.
func (t *Table) Cut(rows int) {
	rows = min(rows, len(t.Rows))
	t.Rows, t.Colours = t.Rows[:rows], t.Colours[:rows]
}

// AlignRight puts blanks before the cells of a column, so that figures stand below each other. It reports whether any row
// has a figure there.
func (t *Table) AlignRight(column int) bool {
	width, filled := 0, false
	rows := append([][]string{t.Head}, t.Rows...)
	for n, row := range rows {
		if column < len(row) {
			width = max(width, Cells(row[column]))
			filled = filled || n > 0 && row[column] != ""
		}
	}
	for _, row := range rows {
		if column < len(row) {
			row[column] = strings.Repeat(" ", width-Cells(row[column])) + row[column]
		}
	}
	return filled
}
