package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// money is an estimate by agent.prices, and what it leaves out.
type Money struct {
	Currency string `json:"currency"`
	Estimate bool   `json:"estimate"` // always true, so that nobody takes it for a bill
	Amount   amount `json:"amount"`
	// Unpriced are the tokens of models that have no price.
	Unpriced int64    `json:"unpriced_tokens"`
	Models   []string `json:"unpriced_models"`
}

// amount is printed to the hundredth of a cent: more would look exact.
type amount float64

// MarshalJSON implements json.Marshaler.
func (a amount) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%.4f", float64(a)), nil }

func (a amount) String() string { return fmt.Sprintf("%.2f", float64(a)) }

// purse prices tokens; without agent.prices it has none.
type Purse struct{ Prices workflow.Prices }

// unknownModel names the model of tokens of which nobody wrote down which model used them.
const UnknownModel = "(not recorded)"

// of is the estimate for what was used; nil without prices.
func (p Purse) Of(uses []state.ModelUse) *Money {
	if len(p.Prices.Models) == 0 {
		return nil
	}
	m := &Money{Currency: p.Prices.Currency, Estimate: true, Models: []string{}}
	for _, u := range uses {
		if u.Tokens == (reconcile.Tokens{}) {
			continue
		}
		price, known := p.Prices.Of(u.Model)
		if known && !strings.Contains(u.Model, "+") { // of several models nobody knows which used how much
			m.Amount += amount(price.Cost(u.Tokens))
			continue
		}
		name := u.Model
		if name == "" {
			name = UnknownModel
		}
		m.Unpriced += u.Tokens.Total
		if !slices.Contains(m.Models, name) {
			m.Models = append(m.Models, name)
		}
	}
	return m
}

// cell is the figure of a table: empty without prices, with a plus where something has none.
func CostCell(m *Money) string {
	switch {
	case m == nil:
		return ""
	case m.Unpriced > 0:
		return m.Amount.String() + "+"
	}
	return m.Amount.String()
}

// usedBy adds up by model, in the order of their coming.
func usedBy(uses []state.ModelUse) []state.ModelUse {
	var all []state.ModelUse
	for _, u := range uses {
		at := slices.IndexFunc(all, func(k state.ModelUse) bool { return k.Model == u.Model })
		if at < 0 {
			all = append(all, u)
			continue
		}
		all[at].Tokens = all[at].Tokens.Plus(u.Tokens)
	}
	return all
}

func tokensOf(uses []state.ModelUse) TokensRow {
	var sum reconcile.Tokens
	for _, u := range uses {
		sum = sum.Plus(u.Tokens)
	}
	return TokensRow(sum)
}
