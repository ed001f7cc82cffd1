package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

func TestExpandPath(t *testing.T) {
	env := envOf(map[string]string{"BASE": "/srv/base", "TILDE": "~/t", "EMPTY": "", "REL": "r"})
	env.Home = "/home/ann"
	for text, want := range map[string]string{
		"/a/../b//c/": "/b/c",
		"ws":          "/flow/ws",
		"./x/../y":    "/flow/y",
		"..":          "/",
		"~":           "/home/ann",
		"~/":          "/home/ann",
		"~/x":         "/home/ann/x",
		"a~b":         "/flow/a~b",
		"$BASE/x":     "/srv/base/x",
		"${BASE}x":    "/srv/basex",
		"a-$REL-b":    "/flow/a-r-b",
		"$TILDE":      "/home/ann/t",
		"a$":          "/flow/a$",
		"$1":          "/flow/$1",
		"$$BASE":      "/flow/$/srv/base",
	} {
		test.Equal(t, text, test.Must(env.expandPath(text, "/flow")), want)
	}
	for _, text := range []string{"", " ", "~bob", "~bob/x", "$UNSET/x", "$EMPTY", "${", "${}", "${A B}", "${BASE", "a\x00b", "a\nb"} {
		if got, err := env.expandPath(text, "/flow"); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
	if got, err := (Environment{}).expandPath("~/x", "/flow"); err == nil {
		t.Errorf("no home: %q", got)
	}
}

func TestPassEnv(t *testing.T) {
	vars := map[string]string{
		"LINEAR_API_KEY": envKey,
		"TEAM_KEY":       teamKey,
		"HEADER":         "Bearer " + envKey,
		"TEAM_HEADER":    "Bearer " + teamKey,
	}
	env := envOf(vars)
	for _, c := range []struct {
		value, apiKey string
		want          []string
		refused       string // of what is said; empty where nothing is
	}{
		{value: "", want: []string{}},
		{value: "[]", want: []string{}},
		{value: "[NPM_TOKEN, GH_TOKEN]", want: []string{"NPM_TOKEN", "GH_TOKEN"}},
		{value: `[NPM_TOKEN, " NPM_TOKEN", _x1]`, want: []string{"NPM_TOKEN", "_x1"}},
		{value: "[CODEX_API_KEY]", want: []string{"CODEX_API_KEY"}}, // allowed
		{value: "NPM_TOKEN", refused: "must be a list of variable names, is a single value"},
		{value: "[$NPM_TOKEN]", refused: `"$NPM_TOKEN" is not the name of a variable`},
		{value: "[NPM*]", refused: `"NPM*" is not the name of a variable`},
		{value: "[1ST]", refused: `"1ST" is not the name`},
		{value: "[A=b]", refused: `"A=b" is not the name of a variable`},
		{value: "[[A]]", refused: "an item is a list, not a string"},
		{value: "['']", refused: "an item is empty"},
		{value: "[LINEAR_API_KEY]", refused: "LINEAR_API_KEY contains a secret of symphony"},
		{
			value:   "[LINEAR_API_KEY]",
			apiKey:  "$TEAM_KEY",
			refused: "LINEAR_API_KEY contains a secret of symphony",
		},
		{value: "[TEAM_KEY]", want: []string{"TEAM_KEY"}}, // another team's
		{value: "[TEAM_KEY]", apiKey: "$TEAM_KEY", refused: "TEAM_KEY contains a secret of symphony"},
		{
			value:   "[TEAM_HEADER]",
			apiKey:  teamKey,
			refused: "TEAM_HEADER contains a secret of symphony",
		},
		{value: "[HEADER]", refused: "HEADER contains a secret of symphony"},
		{
			value:   "[SYMPHONY_LITERAL_API_KEY]",
			refused: "SYMPHONY_LITERAL_API_KEY contains a secret of symphony",
		},
		{
			value:   "[SYMPHONY_WEB_TOKEN]",
			refused: "SYMPHONY_WEB_TOKEN is one of symphony's own variables",
		},
	} {
		text := "---\ntracker:\n  kind: linear\n  project_slug: demo\n"
		if c.apiKey != "" {
			text += "  api_key: " + c.apiKey + "\n"
		}
		if c.value != "" {
			text += "agent:\n  pass_env: " + c.value + "\n"
		}
		cfg, err := Parse(source(t, text+"---\nGo.\n"), env)
		if c.refused == "" {
			if err != nil {
				t.Errorf("%s: %v", c.value, err)
			} else if diff := cmp.Diff(c.want, cfg.Agent.PassEnv); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", c.value, diff)
			}
			continue
		}
		faults := Faults(err)
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), "agent.pass_env: ") ||
			!strings.Contains(faults[0].Error(), c.refused) {
			t.Errorf("%s: %v, want one fault: %s", c.value, faults, c.refused)
		}
		test.Lacks(t, "the error of "+c.value, err.Error(), envKey, teamKey)
	}
}

