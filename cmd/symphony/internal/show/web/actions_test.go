package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/operate"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/requests"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// acting serves some projects whose orders are carried out by a function.
func acting(
	t *testing.T,
	carryOut func(context.Context, *wiring.Project, order) (outcome, error),
	projects ...string,
) *Server {
	t.Helper()
	dir := t.TempDir()
	var o Options
	for _, name := range projects {
		place := Place{filepath.Join(dir, name, "WORKFLOW.md"), filepath.Join(dir, name, "state")}
		test.OK(t, os.MkdirAll(place.StateDir, 0o700))
		o.Places = append(o.Places, place)
	}
	s, _ := serve(t, o)
	s.source.env.Dir = dir
	s.source.env.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	s.commands.carryOut = carryOut
	return s
}

// post sends a request with the token, with JSON or a form.
func post(s *Server, path, body string) *httptest.ResponseRecorder {
	kind := "application/x-www-form-urlencoded"
	if body == "" || strings.HasPrefix(body, "{") {
		kind = "application/json; charset=utf-8"
	}
	return visit(s, "POST", path, body, "Authorization", "Bearer "+string(s.token), "Content-Type", kind)
}

// JSON that curl sends as a form, which it does without -H, is named.
func TestJSONSentAsForm(t *testing.T) {
	s := acting(t, nil, "one")
	answer := visit(s, "POST", "/api/v1/ABC-1/tell", `{"text":"x"}`,
		"Authorization", "Bearer "+string(s.token), "Content-Type", "application/x-www-form-urlencoded")
	test.Contains(t, "the answer", answer.Body.String(), "with the header Content-Type: application/json")
}

// A body must be an object of JSON; a list is refused as such.
func TestBodyIsList(t *testing.T) {
	s := acting(t, nil, "one")
	answer := visit(s, "POST", "/api/v1/ABC-1/hold", `[]`,
		"Authorization", "Bearer "+string(s.token), "Content-Type", "application/json")
	test.Contains(t, "the answer", answer.Body.String(), "the body has the wrong type: array")
}

// A body whose type and length are not known is refused: it could be the reason of a denial.
func TestBodyOfUnknownType(t *testing.T) {
	r := httptest.NewRequest("POST", "/api/v1/ABC-1.2/deny", strings.NewReader(`{"reason":"no"}`))
	r.ContentLength = -1
	_, err := readParameters(r)
	test.Contains(t, "the error", fmt.Sprint(err), "the body must be JSON or a form")
}

// An issue is not stopped before it is known whether it was handed over.
func TestStopWithoutTimeToLook(t *testing.T) {
	s := acting(t, nil, "one")
	test.OK(t, test.Must(state.Create(t.Context(), s.source.places[0].StateDir, time.Now())).Close())
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	r := httptest.NewRequest("POST", "/api/v1/ABC-1/stop", nil).WithContext(ctx)
	err := s.source.checkRuns(r, "", "ABC-1")
	test.Contains(t, "the error", fmt.Sprint(err), "snapshot_timeout")
}

// No request without the token changes anything, whatever route it takes.
func TestActionsNeedToken(t *testing.T) {
	s := acting(t, func(context.Context, *wiring.Project, order) (outcome, error) {
		t.Error("an order was carried out")
		return outcome{}, nil
	}, "web")
	for _, route := range s.table() {
		if route.method == http.MethodGet || route.path == "/login" || route.path == "/theme" {
			continue
		}
		for _, token := range []string{"", "Bearer ", "Bearer 0123456789abcdeF"} {
			path := strings.NewReplacer("{identifier}", "ABC-1", "{id}", "ABC-1.1").Replace(route.path)
			test.Equal(
				t,
				route.method+" "+path+" with "+token,
				visit(s, route.method, path, "", "Authorization", token).Code,
				http.StatusUnauthorized,
			)
		}
	}
}

