package reconcile

import (
	"encoding/json"
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

// The settings of two machines may name a project in two ways. What the tracker calls an issue does not
// depend on them.
func TestOrigin(t *testing.T) {
	one := Issue{
		ID:        "12",
		URL:       new("https://GitHub.com/acme/shop/issues/12"),
		NativeRef: map[string]any{"id": int64(3180742215)},
	}
	test.Equal(t, "of one repository", one.Origin(), "github.com 3180742215")
	stored := Issue{}
	test.OK(t, json.Unmarshal(test.Must(json.Marshal(one)), &stored))
	test.Equal(t, "as it was stored", stored.Origin(), one.Origin())
	one.ID = "acme/shop#12"
	test.Equal(t, "of several repositories", one.Origin(), "github.com 3180742215")
	linear := Issue{ID: "7c1b", URL: new("https://linear.app/acme/issue/WEB-12/fix-the-footer")}
	test.Equal(t, "by its id", linear.Origin(), "linear.app 7c1b")
}
