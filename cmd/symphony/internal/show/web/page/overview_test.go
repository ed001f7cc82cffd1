package page

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

var moment = time.Date(2026, 2, 24, 9, 0, 0, 0, time.UTC)

// shop is a project with issues of every kind.
func shop(name string) view.Overview {
	entries := map[view.Status]view.Entry{
		reconcile.StatusNeedsAnswer: view.RunningRow{},
		reconcile.StatusRunning:     view.RunningRow{},
		reconcile.StatusHeld:        view.HeldRow{},
		reconcile.StatusWaiting:     view.RetryingRow{},
	}
	row := func(status view.Status, identifier, title, text string) view.Row {
		return view.Row{
			Project:    name,
			Status:     status,
			IssueID:    identifier,
			Identifier: identifier,
			Title:      title,
			Text:       text,
			At:         &moment,
			Turn:       2,
			Tokens:     31_900,
			Claimed:    status != view.StatusEnded,
			Entry:      entries[status],
		}
	}
	ended := row(view.StatusEnded, "ABC-1", "Fix the footer", "succeeded")
	ended.Entry = view.RunRow{RunID: "run-1", Outcome: new(reconcile.Succeeded), EndedAt: &moment}
	v := view.Overview{
		Counts:      reconcile.Counts{Running: 2, NeedsAnswer: 1, Held: 1, Waiting: 1},
		GeneratedAt: moment,
		Schedule:    true,
		Project: view.ProjectRow{
			Name:         name,
			WorkflowPath: "/srv/" + name + "/WORKFLOW.md",
			StateDir:     "/state/" + name,
		},
		Rows: []view.Row{
			row(
				reconcile.StatusNeedsAnswer,
				"ABC-5",
				"Upgrade React",
				"npm install",
			), row(reconcile.StatusHeld, "ABC-3", "<script>alert(1)</script>\u202e\x1b[31m", "2 runs failed"),
			row(
				reconcile.StatusRunning,
				"ABC-6",
				"Search",
				"npm test",
			), row(reconcile.StatusWaiting, "ABC-7", "Two lamps", "no slot is free"), ended,
		},
		Requests: []view.RequestRow{{
			Project:    name,
			ID:         "ABC-5.1",
			Identifier: "ABC-5",
			Title:      "Upgrade React",
			Kind:       reconcile.CommandRequest,
			Summary:    "npm install",
			AskedAt:    moment,
			ExpiresAt:  moment,
			Request: reconcile.Request{
				IssueID:    "ABC-5",
				Identifier: "ABC-5",
				Number:     1,
				Kind:       reconcile.CommandRequest,
				Detail:     reconcile.RequestDetail{Command: "npm install"},
			},
		}},
		Blocked:  []view.BlockedSession{{}},
		LastPass: &wiring.LastPassRow{StartedAt: moment, Trigger: "cron", DurationMS: 45},
		NextPass: &view.NextPass{At: moment.Add(5 * time.Minute), Trigger: "cron"},
		Budget:   &view.BudgetRow{Written: "20 USD", Unit: "USD", Most: 20, Used: 5.57},
	}
	v.Health = &view.Health{
		Schedule: view.ScheduleHealth{
			Active:  true,
			Trigger: new("cron"),
			LastAt:  &moment,
			Usual:   new(300.0),
			Grace:   900,
		},
		Passes: []wiring.LastPassRow{*v.LastPass, {
			StartedAt:  moment,
			Trigger:    "cron",
			DurationMS: 90,
			Errors:     []reconcile.Error{{Code: "network", Message: "no route"}},
		}},
		Limits: []view.LimitRow{{
			Window:  "primary",
			Used:    42,
			Seconds: new(18000.0),
			Resets:  &moment,
			At:      moment,
		}},
		Slots: []view.SlotsRow{{Scope: "project", Used: 2, Most: 4}},
	}
	v.Results = &view.Results{Handover: new(501.0)}
	for n := range 14 {
		d := view.ResultDay{
			Date:     moment.AddDate(0, 0, n-13).Format(time.DateOnly),
			Outcomes: map[reconcile.Outcome]int{reconcile.Succeeded: n},
		}
		d.HandedOver = n
		d.Tokens.Total = int64(n) * 1e6
		d.Cost = &view.Cost{Currency: "USD", Amount: view.Amount(n)}
		v.Results.Days = append(v.Results.Days, d)
	}
	return v
}

