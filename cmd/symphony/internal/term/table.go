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
	// Figures are columns of figures: on a terminal they are aligned to the right, and left out where no row has one.
	Figures []int
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
	widths := make([]int, len(t.Head)) // -1 for a column that is left out
	for i := range t.Head {
		filled := !slices.Contains(t.Figures, i)
		for _, row := range t.Rows {
			if i < len(row) {
				widths[i], filled = max(widths[i], Cells(row[i])), filled || row[i] != ""
			}
		}
		if widths[i] = max(widths[i], Cells(t.Head[i])); !filled {
			widths[i] = -1
		}
	}
	fmt.Fprintln(w.Stdout, CutCells(w.Dim(t.line(t.Head, widths, nil)), w.Width))
	for n, row := range t.Rows {
		paint := func(column int, cell string) string {
			if column == 0 || column == t.State {
				return w.Paint(t.Colours[n], cell)
			}
			return cell
		}
		fmt.Fprintln(w.Stdout, CutCells(t.line(row, widths, paint), w.Width))
	}
}

// line pads the cells of a row, but for the last one that is not empty.
func (t Table) line(row []string, widths []int, paint func(column int, cell string) string) string {
	last := len(row) - 1
	for last > 0 && row[last] == "" {
		last--
	}
	var b strings.Builder
	for i, cell := range row[:last+1] {
		if widths[i] < 0 {
			continue
		}
		blanks := strings.Repeat(" ", max(widths[i]-Cells(cell), 0))
		if paint != nil {
			cell = paint(i, cell)
		}
		switch {
		case slices.Contains(t.Figures, i):
			cell = blanks + cell
		case i < last:
			cell += blanks
		}
		b.WriteString("  " + cell)
	}
	return b.String()
}
