package page

import (
	"html/template"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
)

// Watch is what every page shows of all projects, whatever it is about.
type Watch struct {
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

// NewWatch makes it of all projects and of what agents without an issue ask. back is the page that follows a command.
func NewWatch(all []view.Overview, agents []view.RequestRow, back string, mayAct bool) *Watch {
	w := &Watch{News: []News{}}
	ask := func(requests []view.RequestRow) {
		for _, r := range requests {
			form := Forms{Project: r.Project}.Request(r)
			w.News = append(w.News, News{form.Anchor(), text.Visible(r.Identifier + " " + form.Wants())})
		}
	}
	ask(agents)
	for _, v := range all {
		ask(v.Requests)
		for _, o := range obstaclesOf(v, Forms{v.Project.Name, back, mayAct}, len(all) > 1) {
			if o.Alarm {
				w.Alarms = append(w.Alarms, o)
				w.News = append(w.News, News{o.Forms.Project + ": " + o.Title, text.Visible(o.Brief())})
			}
		}
	}
	return w
}

// Brief is the notice in a few words, for the title of a page.
func (o obstacle) Brief() string { return strings.TrimPrefix(o.Project+": "+o.Title, ": ") }

func (p Page) alarmed() bool { return p.Watch != nil && len(p.Watch.Alarms) > 0 }

// Strip is the alarms above a page that does not have them among its own notices.
func (p Page) Strip() template.HTML {
	if !p.alarmed() || p.Watch.InPlace {
		return ""
	}
	return mainOf("strip", p.Watch.Alarms)
}
