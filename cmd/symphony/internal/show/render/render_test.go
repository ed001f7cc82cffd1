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

func reportText(t *testing.T, width int, r report.Report, o ReportOptions) string {
	t.Helper()
	page := &bytes.Buffer{}
	test.OK(t, Report(&term.Env{
		Env:    environ.Env{Now: func() time.Time { return r.GeneratedAt }},
		Stdout: page,
		Width:  width,
	}, r, o))
	return page.String()
}

// A long table ends after ten rows on a terminal and says how many more there are. Figures are
// aligned to the right.
func TestLongReport(t *testing.T) {
	r := report.Report{
		GeneratedAt: at,
		Since:       at,
		Until:       at.Add(time.Hour),
		Totals: report.UseTotals{
			Issues: 12,
			Use:    report.Use{Runs: 66, Spent: view.Spent{Tokens: view.Tokens{Total: 8_148_096}}},
		},
	}
	for n := range 12 {
		r.Issues = append(r.Issues, report.IssueUse{
			Identifier: "ABC-" + strings.Repeat("1", n%3+1),
			Use: report.Use{
				Runs:  n,
				Spent: view.Spent{Tokens: view.Tokens{Total: int64(n) * 123_456}},
			},
		})
		r.Failed = append(r.Failed, report.FailedRow{Identifier: "ABC", Runs: n * 10, At: at})
	}
	page := reportText(t, 100, r, ReportOptions{Rows: 10})
	test.Contains(
		t,
		"the report",
		page,
		"0 issues handed over, 12 failed\n8.15M tokens: 66 runs, 0ms of work\n",
		"  ISSUE  TITLE  RUNS  LAST     NOW  ERROR\n",
		"  ABC              0  0ms ago\n",
		"  ABC             90  0ms ago\n",
		"  and 2 more\n",
		"  2 more\n",
		"  total    12 issues    66   0       0   0ms      0       0       0          0   8.15M\n",
		"--all prints the rows",
	)
	test.Lacks(t, "all rows", reportText(t, 100, r, ReportOptions{}), "more")
}

// A project without runs adds nothing to what all projects have used.
func TestUseOfIdleProjects(t *testing.T) {
	var sum reportCounts
	sum.add(reportCounts{spent: []view.Spent{{}}})
	sum.add(reportCounts{runs: 2, spent: []view.Spent{{
		Tokens: view.Tokens{Total: 12},
		Cost:   &view.Cost{Currency: "USD", Amount: 5},
	}}})
	w := &term.Env{Env: environ.Env{Now: time.Now}, Width: 80}
	test.Equal(t, "the use", sum.use(w), "5.00 USD for 12 tokens: 2 runs, 0ms of work")
}

// The report says how well the handovers went, and of pull requests only if there are any.
func TestHandoverLine(t *testing.T) {
	for want, h := range map[string]state.Handovers{
		"handed over: 1 of 2 at the first attempt\n": {Issues: 2, First: 1},
		"handed over: 9 of 12 at the first attempt, 10 verified; 8 pull requests: 6 of 7 green at the " +
			"first push, 5 merged, 0.5 rounds each\n": {
			Issues:       12,
			First:        9,
			Verified:     10,
			PullRequests: 8,
			Merged:       5,
			Closed:       1,
			Checked:      7,
			Green:        6,
			Rounds:       4,
		},
	} {
		test.Contains(t, "the report", reportText(t, 200, report.Report{
			GeneratedAt: at,
			Since:       at,
			Until:       at,
			Handovers:   &h,
		}, ReportOptions{}), "\n"+want)
	}
	test.Lacks(t, "a report without one", reportText(t, 200, report.Report{
		GeneratedAt: at,
		Since:       at,
		Until:       at,
	}, ReportOptions{}), "handed over:")
}

// Whatever the width of the terminal and of the titles, no line is cut before its cost.
func TestReportWidths(t *testing.T) {
	spent := view.Spent{
		Tokens: view.Tokens{Input: 98765, Total: 123456},
		Cost:   &view.Cost{Amount: 4321.99, Currency: "EUR"},
	}
	to := "Human Review"
	link := "https://github.com/acme/app/pull/7"
	message := "budget of 20 EUR a day used up until 01:00"
	r := report.Report{
		GeneratedAt: at,
		Since:       at,
		Until:       at.Add(time.Hour),
		Totals:      report.UseTotals{Issues: 1, Use: report.Use{Runs: 1, Spent: spent}},
		Budget:      &view.BudgetRow{Reached: true, Message: &message},
	}
	for _, title := range []string{"Fix", strings.Repeat("日本語", 40), strings.Repeat("long ", 40)} {
		row := report.ReleasedRow{
			Release: state.Release{
				Identifier: "WEB-1234",
				Title:      title,
				From:       "In Progress",
				To:         &to,
				At:         at.Add(-48 * time.Hour),
			},
			Spent: spent,
		}
		row.PullRequest = &state.PullRequest{PullRequest: reconcile.PullRequest{
			URL:    link,
			State:  "open",
			Checks: "failed",
		}}
		r.HandedOver = append(r.HandedOver, row)
		r.Issues = append(r.Issues, report.IssueUse{
			Identifier: "WEB-1234",
			Title:      title,
			Use:        report.Use{Spent: spent},
		})
		r.Labels = append(r.Labels, report.LabelUse{Label: &title, Use: report.Use{Spent: spent}})
		r.Days = append(r.Days, report.DayUse{Date: "2026-11-20", Spent: spent})
	}
	const limit = "the primary limit of /home/ann/.codex is used up until 04:07"
	r.Outages = []report.OutageRow{{
		Code:    "agent_quota",
		Since:   at.Add(-3 * time.Hour),
		Message: limit,
	}}
	for _, width := range []int{60, 80, 120, 160} {
		page := reportText(t, width, r, ReportOptions{}) + reportText(t, width, r, ReportOptions{By: ByLabel})
		for line := range strings.Lines(page) {
			if term.Cells(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("%d: too long: %s", width, line)
			}
		}
		if width == 160 && strings.Count(page, "#7 checks failed "+link) != 3 {
			t.Errorf("a terminal without links lacks the address in\n%s", page)
		}
		// 3 issues handed over, 3 days, 3 issues and 3 labels; the sums of the last two; the
		// heads of both pages.
		test.Equal(
			t,
			fmt.Sprint("how often the cost is printed in ", width, " columns"),
			strings.Count(page, "4321.99"),
			3+3+4+4+2,
		)
		if words := strings.Join(strings.Fields(page), " "); !strings.Contains(words, limit) &&
			!strings.Contains(page, "until 04:07\n") {
			t.Errorf("%d: the end of the outage is missing in\n%s", width, page)
		}
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
	test.Equal(t, "row", errorsOfRun(row), "hook failed: exit code 1; delivery_failed: push rejected")
	run := reconcile.Run{
		Identifier:    "TASK-1",
		Outcome:       outcome,
		AfterRunError: hook,
		Delivery:      delivery,
	}
	test.Equal(t, "line", EndLine(&term.Env{}, run), "TASK-1 not delivered, 0 turns, 0 tokens: "+
		"delivery_failed: push rejected; hook failed: exit code 1")
}
