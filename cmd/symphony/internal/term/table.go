package term

import (
	"fmt"
	"slices"
	"strings"
)

// Table is aligned on a terminal and tab-separated in a pipe.
type Table struct {
	Head []string
	Rows [][]string
	// State is the column with the state of a row. On a terminal it and the first have the row's colour.
	State   int
	Colours []string // by row, "" for none
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.AddIn("", cells...) }

// AddIn adds a row in a colour.
func (t *Table) AddIn(colour string, cells ...string) {
	for i := range cells {
		cells[i] = Visible(cells[i])
	}
	t.Rows, t.Colours = append(t.Rows, cells), append(t.Colours, colour)
}

// Cut leaves the first rows.
func (t *Table) Cut(rows int) {
	rows = min(rows, len(t.Rows))
	t.Rows, t.Colours = t.Rows[:rows], t.Colours[:rows]
}

// Without is the table without a column.
func (t Table) Without(column int) Table {
	drop := func(row []string) []string {
		if column >= len(row) {
			return row
		}
		return slices.Delete(slices.Clone(row), column, column+1)
	}
	rows := make([][]string, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = drop(row)
	}
	t.Head, t.Rows = drop(t.Head), rows
	return t
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

// PrintTable prints a table that has rows. A terminal gets the title above it and lines that end at its edge; in a pipe
// each line begins with the title.
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
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], Cells(cell))
		}
	}
	fmt.Fprintln(w.Stdout, CutCells(w.Dim(line(t.Head, widths, nil)), w.Width))
	for n, row := range t.Rows {
		paint := func(column int, cell string) string {
			if column == 0 || column == t.State {
				return w.Paint(t.Colours[n], cell)
			}
			return cell
		}
		fmt.Fprintln(w.Stdout, CutCells(line(row, widths, paint), w.Width))
	}
}

// line pads the cells of a row, but for the last one that is not empty.
func line(row []string, widths []int, paint func(column int, cell string) string) string {
	last := len(row) - 1
	for last > 0 && row[last] == "" {
		last--
	}
	var b strings.Builder
	for i, cell := range row[:last+1] {
		b.WriteString("  ")
		blanks := max(widths[i]-Cells(cell), 0)
		if paint != nil {
			cell = paint(i, cell)
		}
		b.WriteString(cell)
		if i < last {
			b.WriteString(strings.Repeat(" ", blanks))
		}
	}
	return b.String()
}
