package page

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// evil is what an agent or a tracker may write.
const evil = "<script>alert(1)</script> \"><img src=x onerror=alert(2)> {{.}} \x1b[31mred\x1b[0m " +
	"\u202etxt.exe \x00 \u2028 \xff &amp;"

// elements are all elements that the pages of an issue and a diff have.
var elements = strings.Fields(
	`a article blockquote br button caption code dd details div dl dt em fieldset form h1 h2 h3 header hr i input label legend li mark nav ol p path pre rect s section span
	strong summary svg table tbody td text textarea th thead time title tr ul`,
)

// checkHTML fails if the page has an element that is not of ours, an attribute that runs a
// script or opens an address that is not of the web, or a control character. It returns the
// text.
func checkHTML(t *testing.T, p Page) string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader("<main>" + string(p.Main) + "</main>"))
	d.Strict = false
	d.AutoClose = xml.HTMLAutoClose
	d.Entity = xml.HTMLEntity
	var seen strings.Builder
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return seen.String()
		}
		if err != nil {
			line, _ := d.InputPos()
			t.Fatalf("%v: %q", err, strings.Split(string(p.Main), "\n")[line-1])
		}
		switch token := token.(type) {
		case xml.StartElement:
			if name := token.Name.Local; name != "main" && !slices.Contains(elements, name) {
				t.Errorf("the element %s: %v", name, token.Attr)
			}
			for _, a := range token.Attr {
				scheme, _, found := strings.Cut(a.Value, ":")
				name := a.Name.Local
				switch {
				case strings.HasPrefix(name, "on"), name == "style", name == "src":
					t.Errorf("the attribute %s=%s", name, a.Value)
				case strings.Contains(a.Value, "ZgotmplZ"), name == "href" && found && !slices.Contains(
					[]string{"https", "http", "mailto"},
					strings.ToLower(scheme),
				):
					t.Errorf("the address %s", a.Value)
				}
				seen.WriteString(a.Value + "\n")
			}
		case xml.CharData:
			seen.Write(token)
		}
	}
}

// hostile is an issue in which an agent and the tracker have written what they can.
func hostile() Issue {
	run := "20260224T090000.000-aaaaaa"
	outcome := reconcile.Failed
	v := detail.Issue{
		GeneratedAt: moment.Add(time.Hour),
		Status:      reconcile.StatusHeld,
		Since:       &moment,
		Why:         detail.Why{Code: "held", Message: evil},
		Next:        detail.Next{Message: evil, NeedsPass: true},
		Issue: detail.KnownIssue{
			Identifier:  "ABC-1/../?<b>",
			Title:       new(evil),
			State:       new(evil),
			URL:         new("JavaScript:alert(1)"),
			Labels:      []string{evil},
			Description: new("# Task\n[x](javascript:alert(1)) " + evil),
			Assignee:    new(evil),
			BlockedBy:   []string{evil},
			Blocks:      []string{evil},
			Priority:    new(1),
		},
		Claim:    &detail.ClaimRow{Status: reconcile.Held, ErrorCode: "hook_failed"},
		Commands: []string{evil},
		Runs: []view.RunRow{{
			RunID:         run,
			Kind:          reconcile.AgentRun,
			Outcome:       &outcome,
			Error:         new(evil),
			AfterRunError: new(evil),
			StartedAt:     moment,
			EndedAt:       new(moment.Add(time.Minute)),
			Delivery:      &reconcile.DeliveryResult{Code: "delivery_failed", Message: evil},
		}},
		Timeline: []detail.Moment{
			{At: moment, Kind: detail.MomentHold, Name: evil, Text: evil},
			{At: moment, Kind: detail.MomentRequest, Name: evil, Result: evil, Text: evil},
			{At: moment, Kind: detail.MomentMessage, Name: evil, Text: evil},
			{
				At:     moment,
				Kind:   detail.MomentTurn,
				RunID:  &run,
				Name:   evil,
				Result: evil,
				Text:   evil,
			},
			{At: moment, Kind: detail.MomentRun, RunID: &run},
		},
		HookFailures: []detail.HookFailure{{Hook: evil, Output: []string{evil}}},
		Delivered: &reconcile.Delivered{
			Branch:      evil,
			Commit:      evil,
			At:          moment,
			PullRequest: "javascript:alert(1)",
		},
		Links:    []reconcile.Link{{URL: "data:text/html," + evil}, {URL: "https://example.com/\"><script>"}},
		ThreadID: new(evil),
		LogDir:   new(evil),
		Workspace: &detail.WorkspaceRow{
			Path: evil,
			Host: new(evil),
			Kept: &view.KeptRow{Unsaved: evil, IssueHead: view.IssueHead{Identifier: evil}},
			Git: &host.GitStatus{
				Branch:  new(evil),
				Base:    new(evil),
				Ahead:   new(1),
				Count:   1,
				Changed: []host.GitChange{{Status: evil, Path: evil}},
			},
		},
		Totals: view.Totals{Tokens: view.Tokens{Input: 3, Cached: 1, Output: 1, Total: 4}},
		Cost:   &view.Cost{Currency: evil, Unpriced: 1, Models: []string{evil}},
		Requests: []view.RequestRow{{
			ID:         "ABC-1.1",
			Identifier: "ABC-1",
			Kind:       reconcile.CommandRequest,
			Summary:    evil,
			Title:      evil,
			Request: reconcile.Request{
				Kind:    reconcile.CommandRequest,
				Summary: evil,
				Detail: reconcile.RequestDetail{
					Command: evil,
					Cwd:     evil,
					Reason:  evil,
					Changes: []reconcile.RequestChange{{Path: evil, Kind: evil, Diff: evil}},
				},
			},
		}},
	}
	detail := make([]string, 100_000)
	for n := range detail {
		detail[n] = evil
	}
	for _, l := range []eventlog.Line{
		{Kind: eventlog.Words, Text: evil},
		{
			Kind:   eventlog.Command,
			Status: eventlog.Failed,
			Text:   strings.Repeat("x", 1<<20),
			Ending: evil,
			Detail: []string{strings.Repeat("é", 1<<19)},
		},
		{Kind: eventlog.Command, Status: eventlog.Failed, Text: evil, Detail: detail},
		{Kind: eventlog.Unknown, Text: evil},
	} {
		l, _ = l.Short()
		v.Log = append(v.Log, l)
	}
	return Issue{Project: evil, Issue: v, MayAct: true, Details: true}
}

