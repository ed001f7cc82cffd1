package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

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

// costOf is the estimate for what was used; nil without prices.
func costOf(uses []state.ModelUse, prices workflow.Prices) *Cost {
	if len(prices.Models) == 0 {
		return nil
	}
	c := &Cost{Currency: prices.Currency, Estimate: true, Models: []string{}}
	for _, u := range uses {
		if u.Tokens == (reconcile.Tokens{}) {
			continue
		}
		price, known := prices.Of(u.Model)
		// A name with a plus stands for several models: how much each of them used is not recorded.
		if known && !strings.Contains(u.Model, "+") {
			c.Amount += Amount(price.Cost(u.Tokens))
			continue
		}
		c.Unpriced += u.Tokens.Total
		if name := cmp.Or(u.Model, unknownModel); !slices.Contains(c.Models, name) {
			c.Models = append(c.Models, name)
		}
	}
	return c
}

func sumTokens(uses []state.ModelUse) Tokens {
	var sum reconcile.Tokens
	for _, u := range uses {
		sum = sum.Plus(u.Tokens)
	}
	return Tokens(sum)
}
