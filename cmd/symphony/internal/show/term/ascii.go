package term

import (
	"cmp"
	"strings"
)

// ShowsUTF8 reports whether the terminal shows UTF-8. An unset locale is taken for a locale
// with UTF-8.
func (w *Env) ShowsUTF8() bool {
	name := strings.ToLower(cmp.Or(w.Getenv("LC_ALL"), w.Getenv("LC_CTYPE"), w.Getenv("LANG"), "utf-8"))
	return strings.Contains(name, "utf-8") || strings.Contains(name, "utf8")
}

// ASCII replaces characters that a terminal without UTF-8 can't show. The width in cells
// stays.
func ASCII(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r == '…':
			b.WriteByte('~')
		default:
			b.WriteString(strings.Repeat("?", widths.RuneWidth(r)))
		}
	}
	return b.String()
}
