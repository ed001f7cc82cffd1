package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// TestRows checks the order of the rows, and that each says what happens.
func TestRows(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	failed := "delivery_failed: the remote is gone"
	v := Overview{
		Claims: Claims{
			Running: []RunningRow{
				{IssueID: "10", Identifier: "WEB-10", RunID: "r10", Alive: true, Activity: "go test ./..."},
				{IssueID: "9", Identifier: "WEB-9", RunID: "r9", Alive: true, Phase: reconcile.PreparingWorkspace},
				{IssueID: "11", Identifier: "WEB-11", RunID: "r11", Alive: true},
			},
			Retrying: []RetryingRow{
				{IssueID: "3", Identifier: "WEB-3", Kind: reconcile.NoSlot, DueAt: now},
				{IssueID: "4", Identifier: "WEB-4", Kind: reconcile.DeliveryFailed, Error: &failed},
			},
			Held:        []HeldRow{{IssueID: "2", Identifier: "WEB-2", Reason: reconcile.HoldOperator, Message: "by an operator"}},
			Undelivered: []UndeliveredRow{{IssueID: "4", Error: &failed, Since: &now}},
		},
		Requests:     []RequestRow{{ID: "WEB-11.1", RunID: "r11", Summary: "npm install", AskedAt: now}},
		Skipped:      []state.StoredSkip{{Skip: reconcile.Skip{IssueID: "1", Identifier: "WEB-1", Reason: reconcile.SkipLabel, Message: "lacks the label x"}}},
		Ended:        []RunRow{{issueID: "8", Kind: reconcile.AgentRun, Identifier: "WEB-8", Outcome: new(reconcile.Succeeded)}},
		PullRequests: []state.PullRequest{{IssueID: "9", PullRequest: reconcile.PullRequest{URL: "https://example.com/pull/1"}}},
	}
	rows := v.rows(facts{p: &project.Project{Path: "/home/ann/web-shop/WORKFLOW.md"}})
	var got []string
	for _, r := range rows {
		got = append(got, strings.Join([]string{r.Project, string(r.Status), r.Identifier, r.Text, deref(r.PullRequest)}, " | "))
	}
	want := []string{
		"web-shop | asks | WEB-11 | npm install | ",
		"web-shop | held | WEB-2 | by an operator | ",
		"web-shop | undelivered | WEB-4 | the remote is gone | ",
		"web-shop | running | WEB-9 | preparing workspace | https://example.com/pull/1",
		"web-shop | running | WEB-10 | go test ./... | ",
		"web-shop | waiting | WEB-3 | no slot is free | ",
		"web-shop | skipped | WEB-1 | it lacks the label x | ",
		"web-shop | ended | WEB-8 | succeeded | ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	v.Rows, v.Schedule = rows, true
	if got := v.Verdict(); got.Level != LevelNeedsPerson || strings.Join(got.Reasons, "; ") != "1 request to answer; 1 held; 1 undelivered" {
		t.Errorf("%+v", got)
	}
	v.Schedule = false
	if got := v.Verdict(); got.Level != LevelNotTicking {
		t.Errorf("%+v", got)
	}
	if got := (Overview{Schedule: true, Blocked: &project.BlockedRow{Reason: "agent_quota"}}).Verdict(); got.Level != LevelWell {
		t.Errorf("%+v", got)
	}
}
