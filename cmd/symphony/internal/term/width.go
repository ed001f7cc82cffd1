package term

import (
	"sort"
	"strings"
	"unicode"
)

// wide are the characters that take two cells of a terminal: East Asian wide and fullwidth ones, and emoji. Gaps that
// Unicode has not filled yet are counted to their neighbours: a line that is thought too wide is cut too early, one that
// is thought too narrow would spoil the next.
var wide = [...][2]rune{
	{0x1100, 0x115f},
	{0x231a, 0x231b},
	{0x2329, 0x232a},
	{0x23e9, 0x23ec},
	{0x23f0, 0x23f0},
	{0x23f3, 0x23f3},
	{0x25fd, 0x25fe},
	{0x2614, 0x2615},
	{0x2630, 0x2637},
	{0x2648, 0x2653},
	{0x267f, 0x267f},
	{0x268a, 0x268f},
	{0x2693, 0x2693},
	{0x26a1, 0x26a1},
	{0x26aa, 0x26ab},
	{0x26bd, 0x26be},
	{0x26c4, 0x26c5},
	{0x26ce, 0x26ce},
	{0x26d4, 0x26d4},
	{0x26ea, 0x26ea},
	{0x26f2, 0x26f3},
	{0x26f5, 0x26f5},
	{0x26fa, 0x26fa},
	{0x26fd, 0x26fd},
	{0x2705, 0x2705},
	{0x270a, 0x270b},
	{0x2728, 0x2728},
	{0x274c, 0x274c},
	{0x274e, 0x274e},
	{0x2753, 0x2755},
	{0x2757, 0x2757},
	{0x2795, 0x2797},
	{0x27b0, 0x27b0},
	{0x27bf, 0x27bf},
	{0x2b1b, 0x2b1c},
	{0x2b50, 0x2b50},
	{0x2b55, 0x2b55},
	{0x2e80, 0x303e},
	{0x3041, 0xa4cf},
	{0xa960, 0xa97f},
	{0xac00, 0xd7a3},
	{0xf900, 0xfaff},
	{0xfe10, 0xfe19},
	{0xfe30, 0xfe6f},
	{0xff01, 0xff60},
	{0xffe0, 0xffe6},
	{0x16fe0, 0x18dff},
	{0x1aff0, 0x1b2ff},
	{0x1d300, 0x1d37f},
	{0x1f004, 0x1f004},
	{0x1f0cf, 0x1f0cf},
	{0x1f18e, 0x1f18e},
	{0x1f191, 0x1f19a},
	{0x1f200, 0x1f320},
	{0x1f32d, 0x1f335},
	{0x1f337, 0x1f37c},
	{0x1f37e, 0x1f393},
	{0x1f3a0, 0x1f3ca},
	{0x1f3cf, 0x1f3d3},
	{0x1f3e0, 0x1f3f0},
	{0x1f3f4, 0x1f3f4},
	{0x1f3f8, 0x1f43e},
	{0x1f440, 0x1f440},
	{0x1f442, 0x1f4fc},
	{0x1f4ff, 0x1f53d},
	{0x1f54b, 0x1f54e},
	{0x1f550, 0x1f567},
	{0x1f57a, 0x1f57a},
	{0x1f595, 0x1f596},
	{0x1f5a4, 0x1f5a4},
	{0x1f5fb, 0x1f64f},
	{0x1f680, 0x1f6c5},
	{0x1f6cc, 0x1f6cc},
	{0x1f6d0, 0x1f6df},
	{0x1f6eb, 0x1f6ec},
	{0x1f6f4, 0x1f6ff},
	{0x1f7e0, 0x1f7f0},
	{0x1f90c, 0x1f93a},
	{0x1f93c, 0x1f945},
	{0x1f947, 0x1f9ff},
	{0x1fa70, 0x1faff},
	{0x20000, 0x3fffd},
}

// variation16 asks for the coloured form of the character before it, which is then wide.
const variation16 = 0xfe0f

// runeCells is how many cells a character adds to what stands before it.
func runeCells(r rune) int {
	switch {
	case r >= 0x20 && r < 0x7f:
		return 1
	case r == 0xad: // a soft hyphen is shown
		return 1
	case r == variation16:
		return 1 // where its character was wide already, that is one too many, which does no harm
	case r >= 0x1160 && r <= 0x11ff, unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0 // joins what stands before it
	}
	at := sort.Search(len(wide), func(i int) bool { return wide[i][1] >= r })
	if at < len(wide) && wide[at][0] <= r {
		return 2
	}
	return 1
}

// cells is the width of a text on a terminal. Our own colours take none; visible has seen to it that there is no other
// escape sequence.
func Cells(s string) int {
	n, escape := 0, false
	for _, r := range s {
		switch {
		case escape:
			escape = r != 'm'
		case r == '\x1b':
			escape = true
		default:
			n += runeCells(r)
		}
	}
	return n
}

// cutCells shortens a text to so many cells, the last of which then says that something is missing. A colour ends with
// the text.
func CutCells(s string, width int) string {
	if Cells(s) <= width {
		return s
	}
	if width <= 0 {
		return ""
	}
	n, escape, painted := 0, false, false
	for i, r := range s {
		switch {
		case escape:
			escape = r != 'm'
			continue
		case r == '\x1b':
			escape, painted = true, !strings.HasPrefix(s[i:], PlainText)
			continue
		}
		if n += runeCells(r); n < width {
			continue
		}
		s = s[:i] + "…"
		break
	}
	if painted {
		s += PlainText
	}
	return s
}

// padCells fills a text up with blanks to so many cells.
func padCells(s string, width int) string {
	return s + strings.Repeat(" ", max(width-Cells(s), 0))
}
