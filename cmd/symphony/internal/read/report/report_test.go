package report

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

func TestParsePeriod(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 20, 8, 30, 0, 0, berlin)
	for _, c := range []struct {
		since, until, from, to string
		present                bool
	}{
		{"", "", "2026-11-19T20:30:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"90m", "", "2026-11-20T07:00:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"7d", "", "2026-11-13T08:30:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"2026-11-01", "", "2026-11-01T00:00:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"2026-11-01", "2026-11-03", "2026-11-01T00:00:00+01:00", "2026-11-04T00:00:00+01:00", false},
		// today is not over
		{"2026-11-01", "2026-11-20", "2026-11-01T00:00:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"", "2026-11-18T06:00:00Z", "2026-11-17T19:00:00+01:00", "2026-11-18T07:00:00+01:00", false},
		{"3h", "1h", "2026-11-20T05:30:00+01:00", "2026-11-20T07:30:00+01:00", false},
	} {
		got, err := ParsePeriod(c.since, c.until, now)
		if err != nil || got.Since.In(berlin).Format(time.RFC3339) != c.from ||
			got.Until.In(berlin).Format(time.RFC3339) != c.to ||
			got.Present != c.present {
			t.Errorf("--since %q --until %q: %+v, %v", c.since, c.until, got, err)
		}
	}
	for _, bad := range [][2]string{
		{"-1h", ""},
		{"1.5d", ""},
		{"d", ""},
		{"99999999999d", ""},
		{"40000d", ""},
		{"2026-13-01", ""},
		{"", "noon"},
		{"0s", ""},
		{"2026-11-21", ""},
	} {
		var e *reconcile.Error
		if got, err := ParsePeriod(bad[0], bad[1], now); !errors.As(err, &e) || e.Code != "usage" {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

// In Cairo this day of summer time begins at one o'clock; the next one at midnight again.
func TestDayWithoutMidnight(t *testing.T) {
	cairo, err := time.LoadLocation("Africa/Cairo")
	if err != nil {
		t.Skip("the machine has no time zones: ", err)
	}
	got, err := ParsePeriod("2026-04-24", "2026-04-24", time.Date(2026, 11, 20, 8, 30, 0, 0, cairo))
	test.OK(t, err)
	test.Equal(t, "its beginning", text.Rfc3339(got.Since), "2026-04-23T22:00:00Z")
	test.Equal(t, "its end", text.Rfc3339(got.Until), "2026-04-24T21:00:00Z")
}

// One issue was handed over and is claimed again, one lost its label, one is gone, one only
// ran.
func TestReportOfEveryKindOfIssue(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	tokens := reconcile.ModelUse{Model: "m", Tokens: reconcile.Tokens{Input: 10, Total: 10}}
	release := func(n, reason, to string) state.Release {
		return state.Release{
			IssueID:    n,
			Identifier: "ABC-" + n,
			Title:      "=HYPERLINK(1)",
			Reason:     reason,
			From:       "Todo",
			To:         &to,
			At:         at,
			Runs:       1,
			Models:     []reconcile.ModelUse{tokens},
			Links: []reconcile.Link{{
				Kind: "attachment",
				URL:  "https://b",
			}, {
				Kind: "pull_request",
				URL:  "https://a",
			}},
			Created: map[string]int{},
		}
	}
	ended := func(n string, outcome reconcile.Outcome) state.EndedRun {
		return state.EndedRun{Run: reconcile.Run{
			IssueID:    n,
			Identifier: "ABC-" + n,
			Outcome:    outcome,
			ErrorCode:  "turn_failed",
			ErrorText:  "why",
			Model:      tokens.Model,
			Tokens:     tokens.Tokens,
		}}
	}
	undelivered := ended("4", reconcile.Succeeded)
	undelivered.Undelivered = true
	undelivered.AfterRunError = "exit 1"
	r := state.Report{
		Since: at.Add(-time.Hour), Until: at.Add(time.Hour),
		Releases: []state.Release{
			release("1", reconcile.StopInactive, "Human Review"),
			release("2", reconcile.StopLabel, "Todo"),
			release("3", reconcile.StopMissing, ""),
		},
		Runs: []state.EndedRun{
			ended("1", reconcile.Succeeded),
			ended("1", reconcile.Failed),
			ended("4", reconcile.Canceled),
			ended("4", reconcile.InterruptedRun),
			undelivered,
		},
		PullRequests: map[string]state.PullRequest{"1": {
			IssueID:     "1",
			PullRequest: reconcile.PullRequest{Checks: "failed"},
		}},
	}
	claims := view.Claims{Running: []view.RunningRow{
		{
			IssueHead: view.IssueHead{IssueID: "1", Identifier: "ABC-1"},
			StartedAt: at,
			Run:       reconcile.Run{ID: "r", Model: tokens.Model, Tokens: tokens.Tokens},
		},
		{
			IssueHead: view.IssueHead{IssueID: "5", Identifier: "ABC-5"},
			Run:       reconcile.Run{ID: "s", Outcome: reconcile.Succeeded},
		},
	}}
	f := newReport(r, claims, reconcile.Prices{}, at.Add(30*time.Minute))
	f.addAccountBlock(&wiring.BlockedRow{
		Since:   at,
		Reason:  "agent_quota",
		Message: "used up",
	}, r.Until)
	f.addAccountBlock(&wiring.BlockedRow{
		Since:   at,
		Reason:  "agent_quota",
		Message: "used up",
	}, r.Until)
	if len(f.HandedOver) != 1 || len(f.LetGo) != 2 || *f.Failed[0].Now != "running" || len(f.Running) != 1 ||
		len(f.Outages) != 1 {
		t.Errorf("%+v", f)
	}
	if p := f.HandedOver[0].PullRequest; p == nil || p.Checks != "failed" || f.LetGo[0].PullRequest != nil {
		t.Errorf("the pull request is %+v", p)
	}
	test.Equal(t, "totals", f.Totals, UseTotals{
		Use: Use{
			Runs:      5,
			Running:   1,
			Succeeded: 1,
			Failed:    2,
			Seconds:   1800,
			Spent:     view.Spent{Tokens: view.Tokens{Input: 60, Total: 60}},
		},
		Stopped: 2,
		Issues:  2,
	})
	test.Equal(t, "why ABC-1 failed", *f.Failed[0].Error, "turn_failed: why")
	test.Equal(t, "the failed hooks of ABC-4", []any{len(f.Hooks), f.Hooks[0].Identifier, *f.Hooks[0].Error},
		[]any{1, "ABC-4", "exit 1"})
}

// TestUses sums up runs by issue and model. The labels of all of them are those of the last.
func TestUses(t *testing.T) {
	run := func(issue, model, label string, outcome reconcile.Outcome) state.EndedRun {
		return state.EndedRun{
			Run: reconcile.Run{
				IssueID:    issue,
				Identifier: "ABC-" + issue,
				Issue:      reconcile.Issue{Title: label, Labels: []string{label}},
				Outcome:    outcome,
				Model:      model,
				Tokens:     reconcile.Tokens{Total: 10},
			},
			Runtime: time.Minute,
		}
	}
	uses := usesOf([]state.EndedRun{
		run("1", "m", "bug", reconcile.Stalled),
		run("1", "n", "bug", reconcile.Succeeded),
		run("2", "m", "ui", reconcile.Canceled),
		run("1", "m", "new", reconcile.Failed),
	})
	var got []modelUse
	for _, u := range uses {
		got = append(got, *u)
	}
	test.Equal(t, "uses", got, []modelUse{
		{
			IssueID:    "1",
			Identifier: "ABC-1",
			Title:      "new",
			Labels:     []string{"new"},
			Runs:       2,
			Failed:     2,
			Runtime:    2 * time.Minute,
			ModelUse:   reconcile.ModelUse{Model: "m", Tokens: reconcile.Tokens{Total: 20}},
		},
		{
			IssueID:    "1",
			Identifier: "ABC-1",
			Title:      "bug",
			Labels:     []string{"bug"},
			Runs:       1,
			Succeeded:  1,
			Runtime:    time.Minute,
			ModelUse:   reconcile.ModelUse{Model: "n", Tokens: reconcile.Tokens{Total: 10}},
		},
		{
			IssueID:    "2",
			Identifier: "ABC-2",
			Title:      "ui",
			Labels:     []string{"ui"},
			Runs:       1,
			Runtime:    time.Minute,
			ModelUse:   reconcile.ModelUse{Model: "m", Tokens: reconcile.Tokens{Total: 10}},
		},
	})
}

// Sums count an issue once, and a result in the group of each of its labels.
func TestResultSums(t *testing.T) {
	use := func(issue string, day int, labels ...string) state.ResultUse {
		return state.ResultUse{
			IssueID: issue,
			At:      time.Date(2026, 11, day, 2, 0, 0, 0, time.UTC),
			Labels:  labels,
			Runtime: time.Minute,
			Models:  []reconcile.ModelUse{{Tokens: reconcile.Tokens{Total: 10}}},
		}
	}
	for by, want := range map[string][]string{
		"":        {"all 2 issues, 3 results, 180 s, 30 tokens"},
		"label":   {"bug 1 issues, 2 results, 120 s, 20 tokens", "ui 1 issues, 1 results, 60 s, 10 tokens", " 1 issues, 1 results, 60 s, 10 tokens"},
		"day":     {"2026-11-21 2 issues, 2 results, 120 s, 20 tokens", "2026-11-20 1 issues, 1 results, 60 s, 10 tokens"},
		"project": {"web 1 issues, 2 results, 120 s, 20 tokens", "api 1 issues, 1 results, 60 s, 10 tokens"},
	} {
		sums := resultSums{by: by, groups: map[string]*countedSum{}}
		for _, r := range []struct {
			project string
			use     state.ResultUse
		}{
			{"web", use("1", 20, "bug", "ui")},
			{"web", use("1", 21, "bug")},
			{"api", use("1", 21)}, // another issue with the same id
		} {
			sums.add(r.project, r.use, view.Spend(reconcile.Prices{}, r.use.Models...))
		}
		groups := sums.sorted()
		if by == "" {
			groups = []ResultGroup{{Name: "all", ResultSum: sums.all.ResultSum}}
		}
		var got []string
		for _, g := range groups {
			got = append(got, fmt.Sprintf("%s %d issues, %d results, %g s, %d tokens",
				g.Name, g.Issues, g.Results, g.Seconds, g.Tokens.Total))
		}
		slices.Sort(got)
		slices.Sort(want)
		test.Equal(t, "by "+by, got, want)
	}
}

// The number of the first result is bounded: with the length of the list it would be no number
// any more, and the database would return all results.
func TestFirstResult(t *testing.T) {
	for from, valid := range map[string]bool{
		"0":                   true,
		"1000000000":          true,
		"-1":                  false,
		"9223372036854775807": false,
	} {
		_, err := ParseQuery(url.Values{"from": {from}}, time.Now())
		test.Equal(t, from+" is valid", err == nil, valid)
	}
}
