package codex

import (
	"encoding/json"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// allFields is a form with a field of every type in the protocol.
const allFields = `{"type":"object","required":["name","region"],"properties":{
	"name":{"type":"string","title":"Name","description":"what it is called"},
	"region":{"type":"string","enum":["eu","us"],"enumNames":["Europe","America"]},
	"size":{"type":"string","oneOf":[{"const":"s","title":"small"},{"const":"l","title":"large"}]},
	"sure":{"type":"boolean"},
	"n":{"type":"integer","minimum":1},
	"share":{"type":"number"},
	"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}},
	"days":{"type":"array","items":{"anyOf":[{"const":"mo","title":"Monday"},{"const":"tu","title":"Tuesday"}]}}}}`

func formOf(t *testing.T, schema string) form {
	t.Helper()
	return test.Must(readForm(&elicitation{Mode: "form", RequestedSchema: json.RawMessage(schema)}))
}

func TestFormQuestions(t *testing.T) {
	test.Equal(t, "questions", formOf(t, allFields).questions(), []agent.Question{
		{
			ID:     "days",
			Header: "days",
			Text:   "days (one or several) (optional)",
			Options: []agent.Option{{
				Label:       "Monday",
				Description: "mo",
			}, {
				Label:       "Tuesday",
				Description: "tu",
			}},
			Several:  true,
			Optional: true,
		},
		{ID: "n", Header: "n", Text: "n (optional)", Type: "integer", Optional: true},
		{ID: "name", Header: "Name", Text: "what it is called"},
		{
			ID:     "region",
			Header: "region",
			Text:   "region",
			Options: []agent.Option{{
				Label:       "Europe",
				Description: "eu",
			}, {
				Label:       "America",
				Description: "us",
			}},
		},
		{ID: "share", Header: "share", Text: "share (optional)", Type: "number", Optional: true},
		{
			ID:     "size",
			Header: "size",
			Text:   "size (optional)",
			Options: []agent.Option{{
				Label:       "small",
				Description: "s",
			}, {
				Label:       "large",
				Description: "l",
			}},
			Optional: true,
		},
		{
			ID:       "sure",
			Header:   "sure",
			Text:     "sure (optional)",
			Options:  []agent.Option{{Label: "Yes"}, {Label: "No"}},
			Optional: true,
		},
		{
			ID:       "tags",
			Header:   "tags",
			Text:     "tags (one or several) (optional)",
			Options:  []agent.Option{{Label: "a"}, {Label: "b"}},
			Several:  true,
			Optional: true,
		},
	})
}

func TestFormContent(t *testing.T) {
	type answered map[string][]string
	with := func(name string, texts ...string) answered {
		return answered{"name": {"x"}, "region": {"eu"}, name: texts}
	}
	for _, c := range []struct {
		name    string
		schema  string
		answers answered
		want    string // content, or the error
	}{
		{"all", allFields, answered{
			"name":    {"two words"},
			"region":  {"america"},
			"size":    {"l"},
			"sure":    {"no"},
			"n":       {"-3"},
			"share":   {"0.5"},
			"tags":    {"b", "a"},
			"days":    {"Tuesday"},
			"unasked": {"x"},
		}, `{"days":["tu"],"n":-3,"name":"two words","region":"us","share":0.5,"size":"l","sure":false,` +
			`"tags":["b","a"]}`},
		{"only what is required", allFields, answered{
			"name":   {"x"},
			"region": {"Europe"},
		}, `{"name":"x","region":"eu"}`},
		{"one is missing", allFields, answered{"name": {"x"}}, `no answer to "region"`},
		{
			"none of the choices", allFields, with("region", "moon"),
			`the answer to "region" is not one of the options`,
		},
		{"none of several", allFields, with("tags", "a", "c"), `the answer to "tags" is not one of the options`},
		{"no integer", allFields, with("n", "3.5"), `the answer to "n" is not of type integer`},
		{"no number", allFields, with("share", "half"), `the answer to "share" is not of type number`},
		{"not a number", allFields, with("share", "NaN"), `the answer to "share" is not of type number`},
		{"no yes or no", allFields, with("sure", "perhaps"), `the answer to "sure" is not one of the options`},
		{"a bare form, agreed", `{"type":"object","properties":{}}`, answered{agreed: {"yes"}}, `{}`},
		{"a bare form, not agreed", `{"type":"object","properties":{}}`, answered{agreed: {"No"}}, `not agreed to`},
	} {
		t.Run(c.name, func(t *testing.T) {
			content, err := formOf(t, c.schema).content(c.answers)
			got := string(test.Must(json.Marshal(content)))
			if err != nil {
				got = err.Error()
			}
			test.Equal(t, "content", got, c.want)
		})
	}
}

// TestFormDeclined checks that a form that cannot be shown to the operator is declined, with
// the reason in the event.
func TestFormDeclined(t *testing.T) {
	object := `,"requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}`
	for _, c := range []struct{ params, why string }{
		{
			`"mode":"url","url":"https://example.org/login","elicitationId":"1"`,
			"it wants to open a web page (https://example.org/login)",
		},
		{`"mode":"openai/userVerification","challenge":"x"`, `it has the unknown mode "openai/userVerification"`},
		{`"mode":"somethingNew"` + object, `it has the unknown mode "somethingNew"`},
		{`"mode":"form"`, "its form can't be read"},
		{`"mode":"form","requestedSchema":{"type":"array"}`, "its form can't be read"},
		{`"mode":"openai/form","requestedSchema":{"type":"object",` +
			`"properties":{"a":{"type":"object"}}}`, `its field "a" can't be read`},
		{`"mode":"form","requestedSchema":{"type":"object","properties":{"a":{"type":"array",` +
			`"items":{"type":"string"}}}}`, `its field "a" can't be read`},
		{`"mode":"form","requestedSchema":{"type":"object","properties":{"a":{"type":"string",` +
			`"enum":[1]}}}`, `its field "a" can't be read`},
	} {
		t.Run(c.params, func(t *testing.T) {
			_, p, wait := inTurn(t, t.Context(), agent.Options{
				OnQuestion: agent.QuestionAsk,
				Ask:        decides(agent.Decision{Approve: true}),
			})
			p.say(
				`{"method":"mcpServer/elicitation/request","id":0,"params":{"threadId":"th",` +
					`"serverName":"forms","message":"Hello",` + c.params + `}}`,
			)
			p.hears(`{"id":0,"result":{"_meta":null,"action":"decline","content":null}}`)
			go p.rest()
			p.say(turnCompleted)
			wait.completes(t)
			var told []string
			for _, e := range p.heard() {
				if e.Name == agent.EventQuestionDeclined {
					told = append(told, e.Message)
				}
			}
			test.Equal(
				t,
				"events",
				told,
				[]string{"declined, " + c.why + ": a form of MCP server forms: Hello"},
			)
		})
	}
}

func TestShellText(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{`/bin/bash -lc 'touch a'`, "touch a"},
		{`/bin/bash -c 'touch a'`, "touch a"},
		{`bash -lc ls`, "ls"},
		{`/usr/bin/zsh -lc "echo 'x'"`, "echo 'x'"},
		{`bash -lc 'it'\''s'`, "it's"},
		{`grep -c 'x' file`, "grep -c 'x' file"},
		{`make -lc x`, "make -lc x"},
		{`ls`, "ls"},
		{`/bin/bash -lc`, "/bin/bash -lc"},
		{`/bin/bash -lc ''`, "/bin/bash -lc ''"},
		{`/w/evilsh -lc ls`, "/w/evilsh -lc ls"},
		{`./bash -lc ls`, "./bash -lc ls"},
		{`/bin/bash -lc 'ls' rm`, "/bin/bash -lc 'ls' rm"},
		{`/bin/bash -lc 'a' 'b'`, "/bin/bash -lc 'a' 'b'"},
		{`/bin/bash -lc 'a`, "/bin/bash -lc 'a"},
		{`/bin/bash -lc "echo it's \$HOME \n"`, `echo it's $HOME \n`},
		{`/bin/bash -lc a\ b`, "a b"},
	} {
		test.Equal(t, c.raw, shellText(c.raw), c.want)
	}
}
