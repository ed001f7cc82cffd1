package render

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

var at = time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)

func reportText(width int, r report.ResultList, o ReportOptions) string {
	page := &bytes.Buffer{}
	o.Period = report.Period{Since: at.Add(-time.Hour), Until: at}
	Report(&term.Env{
		Env:    environ.Env{Now: func() time.Time { return at }},
		Stdout: page,
		Width:  width,
	}, r, o)
	return page.String()
}

// A report begins with how many issues came to which outcome, and what that cost. A cut list says
// how many results there are.
func TestReportHead(t *testing.T) {
	r := report.ResultList{
		GeneratedAt: at,
		Total:       12,
		Counts:      map[string]int{state.ResultHandedOver: 3, state.ResultNeedsHelp: 1},
		Totals: report.ResultSum{
			Issues:  12,
			Results: 12,
			Seconds: 840,
			Spent: view.Spent{
				Tokens: view.Tokens{Total: 12_345},
				Cost:   &view.Cost{Currency: "USD", Amount: 5},
			},
		},
	}
	test.Contains(
		t,
		"the report",
		reportText(100, r, ReportOptions{}),
		"3 handed over, 1 needs help\n5.00 USD for 12.3k tokens, 14m of work\n",
		"0 of 12 results: --all prints the rest\n",
		"cost is in USD, an estimate",
	)
	test.Contains(t, "nothing", reportText(100, report.ResultList{}, ReportOptions{}), "no issue came to a result\n")
}

// Whatever the width of the terminal and of the titles, no line is cut before its cost.
func TestReportWidths(t *testing.T) {
	spent := view.Spent{
		Tokens: view.Tokens{Input: 98765, Total: 123456},
		Cost:   &view.Cost{Amount: 4321.99, Currency: "EUR"},
	}
	link := "https://github.com/acme/app/pull/7"
	r := report.ResultList{GeneratedAt: at, Total: 3}
	for _, title := range []string{"Fix", strings.Repeat("日本語", 40), strings.Repeat("long ", 40)} {
		r.Results = append(r.Results, report.ResultRow{
			Result: state.Result{
				Outcome: state.ResultHandedOver,
				Release: state.Release{Identifier: "WEB-1234", Title: title, At: at.Add(-48 * time.Hour)},
				PullRequest: &state.PullRequest{PullRequest: reconcile.PullRequest{
					URL:    link,
					State:  "open",
					Checks: "failed",
				}},
			},
			Spent: spent,
		})
		r.Groups = append(r.Groups, report.ResultGroup{Name: title, ResultSum: report.ResultSum{Spent: spent}})
	}
	for _, width := range []int{60, 80, 120, 160} {
		page := reportText(width, r, ReportOptions{}) + reportText(width, r, ReportOptions{By: report.ByAgent})
		for line := range strings.Lines(page) {
			if term.Cells(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("%d: too long: %s", width, line)
			}
		}
		test.Equal(
			t,
			fmt.Sprint("how often the cost is printed in ", width, " columns"),
			strings.Count(page, "4321.99"),
			3+3,
		)
		if n := strings.Count(page, "#7 checks failed"); width >= 80 && n != 3 {
			t.Errorf("%d: failed checks are printed %d times in\n%s", width, n, page)
		}
	}
}

// A pull request has what the tracker said of it, and when.
func TestPullRequestText(t *testing.T) {
	w := &term.Env{Width: 80}
	for want, p := range map[string]reconcile.PullRequest{
		"u (open, checks failed, review changes requested; seen 5m ago)": {
			URL:    "u",
			State:  "open",
			Checks: "failed",
			Review: "changes_requested",
		},
		"u (merged; seen 5m ago)": {URL: "u", State: "merged"},
	} {
		test.Equal(t, "it", pullRequestText(w, at, p, at.Add(-5*time.Minute)), want)
	}
}

// A terminal gets three digits of a large number, a pipe all of them.
func TestCountText(t *testing.T) {
	w := &term.Env{Width: 80}
	for n, want := range map[int64]string{
		0:                 "0",
		9999:              "9999",
		10_000:            "10.0k",
		99_949:            "99.9k",
		99_950:            "100k",
		999_499:           "999k",
		999_500:           "1.00M",
		9_994_999:         "9.99M",
		9_996_000:         "10.0M",
		2_000_000_000_000: "2.00T",
	} {
		test.Equal(t, fmt.Sprint(n), countText(w, n), want)
	}
	test.Equal(t, "in a pipe it is", countText(&term.Env{}, 123456), "123456")
}

