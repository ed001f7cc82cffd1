package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// TestWatchedLine checks the line about watched pull requests on a terminal: a late check is
// named with its age.
func TestWatchedLine(t *testing.T) {
	address := "https://github.com/acme/shop/pull/1"
	line := func(waits ...reconcile.Waits) string {
		out := &bytes.Buffer{}
		w := &term.Env{
			Env:    environ.Env{Now: func() time.Time { return now }},
			Stdout: out,
			Width:  200,
		}
		v := view.Overview{GeneratedAt: now}
		for i, one := range waits {
			v.Watched = append(v.Watched, view.WatchedRow{
				IssueHead:   view.IssueHead{Identifier: fmt.Sprint("A-", i+1)},
				PullRequest: address,
				WaitsFor:    one,
			})
		}
		printWatched(w, v, false)
		return out.String()
	}
	since := now.Add(-2 * time.Hour)
	review := reconcile.Waits{Code: reconcile.WaitsReview, Text: "a review", Since: &since}
	late := reconcile.Waits{
		Code:  reconcile.WaitsLate,
		Text:  `the check "sign", which has not reported`,
		Since: &since,
	}
	person := reconcile.Waits{Code: reconcile.WaitsPerson, Text: "a person"}
	test.Equal(t, "none", line(), "")
	test.Equal(t, "reviews", line(review, review, review), "watches 3 pull requests\n")
	test.Equal(
		t,
		"a late check",
		line(review, late, person),
		"watches 3 pull requests; A-2 waits for the check \"sign\", which has not reported (for 2h); "+
			"A-3 waits for a person\n",
	)
	test.Equal(t, "many", strings.HasSuffix(line(late, late, late, late, late), "; 2 more\n"), true)
	address = "https://gitlab.com/acme/shop/-/merge_requests/1"
	test.Equal(t, "of GitLab", line(review), "watches 1 merge request\n")
}
