package view

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Results is what the agents have achieved in the last days.
type Results struct {
	// the oldest first, the last one is today, days without anything included
	Days []ResultDay `json:"days"`
	// Handover is the median time from the claim of an issue to its handover in these days, in
	// seconds; null without one.
	Handover *float64 `json:"median_handover_seconds"`

	handovers []time.Duration
}

// ResultDay is one day of UTC.
type ResultDay struct {
	Date       string `json:"day"`
	HandedOver int    `json:"handed_over"` // issues
	// Outcomes are the numbers of runs that ended on the day, by their outcomes.
	Outcomes map[reconcile.Outcome]int `json:"outcomes"`
	Seconds  float64                   `json:"seconds_running"` // of these runs
	Spent
}

// resultDays is how many days Results have.
const resultDays = 14

// results reads the results of the last days.
func (f *Facts) results(ctx context.Context) (*Results, error) {
	var prices reconcile.Prices
	if f.Config != nil {
		prices = f.Config.Agent.Prices
	}
	r := &Results{}
	first := f.Now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-resultDays)
	for n := range resultDays {
		date := reconcile.DayOf(first.AddDate(0, 0, n))
		r.Days = append(r.Days, ResultDay{
			Date:     date,
			Outcomes: map[reconcile.Outcome]int{},
			Spent:    Spend(prices),
		})
	}
	found, err := f.DB.Views.Results(ctx, first)
	day := func(date string) *ResultDay {
		if i := slices.IndexFunc(r.Days, func(d ResultDay) bool { return d.Date == date }); i >= 0 {
			return &r.Days[i]
		}
		return &ResultDay{Outcomes: map[reconcile.Outcome]int{}} // the clock was ahead
	}
	for _, h := range found.Handovers {
		day(reconcile.DayOf(h.At)).HandedOver++
		r.handovers = append(r.handovers, h.At.Sub(h.ClaimedAt))
	}
	for _, o := range found.Outcomes {
		d := day(o.Date)
		d.Outcomes[o.Outcome] += o.Runs
		d.Seconds += o.Runtime.Seconds()
	}
	for _, u := range found.Days {
		day(u.Date).Add(u.ModelUse, prices)
	}
	r.median()
	return r, err
}

func (r *Results) median() {
	slices.Sort(r.handovers)
	if n := len(r.handovers); n > 0 {
		r.Handover = text.OrNull(r.handovers[n/2].Seconds())
	}
}
