package term

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Visible shows control and escape characters, and bytes that are no text, as text: nothing that comes from outside may
// steer a terminal.
func Visible(s string) string {
	var b strings.Builder
	for at, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[at:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[at]) // a byte that is no character
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		case Control(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Control reports C0, DEL, C1, the separators of lines and the characters that reorder text.
func Control(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
	widths  = runewidth.Condition{StrictEmojiNeutral: true} // whatever the locale
)

// Cells is the width of a text on a terminal. The escape sequences of colours take none.
func Cells(s string) int { return widths.StringWidth(colours.ReplaceAllString(s, "")) }

// CutCells shortens a text to so many cells, the last of which then says that something is missing. Its colours stay.
func CutCells(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	var b strings.Builder
	for left := width - 1; s != ""; {
		at := colours.FindStringIndex(s)
		if at == nil {
			at = []int{len(s), len(s)}
		}
		text := s[:at[0]]
		if n := Cells(text); n <= left {
			b.WriteString(text)
			left -= n
		} else if left >= 0 {
			b.WriteString(widths.Truncate(text, left, "") + "…")
			left = -1
		}
		b.WriteString(s[at[0]:at[1]])
		s = s[at[1]:]
	}
	return b.String()
}

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
	rows := append([][]string{t.Head}, t.Rows...)
	widths := make([]int, len(t.Head)) // -1 for a column that is left out
	for i := range widths {
		filled := !slices.Contains(t.Figures, i)
		for n, row := range rows {
			if i < len(row) {
				widths[i], filled = max(widths[i], Cells(row[i])), filled || n > 0 && row[i] != ""
			}
		}
		if !filled {
			widths[i] = -1
		}
	}
	for n, row := range rows {
		last := len(row) - 1 // that is not empty: it is not padded
		for last > 0 && row[last] == "" {
			last--
		}
		line := ""
		for i, cell := range row[:last+1] {
			if widths[i] < 0 {
				continue
			}
			blanks := strings.Repeat(" ", widths[i]-Cells(cell))
			if n > 0 && (i == 0 || i == t.State) {
				cell = w.Paint(t.Colours[n-1], cell)
			}
			switch {
			case slices.Contains(t.Figures, i):
				cell = blanks + cell
			case i < last:
				cell += blanks
			}
			line += "  " + cell
		}
		if n == 0 {
			line = w.Dim(line)
		}
		fmt.Fprintln(w.Stdout, CutCells(line, w.Width))
	}
}
