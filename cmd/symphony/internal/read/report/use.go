package report

import (
	"cmp"
	"slices"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Use is what runs came to.
type Use struct {
	Runs      int     `json:"ended_runs"`
	Running   int     `json:"running"` // runs that have not ended; what they have used so far is counted
	Succeeded int     `json:"succeeded"`
	Failed    int     `json:"failed"`
	Seconds   float64 `json:"seconds_running"`
	view.Spent
}

func (u *Use) add(more state.RunUse, prices reconcile.Prices) {
	u.Running += more.Running
	u.Runs, u.Succeeded, u.Failed = u.Runs+more.Runs, u.Succeeded+more.Succeeded, u.Failed+more.Failed
	u.Seconds += more.Runtime.Seconds()
	u.Add(more.ModelUse, prices)
}

// UseTotals is what all runs came to. Stopped runs were ended from outside.
type UseTotals struct {
	Use
	Stopped int `json:"stopped"`
	Issues  int `json:"issues"`
}

// IssueUse is what the runs of one issue came to.
type IssueUse struct {
	IssueID    string  `json:"issue_id"`
	Identifier string  `json:"issue_identifier"`
	Title      string  `json:"title"`
	IssueURL   *string `json:"issue_url"`
	Use
}

// LabelUse is what the runs of all issues with a label came to. A run of an issue with several labels counts for each of them.
type LabelUse struct {
	Label  *string `json:"label"` // null for the issues without one
	Issues int     `json:"issues"`
	Use
}

// DayUse is what was used on one day of UTC, and how many issues of the period were handed over on it.
type DayUse struct {
	Date       string `json:"day"`
	HandedOver int    `json:"handed_over"`
	view.Spent
}

// addUses adds up the runs by issue, by label and in total. Runs that have not ended count with what they have used so far.
func (r *Report) addUses(uses []state.RunUse, prices reconcile.Prices) {
	for _, w := range r.Running {
		uses = append(uses, state.RunUse{
			IssueID: w.IssueID, Identifier: w.Identifier, Title: w.Title, URL: text.OrEmpty(w.IssueURL), Labels: w.Run.Issue.Labels, Running: 1,
			Runtime: max(r.GeneratedAt.Sub(w.StartedAt), 0), ModelUse: reconcile.ModelUse{Model: w.Run.Model, Tokens: w.Run.Tokens},
		})
	}
	issues, labels := map[string]*IssueUse{}, map[string]*LabelUse{}
	counted := map[[2]string]bool{} // labels of issues
	t := &r.Totals
	t.Spent = view.Spend(prices)
	for _, u := range uses {
		i := issues[u.IssueID]
		if i == nil {
			i = &IssueUse{IssueID: u.IssueID, Identifier: u.Identifier, Use: Use{Spent: view.Spend(prices)}}
			issues[u.IssueID] = i
		}
		i.Title, i.IssueURL = u.Title, text.OrNull(u.URL)
		i.add(u, prices)
		t.add(u, prices)
		if len(u.Labels) == 0 {
			u.Labels = []string{""}
		}
		for _, name := range u.Labels {
			l := labels[name]
			if l == nil {
				l = &LabelUse{Label: text.OrNull(name), Use: Use{Spent: view.Spend(prices)}}
				labels[name] = l
			}
			if key := [2]string{name, u.IssueID}; !counted[key] {
				counted[key] = true
				l.Issues++
			}
			l.add(u, prices)
		}
	}
	t.Stopped, t.Issues = t.Runs-t.Succeeded-t.Failed, len(issues)
	for _, i := range issues {
		r.Issues = append(r.Issues, *i)
	}
	for _, l := range labels {
		r.Labels = append(r.Labels, *l)
	}
	slices.SortFunc(r.Issues, func(a, b IssueUse) int {
		return cmp.Or(cmp.Compare(b.Tokens.Total, a.Tokens.Total), text.CompareNatural(a.Identifier, b.Identifier))
	})
	slices.SortFunc(r.Labels, func(a, b LabelUse) int {
		return cmp.Or(cmp.Compare(b.Tokens.Total, a.Tokens.Total), cmp.Compare(text.OrEmpty(a.Label), text.OrEmpty(b.Label)))
	})
}

// addDays adds up the tokens by day, the last day first.
func (r *Report) addDays(days []state.ModelDay, prices reconcile.Prices) {
	for _, d := range slices.Backward(days) {
		if n := len(r.Days); n == 0 || r.Days[n-1].Date != d.Date {
			r.Days = append(r.Days, DayUse{Date: d.Date, Spent: view.Spend(prices)})
		}
		r.Days[len(r.Days)-1].Add(d.ModelUse, prices)
	}
	for _, h := range r.HandedOver {
		if i := slices.IndexFunc(r.Days, func(d DayUse) bool { return d.Date == reconcile.DayOf(h.At) }); i >= 0 {
			r.Days[i].HandedOver++
		}
	}
}
