package web

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
)

// acting serves some projects whose commands are a shell script, and returns the directory in which the script runs.
func acting(t *testing.T, script string, projects ...string) (s *Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	var o Options
	for _, name := range projects {
		place := Place{filepath.Join(dir, name, "WORKFLOW.md"), filepath.Join(dir, name, "state")}
		test.OK(t, os.MkdirAll(place.StateDir, 0o700))
		o.Places = append(o.Places, place)
	}
	s, _ = serve(t, o)
	s.source.env.Dir, s.source.env.Environ = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	s.commands.program = filepath.Join(dir, "program")
	test.OK(t, os.WriteFile(s.commands.program, []byte("#!/bin/sh\n"+script), 0o700))
	return s, dir
}

// post sends a request with the token, with JSON or a form.
func post(s *Server, path, body string) *httptest.ResponseRecorder {
	kind := "application/x-www-form-urlencoded"
	if strings.HasPrefix(body, "{") {
		kind = "application/json; charset=utf-8"
	}
	return visit(s, "POST", path, body, "Authorization", "Bearer "+string(s.token), "Content-Type", kind)
}

// No request without the token changes anything, whatever route it takes.
func TestActionsNeedToken(t *testing.T) {
	s, dir := acting(t, "touch called", "web")
	for _, route := range s.table() {
		if route.method == http.MethodGet || route.path == "/login" || route.path == "/theme" {
			continue
		}
		for _, token := range []string{"", "Bearer ", "Bearer 0123456789abcdeF"} {
			path := strings.NewReplacer("{identifier}", "ABC-1", "{id}", "ABC-1.1").Replace(route.path)
			test.Equal(t, route.method+" "+path+" with "+token, visit(s, route.method, path, "", "Authorization", token).Code, http.StatusUnauthorized)
		}
	}
	_, err := os.Stat(filepath.Join(dir, "called"))
	test.ErrorIs(t, "the file of a command", err, fs.ErrNotExist)
}

// Which command a request runs: its arguments and its stdin.
func TestActionCommands(t *testing.T) {
	s, dir := acting(t, `for arg; do printf '[%s]' "$arg"; done > args; tr '\0' '@' > input; echo '{"done":true}'`, "web")
	project := fmt.Sprintf("[--workflow=%[1]s/web/WORKFLOW.md][--state-dir=%[1]s/web/state][--]", dir)
	const requests = "/api/v1/requests/ABC-1.2/"
	for _, c := range []struct{ path, body, args, input string }{
		{"/api/v1/pause", "", "[pause][--json]" + project, ""},
		{"/api/v1/unblock", "", "[unblock][--json]" + project, ""},
		{"/api/v1/ABC-1/deliver", "", "[deliver][--no-wait][--json]" + project + "[ABC-1]", ""},
		{"/api/v1/resume?project=web", "", "[resume][--json]" + project, ""},
		{"/api/v1/ABC-1/stop", "", "[stop][--no-wait][--json]" + project + "[ABC-1]", ""},
		{"/api/v1/ABC-1/retry", "{}", "[retry][--json]" + project + "[ABC-1]", ""},
		{"/api/v1/a%2Fb%20c/hold", "", "[hold][--json]" + project + "[a/b c]", ""},
		{"/api/v1/--all/stop", "", "[stop][--no-wait][--json]" + project + "[--all]", ""},
		{requests + "approve", "", "[approve][--json]" + project + "[ABC-1.2]", ""},
		{requests + "approve", `{"for_session":true}`, "[approve][--for-session][--json]" + project + "[ABC-1.2]", ""},
		{requests + "approve", "for_session=true", "[approve][--for-session][--json]" + project + "[ABC-1.2]", ""},
		{requests + "deny", "reason=-+no%0Ano", "[deny][--reason=- no\nno][--json]" + project + "[ABC-1.2]", ""},
		{requests + "deny", `{"reason":"no"}`, "[deny][--reason=no][--json]" + project + "[ABC-1.2]", ""},
		{requests + "answer", "choice=2&choice=1", "[answer][--choice=2][--choice=1][--json]" + project + "[ABC-1.2]", ""},
		{requests + "answer", `{"choices":[2]}`, "[answer][--choice=2][--json]" + project + "[ABC-1.2]", ""},
		{requests + "answer", `{"texts":["one\n","--two"]}`, "[answer][--stdin][--json]" + project + "[ABC-1.2]", "one\n@--two\n"},
		{requests + "answer", "text=hunter2&text=", "[answer][--stdin][--json]" + project + "[ABC-1.2]", "hunter2@\n"},
		// The form of a page: an option, an own text beside options, two of several, nothing for an optional question.
		{
			requests + "answer", "questions=4&answer-0=Red&text-0=&text-1=my%0D%0Aown&answer-2=a&answer-2=b&back=/",
			"[answer][--stdin]" + project + "[ABC-1.2]", "Red@my\nown@a, b@\n",
		},
	} {
		w := post(s, c.path, c.body)
		if w.Code != http.StatusOK && w.Code != http.StatusSeeOther {
			t.Errorf("%s %s: %d %s", c.path, c.body, w.Code, w.Body)
			continue
		}
		args, err := os.ReadFile(filepath.Join(dir, "args"))
		input, inputErr := os.ReadFile(filepath.Join(dir, "input"))
		if err != nil || inputErr != nil || string(args) != c.args || string(input) != c.input {
			t.Errorf("%s %s: %s %q", c.path, c.body, args, input)
		}
	}
}

