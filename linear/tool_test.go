package linear_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

// toolFault reads the structured error of a failed call.
func toolFault(t *testing.T, text string) (code, message string) {
	t.Helper()
	var out struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return out.Error.Code, out.Error.Message
}

// callTool calls the tool and gives what the agent reads.
func callTool(t *testing.T, tool *reconcile.AgentTool, args string) (text string, success bool) {
	t.Helper()
	a := tool.Call(t.Context(), json.RawMessage(args))
	return a.Text, a.Success
}

func TestToolRefusesBadInput(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	tool := linear.Tool(newClient(t, s), false)
	for name, tc := range map[string]struct{ args, message string }{
		"nothing":             {``, "no arguments"},
		"null":                {`null`, "must be an object"},
		"a list":              {`[]`, "must be an object"},
		"broken JSON":         {`{"query":`, "no valid JSON"},
		"broken string":       {`"{ viewer`, "no valid JSON"},
		"no query":            {`{}`, "query must be a string"},
		"null query":          {`{"query":null}`, "query must be a string"},
		"number":              {`{"query":1}`, "query must be a string"},
		"empty":               {`{"query":" \n"}`, "must not be empty"},
		"empty shorthand":     {`""`, "must not be empty"},
		"only a comment":      {`{"query":"# hm"}`, "no operation"},
		"no GraphQL":          {`{"query":"{ viewer "}`, "no valid GraphQL"},
		"two operations":      {`{"query":"query A { viewer { id } } query B { viewer { id } }"}`, "2 operations"},
		"two, anonymous":      {`"{ viewer { id } } { viewer { id } }"`, "2 operations"},
		"fragments only":      {`{"query":"fragment F on User { id }"}`, "only fragments"},
		"subscription":        {`{"query":"subscription { x }"}`, "subscription operations are not supported"},
		"variables as list":   {`{"query":"{ viewer { id } }","variables":[1]}`, "variables must be an object"},
		"variables as string": {`{"query":"{ viewer { id } }","variables":"{}"}`, "variables must be an object"},
		"a schema":            {`{"query":"type X { id: ID }"}`, "no valid GraphQL"},
		"large variables":     {`{"query":"{ viewer { id } }","variables":{"a":"` + strings.Repeat("a", 1<<20) + `"}}`, "1048576 are the most"},
		"very long":           {`{"query":"` + strings.Repeat("a ", 200000) + `"}`, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			text, ok := callTool(t, tool, tc.args)
			code, message := toolFault(t, text)
			if ok || code != "invalid_input" || !strings.Contains(message, tc.message) {
				t.Errorf("success %v, %s: %s; want %q", ok, code, message, tc.message)
			}
		})
	}
	equal(t, "requests", len(s.Log()), 0)
}

func TestToolCalls(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	i := add(t, s, lineartest.Issue{})
	tool := linear.Tool(newClient(t, s), false)
	call := func(args string) (string, bool) { return callTool(t, tool, args) }

	for name, args := range map[string]string{
		"query":              `{"query":"{ viewer { email } }"}`,
		"shorthand":          `"query Q { viewer { email } }"`,
		"null variables":     `{"query":"{ viewer { email } }","variables":null}`,
		"empty variables":    `{"query":"{ viewer { email } }","variables":{}}`,
		"with a fragment":    `{"query":"{ viewer { ...F } } fragment F on User { email }"}`,
		"with operationName": `{"query":"query Q { viewer { email } }","operationName":"Q"}`,
	} {
		text, ok := call(args)
		if !ok || text != `{"data":{"viewer":{"email":"robin@example.com"}}}` {
			t.Errorf("%s: %v %s", name, ok, text)
		}
	}
	text, ok := call(`{"query":"mutation($id: String!, $t: String) { issueUpdate(id: $id, input: {title: $t}) { success } }","variables":{"id":"` + i.Identifier + `","t":"New"}}`)
	if after, err := s.Issue(i.Identifier); err != nil || !ok || after.Title != "New" {
		t.Errorf("mutation: %v %s; title %q, %v", ok, text, after.Title, err)
	}

	text, ok = call(`{"query":"{ viewer { nonsense } }"}`)
	if ok || !strings.Contains(text, `"errors"`) || !strings.Contains(text, "nonsense") {
		t.Errorf("invalid field (HTTP 400): %v %s", ok, text)
	}
	text, ok = call(`{"query":"{ viewer { id } issue(id: \"ABC-99\") { id } }"}`)
	if ok || !strings.Contains(text, "Entity not found") || !strings.Contains(text, `"data":null`) {
		t.Errorf("GraphQL error (HTTP 200): %v %s", ok, text)
	}
}