// contains checks that a page has these parts in this order.
func contains(t *testing.T, page string, parts ...string) {
	t.Helper()
	rest := page
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is not there, or not behind the parts before it:\n%s", part, page)
		}
		rest = after
	}
}

// The overview answers the questions of an operator in their order: does it need me, what does
// it do, is it healthy, what did it do?
func TestOverview(t *testing.T) {
	p := Overview{Projects: []view.Overview{shop("web")}, MayAct: true}.Page()
	main := string(p.Main)
	contains(
		t,
		main,
		"Needs you",
		"1 request to answer",
		"1 held",
		"2 running (1 needs an answer), 1 waiting",
		"next pass",
		`id="needs"`,
		"wants to run a command",
		`action="/api/v1/ABC-5.1/approve?project=web"`,
		"&lt;script&gt;alert(1)&lt;/script&gt;",
		"/api/v1/ABC-3/retry",
		`id="issues"`,
		`href="/issues/web/ABC-6"`,
		"npm test",
		"ABC-7",
		"Health",
		"cron, every 5m",
		"counts as dead after 15m",
		"1 of them with an error",
		"2 of 4 used",
		"5.57 USD of 20 USD",
		"/state/web",
		"5 hours",
		"42 % used",
		"Results",
		"Handed over today",
		"13",
		"13.00 USD",
		"8m 21s",
		"Tokens per day: 91.0M in 14 days",
		"succeeded 91",
	)
	test.Lacks(t, "the page", main, "\u202e", "\x1b", "<script>", "style=", "ZgotmplZ")
	test.Lacks(t, "the page of a project without a block", main, "/api/v1/resume?")
	test.Equal(t, "the requests", p.Requests, 1)
	test.Equal(t, "the title", p.Title, "Overview")
	// they are above, or in the results
	test.Lacks(
		t,
		"the list of what is at work",
		main,
		`id="row-web-ABC-5`,
		`id="row-web-ABC-3`,
		`id="row-web-ABC-1`,
	)
}

// A running issue has its cost and how long it runs, one that waits is paused or blocked by an
// issue, and several held ones are rows.
func TestRows(t *testing.T) {
	v := shop("web")
	v.Paused = true
	v.Rows = []view.Row{
		{
			Project:    "web",
			Status:     reconcile.StatusRunning,
			Identifier: "R-1",
			At:         &moment,
			Text:       "held after this run; npm test",
			Tokens:     9,
			Cost:       &view.Cost{Currency: "USD", Amount: 0.25},
			Claimed:    true,
			HeldNext:   true,
			LastSign:   &moment,
		},
		{
			Project:    "web",
			Status:     reconcile.StatusBlocked,
			Identifier: "B-1",
			Text:       "it waits for R-1, X-9",
		},
	}
	for n := range 6 {
		v.Rows = append(v.Rows, view.Row{
			Project:    "web",
			Status:     reconcile.StatusHeld,
			Identifier: fmt.Sprint("H-", n),
			Text:       "2 runs failed",
			Claimed:    true,
		})
	}
	main := string(Overview{Projects: []view.Overview{v}, MayAct: true}.Page().Main)
	contains(
		t,
		main,
		`class="card items folded"`,
		`<details id="why-web-H-0"><summary class="soft cut">2 runs failed`,
		"/api/v1/H-5/retry",
		`>running</span>`,
		`<span class="badge plain">held after this run`,
		`<div class="soft now">npm test`,
		"0.25 USD",
		`data-relative="for"`,
		`>since 24 Feb 09:00 UTC`,
		"heard <time",
		`>blocked</span>`,
		`it waits for R-1, X-9`,
	)
	v.Rows = v.Rows[:3]
	test.Lacks(t, "the page with one held issue", string(Overview{
		Projects: []view.Overview{v},
		MayAct:   true,
	}.Page().Main), "folded")
}

