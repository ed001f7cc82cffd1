package page

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Overview is the page of all projects, or of what a reader has chosen of them.
type Overview struct {
	Projects []view.Overview   // all of them
	Agents   []view.RequestRow // what agents without an issue ask
	Choice
	MayAct bool
}

// overview is what the template draws.
type overview struct {
	Overview
	Shown     []view.Overview // the chosen projects with the chosen issues
	Verdict   verdict
	Obstacles []obstacle
	Requests  []view.RequestRow
	Stuck     []view.Row // issues that need a person, beside those of the requests
	Lists     []list
	Tabs      []tab
	Results   *view.Results
	Limits    []accountLimits
	Held      []ProjectButton // of projects with several held issues
}

// Page draws it.
func (o Overview) Page() Page {
	requests := len(o.Agents)
	for _, p := range o.Projects {
		requests += len(p.Requests)
	}
	title := "Overview"
	switch {
	case o.Query != "":
		title = "Search: " + o.Query
	case o.Status != "":
		title = titleOf(o.Status)
	case o.Project != "":
		title = o.Project
	}
	a := NewAlerts(o.Projects, o.Agents, o.Address(), o.MayAct)
	a.InPlace = !o.Lists() && o.Project == ""
	return Page{
		Title:    title,
		Requests: requests,
		MayAct:   o.MayAct,
		Query:    o.Query,
		Main:     mainOf("overview.html", new(o.data())),
		Alerts:   a,
	}
}

func (o Overview) data() overview {
	d := overview{Overview: o}
	of := text.Filter(
		o.Projects,
		func(v view.Overview) bool { return o.Project == "" || v.Project.Name == o.Project },
	)
	var rows []view.Row
	d.Shown, rows, _ = o.selection().Select(of)
	for _, v := range d.Shown {
		if !o.Lists() {
			d.Obstacles = append(d.Obstacles, obstaclesOf(v, o.Forms(v.Project.Name), len(o.Projects) > 1)...)
		}
		if o.Status == "" || o.Status == reconcile.StatusNeedsAnswer {
			d.Requests = append(d.Requests, v.Requests...)
		}
		d.addLimits(v)
		if n := v.Counts.Held; n > 1 {
			d.Held = append(d.Held, ProjectButton{o.Forms(v.Project.Name), "retry", n})
		}
	}
	joined := view.Join(d.Shown)
	if o.Project == "" && o.Query == "" && (o.Status == "" || o.Status == reconcile.StatusNeedsAnswer) {
		d.Requests = append(d.Requests, o.Agents...)
		joined.Requests = append(joined.Requests, o.Agents...)
	}
	d.Verdict = verdictOf(o.Choice, d.Shown, joined)
	d.Results = joined.Results
	if d.Verdict.Class == "good" && len(d.Obstacles) > 0 {
		d.Verdict.Class = ""
		d.Verdict.Icon = "clock"
		d.Verdict.Title = "Nothing needs you"
	}
	// the verdict would repeat it
	if len(o.Projects) == 1 && len(d.Obstacles) > 0 && d.Obstacles[0].Title == noSchedule {
		d.Verdict.Title = noSchedule
		d.Verdict.Dead = &d.Obstacles[0]
		d.Obstacles = d.Obstacles[1:]
	}
	if len(d.Shown) == 1 {
		d.Results = d.Shown[0].Results
	}
	d.addRows(rows)
	return d
}

// accountLimits are the limits of an account of codex, and the projects that use it.
type accountLimits struct {
	Projects string
	Windows  []view.LimitRow
}

// addLimits adds the limits of the project's account. Accounts with the same limits are the
// same.
func (d *overview) addLimits(v view.Overview) {
	if v.Health == nil || len(v.Health.Limits) == 0 {
		return
	}
	for n := range d.Limits {
		if known := &d.Limits[n]; reflect.DeepEqual(known.Windows, v.Health.Limits) {
			known.Projects += ", " + v.Project.Name
			return
		}
	}
	d.Limits = append(d.Limits, accountLimits{v.Project.Name, v.Health.Limits})
}

// The statuses of the lists of an overview, and how many rows each has there; and how many
// rows are on a page of their own.
var listed = []struct {
	status view.Status
	rows   int
}{
	{reconcile.StatusRunning, 100},
	{reconcile.StatusQueued, 10},
	{reconcile.StatusBlocked, 5},
	{reconcile.StatusWaiting, 10},
	{view.StatusInReview, 10},
	{reconcile.StatusSkipped, 5},
}

const pageRows = 100

// list is some rows of one status.
type list struct {
	Status   view.Status // empty for rows of several
	Rows     []view.Row
	More     int    // how many further rows there are
	Next     string // the address of further rows
	Previous string
	Several  bool // the page shows several projects
	MayAct   bool
	Known    map[string]bool
}

// Form is what an operator can do about the issue of a row.
func (l list) Form(r view.Row) IssueForm {
	return Forms{Project: r.Project, MayAct: l.MayAct}.RowForm(r)
}

// tab is a choice of the list.
type tab struct {
	Name    string
	Address string
	Count   int
	Current bool
}

