package text

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestYAMLFault checks what is said about mistakes in YAML, and about which line.
func TestYAMLFault(t *testing.T) {
	for _, c := range []struct {
		yaml string // in which | stands for the end of a line
		line int    // from 1
		want string
	}{
		{"tracker:|\tkind: file", 2, "the line is indented with a tab; YAML allows only spaces"},
		{"a:|  b: 1|<<<<<<< HEAD|c: 2", 3, "a conflict of git is not resolved"},
		{"run: echo: yes", 1, "mapping values are not allowed in this context"},
		{"a: 1|b: \"x|c: 1", 2, "a quote is not closed"},
		{"a: 1|b: *.go", 2, "did not find expected alphabetic or numeric character"},
		{"a: [b|c: 1", 1, "did not find expected ',' or ']'"},
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
