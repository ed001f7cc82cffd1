package linear_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
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

// callTool calls the tool and returns what the agent reads.
func callTool(t *testing.T, tool reconcile.AgentTool, args string) (text string, success bool) {
	t.Helper()
	a := tool.Call(t.Context(), reconcile.Issue{}, json.RawMessage(args))
	return a.Text, a.Success
}

// wantFault calls the tool, which must fail with this code and a message that contains each
// part.
func wantFault(t *testing.T, tool reconcile.AgentTool, args, code string, parts ...string) {
	t.Helper()
	text, ok := callTool(t, tool, args)
	got, message := toolFault(t, text)
	test.Equal(t, "success and code of "+text, []any{ok, got}, []any{false, code})
	test.Contains(t, "the message", message, parts...)
}

func TestToolRefusesBadInput(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	tool := linear.Tool(newClient(t, s), false)
	for name, tc := range map[string]struct{ args, message string }{
		"nothing":             {``, "no arguments"},
		"null":                {`null`, "must be an object"},
		"a list":              {`[]`, "must be an object"},
		"broken JSON":         {`{"query":`, "not valid JSON"},
		"broken string":       {`"{ viewer`, "not valid JSON"},
		"no query":            {`{}`, "query must be a string"},
		"null query":          {`{"query":null}`, "query must be a string"},
		"number":              {`{"query":1}`, "query must be a string"},
		"empty":               {`{"query":" \n"}`, "must not be empty"},
		"empty shorthand":     {`""`, "must not be empty"},
		"only a comment":      {`{"query":"# hm"}`, "no operation"},
		"no GraphQL":          {`{"query":"{ viewer "}`, "not valid GraphQL"},
		"two operations":      {`{"query":"query A { viewer { id } } query B { viewer { id } }"}`, "2 operations"},
		"two, anonymous":      {`"{ viewer { id } } { viewer { id } }"`, "2 operations"},
		"fragments only":      {`{"query":"fragment F on User { id }"}`, "only fragments"},
		"subscription":        {`{"query":"subscription { x }"}`, "subscription operations are not supported"},
		"variables as list":   {`{"query":"{ viewer { id } }","variables":[1]}`, "variables must be an object"},
		"variables as string": {`{"query":"{ viewer { id } }","variables":"{}"}`, "variables must be an object"},
		"a schema":            {`{"query":"type X { id: ID }"}`, "not valid GraphQL"},
		"large variables": {
			`{"query":"{ viewer { id } }","variables":{"a":"` + strings.Repeat("a", 1<<20) + `"}}`,
			"longer than 1048576 bytes",
		},
		"very long": {`{"query":"` + strings.Repeat("a ", 200000) + `"}`, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			wantFault(t, tool, tc.args, "invalid_input", tc.message)
		})
	}
	test.Equal(t, "requests", len(s.Log()), 0)
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
		test.Equal(t, name, []any{ok, text}, []any{true, `{"data":{"viewer":{"email":"robin@example.com"}}}`})
	}
	_, ok := call(
		`{"query":"mutation($id: String!, $t: String) { issueUpdate(id: $id, input: {title: $t}) { ` +
			`success } }","variables":{"id":"` + i.Identifier + `","t":"New"}}`,
	)
	after, err := s.Issue(i.Identifier)
	test.Equal(
		t,
		"error, success and title after a mutation",
		[]any{err, ok, after.Title},
		[]any{nil, true, "New"},
	)

	text, ok := call(`{"query":"{ viewer { nonsense } }"}`)
	test.Equal(t, "invalid field (HTTP 400)", ok, false)
	test.Contains(t, "invalid field (HTTP 400)", text, `"errors"`, "nonsense")
	text, ok = call(`{"query":"{ viewer { id } issue(id: \"ABC-99\") { id } }"}`)
	test.Equal(t, "GraphQL error (HTTP 200)", ok, false)
	test.Contains(t, "GraphQL error (HTTP 200)", text, "Entity not found", `"data":null`)
}

const whoAmI = `"{ viewer { email } }"`

