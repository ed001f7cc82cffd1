package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

var now = time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)

// TestRows checks the order of the rows, and that each says what happens.
func TestRows(t *testing.T) {
	v := Overview{
		Claims: Claims{
			Running: []RunningRow{
				{
					IssueHead: IssueHead{IssueID: "10", Identifier: "WEB-10"},
					RunID:     "r10",
					Alive:     true,
					Activity:  "go test ./...",
					HeldNext:  true,
				},
				{
					IssueHead: IssueHead{IssueID: "9", Identifier: "WEB-9"},
					RunID:     "r9",
					Alive:     true,
					Phase:     reconcile.PreparingWorkspace,
				},
				{
					IssueHead: IssueHead{IssueID: "11", Identifier: "WEB-11"},
					RunID:     "r11",
					Alive:     true,
				},
			},
			Retrying: []RetryingRow{
				{
					IssueHead: IssueHead{IssueID: "3", Identifier: "WEB-3"},
					Kind:      reconcile.NoSlot,
					DueAt:     now,
					Claim:     reconcile.Claim{Status: reconcile.Waiting, Kind: reconcile.NoSlot},
				},
				{
					IssueHead: IssueHead{IssueID: "4", Identifier: "WEB-4"},
					Kind:      reconcile.DeliveryFailed,
					Claim: reconcile.Claim{Delivery: reconcile.Delivery{
						Code:    "delivery_failed",
						Message: "the remote is gone",
					}},
				},
			},
			Held: []HeldRow{{
				IssueHead: IssueHead{IssueID: "2", Identifier: "WEB-2"},
				Reason:    reconcile.HoldOperator,
				text:      "by an operator",
			}},
		},
		Requests: []RequestRow{{
			ID:      "WEB-11.1",
			RunID:   "r11",
			Summary: "npm install",
			AskedAt: now,
		}},
		Skipped: []SkippedRow{{StoredSkip: state.StoredSkip{Skip: reconcile.Skip{
			IssueID:    "1",
			Identifier: "WEB-1",
			Reason:     reconcile.SkipLabel,
			Message:    "it lacks the label x",
		}}}},
		Ended: []RunRow{{
			issueID:    "8",
			Kind:       reconcile.AgentRun,
			Identifier: "WEB-8",
			Outcome:    new(reconcile.Succeeded),
		}, {
			issueID:    "7",
			Kind:       reconcile.AgentRun,
			Identifier: "WEB-7",
			Outcome:    new(reconcile.Canceled),
			Error:      new("missing: stopped: missing"),
			stoppedBy:  reconcile.StopMissing,
		}},
		PullRequests: []PullRequestRow{{PullRequest: state.PullRequest{
			IssueID:     "9",
			PullRequest: reconcile.PullRequest{URL: "https://example.com/pull/1"},
		}}},
	}
	v.Project = newProjectRow("/home/ann/web-shop/WORKFLOW.md", "")
	rows := v.rows()
	var got []string
	for _, r := range rows {
		got = append(
			got,
			strings.Join(
				[]string{r.Project, string(r.Status), r.Identifier, r.Text, text.OrEmpty(r.PullRequest)},
				" | ",
			),
		)
	}
	want := []string{
		"web-shop | needs_answer | WEB-11 | npm install | ",
		"web-shop | held | WEB-2 | by an operator | ",
		"web-shop | undelivered | WEB-4 | the remote is gone | ",
		"web-shop | running | WEB-9 | preparing workspace | https://example.com/pull/1",
		"web-shop | running | WEB-10 | held after this run; go test ./... | ",
		"web-shop | queued | WEB-3 | no slot is free | ",
		"web-shop | skipped | WEB-1 | it lacks the label x | ",
		"web-shop | ended | WEB-8 | succeeded | ",
		"web-shop | ended | WEB-7 | canceled: stopped: the tracker no longer returns it | ",
	}
	test.Equal(t, "the rows", got, want)
	v.stop = "the project is paused"
	for _, r := range v.rows() {
		if r.Identifier == "WEB-3" {
			test.Equal(
				t,
				"an issue without a slot while nothing starts",
				string(r.Status)+": "+r.Text,
				"waiting: the project is paused",
			)
		}
	}
	v.Rows = rows
	v.Schedule = true
	v.SetObstacles(nil)
	test.Equal(t, "the level", v.Verdict().Level, LevelNeedsPerson)
	test.Equal(
		t,
		"the reasons",
		v.Verdict().Reasons,
		[]string{"1 request to answer", "1 held", "1 undelivered"},
	)
	v.ProjectBlock = &wiring.BlockedRow{Reason: "agent_auth", Message: "not logged in"}
	v.SetObstacles(nil)
	test.Equal(t, "the first reason", v.Verdict().Reasons[0], "nothing new starts: agent_auth: not logged in")
	v.Schedule = false
	v.SetObstacles(nil)
	test.Equal(t, "the level without a schedule", v.Verdict().Level, LevelNotTicking)
	for block, want := range map[wiring.BlockedRow]Level{
		{Reason: "agent_quota"}: LevelOK,
		{Reason: "linear_api_status", Message: "HTTP 503: (empty)", Status: 503}: LevelOK,
		{Reason: "linear_api_status", Message: "HTTP 401: Unauthorized"}:         LevelNeedsPerson,
	} {
		v := Overview{Schedule: true, ProjectBlock: &block}
		v.SetObstacles(nil)
		test.Equal(t, block.Reason+" "+block.Message, v.Verdict().Level, want)
	}
}

