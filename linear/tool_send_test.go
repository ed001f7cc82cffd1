package linear_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/linear/lineartest"
)

const whoAmI = `"{ viewer { email } }"`

// A rate-limited call is repeated if the limit ends soon. Otherwise the agent learns at once when it ends.
func TestToolAtTheRateLimit(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	tool := linear.Tool(newClient(t, s), false)
	for _, status := range []int{http.StatusBadRequest, http.StatusTooManyRequests} {
		s.ClearLog()
		check(t, s.Fail(lineartest.Failure{Kind: lineartest.FailRateLimit, Status: status, ResetMS: 300, Times: 2}))
		if text, ok := callTool(t, tool, whoAmI); !ok || !strings.Contains(text, "robin@example.com") || len(s.Log()) != 3 {
			t.Errorf("HTTP %d, soon over: %v %s after %d requests", status, ok, text, len(s.Log()))
		}
	}
	s.ClearLog()
	check(t, s.Fail(lineartest.Failure{Kind: lineartest.FailRateLimit, ResetMS: 30 * 60_000, Times: -1}))
	text, ok := callTool(t, tool, whoAmI)
	code, message := toolFault(t, text)
	if ok || code != "tracker_rate_limited" || !strings.Contains(message, time.Now().UTC().Add(30*time.Minute).Format("until 2006-01-02T15:")) &&
		!strings.Contains(message, time.Now().UTC().Add(29*time.Minute).Format("until 2006-01-02T15:")) {
		t.Errorf("far from over: %v %s", ok, text)
	}
	equal(t, "requests", len(s.Log()), 1)
}

// The wait for the rate limit ends with the turn.
func TestToolDoesNotWaitForEver(t *testing.T) {
	soon := answering(t, http.StatusTooManyRequests, "", "Retry-After", "25")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a := linear.Tool(soon, false).Call(ctx, json.RawMessage(whoAmI))
	if code, _ := toolFault(t, a.Text); a.Success || code != "tracker_rate_limited" || ctx.Err() == nil {
		t.Errorf("%+v, %v", a, ctx.Err())
	}
}

// A limit that keeps naming a near reset is waited for a minute in total, the time of the requests included.
func TestToolWaitsAMinuteInAll(t *testing.T) {
	for after, takes := range map[string]time.Duration{"25": 0, "1": 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			limiter := &canned{t: t, takes: takes, status: http.StatusTooManyRequests, header: http.Header{"Retry-After": {after}}, bodies: []string{""}}
			c := must(linear.New(linear.Options{APIKey: testKey, ProjectSlug: "demo", Transport: limiter, Now: time.Now}))
			text, ok := callTool(t, linear.Tool(c, false), whoAmI)
			if code, _ := toolFault(t, text); ok || code != "tracker_rate_limited" || limiter.asked != 3 {
				t.Errorf("%v %s after %d requests", ok, text, limiter.asked)
			}
		})
	}
}

// The error of a mutation that may have been executed says so, so that the agent does not repeat it.
func TestToolSaysWhatMayHaveHappened(t *testing.T) {
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
		if _, message := toolFault(t, text); ok || strings.Contains(message, "may have been carried out") != tc.maybe {
			t.Errorf("HTTP %d to %s: %v %s", tc.status, tc.call, ok, message)
		}
	}
}

func TestToolAnswerTooLarge(t *testing.T) {
	body := `{"data":{"a":"` + strings.Repeat("a", 3<<20) + `"}}`
	text, ok := callTool(t, linear.Tool(answering(t, http.StatusOK, body), false), whoAmI)
	code, message := toolFault(t, text)
	if ok || code != "answer_too_large" || !strings.Contains(message, "more than 1048576 bytes") || !strings.Contains(message, "first: 20") {
		t.Errorf("%v %s: %s", ok, code, message)
	}
	body = `{"data":{"a":"` + strings.Repeat("a", 1<<20-17) + `"}}`
	if text, ok := callTool(t, linear.Tool(answering(t, http.StatusOK, body), false), whoAmI); !ok || text != body || len(body) != 1<<20 {
		t.Errorf("the largest answer of %d bytes: %v, %d bytes", len(body), ok, len(text))
	}
}

// A request that is never answered ends with the client's time limit.
func TestToolTimeLimit(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	check(t, s.Fail(lineartest.Failure{Kind: lineartest.FailHang}))
	c := newClient(t, s, func(o *linear.Options) { o.Transport = &http.Transport{ResponseHeaderTimeout: 100 * time.Millisecond} })
	text, ok := callTool(t, linear.Tool(c, false), whoAmI)
	if code, message := toolFault(t, text); ok || code != "linear_api_request" || !strings.Contains(message, "no answer in time") {
		t.Errorf("%v %s", ok, text)
	}
}

// GraphQL errors reach the agent unchanged.
func TestToolPreservesErrors(t *testing.T) {
	const body = `{"errors":[{"message":"no","path":["x"],"locations":[{"line":1,"column":3}],"extensions":{"code":"INPUT_ERROR","more":[1]}}],"data":null}`
	for _, status := range []int{200, 400, 404, 500, 503} {
		if text, ok := callTool(t, linear.Tool(answering(t, status, body), false), whoAmI); ok || text != body {
			t.Errorf("HTTP %d: %v %s", status, ok, text)
		}
	}
	for _, status := range []int{401, 403} {
		text, ok := callTool(t, linear.Tool(answering(t, status, body), false), whoAmI)
		if code, _ := toolFault(t, text); ok || code != "linear_api_status" {
			t.Errorf("HTTP %d: %v %s", status, ok, text)
		}
	}
}

// With tracker.tool_scope: read, mutations are refused and not sent.
func TestToolThatOnlyReads(t *testing.T) {
	s := startLinear(t, lineartest.Config{})
	i := add(t, s, lineartest.Issue{})
	tool := linear.Tool(newClient(t, s), true)
	for _, query := range []string{
		`mutation { commentCreate(input: {issueId: "` + i.ID + `", body: "x"}) { success } }`,
		`mutation M { ...F } fragment F on Mutation { commentCreate(input: {issueId: "` + i.ID + `", body: "x"}) { success } }`,
	} {
		args := must(json.Marshal(map[string]string{"query": query}))
		a := tool.Call(t.Context(), args)
		code, message := toolFault(t, a.Text)
		if a.Success || a.Mutation != nil || code != "mutation_refused" || !strings.Contains(message, "tracker.tool_scope: read") || !strings.Contains(message, "commentCreate") {
			t.Errorf("%s: %+v", query, a)
		}
	}
	equal(t, "requests", len(s.Log()), 0)
	if text, ok := callTool(t, tool, whoAmI); !ok {
		t.Error(text)
	}
	if strings.Contains(tool.Description+string(tool.InputSchema), "query or mutation") {
		t.Error("it offers the agent what it refuses")
	}
}