// Of many held issues the overview shows the first ones, and leads to the others.
func TestManyHeld(t *testing.T) {
	v := shop("web")
	for n := range 400 {
		v.Rows = append(v.Rows, view.Row{
			Project:    "web",
			Status:     reconcile.StatusHeld,
			Identifier: fmt.Sprint("H-", n),
			Claimed:    true,
		})
	}
	main := string(Overview{Projects: []view.Overview{v}, MayAct: true}.Page().Main)
	test.Equal(t, "held issues", strings.Count(main, `<li id="stuck-web-`), 10)
	contains(t, main, `<span class="count urgent">402<`, `<a href="/?status=held">391 more held</a>`)
}

// Each thing has one banner and one button: what a notice offers is not offered below again,
// and an alarm is above the page or among its notices.
func TestOneButton(t *testing.T) {
	v := shop("web")
	v.Paused = true
	v.Schedule = false
	v.ProjectBlock = &wiring.BlockedRow{Reason: "agent_auth", Message: "log in"}
	v.SetObstacles(nil)
	for _, project := range []string{"", "web"} {
		p := Overview{Projects: []view.Overview{v}, Choice: Choice{Project: project}, MayAct: true}.Page()
		page := string(p.Strip()) + string(p.Main)
		for _, verb := range []string{"refresh", "resume"} {
			test.Equal(t, verb, strings.Count(page, "/api/v1/"+verb+"?"), 1)
		}
		test.Lacks(t, "the page of a paused project", page, "/api/v1/pause?")
	}
	contains(t, string(Overview{Projects: []view.Overview{shop("web")}, MayAct: true}.Page().Main),
		"/api/v1/refresh?", "/api/v1/pause?")
}

// A dead schedule and a blocked project are in the title, the icon, a strip and the news of
// every page; requests are news, too.
func TestAlarms(t *testing.T) {
	dead := shop("web")
	blocked := shop("api")
	dead.Schedule = false
	blocked.ProjectBlock = &wiring.BlockedRow{Reason: "agent_auth", Message: "log in"}
	dead.SetObstacles(nil)
	blocked.SetObstacles(nil)
	all := []view.Overview{dead, blocked}
	p := Page{Title: "ABC-1", Alerts: NewAlerts(all, nil, "/issues/web/ABC-1", true)}
	contains(
		t,
		string(p.Document()),
		"<title>⚠ web: No schedule is active · ABC-1 · symphony",
		"%23e5484d",
		"%3E%21%3C",
		`id="alarm"`,
		"web: No schedule is active",
		"/api/v1/refresh?project=web",
		`name="back" value="/issues/web/ABC-1"`,
		"Run a pass now",
		"api: Nothing new starts",
		"agent_auth",
		"/api/v1/resume?project=api",
	)
	test.Equal(
		t,
		"the news",
		fmt.Sprint(p.Changes().News),
		"[{request-web-ABC-5.1 ABC-5 wants to run a command} {web: No schedule is active web: No schedule is active}"+
			" {request-api-ABC-5.1 ABC-5 wants to run a command} {api: Nothing new starts api: Nothing new starts}]",
	)
	test.Equal(
		t,
		"the strip of the overview, whose notices have it",
		Overview{Projects: all}.Page().Strip(),
		"",
	)
	contains(t, string(Overview{
		Projects: all,
		Choice:   Choice{Query: "ABC-7"},
	}.Page().Strip()), "No schedule", `href="/login"`)
	calm := shop("web")
	// it ends by itself
	calm.ProjectBlock = &wiring.BlockedRow{Reason: "agent_quota", Until: &moment}
	down := shop("app")
	down.ProjectBlock = &wiring.BlockedRow{Reason: "linear_api_status", Status: 503}
	calm.SetObstacles(nil)
	down.SetObstacles(nil)
	test.Equal(
		t,
		"the alarms of what ends by itself",
		len(NewAlerts([]view.Overview{calm, down}, nil, "/", true).Alarms),
		0,
	)
}

