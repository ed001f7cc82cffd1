package workflow

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	pricesHint = "write for instance {gpt-5.5: {input: 1.25, cached: 0.125, output: 10}}: the prices of " +
		"a million tokens"
	budgetHint = "write for instance 5M, 2000000 or, with agent.prices, 20 USD; 0 is no limit"
)

// prices reads agent.prices. It checks everything, because the sums of a wrong price look like
// any other.
func (r *reader) prices(f field) {
	p := reconcile.Prices{Currency: "USD"}
	defer func() { r.cfg.Agent.Prices = p }()
	if f.node == nil {
		return
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(Key{Type: typePrices}, f, pricesHint)
		return
	}
	var entries map[string]yaml.Node
	if f.node.Decode(&entries) != nil {
		r.invalid(f, "a model is named twice, or not by a plain word", "keep one entry for each model")
		return
	}
	p.Models = map[string]reconcile.Price{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		node := entries[name]
		entry := field{key: f.key + "." + name, line: r.line(&node), node: deref(&node)}
		text := strings.TrimSpace(entry.node.Value)
		switch {
		case strings.TrimSpace(name) == "":
			r.invalid(field{key: f.key, line: entry.line}, "an entry has no model", pricesHint)
		case name != "currency":
			p.Models[name] = r.price(entry)
		case null(entry.node) || text == "" || utf8.RuneCountInString(text) > 8 || strings.ContainsAny(text, "\t\n"):
			r.wrong(Key{Type: "short word"}, entry, "write USD or €")
		default:
			p.Currency = text
		}
	}
	if len(p.Models) == 0 {
		r.warn(f, "no effect: it contains no model")
	}
}

// price reads an entry. Cached tokens without a price cost as much as other input.
func (r *values) price(f field) (p reconcile.Price) {
	if f.node.Kind != yaml.MappingNode {
		r.wrong(Key{Type: "map of input, output and optionally cached"}, f, pricesHint)
		return reconcile.Price{}
	}
	var entries map[string]yaml.Node
	if f.node.Decode(&entries) != nil {
		r.invalid(f, "a price is named twice, or not by a plain word", "keep one of each")
		return reconcile.Price{}
	}
	for _, name := range []string{"input", "output"} {
		if _, given := entries[name]; !given {
			r.invalid(f, "has no price for "+name, pricesHint)
		}
	}
	_, cached := entries["cached"]
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		node := entries[name]
		entry := field{key: f.key + "." + name, line: r.line(&node), node: deref(&node)}
		switch name {
		case "input":
			p.Input = r.amount(entry)
		case "cached":
			p.Cached = r.amount(entry)
		case "output":
			p.Output = r.amount(entry)
		default:
			r.invalid(entry, "there are prices for input, cached and output", pricesHint)
		}
	}
	if !cached {
		p.Cached = p.Input
	}
	return p
}

// highestPrice is the largest price of a million tokens. In rupiah, a model that costs 75 USD
// costs 1,200,000.
const highestPrice = 1e9

// amount reads the price of a million tokens.
func (r *values) amount(f field) float64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(f.node.Value), 64)
	if f.node.Kind != yaml.ScalarNode || err != nil || math.IsNaN(n) {
		r.wrong(Key{Type: "number"}, f, pricesHint)
		return 0
	}
	if n < 0 || n > highestPrice {
		r.invalid(f, "must be from 0 to 1,000,000,000, is "+f.node.Value, "write the price of a million tokens")
		return 0
	}
	return n
}

// budgetPattern matches a number, with underscores between its digits, and a unit.
var budgetPattern = text.Pattern(`^([0-9][0-9_]*(?:\.[0-9]+)?)\s*(\S*)$`)

// tokenUnit returns how many tokens a unit stands for: a million for M.
func tokenUnit(unit string) (factor float64, known bool) {
	factor, known = map[string]float64{
		"":       1,
		"tokens": 1,
		"k":      1e3,
		"m":      1e6,
		"g":      1e9,
	}[strings.ToLower(unit)]
	return factor, known
}

// mostTokens is the largest number of tokens with a unit.
const mostTokens = 1e15

// tokens reads a number of tokens with a unit, such as 5M.
func tokens(node *yaml.Node) (n int64, ok bool) {
	m := budgetPattern().FindStringSubmatch(strings.TrimSpace(node.Value))
	if node.Kind != yaml.ScalarNode || m == nil || m[2] == "" {
		return 0, false
	}
	amount, err := strconv.ParseFloat(strings.ReplaceAll(m[1], "_", ""), 64)
	factor, known := tokenUnit(m[2])
	if err != nil || !known || amount*factor > mostTokens {
		return 0, false
	}
	return int64(math.Ceil(amount * factor)), true
}

// leastBudget is less than any turn uses: 10 was probably meant as money, or as millions.
const leastBudget = 1000

// budget reads agent.budget_per_day: tokens, or money of the currency of agent.prices. Money
// needs a price for every model, because tokens without a price would not count.
func (r *reader) budget(f field) {
	if f.node == nil {
		return
	}
	prices := r.cfg.Agent.Prices
	m := budgetPattern().FindStringSubmatch(r.cfg.Agent.budget)
	if m == nil {
		r.wrong(Key{Type: typeBudget}, f, budgetHint)
		return
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], "_", ""), 64)
	factor, isTokens := tokenUnit(m[2])
	_, pricesAll := prices.Models[reconcile.AnyModel]
	b := reconcile.DailyBudget{Prices: prices}
	switch {
	case err != nil || n*max(factor, 1) > mostTokens:
		r.invalid(f, "the number is too large", budgetHint)
	case isTokens:
		b.Tokens = int64(math.Ceil(n * factor)) // of 0.5, too, there is a limit
		unit := m[2]
		if strings.EqualFold(unit, "tokens") {
			unit = ""
		}
		b.Written = m[1] + unit + " tokens"
		if b.Tokens > 0 && b.Tokens < leastBudget {
			r.warn(f, "so few tokens are used up by the first turn of the day; "+budgetHint)
		}
	case len(prices.Models) == 0:
		r.invalid(
			f,
			"an amount of money needs agent.prices, the prices of tokens",
			"add agent.prices, or write tokens, such as 5M",
		)
	case m[2] != prices.Currency:
		r.invalid(
			f,
			"the unit "+strconv.Quote(
				m[2],
			)+" is neither k, M or G, for tokens, nor the currency of agent.prices, "+
				prices.Currency,
			budgetHint,
		)
	case !pricesAll:
		r.invalid(f, "agent.prices has no default, so that models that it does not name would cost nothing",
			"add a price for default to agent.prices: the price of the most expensive model")
	default:
		b.Amount = n
		b.Written = m[1] + " " + m[2]
	}
	if b.Set() {
		r.cfg.Policy.DailyBudget = b
	}
}
