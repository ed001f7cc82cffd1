package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// event is something that happened to the issue: a run with its turns, a request, a hold, a
// release.
type event struct {
	At          time.Time
	Tone, Title string
	Text        string
	Words       string   // of the agent, as Markdown
	Run         *runItem // nil for other events
}

// runItem is a run in the history of an issue.
type runItem struct {
	view.RunRow
	Took  string          // empty while it runs
	Log   string          // the address of its page
	Turns []detail.Moment // the oldest first
}

// eventsOf returns the history of an issue, the newest event first. runPath returns the
// address of the page of a run.
func eventsOf(i detail.Issue, runPath func(runID string) string) []event {
	var list []event
	for _, m := range i.Timeline {
		e := event{At: m.At, Text: m.Text}
		switch m.Kind {
		case detail.MomentTurn: // they are in their runs
			continue
		case detail.MomentRun:
			n := slices.IndexFunc(i.Runs, func(r view.RunRow) bool { return r.RunID == *m.RunID })
			if n < 0 {
				continue
			}
			e = newRunEvent(i.Runs[n], i.Timeline, runPath(i.Runs[n].RunID))
		case detail.MomentRequest:
			e.Title = m.Name + " " + decided(m.Result)
			e.Tone = "warn"
			if m.Result == "" {
				e.Title = m.Name + " waits for you"
			}
		case detail.MomentAsked:
			e.Title = sentence(m.Name)
			e.Text = ""
			e.Words = m.Text
		default:
			e.Title = sentence(inWords(strings.TrimSpace(m.Name + " " + m.Result)))
			e.Tone = cmp.Or(momentTones[string(m.Kind)], momentTones[m.Result])
		}
		list = append(list, e)
	}
	return list
}

// momentTones are the tones of moments by their kinds or results.
var momentTones = map[string]string{
	string(detail.MomentHold):     "warn",
	string(detail.MomentHelp):     "warn",
	string(detail.MomentRework):   "warn",
	string(detail.MomentHandover): "good",
	"passed":                      "good",
	"failed":                      "bad",
	"merged":                      "good",
	"closed":                      "warn",
	"approved":                    "good",
	"changes_requested":           "warn",
}

// decided words the decision on a request, or how it ended without a decision.
func decided(result string) string {
	decisions := map[string]string{
		"approve":             "approved",
		"approve_for_session": "approved for the session",
		"deny":                "denied",
		"answer":              "answered",
	}
	return cmp.Or(decisions[result], inWords(result))
}

// newRunEvent makes the event of a run, with its turns in the history of the issue. path is the
// address of its page.
func newRunEvent(r view.RunRow, timeline []detail.Moment, path string) event {
	e := event{
		At:    r.StartedAt,
		Title: "Run",
		Tone:  "active",
		Run:   &runItem{RunRow: r, Log: path},
	}
	switch {
	case r.Kind != reconcile.AgentRun:
		e.Title = "Delivery without an agent"
	case r.Attempt > 0:
		e.Title = "Another run"
	}
	if r.Outcome == nil {
		e.Title += " in progress"
	} else {
		e.Title += " " + inWords(*r.Outcome)
		e.Tone = cmp.Or(outcomeTones[*r.Outcome], "bad")
	}
	if r.EndedAt != nil {
		e.Run.Took = took(r.StartedAt, *r.EndedAt)
	}
	if r.Delivery != nil && r.Delivery.Code != "" {
		e.Tone = "bad"
	}
	e.Run.Turns = text.Filter(timeline, func(m detail.Moment) bool {
		return m.Kind == detail.MomentTurn && text.OrEmpty(m.RunID) == r.RunID
	})
	slices.Reverse(e.Run.Turns)
	return e
}

// outcomeTones are the tones of outcomes that are not bad.
var outcomeTones = map[reconcile.Outcome]string{
	reconcile.Succeeded:      "good",
	reconcile.EndedRun:       "warn",
	reconcile.InterruptedRun: "warn",
	reconcile.Canceled:       "warn",
}

// turnTone is the tone of a turn with this result, which is empty until the turn ends.
func turnTone(result string) string {
	switch result {
	case "":
		return "active"
	case "completed":
		return "good"
	}
	return "bad"
}
