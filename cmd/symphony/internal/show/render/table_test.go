package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

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

// TestManyProjects checks that the first line of many projects says what needs a person, and that
// their names are the last column to go.
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
		v.SetObstacles(nil)
		all = append(all, v)
	}
	w := &term.Env{Env: environ.Env{Now: func() time.Time { return now }}, Width: 60}
	test.Equal(t, "the head", strings.Split(summary(w, all), "\n"), []string{
		"NOT TICKING  docs: no pass has run yet; api, web: 2 requests",
		"             to answer; api, shop, web: paused; nothing",
		"             running",
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
