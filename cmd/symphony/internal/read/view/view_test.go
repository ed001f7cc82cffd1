package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The specification's own wordings stand alone.
func TestErrorText(t *testing.T) {
	for _, c := range []struct{ code, message, want string }{
		{"", "", ""},
		{"turn_failed", "no luck", "turn_failed: no luck"},
		{"turn_failed", "", "turn_failed"},
		{"", reconcile.MessageNoSlot, reconcile.MessageNoSlot},
		{reconcile.CodeSpawnFailed, reconcile.MessageSpawnFailed, reconcile.MessageSpawnFailed},
		{"stalled", "stalled for 5m", "stalled for 5m"},
		{"stalled", "", "stalled"},
	} {
		test.Equal(t, c.code+", "+c.message, text.OrEmpty(ErrorText(c.code, c.message)), c.want)
	}
}

// Tokens of a model without a price, or of several models at once, are counted and not priced.
func TestCost(t *testing.T) {
	use := func(model string, millions int64) reconcile.ModelUse {
		return reconcile.ModelUse{
			Model:  model,
			Tokens: reconcile.Tokens{Input: millions * 1e6, Total: millions * 1e6},
		}
	}
	uses := []reconcile.ModelUse{
		use("a", 1),
		use("b", 2),
		use("", 3),
		use("a+b", 4),
		use("a+b", 5),
		{Model: "unused"},
	}
	if s := Spend(reconcile.Prices{}, uses...); s.Cost != nil || s.Tokens.Total != 15e6 {
		t.Errorf("without prices: %+v", s)
	}
	prices := reconcile.Prices{
		Currency: "EUR",
		Models:   map[string]reconcile.Price{"a": {Input: 10}},
	}
	if c := Spend(prices, uses...).Cost; c.Amount != 10 || c.Unpriced != 14e6 ||
		strings.Join(c.Models, " ") != "b "+unknownModel+" a+b" ||
		!c.Estimate {
		t.Errorf("one price: %+v", c)
	}
	prices.Models["default"] = reconcile.Price{Input: 1}
	if c := Spend(prices, uses...).Cost; c.Amount != 15 || c.Unpriced != 9e6 ||
		strings.Join(c.Models, " ") != "a+b" {
		t.Errorf("with a default: %+v", c)
	}
}

// Where a symlink leads is only in the summary of a request to change files.
func TestAsksMore(t *testing.T) {
	for _, c := range []struct {
		kind             reconcile.RequestKind
		summary, command string
		want             bool
	}{
		{reconcile.CommandRequest, "make all", "make\n all", false},
		{reconcile.CommandRequest, "with network: make", "make", true},
		{reconcile.FileChangeRequest, "add a", "", false},
		{reconcile.FileChangeRequest, "add a (leads to /etc/a)", "", true},
	} {
		r := reconcile.Request{
			Kind:    c.kind,
			Summary: c.summary,
			Detail:  reconcile.RequestDetail{Command: c.command},
		}
		test.Equal(t, c.summary, AsksMore(r), c.want)
	}
	cut := reconcile.Request{
		Kind:    reconcile.FileChangeRequest,
		Summary: "add a, add b",
		Detail:  reconcile.RequestDetail{Cut: 1},
	}
	test.Equal(t, "a patch that was cut", AsksMore(cut), true)
}

func TestJoinResults(t *testing.T) {
	read := func(outcomes map[reconcile.Outcome]int, cost *Cost, handover time.Duration) Overview {
		r := &Results{handovers: []time.Duration{handover}, Days: []ResultDay{{
			Date:       "2026-11-20",
			HandedOver: 1,
			Outcomes:   outcomes,
			Seconds:    2,
			Spent:      Spent{Tokens{Total: 10}, cost},
		}}}
		r.median()
		return Overview{Results: r}
	}
	cost := &Cost{Currency: "EUR", Estimate: true, Amount: 1.5, Unpriced: 1, Models: []string{"m"}}
	all := []Overview{
		{},
		read(map[reconcile.Outcome]int{reconcile.Failed: 1}, nil, time.Minute),
		read(map[reconcile.Outcome]int{
			reconcile.Failed:    1,
			reconcile.Succeeded: 2,
		}, cost, time.Hour),
		read(map[reconcile.Outcome]int{}, cost, 2*time.Hour),
		read(map[reconcile.Outcome]int{}, &Cost{Currency: "USD", Amount: 9}, 3*time.Hour),
	}
	want := ResultDay{
		Date:       "2026-11-20",
		HandedOver: 4,
		Outcomes:   map[reconcile.Outcome]int{reconcile.Failed: 2, reconcile.Succeeded: 2},
		Seconds:    8,
		Spent: Spent{Tokens{Total: 40}, &Cost{
			Currency: "EUR",
			Estimate: true,
			Amount:   3,
			Unpriced: 22,
			Models:   []string{"m"},
		}},
	}
	got := Join(all).Results
	test.Equal(t, "the days", got.Days, []ResultDay{want})
	if *got.Handover != 7200 || all[1].Results.Days[0].Outcomes[reconcile.Failed] != 1 || cost.Amount != 1.5 {
		t.Errorf("%v, %+v, %+v", *got.Handover, all[1].Results, cost)
	}
}

// Two projects are read one after the other, and midnight may be between them: each day is
// added to the day with its date.
func TestJoinResultsAtMidnight(t *testing.T) {
	read := func(handedOver map[string]int, dates ...string) Overview {
		r := &Results{}
		for _, date := range dates {
			r.Days = append(r.Days, ResultDay{Date: date, HandedOver: handedOver[date]})
		}
		return Overview{Results: r}
	}
	got := Join([]Overview{
		read(map[string]int{"2026-11-19": 1, "2026-11-20": 2}, "2026-11-19", "2026-11-20"),
		read(map[string]int{"2026-11-20": 10, "2026-11-21": 20}, "2026-11-20", "2026-11-21"),
	}).Results
	counts := text.Map(got.Days, func(d ResultDay) string { return fmt.Sprint(d.Date, ": ", d.HandedOver) })
	test.Equal(t, "the days", counts, []string{"2026-11-19: 1", "2026-11-20: 12"})
}

// The lists of claims have WEB-9 before WEB-10, whatever the order of their ids.
func TestClaimsAreSortedByNumber(t *testing.T) {
	f := Facts{}
	for i, name := range []string{"WEB-10", "WEB-9", "WEB-100"} {
		c := reconcile.Claim{
			IssueID:    string(rune('a' + i)),
			Identifier: name,
			Status:     reconcile.Held,
		}
		f.Recorded.Claims = append(f.Recorded.Claims, c)
	}
	got := text.Map(f.Claims().Held, func(r HeldRow) string { return r.Identifier })
	test.Equal(t, "the order", got, []string{"WEB-9", "WEB-10", "WEB-100"})
}
