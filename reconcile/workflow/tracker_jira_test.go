package workflow

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A condition stands in brackets behind the project, and must not get out of them.
func TestConditionIsClosed(t *testing.T) {
	t.Parallel()
	for jql, want := range map[string]bool{
		`component = web`:                       true,
		`(a = b OR c IN (d, e)) AND f = g`:      true,
		`summary ~ "a) or ("`:                   true,
		`summary ~ "a \") (" AND x = 'it"s ('`:  true,
		`x = y) OR (project = OTHER`:            false,
		`x = y) OR project = OTHER OR (x = y`:   false,
		`(x = y`:                                false,
		`summary ~ "a`:                          false,
		`summary ~ "a\") OR (project = "OTHER"`: false,
	} {
		test.Equal(t, jql, isClosed(jql), want)
	}
}
