package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// Tokens are token counts. Cached is part of Input, Reasoning part of Output.
type Tokens struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_input_tokens"`
	Output    int64 `json:"output_tokens"`
	Reasoning int64 `json:"reasoning_output_tokens"`
	Total     int64 `json:"total_tokens"`
	Paid      int64 `json:"-"` // see reconcile.Tokens
}

// Spent is a number of tokens and their cost; nil if it is not known.
type Spent struct {
	Tokens Tokens `json:"tokens"`
	Cost   *Cost  `json:"cost"`
}

// Cost is money: what agents report of themselves, and otherwise an estimate by agent.prices.
type Cost struct {
	Currency string   `json:"currency"`
	Estimate bool     `json:"estimate"` // part of it is an estimate by agent.prices
	Amount   Amount   `json:"amount"`
	Unpriced int64    `json:"unpriced_tokens"` // of models without a price
	Models   []string `json:"unpriced_models"`
}

// Amount is an amount of money. In JSON it is written with four decimals.
type Amount float64

// MarshalJSON implements json.Marshaler.
func (a Amount) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.4f", float64(a)), nil }

// unknownModel stands for the model of tokens that were recorded without a model.
const unknownModel = "(not recorded)"

// Spend adds up the usage.
func Spend(prices reconcile.Prices, uses ...reconcile.ModelUse) (s Spent) {
	if len(prices.Models) > 0 {
		s.Cost = &Cost{Currency: prices.Currency, Estimate: true, Models: []string{}}
	}
	for _, u := range uses {
		s.Add(u, prices)
	}
	return s
}

// Joined adds up the usage of two projects. Tokens of a project without prices, or with
// another currency, are unpriced.
func (s Spent) Joined(more Spent) Spent {
	sum := Spent{Tokens: Tokens(reconcile.Tokens(s.Tokens).Plus(reconcile.Tokens(more.Tokens)))}
	first := cmp.Or(s.Cost, more.Cost)
	if first == nil {
		return sum
	}
	sum.Cost = &Cost{Currency: first.Currency, Models: []string{}}
	for _, part := range []Spent{s, more} {
		c := part.Cost
		if c == nil || c.Currency != first.Currency {
			sum.Cost.Unpriced += part.Tokens.Total
			continue
		}
		sum.Cost.Amount += c.Amount
		sum.Cost.Estimate = sum.Cost.Estimate || c.Estimate
		sum.Cost.Unpriced += c.Unpriced
		sum.Cost.Models = append(sum.Cost.Models, c.Models...)
	}
	slices.Sort(sum.Cost.Models)
	sum.Cost.Models = slices.Compact(sum.Cost.Models)
	return sum
}

// Add adds the usage of a model.
func (s *Spent) Add(u reconcile.ModelUse, prices reconcile.Prices) {
	s.Tokens = Tokens(reconcile.Tokens(s.Tokens).Plus(u.Tokens))
	paid, said := prices.Paid(u.Tokens)
	if said {
		if s.Cost == nil {
			s.Cost = &Cost{Currency: reconcile.PaidCurrency, Models: []string{}}
		}
		s.Cost.Estimate = s.Cost.Estimate && s.Cost.Amount > 0
		s.Cost.Amount += Amount(paid)
		return
	}
	if s.Cost == nil || u.Tokens == (reconcile.Tokens{}) {
		return
	}
	price, known := prices.Of(u.Model)
	several := strings.Contains(u.Model, "+") // how much each of them used is not recorded
	if known && !several {
		s.Cost.Estimate = true
		s.Cost.Amount += Amount(price.Cost(u.Tokens))
		return
	}
	s.Cost.Unpriced += u.Tokens.Total
	name := cmp.Or(u.Model, unknownModel)
	if !slices.Contains(s.Cost.Models, name) {
		s.Cost.Models = append(s.Cost.Models, name)
	}
}
