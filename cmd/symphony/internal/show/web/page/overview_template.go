package page

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// overviewFunctions are those of the template of the overview.
func overviewFunctions() template.FuncMap {
	return template.FuncMap{
		"amount":        amount,
		"dayOf":         dayOf,
		"dayPlots":      dayPlots,
		"issueAddress":  IssueAddress,
		"latest":        latest,
		"levelClass":    levelClass,
		"meter":         meter,
		"money":         money,
		"needs":         func(r []view.RequestRow, stuck []view.Row) int { return len(r) + len(stuck) },
		"outcomesOf":    outcomesOf,
		"passPlot":      passPlot,
		"passTook":      durationOf,
		"projectHealth": func(o *overview, v view.Overview) projectHealth { return projectHealth{o, v} },
		"rowOutcome":    rowOutcome,
		"rowRun":        rowRun,
		"rowText":       rowText,
		"shares":        shares,
		"slotMeter":     slotMeter,
		"stuck":         func(o *overview, r view.Row) stuckRow { return stuckRow{o, r} },
		"today":         today,
		"unstarted":     unstarted,
		"window":        window,
	}
}

// projectHealth is the data of the template "project-health".
type projectHealth struct {
	page     *overview
	Overview view.Overview
}

// Several reports whether the page shows other projects, too.
func (h projectHealth) Several() bool { return len(h.page.Projects) > 1 }

// Form is what an operator can do about the project.
func (h projectHealth) Form() ProjectForm {
	return h.page.Forms(h.Overview.Project.Name).Overview(h.Overview.Paused, h.Overview.Blocked != nil)
}

// stuckRow is the data of the template "stuck".
type stuckRow struct {
	page *overview
	Row  view.Row
}

// Several reports whether the page shows several projects.
func (s stuckRow) Several() bool { return s.page.Several() }

// Page is the address of the issue's page.
func (s stuckRow) Page() string { return IssueAddress(s.Row.Project, s.Row.Identifier) }

// Form is what an operator can do about the issue.
func (s stuckRow) Form() IssueForm {
	return s.page.Forms(s.Row.Project).Issue(s.Row.Identifier, s.Row.Status, s.Row.Claimed(), s.Row.Undelivered())
}

// rowOutcome is the outcome of an ended run; empty for other rows.
func rowOutcome(r view.Row) reconcile.Outcome {
	if run, ended := r.Detail.(view.RunRow); ended && run.Outcome != nil {
		return *run.Outcome
	}
	return ""
}

// rowText is the row's text without its outcome, which the page shows beside it.
func rowText(r view.Row) string {
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
	if run, ended := r.Detail.(view.RunRow); ended {
		return run.RunID
	}
	return ""
}

// levelClass is the class of a project's verdict.
func levelClass(v view.Overview) string {
	switch v.Verdict().Level {
	case view.LevelNotTicking:
		return "bad"
	case view.LevelNeedsPerson:
		return "warn"
	default:
		return "good"
	}
}

func slotMeter(s view.SlotsRow) template.HTML {
	return meter("slots", float64(s.Used), float64(s.Most), fmt.Sprintf("%d of %d slots of the %s are used", s.Used, s.Most, s.Scope))
}

// amount is a number of tokens, or of money in a currency.
func amount(n float64, unit string) string {
	if unit == "tokens" {
		return text.Count(int64(n)) + " tokens"
	}
	return fmt.Sprintf("%.2f %s", n, unit)
}

// latest is a list of days with the newest first.
func latest(days []view.ResultDay) []view.ResultDay {
	list := slices.Clone(days)
	slices.Reverse(list)
	return list
}