// addRows makes lists of the rows, and tabs that choose among them.
func (d *overview) addRows(rows []view.Row) {
	by := map[view.Status][]view.Row{}
	known := map[string]bool{}
	for _, r := range rows {
		known[r.Project+" "+r.Identifier] = true
		by[r.Status] = append(by[r.Status], r)
	}
	first := tab{"At work", d.With("status", ""), 0, d.Status == ""}
	if d.Query != "" {
		first.Name = "All"
		first.Count = len(rows)
	}
	d.Tabs = append(d.Tabs, first)
	for _, s := range view.Statuses {
		if n := len(by[s]); n > 0 || s == d.Status {
			d.Tabs = append(d.Tabs, tab{titleOf(s), d.With("status", string(s)), n, s == d.Status})
		}
	}
	several := d.Several()
	if d.Choice.Lists() {
		if d.Status != "" {
			rows = by[d.Status]
		}
		from := min(d.From, len(rows))
		until := min(from+pageRows, len(rows))
		l := list{
			Status:  d.Status,
			Rows:    rows[from:until],
			More:    len(rows) - until,
			Several: several,
			MayAct:  d.MayAct,
			Known:   known,
		}
		if l.More > 0 {
			l.Next = d.With("from", rowNumber(until))
		}
		if from > 0 {
			l.Previous = d.With("from", rowNumber(max(from-pageRows, 0)))
		}
		if len(rows) > 0 {
			d.Lists = []list{l}
		}
		return
	}
	d.Stuck = slices.Concat(by[reconcile.StatusHeld], by[reconcile.StatusUndelivered], by[view.StatusKept])
	for _, kind := range listed {
		if all := by[kind.status]; len(all) > 0 {
			n := min(kind.rows, len(all))
			l := list{
				Status:  kind.status,
				Rows:    all[:n],
				More:    len(all) - n,
				Several: several,
				MayAct:  d.MayAct,
				Known:   known,
			}
			if l.More > 0 {
				l.Next = d.With("status", string(kind.status))
			}
			d.Lists = append(d.Lists, l)
		}
	}
}

// titleOf is a status as a heading.
func titleOf(s view.Status) string { return sentence(s.Label()) }

// Several reports whether the page shows several projects.
func (d *overview) Several() bool { return len(d.Shown) > 1 }

// HasHealth reports whether something is known of one of the shown projects: a pass has run,
// and its state can be read.
func (d *overview) HasHealth() bool {
	return slices.ContainsFunc(d.Shown, func(v view.Overview) bool { return v.Error == nil })
}

// verdict tells whether projects need a person.
type verdict struct {
	Class, Icon, Title string
	Reasons            []reason
	Activity           string
	Next               *view.NextPass
	Overdue            bool      // Next was more than a minute ago
	Dead               *obstacle // the only project has no schedule; nil otherwise
}

// reason is a part of a verdict, and the address of the list that it counts; empty if there is
// none.
type reason struct{ Text, Address string }

// verdictOf is the verdict on all projects that the page shows. The notices have details on
// what stops them.
func verdictOf(c Choice, all []view.Overview, joined view.Joined) verdict {
	d := verdict{Class: "good", Icon: "check", Title: "All is well", Next: joined.NextPass}
	d.Overdue = d.Next != nil && joined.GeneratedAt.Sub(d.Next.At) > time.Minute
	judged := view.Judge(all)
	switch judged.Level {
	case view.LevelOK:
	case view.LevelNotTicking:
		d.Class = "bad"
		d.Icon = "alert"
		d.Title = "Nothing runs passes"
		dead := len(
			slices.DeleteFunc(
				slices.Clone(all),
				func(v view.Overview) bool { return v.Verdict().Level != view.LevelNotTicking },
			),
		)
		if dead < len(all) {
			d.Title = fmt.Sprintf("Nothing runs the passes of %d of %d projects", dead, len(all))
		}
	case view.LevelNeedsPerson:
		d.Class = "warn"
		d.Icon = "alert"
		d.Title = "Needs you"
	}
	counts := map[view.Status]int{}
	for _, r := range joined.Rows {
		counts[r.Status]++
	}
	unreadable := 0
	without := 0
	for _, v := range all {
		switch {
		case unstarted(v):
			without++
		case v.Error != nil:
			unreadable++
		}
	}
	if unreadable > 0 {
		d.Reasons = append(d.Reasons, reason{text.Plural(unreadable, "unreadable project"), ""})
	}
	if without > 0 {
		d.Reasons = append(d.Reasons, reason{text.Plural(without, "project") + " without a pass", ""})
	}
	if n := len(joined.Requests); n > 0 {
		d.Reasons = append(d.Reasons, reason{text.Plural(n, "request") + " to answer", "#needs"})
	}
	for _, s := range []view.Status{reconcile.StatusHeld, reconcile.StatusUndelivered, view.StatusKept} {
		if counts[s] > 0 {
			d.Reasons = append(
				d.Reasons,
				reason{fmt.Sprintf("%d %s", counts[s], s), c.With("status", string(s))},
			)
		}
	}
	var goes []string
	if joined.Counts.Running == 0 && unreadable < len(all) {
		goes = append(goes, "nothing is running")
	}
	if goingOn := joined.Counts.GoingOn(); goingOn != "" {
		goes = append(goes, goingOn)
	}
	d.Activity = strings.Join(goes, ", ")
	return d
}

// unstarted reports whether no pass of the project has run yet.
func unstarted(v view.Overview) bool { return v.Error != nil && v.Error.Code == "no_state" }

// today is the last day of results.
func today(r *view.Results) view.ResultDay { return r.Days[len(r.Days)-1] }

// window is the length of a limit's window.
func window(l view.LimitRow) string {
	if l.Seconds == nil {
		return l.Window + " limit"
	}
	d := time.Duration(*l.Seconds * float64(time.Second))
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	if d >= time.Hour && d%time.Hour == 0 {
		return text.Plural(int(d.Hours()), "hour")
	}
	return text.Duration(d)
}
