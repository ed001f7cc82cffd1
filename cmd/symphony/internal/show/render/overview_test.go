package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/reconcile"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
)

var now = time.Date(2026, 11, 20, 3, 8, 0, 0, time.UTC)

// TestBlockIsWrapped checks that the end of a block is on the screen, however narrow it is.
func TestBlockIsWrapped(t *testing.T) {
	until := now.Add(59 * time.Minute)
	page := &bytes.Buffer{}
	w := &term.Env{Env: environ.Env{Now: func() time.Time { return now }}, Stdout: page, Width: 40}
	v := view.Overview{
		GeneratedAt: now,
		ProjectBlock: &wiring.BlockedRow{
			Reason:  "agent_quota",
			Since:   now,
			NextTry: until,
			Until:   &until,
		},
	}
	v.Project.Name = "web-shop"
	printObstacles(w, v, true)
	test.Equal(t, "the first lines", strings.SplitAfterN(page.String(), "\n", 4)[:3], []string{
		"BLOCKED  web-shop: codex limit used up\n", "         until 04:07, in 59m\n", "         (agent_quota)\n",
	})
}

// TestDeadScheduleIsRed checks the line that ps, top and status have in common, also if only
// one of several projects is dead.
func TestDeadScheduleIsRed(t *testing.T) {
	live := view.Overview{GeneratedAt: now, Schedule: true, Project: view.ProjectRow{Name: "api"}}
	dead := view.Overview{
		GeneratedAt: now,
		LastPass:    &wiring.LastPassRow{StartedAt: now.Add(-time.Hour)},
		Project:     view.ProjectRow{Name: "web-shop"},
	}
	w := &term.Env{
		Env:     environ.Env{Now: func() time.Time { return now }},
		Width:   120,
		Palette: term.Palette{Colour: true},
	}
	want := "\x1b[1m\x1b[31mNOT TICKING\x1b[0m\x1b[0m  web-shop: no schedule is active; no scheduled " +
		"pass has run yet; nothing running"
	test.Equal(t, "it", Head(w, []view.Overview{live, dead})[0], want)
}

// TestPageFits checks that the rows give way first, and the summary never.
func TestPageFits(t *testing.T) {
	lines := func(name string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(name, i))
		}
		return list
	}
	p := page{head: lines("head", 3), body: lines("row", 5), foot: []string{"foot"}}
	for height, want := range map[int]string{
		9: "head0 head1 head2 row0 row1 row2 row3 row4 foot",
		7: "head0 head1 head2 row0 row1 … 3 more foot",
		5: "head0 head1 head2 … 4 more foot",
		4: "head0 … 2 more lines: symphony ps shows them … 4 more foot",
	} {
		test.Equal(t, fmt.Sprint("in ", height, " lines"), strings.Join(p.fit(height), " "), want)
	}
}

// TestScreenLines checks that a line that is longer than the terminal is wide counts as
// several.
func TestScreenLines(t *testing.T) {
	n := screenLines([]string{"", "日本語12", "日本語123", "\x1b[1m" + strings.Repeat("x", 21) + "\x1b[0m"}, 8)
	test.Equal(t, "the lines", n, 1+1+2+3)
}

// TestRowsOfProjects checks the columns of a row, and that a short name stands for its pull
// request.
func TestRowsOfProjects(t *testing.T) {
	pull := "https://github.com/acme/app/pull/7"
	due := now.Add(8 * time.Minute)
	rows := []view.Row{
		{
			Project:     "web-shop",
			Status:      reconcile.StatusRunning,
			Identifier:  "WEB-9",
			Title:       "日本語",
			PullRequest: &pull,
			At:          &now,
			Tokens:      13_700,
			Text:        "go test ./...",
		},
		{
			Project:    "api",
			Status:     reconcile.StatusWaiting,
			Claimed:    true,
			Identifier: "API-10",
			Title:      "Two lamps",
			At:         &due,
			Text:       "no slot is free",
		},
		{
			Project:    "api",
			Status:     reconcile.StatusWaiting,
			Claimed:    true,
			Identifier: "API-11",
			At:         &now,
			Text:       "no slot is free",
		},
	}
	got := strings.Join(Rows(now, rows, true).Lines(&term.Env{Width: 100}, ""), "\n")
	want := strings.TrimSpace(`
ISSUE   STATUS   PROJECT   TITLE      PR   TIME  TOKENS  NOW
WEB-9   running  web-shop  日本語     #7    0ms   13.7k  go test ./...
API-10  waiting  api       Two lamps      in 8m          no slot is free
API-11  waiting  api                        due          no slot is free`)
	test.Equal(t, "the rows", got, want)
	quiet := now.Add(-3 * time.Minute)
	rows[0].LastSign = &quiet
	test.Contains(
		t,
		"a run that is silent",
		Rows(now, rows, true).Lines(&term.Env{Width: 100}, "")[1],
		"  go test ./..., 3m ago",
	)
	test.Equal(
		t,
		"the head",
		Rows(now, rows[1:], false).Lines(&term.Env{Width: 60}, "")[0],
		"ISSUE   STATUS   TITLE       TIME  NOW",
	)
}