// What is written about a schedule that is dead is about its passes, not about those that
// others ran.
func TestDeadSchedule(t *testing.T) {
	v := shop("web")
	v.Schedule = false
	v.LastPass.Trigger = "manual"
	v.SetObstacles(nil)
	main := string(Overview{Projects: []view.Overview{v}, MayAct: true}.Page().Main)
	contains(
		t,
		main,
		"No schedule is active",
		"<code>symphony schedule install</code><button",
		`aria-label="Copy symphony tick"`,
		"/api/v1/refresh?",
		"no schedule</span>",
		"it was cron; newest pass",
		"(manual)",
	)
	test.Lacks(t, "the page", main, "Its last pass", "every 5m", "counts as dead")
}

// What keeps a project from starting runs is a notice with the next step.
func TestObstacles(t *testing.T) {
	blocked := func(b wiring.BlockedRow) func(*view.Overview) {
		return func(v *view.Overview) { v.ProjectBlock = &b }
	}
	unread := func(e reconcile.Error) func(*view.Overview) {
		return func(v *view.Overview) { *v = view.Overview{Project: v.Project, Error: &e} }
	}
	for name, c := range map[string]struct {
		change func(*view.Overview)
		parts  []string
	}{
		"dead schedule": {
			func(v *view.Overview) { v.Schedule = false },
			[]string{
				`bad notice`,
				"No schedule is active",
				"nothing settles",
				"symphony schedule install",
				"/api/v1/refresh?",
				"Run a pass now",
			},
		},
		"overdue": {
			func(v *view.Overview) { v.GeneratedAt = moment.Add(7 * time.Minute) },
			[]string{"a pass is overdue", ", due <time"},
		},
		"limit": {
			blocked(wiring.BlockedRow{Reason: "agent_quota", Message: "used up", Since: moment, Until: &moment}),
			[]string{"notice warn", "Nothing new starts", "ends <time", "used up", "/api/v1/resume?"},
		},
		"tracker": {
			blocked(wiring.BlockedRow{
				Reason:  "tracker_unavailable",
				Message: "HTTP 503",
				NextTry: moment.Add(time.Minute),
			}),
			[]string{
				"notice warn",
				"Nothing new starts",
				"next try <time",
				"HTTP 503",
				"tracker_unavailable",
				"/api/v1/resume?",
			},
		},
		"pass": {
			func(v *view.Overview) {
				v.LastPass.Errors = []reconcile.Error{{
					Code:    "invalid_config",
					Message: "no key",
					Hint:    "set it",
				}}
			},
			[]string{"The last pass failed", "no key", "set it", "invalid_config", "/api/v1/refresh?"},
		},
		"budget": {func(v *view.Overview) {
			v.Budget.Reached = true
			v.Budget.Message = new("used up")
		}, []string{"Nothing new starts", "used up", "agent.budget_per_day"}},
		"paused": {
			func(v *view.Overview) { v.Paused = true },
			[]string{"Paused", "Nothing new starts until", "/api/v1/resume?project=web", `id="needs"`},
		},
		"unreadable": {
			unread(reconcile.Error{Code: "state_io", Message: "disk", Hint: "look"}),
			[]string{"1 unreadable project", "can&#39;t be read", "disk", "look", "state_io"},
		},
		"no pass": {
			unread(reconcile.Error{Code: "no_state"}),
			[]string{"1 project without a pass", "No pass of web has run yet", "symphony tick --dry-run"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := shop("web")
			c.change(&v)
			v.SetObstacles(nil)
			contains(t, string(Overview{
				Projects: []view.Overview{v},
				MayAct:   true,
			}.Page().Main), c.parts...)
		})
	}
	contains(t, string(Overview{}.Page().Main), "symphony init", "symphony demo")
}

// What is not known of an unreadable project is not said: whether something runs.
func TestUnreadable(t *testing.T) {
	v := view.Overview{
		Project: shop("web").Project,
		Error:   &reconcile.Error{Code: "state_outdated", Message: "older"},
	}
	v.SetObstacles(nil)
	test.Lacks(
		t,
		"the page",
		string(Overview{Projects: []view.Overview{v}}.Page().Main),
		"nothing is running",
		"No issue runs",
	)
	contains(t, string(Overview{Projects: []view.Overview{v, {
		Project:  v.Project,
		Schedule: true,
	}}}.Page().Main), "nothing is running", "No issue runs")
}

