package page

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// What an agent writes appears as text on the page of its run, and the page of a long log
// stays small.
func TestHostileRun(t *testing.T) {
	r := Run{Of: hostile(), RunID: "20260224T090000.000-aaaaaa", Query: ""}
	long := strings.Split(strings.Repeat(evil+"\n", 20_000), "\n")
	for n, kind := range []eventlog.Kind{
		eventlog.Words,
		eventlog.Command,
		eventlog.Change,
		eventlog.Call,
		eventlog.Prompt,
		eventlog.Request,
		eventlog.Fault,
		eventlog.Note,
		eventlog.Unknown,
	} {
		for _, said := range []string{
			evil,
			strings.Repeat("x", 10<<20),
			strings.Repeat("[**`", 1<<20),
			"reasoning: " + evil,
		} {
			l := eventlog.Line{
				At:     moment.Add(time.Duration(n) * time.Second),
				Kind:   kind,
				Text:   said,
				Detail: long,
				Ending: evil,
				Minor:  true,
			}
			r.Lines = append(r.Lines, l)
		}
	}
	p := r.Page()
	seen := checkHTML(t, p)
	for _, c := range seen {
		if text.Control(c) && c != '\n' && c != '\t' {
			t.Errorf("the page has the character %U", c)
		}
	}
	test.Contains(t, "the page", seen, text.Visible(evil), "reasoning", "20001 lines", "MiB more")
	if size := len(p.Main); size > 500_000 {
		t.Errorf("the page has %d bytes", size)
	}
	r.Query = "<SCRIPT>"
	test.Contains(t, "the search", checkHTML(t, r.Page()), text.Visible(evil))
}

// A run of 300 commands: what is open, what a search finds, and what failed.
func TestRun(t *testing.T) {
	id := "20260224T090000.000-aaaaaa"
	end := moment.Add(5 * time.Minute)
	r := Run{RunID: id, Of: Issue{Project: "web", Issue: detail.Issue{
		Issue: detail.KnownIssue{Identifier: "ABC-1"},
		Runs: []view.RunRow{
			{
				RunID:     id,
				Kind:      reconcile.AgentRun,
				StartedAt: moment.Add(time.Minute),
				EndedAt:   &end,
				Attempt:   2,
			},
			{
				RunID:     "before",
				Kind:      reconcile.AgentRun,
				StartedAt: moment,
				EndedAt:   new(moment.Add(30 * time.Second)),
				Outcome:   new(reconcile.Failed),
			},
		},
		Timeline: []detail.Moment{
			{
				At:     moment.Add(2 * time.Minute),
				Until:  &end,
				Kind:   detail.MomentTurn,
				Name:   "turn 1",
				Result: "completed",
				RunID:  &id,
			},
			{
				At:    moment.Add(2 * time.Minute),
				Kind:  detail.MomentRequest,
				Name:  "ABC-1.1",
				RunID: &id,
			},
		},
	}}}
	for n := range 300 {
		l := eventlog.Line{
			At:         moment.Add(time.Duration(n) * time.Second),
			Kind:       eventlog.Command,
			Status:     eventlog.Succeeded,
			Text:       fmt.Sprintf("go test ./p%d", n),
			DurationMS: new(int64(500)),
		}
		if n%100 == 50 {
			l.Status = eventlog.Failed
			l.Ending = "exit 1"
		}
		for i := range 20 {
			l.Detail = append(l.Detail, fmt.Sprintf("output %d of %d", i, n))
		}
		r.Lines = append(r.Lines, l)
	}
	count := func(r Run, pattern string) int {
		return len(regexp.MustCompile(pattern).FindAllString(string(r.Page().Main), -1))
	}
	test.Equal(t, "commands", count(r, `<li id="line-`), 300)
	test.Equal(t, "open ones", count(r, `<details [^>]*open>`), 3)
	test.Equal(
		t,
		"links to the whole output",
		count(r, `href="log\?run=`+id+`&amp;line=line-\d+-1">All 20 lines<`),
		300,
	)
	test.Equal(t, "commands on the axis", count(r, `<rect class="(good|bad)" x="[\d.]+" y="18"`), 300)
	for _, bar := range []string{
		`<rect class="bad" x="0.0" y="0" width="100.0" height="7"><title>Run failed, 30s`,
		`<rect class="wait" x="100.0" y="0" width="100.0" height="7"><title>waited, 30s`,
		`<rect class="active" x="200.0" y="0" width="800.0" height="7"><title>Another run in progress, 4m`,
		`<rect class="good" x="400.0" y="9" width="600.0" height="7"><title>turn 1 completed, 3m`,
		`<rect class="warn" x="400.0" y="27" width="600.0"`,
	} {
		test.Contains(t, "the axis", string(r.Page().Main), bar)
	}
	// The work goes on after the last line of this run.
	r.Of.GeneratedAt = moment.Add(10 * time.Minute)
	r.Of.Runs[0].EndedAt = nil
	test.Contains(t, "the axis", string(r.Page().Main), `<rect class="active" x="100.0" y="0" width="900.0"`)
	r.Of.Runs[0].EndedAt = &end
	whole, ok := Detail(r.Lines, fmt.Sprintf("line-%d-1", r.Lines[7].At.UnixNano()))
	test.Equal(
		t,
		"the whole output",
		ok && strings.HasPrefix(whole, "output 0 of 7\n") && strings.HasSuffix(whole, "output 19 of 7"),
		true,
	)
	r.Failures = true
	test.Equal(t, "failures", count(r, `<li id="line-`), 3)
	r.Failures = false
	r.Query = "OUTPUT 3 of 77"
	test.Equal(
		t,
		"lines with the text",
		count(r, `<li id="line-[^>]*><a [^>]*><time[^<]*</time></a><details [^>]*open>`),
		1,
	)
	test.Contains(t, "the page", string(r.Page().Main), "<pre>output 3 of 77</pre>")
	for range 10 {
		r.Lines = append(r.Lines, r.Lines[:300]...)
	}
	r.Query = ""
	test.Equal(t, "lines of a long run", count(r, `<li id="line-`), mostItems)
	test.Contains(t, "the page", string(r.Page().Main), "2300 earlier lines")
}

