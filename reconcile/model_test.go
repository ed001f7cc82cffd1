package reconcile

import (
	"fmt"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// An operator is known by an id, whatever the case of its letters, and never by one that only
// looks the same.
func TestSameUser(t *testing.T) {
	for name, ids := range map[string][]string{
		"Kim@example.com": {"u-1", "kim@Example.COM"},
		"u-1":             {"u-1"},
		"@Octocat":        {"octocat"},
		"Zoë":             {"zoë"},
	} {
		test.Equal(t, fmt.Sprintf("%q is one of %q", name, ids), SameUser(name, ids...), true)
	}
	for name, ids := range map[string][]string{
		"":         {""},
		"kim":      {"kim ", "kim2", "\u212aim", "k\u0456m", "kim\u200b", "ＫＩＭ"},
		"\u212aim": {"kim"},
		"zoË":      {"zoë"},
	} {
		test.Equal(t, fmt.Sprintf("%q is one of %q", name, ids), SameUser(name, ids...), false)
	}
}
