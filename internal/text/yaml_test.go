package text

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestYAMLFault checks what is said about slips that people make in YAML, and about which line.
func TestYAMLFault(t *testing.T) {
	for _, c := range []struct {
		yaml string // in which | stands for the end of a line
		line int    // from 1
		want string
	}{
		{"tracker:|\tkind: file", 2, "the line is indented with a tab; YAML allows only spaces"},
		{"tracker:|\u00a0\u00a0kind: file|  path: x", 2, "the line contains the blank U+00A0, which is none for YAML: type a space instead"},
		{"kind:\u00a0file|path: x", 1, "the line contains the blank U+00A0, which is none for YAML: type a space instead"},
		{"a:|  b: 1|<<<<<<< HEAD|c: 2", 3, "a conflict of git is not resolved"},

		{"tracker|  kind: file", 1, `"tracker" has no colon: if it is a key, write tracker:`},
		{"a: 1|agent|  b: 1", 2, `"agent" has no colon: if it is a key, write agent:`},
		{"a: 1|kind file|b: 1", 2, `"kind file" has no colon: if it is a key, write kind: file`},
		{"a: 1|kind:file|b: 1", 2, `"kind:file" has no blank after its colon: write kind: file`},
		{"a: 1|kind = file|b: 1", 2, `"kind = file" has = in the place of a colon: write kind: file`},
		{"run: echo: yes", 1, "a value with a colon and a blank needs quotes: 'echo: yes'"},
		{"a:|  command: >|codex app-server|b: 1", 3, `the text of "command: >" has to be indented more than its key`},

		{"a:|  b: 1|   c: 2", 3, "the line is indented by 3 blanks; to fit the lines above it needs 0 or 2"},
		{"a:|  b:|    c: 2| d: 1", 4, "the line is indented by 1 blank; to fit the lines above it needs 0 or 2 or 4"},
		{"a:|    b: 1|  c: 2", 3, "the line is indented by 2 blanks; to fit the lines above it needs 0 or 4"},
		{"a:|  - b: 1|   c: 2", 3, "the line is indented by 3 blanks; to fit the lines above it needs 0 or 2 or 4"},

		{"a:|  - b: 1|  c: 2", 3, "the lines above are a list, because they begin with -, and this line does not"},
		{"a: 1|- b: 1", 2, "the line begins with -, as an item of a list does, and the lines above do not: remove the -"},
		{"a: - b", 1, "a list can't begin behind a colon: remove the -, or write each item in a line of its own"},
		{"a:|  - Todo|  -Done|b: 1", 3, `"-Done" has no blank after its -: write - Done`},

		{"a: [b]]|c: 1", 1, "a ] has nothing that it closes"},
		{"a: [#agent]|b: 1", 1, `a [ is not closed, because # begins a comment: write "#agent"`},
		{"a:|  - [b, #c]|d: 1", 2, `a [ is not closed, because # begins a comment: write "#c"`},
		{"a: [b|c: 1", 1, "a [ is not closed, or a comma is missing behind it"},
		{"a: {b: 1|c: 1", 1, "a { is not closed, or a comma is missing behind it"},
		{"a: 1|b: {c: ${{ secrets.D }}}", 2, ForeignExpression},
		{"a: 1|b: \"x|c: 1", 2, "a quote is not closed"},
		{"b: 'x|c: 1", 1, "a quote is not closed"},
		{`a: "C:\work"`, 1, `in double quotes \ begins an escape such as \n: write \\, or use single quotes`},
		{"a: @me", 1, "a value that begins with @ needs quotes: '@me'"},
		{"a: 1|title: @ann isn't here # x", 2, "a value that begins with @ needs quotes: '@ann isn''t here'"},
		{"a:|  - @ann fix", 2, "a value that begins with @ needs quotes: '@ann fix'"},
		{"a:|  b: [bob, @ann, @eve]", 2, "a value that begins with @ needs quotes: '@ann'"},
		{"a: {b: @ann }", 1, "a value that begins with @ needs quotes: '@ann'"},
		{"a: `x`", 1, "a value that begins with ` needs quotes: '`x`'"},
		{"a: 1|b: [WIP] fix|c: 2", 2, "a value that begins with [ ends at its ]: put all of it in quotes: '[WIP] fix'"},
		{"b: [WIP] fix: it|c: 2", 1, "a value that begins with [ ends at its ]: put all of it in quotes: '[WIP] fix: it'"},
		{"b: {a} it's|c: 2", 1, "a value that begins with { ends at its }: put all of it in quotes: '{a} it''s'"},
		{`b: "Fix" the door`, 1, `a value that begins with " ends at its ": put all of it in quotes: '"Fix" the door'`},
		{"b: 'don't'", 1, `a value that begins with ' ends at its ': put all of it in quotes: "don't"`},
		{"a:|  - *|b: 1", 2, "a value that begins with * needs quotes: '*'"},
		{"a: 1|b: *.go", 2, "a value that begins with * needs quotes: '*.go'"},
	} {
		text := strings.ReplaceAll(c.yaml, "|", "\n") + "\n"
		err := readAll(text)
		if err == nil {
			t.Errorf("%q is valid", text)
			continue
		}
		line, message := YAMLFault([]byte(text), err)
		test.Equal(t, "what is said about "+c.yaml, message, c.want)
		test.Equal(t, "the line in "+c.yaml, line+1, c.line)
		crlf := strings.ReplaceAll(text, "\n", "\r\n")
		line, message = YAMLFault([]byte(crlf), readAll(crlf))
		test.Equal(t, "with the line ends of Windows", message, c.want)
		test.Equal(t, "the line with the line ends of Windows", line+1, c.line)
	}
}
