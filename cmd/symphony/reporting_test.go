package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

func TestTimeOfAReport(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	now := time.Date(2026, 11, 20, 8, 30, 0, 0, berlin)
	for _, test := range []struct {
		since, until, from, to string
		present                bool
	}{
		{"", "", "2026-11-19T20:30:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"90m", "", "2026-11-20T07:00:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"7d", "", "2026-11-13T08:30:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"2026-11-01", "", "2026-11-01T00:00:00+01:00", "2026-11-20T08:30:00+01:00", true},
		{"2026-11-01", "2026-11-03", "2026-11-01T00:00:00+01:00", "2026-11-04T00:00:00+01:00", false},
		{"2026-11-01", "2026-11-20", "2026-11-01T00:00:00+01:00", "2026-11-20T08:30:00+01:00", true}, // today is not over
		{"", "2026-11-18T06:00:00Z", "2026-11-17T19:00:00+01:00", "2026-11-18T07:00:00+01:00", false},
		{"3h", "1h", "2026-11-20T05:30:00+01:00", "2026-11-20T07:30:00+01:00", false},
	} {
		got, err := view.NewWindow(test.since, test.until, now)
		if err != nil || got.Since.In(berlin).Format(time.RFC3339) != test.from || got.Until.In(berlin).Format(time.RFC3339) != test.to || got.Present != test.present {
			t.Errorf("--since %q --until %q: %+v, %v", test.since, test.until, got, err)
		}
	}
	for _, bad := range [][2]string{{"-1h", ""}, {"1.5d", ""}, {"d", ""}, {"99999999999d", ""}, {"40000d", ""}, {"2026-13-01", ""}, {"", "noon"}, {"0s", ""}, {"2026-11-21", ""}} {
		var e *reconcile.Error
		if got, err := view.NewWindow(bad[0], bad[1], now); !errors.As(err, &e) || e.Code != "usage" {
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
	got, err := view.NewWindow("2026-04-24", "2026-04-24", time.Date(2026, 11, 20, 8, 30, 0, 0, cairo))
	if err != nil || term.Rfc3339(got.Since) != "2026-04-23T22:00:00Z" || term.Rfc3339(got.Until) != "2026-04-24T21:00:00Z" {
		t.Errorf("it is from %s to %s, %v", term.Rfc3339(got.Since), term.Rfc3339(got.Until), err)
	}
}

func TestEstimatesOfMoney(t *testing.T) {
	use := func(model string, millions int64) state.ModelUse {
		return state.ModelUse{Model: model, Tokens: reconcile.Tokens{Input: millions * 1e6, Total: millions * 1e6}}
	}
	uses := []state.ModelUse{use("a", 1), use("b", 2), use("", 3), use("a+b", 4), use("a+b", 5), {Model: "nothing used"}}
	if m := (view.Purse{}).Of(uses); m != nil || view.CostCell(m) != "" {
		t.Errorf("without prices: %+v", m)
	}
	one := view.Purse{Prices: workflow.Prices{Currency: "EUR", Models: map[string]workflow.Price{"a": {Input: 10}}}}
	if m := one.Of(uses); m.Amount != 10 || m.Unpriced != 14e6 || strings.Join(m.Models, " ") != "b "+view.UnknownModel+" a+b" || view.CostCell(m) != "10.00+" || !m.Estimate {
		t.Errorf("one price: %+v", m)
	}
	// Of a run that several models worked for nobody knows which of them used how much.
	one.Prices.Models["default"] = workflow.Price{Input: 1}
	if m := one.Of(uses); m.Amount != 15 || m.Unpriced != 9e6 || strings.Join(m.Models, " ") != "a+b" {
		t.Errorf("with a default: %+v", m)
	}
	if m := one.Of(uses[:1]); view.CostCell(m) != "10.00" {
		t.Errorf("the cell is %q", view.CostCell(m))
	}
}

// One issue was let go and is claimed again, one lost its label, one only ran; what others wrote is no formula.
func TestReportOfEveryKindOfIssue(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	tokens := state.ModelUse{Model: "m", Tokens: reconcile.Tokens{Input: 10, Total: 10}}
	release := func(n, reason, to string) state.Release {
		return state.Release{
			IssueID: n, Identifier: "ABC-" + n, Title: "=HYPERLINK(1)", Reason: reason, From: "Todo", To: to, At: at, Runs: 1, Models: []state.ModelUse{tokens},
			Links: []reconcile.Link{{Kind: "attachment", URL: "https://b"}, {Kind: "pull_request", URL: "https://a"}}, Created: map[string]int{},
		}
	}
	r := state.Report{
		Since: at.Add(-time.Hour), Until: at.Add(time.Hour),
		Releases: []state.Release{release("1", reconcile.StopInactive, "Human Review"), release("2", reconcile.StopLabel, "Todo"), release("3", reconcile.StopMissing, "")},
		Uses:     []state.RunUse{{IssueID: "1", Identifier: "ABC-1", Runs: 2, Succeeded: 1, Failed: 1, ModelUse: tokens}, {IssueID: "4", Identifier: "ABC-4", Runs: 3, ModelUse: tokens}},
		Failures: []state.Failure{{IssueID: "1", Identifier: "ABC-1", Runs: 1, Code: "turn_failed", Text: "why", At: at}},
	}
	claims := []state.Standing{
		{Claim: reconcile.Claim{IssueID: "1", Identifier: "ABC-1", Status: reconcile.Running, RunID: "r"}, StartedAt: at, ModelUse: tokens},
		{Claim: reconcile.Claim{IssueID: "5", Identifier: "ABC-5", Status: reconcile.Running}}, // its run has ended
	}
	f := view.NewFacts(r, claims, view.Purse{}, at.Add(30*time.Minute))
	f.AddAccount(project.BlockedRow{Since: at, Reason: "agent_quota", Message: "used up"}, view.Window{Until: r.Until})
	f.AddAccount(project.BlockedRow{Since: at, Reason: "agent_quota", Message: "used up"}, view.Window{Until: r.Until})
	if len(f.HandedOver) != 1 || len(f.LetGo) != 2 || *f.Failed[0].Now != "running" || len(f.Running) != 1 || len(f.Outages) != 1 {
		t.Errorf("%+v", f)
	}
	if tot := f.Totals; tot.Runs != 5 || tot.Succeeded != 1 || tot.Failed != 1 || tot.Stopped != 3 || tot.Running != 1 || tot.Issues != 2 || tot.Tokens.Total != 30 || tot.Seconds != 1800 {
		t.Errorf("totals are %+v", tot)
	}
	page := &bytes.Buffer{}
	w := &term.Env{Stdout: page, Now: func() time.Time { return at }}
	if err := render.PrintFacts(w, f); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"let go\tABC-2\tTodo\tTodo (label)\t", "let go\tABC-3\tTodo\tmissing\t", "outages\tagent_quota\t2026-11-20T02:00:00Z\t\tused up\n"} {
		if !strings.Contains(page.String(), line) {
			t.Errorf("%q is missing in\n%s", line, page)
		}
	}
}

// Lists are never null, whatever there is.
func TestEmptyReportHasNoNullLists(t *testing.T) {
	raw, err := json.Marshal(view.NewFacts(state.Report{}, nil, view.Purse{}, time.Time{}))
	if err != nil || strings.Contains(string(raw), ":null,\"failed") {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	for key, v := range m {
		if v == nil {
			t.Errorf("%s is null", key)
		}
	}
}

// A long list ends on a terminal, and says so; figures stand below each other.
func TestLongReportEndsOnATerminal(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	r := state.Report{Since: at, Until: at.Add(time.Hour)}
	for n := range 12 {
		use := state.ModelUse{Tokens: reconcile.Tokens{Input: int64(n) * 123_456, Total: int64(n) * 123_456}}
		r.Uses = append(r.Uses, state.RunUse{IssueID: string(rune('a' + n)), Identifier: "ABC-" + strings.Repeat("1", n%3+1), Runs: n, ModelUse: use})
		r.Failures = append(r.Failures, state.Failure{IssueID: string(rune('a' + n)), Identifier: "ABC", Runs: n * 10, At: at})
	}
	page := &bytes.Buffer{}
	w := &term.Env{Stdout: page, Width: 100, Now: func() time.Time { return at }}
	if err := render.PrintFacts(w, view.NewFacts(r, nil, view.Purse{}, at)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  ISSUE  RUNS  LAST     NOW  ERROR\n", "  ABC       0  0ms ago\n", "  ABC      90  0ms ago\n", "  and 2 more: symphony report --json\n",
		"  2 more\n", "  12 issues    66     0       0   0ms  8.15M       0       0          0  8.15M\n", "  ABC-111      11     0       0   0ms  1.36M",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
}

func TestCountsOnATerminal(t *testing.T) {
	w := &term.Env{Width: 80}
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10.0k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k", 999_500: "1.00M", 9_994_999: "9.99M", 9_995_000: "10.0M", 2_000_000_000_000_000: "2000T"} {
		if got := render.CountText(w, n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := render.CountText((&term.Env{}), 123456); got != "123456" {
		t.Errorf("in a pipe it is %s", got)
	}
}