// Which requests run no command, and what a command's error becomes.
func TestActionErrors(t *testing.T) {
	s, dir := acting(t, `cat answer; exit "$(cat code)"`, "web", "api")
	const request = "/api/v1/requests/ABC-1.2/answer?project=web"
	for _, c := range []struct {
		path, body, answer, exit string
		status                   int
		code                     string
	}{
		{request, "", "", "", 400, "the answer is missing"},
		{request, `{"texts":["a"],"choices":[1]}`, "", "", 400, "cannot be combined"},
		{request, `{"text":"a"}`, "", "", 400, "unknown field"},
		{request, `{"texts":"a"}`, "", "", 400, "cannot unmarshal"},
		{request, `{"texts":["a\u0000b"]}`, "", "", 400, "NUL"},
		{"/api/v1/ABC-1%00/stop?project=web", "", "", "", 400, "NUL"},
		{request, "texts=a", "", "", 400, "unknown field"},
		{request, "choice=two", "", "", 400, "number of an option"},
		{"/api/v1/requests/ABC-1.2/approve?project=web", "for_session=maybe", "", "", 400, "true or false"},
		{request, `{"texts":["` + strings.Repeat("a", maxBody) + `"]}`, "", "", 413, "body_too_large"},
		{request, "text=" + strings.Repeat("a", maxBody), "", "", 413, "body_too_large"},
		{"/login", "token=" + strings.Repeat("a", maxBody), "", "", 413, "body_too_large"},
		{"/api/v1/pause", "", "", "", 400, "add ?project=NAME"},
		{"/api/v1/pause?project=nosuch", "", "", "", 404, "project_not_found"},
		{"/api/v1/pause?project=web", "", `{"paused":true}`, "0", 200, `{"paused":true}`},
		{"/api/v1/pause?project=web", "", `{"errors":[]}`, "1", 202, `{"errors":[]}`},
		{"/api/v1/pause?project=web", "", `no JSON`, "1", 500, "printed no JSON"},
		{request, `{"choices":[7]}`, `{"error":{"code":"usage","message":"not an option"}}`, "2", 400, "not an option"},
		{request, `{"choices":[1]}`, `{"error":{"code":"request_not_found"}}`, "1", 404, "request_not_found"},
		{request, `{"choices":[1]}`, `{"error":{"code":"request_ended"}}`, "1", 409, "request_ended"},
		{"/api/v1/pause?project=api", "", `{"error":{"code":"locked","hint":"the next pass applies it"}}`, "4", 409, "the next pass applies it"},
		{"/api/v1/pause?project=api", "", `{"error":{"code":"no_state"}}`, "1", 503, "no_state"},
		{"/api/v1/pause?project=api", "", `{"error":{"code":"linear_api_status"}}`, "1", 502, "linear_api_status"},
		{"/api/v1/pause?project=api", "", `{"error":{"code":"invalid_config"}}`, "3", 500, "invalid_config"},
	} {
		write(t, dir, "answer", c.answer)
		write(t, dir, "code", c.exit)
		w := post(s, c.path, c.body)
		test.Equal(t, c.path+" "+c.body, w.Code, c.status)
		test.Contains(t, c.path+" "+c.body, w.Body.String(), c.code)
		test.Equal(t, "it is JSON", json.Valid(w.Body.Bytes()), true)
	}
	s.commands.patience = time.Millisecond
	write(t, dir, "program", "#!/bin/sh\nexec sleep 600")
	test.Equal(t, "the status after the time is up", post(s, "/api/v1/pause?project=web", "").Code, http.StatusGatewayTimeout)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700))
}

