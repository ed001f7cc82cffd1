package linear_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear"
	"github.com/symphony-cron/symphony/reconcile"
)

// nextAnswer separates the bodies of one fuzz input. The last body is repeated.
const nextAnswer = "\n%%\n"

// canned answers requests without a network.
type canned struct {
	t      *testing.T
	takes  time.Duration // until each answer
	status int
	header http.Header
	bodies []string
	asked  int
}

// mostRequests is far more than the fuzzed calls need: each cursor is followed once, and there
// are few bodies.
const mostRequests = 20000

// RoundTrip implements http.RoundTripper.
func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	c.asked++
	if c.asked > mostRequests {
		c.t.Fatal("asks without end")
	}
	select {
	case <-time.After(c.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	body := c.bodies[min(c.asked, len(c.bodies))-1]
	if c.status == 0 {
		return nil, errors.New(body)
	}
	return &http.Response{
		StatusCode: c.status,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     c.header.Clone(),
		Body:       io.NopCloser(strings.NewReader(body)),
		Request:    r,
	}, nil
}

// headers parses "Name: value" lines and skips lines that a server could not send.
func headers(text string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return h
}

// spelled is the key with its first letter as a JSON escape.
const spelled = `\u006c` + "in_api_secret0123456789"

const fuzzIssue = `{"id":"i1","identifier":"A-1","title":"t","description":null,"priority":2.0,"state":{"name":"Todo"},
"project":{"slugId":"demo"},"assignee":{"id":"u","email":"u@example.org","isMe":true},"createdAt":"2026-03-02T12:00:00Z",
"labels":{"nodes":[{"name":"Agent"}],"pageInfo":{"hasNextPage":true,"endCursor":"l1"}},
"inverseRelations":{"nodes":[{"type":"blocks","issue":{"id":"i2","state":{"name":"Done"}}}],"pageInfo":{"hasNextPage":false}},
"comments":{"nodes":[{"createdAt":"2026-03-02"}]}}`

const oneIssue = `{"id":"i1","identifier":"A-1","title":"T","state":{"name":"Todo"}}`

// FuzzAnswers sends the client arbitrary answers. The client must not panic or send requests
// without end, every error must be typed, and no error or warning may contain a part of the
// key, which a proxy may send back.
func FuzzAnswers(f *testing.F) {
	page := `{"data":{"issues":{"nodes":[` + fuzzIssue + `],"pageInfo":{"hasNextPage":true,"endCursor":"c1"}}}}`
	rest := `{"data":{"issue":{"labels":{"nodes":[{"name":"x"}],"pageInfo":{"hasNextPage":false}},` +
		`"inverseRelations":{"nodes":[]}},` +
		`"issues":{"nodes":[],"pageInfo":{"hasNextPage":true,"endCursor":"c1"}}}}`
	for _, seed := range []struct {
		status       int
		header, body string
	}{
		{200, "X-RateLimit-Requests-Limit: 5000\nX-RateLimit-Requests-Remaining: 12", page + nextAnswer + rest},
		{200, "", rest},
		{200, "", `{"data":{"issues":{"nodes":[` + oneIssue + "," + oneIssue + `]}}}`},
		{200, "", `{"data":{"issues":{"nodes":[{"id":"` + testKey + `"}]}}}`},
		{200, "", `{"data":{"issues":{"nodes":[{"id":{"a":"` + testKey + `"}}]}}}`},
		{200, "", `{"errors":[{"message":"Entity not found: ` + testKey + `","extensions":{"code":"RATELIMITED"}}]}`},
		{200, "", `{"errors":[{"message":"` + strings.Repeat("x", 285) + testKey + `"}]}`},
		{502, "", "<html>" + strings.Repeat(" ", 1180) + testKey},
		{502, "", strings.Repeat("x", 285) + testKey},
		{
			200,
			"",
			`{"data":{"named":{"nodes":[]},"projects":{"nodes":[{"name":"Demo ` + testKey + `","slugId":"dem"}]}}}`,
		},
		{
			200,
			"",
			`{"data":{"viewer":{"id":"u"},"named":{"nodes":[{"id":"p","slugId":"demo",` +
				`"teams":{"nodes":[{"states":{"nodes":[{"name":"Todo"}]}}]}}]},` +
				`"issueLabels":{"nodes":[]},"users":{"nodes":[]}}}`,
		},
		{400, "Retry-After: 1e9\nX-RateLimit-Complexity-Remaining: 0\nX-RateLimit-Complexity-Reset: 1e15", "{}"},
		{429, "X-RateLimit-Requests-Reset: NaN\nRetry-After: -Inf", ""},
		{200, "", `{"data":{"issues":{"nodes":[{"id":"` + spelled + `"}]}}}`},
		{200, "", `{"errors":[{"message":"` + strings.Repeat("x", 285) + spelled + `"}]}`},
		{302, "Location: http://%" + testKey, ""},
		{0, "", "dial: " + testKey},
		{200, "", "null"},
		{200, "", "\xff{"},
	} {
		f.Add(seed.status, seed.header, seed.body)
	}
	f.Fuzz(func(t *testing.T, status int, header, body string) {
		if len(body) > 1<<16 || status != 0 && (status < 200 || status > 599) {
			t.Skip()
		}
		bodies := strings.Split(body, nextAnswer)
		if len(bodies) > 8 {
			t.Skip()
		}
		var log bytes.Buffer
		client := func() *linear.Client {
			c, err := linear.New(linear.Options{ProjectSlug: "demo", Options: transport.Options{
				Endpoint:  "http://tracker.example/graphql",
				Key:       testKey,
				Transport: &canned{t: t, status: status, header: headers(header), bodies: bodies},
				Now:       func() time.Time { return testNow },
				Warn:      func(text string) { log.WriteString(text) },
			}})
			test.OK(t, err)
			return c
		}
		ctx := t.Context()
		secret := forbidden(header, body)

		found, err := client().ByIDs(ctx, []string{"i1", "i2"})
		judge(t, "ByIDs", err, secret)
		for id, i := range found {
			wellFormed(t, i)
			test.Equal(t, "issue", id, i.ID)
		}
		list, err := client().Candidates(ctx, []string{"Todo"})
		judge(t, "Candidates", err, secret)
		seen := map[string]bool{}
		for _, i := range list {
			wellFormed(t, i)
			test.Equal(t, "candidate "+i.ID+" was listed before", seen[i.ID], false)
			seen[i.ID] = true
		}
		one, err := client().ByIdentifier(ctx, "A-1")
		judge(t, "ByIdentifier", err, secret)
		test.Equal(t, "does ByIdentifier fail", one == nil, err != nil)
		_, err = client().Verify(ctx, reconcile.TrackerNames{
			States:   []string{"Todo"},
			Labels:   []string{"agent"},
			Assignee: "u@example.org",
		})
		judge(t, "Verify", err, secret)
		useTool(t, ctx, client())

		test.Lacks(t, "the log", log.String(), secret)
	})
}

// useTool makes the requests of the agent's tool.
func useTool(t *testing.T, ctx context.Context, c *linear.Client) {
	t.Helper()
	if b := c.Budget(); b.Left < 0 {
		t.Errorf("budget %+v", b)
	}
	// it would wait for a rate limit's end
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	for _, call := range []string{`"{ viewer { id } }"`, `"mutation { commentCreate(input: {}) { success } }"`} {
		if text := linear.Tool(c, false).Call(ctx, reconcile.Issue{}, json.RawMessage(call)).Text; !json.Valid(
			[]byte(text),
		) ||
			strings.Contains(text, testKey) {
			t.Errorf("the tool's answer: %s", text)
		}
	}
}

// forbidden returns the text that must not appear: the beginning of the key beyond the common
// prefix, or the whole key if the input itself contains a part of it.
func forbidden(input ...string) string {
	const part = len("lin_api_secret")
	rest := strings.NewReplacer(testKey, "|", spelled, "|").Replace(strings.Join(input, "|"))
	if strings.Contains(rest, `\u`) || strings.Contains(rest, testKey[1:part]) {
		return testKey
	}
	return testKey[:part]
}

// judge checks that an error is typed, does not contain the secret, and has a plausible reset.
func judge(t *testing.T, what string, err error, secret string) {
	t.Helper()
	if err == nil {
		return
	}
	e := (*reconcile.Error)(nil)
	if !errors.As(err, &e) || e.Code == "" || e.Message == "" {
		t.Errorf("%s: an error without a type: %#v", what, err)
		return
	}
	test.Lacks(t, what+": the error", fmt.Sprintln(err, e.Message, e.Hint, e.Err), secret)
	if limit, is := errors.AsType[*transport.RateLimited](err); is {
		if ahead := limit.Reset.Sub(testNow); ahead <= 0 || ahead > 2*time.Hour {
			t.Errorf("%s: asked to wait %v", what, ahead)
		}
	}
}

// wellFormed checks what the planner relies on.
func wellFormed(t *testing.T, i reconcile.Issue) {
	t.Helper()
	if i.Malformed != "" && i.ID != "" && i.Identifier != "" {
		return
	}
	if i.ID == "" || strings.TrimSpace(i.Identifier) == "" || i.Title == "" || i.State == "" {
		t.Errorf("an issue that is none: %+v", i)
	}
	for _, l := range i.Labels {
		if l == "" || l != strings.ToLower(l) {
			t.Errorf("label %q", l)
		}
	}
}
