package report

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
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
	}{
		{"", "", "2026-11-19T20:30:00+01:00", "2026-11-20T08:30:00+01:00"},
		{"90m", "", "2026-11-20T07:00:00+01:00", "2026-11-20T08:30:00+01:00"},
		{"7d", "", "2026-11-13T08:30:00+01:00", "2026-11-20T08:30:00+01:00"},
		{"2026-11-01", "", "2026-11-01T00:00:00+01:00", "2026-11-20T08:30:00+01:00"},
		{"2026-11-01", "2026-11-03", "2026-11-01T00:00:00+01:00", "2026-11-04T00:00:00+01:00"},
		// today is not over
		{"2026-11-01", "2026-11-20", "2026-11-01T00:00:00+01:00", "2026-11-20T08:30:00+01:00"},
		{"", "2026-11-18T06:00:00Z", "2026-11-17T19:00:00+01:00", "2026-11-18T07:00:00+01:00"},
		{"3h", "1h", "2026-11-20T05:30:00+01:00", "2026-11-20T07:30:00+01:00"},
	} {
		got, err := ParsePeriod(c.since, c.until, now)
		if err != nil || got.Since.In(berlin).Format(time.RFC3339) != c.from ||
			got.Until.In(berlin).Format(time.RFC3339) != c.to {
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

// Sums count an issue once, and a result for the agent of its last run.
func TestResultSums(t *testing.T) {
	use := func(issue string, day int, agent reconcile.Agent) state.ResultUse {
		return state.ResultUse{
			IssueID: issue,
			At:      time.Date(2026, 11, day, 2, 0, 0, 0, time.UTC),
			Agent:   agent,
			Runtime: time.Minute,
			Models:  []reconcile.ModelUse{{Tokens: reconcile.Tokens{Total: 10}}},
		}
	}
	codex := reconcile.Agent{Kind: "codex", Home: "/a"}
	for by, want := range map[string][]string{
		"":        {"all 2 issues, 3 results, 180 s, 30 tokens"},
		"agent":   {"codex of /a 1 issues, 2 results, 120 s, 20 tokens", " 1 issues, 1 results, 60 s, 10 tokens"},
		"day":     {"2026-11-21 2 issues, 2 results, 120 s, 20 tokens", "2026-11-20 1 issues, 1 results, 60 s, 10 tokens"},
		"project": {"web 1 issues, 2 results, 120 s, 20 tokens", "api 1 issues, 1 results, 60 s, 10 tokens"},
	} {
		sums := resultSums{by: by, groups: map[string]*countedSum{}}
		for _, r := range []struct {
			project string
			use     state.ResultUse
		}{
			{"web", use("1", 20, codex)},
			{"web", use("1", 21, codex)},
			{"api", use("1", 21, reconcile.Agent{})}, // another issue with the same id
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