// Which order a request is.
func TestActionOrders(t *testing.T) {
	var got order
	s := acting(t, func(_ context.Context, p *wiring.Project, o order) (outcome, error) {
		test.Equal(t, "the project", filepath.Base(filepath.Dir(p.Path)), "web")
		if many, is := o.(severalOrder); is {
			for i := range many.targets {
				of := many.targets[i].Project
				test.Equal(t, "the project of a target", filepath.Base(filepath.Dir(of.Path)), "web")
				many.targets[i].Project = nil
			}
		}
		got = o
		return outcome{document: struct{}{}}, nil
	}, "web")
	project := func(verb reconcile.Verb) order {
		return commandOrder{command: operate.Change{Verb: verb}}
	}
	issue := func(name string, c operate.Command) order {
		return commandOrder{command: c, name: name}
	}
	request := func(d requests.Decision) order {
		return commandOrder{command: operate.Decision{Request: "ABC-1.2", Decision: d}, name: "ABC-1.2"}
	}
	approve := requests.Decision{How: reconcile.DecideApprove}
	session := requests.Decision{How: reconcile.DecideForSession}
	deny := func(reason string) requests.Decision {
		return requests.Decision{How: reconcile.DecideDeny, Reason: reason}
	}
	texts := func(texts ...string) order {
		return issue("ABC-1.2", operate.Tell{Issue: "ABC-1.2", Texts: texts})
	}
	several := func(c operate.Command, names ...string) order {
		o := severalOrder{command: c}
		for _, name := range names {
			o.targets = append(o.targets, operate.Target{Name: name})
		}
		return o
	}
	const at, marked = "/api/v1/ABC-1.2/", "back=/&issue=web/" +
		"ABC-1&issue=web/a%252Fb&request=web/ABC-1.1&reason=no&verb="
	for _, c := range []struct {
		path, body string
		want       order
	}{
		{"/api/v1/pause", "", project(reconcile.VerbPause)},
		{"/api/v1/resume?project=web", "", project(reconcile.VerbResume)},
		{"/api/v1/ABC-1/stop", "", issue("ABC-1", operate.Stop{Issue: "ABC-1", NoWait: true})},
		{"/api/v1/ABC-1/retry", "{}", issue("ABC-1", operate.Retry{Issue: "ABC-1", NoWait: true})},
		{"/api/v1/ABC-1/done", "", issue("ABC-1", operate.Finish{Issue: "ABC-1"})},
		{
			"/api/v1/a%2Fb%20c/hold",
			"",
			issue("a/b c", operate.Stop{Issue: "a/b c", AfterRun: true}),
		},
		{
			"/api/v1/ABC-1/tell",
			`{"text":"use red"}`,
			issue("ABC-1", operate.Tell{Issue: "ABC-1", Texts: []string{"use red"}}),
		},
		{
			"/api/v1/ABC-1/tell",
			"text=use+red&back=/",
			issue("ABC-1", operate.Tell{Issue: "ABC-1", Texts: []string{"use red"}}),
		},
		{at + "approve", "", request(approve)},
		{at + "approve", `{"for_session":true}`, request(session)},
		{at + "approve", "for_session=true&back=/", request(session)},
		{at + "deny", "reason=-+no%0Ano&back=/", request(deny("- no\nno"))},
		{at + "deny", `{"reason":"no"}`, request(deny("no"))},
		{
			at + "tell",
			`{"choices":[2,1]}`,
			issue("ABC-1.2", operate.Tell{Issue: "ABC-1.2", Choices: []int{2, 1}}),
		},
		{at + "tell", `{"texts":["one\n","--two"]}`, texts("one\n", "--two")},
		{
			severalPath,
			`{"verb":"hold","targets":[{"project":"web","name":"ABC-1"},{"name":"ABC-2"}]}`,
			several(operate.Stop{AfterRun: true}, "ABC-1", "ABC-2"),
		},
		{
			severalPath,
			`{"verb":"approve","for_session":true,"targets":[{"name":"ABC-1.1"}]}`,
			several(operate.Decision{Decision: session}, "ABC-1.1"),
		},
		{severalPath, marked + "stop", several(operate.Stop{NoWait: true}, "ABC-1", "a/b")},
		{severalPath, marked + "deny", several(operate.Decision{Decision: deny("no")}, "ABC-1.1")},
		// The form of a page: an option, an own text beside options, two of several, nothing
		// for an optional question.
		{
			at + "tell",
			"questions=4&answer-0=Red&text-0=&text-1=my%0D%0Aown&answer-2=a&answer-2=b&back=/",
			texts("Red", "my\nown", "a, b", ""),
		},
	} {
		w := post(s, c.path, c.body)
		if w.Code != http.StatusOK && w.Code != http.StatusSeeOther {
			t.Errorf("%s %s: %d %s", c.path, c.body, w.Code, w.Body)
			continue
		}
		// an order as a text has no answers
		test.Equal(t, c.path+" "+c.body, fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", c.want))
	}
}

// Which requests are no order, and what the error of an order becomes.
func TestActionErrors(t *testing.T) {
	var answer outcome
	var fault error
	s := acting(
		t,
		func(context.Context, *wiring.Project, order) (outcome, error) { return answer, fault },
		"web",
		"api",
	)
	const request = "/api/v1/ABC-1.2/tell?project=web"
	for _, c := range []struct {
		path, body string
		fault      string // the code of the order's error
		status     int
		said       string
	}{
		{request, "", "", 400, "the text is missing"},
		{request, `{"texts":["a"],"choices":[1]}`, "", 400, "cannot be combined"},
		{request, `{"txt":"a"}`, "", 400, `unknown field \"txt\"`},
		{request, "text=a", "", 400, "the body must be JSON"},
		{severalPath, `{"verb":"hold","targets":["ABC-1"]}`, "", 400, "targets has the wrong type: string"},
		{severalPath, `{"verb":"hold","targets":[{"id":"ABC-1"}]}`, "", 400, `unknown field \"id\"`},
		{request, `{"text":"a"} {"text":"b"}`, "", 400, "goes on after its JSON object"},
		{request, `{"text":"a"}}`, "", 400, "goes on after its JSON object"},
		{request, `{"texts":"a"}`, "", 400, "texts has the wrong type: string"},
		{request, `{"texts":`, "", 400, "the body: unexpected EOF"},
		{request, `{texts:1}`, "", 400, "the body: invalid character"},
		{request, `{"texts":["a\u0000b"]}`, "", 400, "NUL"},
		{
			"/api/v1/ABC-1.2/deny?project=web",
			`{"reason":"` + strings.Repeat("a", reconcile.MaxMessage+1) + `"}`,
			"",
			400,
			"the reason has 8193 bytes; the limit is 8192",
		},
		{"/api/v1/ABC-1%00/stop?project=web", "", "", 400, "NUL"},
		{request, `{"texts":["` + strings.Repeat("a", maxBody) + `"]}`, "", 413, "body_too_large"},
		{request, "text=" + strings.Repeat("a", maxBody), "", 413, "body_too_large"},
		{"/login", "token=" + strings.Repeat("a", maxBody), "", 413, "body_too_large"},
		{severalPath, `{"verb":"hold","targets":[{"name":"ABC-1\u0000","project":"web"}]}`, "", 400, "NUL"},
		{severalPath, `{"verb":"hold","targets":[]}`, "", 400, "no targets"},
		{
			severalPath,
			`{"verb":"hold","targets":[{"name":"A-1"}` + strings.Repeat(`,{"name":"A-1"}`, 500) + `]}`,
			"",
			400,
			"501 targets in one request",
		},
		{severalPath, `{"verb":"pause","targets":[{"name":"ABC-1"}]}`, "", 400, "verb must be one of"},
		{severalPath, `{"verb":"hold","targets":[{"name":"ABC-1","project":"nosuch"}]}`, "", 404, "not_found"},
		{"/api/v1/pause", "", "", 400, "add ?project=NAME"},
		{"/api/v1/pause?project=nosuch", "", "", 404, "not_found"},
		{"/api/v1/pause?project=wep", "", "", 404, `there is no project \"wep\" here","hint":"did you mean \"web\"?`},
		{"/api/v1/pause?projekt=web", "", "", 400, `unknown parameter \"projekt\", did you mean \"project\"?`},
		{"/api/v1/pause?project=web", "", "", 202, `{"paused":true}`},
		{request, `{"choices":[7]}`, "usage", 400, "usage"},
		{request, `{"choices":[1]}`, "request_not_found", 404, "request_not_found"},
		{request, `{"choices":[1]}`, "request_ended", 409, "request_ended"},
		{"/api/v1/pause?project=api", "", "locked", 409, "what to do next"},
		{"/api/v1/pause?project=api", "", "no_state", 503, "no_state"},
		{"/api/v1/pause?project=api", "", "linear_api_status", 502, "linear_api_status"},
		{"/api/v1/pause?project=api", "", "invalid_config", 500, "invalid_config"},
	} {
		answer = outcome{document: map[string]bool{"paused": true}, pending: true}
		fault = nil
		if c.fault != "" {
			fault = &reconcile.Error{Code: c.fault, Hint: "what to do next"}
		}
		w := post(s, c.path, c.body)
		test.Equal(t, c.path+" "+c.body, w.Code, c.status)
		test.Contains(t, c.path+" "+c.body, w.Body.String(), c.said)
		test.Equal(t, "it is JSON", json.Valid(w.Body.Bytes()), true)
	}
	s.commands.patience = time.Millisecond
	s.commands.carryOut = func(ctx context.Context, _ *wiring.Project, _ order) (outcome, error) {
		<-ctx.Done()
		return outcome{}, ctx.Err()
	}
	test.Equal(
		t,
		"the status after the time is up",
		post(s, "/api/v1/pause?project=web", "").Code,
		http.StatusGatewayTimeout,
	)
}

// A command about no target answers with an empty list.
func TestNothingToRetry(t *testing.T) {
	done := severally(t.Context(), operate.Retry{}, nil)
	test.Equal(t, "the answer", string(encoded(done.document)), `{"results":[]}`+"\n")
}

// A form leads back to its page, which shows once what the command said. No other address and
// no invented notice is accepted.
func TestNotice(t *testing.T) {
	s := acting(t, func(context.Context, *wiring.Project, order) (outcome, error) {
		return outcome{lines: []string{"paused: <b>", "", "no schedule"}}, nil
	}, "web")
	for _, back := range []string{
		"//evil.example/",
		"https://evil.example/",
		`/\evil.example`,
		`\\evil.example`,
		"/\t/evil.example",
		"evil",
		"",
	} {
		to := post(s, "/api/v1/pause", url.Values{"back": {back}}.Encode()).Header().Get("Location")
		test.Equal(t, "back to "+back, to, "/")
	}
	w := post(s, "/api/v1/pause", "back=/login%3Fx%3D1")
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?x=1" || len(cookies) != 1 ||
		!cookies[0].HttpOnly ||
		cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatal(w.Code, w.Header())
	}
	get := func(value string) string {
		return visit(
			s,
			"GET",
			w.Header().Get("Location"),
			"",
			"Cookie",
			cookies[0].Name+"="+value,
		).Body.String()
	}
	test.Lacks(t, "the page with an invented notice", get("Done"), `id="notice"`)
	test.Contains(
		t,
		"the page",
		get(cookies[0].Value),
		"symphony pause</code>",
		"paused: &lt;b&gt;",
		"no schedule",
	)
	test.Lacks(t, "the page the second time", get(cookies[0].Value), `id="notice"`)
	for range 3 * maxNotices {
		post(s, "/api/v1/pause", "back=/")
	}
	if n := len(s.commands.notices); n > maxNotices {
		t.Error(n, "notices are kept")
	}
}

