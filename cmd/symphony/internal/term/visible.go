package term

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// visible shows control and escape characters of foreign text as text, so that no title or message can
// steer a terminal.
func Visible(s string) string {
	clean := true
	for at, r := range s {
		if Control(r) || r == utf8.RuneError && broken(s[at:]) {
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
		case r == utf8.RuneError && broken(s[at:]):
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

// broken reports a text that begins with a byte that is no character: a terminal may obey it all the same.
func broken(s string) bool {
	_, size := utf8.DecodeRuneInString(s)
	return size == 1
}

// control reports C0, DEL, C1, the separators of lines and the characters that reorder text on a terminal.
func Control(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}