// TestManyProjects checks that the first line of many projects says how many need a person,
// and that their names are the last column to go.
func TestManyProjects(t *testing.T) {
	var all []view.Overview
	for _, name := range []string{"api", "shop", "docs", "billing", "search", "mail", "web"} {
		v := view.Overview{
			GeneratedAt: now,
			Schedule:    name != "docs",
			Paused:      name == "shop",
			Project:     view.ProjectRow{Name: name},
		}
		if name == "api" || name == "web" {
			v.Requests = make([]view.RequestRow, 2)
			v.Paused = true
		}
		all = append(all, v)
	}
	w := &term.Env{Env: environ.Env{Now: func() time.Time { return now }}, Width: 60}
	test.Equal(t, "the head", strings.Split(summary(w, all), "\n"), []string{
		"NOT TICKING  4 of 7 projects: api, shop, docs, web; nothing", "             running",
	})
	row := view.Row{
		Project:    "web-shop",
		Status:     reconcile.StatusRunning,
		Identifier: "WEB-9",
		Title:      "A long title",
		At:         &now,
		Text:       "go test ./...",
	}
	for width, want := range map[int]string{
		40: "ISSUE  STATUS   PROJECT   TIME  NOW",
		33: "ISSUE  STATUS   PROJECT   TIME  …",
		25: "ISSUE  STATUS   TIME  NOW",
	} {
		got := Rows(now, []view.Row{row}, true).Lines(&term.Env{Width: width}, "")
		test.Equal(t, fmt.Sprint("the columns in ", width), got[0], want)
	}
}

// TestReasonWraps checks that prose is broken between words on a terminal, and what is
// approved is not.
func TestReasonWraps(t *testing.T) {
	page := &bytes.Buffer{}
	w := &term.Env{Stdout: page, Width: 34}
	Request(w, reconcile.Request{Kind: reconcile.CommandRequest, Detail: reconcile.RequestDetail{
		Command: "npm  install react@19.0.0 react-dom@19.0.0",
		Reason:  "needs to run outside the sandbox",
	}})
	test.Equal(t, "it", page.String(), "  command      npm  install react@19.0.0 react-dom@19.0.0\n"+
		"  reason       needs to run\n               outside the sandbox\n")
}

// TestMessageOfRunningIssue checks that show prints the end of the last message of a running
// agent.
func TestMessageOfRunningIssue(t *testing.T) {
	page := &bytes.Buffer{}
	said := strings.TrimSpace(strings.Repeat("line\n", 9) + strings.Repeat("word ", 10))
	w := &term.Env{Stdout: page, Width: 30}
	v := detail.Issue{Status: reconcile.StatusRunning, LastMessage: &said}
	v.Issue.Identifier = "WEB-1"
	printLog(w, v)
	test.Contains(
		t,
		"it",
		page.String(),
		"LAST MESSAGE  the end; all of it: symphony logs WEB-1 --last message\n"+strings.Repeat(
			"  line\n",
			8,
		)+"  word",
	)
	test.Equal(t, "its lines", strings.Count(page.String(), "\n"), 1+messageLines)
	v.Status = reconcile.StatusHandedOver
	page.Reset()
	printLog(w, v)
	test.Lacks(t, "the message of an ended run", page.String(), "all of it")
}

// TestWatchedLine checks the line about watched pull requests on a terminal: a late check is
// named with its age.
func TestWatchedLine(t *testing.T) {
	line := func(waits ...reconcile.Waits) string {
		out := &bytes.Buffer{}
		w := &term.Env{
			Env:    environ.Env{Now: func() time.Time { return now }},
			Stdout: out,
			Width:  200,
		}
		v := view.Overview{GeneratedAt: now}
		for i, one := range waits {
			v.Watched = append(v.Watched, view.WatchedRow{
				IssueHead: view.IssueHead{Identifier: fmt.Sprint("A-", i+1)},
				WaitsFor:  one,
			})
		}
		printWatched(w, v, false)
		return out.String()
	}
	since := now.Add(-2 * time.Hour)
	review := reconcile.Waits{Code: reconcile.WaitsReview, Text: "a review", Since: &since}
	late := reconcile.Waits{
		Code:  reconcile.WaitsLate,
		Text:  `the check "sign", which has not reported`,
		Since: &since,
	}
	person := reconcile.Waits{Code: reconcile.WaitsPerson, Text: "a person"}
	test.Equal(t, "none", line(), "")
	test.Equal(t, "reviews", line(review, review, review), "watches 3 pull requests\n")
	test.Equal(
		t,
		"a late check",
		line(review, late, person),
		"watches 3 pull requests; A-2 waits for the check \"sign\", which has not reported (for 2h); "+
			"A-3 waits for a person\n",
	)
	test.Equal(t, "many", strings.HasSuffix(line(late, late, late, late, late), "; 2 more\n"), true)
}
