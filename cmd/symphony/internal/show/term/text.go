package term

import (
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/text"
)

var (
	escapes = text.Pattern("\x1b(?:\\[[0-9;]*m|\\]8;;[^\x1b]*\x1b\\\\)") // colours and links
	widths  = runewidth.Condition{StrictEmojiNeutral: true}              // whatever the locale
)

// Cells is the width of a text on a terminal. The escape sequences of colours and links take
// none.
func Cells(s string) int {
	if strings.Contains(s, "\x1b") {
		s = escapes().ReplaceAllString(s, "")
	}
	return widths.StringWidth(s)
}

// CutCells shortens a text to width cells, the last of which is then an ellipsis. Colours and
// links are kept.
func CutCells(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	var b strings.Builder
	for left := width - 1; s != ""; {
		at := escapes().FindStringIndex(s)
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

// AgoText is "3m ago" on a terminal and the time in a pipe.
func AgoText(w *Env, now, t time.Time) string {
	if w.Piped() {
		return text.Rfc3339(t)
	}
	return text.Age(now, t) + " ago"
}

// LastedText is a duration, in a pipe as seconds with three decimals.
func LastedText(w *Env, d time.Duration) string {
	if w.Piped() {
		return fmt.Sprintf("%.3f", max(d, 0).Seconds())
	}
	return text.Duration(d)
}

// The colours of rows: green for running, yellow for waiting, red if an operator is needed,
// dim for ended.
const (
	ColourRuns  = "32"
	ColourWaits = "33"
	ColourStuck = "31"
	ColourOver  = "2"
)

// PlainText is the escape sequence that ends a colour.
const PlainText = "\x1b[0m"

// Palette is how a terminal shows colours and links.
type Palette struct {
	Colour bool
	Links  bool // the terminal shows links
}

// Paint colours a text if colours are shown. An empty code stands for no colour.
func (p Palette) Paint(code, s string) string {
	if !p.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + PlainText
}

// Bold, Dim, Red, Green and Yellow paint a text accordingly.
func (p Palette) Bold(s string) string   { return p.Paint("1", s) }
func (p Palette) Dim(s string) string    { return p.Paint(ColourOver, s) }
func (p Palette) Red(s string) string    { return p.Paint(ColourStuck, s) }
func (p Palette) Green(s string) string  { return p.Paint(ColourRuns, s) }
func (p Palette) Yellow(s string) string { return p.Paint(ColourWaits, s) }

// PaintDiff colours a line of a diff by its kind.
func (p Palette) PaintDiff(kind patch.LineKind, line string) string {
	switch kind {
	case patch.LineName:
		return p.Bold(line)
	case patch.LineAdded:
		return p.Green(line)
	case patch.LineRemoved:
		return p.Red(line)
	case patch.LineHunk:
		return p.Paint("36", line) // cyan
	default:
		return line
	}
}

// Link makes a text a link to an address, on a terminal that shows links (OSC 8). Only pages
// of the web are linked.
func (p Palette) Link(address, s string) string {
	if !p.Links || s == "" ||
		!strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return s
	}
	return "\x1b]8;;" + linkable(address) + "\x1b\\" + s + "\x1b]8;;\x1b\\"
}

// linkable returns an address with every byte escaped that is no printable ASCII character, as
// the escape sequence requires.
func linkable(address string) string {
	var b strings.Builder
	for _, c := range []byte(address) {
		if c <= ' ' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Wrap breaks a text between words into lines of at most width cells. A longer word is broken,
// unless it is coloured.
func Wrap(s string, width int) (lines []string) {
	width = max(width, 2) // a wide character takes two
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && Cells(line)+1+Cells(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for Cells(line) > width && !strings.Contains(line, "\x1b") {
			head := widths.Truncate(line, width, "")
			lines = append(lines, head)
			line = line[len(head):]
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// Hang returns label and text in a single line, or in several of at most width cells, all but
// the first indented by the label's width.
func Hang(label, s string, width int) string {
	lines := Wrap(s, width-Cells(label))
	return label + strings.Join(lines, "\n"+strings.Repeat(" ", Cells(label)))
}