// gate is an order that waits until the gate is opened, and counts how often it has begun and
// ended.
type gate struct {
	open         chan struct{}
	begun, ended atomic.Int32
}

func (g *gate) carryOut(context.Context, *wiring.Project, order) (outcome, error) {
	g.begun.Add(1)
	<-g.open
	g.ended.Add(1)
	return outcome{document: struct{}{}}, nil
}

// The number of orders at once is limited, and the server ends after them.
func TestCommandsAtOnce(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	s := acting(t, g.carryOut, "web")
	var wait sync.WaitGroup
	var refused atomic.Int32 // those that came after the end had begun
	for range maxCommands + 2 {
		wait.Go(func() {
			if post(s, "/api/v1/pause", "").Code == http.StatusServiceUnavailable {
				refused.Add(1)
			}
		})
	}
	test.Until(t, "orders are carried out", func() bool { return g.begun.Load() == maxCommands })
	ended := make(chan struct{})
	go func() { s.commands.end(); close(ended) }()
	test.Until(
		t,
		"the server ends",
		func() bool { s.commands.mu.Lock(); defer s.commands.mu.Unlock(); return s.commands.closed },
	)
	w := post(s, "/api/v1/pause", "")
	test.Equal(t, "the status", w.Code, http.StatusServiceUnavailable)
	test.Contains(t, "the answer", w.Body.String(), "the server is ending")
	test.Equal(t, "how many are carried out", g.begun.Load(), maxCommands)
	select {
	case <-ended:
		t.Error("the server did not wait")
	default:
	}
	close(g.open)
	wait.Wait()
	<-ended
	test.Equal(t, "how many have ended", g.ended.Load(), maxCommands+2-refused.Load())
}

// While a pass is under way, any number of requests for a pass cause one more.
func TestRefreshCoalesces(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	s := acting(t, g.carryOut, "web")
	for i, coalesced := range []bool{false, false, true, true} {
		w := post(s, "/api/v1/refresh", "")
		var answer refreshed
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusAccepted ||
			!answer.Queued ||
			answer.Coalesced != coalesced {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
	close(g.open)
	test.Until(
		t,
		"the passes end",
		func() bool { s.commands.mu.Lock(); defer s.commands.mu.Unlock(); return len(s.commands.passes) == 0 },
	)
	test.Equal(t, "how many passes ran", g.ended.Load(), 2)
}

// A server that is ending refuses to start a pass.
func TestRefreshOfEndingServer(t *testing.T) {
	s := acting(t, nil, "web")
	s.commands.end()
	answer := post(s, "/api/v1/refresh", "")
	test.Equal(t, "the status", answer.Code, http.StatusServiceUnavailable)
	test.Contains(t, "the answer", answer.Body.String(), "the server is ending")
}
