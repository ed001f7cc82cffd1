package term

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// AgoText is "3m ago" on a terminal and the time in a pipe.
func AgoText(w *Env, now, t time.Time) string {
	if w.Width == 0 {
		return Rfc3339(t)
	}
	return Age(now, t) + " ago"
}

// SinceText is the age of a time on a terminal and the time in a pipe.
func SinceText(w *Env, now, t time.Time) string {
	if w.Width == 0 {
		return Rfc3339(t)
	}
	return Age(now, t)
}

// LastedText is a duration, in a pipe as seconds with three decimals.
func LastedText(w *Env, d time.Duration) string {
	if w.Width == 0 {
		return fmt.Sprintf("%.3f", max(d, 0).Seconds())
	}
	return Duration(d)
}

// Age is the time from t to now.
func Age(now, t time.Time) string { return Duration(now.Sub(t)) }

// Duration is short: 41s, 3m02s, 2h05m, 4d. A negative one counts as none.
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Rfc3339 is a time in UTC, with fractions of seconds.
func Rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// BytesText is a size with its unit.
func BytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// ShellQuote makes one word of a text for a shell, without quotes where none are needed.
func ShellQuote(s string) string {
	for _, r := range s {
		if !strings.ContainsRune("/._-+=:@%,", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

// OrNull is nil for an empty value, which JSON prints as null.
func OrNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// The colours of rows: green for what runs, yellow for what waits, red for what needs an operator, dim for what is over.
const (
	ColourRuns  = "32"
	ColourWaits = "33"
	ColourStuck = "31"
	ColourOver  = "2"
)

// PlainText ends a colour.
const PlainText = "\x1b[0m"

// Paint colours a text where colours are shown. An empty code is no colour.
func (w *Env) Paint(code, s string) string {
	if !w.Colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + PlainText
}

// Bold, Dim, Red, Green and Yellow paint a text so.
func (w *Env) Bold(s string) string   { return w.Paint("1", s) }
func (w *Env) Dim(s string) string    { return w.Paint(ColourOver, s) }
func (w *Env) Red(s string) string    { return w.Paint(ColourStuck, s) }
func (w *Env) Green(s string) string  { return w.Paint(ColourRuns, s) }
func (w *Env) Yellow(s string) string { return w.Paint(ColourWaits, s) }

// PaintDiff colours one line of a diff.
func (w *Env) PaintDiff(line string) string {
	switch {
	case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"), strings.HasPrefix(line, "diff "):
		return w.Bold(line)
	case strings.HasPrefix(line, "+"):
		return w.Green(line)
	case strings.HasPrefix(line, "-"):
		return w.Red(line)
	case strings.HasPrefix(line, "@@"):
		return w.Paint("36", line) // cyan
	}
	return line
}