// A form leads back to its page, which shows once what the command said. No other address and no invented notice is accepted.
func TestNotice(t *testing.T) {
	s, _ := acting(t, `echo 'paused: <b>'; echo >&2 'symphony: no schedule'`, "web")
	for _, back := range []string{"//evil.example/", "https://evil.example/", `/\evil.example`, `\\evil.example`, "/\t/evil.example", "evil", ""} {
		to := post(s, "/api/v1/pause", url.Values{"back": {back}}.Encode()).Header().Get("Location")
		test.Equal(t, "back to "+back, to, "/")
	}
	w := post(s, "/api/v1/pause", "back=/login%3Fx%3D1")
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?x=1" || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode {
		t.Fatal(w.Code, w.Header())
	}
	get := func(value string) string {
		return visit(s, "GET", w.Header().Get("Location"), "", "Cookie", cookies[0].Name+"="+value).Body.String()
	}
	test.Lacks(t, "the page with an invented notice", get("Done"), `id="notice"`)
	test.Contains(t, "the page", get(cookies[0].Value), "symphony pause</code>", "paused: &lt;b&gt;", "no schedule")
	test.Lacks(t, "the page the second time", get(cookies[0].Value), `id="notice"`)
	for range 3 * maxNotices {
		post(s, "/api/v1/pause", "back=/")
	}
	if n := len(s.commands.notices); n > maxNotices {
		t.Error(n, "notices are kept")
	}
}

// A command gets neither the token nor a socket of the server.
func TestCommandInheritsNothing(t *testing.T) {
	s, dir := acting(t, `cat /proc/self/environ /proc/self/cmdline > seen; ls -l /proc/self/fd >> seen; echo {}`, "web")
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("needs /proc")
	}
	post(s, "/api/v1/pause", "")
	seen, err := os.ReadFile(filepath.Join(dir, "seen"))
	if err != nil || regexp.MustCompile(`socket:|state\.db|`+string(s.token)).Match(seen) || !strings.Contains(string(seen), "HOME=") {
		t.Errorf("%v %q", err, seen)
	}
}

// waiting is a script that says that it runs and then waits for the file go.
const waiting = `: > "running.$$"; while [ ! -e go ]; do sleep 0.02; done; echo x >> ended; echo '{}'`

// The number of commands at once is limited, and the server ends after them.
func TestCommandsAtOnce(t *testing.T) {
	s, dir := acting(t, waiting, "web")
	defer write(t, dir, "go", "") // the server waits for the commands
	var wait sync.WaitGroup
	for range maxCommands + 2 {
		wait.Go(func() { post(s, "/api/v1/pause", "") })
	}
	count := func(pattern string) int {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		return len(files)
	}
	test.Until(t, "commands run", func() bool { return count("running.*") == maxCommands })
	ended := make(chan struct{})
	go func() { s.commands.end(); close(ended) }()
	test.Until(t, "the server ends", func() bool { s.commands.mu.Lock(); defer s.commands.mu.Unlock(); return s.commands.closed })
	w := post(s, "/api/v1/pause", "")
	test.Equal(t, "the status", w.Code, http.StatusServiceUnavailable)
	test.Contains(t, "the answer", w.Body.String(), "the server is ending")
	test.Equal(t, "how many commands run", count("running.*"), maxCommands)
	select {
	case <-ended:
		t.Error("the server did not wait")
	default:
	}
	write(t, dir, "go", "")
	wait.Wait()
	<-ended
	if lines, _ := os.ReadFile(filepath.Join(dir, "ended")); len(lines) < 2*maxCommands {
		t.Errorf("%q", lines)
	}
}

// While a pass is under way, any number of requests for a pass cause one more.
func TestRefreshCoalesces(t *testing.T) {
	s, dir := acting(t, `echo "$*" >> calls; `+waiting, "web")
	for i, coalesced := range []bool{false, false, true, true} {
		w := post(s, "/api/v1/refresh", "")
		var answer refreshed
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusAccepted || !answer.Queued || answer.Coalesced != coalesced {
			t.Errorf("request %d: %d %s", i, w.Code, w.Body)
		}
	}
	write(t, dir, "go", "")
	test.Until(t, "the passes end", func() bool { s.commands.mu.Lock(); defer s.commands.mu.Unlock(); return len(s.commands.passes) == 0 })
	calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
	test.Equal(t, "how many passes ran", strings.Count(string(calls), "tick --trigger=manual --quiet"), 2)
}