// What can't start before a person changes something is a row and a reason of the verdict, whether
// or not the other candidates are read.
func TestStuck(t *testing.T) {
	skip := func(identifier string, s reconcile.Skip) SkippedRow {
		s.IssueID = identifier
		s.Identifier = identifier
		return SkippedRow{"web", state.StoredSkip{Skip: s}}
	}
	stuck := []SkippedRow{
		skip("WEB-1", reconcile.Skip{Reason: reconcile.SkipMalformed}),
		skip("WEB-2", reconcile.Skip{Reason: reconcile.SkipUnknownState, Mend: "set its state to Todo"}),
		skip("WEB-3", reconcile.Skip{Reason: reconcile.SkipBlockedBy, Mend: "create WEB-9"}),
	}
	others := []SkippedRow{
		skip("WEB-4", reconcile.Skip{Reason: reconcile.SkipBlockedBy}),
		skip("WEB-5", reconcile.Skip{Reason: reconcile.SkipLabel}),
	}
	for name, v := range map[string]Overview{
		"plain": {stuck: stuck},
		"all":   {Skipped: slices.Concat(stuck, others)},
	} {
		v.Schedule = true
		v.Rows = v.rows()
		got := text.Map(v.Stuck(), func(r Row) string { return r.Identifier })
		test.Equal(t, name+": the rows", got, []string{"WEB-1", "WEB-2", "WEB-3"})
		test.Equal(t, name+": the level", v.Verdict().Level, LevelNeedsPerson)
		test.Equal(t, name+": the reasons", v.Verdict().Reasons, []string{"3 stuck"})
	}
}

// TestSelection checks the filters and orders over the rows of two projects, and that the
// lists of each follow.
func TestSelection(t *testing.T) {
	read := func(folder string, held ...string) Overview {
		v := Overview{
			Schedule: true,
			Project:  newProjectRow("/home/ann/"+folder+"/WORKFLOW.md", ""),
		}
		for i, name := range held {
			v.Held = append(v.Held, HeldRow{
				IssueHead: IssueHead{IssueID: name, Identifier: name, Title: "Title of " + name},
				HeldAt:    now.Add(-time.Duration(i) * time.Minute),
			})
		}
		v.Running = []RunningRow{{
			IssueHead: IssueHead{IssueID: folder, Identifier: strings.ToUpper(folder) + "-1"},
			RunID:     folder,
			Alive:     true,
			Tokens:    Tokens{Total: int64(len(folder))},
		}}
		v.Requests = []RequestRow{{RunID: "other", Request: reconcile.Request{IssueID: held[0]}}}
		v.Rows = v.rows()
		return v
	}
	all := []Overview{read("web", "WEB-10", "WEB-9"), read("api", "API-7")}
	for _, c := range []struct {
		filters string
		order   string
		limit   int
		want    string
	}{
		{"", "", 0, "WEB-9 WEB-10 API-7 WEB-1 API-1, 2 1 held"},
		{"status=held project=WEB", "", 0, "WEB-9 WEB-10, 2 0 held"},
		{"status=held status=running text=-1", "issue", 0, "API-1 WEB-1 WEB-10, 1 0 held"},
		{"", "-issue", 2, "WEB-10 WEB-9, 2 0 held, 3 more"},
		{"status=held", "time", 0, "WEB-9 WEB-10 API-7, 2 1 held"},
		{"status=held", "-title", 1, "WEB-9, 1 0 held, 2 more"},
	} {
		s := test.Must(NewSelection(strings.Fields(c.filters), c.order, c.limit))
		confined, rows, more := s.Select(all)
		var names []string
		for _, r := range rows {
			names = append(names, r.Identifier)
		}
		got := fmt.Sprintf(
			"%s, %d %d held",
			strings.Join(names, " "),
			len(confined[0].Held),
			len(confined[1].Held),
		)
		if more > 0 {
			got += fmt.Sprintf(", %d more", more)
		}
		test.Equal(t, fmt.Sprint(c.filters, ", ", c.order, ", ", c.limit), got, c.want)
	}
	all = append(all, Overview{
		Project:  newProjectRow("", "/state/old-1"),
		Schedule: true,
		Error:    &reconcile.Error{Code: "state_corrupt", Message: "damaged"},
	})
	all[len(all)-1].SetObstacles(nil)
	test.Equal(t, "the level", Judge(all).Level, LevelNeedsPerson)
	want := "web, api: 1 request to answer; web: 2 held; api: 1 held; " +
		"old-1: the project can't be read: state_corrupt: damaged"
	test.Equal(t, "the reasons", strings.Join(Judge(all).Reasons, "; "), want)
}