// Several projects are on one page, and each has a page of its own.
func TestSeveralProjects(t *testing.T) {
	o := Overview{Projects: []view.Overview{shop("web"), shop("api")}}
	p := o.Page()
	contains(
		t,
		string(p.Main),
		"All projects",
		`href="/?project=web"`,
		`href="/?project=api"`,
		"2 requests to answer",
		"/issues/api/ABC-3",
		"<h3>web</h3>",
		"<h3>api</h3>",
		"26.00 USD",
	)
	test.Equal(t, "the requests", p.Requests, 2)
	test.Equal(
		t,
		"how often the limits of one account are there",
		strings.Count(string(p.Main), "42 % used"),
		1,
	)
	o.Projects[1].Health.Limits[0].Used = 7
	contains(t, string(o.Page().Main), "Codex, 5 hours", "(web)", "42 % used", "(api)", "7 % used")
	o.Projects[1].Schedule = false
	o.Projects[1].SetObstacles(nil)
	contains(
		t,
		string(o.Page().Main),
		"Nothing runs the passes of 1 of 2 projects",
		"api: No schedule is active",
		"schedule install",
	)
	o.Project = "api"
	main := string(o.Page().Main)
	contains(t, main, "1 request to answer", "13.00 USD")
	test.Lacks(t, "the page", main, "/issues/web/")
	o.Project = "none"
	contains(t, string(o.Page().Main), "There is no project none here")
}

// A search and a status choose issues, and long lists are divided.
func TestChoice(t *testing.T) {
	v := shop("web")
	for n := range 500 {
		v.Rows = append(v.Rows, view.Row{
			Project:    "web",
			Status:     reconcile.StatusSkipped,
			Identifier: fmt.Sprintf("X-%d", n),
			Title:      "many & more",
			Entry:      view.SkippedRow{},
		})
	}
	page := func(query string) string {
		q := test.Must(url.ParseQuery(query))
		return string(Overview{Projects: []view.Overview{v}, Choice: NewChoice(q)}.Page().Main)
	}
	rows := func(query string) int { return strings.Count(page(query), `<tr id="row-`) }
	for query, want := range map[string]int{
		"":                           7,
		"status=skipped":             100,
		"status=skipped&from=450":    50,
		"status=held":                1,
		"q=UPGRADE":                  0, // its request is above
		"q=many&status=skipped":      100,
		"q=none":                     0,
		"status=bad&from=-1":         7,
		"status=skipped&from=999999": 0,
	} {
		test.Equal(t, fmt.Sprint(query), rows(query), want)
	}
	contains(t, page(""), `href="/?status=skipped">495 more skipped`)
	contains(
		t,
		page("q=many&status=skipped&from=100"),
		`"/?q=many&amp;status=skipped"`,
		"/?from=200&amp;q=many&amp;status=skipped",
	)
	contains(t, page("q=none"), "No issue matches")
	contains(t, page("status=asks"), "<h1", "<h2", "<h3") // no level is left out
}

// The page names the machines of a team and what they work on, whatever stands in their claims.
func TestOtherMachines(t *testing.T) {
	v := shop("web")
	v.Team = []claims.TeamRow{
		{Key: "3f2a", Identifier: "ABC-8", Machine: "build<host>", Account: "ann", Status: "working", Until: moment},
		{Key: "5d10", Status: claims.Unreadable, Ended: true},
	}
	page := string(Overview{Projects: []view.Overview{v}}.Page().Main)
	_, section, _ := strings.Cut(page, "Other machines")
	section, _, _ = strings.Cut(section, "</section>")
	for _, want := range []string{"ABC-8", "ann on build&lt;host&gt;", "working", "24 Feb 09:00 UTC", "5d10", "ended"} {
		test.Contains(t, "the section", section, want)
	}
	alone := string(Overview{Projects: []view.Overview{shop("web")}}.Page().Main)
	test.Lacks(t, "the page of a machine alone", alone, "Other machines")
}
