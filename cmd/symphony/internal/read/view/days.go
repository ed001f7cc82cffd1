package view

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Results shows the results of the agents in the last days.
type Results struct {
	// the oldest first, the last is today; empty days are included
	Days []ResultDay `json:"days"`
	// Handover is the median time from the claim of an issue to its handover in these days, in
	// seconds; null without a handover.
	Handover *float64 `json:"median_handover_seconds"`

	handovers []time.Duration
}

// ResultDay is a day of UTC.
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
	first := f.Now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-resultDays)
	r := &Results{}
	for n := range resultDays {
		r.Days = append(r.Days, ResultDay{
			Date:     reconcile.DayOf(first.AddDate(0, 0, n)),
			Outcomes: map[reconcile.Outcome]int{},
			Spent:    Spend(prices),
		})
	}
	found, err := f.DB.Views.Days(ctx, first)
	if err != nil {
		return nil, err
	}
	for _, h := range found.Handovers {
		r.day(reconcile.DayOf(h.At)).HandedOver++
		r.handovers = append(r.handovers, h.At.Sub(h.ClaimedAt))
	}
	for _, o := range found.Outcomes {
		day := r.day(o.Date)
		day.Outcomes[o.Outcome] += o.Runs
		day.Seconds += o.Runtime.Seconds()
	}
	for _, u := range found.Uses {
		r.day(u.Date).Add(u.ModelUse, prices)
	}
	r.median()
	return r, nil
}

// day returns the day with that date. A date in the future, of a clock that was ahead, gets a
// day that is not listed.
func (r *Results) day(date string) *ResultDay {
	for i := range r.Days {
		if r.Days[i].Date == date {
			return &r.Days[i]
		}
	}
	return &ResultDay{Outcomes: map[reconcile.Outcome]int{}}
}

// median sets the median time to a handover.
func (r *Results) median() {
	slices.Sort(r.handovers)
	if n := len(r.handovers); n > 0 {
		r.Handover = text.OrNull(r.handovers[n/2].Seconds())
	}
}
