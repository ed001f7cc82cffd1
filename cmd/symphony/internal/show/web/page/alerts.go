package page

import (
	"html/template"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
)

// Alerts are what every page tells of all projects, whatever it is about: alarms above the page, and news for notifications.
type Alerts struct {
	Alarms []obstacle // what stops whole projects until a person acts
	News   []News     // for notifications
	// InPlace: the page has the alarms among its own notices.
	InPlace bool
}

// News is a request or an alarm. A browser tells each of them once, by its ID.
type News struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// NewAlerts makes the alerts of all projects and of what agents without an issue ask. back is the page that follows a command.
func NewAlerts(all []view.Overview, agents []view.RequestRow, back string, mayAct bool) *Alerts {
	a := &Alerts{News: []News{}}
	ask := func(requests []view.RequestRow) {
		for _, r := range requests {
			form := Forms{Project: r.Project}.Request(r)
			a.News = append(a.News, News{form.Anchor(), text.Visible(r.Identifier + " " + form.Wants())})
		}
	}
	ask(agents)
	for _, v := range all {
		ask(v.Requests)
		for _, o := range obstaclesOf(v, Forms{v.Project.Name, back, mayAct}, len(all) > 1) {
			if o.Alarm {
				a.Alarms = append(a.Alarms, o)
				a.News = append(a.News, News{o.Forms.Project + ": " + o.Title, text.Visible(o.Brief())})
			}
		}
	}
	return a
}

// Brief is the notice in a few words, for the title of a page.
func (o obstacle) Brief() string { return strings.TrimPrefix(o.Project+": "+o.Title, ": ") }

func (p Page) alarmed() bool { return p.Alerts != nil && len(p.Alerts.Alarms) > 0 }

// Strip is the alarms above a page that does not have them among its own notices.
func (p Page) Strip() template.HTML {
	if !p.alarmed() || p.Alerts.InPlace {
		return ""
	}
	return mainOf("strip", p.Alerts.Alarms)
}
