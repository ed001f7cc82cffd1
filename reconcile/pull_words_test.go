package reconcile

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// An address names what its forge calls it. The link of an agent may lead to a tab of it.
func TestPullWords(t *testing.T) {
	for address, want := range map[string][2]string{
		"https://github.com/team/repo/pull/7":                  {"pull request", "#7"},
		"https://github.com/team/repo/pull/7/files":            {"pull request", "#7"},
		"https://gitea.com/team/repo/pulls/7":                  {"pull request", "#7"},
		"https://gitlab.com/team/sub/repo/-/merge_requests/12": {"merge request", "!12"},
		"https://example.com/reviews":                          {"pull request", ""},
	} {
		test.Equal(t, "words of "+address, PullWordsOf(address).Name, want[0])
		test.Equal(t, "name of "+address, PullName(address), want[1])
	}
	const github = "https://github.com/team/repo/pull/7"
	const gitlab = "https://gitlab.com/team/repo/-/merge_requests/12"
	test.Equal(t, "without an address", PullWordsOf().Name, "pull request")
	test.Equal(t, "of one forge", PullWordsOf(gitlab, gitlab).Name, "merge request")
	test.Equal(t, "of two forges", PullWordsOf(gitlab, github).Name, "pull request")
}