// What agents and trackers write appears as text on the page of an issue, and a long line is
// cut.
func TestHostileIssue(t *testing.T) {
	p := hostile().Page()
	seen := checkHTML(t, p)
	for _, r := range seen {
		if text.Control(r) && r != '\n' && r != '\t' {
			t.Errorf("the page has the character %U", r)
		}
	}
	test.Contains(
		t,
		"the page",
		seen,
		text.Visible(evil),
		"1022.0 KiB more",
		"é … 1023.7 KiB more",
		"The hook",
		"Needs you",
	)
	if size := len(p.Main); size > 100_000 {
		t.Errorf("the page has %d bytes", size)
	}
}

// A file of a diff has its lines without git's heads, of which it has what a reader needs.
func TestDiff(t *testing.T) {
	const diff = `diff --git a/src/a.go b/src/a.go
old mode 100644
new mode 100755
index 1..2
--- a/src/a.go
+++ b/src/a.go
@@ -8,2 +8,2 @@ func a() {
 same
-two
+<script>alert(1)</script>
\ No newline at end of file
diff --git "a/\303\244\t.txt" "b/\303\244\t.txt"
new file mode 100644
Binary files /dev/null and b/x differ
diff --git a/src/old.go "b/src/\303\244.go"
similarity index 90%
rename from src/old.go
rename to "src/\303\244.go"
# Not committed:
diff --git a/gone b/gone
new file mode 120000
`
	files := parseDiff(diff)
	var got strings.Builder
	for _, f := range files {
		fmt.Fprintf(&got, "%s %v %q +%d -%d\n", f.Change, f.NotCommitted, f.Path, f.Added, f.Removed)
		for _, l := range f.Lines {
			fmt.Fprintf(&got, "%-4s %d %d %s\n", l.Kind, l.Old, l.New, l.Text)
		}
	}
	const want = `changed false "src/a.go" +1 -1
note 0 0 old mode 100644
note 0 0 new mode 100755
hunk 0 0 @@ -8,2 +8,2 @@ func a() {
     8 8 same
del  9 0 two
add  0 9 <script>alert(1)</script>
note 0 0 No newline at end of file
added false "ä\t.txt" +0 -0
note 0 0 a binary file
renamed false "src/ä.go" +0 -0
added true "gone" +0 -0
note 0 0 a link to this path
`
	test.Equal(t, "the diff", got.String(), want)
	seen := checkHTML(t, Diff{
		Project: "web",
		Name:    evil,
		Text:    diff + "diff --git a/" + evil + " b/" + evil + "\n@@ -0,0 +1 @@\n+" + evil + "\n",
	}.Page())
	test.Contains(t, "the page", seen, text.Visible(evil), "5 files changed", "src/old.go → src/ä.go")
}

