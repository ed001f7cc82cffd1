package text

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/internal/test"
)

// What comes from outside is shown as text: nothing of it may control a terminal or hide.
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
		"no\u200bwidth":        `no\x200bwidth`,
		"tag\U000e0041":        `tag\xe0041`,
		"filler\u3164here":     `filler\x3164here`,
		"selector\U000e0100":   `selector\xe0100`,
		"heart ❤\ufe0f":        "heart ❤\ufe0f",
		"family 👩\u200d👧, می\u200cخواهم": "family 👩\u200d👧, می\u200cخواهم",
	} {
		test.Equal(t, in, Visible(in), want)
	}
	test.Equal(t, "lines", VisibleLines("a\tb\r\nc\r\x1b\u202e\n"), "a\tb\r\nc\\x0d\\x1b\\x202e\n")
}

// Whatever the text, no control character is left, and JSON keeps its values.
func TestVisibleKeepsNothingHidden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		if got := Visible(s); strings.ContainsFunc(got, Control) {
			t.Errorf("%q", got)
		}
		encoded := test.Must(json.MarshalIndent(map[string]string{"s": s}, "", "  "))
		got := VisibleJSON(string(encoded))
		var want, have map[string]string
		if strings.ContainsFunc(strings.ReplaceAll(got, "\n", ""), Control) || json.Unmarshal([]byte(got), &have) != nil ||
			json.Unmarshal(encoded, &want) != nil ||
			have["s"] != want["s"] {
			t.Errorf("%s becomes %s", encoded, got)
		}
	})
}
