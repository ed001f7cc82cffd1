package term

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"pgregory.net/rapid"
)

// A table is cut at the terminal's edge by characters, whatever they take in bytes.
func TestTableEdge(t *testing.T) {
	var out strings.Builder
	w := &Env{}
	w.Stdout = &out
	w.Width = 20
	table := Table{Head: []string{"ISSUE", "MESSAGE"}}
	table.Add("ABC-1", strings.Repeat("ü", 40))
	w.PrintTable("RUNNING", table)
	test.Equal(t, "the table", out.String(), "RUNNING\n  ISSUE  MESSAGE\n  ABC-1  üüüüüüüüüü…\n")
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
		test.Equal(t, fmt.Sprint(text), Cells(text), want)
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
		test.Equal(t, fmt.Sprintf("%q in %d", c.text, c.width), CutCells(c.text, c.width), c.want)
	}
}

// Whatever the text, a cut line fits, and leaves no colour behind.
func TestCutFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := text.Visible(
			rapid.StringOfN(rapid.RuneFrom([]rune("ab日🚀é\u0301\ufe0f\u200d")), 0, 40, -1).Draw(t, "text"),
		)
		width := rapid.IntRange(1, 30).Draw(t, "width")
		painted := "\x1b[32m" + text + PlainText
		got := CutCells(painted, width)
		if n := Cells(got); n > width {
			t.Fatalf("%q takes %d of %d cells", got, n, width)
		}
		if !utf8.ValidString(got) ||
			!strings.HasSuffix(got, PlainText) && strings.Contains(got, "\x1b[32m") &&
				!strings.Contains(got, PlainText) {
			t.Fatalf("%q keeps its colour", got)
		}
	})
}

// Columns give way in the order of Shrink, and only as far as needed; the last one is cut by
// what remains.
func TestTableShrinks(t *testing.T) {
	table := Table{
		Head:     []string{"ISSUE", "TITLE", "TOKENS", "LABEL", "NOW"},
		Figures:  []int{2},
		Optional: []int{3},
		Shrink:   []Shrink{{1, 8}, {4, 10}, {2, 0}, {1, 0}, {4, 1}},
	}
	table.Add("ABC-1", "日本語の題名です", "13.7k", "", "go test ./... -run TestTable")
	table.Add("ABC-10", "Short", "", "", "idle")
	for width, want := range map[int]string{
		80: "ISSUE   TITLE             TOKENS  NOW\nABC-1   日本語の題名です   13.7k  go " +
			"test ./... -run TestTable\nABC-10  Short                     idle",
		57: "ISSUE   TITLE        TOKENS  NOW\nABC-1   日本語の題…   13.7k  go test ./... " +
			"-run TestTable\nABC-10  Short                idle",
		40: "ISSUE   TITLE     TOKENS  NOW\nABC-1   日本語…    13.7k  go test ./...…\nABC-10  Short             idle",
		30: "ISSUE   TITLE     NOW\nABC-1   日本語…   go test ./.…\nABC-10  Short     idle",
		20: "ISSUE   NOW\nABC-1   go test ./.…\nABC-10  idle",
	} {
		test.Equal(
			t,
			fmt.Sprint("in ", width, " columns"),
			strings.Join(table.Lines(&Env{Width: width}, ""), "\n"),
			want,
		)
	}
}

// A link takes no cell, is closed where its text is cut, and names nothing but a page of the
// web.
func TestLinks(t *testing.T) {
	w := &Env{Palette: Palette{Links: true}, Width: 12}
	table := Table{Head: []string{"ISSUE"}, Links: [][]string{{"https://example.com/a b\x1b\\é"}}}
	table.Add("ABC-1 日本語 and more")
	got := table.Lines(w, "  ")[1]
	test.Equal(
		t,
		"the line",
		got,
		"  \x1b]8;;https://example.com/a%20b%1B\\%C3%A9\x1b\\ABC-1 日…\x1b]8;;\x1b\\",
	)
	test.Equal(t, "its width", Cells(got), 11)
	for _, address := range []string{"", "file:///etc/passwd", "javascript:x"} {
		test.Equal(t, fmt.Sprint(address), w.Link(address, "x"), "x")
	}
	test.Equal(t, "without a terminal", (&Env{}).Link("https://example.com", "x"), "x")
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		label, text string
		width       int
		want        string
	}{
		{"", "", 10, ""},
		{
			"BLOCKED  ",
			"account limit used up until 04:07, in 59m",
			30,
			"BLOCKED  account limit used up\n         until 04:07, in 59m",
		},
		{"", "one 日本語日本語 two", 10, "one\n日本語日本\n語 two"},
		{"", "aaaaaaaaaaaa b", 5, "aaaaa\naaaaa\naa b"},
		{"too wide a label ", "日本", 5, "too wide a label 日\n                 本"},
		{"", "\x1b[31mred words\x1b[0m here", 9, "\x1b[31mred words\x1b[0m\nhere"},
	} {
		test.Equal(t, fmt.Sprintf("%q in %d", c.text, c.width), Hang(c.label, c.text, c.width), c.want)
	}
}
