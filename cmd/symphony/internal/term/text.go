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
	clean := true
	for at, r := range s {
		if Control(r) || r == utf8.RuneError && isBroken(s[at:]) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for at, r := range s {
		switch {
		case r == utf8.RuneError && isBroken(s[at:]):
			fmt.Fprintf(&b, `\x%02x`, s[at])
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

// isBroken reports a text that begins with a byte that is no character.
func isBroken(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size == 1
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

// CutCells shortens a text to so many cells, the last of which then says that something is missing. Its colours end with
// it.
func CutCells(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	var b strings.Builder
	left, painted := width-1, false
	for s != "" {
		at := colours.FindStringIndex(s)
		if at == nil {
			at = []int{len(s), len(s)}
		}
		text := s[:at[0]]
		if n := Cells(text); n > left {
			b.WriteString(widths.Truncate(text, left, ""))
			break
		} else {
			left -= n
		}
		b.WriteString(s[:at[1]])
		painted = s[at[0]:at[1]] != PlainText && (painted || at[0] < at[1])
		s = s[at[1]:]
	}
	b.WriteString("…")
	if painted {
		b.WriteString(PlainText)
	}
	return b.String()
}