// A page shows the beginning of a long diff and shows how much it leaves out.
func TestLongDiff(t *testing.T) {
	const lines = 100_000
	text := fmt.Sprintf("diff --git a/x b/x\n@@ -0,0 +1,%d @@\n", lines) + strings.Repeat("+x\n", lines)
	files := parseDiff(strings.Repeat(text, 7))
	shown := 0
	for _, f := range files {
		shown += len(f.Lines)
		test.Equal(t, "shown and hidden lines", len(f.Lines)+f.Hidden, lines+1)
		test.Equal(t, "added lines", f.Added, lines)
	}
	if len(files) != 7 || shown != mostLines || len(files[0].Lines) != mostLinesOfFile {
		t.Error(len(files), shown)
	}
	test.Contains(t, "the page", checkHTML(t, Diff{
		Text: text,
		Cut:  true,
	}.Page()), "98001 more lines", "only the beginning")
}

// Whether an issue needs a person, by its status.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		v    detail.Issue
		tone string
		want string
	}{
		{detail.Issue{Status: reconcile.StatusNeedsAnswer}, "warn", "Needs you: the agent waits for an answer"},
		{detail.Issue{
			Status: reconcile.StatusRunning,
			Why:    detail.Why{Code: "running"},
		}, "info", "Running: it does not need you"},
		{detail.Issue{
			Status: reconcile.StatusRunning,
			Why:    detail.Why{Code: "ended"},
		}, "warn", "Running: it does not continue by itself"},
		{
			detail.Issue{
				Status:   reconcile.StatusWaiting,
				Schedule: true,
				Next:     detail.Next{NeedsPass: true, At: &moment},
			},
			"info", "Waiting: it continues by itself",
		},
		{detail.Issue{
			Status: reconcile.StatusWaiting,
			Next:   detail.Next{NeedsPass: true},
		}, "info", "Waiting: no schedule is active, so nothing starts it"},
		{detail.Issue{
			Status:   reconcile.StatusSkipped,
			Schedule: true,
			Why:      detail.Why{Code: reconcile.SkipPaused},
		}, "warn", "Not started: it does not continue by itself"},
		{detail.Issue{Status: reconcile.StatusHandedOver}, "good", "Handed over: nothing left to do here"},
		{
			detail.Issue{
				Status:   reconcile.StatusHandedOver,
				WaitsFor: &reconcile.Waits{Code: reconcile.WaitsReview, Text: "a review"},
			},
			"info", "In review: its pull request is watched",
		},
	} {
		c.v.Timeline = []detail.Moment{{At: moment, Kind: detail.MomentClaim, Name: "claimed"}}
		i := Issue{Project: "web", Issue: c.v}
		test.Equal(t, c.want, i.Verdict().Text, c.want)
		test.Equal(t, "its tone", i.Verdict().Tone, c.tone)
		test.Contains(t, "the page", checkHTML(t, i.Page()), c.want)
	}
}

// The times of log lines are those of symphony logs at the server, and the page names their
// zone.
func TestLogTimes(t *testing.T) {
	zone := time.Local
	t.Cleanup(func() { time.Local = zone })
	time.Local = time.FixedZone("EST", -5*3600)
	v := detail.Issue{
		Runs: []view.RunRow{{RunID: "20260224T090000.000-aaaaaa", Kind: reconcile.AgentRun}},
		Log: []eventlog.Line{{
			At:   time.Date(2026, 2, 24, 2, 4, 5, 67e6, time.UTC),
			Kind: eventlog.Words,
			Text: "go test",
		}},
	}
	page := string(Issue{Project: "web", Issue: v, Details: true}.Page().Main)
	test.Contains(
		t,
		"the page",
		page,
		`datetime="2026-02-24T02:04:05.067Z" title="2026-02-23 21:04:05 EST">21:04:05<`,
		"times in EST",
	)
}

