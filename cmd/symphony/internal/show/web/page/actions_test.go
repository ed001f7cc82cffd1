package page

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// What a request shows of a hostile agent, and its forms, with and without the token.
func TestRequestForm(t *testing.T) {
	command := view.RequestRow{
		ID:         "ABC-1.2",
		Identifier: "ABC-1",
		Title:      "<script>alert(1)</script>",
		Kind:       reconcile.CommandRequest,
		Summary:    "rm -rf \u202e/ <b>",
		Outside:    true,
		ExpiresAt:  time.Date(2026, 2, 24, 20, 15, 0, 0, time.UTC),
		Request: reconcile.Request{
			Identifier: "ABC-1", Number: 2, Kind: reconcile.CommandRequest, Summary: "network: rm",
			Detail: reconcile.RequestDetail{
				Command: "rm \\\n\t-rf \x1b[31m/ <b>",
				Cwd:     "/srv/\u202e",
				Reason:  "why?",
				Cut:     7,
			},
		},
	}
	question := command
	question.Kind = reconcile.QuestionRequest
	question.Request.Kind = reconcile.QuestionRequest
	question.Request.Detail = reconcile.RequestDetail{Questions: []reconcile.RequestQuestion{
		{
			Text: "Which <b>?",
			Options: []reconcile.RequestOption{{
				Label:       "Red \"x\"",
				Description: "warm",
			}, {Label: "Blue"}},
		},
		{Text: "Word", Secret: true},
		{Text: "Own", Options: []reconcile.RequestOption{{Label: "A"}}, Other: true},
		{Text: "Some", Options: []reconcile.RequestOption{{Label: "A"}}, Several: true},
		{Text: "Many", Type: "integer", Optional: true},
		{Text: "Story"},
	}}
	change := command
	change.Kind = reconcile.FileChangeRequest
	change.Request.Detail = reconcile.RequestDetail{Changes: []reconcile.RequestChange{{
		Path: "a\x07b",
		Kind: "update",
		Diff: "@@ -1 +1 @@\n-<old>\n+new\x1b]0;x\x07\n",
	}}}
	for _, c := range []struct {
		name   string
		row    view.RequestRow
		mayAct bool
		want   string // separated by bars
	}{
		{
			"command",
			command,
			true,
			`action="/api/v1/ABC-1.2/approve?project=web%26x%3Dy"|name="for_session" ` +
				`value="true"|/deny?project=|name="reason"|name="back" value="/?q=a"` +
				`|runs outside the sandbox|<code>rm \` + "\n\t" + `-rf \x1b[31m/ &lt;b&gt;</code>|/srv/\x202e|why?|7 more bytes|&lt;script&gt;|datetime="2026-02-24T20:15:00Z"|rm -rf \x202e/ &lt;b&gt;</p>`,
		},
		{
			"command, reading",
			command,
			false,
			`-rf \x1b[31m/|<a href="/login">enter the token</a>|symphony approve ABC-1.2 | symphony deny ABC-1.2`,
		},
		{
			"question",
			question,
			true,
			`action="/api/v1/ABC-1.2/tell?|name="questions" value="6"|has 6 questions|Which &lt;b&gt;?` +
				`|type="radio" name="answer-0" value="Red &#34;x&#34;" ` +
				`required|warm|type="password" name="text-1" autocomplete="off" required` +
				`|type="radio" name="answer-2" value="A">|Another answer <input ` +
				`name="text-2"|type="checkbox" name="answer-3" value="A">` +
				`|type="number" step="1" name="text-4">|<textarea name="text-5" rows="2" required>|/deny?`,
		},
		{"question, reading", question, false, "Red &#34;x&#34;|Story|symphony tell ABC-1.2"},
		{
			"change",
			change,
			true,
			`wants to change files|<div class="lines sides" tabindex="0" role="region" ` +
				`aria-label="a\x07b">|<code>a\x07b</code>|<div class="hunk"><code>@@ -1 +1 ` +
				`@@</code></div>|<div class="del"><code>&lt;old&gt;</code></div><div ` +
				`class="add"><code>new\x1b]0;x\x07</code>`,
		},
	} {
		forms := Forms{Project: "web&x=y", Back: "/?q=a", MayAct: c.mayAct}
		html := string(draw(fragments(), "request", forms.Request(c.row)))
		for _, want := range strings.Split(strings.ReplaceAll(c.want, " | ", " \x00 "), "|") {
			test.Contains(t, c.name, html, strings.ReplaceAll(want, " \x00 ", " | "))
		}
		if strings.Contains(html, "<form") != c.mayAct || strings.Contains(html, "<input") && !c.mayAct ||
			strings.Contains(html, " style=") ||
			strings.Contains(html, "ZgotmplZ") {
			t.Errorf("%s: %s", c.name, html)
		}
	}
}

// Only what has an effect is offered.
func TestIssueForm(t *testing.T) {
	for status, want := range map[view.Status]string{
		reconcile.StatusNeedsAnswer: "stop hold",
		reconcile.StatusRunning:     "stop hold",
		reconcile.StatusHeld:        "retry",
		reconcile.StatusUndelivered: "retry",
		reconcile.StatusQueued:      "retry hold",
		reconcile.StatusBlocked:     "hold",
		reconcile.StatusWaiting:     "retry hold",
		reconcile.StatusSkipped:     "hold",
		detail.StatusReady:          "retry hold",
		view.StatusStuck:            "hold",
		view.StatusKept:             "",
		view.StatusEnded:            "",
		reconcile.StatusHandedOver:  "done",
		detail.StatusReleased:       "",
		detail.StatusUnknown:        "",
	} {
		form := IssueForm{
			Forms:      Forms{Project: "web", Back: "/", MayAct: true},
			Identifier: "a/b c",
			Row:        operate.Row{Status: status, Claimed: true},
		}
		test.Equal(t, string(status), strings.Join(form.Buttons(), " "), want)
		html := string(draw(fragments(), "issue-actions", form))
		for _, verb := range []string{"stop", "retry", "hold", "done"} {
			has := strings.Contains(html, `action="/api/v1/a%2Fb%20c/`+verb+`?project=web"`)
			test.Equal(t, string(status)+" "+verb, has, slices.Contains(form.Buttons(), verb))
		}
		form.MayAct = false
		if html := string(draw(fragments(), "issue-actions", form)); strings.Contains(html, "<form") ||
			strings.Contains(html, "/login") != (want != "") {
			t.Errorf("%s: %s", status, html)
		}
	}
	stays := IssueForm{
		Forms:      Forms{MayAct: true},
		Identifier: "A-1",
		Row:        operate.Row{Status: reconcile.StatusRunning, Claimed: true, HeldNext: true},
	}
	test.Equal(t, "held after its run", strings.Join(stays.Buttons(), " "), "retry stop")
	test.Contains(t, "the button", string(draw(fragments(), "issue-actions", stays)), "Do not hold")
}
