package page

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
)

// Alerts are the messages about all projects that every page shows, whatever its subject:
// alarms above the page, and news for notifications.
type Alerts struct {
	Alarms []notice // each stops a whole project until a person acts
	News   []News   // for notifications
	// Requests is how many requests wait for a person.
	Requests int
	// Shown are the projects whose alarms the page has among its own notices.
	Shown []string
}

// News is a request, an issue whose agent needs a person, or an alarm. A browser tells each of
// them once, by its ID.
type News struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// NewAlerts makes the alerts of all projects and of the requests of agents without an issue.
// back is the page that follows a command.
func NewAlerts(all []view.Overview, agents []view.RequestRow, back string, mayAct bool) *Alerts {
	a := &Alerts{News: []News{}}
	ask := func(requests []view.RequestRow) {
		a.Requests += len(requests)
		for _, r := range requests {
			form := Forms{Project: r.Project}.Request(r)
			a.News = append(a.News, News{form.Anchor(), text.Visible(r.Identifier + " " + form.Wants())})
		}
	}
	ask(agents)
	for _, v := range all {
		ask(v.Requests)
		for _, h := range v.NeedsHelp {
			id := fmt.Sprintf("help-%s-%s-%d", h.Project, h.Identifier, h.HeldAt.Unix())
			a.News = append(a.News, News{id, text.Visible(h.Identifier + " needs help")})
		}
		for _, o := range noticesOf(v, Forms{v.Project.Name, back, mayAct}, len(all) > 1) {
			if o.Alarm {
				a.Alarms = append(a.Alarms, o)
				a.News = append(a.News, News{o.Forms.Project + ": " + o.Title, text.Visible(o.Brief())})
			}
		}
	}
	return a
}

// Brief is the notice in a few words, for the title of a page.
func (n notice) Brief() string { return strings.TrimPrefix(n.Project+": "+n.Title, ": ") }

// notice is an obstacle of a project as a page shows it.
type notice struct {
	Class, Icon string
	Project     string // empty with a single project
	Title, Text string
	Hint        string
	Code        string
	Began, Ends string     // the events at At and at Until
	At, Until   *time.Time // nil where no time is known
	// how to react to it; without a verb where only waiting helps
	ProjectButton
	Alarm       bool // it stops the whole project until a person acts
	Unscheduled bool // no schedule runs passes
}

// noticesOf are the notices of a project, the worst first.
func noticesOf(v view.Overview, forms Forms, several bool) (list []notice) {
	offered := map[string]bool{} // each button is there once
	for _, o := range v.Obstacles {
		if o.Args.Fault == "no_state" { // the page shows in another way that no pass ran yet
			continue
		}
		if several && o.Code == obstacle.NoSchedule {
			next := *o.Next
			next.Flags = "-w " + text.ShellQuote(v.Project.WorkflowPath)
			o.Next = &next
		}
		n := newNotice(o.Obstacle, v.GeneratedAt)
		n.Forms = forms
		if offered[n.Verb] {
			n.Verb = ""
		}
		offered[n.Verb] = true
		if several {
			n.Project = v.Project.Name
		}
		list = append(list, n)
	}
	return list
}

// noticeIcons are the icons of obstacles, by their codes. The others have one of their level.
var noticeIcons = map[string]string{
	obstacle.NoSchedule: "alert",
	obstacle.Host:       "alert",
	obstacle.Paused:     "pause",
}

// beginnings say what began when, by the codes of obstacles.
var beginnings = map[string]string{
	obstacle.NoSchedule:  "its last pass was",
	obstacle.Blocked:     "began",
	obstacle.PullsUnread: "first",
}

// newNotice makes a notice of an obstacle. An error is red, because a person must act.
func newNotice(o obstacle.Obstacle, now time.Time) notice {
	w := o.Words(now)
	n := notice{
		Class:         "warn",
		Icon:          "clock",
		Title:         capital(w.Brief),
		Text:          cmp.Or(o.Args.Message, capital(w.Detail)),
		Hint:          w.Step,
		Code:          o.Args.Fault,
		Began:         beginnings[o.Code],
		Ends:          "ends",
		At:            text.OrNull(o.Args.Since),
		Until:         o.Until,
		ProjectButton: ProjectButton{Verb: o.Verb},
		Unscheduled:   o.Code == obstacle.NoSchedule,
	}
	if o.Level == obstacle.Error {
		n.Class = "bad"
		n.Icon = "stop"
		n.Alarm = o.Stops || n.Unscheduled
	}
	n.Icon = cmp.Or(noticeIcons[o.Code], n.Icon)
	if o.Until == nil && o.Args.NextTry.After(now) {
		n.Ends = "next try"
		n.Until = &o.Args.NextTry
	}
	return n
}

// capital is a sentence with a capital letter at its beginning.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