// The page has the issue itself, its attempts side by side, and what operators told the agent.
func TestIssueFacts(t *testing.T) {
	one := "20260224T090000.000-aaaaaa"
	two := "20260224T100000.000-bbbbbb"
	ended := moment.Add(time.Minute)
	failed := reconcile.Failed
	i := Issue{Project: "web", MayAct: true, Issue: detail.Issue{
		GeneratedAt: moment.Add(time.Hour), Status: reconcile.StatusRunning, RunsKept: 2,
		Issue: detail.KnownIssue{
			Identifier:  "A-1",
			Description: new("Use `make`.\r\n"),
			Priority:    new(2),
			Assignee:    new("kim@example.com"),
			BlockedBy:   []string{"A-2", "X-1"},
			Recorded:    map[string]bool{"A-2": true},
			Blocks:      []string{"A-3"},
		},
		Runs: []view.RunRow{
			{
				RunID:     two,
				Kind:      reconcile.AgentRun,
				Attempt:   1,
				StartedAt: moment.Add(time.Hour),
				Turns:     2,
				Tokens:    view.Tokens{Total: 1234},
			},
			{
				RunID:     one,
				Kind:      reconcile.AgentRun,
				Outcome:   &failed,
				StartedAt: moment,
				EndedAt:   &ended,
				Delivery:  &reconcile.DeliveryResult{Commits: 3},
			},
		},
		Timeline: []detail.Moment{
			{
				At:   moment.Add(time.Hour),
				Kind: detail.MomentMessage,
				Name: "message of ann",
				Text: "use red",
			},
			{At: moment.Add(time.Hour), Kind: detail.MomentRun, RunID: &two},
			{At: moment, Kind: detail.MomentRun, RunID: &one},
			{
				At:     moment,
				Until:  &ended,
				Kind:   detail.MomentMessage,
				Name:   "message of ann",
				Result: "received",
				Text:   "use blue",
			},
		},
	}}
	html := string(i.Page().Main)
	test.Contains(
		t,
		"the page",
		html,
		"<dd>2</dd>",
		"kim@example.com",
		`<a href="/issues/web/A-2">A-2</a>, X-1`,
		`<a href="/issues/web/A-3">A-3</a>`,
		"<code>make</code>",
		`<form class="stack" method="post" action="/api/v1/A-1/tell?project=web">`,
		"<strong>Message of ann</strong>",
		"Message of ann received",
		"use red",
	)
	_, attempts, _ := strings.Cut(html, ">Attempts</h2>")
	attempts, _, _ = strings.Cut(attempts, "</table>")
	test.Contains(
		t,
		"the attempts",
		attempts,
		"Another run in progress",
		"Run failed",
		"1m",
		">1234<",
		">3<",
	)
	i.Runs = i.Runs[:1]
	i.MayAct = false
	html = string(i.Page().Main)
	test.Lacks(t, "one run without the token", html, ">Attempts</h2>", "/tell?")
	test.Contains(t, "without the token", html, "symphony tell A-1 TEXT")
	i.Status = reconcile.StatusHandedOver
	test.Lacks(t, "an issue without a next run", string(i.Page().Main), "Tell the agent")
}

// While a run goes on, its page changes with its facts alone, not with the time.
func TestRunningIssue(t *testing.T) {
	run := "20260224T090000.000-aaaaaa"
	draw := func(now time.Time) string {
		seconds := now.Sub(moment).Seconds()
		took := now.Sub(moment).Milliseconds()
		return string(Issue{Project: "web", Issue: detail.Issue{
			GeneratedAt: now,
			Status:      reconcile.StatusRunning,
			Why:         detail.Why{Code: "running", Message: "turn 2, go test"},
			Since:       &moment,
			Claim:       &detail.ClaimRow{Status: reconcile.Running, ClaimedAt: moment},
			Totals:      view.Totals{Seconds: seconds},
			RunsKept:    1,
			Runs: []view.RunRow{{
				RunID:     run,
				Kind:      reconcile.AgentRun,
				StartedAt: moment,
				Turns:     2,
			}},
			Log: []eventlog.Line{{
				At:         moment.Add(8 * time.Second),
				Kind:       eventlog.Command,
				Status:     eventlog.Running,
				Text:       "go test",
				DurationMS: &took,
			}},
			Timeline: []detail.Moment{
				{
					At:    moment.Add(4 * time.Second),
					Kind:  detail.MomentTurn,
					RunID: &run,
					Name:  "turn 2",
				},
				{
					At:     moment,
					Until:  new(moment.Add(2 * time.Second)),
					Kind:   detail.MomentTurn,
					RunID:  &run,
					Name:   "turn 1",
					Result: "completed",
				},
				{At: moment, Kind: detail.MomentRun, RunID: &run},
				{At: moment, Kind: detail.MomentClaim, Name: "claimed"},
			},
		}}.Page().Main)
	}
	first := draw(moment.Add(5*time.Minute + 10*time.Second))
	test.Equal(t, "the page 40 seconds later", draw(moment.Add(5*time.Minute+50*time.Second)), first)
	test.Contains(
		t,
		"the page",
		first,
		`completed</span> <span class="soft">2s`,
		"in progress",
		">5m<",
		"go test",
	)
}
