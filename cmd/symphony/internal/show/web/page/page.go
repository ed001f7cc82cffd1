// Package page draws the read model as HTML. It reads nothing: a page is a function of the
// values of package view.
package page

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// frame is the template around every page, with the pages that show nothing of the projects.
var frame = sync.OnceValue(func() *template.Template {
	return parse(nil, "layout.html", "problem.html", "login.html")
})

// Page is a page without its frame: the part that changes while it is open.
type Page struct {
	Title    string
	Requests int           // how many requests wait for a person, in all projects
	Main     template.HTML // the content of the element main
	MayAct   bool          // the reader holds the token
	Notice   *Notice       // nil unless the page follows a command

	Query  string    // of the search, which is on each page
	Path   string    // of the page, with its query
	At     time.Time // when it was drawn, by the clock of the server
	Theme  string    // light or dark; empty for the theme of the reader's system
	Live   bool      // it changes while it is open
	Review bool      // it is a diff, which a reader reviews
	Alerts *Alerts   // nil for a page that shows nothing of the projects
}

// Now is the clock of the server, by which the script shows how long ago something was.
func (p Page) Now() string { return p.At.UTC().Format(time.RFC3339Nano) }

// Notice is the answer to the last command of the reader.
type Notice struct {
	Command string // as it is typed
	Lines   []string
	Failed  bool
}

// Heading is the title of the tab in a browser.
func (p Page) Heading() string {
	heading := text.Visible(p.Title) + " · symphony"
	if p.alarmed() {
		heading = "⚠ " + text.Visible(p.Alerts.Alarms[0].Brief()) + " · " + heading
	}
	if p.Requests > 0 {
		return fmt.Sprintf("(%d) %s", p.Requests, heading)
	}
	return heading
}

// Version changes with the program and with the reader's permissions. An open page of another
// version loads itself again.
func (p Page) Version() string {
	version := strings.Trim(AssetTag(), `"`)
	if p.MayAct {
		return version + "-acting"
	}
	return version
}

// Changes are applied to an open page by its script.
type Changes struct {
	Version string       `json:"version"`
	Title   string       `json:"title"`
	Icon    template.URL `json:"icon"`
	Main    string       `json:"main"`
	Alarm   string       `json:"alarm"`
	News    []News       `json:"news"`
}

// Changes returns the present values.
func (p Page) Changes() Changes {
	c := Changes{
		Version: p.Version(),
		Title:   p.Heading(),
		Icon:    p.Icon(),
		Main:    string(p.Main),
		Alarm:   string(p.Strip()),
		News:    []News{},
	}
	if p.Alerts != nil {
		c.News = p.Alerts.News
	}
	return c
}

// Document is the page as HTML.
func (p Page) Document() []byte { return draw(frame(), "layout.html", p) }

// alarmed reports whether something stops whole projects.
func (p Page) alarmed() bool { return p.Alerts != nil && len(p.Alerts.Alarms) > 0 }

// Strip is the alarms above a page, without those that it has among its own notices.
func (p Page) Strip() template.HTML {
	if !p.alarmed() {
		return ""
	}
	alarms := text.Filter(p.Alerts.Alarms, func(n notice) bool {
		return !slices.Contains(p.Alerts.Shown, n.Forms.Project)
	})
	return markup(fragments(), "strip", alarms)
}

// Icon is the URL of the page's Picture, which contains all of it.
func (p Page) Icon() template.URL {
	return template.URL("data:image/svg+xml," + url.PathEscape(p.Picture())) // ours
}

// Picture is the SVG of the page in the tab of a browser. It shows how many requests wait for
// a person.
func (p Page) Picture() string {
	colour := "#3d8bfd"
	number := ""
	if p.alarmed() {
		colour = "#e5484d"
		number = "!"
	}
	svg := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><g fill="` + colour + `">` +
		`<rect x="2" y="12" width="5" height="8" rx="2.5"/>` +
		`<rect x="10" y="4" width="5" height="24" rx="2.5"/>` +
		`<rect x="18" y="9" width="5" height="14" rx="2.5"/><rect x="26" y="13" width="5" height="6" rx="2.5"/></g>`
	switch {
	case p.Requests > 9:
		number = "9+"
	case p.Requests > 0:
		number = fmt.Sprint(p.Requests)
	}
	if number != "" {
		disc := "#9a5b00" // something waits, which is no trouble
		if p.alarmed() {
			disc = "#c4231c"
		}
		svg += `<circle cx="21" cy="21" r="11" fill="` + disc + `"/>` +
			`<text x="21" y="26.5" text-anchor="middle" font-family="sans-serif" font-weight="700" ` +
			`font-size="15" fill="#fff">` + number + `</text>`
	}
	return svg + "</svg>"
}

// Problem is the page of an error. With login it contains the form that takes the token.
func Problem(e *reconcile.Error, login bool) Page {
	data := struct {
		Error *reconcile.Error
		Login bool
	}{e, login}
	return Page{Title: e.Message, Main: markup(frame(), "problem.html", data)}
}

// Login is the page that takes the token.
func Login() Page { return Page{Title: "Token", Main: markup(frame(), "login.html", nil)} }
