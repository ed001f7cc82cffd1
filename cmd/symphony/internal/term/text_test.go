package term

import (
	"strings"
	"testing"
	"time"
)

// What comes from outside is shown as text: nothing of it may steer a terminal.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ümlaut, 日本":    "plain, ümlaut, 日本",
		"two\nlines":           `two\nlines`,
		"a\ttab":               "a tab",
		"\x1b[2Jred":           `\x1b[2Jred`,
		"bell\aand\x7f":        `bell\x07and\x7f`,
		"c1 \u009b31m":         `c1 \x9b31m`,
		"evil\u202etxt.exe":    `evil\x202etxt.exe`,
		"isolate\u2066here":    `isolate\x2066here`,
		"return\rto the left":  `return\x0dto the left`,
		"mark\u200f\u061chere": `mark\x200f\x61chere`,
		"line\u2028of its own": `line\x2028of its own`,
		"bytes \x9b31m\xff":    `bytes \x9b31m\xff`,
		"replaced \ufffd":      "replaced \ufffd",
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 41 * time.Millisecond: "41ms", 41 * time.Second: "41s", 61 * time.Second: "1m01s",
		2*time.Hour + 5*time.Minute: "2h05m", 47 * time.Hour: "47h00m", 100 * time.Hour: "4d",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// A table is cut at the terminal's edge by characters, whatever they take in bytes.
func TestTableEdge(t *testing.T) {
	w := &Env{}
	var out strings.Builder
	w.Stdout, w.Width = &out, 20
	table := Table{Head: []string{"ISSUE", "MESSAGE"}}
	table.Add("ABC-1", strings.Repeat("ü", 40))
	w.PrintTable("RUNNING", table)
	want := "RUNNING\n  ISSUE  MESSAGE\n  ABC-1  üüüüüüüüüü…\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
