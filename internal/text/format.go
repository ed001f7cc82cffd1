package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Count is a number with three digits, such as 13.7k; all digits of a number below 10,000.
func Count(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	value := float64(n)
	unit := ""
	for _, next := range []string{"k", "M", "G", "T"} {
		if value < 999.5 {
			break
		}
		value = value / 1000
		unit = next
	}
	return strings.TrimSuffix(fmt.Sprintf("%#.3g", value), ".") + unit
}

// Age is the time from t to now.
func Age(now, t time.Time) string { return Duration(now.Sub(t)) }

// Duration formats a duration briefly: 41s, 3m 2s, 36m, 2h 5m, 4d. A negative duration becomes
// 0ms.
func Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60), " 0s")
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60), " 0m")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Took formats a number of milliseconds with tenths of the first ten seconds: 9ms, 1.2s, 3m
// 2s.
func Took(ms int64) string {
	took := time.Duration(ms) * time.Millisecond
	if took >= time.Second && took < 10*time.Second {
		return fmt.Sprintf("%.2gs", took.Truncate(100*time.Millisecond).Seconds())
	}
	return Duration(took)
}

// Rfc3339 formats a time in UTC, to the second.
func Rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// BytesText formats a size with its unit, such as "1.5 MiB".
func BytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	size := float64(n) / 1024
	unit := "KiB"
	for _, larger := range []string{"MiB", "GiB", "TiB"} {
		if size < 1023.95 { // what is printed as 1024.0 is 1.0 of the next unit
			break
		}
		size /= 1024
		unit = larger
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}

// ShellQuote quotes a text as a single word for a shell, if it needs quotes.
func ShellQuote(s string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("/._-+=:@%,", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	if s == "" || strings.ContainsFunc(s, special) {
		return ShellWord(s)
	}
	return s
}

// OrNull returns nil for a zero value, so that JSON prints null, otherwise a pointer to v.
func OrNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// OrEmpty returns *p, the inverse of OrNull; the zero value for nil.
func OrEmpty[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// JSON encodes a value that can be encoded, with < and > as they are.
func JSON(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(err) // the caller passes texts, numbers, or decoded JSON
	}
	return bytes.TrimSpace(b.Bytes())
}

// Time parses a time of ISO 8601, also with a blank instead of the T. It is in UTC unless it
// says otherwise; nil for anything else.
func Time(s string) *time.Time {
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "20060102T150405Z0700", "2006-01-02T15:04:05",
		"2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly,
	} {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			t = t.UTC()
			return &t
		}
	}
	return nil
}

// Tail is a writer that keeps the last bytes written to it.
type Tail struct {
	Limit int // in bytes
	buf   []byte
	total int64
}

func (t *Tail) Write(b []byte) (int, error) {
	t.total += int64(len(b))
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*t.Limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.Limit-1:]...)
	}
	return len(b), nil
}

// Text returns at most the last Limit bytes, and how many came before them. It cuts at the end
// of a line, because the rest of a secret that was cut would not be recognised.
func (t *Tail) Text() ([]byte, int64) {
	b := t.buf
	if cut := len(b) - t.Limit; cut > 0 {
		end := bytes.IndexAny(b[cut-1:], "\r\n")
		if end < 0 {
			return nil, t.total
		}
		b = b[cut+end:]
	}
	return b, t.total - int64(len(b))
}
