package page

import (
	"fmt"
	"html/template"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Overview is the page of all projects, or of a choice of projects and issues.
type Overview struct {
	Projects []view.Overview   // all of them
	Agents   []view.RequestRow // the requests of agents without an issue
	Choice
	MayAct bool
}

// Forms makes the forms of a project on the overview.
func (o Overview) Forms(project string) Forms {
	return Forms{Project: project, Back: o.Address(), MayAct: o.MayAct}
}

// overviewTemplate is the template of the page.
var overviewTemplate = sync.OnceValue(func() *template.Template {
	return parse(template.FuncMap{
		"dayOf":       dayOf,
		"dayPlots":    dayPlots,
		"endedWith":   endedWith,
		"labelled":    func(label string) string { return Choice{Query: labelPrefix + label}.Address() },
		"latest":      slices.Backward[[]view.ResultDay],
		"levelClass":  func(v view.Overview) string { return levelClasses[v.Verdict().Level] },
		"meter":       meter,
		"outcomesOf":  outcomesOf,
		"passPlot":    passPlot,
		"passTook":    durationOf,
		"resultsBy":   func(project, by string) string { return ResultChoice{Project: project, By: by}.With() },
		"resultsOf":   handedOver,
		"resultsWith": resultsWith,
		"rowOutcome":  rowOutcome,
		"rowRun":      rowRun,
		"rowText":     rowText,
		"rowWords":    rowWords,
		"slotMeter":   slotMeter,
		"today":       today,
		"unstarted":   unstarted,
		"window":      window,
	}, "overview.html")
})

// levelClasses are the classes of projects' verdicts.
var levelClasses = map[view.Level]string{
	view.LevelNotTicking:  "bad",
	view.LevelNeedsPerson: "warn",
	view.LevelOK:          "good",
}

// overview is the data of the template.
type overview struct {
	Overview
	Shown     []view.Overview // the chosen projects with the chosen issues
	Verdict   verdict
	Obstacles []notice
	Requests  []view.RequestRow
	Stuck     []view.Row // issues that need a person and have no request, the first of them
	MoreStuck []tab      // the lists with the others
	// StuckCount is how many issues need a person and have no request.
	StuckCount int
	Lists      []list
	Tabs       []tab
	Results    *view.Results
	Limits     []accountLimits
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
	for _, p := range o.Projects {
		if !o.Lists() && o.shows(p) {
			a.Shown = append(a.Shown, p.Project.Name)
		}
	}
	return Page{
		Title:    title,
		Requests: requests,
		MayAct:   o.MayAct,
		Query:    o.Query,
		Main:     markup(overviewTemplate(), "overview.html", new(o.data())),
		Alerts:   a,
	}
}

// shows reports whether the reader chose the project, or none.
func (o Overview) shows(v view.Overview) bool { return o.Project == "" || v.Project.Name == o.Project }

func (o Overview) data() overview {
	d := overview{Overview: o}
	shown, rows, _ := o.selection().Select(text.Filter(o.Projects, o.shows))
	d.Shown = shown
	for _, v := range d.Shown {
		if !o.Lists() {
			d.Obstacles = append(d.Obstacles, noticesOf(v, o.Forms(v.Project.Name), len(o.Projects) > 1)...)
		}
		if o.Status == "" || o.Status == reconcile.StatusNeedsAnswer {
			d.Requests = append(d.Requests, v.Requests...)
		}
		d.addLimits(v)
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
	if len(o.Projects) == 1 && len(d.Obstacles) > 0 && d.Obstacles[0].Unscheduled {
		d.Verdict.Title = d.Obstacles[0].Title
		d.Verdict.Dead = &d.Obstacles[0]
		d.Obstacles = d.Obstacles[1:]
	}
	if len(d.Shown) == 1 {
		d.Results = d.Shown[0].Results
	}
	d.addRows(rows)
	return d
}

// accountLimits are the limits of an account of agents, and the projects that use it.
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
	for n, known := range d.Limits {
		if reflect.DeepEqual(known.Windows, v.Health.Limits) {
			d.Limits[n].Projects += ", " + v.Project.Name
			return
		}
	}
	d.Limits = append(d.Limits, accountLimits{Projects: v.Project.Name, Windows: v.Health.Limits})
}

// The statuses of the lists of an overview, and the number of rows in each list.
var listed = []struct {
	status view.Status
	rows   int
}{
	{reconcile.StatusRunning, 100},
	{reconcile.StatusQueued, 10},
	{reconcile.StatusBlocked, 5},
	{reconcile.StatusWaiting, 10},
	{reconcile.StatusHandedOver, 10},
	{reconcile.StatusSkipped, 5},
}

// addRows makes lists of the rows, and tabs that choose among them.
func (d *overview) addRows(rows []view.Row) {
	by := map[view.Status][]view.Row{}
	for _, r := range rows {
		by[r.Status] = append(by[r.Status], r)
	}
	all := list{Several: d.Several(), MayAct: d.MayAct}
	d.addTabs(len(rows), by)
	if d.Choice.Lists() {
		if d.Status != "" {
			rows = by[d.Status]
		}
		d.addChosen(all, text.Filter(rows, d.hasNoRequest))
		return
	}
	d.addStuck(by)
	for _, kind := range listed {
		rows := by[kind.status]
		if len(rows) == 0 {
			continue
		}
		n := min(kind.rows, len(rows))
		l := all
		l.Status = kind.status
		l.Rows = rows[:n]
		l.More = len(rows) - n
		if l.More > 0 {
			l.Next = d.With("status", string(kind.status))
		}
		d.Lists = append(d.Lists, l)
	}
}

// hasNoRequest reports whether the page shows no request of the issue of a row, which would
// say the same as the row.
func (d *overview) hasNoRequest(r view.Row) bool {
	return r.Status != reconcile.StatusNeedsAnswer || !slices.ContainsFunc(d.Requests, func(q view.RequestRow) bool {
		return q.Project == r.Project && q.Identifier == r.Identifier
	})
}

// mostStuck is how many issues that need a person the overview shows.
const mostStuck = 10

// addStuck adds the first issues that need a person, and links to the lists of the others.
func (d *overview) addStuck(by map[view.Status][]view.Row) {
	for _, s := range view.StuckStatuses {
		n := min(len(by[s]), mostStuck-len(d.Stuck))
		d.Stuck = append(d.Stuck, by[s][:n]...)
		if more := len(by[s]) - n; more > 0 {
			d.MoreStuck = append(d.MoreStuck, tab{
				Name:    strings.Replace(s.Counted(more), " ", " more ", 1),
				Address: d.With("status", string(s)),
			})
		}
		d.StuckCount += len(by[s])
	}
}

// Needs is how many requests and issues wait for a person.
func (d *overview) Needs() int { return len(d.Requests) + d.StuckCount }

// ProjectForm returns the commands about a project that no notice of the page offers.
func (d *overview) ProjectForm(v view.Overview) ProjectForm {
	f := ProjectForm{Forms: d.Forms(v.Project.Name), Pauses: !v.Paused, Refreshes: true}
	for _, o := range noticesOf(v, f.Forms, false) {
		if o.Verb == "refresh" {
			f.Refreshes = false
		}
	}
	return f
}

// addTabs adds the tab of all rows, and a tab for each status that is chosen or contains rows.
func (d *overview) addTabs(found int, by map[view.Status][]view.Row) {
	first := tab{Name: "At work", Address: d.With("status", ""), Current: d.Status == ""}
	if d.Query != "" {
		first.Name = "All"
		first.Count = found
	}
	d.Tabs = append(d.Tabs, first)
	for _, s := range view.Statuses {
		n := len(by[s])
		if n == 0 && s != d.Status {
			continue
		}
		d.Tabs = append(d.Tabs, tab{
			Name:    titleOf(s),
			Address: d.With("status", string(s)),
			Count:   n,
			Current: s == d.Status,
		})
	}
}

// addChosen adds the list of a page that shows a single status: its rows from number d.From
// on.
func (d *overview) addChosen(l list, rows []view.Row) {
	if len(rows) == 0 {
		return
	}
	from := min(d.From, len(rows))
	until := min(from+pageRows, len(rows))
	l.Status = d.Status
	l.Rows = rows[from:until]
	l.More = len(rows) - until
	if l.More > 0 {
		l.Next = d.With("from", rowNumber(until))
	}
	if from > 0 {
		l.Previous = d.With("from", rowNumber(max(from-pageRows, 0)))
	}
	d.Lists = []list{l}
}

// Several reports whether the page shows several projects.
func (d *overview) Several() bool { return len(d.Shown) > 1 }

// HasHealth reports whether something is known of any of the shown projects: a pass ran, and
// its state can be read.
func (d *overview) HasHealth() bool {
	return slices.ContainsFunc(d.Shown, func(v view.Overview) bool { return v.Error == nil })
}

// verdict tells whether projects need a person.
type verdict struct {
	Class    string
	Icon     string
	Title    string
	Reasons  []reason
	Activity string // such as "2 running, 1 queued"
	Next     *view.NextPass
	Overdue  bool    // Next was more than a minute ago
	Dead     *notice // the only project is without a schedule; nil otherwise
}

// reason is a part of a verdict, and the address of the list that it counts; empty if there is
// none.
type reason struct{ Text, Address string }

// verdictOf is the verdict on all projects that the page shows. The notices contain details on
// the faults that stop them.
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
		isDead := func(v view.Overview) bool { return v.Verdict().Level == view.LevelNotTicking }
		dead := len(text.Filter(all, isDead))
		if dead < len(all) {
			d.Title = fmt.Sprintf("Nothing runs the passes of %d of %d projects", dead, len(all))
		}
	case view.LevelNeedsPerson:
		d.Class = "warn"
		d.Icon = "alert"
		d.Title = "Needs you"
	}
	d.Reasons = reasonsOf(c, all, joined)
	d.Activity = activityOf(all, joined)
	return d
}

