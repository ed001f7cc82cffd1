package text_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"é", 1, ""}, {"abc", 0, ""}, {"abc", -1, ""}, {"", 0, ""}} {
		test.Equal(t, fmt.Sprintf("Within(%q, %d)", c.s, c.n), text.Within(c.s, c.n), c.want)
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 2: "2 runs"} {
		test.Equal(t, "Plural", text.Plural(n, "run"), want)
	}
}

func TestCompareNatural(t *testing.T) {
	want := []string{"", "7", "10", "API-2", "WEB-9", "WEB-10", "WEB-10a", "WEB-011", "WEB-x", "é"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, text.CompareNatural)
	test.Equal(t, "order", got, want)
}

func TestIsNumber(t *testing.T) {
	for s, want := range map[string]bool{
		"7":     true,
		"007":   true,
		"":      false,
		"-7":    false,
		"ABC-7": false,
		"٧":     false, // a digit of another script
	} {
		test.Equal(t, s, text.IsNumber(s), want)
	}
}

func TestIssueAddress(t *testing.T) {
	for _, c := range []struct{ address, want string }{
		{"https://linear.app/Acme/issue/WEB-12/fix-the-footer#comment-7", "linear.app/acme/issue/web-12"},
		{"http://linear.app/acme/issue/WEB-12", "linear.app/acme/issue/web-12"},
		{"https://github.com/acme/issues/issues/7?x=/issues/8", "github.com/acme/issues/issues/7"},
		{"https://gitlab.com/acme/app/-/issues/7/", "gitlab.com/acme/app/-/issues/7"},
		{" https://jira.acme.com/browse/WEB-12 ", "jira.acme.com/browse/web-12"},
		{"WEB-12", ""},
		{"a/b.md", ""},
		{"file:///a", ""},
		{"https://", ""},
		{"https://a b", ""},
	} {
		got, ok := text.IssueAddress(c.address)
		test.Equal(
			t,
			c.address+": issue, and whether it is an issue's address",
			[]any{got, ok},
			[]any{c.want, c.want != ""},
		)
	}
}
