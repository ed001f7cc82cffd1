package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
	Spent
}

func (u *Use) add(more state.RunUse, prices reconcile.Prices) {
	u.Running += more.Running
	u.Runs, u.Succeeded, u.Failed = u.Runs+more.Runs, u.Succeeded+more.Succeeded, u.Failed+more.Failed
	u.Seconds += more.Runtime.Seconds()
	u.Spent.add(more.ModelUse, prices)
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
	Spent
}

// addUses adds up the runs by issue, by label and in total. Runs that have not ended count with what they have used so far.
func (r *Report) addUses(uses []state.RunUse, prices reconcile.Prices) {
	for _, w := range r.Running {
		uses = append(uses, state.RunUse{
			IssueID: w.IssueID, Identifier: w.Identifier, Title: w.Title, URL: deref(w.IssueURL), Labels: w.run.Issue.Labels, Running: 1,
			Runtime: max(r.GeneratedAt.Sub(w.StartedAt), 0), ModelUse: reconcile.ModelUse{Model: w.run.Model, Tokens: w.run.Tokens},
		})
	}
	issues, labels := map[string]*IssueUse{}, map[string]*LabelUse{}
	counted := map[[2]string]bool{} // labels of issues
	t := &r.Totals
	t.Spent = spend(prices)
	for _, u := range uses {
		i := issues[u.IssueID]
		if i == nil {
			i = &IssueUse{IssueID: u.IssueID, Identifier: u.Identifier, Use: Use{Spent: spend(prices)}}
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
				l = &LabelUse{Label: text.OrNull(name), Use: Use{Spent: spend(prices)}}
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
		return cmp.Or(cmp.Compare(b.Tokens.Total, a.Tokens.Total), cmp.Compare(deref(a.Label), deref(b.Label)))
	})
}

// addDays adds up the tokens by day, the last day first.
func (r *Report) addDays(days []state.ModelDay, prices reconcile.Prices) {
	for _, d := range slices.Backward(days) {
		if n := len(r.Days); n == 0 || r.Days[n-1].Date != d.Date {
			r.Days = append(r.Days, DayUse{Date: d.Date, Spent: spend(prices)})
		}
		r.Days[len(r.Days)-1].add(d.ModelUse, prices)
	}
	for _, h := range r.HandedOver {
		if i := slices.IndexFunc(r.Days, func(d DayUse) bool { return d.Date == reconcile.DayOf(h.At) }); i >= 0 {
			r.Days[i].HandedOver++
		}
	}
}

// Spent is a number of tokens and what they cost; nil without prices.
type Spent struct {
	Tokens Tokens `json:"tokens"`
	Cost   *Cost  `json:"cost"`
}

// Cost is an estimate of money by agent.prices.
type Cost struct {
	Currency string   `json:"currency"`
	Estimate bool     `json:"estimate"` // always true: it is no bill
	Amount   Amount   `json:"amount"`
	Unpriced int64    `json:"unpriced_tokens"` // of models without a price
	Models   []string `json:"unpriced_models"`
}

// Amount is an amount of money. JSON has four decimals.
type Amount float64

// MarshalJSON implements json.Marshaler.
func (a Amount) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.4f", float64(a)), nil }

// unknownModel stands for the model of tokens that were recorded without one.
const unknownModel = "(not recorded)"

// spend adds up what was used.
func spend(prices reconcile.Prices, uses ...reconcile.ModelUse) (s Spent) {
	if len(prices.Models) > 0 {
		s.Cost = &Cost{Currency: prices.Currency, Estimate: true, Models: []string{}}
	}
	for _, u := range uses {
		s.add(u, prices)
	}
	return s
}

// joined adds up what two projects have used. Tokens of a project without prices, or with another currency, are unpriced.
func (s Spent) joined(more Spent) Spent {
	sum := Spent{Tokens: Tokens(reconcile.Tokens(s.Tokens).Plus(reconcile.Tokens(more.Tokens)))}
	for _, part := range []Spent{s, more} {
		switch c := part.Cost; {
		case c != nil && sum.Cost == nil:
			sum.Cost = &Cost{Currency: c.Currency, Estimate: true, Models: []string{}}
			fallthrough
		case c != nil && c.Currency == sum.Cost.Currency:
			sum.Cost.Amount += c.Amount
			sum.Cost.Unpriced += c.Unpriced
			sum.Cost.Models = append(sum.Cost.Models, c.Models...)
		}
	}
	if sum.Cost != nil {
		for _, part := range []Spent{s, more} {
			if part.Cost == nil || part.Cost.Currency != sum.Cost.Currency {
				sum.Cost.Unpriced += part.Tokens.Total
			}
		}
		slices.Sort(sum.Cost.Models)
		sum.Cost.Models = slices.Compact(sum.Cost.Models)
	}
	return sum
}

func (s *Spent) add(u reconcile.ModelUse, prices reconcile.Prices) {
	s.Tokens = Tokens(reconcile.Tokens(s.Tokens).Plus(u.Tokens))
	price, known := prices.Of(u.Model)
	switch c := s.Cost; {
	case c == nil || u.Tokens == (reconcile.Tokens{}):
	case known && !strings.Contains(u.Model, "+"): // with a plus it is several models: how much each used is not recorded
		c.Amount += Amount(price.Cost(u.Tokens))
	default:
		c.Unpriced += u.Tokens.Total
		if name := cmp.Or(u.Model, unknownModel); !slices.Contains(c.Models, name) {
			c.Models = append(c.Models, name)
		}
	}
}