// What stops several projects is said once, whenever their last passes were.
func TestJudgeSharedReason(t *testing.T) {
	now := time.Now()
	var all []Overview
	for i, path := range []string{"/srv/web/WORKFLOW.md", "/srv/api/WORKFLOW.md"} {
		all = append(all, Overview{
			GeneratedAt: now,
			Project:     newProjectRow(path, "/state"),
			LastPass:    &wiring.LastPassRow{},
			scheduledAt: now.Add(-time.Duration(i+1) * time.Hour),
		})
	}
	for i := range all {
		all[i].SetObstacles(nil)
	}
	test.Equal(t, "the reasons", Judge(all).Brief, []string{"web, api: no schedule is active"})
}

// Places have no gaps after an issue has left the queue.
func TestPlacesOf(t *testing.T) {
	stored := func(id string, place int) state.StoredSkip {
		return state.StoredSkip{Skip: reconcile.Skip{IssueID: id, Place: place}}
	}
	skipped := []state.StoredSkip{
		stored("a", 4),
		stored("b", 1),
		stored("c", 0),
		stored("d", 2),
		stored("e", 3),
	}
	claimed := map[string]reconcile.Claim{
		"b": {Status: reconcile.Running},
		"d": {Status: reconcile.Waiting, Kind: reconcile.NoSlot},
		"e": {Status: reconcile.Held},
	}
	test.Equal(t, "the places", placesOf(skipped, claimed), map[string]int{"d": 1, "a": 2})
}

// Several projects have the lists of all, the sums, and what is nearest of the rest.
func TestJoin(t *testing.T) {
	read := func(name string, ended time.Time) Overview {
		v := Overview{
			Project:     newProjectRow("/home/ann/"+name+"/WORKFLOW.md", ""),
			Schedule:    true,
			GeneratedAt: now,
		}
		v.Held = []HeldRow{{
			IssueHead: IssueHead{Project: name, IssueID: name, Identifier: name + "-1"},
			HeldAt:    now,
		}}
		v.Running = []RunningRow{{
			IssueHead: IssueHead{Project: name, IssueID: name + "2", Identifier: name + "-2"},
			Alive:     true,
		}}
		v.Ended = []RunRow{{
			Project: name,
			RunID:   name,
			EndedAt: &ended,
			Kind:    reconcile.AgentRun,
			Outcome: new(reconcile.Succeeded),
		}}
		v.Totals = Totals{Tokens{Input: 2, Total: 3}, 1.5}
		v.NextPass = &NextPass{At: ended}
		v.Counts = reconcile.Counts{Running: 1, Held: 1}
		v.Rows = v.rows()
		return v
	}
	a := read("api", now)
	b := read("web", now.Add(time.Minute))
	b.Schedule = false
	j := Join([]Overview{a, b})
	var rows, ended []string
	for _, r := range j.Rows {
		rows = append(rows, r.Project+" "+string(r.Status)+" "+r.Identifier)
	}
	for _, r := range j.Ended {
		ended = append(ended, r.RunID)
	}
	want := "api held api-1, web held web-1, api running api-2, web running web-2, api ended , web ended "
	test.Equal(t, "the rows", strings.Join(rows, ", "), want)
	test.Equal(t, "the ended runs", ended, []string{"web", "api"})
	test.Equal(t, "the counts", j.Counts, reconcile.Counts{Running: 2, Held: 2})
	test.Equal(t, "the totals", j.Totals, Totals{Tokens{Input: 4, Total: 6}, 3})
	if j.Schedule || !j.NextPass.At.Equal(now) || len(j.Projects) != 2 || j.Skipped != nil ||
		j.Requests == nil {
		t.Errorf("%+v", j)
	}
	var list []Named
	for _, name := range []string{"web", "web-2", "web", "web"} {
		list = append(list, Named{Name: name})
	}
	test.Equal(t, "the names", unique(list), []string{"web", "web-2", "web-3", "web-4"})
	if empty := Join(nil); empty.Rows == nil || empty.Projects == nil || empty.Accounts == nil || empty.Schedule {
		t.Errorf("without a project: %+v", empty)
	}
}

// A run whose agent has said nothing yet is described in words.
func TestSilentRun(t *testing.T) {
	r := RunningRow{Alive: true, Phase: reconcile.StreamingTurn}
	test.Equal(t, "it", r.doing(), "works; its agent has said nothing yet")
	r.Activity = "go test ./..."
	test.Equal(t, "it", r.doing(), "go test ./...")
}

// A filter that can't be understood is answered with what is known in its place.
func TestUnknownFilters(t *testing.T) {
	for filter, want := range map[string]string{
		"held":         `--filter needs KEY=VALUE with one of the keys status, project, label, text, not "held"`,
		"labels=docs":  `--filter has no key "labels", did you mean "label"?`,
		"zebra=x":      `--filter has no key "zebra", known are status, project, label and text`,
		"status!=held": `--filter has no key "status!", did you mean "status"?`,
		"status=hold":  `there is no status "hold", did you mean "held"?`,
		"status=zebra": `there is no status "zebra", known are needs_answer, `,
	} {
		_, err := NewSelection([]string{filter}, "", 0)
		test.Contains(t, filter, err.Error(), want)
	}
}
