package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// verdictLabel is the word for a level of a verdict, with its colour.
func verdictLabel(l view.Level) (label, colour string) {
	switch l {
	case view.LevelNeedsPerson:
		return "NEEDS YOU", term.ColourStuck
	case view.LevelNotTicking:
		return "NOT TICKING", term.ColourStuck
	default:
		return "OK", term.ColourRuns
	}
}

// summary is the last line of ps: the verdict, the present activity, and when the next pass is
// expected.
func summary(w *term.Env, all []view.Overview) string {
	if len(all) == 0 {
		return hang(w, "", "no projects: no pass has run yet as this account")
	}
	verdict := view.Judge(all)
	return verdictLine(w, all, verdict.Level, verdict.Brief)
}

// Status prints the last line of ps about projects, with the reasons that ps prints above it,
// and which pull requests are watched. On a terminal it continues on further lines.
func Status(w *term.Env, all []view.Overview, verdict view.Verdict) {
	var watched []string
	if reviews := view.ReviewsText(all); reviews != "" {
		watched = append(watched, reviews)
	}
	for _, v := range all {
		line := watchedText(w, v, len(all) > 1)
		if line != "" {
			watched = append(watched, line)
		}
	}
	fmt.Fprintln(w.Stdout, verdictLine(w, all, verdict.Level, slices.Clone(verdict.Reasons), watched...))
}

// verdictLine adds to the parts of a verdict the present activity, the texts of more, and when
// the next pass is expected.
func verdictLine(w *term.Env, all []view.Overview, level view.Level, parts []string, more ...string) string {
	word, colour := verdictLabel(level)
	if len(all) > 0 {
		if activity := activityText(all); activity != "" {
			parts = append(parts, activity)
		}
	}
	parts = append(parts, more...)
	if len(all) == 1 {
		parts = append(parts, scheduleText(all[0]))
	}
	return hang(w, w.Bold(w.Paint(colour, word))+"  ", text.Visible(strings.Join(parts, "; ")))
}

// activityText counts the issues that need no person, and explains why none runs.
func activityText(all []view.Overview) string {
	var n reconcile.Counts
	candidates := 0
	for _, v := range all {
		n = n.Plus(v.Counts)
		candidates += v.Candidates()
	}
	var parts []string
	idle := n.Running == 0
	if idle {
		parts = []string{"nothing running"}
		reason := idleReason(all)
		if reason != "" {
			parts[0] += ": " + reason
		}
	}
	if goingOn := n.GoingOn(); goingOn != "" {
		parts = append(parts, goingOn)
	}
	line := strings.Join(parts, ", ")
	if idle && candidates > 0 && all[0].Skipped == nil {
		line += " (symphony ps --all shows why)"
	}
	return line
}

// scheduleText is when the next pass of the schedule is expected, or how to start runs without
// a schedule.
func scheduleText(v view.Overview) string {
	next := v.NextPass
	switch {
	case !v.Schedule && v.Demo:
		return "a demo needs no schedule"
	case !v.Schedule:
		return "run symphony tick or symphony schedule install"
	case next == nil:
		return "the schedule is active"
	case next.First && !next.At.After(v.GeneratedAt):
		return fmt.Sprintf("the first pass is due (%s)", next.Trigger)
	case next.First:
		return fmt.Sprintf("first pass within %s (%s)", text.Duration(next.At.Sub(v.GeneratedAt)), next.Trigger)
	case !next.At.After(v.GeneratedAt):
		return fmt.Sprintf("next pass is due (%s)", next.Trigger)
	}
	return fmt.Sprintf("next pass in %s (%s)", text.Duration(next.At.Sub(v.GeneratedAt)), next.Trigger)
}

// idleReason explains why no issue of the project runs, unless the verdict does.
func idleReason(all []view.Overview) string {
	if len(all) > 1 {
		return ""
	}
	v := all[0]
	p := v.LastPass
	stops := func(o view.ObstacleRow) bool { return o.Stops }
	atWork := v.Counts
	atWork.HandedOver = 0
	switch {
	case len(v.Issues) > 0:
		return "symphony show " + v.Issues[0] + " shows why"
	case p == nil, len(p.Errors) > 0, slices.ContainsFunc(v.Obstacles, stops):
		return ""
	case atWork != reconcile.Counts{}, len(v.Stuck()) > 0:
		return ""
	case p.Trigger != wiring.TriggerWorker && p.Trigger != wiring.TriggerCommand:
		return "no issue of the project is in an active state"
	case !v.Schedule:
		return "nothing starts by itself"
	}
	return "" // such a pass does not read all issues
}
