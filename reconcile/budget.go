package reconcile

import (
	"strings"
	"time"
)

// DailyBudget is how much all runs of a project may use on a day of UTC: a number of tokens,
// or an amount of money by the prices. The zero value sets no limit. Runs that have begun go
// on, so that a day may use more.
type DailyBudget struct {
	Tokens  int64
	Amount  float64 // in the currency of Prices; 0 for a budget of tokens
	Prices  Prices
	Written string // such as "5M tokens" or "20 USD", for messages
}

// Set reports whether there is a limit.
func (b DailyBudget) Set() bool { return b.Tokens > 0 || b.Amount > 0 }

// Most returns the budget, in tokens or in money.
func (b DailyBudget) Most() float64 {
	if b.Amount > 0 {
		return b.Amount
	}
	return float64(b.Tokens)
}

// Used returns the sum of the uses of a day, in the unit of Most.
func (b DailyBudget) Used(uses []ModelUse) (used float64) {
	for _, u := range uses {
		if b.Amount > 0 {
			paid, _ := b.Prices.Paid(u.Tokens)
			used += max(paid, b.Prices.atMost(u))
		} else {
			used += float64(u.Tokens.Total)
		}
	}
	return used
}

// Reached reports whether the uses of a day reached the budget.
func (b DailyBudget) Reached(uses []ModelUse) bool { return b.Set() && b.Used(uses) >= b.Most() }

// Text describes a used-up budget and its end, in the time zone of now.
func (b DailyBudget) Text(now time.Time) string {
	return "budget of " + b.Written + " a day used up until " + clockOf(DayEnd(now), now)
}

// DayOf names the day of UTC to which the use of tokens at that time counts.
func DayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// DayEnd returns when the day of UTC ends.
func DayEnd(now time.Time) time.Time { return now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) }

// clockOf is a time of day in the time zone of now, with the date unless that is today: 15:04,
// 2 Jan 15:04.
func clockOf(at, now time.Time) string {
	at = at.In(now.Location())
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("2 Jan 15:04")
}

// ModelUse is the use of a model. Model is empty if it is unknown; several models of a run are
// joined by a plus.
type ModelUse struct {
	Model  string `json:"model"`
	Tokens Tokens `json:"tokens"`
}

// Prices are the prices of tokens, from agent.prices.
type Prices struct {
	Currency string           // printed as written; "USD" by default
	Models   map[string]Price // by model, with AnyModel for all others; empty without agent.prices
}

// AnyModel is the key of Prices.Models for the models that it does not name.
const AnyModel = "default"

// Price is the cost of a million tokens of each kind.
type Price struct{ Input, Cached, Output float64 }

// Of returns the price of a model; false if it is unknown.
func (p Prices) Of(model string) (Price, bool) {
	if price, known := p.Models[model]; known {
		return price, true
	}
	price, known := p.Models[AnyModel]
	return price, known
}

// Paid returns what an agent says that tokens have cost; false if it does not say that, or in another
// currency than that of the prices.
func (p Prices) Paid(t Tokens) (amount float64, said bool) {
	if t.Paid == 0 || len(p.Models) > 0 && p.Currency != PaidCurrency {
		return 0, false
	}
	return float64(t.Paid) / 1e6, true
}

// PaidCurrency is the currency of Tokens.Paid.
const PaidCurrency = "USD"

// atMost returns the highest possible cost of tokens: if several models used them, all of them
// at the highest price.
func (p Prices) atMost(u ModelUse) (amount float64) {
	for model := range strings.SplitSeq(u.Model, "+") {
		price, _ := p.Of(model)
		amount = max(amount, price.Cost(u.Tokens))
	}
	return amount
}

// Cost returns the cost of tokens. Cached tokens are part of the input, and reasoning tokens
// part of the output.
func (p Price) Cost(t Tokens) float64 {
	cached := min(t.Cached, t.Input)
	return (float64(t.Input-cached)*p.Input + float64(cached)*p.Cached + float64(t.Output)*p.Output) / 1e6
}
