package gitlabapi

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestPlain(t *testing.T) {
	for written, want := range map[string]string{
		"":                        "",
		"Done.":                   "Done.",
		"/close":                  " /close",
		"Done.\n/merge\n/label x": "Done.\n /merge\n /label x",
		"a/close":                 "a/close",
		" /close":                 " /close",
		"Done.\r\n/close\r\n":     "Done.\r\n /close\r\n",
		"\r/close":                " \r/close",
		"/\rclose":                " /\rclose",
		"```\n/usr/bin\n```":      "```\n /usr/bin\n```", // a fence may not be one for GitLab
		"> /close":                "> /close",
	} {
		test.Equal(t, "plain", Plain(written), want)
	}
}

func TestHarmless(t *testing.T) {
	sent := map[string]any{
		"title":       "/tmp is full",
		"description": "One.\n/close",
		"add_labels":  []string{"/x"},
		"position":    map[string]any{"note": "/merge", "line": 3},
		"list":        []string{"/assign"},
	}
	test.Equal(t, "sent", Harmless(sent), any(map[string]any{
		"title":       "/tmp is full",
		"description": "One.\n /close",
		"add_labels":  []any{"/x"},
		"position":    map[string]any{"note": " /merge", "line": json.Number("3")},
		"list":        []any{" /assign"},
	}))
}

// command matches a line that GitLab carries out, by its own pattern, without the exceptions for
// code and quotations.
var command = regexp.MustCompile(`(?im)^/([a-z_]+)(?: ([^\n]*))?(?:\s*\n|$)`)

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"/close", "a\n/merge", "\r\r/close", "/\rclose", "\n\n/a b\r\n", "\v/close", "\u2028/close"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain := Plain(s)
		seen := strings.ReplaceAll(plain, "\r", "") // as GitLab does
		if found := command.FindString(seen); found != "" {
			t.Errorf("%q is carried out in %q", found, plain)
		}
		test.Equal(t, "again", Plain(plain), plain)
		test.Equal(t, "without blanks", strings.ReplaceAll(plain, " ", ""), strings.ReplaceAll(s, " ", ""))
	})
}
