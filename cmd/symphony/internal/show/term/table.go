package term

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// Table is a table that is aligned on a terminal and tab-separated in a pipe.
type Table struct {
	Head []string
	Rows [][]string
	// State is the column with the state of a row. On a terminal this column and the first
	// column are painted in the row's colour.
	State   int
	Colours []string // by row, "" for none
	// Figures are the columns with numbers. On a terminal they are aligned to the right, and
	// left out if they are empty.
	Figures []int
	// Optional are other columns that are left out on a terminal if they are empty.
	Optional []int
	// Links are the addresses of cells, by row and column. Rows and cells without a link may
	// be missing.
	Links [][]string
	// Shrink is how columns give way, step by step, until a row fits. Without it, rows are cut
	// at the edge.
	Shrink []Shrink
	// Wrap continues the last column on further lines, instead of cutting it.
	Wrap bool
}

// Shrink is a step towards a narrower table: the column becomes as narrow as needed, but not
// narrower than Cells; it is left out if Cells is 0.
type Shrink struct{ Column, Cells int }

// Add adds a row.
func (t *Table) Add(cells ...string) { t.AddIn("", cells...) }

// AddIn adds a row with a colour.
func (t *Table) AddIn(colour string, cells ...string) {
	for i := range cells {
		cells[i] = text.Visible(cells[i])
	}
	t.Rows = append(t.Rows, cells)
	t.Colours = append(t.Colours, colour)
}

// Cut keeps the first rows and drops the others.
func (t *Table) Cut(rows int) {
	rows = min(rows, len(t.Rows))
	t.Rows = t.Rows[:rows]
	t.Colours = t.Colours[:rows]
}

// PrintTable prints a table unless it is empty. On a terminal the title is above it and no
// line is longer than the terminal is wide; in a pipe each line begins with the title in lower
// case.
func (w *Env) PrintTable(title string, t Table) {
	if len(t.Rows) == 0 {
		return
	}
	if w.Piped() {
		for _, row := range t.Rows {
			fmt.Fprintf(w.Stdout, "%s\t%s\n", strings.ToLower(title), strings.Join(row, "\t"))
		}
		return
	}
	fmt.Fprintln(w.Stdout, w.Bold(title))
	for _, line := range t.Lines(w, "  ") {
		fmt.Fprintln(w.Stdout, line)
	}
}

// columnGap separates columns.
const columnGap = "  "

// Lines returns the head and the rows as lines that begin with indent and are at most as long
// as the terminal is wide.
func (t Table) Lines(w *Env, indent string) []string {
	widths := t.columnWidths(w.Width - len(indent))
	lines := make([]string, 0, len(t.Rows)+1)
	lines = append(lines, w.Dim(CutCells(indent+t.line(w, t.Head, -1, widths), w.Width)))
	for n, row := range t.Rows {
		for i, part := range t.wrapped(row, widths) {
			if i > 0 {
				n = -1 // without a link and a colour
			}
			lines = append(lines, CutCells(indent+t.line(w, part, n, widths), w.Width))
		}
	}
	return lines
}

// shortestWrap is how many cells a wrapped column gets at least.
const shortestWrap = 16

// wrapped divides a row of a table with Wrap into the rows that its last cell needs.
func (t Table) wrapped(row []string, widths []int) [][]string {
	last := len(t.Head) - 1
	if !t.Wrap || len(row) <= last || widths[last] < 0 {
		return [][]string{row}
	}
	rows := [][]string{slices.Clone(row)}
	for i, part := range Wrap(row[last], widths[last]) {
		if i > 0 {
			rows = append(rows, make([]string, len(row)))
		}
		rows[i][last] = part
	}
	return rows
}

// columnWidths returns the width of each column in cells, -1 for a column that is left out.
func (t Table) columnWidths(width int) []int {
	widths := make([]int, len(t.Head))
	for i := range widths {
		filled := !slices.Contains(t.Figures, i) && !slices.Contains(t.Optional, i)
		widths[i] = Cells(t.Head[i])
		for _, row := range t.Rows {
			if i < len(row) && row[i] != "" {
				widths[i] = max(widths[i], Cells(row[i]))
				filled = true
			}
		}
		if !filled {
			widths[i] = -1
		}
	}
	widths = t.shrunk(widths, width)
	if t.Wrap {
		last := len(widths) - 1
		widths[last] = min(widths[last], max(roomForLast(widths, width), shortestWrap))
	}
	return widths
}

// roomForLast returns how many cells of a row are left for the last column.
func roomForLast(widths []int, width int) int {
	for _, n := range widths[:len(widths)-1] {
		if n >= 0 {
			width -= n + len(columnGap)
		}
	}
	return width
}

// shrunk takes the steps of Shrink that it needs. Once a column is left out, the others share
// its room.
func (t Table) shrunk(natural []int, width int) []int {
	widths := slices.Clone(natural)
	for _, step := range t.Shrink {
		excess := -len(columnGap) - width
		for _, n := range widths {
			if n >= 0 {
				excess += n + len(columnGap)
			}
		}
		at := &widths[step.Column]
		switch {
		case excess <= 0 || *at < 0:
		case step.Cells == 0:
			others := slices.Clone(natural)
			others[step.Column] = -1
			return t.shrunk(others, width)
		default:
			*at = min(*at, max(*at-excess, step.Cells))
		}
	}
	return widths
}

// line is a row, or the head for n = -1. Its last cell is not padded.
func (t Table) line(w *Env, row []string, n int, widths []int) string {
	last := len(row) - 1
	for last > 0 && (row[last] == "" || widths[last] < 0) {
		last--
	}
	var cells []string
	for i, cell := range row[:last+1] {
		if widths[i] < 0 {
			continue
		}
		cell = CutCells(cell, widths[i])
		blanks := strings.Repeat(" ", widths[i]-Cells(cell))
		if n >= 0 && n < len(t.Links) && i < len(t.Links[n]) {
			cell = w.Link(t.Links[n][i], cell)
		}
		if n >= 0 && (i == 0 || i == t.State) {
			cell = w.Paint(t.Colours[n], cell)
		}
		switch {
		case slices.Contains(t.Figures, i):
			cell = blanks + cell
		case i < last:
			cell += blanks
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, columnGap)
}