// reasonsOf are what needs a person: projects that can't be read, requests, stuck issues.
func reasonsOf(c Choice, all []view.Overview, joined view.Joined) (list []reason) {
	if n := len(text.Filter(all, damaged)); n > 0 {
		list = append(list, reason{Text: text.Plural(n, "unreadable project")})
	}
	if n := len(text.Filter(all, unstarted)); n > 0 {
		list = append(list, reason{Text: text.Plural(n, "project") + " without a pass"})
	}
	if n := len(joined.Requests); n > 0 {
		list = append(list, reason{Text: text.Plural(n, "request") + " to answer", Address: "#needs"})
	}
	counts := map[view.Status]int{}
	for _, r := range joined.Rows {
		counts[r.Status]++
	}
	for _, s := range view.StuckStatuses {
		if counts[s] > 0 {
			list = append(list, reason{
				Text:    s.Counted(counts[s]),
				Address: c.With("status", string(s)),
			})
		}
	}
	return list
}

// activityOf says what is going on, such as "2 running, 1 queued".
func activityOf(all []view.Overview, joined view.Joined) string {
	var goes []string
	unreadable := len(text.Filter(all, damaged))
	if joined.Counts.Running == 0 && unreadable < len(all) {
		goes = append(goes, "nothing is running")
	}
	if goingOn := joined.Counts.GoingOn(); goingOn != "" {
		goes = append(goes, goingOn)
	}
	if reviews := view.ReviewsText(all); reviews != "" {
		goes = append(goes, reviews)
	}
	return strings.Join(goes, ", ")
}

// damaged reports whether the state of the project, which exists, can't be read.
func damaged(v view.Overview) bool { return v.Error != nil && !unstarted(v) }

// unstarted reports whether no pass of the project ran yet.
func unstarted(v view.Overview) bool { return v.Error != nil && v.Error.Code == "no_state" }
