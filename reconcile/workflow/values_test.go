package workflow

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symphony-cron/symphony/reconcile"
)

func TestExpandPath(t *testing.T) {
	env := envOf(map[string]string{"BASE": "/srv/base", "TILDE": "~/t", "EMPTY": "", "REL": "r"})
	env.Home = "/home/ann"
	for text, want := range map[string]string{
		"/a/../b//c/": "/b/c", "ws": "/flow/ws", "./x/../y": "/flow/y", "..": "/",
		"~": "/home/ann", "~/": "/home/ann", "~/x": "/home/ann/x", "a~b": "/flow/a~b",
		"$BASE/x": "/srv/base/x", "${BASE}x": "/srv/basex", "a-$REL-b": "/flow/a-r-b", "$TILDE": "/home/ann/t",
		"a$": "/flow/a$", "$1": "/flow/$1", "$$BASE": "/flow/$/srv/base",
	} {
		if got, err := env.expandPath(text, "/flow"); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
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
		"LINEAR_API_KEY": envKey, "TEAM_KEY": teamKey, "HEADER": "Bearer " + envKey, "TEAM_HEADER": "Bearer " + teamKey,
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
		{value: "[$NPM_TOKEN]", refused: `"$NPM_TOKEN" is a value, not a name`},
		{value: "[NPM*]", refused: `"NPM*" is not the name of a variable`},
		{value: "[1ST]", refused: `"1ST" is not the name`},
		{value: "[A=b]", refused: `"A=b" is not the name`},
		{value: "[[A]]", refused: "an item is a list, not a string"},
		{value: "['']", refused: "an item is empty"},
		{value: "[LINEAR_API_KEY]", refused: "LINEAR_API_KEY contains the tracker's key"},
		{value: "[LINEAR_API_KEY]", apiKey: "$TEAM_KEY", refused: "LINEAR_API_KEY contains the tracker's key"},
		{value: "[TEAM_KEY]", want: []string{"TEAM_KEY"}}, // another team's
		{value: "[TEAM_KEY]", apiKey: "$TEAM_KEY", refused: "TEAM_KEY contains the tracker's key"},
		{value: "[TEAM_HEADER]", apiKey: teamKey, refused: "TEAM_HEADER contains the tracker's key"},
		{value: "[HEADER]", refused: "HEADER contains the tracker's key"},
		{value: "[SYMPHONY_LITERAL_API_KEY]", refused: "SYMPHONY_LITERAL_API_KEY contains the tracker's key"},
		{value: "[SYMPHONY_WEB_TOKEN]", refused: "SYMPHONY_WEB_TOKEN is one of symphony's own variables"},
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
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), "agent.pass_env: ") || !strings.Contains(faults[0].Error(), c.refused) {
			t.Errorf("%s: %v, want one fault: %s", c.value, faults, c.refused)
		}
		if strings.Contains(err.Error(), envKey) || strings.Contains(err.Error(), teamKey) {
			t.Errorf("%s: the error contains the key: %v", c.value, err)
		}
	}
}

func TestModelWithTwoPrices(t *testing.T) {
	const price = "{input: 1, output: 2}"
	text := strings.Replace(literalFile("$TEAM_KEY"), "---\nGo", "agent:\n  prices: {a: "+price+", a: "+price+"}\n---\nGo", 1)
	_, err := Parse(source(t, text), testEnv())
	wantCode(t, err, CodeInvalid, "agent.prices: a model is named twice")
}

func TestPricesOfModels(t *testing.T) {
	p := Prices{Models: map[string]Price{"a": {Input: 2, Cached: 0.5, Output: 10}, "default": {Input: 1, Cached: 1, Output: 1}}}
	tokens := reconcile.Tokens{Input: 3_000_000, Cached: 2_000_000, Output: 1_000_000, Reasoning: 900_000, Total: 4_000_000}
	for model, want := range map[string]float64{"a": 2 + 2*0.5 + 10, "b": 4, "": 4} {
		price, known := p.Of(model)
		if got := price.Cost(tokens); !known || math.Abs(got-want) > 1e-9 {
			t.Errorf("%q: %v, %v, want %v", model, got, known, want)
		}
	}
	delete(p.Models, "default")
	if _, known := p.Of("b"); known {
		t.Error("a model without a price has one")
	}
}
