package page

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// functions are those of the templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"visible":  text.Visible, // text of agents and trackers without control characters
		"lines":    text.VisibleLines,
		"diff":     changeBlocks,
		"lineBody": lineBody,
		"icon":     icon,
		"when":     when,
		"count":    text.Count,
		"plural":   text.Plural,
		"elapsed":  elapsed,
		"command":  command,
		"marked":   marked,
		"seconds":  func(s float64) string { return text.Duration(time.Duration(s * float64(time.Second))) },
		"words":    func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
		"sentence": func(s string) string { return sentence(text.Visible(s)) },

		"amount":          amount,
		"dayOf":           dayOf,
		"dayPlots":        dayPlots,
		"issueAddress":    IssueAddress,
		"labelled":        func(label string) string { return Choice{Query: labelPrefix + label}.Address() },
		"linked":          linked,
		"latest":          slices.Backward[[]view.ResultDay],
		"levelClass":      func(v view.Overview) string { return levelClasses[v.Verdict().Level] },
		"meter":           meter,
		"money":           func(c *view.Cost) string { return amount(float64(c.Amount), c.Currency) },
		"needs":           func(r []view.RequestRow, stuck []view.Row) int { return len(r) + len(stuck) },
		"outcomesOf":      outcomesOf,
		"passPlot":        passPlot,
		"passTook":        durationOf,
		"projectCommands": projectCommands,
		"endedWith": func(project, outcome string) string {
			return Choice{
				Project: project,
				Status:  view.StatusEnded,
				Query:   outcome + ":",
			}.Address()
		},
		"said":   func(s string) string { return text.Within(text.VisibleLines(s), mostSaid) },
		"pullOf": pullOf,
		"resultsOf": func(project, day string) string {
			return ResultChoice{
				Project: project,
				Outcome: state.ResultHandedOver,
				Since:   day,
				Until:   day,
			}.With()
		},
		"resultsWith": func(project, query string) string {
			return ResultChoice{
				Project: project,
				Query:   query,
			}.With()
		},
		"rowOutcome": rowOutcome,
		"rowRun":     rowRun,
		"rowText":    rowText,
		"slotMeter":  slotMeter,
		"today":      today,
		"took":       took,
		"turnTone":   turnTone,
		"unstarted":  unstarted,
		"window":     window,
	}
}

// when is a moment, a time.Time or a pointer to one. The script of the pages shows how long
// ago or in how long it is, so that a page only changes with its facts; without the script it
// is the time in UTC.
func when(v any) template.HTML {
	t, ok := v.(time.Time)
	if p, isPointer := v.(*time.Time); isPointer && p != nil {
		t = *p
		ok = true
	}
	if !ok || t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(`<time data-relative datetime="` + t.Format(time.RFC3339) + `">` +
		t.Format("2 Jan 15:04") + ` UTC</time>`) // digits only
}

func took(since, until time.Time) string { return text.Duration(until.Sub(since)) }

// elapsed is how long something has taken since a moment, as when is.
func elapsed(v any) template.HTML {
	since := strings.Replace(string(when(v)), "relative", `relative="for"`, 1)
	return template.HTML(strings.Replace(since, ">", ">since ", 1)) //nolint:gosec // ours
}

// command is a command of symphony with a button that copies it, which needs the script.
func command(line string) template.HTML {
	shown := template.HTMLEscapeString(text.Visible(line))
	button := `<button type="button" class="copy quiet" title="Copy" aria-label="Copy ` + shown + `">`
	html := `<code>` + shown + `</code>` + button + string(icon("copy")) + `</button>`
	return template.HTML(html) //nolint:gosec // escaped
}

// marked is a text of ours with commands and keys between backquotes.
func marked(s string) template.HTML {
	var b strings.Builder
	for n, part := range strings.Split(s, "`") {
		shown := template.HTMLEscapeString(text.Visible(part))
		switch {
		case n%2 == 0:
			b.WriteString(shown)
		case strings.Contains(part, " "):
			b.WriteString(string(command(part)))
		default:
			b.WriteString("<code>" + shown + "</code>")
		}
	}
	return template.HTML(b.String()) //nolint:gosec // escaped
}