// A rate-limited call is repeated if the limit ends soon. Otherwise the error names its end.
func TestToolAtTheRateLimit(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	tool := linear.Tool(newClient(t, s), false)
	for _, status := range []int{http.StatusBadRequest, http.StatusTooManyRequests} {
		s.ClearLog()
		test.OK(t, s.Fail(lineartest.Failure{
			Kind:    lineartest.FailRateLimit,
			Status:  status,
			ResetMS: 300,
			Times:   2,
		}))
		if text, ok := callTool(t, tool, whoAmI); !ok || !strings.Contains(text, "robin@example.com") ||
			len(s.Log()) != 3 {
			t.Errorf("HTTP %d, soon over: %v %s after %d requests", status, ok, text, len(s.Log()))
		}
	}
	s.ClearLog()
	test.OK(t, s.Fail(lineartest.Failure{
		Kind:    lineartest.FailRateLimit,
		ResetMS: 30 * 60_000,
		Times:   -1,
	}))
	text, ok := callTool(t, tool, whoAmI)
	code, message := toolFault(t, text)
	if ok || code != "tracker_rate_limited" ||
		!strings.Contains(message, time.Now().UTC().Add(30*time.Minute).Format("until 2006-01-02T15:")) &&
			!strings.Contains(message, time.Now().UTC().Add(29*time.Minute).Format("until 2006-01-02T15:")) {
		t.Errorf("far from over: %v %s", ok, text)
	}
	test.Equal(t, "requests", len(s.Log()), 1)
}

// The wait for the end of a rate limit ends with the turn.
func TestToolWaitEndsWithTheTurn(t *testing.T) {
	soon := answering(t, http.StatusTooManyRequests, "", "Retry-After", "25")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a := linear.Tool(soon, false).Call(ctx, reconcile.Issue{}, json.RawMessage(whoAmI))
	if code, _ := toolFault(t, a.Text); a.Success || code != "tracker_rate_limited" || ctx.Err() == nil {
		t.Errorf("%+v, %v", a, ctx.Err())
	}
}

// If the reset is always near, the tool waits for a minute in total, including the time of the
// requests.
func TestToolWaitsAtMostAMinute(t *testing.T) {
	for after, takes := range map[string]time.Duration{"25": 0, "1": 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			limiter := &canned{
				t:      t,
				takes:  takes,
				status: http.StatusTooManyRequests,
				header: http.Header{"Retry-After": {after}},
				bodies: []string{""},
			}
			c := test.Must(linear.New(linear.Options{
				Options:     transport.Options{Key: testKey, Transport: limiter},
				ProjectSlug: "demo",
			}))
			text, ok := callTool(t, linear.Tool(c, false), whoAmI)
			code, _ := toolFault(t, text)
			test.Equal(
				t,
				"success, code and requests",
				[]any{ok, code, limiter.asked},
				[]any{false, "tracker_rate_limited", 3},
			)
		})
	}
}

// A mutation of which a part was executed before the rate limit is not repeated.
func TestToolDoesNotRepeatHalfAMutation(t *testing.T) {
	const body = `{"data":{"a":{"success":true},"b":null},"errors":[{"message":"slow down",` +
		`"path":["b"],"extensions":{"code":"RATELIMITED"}}]}`
	partly := &canned{
		t:      t,
		status: http.StatusOK,
		header: http.Header{"Retry-After": {"1"}},
		bodies: []string{body, whoAmI},
	}
	c := test.Must(linear.New(linear.Options{
		Options:     transport.Options{Key: testKey, Transport: partly},
		ProjectSlug: "demo",
	}))
	text, ok := callTool(
		t,
		linear.Tool(c, false),
		`"mutation { a: issueUpdate(id: \"1\", input: {}) { success } b: issueUpdate(id: \"2\", `+
			`input: {}) { success } }"`,
	)
	test.Equal(t, "answer and requests", []any{ok, text, partly.asked}, []any{false, body, 1})
}

// The error of a mutation that may have been executed mentions that, so that the agent does
// not simply repeat it.
func TestToolErrorOfAMutationThatMayBeDone(t *testing.T) {
	const mutation = `"mutation { commentCreate(input: {}) { success } }"`
	large := `{"data":{"a":"` + strings.Repeat("a", 1<<20) + `"}}`
	for _, tc := range []struct {
		call   string
		status int
		body   string
		maybe  bool
	}{
		{mutation, 200, large, true},
		{whoAmI, 200, large, false},
		{mutation, 502, "<html>", true},
		{mutation, 200, "<html>", true},
		{mutation, 401, "{}", false},
		{mutation, 429, "", false},
	} {
		header := []string{"Retry-After", "1000"}
		text, ok := callTool(t, linear.Tool(answering(t, tc.status, tc.body, header...), false), tc.call)
		if _, message := toolFault(t, text); ok ||
			strings.Contains(message, "may have been made") != tc.maybe {
			t.Errorf("HTTP %d to %s: %v %s", tc.status, tc.call, ok, message)
		}
	}
}

