package page

import (
	"html"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// A diff has the colours of its language. A comment or string goes on in the next line of its
// side, until the next hunk.
func TestColours(t *testing.T) {
	short := strings.NewReplacer(`<i class="`, "[", `">`, ":", "</i>", "]")
	for _, c := range []struct{ file, diff, want string }{
		{
			"a.go", "@@ -1 +1 @@\n-return a /* x\n+return b, \"\\\"//\", `x\n y\n+` // if\n@@ -9 +9 @@\n y if",
			"[word:return] a [comment:/* x]|[word:return] b, [string:\"\\\"//\"], " +
				"[string:`x]|[string:y]|[string:`] [comment:// if]|y [word:if]",
		},
		{
			"b.py",
			"+def f(): '''\n+if\n+''' # if\n+x#1",
			"[word:def] f(): [string:''']|[string:if]|[string:'''] [comment:# if]|x#[number:1]",
		},
		{
			"c.rs",
			"+fn f<'a>(x: &'a str)\n+if c == '\"' {",
			"[word:fn] f<'a>(x: &'a str)|[word:if] c == [string:'\"'] {",
		},
		{
			"d.sh",
			"+echo $# 'it'\\''s \\' \"s\n+fi' # x",
			"echo $# [string:'it']\\'[string:'s \\'] [string:\"s]|[word:fi][string:' # x]",
		},
		{"d.yml", "+a: don't # b", "a: don't [comment:# b]"},
		{"e.html", "+a <!-- if\n+--> if", "a [comment:<!-- if]|[comment:-->] if"},
		{"f.sql", "+select 1 -- x", "[word:select] [number:1] [comment:-- x]"},
		{"g.txt", "+if 1 // b", "if 1 // b"},
	} {
		t.Run(c.file, func(t *testing.T) {
			var got []string
			for _, b := range blocksOf(c.file, linesOf(c.diff)) {
				for _, l := range b.Lines {
					l.From = 0
					l.Till = 0
					if l.Kind != "hunk" {
						got = append(got, html.UnescapeString(short.Replace(string(l.Code()))))
					}
				}
			}
			test.Equal(t, "the colours", strings.Join(got, "|"), c.want)
		})
	}
}

// Colours and marks change nothing in the text of a line, whatever it contains.
func TestColoursKeepTheText(t *testing.T) {
	tags := strings.NewReplacer(
		`<i class="comment">`,
		"",
		`<i class="string">`,
		"",
		`<i class="number">`,
		"",
		`<i class="word">`,
		"",
		"</i>",
		"",
		"<mark>",
		"",
		"</mark>",
		"",
	)
	line := text.VisibleLines(evil) + " if /* é \"\" 12 */ `x` ''' \"\"\" <!-- -->"
	for _, file := range []string{
		"a.go",
		"a.js",
		"a.java",
		"a.c",
		"a.rs",
		"a.css",
		"a.json",
		"a.sql",
		"a.html",
		"a.py",
		"a.rb",
		"a.sh",
		"a.yml",
		"a",
	} {
		for from := range line {
			for till := range text.Within(line[from:], 12) {
				lines := []diffLine{{Text: line, From: from, Till: from + till}}
				colourLines(file, lines)
				code := string(lines[0].Code())
				test.Equal(
					t,
					"the ends of marks",
					strings.Count(code, "</mark>"),
					strings.Count(code, "<mark>"),
				)
				drawn := tags.Replace(code)
				if strings.ContainsAny(drawn, "<>\"") || html.UnescapeString(drawn) != line {
					t.Fatalf("%s, marked from %d to %d: %s", file, from, from+till, drawn)
				}
			}
		}
	}
}
