package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

func reportText(t *testing.T, width int, r view.Report) string {
	t.Helper()
	page := &bytes.Buffer{}
	if err := Report(&term.Env{Stdout: page, Width: width, Now: func() time.Time { return r.GeneratedAt }}, r); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// A long table ends after ten rows on a terminal and says how many more there are. Figures are aligned to the right.
func TestLongReport(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	r := view.Report{GeneratedAt: at, Since: at, Until: at.Add(time.Hour), Totals: view.UseTotals{Issues: 12, Use: view.Use{Runs: 66, Spent: view.Spent{Tokens: view.Tokens{Total: 8_148_096}}}}}
	for n := range 12 {
		r.Issues = append(r.Issues, view.IssueUse{Identifier: "ABC-" + strings.Repeat("1", n%3+1), Use: view.Use{Runs: n, Spent: view.Spent{Tokens: view.Tokens{Total: int64(n) * 123_456}}}})
		r.Failed = append(r.Failed, view.FailedRow{Failure: state.Failure{Identifier: "ABC", Runs: n * 10, At: at}})
	}
	page := reportText(t, 100, r)
	for _, want := range []string{
		"  ISSUE  RUNS  LAST     NOW  ERROR\n", "  ABC       0  0ms ago\n", "  ABC      90  0ms ago\n", "  and 2 more: symphony report --json\n",
		"  2 more\n", "  12 issues    66     0       0   0ms      0       0       0          0  8.15M\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
}

// A pull request has what the tracker said of it, and when.
func TestPullRequestText(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	w := &term.Env{Width: 80}
	for want, p := range map[string]reconcile.PullRequest{
		"u (open, checks failed, review changes requested; seen 5m00s ago)": {URL: "u", State: "open", Checks: "failed", Review: "changes_requested"},
		"u (merged; seen 5m00s ago)":                                        {URL: "u", State: "merged"},
	} {
		if got := pullRequestText(w, at, p, at.Add(-5*time.Minute)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A terminal gets three digits of a large number, a pipe all of them.
func TestCountText(t *testing.T) {
	w := &term.Env{Width: 80}
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10.0k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k", 999_500: "1.00M", 9_994_999: "9.99M", 9_996_000: "10.0M", 2_000_000_000_000: "2.00T"} {
		if got := countText(w, n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := countText(&term.Env{}, 123456); got != "123456" {
		t.Errorf("in a pipe it is %s", got)
	}
}

// A title of ten thousand letters takes two lines of the screen; a pipe gets all of it.
func TestLongTitle(t *testing.T) {
	w := &term.Env{}
	var out strings.Builder
	w.Stdout = &out
	title := strings.Repeat("日本", 5000)
	v := view.Issue{Issue: view.KnownIssue{Identifier: "ABC-1", Title: &title}}
	Issue(w, v)
	if !strings.HasPrefix(out.String(), "issue\tABC-1\t"+title+"\n") {
		t.Error("in a pipe something of it is missing")
	}
	out.Reset()
	w.Width = 40
	Issue(w, v)
	lines := strings.Split(out.String(), "\n")
	if want := "ABC-1  " + strings.Repeat("日本", 8); lines[0] != want || lines[1] != "       "+strings.Repeat("日本", 8)+"…" || lines[2] != "" {
		t.Errorf("it is %q", lines[:3])
	}
}
