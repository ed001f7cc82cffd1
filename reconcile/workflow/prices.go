package workflow

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/reconcile"
)

// Prices are the costs of tokens that the workflow gives.
type Prices struct {
	// Currency is printed as it is; "USD" where the file has none.
	Currency string
	// Models has the price of each model, and of all others under anyModel; empty without agent.prices.
	Models map[string]Price
}

// Price is the cost of a million tokens of each kind.
type Price struct{ Input, Cached, Output float64 }

const (
	anyModel   = "default"
	pricesHint = "write for instance {gpt-5.5: {input: 1.25, cached: 0.125, output: 10}}, in the currency of a million tokens"
)

// Of is the price of a model; false where it is not known.
func (p Prices) Of(model string) (Price, bool) {
	if price, known := p.Models[model]; known {
		return price, true
	}
	price, known := p.Models[anyModel]
	return price, known
}

// Cost is the cost of a count of tokens. Cached tokens are part of the input, and reasoning is part of the output.
func (p Price) Cost(t reconcile.Tokens) float64 {
	cached := min(t.Cached, t.Input)
	return (float64(t.Input-cached)*p.Input + float64(cached)*p.Cached + float64(t.Output)*p.Output) / 1e6
}

// prices reads agent.prices. It checks everything, because a wrong price would give a wrong figure without a sign of it.
func (r *reader) prices(f field) {
	p := Prices{Currency: "USD"}
	defer func() { r.cfg.Agent.Prices = p }()
	if f.node == nil {
		return
	}
	var entries map[string]yaml.Node // a name given twice is an error
	if f.node.Kind != yaml.MappingNode || f.node.Decode(&entries) != nil {
		r.wrong(Key{Type: typePrices}, f, pricesHint)
		return
	}
	p.Models = map[string]Price{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		node := entries[name]
		entry := field{key: f.key + "." + name, line: r.line(&node), node: deref(&node)}
		text := strings.TrimSpace(entry.node.Value)
		switch {
		case strings.TrimSpace(name) == "":
			r.invalid(field{key: f.key, line: entry.line}, "an entry names no model", pricesHint)
		case name != "currency":
			p.Models[name] = r.price(entry)
		case null(entry.node) || text == "" || utf8.RuneCountInString(text) > 8 || strings.ContainsAny(text, "\t\n"):
			r.wrong(Key{Type: "short word"}, entry, "write USD or €")
		default:
			p.Currency = text
		}
	}
	if len(p.Models) == 0 {
		r.warn(f, "no effect: it has the price of no model")
	}
}

// price reads one entry. Cached tokens without a price cost as much as other input.
func (r *reader) price(f field) Price {
	var written map[string]string
	err := f.node.Decode(&written)
	amounts := map[string]float64{}
	for name, text := range written {
		n, bad := strconv.ParseFloat(strings.TrimSpace(text), 64)
		amounts[name] = n
		if bad != nil || !(n >= 0 && n <= 1e6) || name != "input" && name != "cached" && name != "output" { // not NaN either
			err = errors.Join(err, errors.New(name))
		}
	}
	input, hasInput := amounts["input"]
	output, hasOutput := amounts["output"]
	if err != nil || !hasInput || !hasOutput {
		r.invalid(f, "must be a map with input and output, and perhaps cached, as numbers of 0 or more", pricesHint)
	}
	cached, given := amounts["cached"]
	if !given {
		cached = input
	}
	return Price{Input: input, Cached: cached, Output: output}
}
