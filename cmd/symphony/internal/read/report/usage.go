package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Use is the sum of several runs.
type Use struct {
	Runs int `json:"ended_runs"`
	// runs that did not end yet; their use so far is counted
	Running   int     `json:"running"`
	Succeeded int     `json:"succeeded"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds_running"`
	view.Spent
}

// UseTotals is the sum of all runs. Stopped runs were ended from outside.
type UseTotals struct {
	Use
	Stopped int `json:"stopped"`
	Issues  int `json:"issues"`
}

// IssueUse is the sum of the runs of an issue.
type IssueUse struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Title      string  `json:"title"`
	IssueURL   *string `json:"issue_url"`
	Use
}

// LabelUse is the sum of the runs of all issues with a label. A run of an issue with several
// labels counts for each of them.
type LabelUse struct {
	Label  *string `json:"label"` // null for issues without a label
	Issues int     `json:"issues"`
	Use
}

// AgentUse is the sum of the runs of an agent: of a kind with an account.
type AgentUse struct {
	view.AgentRow
	Issues int `json:"issues"`
	Use
}

// TakeoverRow is an issue that another agent went on with.
type TakeoverRow struct {
	IssueID    string        `json:"issue_id"`
	Identifier string        `json:"issue_identifier"`
	Title      string        `json:"title"`
	At         time.Time     `json:"at"`   // when the other agent began
	From       view.AgentRow `json:"from"` // the agent that worked on it before
	To         view.AgentRow `json:"to"`
	// Error is why the last run of the agent before ended; null if that was no failure.
	Error *string `json:"error"`
}

// DayUse is the use on a day of UTC, and how many issues of the period were handed over on it.
type DayUse struct {
	Date       string `json:"day"`
	HandedOver int    `json:"handed_over"`
	view.Spent
}

// modelUse sums up the runs of an issue with the same model. Identifier, title, URL and labels
// come from the last run.
type modelUse struct {
	IssueID, Identifier string
	Title, URL          string
	Labels              []string
	Agent               reconcile.Agent
	Runs                int // that have ended
	Succeeded, Failed   int // the other runs were stopped
	Running             int
	Runtime             time.Duration
	reconcile.ModelUse
}

// usesOf sums up ended runs by issue, model and agent, in the order of their first runs.
func usesOf(runs []state.EndedRun) []*modelUse {
	type key struct {
		issueID, model string
		agent          reconcile.Agent
	}
	known := map[key]*modelUse{}
	var uses []*modelUse
	for _, run := range runs {
		u := known[key{run.IssueID, run.Model, run.Agent}]
		if u == nil {
			u = &modelUse{IssueID: run.IssueID, Agent: run.Agent, ModelUse: reconcile.ModelUse{Model: run.Model}}
			known[key{run.IssueID, run.Model, run.Agent}] = u
			uses = append(uses, u)
		}
		u.Identifier = run.Identifier
		u.Title = run.Issue.Title
		u.URL = text.OrEmpty(run.Issue.URL)
		u.Labels = run.Issue.Labels
		u.Runtime += run.Runtime
		u.Tokens = u.Tokens.Plus(run.Tokens)
		u.Runs++
		succeeded := run.Outcome == reconcile.Succeeded
		_, failed := runFailure(run)
		switch {
		case failed, succeeded && run.Undelivered:
			u.Failed++
		case succeeded:
			u.Succeeded++
		}
	}
	return uses
}

// useOf returns the use until now of a run that did not end yet.
func useOf(w view.RunningRow, now time.Time) *modelUse {
	return &modelUse{
		IssueID:    w.IssueID,
		Identifier: w.Identifier,
		Title:      w.Title,
		URL:        text.OrEmpty(w.IssueURL),
		Labels:     w.Run.Issue.Labels,
		Agent:      w.Run.Agent,
		Running:    1,
		Runtime:    max(now.Sub(w.StartedAt), 0),
		ModelUse:   reconcile.ModelUse{Model: w.Run.Model, Tokens: w.Run.Tokens},
	}
}

func (u *Use) add(more *modelUse, prices reconcile.Prices) {
	u.Runs += more.Runs
	u.Running += more.Running
	u.Succeeded += more.Succeeded
	u.Failed += more.Failed
	u.Seconds += more.Runtime.Seconds()
	u.Add(more.ModelUse, prices)
}

// addUses adds up the runs by issue, by label and in total. Running runs count with their use
// so far.
func (r *Report) addUses(ended []state.EndedRun, prices reconcile.Prices) {
	uses := usesOf(ended)
	for _, w := range r.Running {
		uses = append(uses, useOf(w, r.GeneratedAt))
	}
	r.addIssues(uses, prices)
	r.addLabels(uses, prices)
	r.addAgents(uses, prices)
	r.Totals.Spent = view.Spend(prices)
	for _, u := range uses {
		r.Totals.add(u, prices)
	}
	r.Totals.Stopped = r.Totals.Runs - r.Totals.Succeeded - r.Totals.Failed
	r.Totals.Issues = len(r.Issues)
}

