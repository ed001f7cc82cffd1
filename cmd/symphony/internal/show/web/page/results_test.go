package page

import (
	"net/url"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Whatever agents, the tracker and the reader have written is text, and each number leads to
// its list.
func TestResultsPage(t *testing.T) {
	const tag = `"><script>alert(1)</script>`
	row := report.ResultRow{
		Project: evil,
		Seconds: 501,
		Spent:   view.Spent{Cost: &view.Cost{Currency: "USD", Amount: 2.5}},
	}
	row.Outcome = state.ResultHeld
	row.Identifier = evil
	row.Title = evil
	row.Message = evil
	row.Words = evil
	row.Labels = []string{evil, "a&b"}
	row.At = moment
	row.Runs = 3
	row.Commits = 2
	merged := row
	merged.Outcome = state.ResultMerged
	merged.PullRequest = &state.PullRequest{PullRequest: reconcile.PullRequest{
		URL:    "https://example.com/pull/7",
		State:  "merged",
		Checks: "passed",
	}}
	linked := row
	linked.Links = []reconcile.Link{{Kind: "pull_request", URL: "javascript:alert(1)"}}
	found := report.ResultList{
		Total:   203,
		From:    100,
		Next:    new(103),
		Results: []report.ResultRow{row, merged, linked},
	}
	found.Totals = report.ResultSum{Issues: 190, Seconds: 7260, Spent: row.Spent}
	found.Groups = []report.ResultGroup{{Name: tag, ResultSum: found.Totals}, {ResultSum: found.Totals}}
	found.Counts = map[string]int{
		state.ResultHandedOver: 200,
		state.ResultMerged:     50,
		state.ResultHeld:       3,
	}
	choice := NewResultChoice(url.Values{
		"q":       {tag},
		"label":   {tag},
		"since":   {tag},
		"outcome": {"held"},
		"from":    {"100"},
		"by":      {"agent"},
	})
	main := string(Results{
		Choice:   choice,
		Found:    found,
		Projects: []string{"web", tag},
	}.Page().Main)
	test.Lacks(t, "the page", main, "<script", "<img", "\u202e", "\x1b", `href="javascript`, "style=")
	contains(
		t,
		main,
		"By agent",
		"190</dd>",
		"2h 1m",
		"&#34;&gt;&lt;script&gt;",
		"not known any more",
		"All <span class=\"count\">203<",
		"Held <span class=\"count\">3<",
		"2.50 USD",
		"24 Feb 2026",
		`href="https://example.com/pull/7" rel="noreferrer">#7</a> merged, checks passed`,
		"101 to 103 of 203",
		">later</a>",
		">earlier</a>",
	)
	plain := ResultChoice{Query: "a b", Outcome: "held"}
	test.Equal(t, "addresses", []string{
		plain.With("from", "100"), plain.With(), plain.With("outcome", "merged"), plain.With("label", "a&b"),
		plain.With("since", "2026-02-24", "until", "2026-02-24"), ResultChoice{}.With(),
		Results{Choice: plain, Found: report.ResultList{GeneratedAt: moment}}.LastDays(7),
		Results{Found: report.ResultList{GeneratedAt: moment}}.LastWeek(),
	},
		[]string{
			"/results?from=100&outcome=held&q=a+b",
			"/results?outcome=held&q=a+b",
			"/results?outcome=merged&q=a+b",
			"/results?label=a%26b&outcome=held&q=a+b",
			"/results?outcome=held&q=a+b&since=2026-02-24&until=2026-02-24", "/results",
			"/results?outcome=held&q=a+b&since=2026-02-18",
			"/results?since=2026-02-16&until=2026-02-22",
		})
	overview := string(Overview{Projects: []view.Overview{shop("web")}}.Page().Main)
	contains(t, overview, `href="/?status=held">1 held</a>`)
	contains(
		t,
		overview,
		`href="/results">all results</a>`,
		`href="/results?outcome=handed_over&amp;since=2026-02-24&amp;until=2026-02-24">13</a>`,
		`href="/?q=succeeded%3A&amp;status=ended"`,
	)
}
