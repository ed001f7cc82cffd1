package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible returns a text from outside as a single line in which nothing is hidden and nothing
// controls a terminal: control characters and bytes that are not UTF-8 are replaced by escapes
// such as \x1b, and a tab by a blank.
func Visible(s string) string { return visible(s, false) }

// VisibleLines is Visible for a text of several lines. It keeps their ends and tabs.
func VisibleLines(s string) string { return visible(s, true) }

func visible(s string, lines bool) string {
	var b strings.Builder
	for at, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[at:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[at]) // an invalid byte
		case lines && (r == '\n' || r == '\t' || strings.HasPrefix(s[at:], "\r\n")):
			b.WriteRune(r)
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

// VisibleJSON returns the same JSON with control characters as JSON escapes, so that a program
// reads the same values.
func VisibleJSON(s string) string {
	return EscapeJSON(s, func(r rune) bool { return r != '\n' && Control(r) })
}

// EscapeJSON returns the same JSON with some characters of its strings as JSON escapes.
func EscapeJSON(s string, escaped func(rune) bool) string {
	var b strings.Builder
	for _, r := range s {
		if !escaped(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Control reports whether a character can change how the text around it is shown, or is itself
// not shown: control characters, separators of lines, fillers, selectors of variants, and
// format characters, some of which reorder text. The joiners and the two selectors that emoji
// and some scripts need are not among them.
func Control(r rune) bool {
	const nonJoiner, joiner, asText, asEmoji = 0x200c, 0x200d, 0xfe0e, 0xfe0f
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Variation_Selector) &&
		r != nonJoiner && r != joiner && r != asText &&
		r != asEmoji
}

// ShellUnset returns command with a prefix that makes a login shell (bash -lc, sh -lc) unset
// vars first, because its profile may have set them. It adds no line, so line numbers in
// errors stay right. If a variable cannot be unset (the profile made it read-only), the shell
// exits with 78. Names that are not shell identifiers are skipped: no profile can set them.
func ShellUnset(vars []string, command string) string {
	names := slices.DeleteFunc(
		slices.Clone(vars),
		func(v string) bool { return !identifier().MatchString(v) },
	)
	if len(names) == 0 {
		return command
	}
	return "unset -v " + strings.Join(names, " ") + " || exit 78; " + command
}

// ShellIn returns command with a prefix that makes a login shell run it in dir, even if the
// profile changes the directory or redefines cd. If the shell cannot change to dir, it exits
// with 78.
func ShellIn(dir, command string) string {
	return "command cd -- " + ShellWord(dir) + " || exit 78; " + command
}

// ShellWord quotes s as a single word for a shell.
func ShellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

var identifier = Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