// word is a word of a text with the address of the issue that it names; empty if it names
// none.
type word struct{ Before, Text, After, Address string }

// linked divides a text into words, which name issues of these lists.
func linked(project, s string, known map[string]bool) (list []word) {
	for w := range strings.SplitSeq(s, " ") {
		name := strings.Trim(w, ",;()")
		at := strings.Index(w, name)
		l := word{Before: w[:at], Text: name, After: w[at+len(name):] + " "}
		if known[project+" "+name] {
			l.Address = IssueAddress(project, name)
		}
		list = append(list, l)
	}
	return list
}

// icons returns the lines of pictures of 16 by 16.
var icons = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"alert":  "M8 2 14.5 13.5h-13zM8 6.5v3M8 11.6v.1",
		"auto":   "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
		"check":  "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM5.5 8.2l1.8 1.8 3.4-3.8",
		"clock":  "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.6",
		"copy":   "M6 6h7v7H6zM10 6V3H3v7h3",
		"diff":   "M8 2.5v6M5 5.5h6M5 12.5h6",
		"info":   "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.5v3.3M8 5.1v.1",
		"link":   "M9 3h4v4M13 3 7.5 8.5M11 9.5V13H3V5h3.5",
		"moon":   "M13.5 9.5A5.8 5.8 0 0 1 6.5 2.5a5.8 5.8 0 1 0 7 7z",
		"pause":  "M5.5 3.5v9M10.5 3.5v9",
		"search": "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.4 10.4 13.5 13.5",
		"stop":   "M5.4 2h5.2L14 5.4v5.2L10.6 14H5.4L2 10.6V5.4zM8 5v3.5M8 10.9v.1",
		"sun": "M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1" +
			"M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
		"working": "M2 8h2.5L6.5 3l3 10 2-5H14",
	}
})

func icon(name string) template.HTML {
	// ours
	return template.HTML(
		`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="` + icons()[name] + `"/></svg>`,
	)
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
		svg += `<circle cx="21" cy="21" r="11" fill="#c4231c"/>` +
			`<text x="21" y="26.5" text-anchor="middle" font-family="sans-serif" font-weight="700" font-size="15" fill="#fff">` + number + `</text>`
	}
	return svg + "</svg>"
}

// sentence begins a text with a capital letter.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// rowOutcome is the outcome of an ended run; empty for other rows.
func rowOutcome(r view.Row) reconcile.Outcome {
	run, _ := r.Detail.(view.RunRow)
	return text.OrEmpty(run.Outcome)
}

// rowText is the row's text without its outcome and its hold, which the page shows beside it.
func rowText(r view.Row) string {
	if r.HeldNext() {
		return strings.TrimPrefix(r.Text, view.HeldNextText+"; ")
	}
	if run, ended := r.Detail.(view.RunRow); ended {
		outcome, reason := run.Ending()
		if outcome == string(rowOutcome(r)) {
			return reason
		}
	}
	return r.Text
}

// rowRun is the id of an ended run, of which an issue can have several; empty for other rows.
func rowRun(r view.Row) string {
	run, _ := r.Detail.(view.RunRow)
	return run.RunID
}

// levelClasses are the classes of projects' verdicts.
var levelClasses = map[view.Level]string{
	view.LevelNotTicking:  "bad",
	view.LevelNeedsPerson: "warn",
	view.LevelOK:          "good",
}

func slotMeter(s view.SlotsRow) template.HTML {
	return meter(
		"slots",
		float64(s.Used),
		float64(s.Most),
		fmt.Sprintf("%d of %d slots of the %s are used", s.Used, s.Most, s.Scope),
	)
}

// amount is a number of tokens, or of money in a currency.
func amount(n float64, unit string) string {
	if unit == "tokens" {
		return text.Count(int64(n)) + " tokens"
	}
	return fmt.Sprintf("%.2f %s", n, unit)
}