// A title of ten thousand letters takes two lines of the screen; a pipe gets all of it.
func TestLongTitle(t *testing.T) {
	w := &term.Env{}
	var out strings.Builder
	w.Stdout = &out
	title := strings.Repeat("日本", 5000)
	v := detail.Issue{Issue: detail.KnownIssue{Identifier: "ABC-1", Title: &title}}
	Issue(w, v)
	if !strings.HasPrefix(out.String(), "issue\tABC-1\t"+title+"\n") {
		t.Error("in a pipe something of it is missing")
	}
	out.Reset()
	w.Width = 40
	Issue(w, v)
	want := []string{"ABC-1  " + strings.Repeat("日本", 8), "       " + strings.Repeat("日本", 8) + "…", ""}
	test.Equal(t, "the first lines", strings.Split(out.String(), "\n")[:3], want)
}

// On a terminal no line of show is wider than the screen, except for an address or a path, and
// nothing of the reason and of the agent's words is cut off.
func TestIssueFitsTheScreen(t *testing.T) {
	title := strings.Repeat("日本語の題名 ", 20)
	url := "https://example.com/" + strings.Repeat("issue/", 30)
	reason := "3 runs in a row failed, the last with turn_failed: " + strings.Repeat(
		"the model refused ",
		12,
	) + "for this decisive reason"
	words := "I have looked at the footer.\n\n" + strings.Repeat(
		"The links of the second column were covered. ",
		10,
	) + "\n    go test ./..."
	v := detail.Issue{
		GeneratedAt: at,
		Status:      reconcile.StatusHeld,
		Since:       new(at.Add(-2 * time.Hour)),
		Why:         detail.Why{Code: "held", Message: reason},
		Issue:       detail.KnownIssue{Identifier: "ABC-1", Title: &title, URL: &url},
		Next: detail.Next{
			Message: "symphony retry ABC-1 ends the hold; so does a new comment, or moving the issue away and back",
		},
		PullRequest: &state.PullRequest{
			PullRequest: reconcile.PullRequest{
				URL:    url,
				State:  "open",
				Checks: "failed",
				Review: "changes_requested",
			},
			SeenAt: at,
		},
		LastMessage: &words,
		Log:         []eventlog.Line{{At: at, Kind: eventlog.Words, Text: words}},
		Runs: []view.RunRow{{
			RunID:     "20261122T010033.419-wzkpkf",
			Kind:      reconcile.AgentRun,
			Outcome:   new(reconcile.Failed),
			Error:     &reason,
			StartedAt: at,
			EndedAt:   &at,
		}},
	}
	for _, width := range []int{40, 80, 160} {
		for _, colour := range []bool{false, true} {
			w := &term.Env{Width: width, Palette: term.Palette{Colour: colour}}
			var out strings.Builder
			w.Stdout = &out
			Issue(w, v)
			for line := range strings.Lines(out.String()) {
				if term.Cells(strings.TrimSuffix(line, "\n")) > width && !strings.Contains(line, "https://") {
					t.Errorf("in %d columns: %q", width, line)
				}
			}
			plain := strings.Join(
				strings.Fields(regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(out.String(), "")),
				" ",
			)
			test.Contains(
				t,
				fmt.Sprint("in ", width, " columns"),
				plain,
				"held for 2h: "+reason,
				"open, checks failed, review changes requested",
				strings.Join(strings.Fields(words), " "),
			)
			test.Equal(t, "how often the reason is printed", strings.Count(plain, "decisive reason"), 1)
		}
	}
}

// A failed delivery does not look like the reason why the hook failed.
func TestHookAndDeliveryFailed(t *testing.T) {
	outcome := reconcile.Succeeded
	hook := "exit code 1"
	delivery := reconcile.DeliveryResult{Code: "delivery_failed", Message: "push rejected"}
	row := view.RunRow{Outcome: &outcome, AfterRunError: &hook, Delivery: &delivery}
	test.Equal(t, "row", strings.Join(row.Errors(), "; "), "hook failed: exit code 1; not delivered: delivery_failed: push rejected")
	run := reconcile.Run{
		Identifier:    "TASK-1",
		Outcome:       outcome,
		AfterRunError: hook,
		Delivery:      delivery,
	}
	test.Equal(t, "line", EndLine(&term.Env{}, run), "TASK-1 not delivered, 0 turns, 0 tokens: "+
		"delivery_failed: push rejected; hook failed: exit code 1")
}
