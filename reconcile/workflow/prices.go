package workflow

import (
	"fmt"
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
	anyModel        = "default"
	currencyKey     = "currency"
	usualCurrency   = "USD"
	longestCurrency = 8 // characters
	highestPrice    = 1e6
	pricesHint      = "write for instance {gpt-5.5: {input: 1.25, cached: 0.125, output: 10}}, in the currency of a million tokens"
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
func (r *reader) prices(k Key, cfg *Config) {
	cfg.Agent.Prices.Currency = usualCurrency
	if f, given := r.fields[k.Name]; given {
		cfg.Agent.Prices = r.priceMap(k, f)
	}
}

func (r *reader) priceMap(k Key, f field) Prices {
	key, p := k.Name, Prices{Currency: usualCurrency}
	if f.node.Kind != yaml.MappingNode {
		r.fail(CodeInvalid, f.line, f.key, fmt.Sprintf("must be %s, is %s", article(k.Type), kindName(f.node)), pricesHint)
		return p
	}
	if again := repeated(f.node); again != nil {
		r.fail(CodeParse, r.line(again), f.key, strconv.Quote(again.Value)+" is given twice", "keep one of them")
		return p
	}
	p.Models = map[string]Price{}
	for i := 0; i+1 < len(f.node.Content); i += 2 {
		name, value := f.node.Content[i], deref(f.node.Content[i+1])
		switch {
		case name.Kind != yaml.ScalarNode || strings.TrimSpace(name.Value) == "":
			r.fail(CodeInvalid, r.line(name), key, "an entry names no model", pricesHint)
		case name.Value == currencyKey:
			p.Currency = r.currency(r.line(name), value)
		default:
			p.Models[name.Value] = r.price(r.line(name), key+"."+name.Value, value)
		}
	}
	if len(p.Models) == 0 {
		r.warn(f.line, key, "no effect: it has the price of no model")
	}
	return p
}

func (r *reader) currency(line int, value *yaml.Node) string {
	text := strings.TrimSpace(value.Value)
	if value.Kind != yaml.ScalarNode || null(value) || text == "" || utf8.RuneCountInString(text) > longestCurrency || strings.ContainsAny(text, "\t\n") {
		r.fail(CodeInvalid, line, "agent.prices.currency", "must be a short word, is "+given(value), "write USD or €")
		return usualCurrency
	}
	return text
}

// price reads one entry. Cached tokens without a price cost as much as other input.
func (r *reader) price(line int, key string, value *yaml.Node) Price {
	if value.Kind != yaml.MappingNode {
		r.fail(CodeInvalid, line, key, "must be a map with input, cached and output, is "+given(value), pricesHint)
		return Price{}
	}
	amounts := map[string]float64{}
	for i := 0; i+1 < len(value.Content); i += 2 {
		name, amount := value.Content[i], deref(value.Content[i+1])
		n, err := strconv.ParseFloat(strings.TrimSpace(amount.Value), 64)
		switch {
		case !slices.Contains([]string{"input", "cached", "output"}, name.Value):
			r.fail(CodeInvalid, r.line(name), key, strconv.Quote(name.Value)+" is none of input, cached, output", pricesHint)
		case amount.Kind != yaml.ScalarNode || err != nil || !(n >= 0 && n <= highestPrice): // not NaN either
			r.fail(CodeInvalid, r.line(name), key+"."+name.Value, "must be a number, 0 or more, is "+given(amount), "it is the price of a million tokens")
		}
		amounts[name.Value] = n
	}
	input, hasInput := amounts["input"]
	output, hasOutput := amounts["output"]
	if !hasInput || !hasOutput {
		r.fail(CodeInvalid, line, key, "input and output must both be given", pricesHint)
	}
	cached, given := amounts["cached"]
	if !given {
		cached = input
	}
	return Price{Input: input, Cached: cached, Output: output}
}
