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
		"amount":          amount,
		"dayOf":           dayOf,
		"dayPlots":        dayPlots,
		"issueAddress":    IssueAddress,
		"latest":          latest,
		"levelClass":      func(v view.Overview) string { return levelClasses[v.Verdict().Level] },
		"meter":           meter,
		"money":           money,
		"needs":           func(r []view.RequestRow, stuck []view.Row) int { return len(r) + len(stuck) },
		"outcomesOf":      outcomesOf,
		"passPlot":        passPlot,
		"passTook":        durationOf,
		"projectCommands": projectCommands,
		"rowOutcome":      rowOutcome,
		"rowRun":          rowRun,
		"rowText":         rowText,
		"shares":          shares,
		"slotMeter":       slotMeter,
		"today":           today,
		"unstarted":       unstarted,
		"window":          window,
	}
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

// levelClasses are the classes of projects' verdicts.
var levelClasses = map[view.Level]string{view.LevelNotTicking: "bad", view.LevelNeedsPerson: "warn", view.LevelOK: "good"}

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