// addIssues adds up the runs by issue, the issue that used most tokens first.
func (r *Report) addIssues(uses []*modelUse, prices reconcile.Prices) {
	issues := map[string]*IssueUse{}
	for _, u := range uses {
		i := issues[u.IssueID]
		if i == nil {
			i = &IssueUse{
				IssueID:    u.IssueID,
				Identifier: u.Identifier,
				Use:        Use{Spent: view.Spend(prices)},
			}
			issues[u.IssueID] = i
		}
		i.Title = u.Title
		i.IssueURL = text.OrNull(u.URL)
		i.add(u, prices)
	}
	for _, i := range issues {
		r.Issues = append(r.Issues, *i)
	}
	slices.SortFunc(r.Issues, func(a, b IssueUse) int {
		return cmp.Or(
			cmp.Compare(b.Tokens.Total, a.Tokens.Total),
			text.CompareNatural(a.Identifier, b.Identifier),
		)
	})
}

// addAgents adds up the runs by agent, the agent that used most tokens first.
func (r *Report) addAgents(uses []*modelUse, prices reconcile.Prices) {
	agents := map[reconcile.Agent]*AgentUse{}
	counted := map[reconcile.Agent][]string{}
	for _, u := range uses {
		if u.Agent.Kind == "" {
			continue
		}
		a := agents[u.Agent]
		if a == nil {
			a = &AgentUse{AgentRow: view.AgentRow(u.Agent), Use: Use{Spent: view.Spend(prices)}}
			agents[u.Agent] = a
		}
		if !slices.Contains(counted[u.Agent], u.IssueID) {
			counted[u.Agent] = append(counted[u.Agent], u.IssueID)
			a.Issues++
		}
		a.add(u, prices)
	}
	for _, a := range agents {
		r.Agents = append(r.Agents, *a)
	}
	slices.SortFunc(r.Agents, func(a, b AgentUse) int {
		return cmp.Or(
			cmp.Compare(b.Tokens.Total, a.Tokens.Total),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Home, b.Home),
		)
	})
}

// takeovers returns the issues whose agent changed from one run to the next, the latest first.
// runs are in the order in which they started.
func takeovers(runs []reconcile.Run) []TakeoverRow {
	rows := []TakeoverRow{}
	last := map[string]reconcile.Run{} // by the ids of the issues
	for _, run := range runs {
		if run.Agent.Kind == "" {
			continue
		}
		before, known := last[run.IssueID]
		last[run.IssueID] = run
		if !known || before.Agent == run.Agent {
			continue
		}
		rows = append(rows, TakeoverRow{
			IssueID:    run.IssueID,
			Identifier: run.Identifier,
			Title:      run.Issue.Title,
			At:         run.StartedAt,
			From:       view.AgentRow(before.Agent),
			To:         view.AgentRow(run.Agent),
			Error:      view.ErrorText(before.ErrorCode, before.ErrorText),
		})
	}
	slices.Reverse(rows)
	return rows
}

// addLabels adds up the runs by label, the label that used most tokens first. The empty label
// stands for none.
func (r *Report) addLabels(uses []*modelUse, prices reconcile.Prices) {
	type issueLabel struct{ issueID, label string }
	counted := map[issueLabel]bool{}
	labels := map[string]*LabelUse{}
	for _, u := range uses {
		names := u.Labels
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			l := labels[name]
			if l == nil {
				l = &LabelUse{Label: text.OrNull(name), Use: Use{Spent: view.Spend(prices)}}
				labels[name] = l
			}
			if !counted[issueLabel{u.IssueID, name}] {
				counted[issueLabel{u.IssueID, name}] = true
				l.Issues++
			}
			l.add(u, prices)
		}
	}
	for _, l := range labels {
		r.Labels = append(r.Labels, *l)
	}
	slices.SortFunc(r.Labels, func(a, b LabelUse) int {
		return cmp.Or(
			cmp.Compare(b.Tokens.Total, a.Tokens.Total),
			cmp.Compare(text.OrEmpty(a.Label), text.OrEmpty(b.Label)),
		)
	})
}

// addDays adds up the tokens by day, the last day first.
func (r *Report) addDays(days []state.ModelDay, prices reconcile.Prices) {
	for _, d := range slices.Backward(days) {
		last := len(r.Days) - 1
		if last < 0 || r.Days[last].Date != d.Date {
			r.Days = append(r.Days, DayUse{Date: d.Date, Spent: view.Spend(prices)})
			last++
		}
		r.Days[last].Add(d.ModelUse, prices)
	}
	for _, h := range r.HandedOver {
		date := reconcile.DayOf(h.At)
		i := slices.IndexFunc(r.Days, func(d DayUse) bool { return d.Date == date })
		if i >= 0 {
			r.Days[i].HandedOver++
		}
	}
}