func TestToolAnswerTooLarge(t *testing.T) {
	body := `{"data":{"a":"` + strings.Repeat("a", 3<<20) + `"}}`
	wantFault(
		t,
		linear.Tool(answering(t, http.StatusOK, body), false),
		whoAmI,
		"answer_too_large",
		"more than 1048576 bytes",
		"first: 20",
	)
	body = `{"data":{"a":"` + strings.Repeat("a", 1<<20-17) + `"}}`
	text, ok := callTool(t, linear.Tool(answering(t, http.StatusOK, body), false), whoAmI)
	test.Equal(t, "the largest answer", []any{ok, text, len(body)}, []any{true, body, 1 << 20})
}

// GraphQL errors reach the agent unchanged.
func TestToolPreservesErrors(t *testing.T) {
	const body = `{"errors":[{"message":"no","path":["x"],"locations":[{"line":1,"column":3}],` +
		`"extensions":{"code":"INPUT_ERROR","more":[1]}}],"data":null}`
	for _, status := range []int{200, 400, 404, 500, 503} {
		text, ok := callTool(t, linear.Tool(answering(t, status, body), false), whoAmI)
		test.Equal(t, fmt.Sprintf("HTTP %d", status), []any{ok, text}, []any{false, body})
	}
	for _, status := range []int{401, 403} {
		wantFault(t, linear.Tool(answering(t, status, body), false), whoAmI, "linear_api_status")
	}
}

// With tracker.tool_scope: read, a mutation in a fragment is refused and not sent.
func TestReadOnlyTool(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	i := add(t, s, lineartest.Issue{})
	tool := linear.Tool(newClient(t, s), true)
	query := `mutation M { ...F } fragment F on Mutation { commentCreate(input: ` +
		`{issueId: "` + i.ID + `", body: "x"}) { success } }`
	args := test.Must(json.Marshal(map[string]string{"query": query}))
	a := tool.Call(t.Context(), reconcile.Issue{}, args)
	code, message := toolFault(t, a.Text)
	test.Equal(
		t,
		"the refusal",
		[]any{a.Success, a.Mutation == nil, code},
		[]any{false, true, "mutation_refused"},
	)
	test.Contains(t, "the refusal", message, "tracker.tool_scope: read", "commentCreate")
	test.Equal(t, "requests", len(s.Log()), 0)
	if text, ok := callTool(t, tool, whoAmI); !ok {
		t.Error(text)
	}
	test.Lacks(t, "the description", tool.Description+string(tool.InputSchema), "query or mutation")
}

// The tool records the ids of created entities whatever the agent selects, and the agent reads
// only what it selected.
func TestToolRecordsCreatedIDs(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	i := add(t, s, lineartest.Issue{})
	tool := linear.Tool(newClient(t, s), false)
	on := `issueId: "` + i.ID + `"`
	for name, tc := range map[string]struct {
		query string
		vars  map[string]any
		want  string // the answer
		kinds []string
	}{
		"only success": {
			query: `mutation { commentCreate(input: {` + on + `, body: "a {b} é"}) { success } }`,
			want:  `{"data":{"commentCreate":{"success":true}}}`, kinds: []string{"comment"},
		},
		"by another name": {
			query: `mutation($i: CommentCreateInput!) { mine: commentCreate(input: $i) @include(if: ` +
				`true) { success } }`,
			vars: map[string]any{"i": map[string]string{"issueId": i.ID, "body": "x"}},
			want: `{"data":{"mine":{"success":true}}}`, kinds: []string{"comment"},
		},
		"two at once, after a comment with äöüß": {
			query: "# ÄÖÜäöüß\nmutation {\n  a: commentCreate(input: {" + on + `, body: "ä"}) { success } ` +
				`b: commentCreate(input: {` + on + `, body: "ö"}) { success } }`,
			want:  `{"data":{"a":{"success":true},"b":{"success":true}}}`,
			kinds: []string{"comment", "comment"},
		},
		"in a fragment": {
			query: `mutation { ...F } fragment F on Mutation { ... on Mutation { ` +
				`commentCreate(input: {` + on + `, body: "x"}) { success } } }`,
			want: `{"data":{"commentCreate":{"success":true}}}`, kinds: []string{"comment"},
		},
		"a part that is left out comes first": {
			query: `mutation { commentCreate(input: {` + on + `, body: "x"}) { ` +
				`... @include(if: false) { lastSyncId } success } }`,
			want: `{"data":{"commentCreate":{"success":true}}}`, kinds: []string{"comment"},
		},
		"a comment about the tool's alias": {
			query: `mutation { commentCreate(input: {` + on + `, body: "symphonyCreated is taken ` +
				`out"}) { success } } # symphonyCreated`,
			want: `{"data":{"commentCreate":{"success":true}}}`, kinds: []string{"comment"},
		},
		"the agent's use of the tool's alias": {
			query: `mutation { commentCreate(input: {` + on + `, body: "x"}) { symphonyCreated: comment { body } } }`,
			want:  `{"data":{"commentCreate":{"symphonyCreated":{"body":"x"}}}}`,
		},
		"changed, not created": {
			query: `mutation { issueUpdate(id: "` + i.ID + `", input: {title: "x"}) { success } }`,
			want:  `{"data":{"issueUpdate":{"success":true}}}`,
		},
		"not carried out": {
			query: `mutation { commentCreate(input: {issueId: "no such issue", body: "x"}) { success } }`,
		},
		"no such field": {
			query: `mutation { commentCreate(input: {` + on + `, body: "x"}) { success nonsense } }`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.ClearLog()
			args := test.Must(json.Marshal(map[string]any{"query": tc.query, "variables": tc.vars}))
			a := tool.Call(t.Context(), reconcile.Issue{}, args)
			if a.Mutation == nil || a.Mutation.Query != tc.query || a.Success != (tc.want != "") ||
				a.Mutation.Success != a.Success {
				t.Fatalf("%+v, %+v", a, a.Mutation)
			}
			if tc.want != "" && a.Text != tc.want ||
				strings.Contains(a.Text, "symphonyCreated") != strings.Contains(tc.want, "symphonyCreated") {
				t.Errorf("the agent reads %s", a.Text)
			}
			var kinds []string
			for _, c := range a.Mutation.Created {
				kinds = append(kinds, c.Kind)
				if c.Kind == "comment" && !hasComment(t, s, i.Identifier, c.ID) {
					t.Errorf("%s is no comment of the issue", c.ID)
				}
			}
			slices.Sort(kinds)
			slices.Sort(tc.kinds)
			test.Equal(t, "kinds of what was created", kinds, tc.kinds)
		})
	}
}