// The patch of a request is shown with each line of it, and the words are marked in which
// lines differ.
func TestBlocks(t *testing.T) {
	draw := func(c reconcile.RequestChange) string {
		return string(draw(fragments(), "diff-lines", newDiffLines("a", changeBlocks(c), false)))
	}
	html := draw(reconcile.RequestChange{
		Kind: "update",
		Diff: "@@ -1 +1 @@\n-return a - b\n-gone\n+return a + b\n+all is new here, nothing " +
			"stays\n+rm -rf /\n hidden?\nhidden?",
	})
	test.Contains(
		t,
		"the patch",
		html,
		`<div class="del"><code>return a <mark>-</mark> b</code></div><div class="del"><code>gone</code></div>`,
		`<div class="add"><code>return a <mark>+</mark> b</code></div><div class="add"><code>all is `+
			`new here, nothing stays</code></div><div class="add"><code>rm -rf /</code></div>`,
	)
	test.Equal(t, "lines that no head counts", strings.Count(html, "<code>hidden?</code>"), 2)
	test.Contains(
		t,
		"lines that look like the head of a file",
		draw(reconcile.RequestChange{Diff: "@@ -1 +1 @@\ndiff --git a/x b/x\n--- a/x\nindex 1\n+rm -rf /"}),
		`<code>diff --git a/x b/x</code>`,
		`<code>--- a/x</code>`,
		`<code>index 1</code>`,
		`<div class="add"><code>rm -rf /</code></div>`,
	)
	test.Contains(t, "a new file", draw(reconcile.RequestChange{
		Kind: "add",
		Diff: "+- a: 1\n+  b: 2\n",
	}),
		`<div class="add"><code>- a: 1</code></div><div class="add"><code>  b: 2</code></div>`)
}