func TestModelWithTwoPrices(t *testing.T) {
	const price = "{input: 1, output: 2}"
	text := strings.Replace(
		literalFile("$TEAM_KEY"),
		"---\nGo",
		"agent:\n  prices: {a: "+price+", a: "+price+"}\n---\nGo",
		1,
	)
	wantCode(
		t,
		test.Err(Parse(source(t, text), testEnv())),
		CodeInvalid,
		"agent.prices: a model is named twice",
	)
}

// A million tokens for 75 USD cost 1,200,000 rupiah.
func TestPriceInSmallUnits(t *testing.T) {
	text := strings.Replace(
		literalFile("$TEAM_KEY"),
		"---\nGo",
		"agent:\n  prices: {currency: IDR, default: {input: 240000, output: 1200000}}\n---\nGo",
		1,
	)
	cfg, err := Parse(source(t, text), testEnv())
	test.OK(t, err)
	want := reconcile.Price{Input: 240_000, Cached: 240_000, Output: 1_200_000}
	test.Equal(t, "price", cfg.Agent.Prices.Models[reconcile.AnyModel], want)
}

func TestBudgets(t *testing.T) {
	const priced = "prices: {currency: EUR, default: {input: 1, output: 2}}"
	parse := func(prices, written string) (reconcile.DailyBudget, error) {
		text := strings.Replace(
			literalFile("$TEAM_KEY"),
			"---\nGo",
			"agent:\n  "+prices+"\n  budget_per_day: "+written+"\n---\nGo",
			1,
		)
		cfg, err := Parse(source(t, text), testEnv())
		return cfg.Policy.DailyBudget, err
	}
	for written, want := range map[string]string{
		"0":         "0 ",
		"0.4":       "1 0.4 tokens",
		"5m":        "5e+06 5m tokens",
		"0 EUR":     "0 ",
		"2000000":   "2e+06 2000000 tokens",
		"5_000_000": "5e+06 5_000_000 tokens",
		"5M":        "5e+06 5M tokens",
		"1.5 G":     "1.5e+09 1.5G tokens",
		"70 tokens": "70 70 tokens",
		"70 Tokens": "70 70 tokens",
		"20 EUR":    "20 20 EUR",
		"0.5EUR":    "0.5 0.5 EUR",
	} {
		b, err := parse(priced, written)
		test.Equal(
			t,
			written+": error and budget",
			[]any{err, fmt.Sprint(b.Most(), " ", b.Written)},
			[]any{nil, want},
		)
	}
	for _, row := range [][3]string{
		{priced, "-1", `must be a number of tokens or an amount of money, is "-1"`},
		{priced, "[1]", "must be a number of tokens or an amount of money, is a list"},
		{priced, "20 USD", `the unit "USD" is neither k, M or G, for tokens, nor the currency of agent.prices, EUR`},
		{priced, "9999999999G", "the number is too large"},
		{"max_turns: 1", "20 USD", "an amount of money needs agent.prices"},
		{"prices: {a: {input: 1, output: 2}}", "20 USD", "agent.prices has no default"},
	} {
		test.Contains(t, row[1], fmt.Sprint(test.Err(parse(row[0], row[1]))), row[2])
	}
}