func hasComment(t *testing.T, s *lineartest.Server, issue, id string) bool {
	t.Helper()
	return slices.ContainsFunc(
		test.Must(s.Issue(issue)).Comments,
		func(c lineartest.Comment) bool { return c.ID == id },
	)
}

// An agent that selects the id itself gets it, and all values are as Linear sent them.
func TestToolKeepsTheRestOfTheAnswer(t *testing.T) {
	const body = `{"data" : {"c":{ "symphonyCreated":{"id":"1"}, "success" : true,"n":1.50,` +
		`"comment":{"id":"1","z":null,"a":"\u00e9"}},` +
		`"d":{"success":true,"symphonyCreated":null},"e":{"symphonyCreated":{"id":"2"}},"f":null},"extensions":{"x":1}}`
	const want = `{"data":{"c":{"comment":{"id":"1","z":null,"a":"\u00e9"},"n":1.50,"success":true},` +
		`"d":{"success":true},"e":{},"f":null},"extensions":{"x":1}}`
	const query = `"mutation { c: commentCreate(input: {}) { success } d: issueCreate(input: {}) { ` +
		`success } e: commentCreate(input: {}) { success } }"`
	a := linear.Tool(answering(t, 200, body), false).
		Call(t.Context(), reconcile.Issue{}, json.RawMessage(query))
	test.Equal(t, "read", a.Text, want)
	made := a.Mutation.Created
	test.Equal(t, "created", made, []reconcile.Created{{
		Kind: "comment",
		ID:   "1",
	}, {
		Kind: "comment",
		ID:   "2",
	}})
}

// If Linear rejects the added selection, the agent's original query is sent. A mutation that
// failed while it was executed is not sent again.
func TestToolSelectionThatLinearRejects(t *testing.T) {
	const rejected = `{"errors":[{"message":"no such field","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}`
	const failed = `{"data":null,"errors":[{"message":"symphonyCreated can't be read",` +
		`"path":["commentCreate","symphonyCreated"],` +
		`"extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]}`
	for answer, want := range map[string]struct {
		sent int
		code string
		text string
	}{
		rejected: {2, "", `{"data":{"commentCreate":{"success":true}}}`},
		failed:   {1, "linear_unknown_payload", "can't be read; the change may have been made"},
	} {
		sent := 0
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			sent++
			text := `{"data":{"commentCreate":{"success":true}}}`
			if strings.Contains(string(body), "symphonyCreated") {
				text = answer
			}
			if answer == rejected && text == answer {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(srv.Close)
		c := clientOf(srv.URL)
		a := linear.Tool(c, false).
			Call(t.Context(), reconcile.Issue{}, json.RawMessage(`"mutation { commentCreate(input: {}) { success } }"`))
		test.Equal(t, "the answer", []any{a.Success, sent}, []any{want.code == "", want.sent})
		test.Contains(t, "the answer", a.Text, want.text, want.code)
	}
}
