package term

import (
	"fmt"
	"regexp"
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
