package term

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

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

func TestCells(t *testing.T) {
	for text, want := range map[string]int{
		"":                   0,
		"plain":              5,
		"ümlaut":             6,
		"日本語":                6,
		"한국":                 4,
		"ﬀ":                  1,
		"ＡＢ":                 4,
		"🚀 go":               5,
		"e\u0301":            1, // é as two characters
		"\u200bx":            1,
		"…":                  1,
		"\x1b[31mred\x1b[0m": 3,
		"𠀀":                  2,
	} {
		if got := Cells(text); got != want {
			t.Errorf("%q takes %d cells, want %d", text, got, want)
		}
	}
}

func TestCutCells(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"plain", 5, "plain"},
		{"plain", 4, "pla…"},
		{"plain", 1, "…"},
		{"plain", 0, ""},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"}, // a half of a wide one is none
		{"e\u0301xyz", 3, "e\u0301x…"},
		{"a\x1b[31mbcd\x1b[0m", 3, "a\x1b[31mb…\x1b[0m"},
		{"\x1b[31ma\x1b[0mbcd", 3, "\x1b[31ma\x1b[0mb…"},
	} {
		if got := CutCells(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// Whatever the text, a cut line fits, and leaves no colour behind.
func TestCutFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := Visible(rapid.StringOfN(rapid.RuneFrom([]rune("ab日🚀é\u0301\ufe0f\u200d")), 0, 40, -1).Draw(t, "text"))
		width := rapid.IntRange(1, 30).Draw(t, "width")
		painted := "\x1b[32m" + text + PlainText
		got := CutCells(painted, width)
		if n := Cells(got); n > width {
			t.Fatalf("%q takes %d of %d cells", got, n, width)
		}
		if !utf8.ValidString(got) || !strings.HasSuffix(got, PlainText) && strings.Contains(got, "\x1b[32m") && !strings.Contains(got, PlainText) {
			t.Fatalf("%q keeps its colour", got)
		}
	})
}
