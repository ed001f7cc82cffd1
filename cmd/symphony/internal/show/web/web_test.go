package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state/statetest"
)

// serve starts a server without projects and returns it with its address.
func serve(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	o.Token = "0123456789abcdef"
	dir := t.TempDir()
	w := &environ.Env{Environ: []string{"TMPDIR=" + dir}, Dir: dir, Home: dir, Now: time.Now}
	s := test.Must(New(t.Context(), w, o))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		test.OK(t, <-done)
	})
	return s, "http://" + s.listeners[0].Addr().String()
}

// visit sends a request with these headers, names and values in turn, to localhost.
func visit(s *Server, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, r)
	return answer
}

// Which requests are answered, by what they have in their headers.
func TestAccess(t *testing.T) {
	local, _ := serve(t, Options{})
	public, _ := serve(t, Options{Hosts: []string{"Symphony.Example:443"}}) // by a proxy
	for _, c := range []struct {
		name, method, path, host, header, value string
		public                                  bool
		status                                  int
		code                                    string
	}{
		{"loopback reads", "GET", "/api/v1/state", "127.0.0.1:7967", "", "", false, 200, ""},
		{"by name", "GET", "/api/v1/state", "localhost", "", "", false, 200, ""},
		{
			"by a name with cookies of its own",
			"GET",
			"/api/v1/state",
			"symphony-xyz.localhost:7967",
			"",
			"",
			false,
			200,
			"",
		},
		{
			"a name that only looks so",
			"GET",
			"/api/v1/state",
			"symphony.localhost.evil.example",
			"",
			"",
			false,
			421,
			"host_refused",
		},
		{"IPv6", "GET", "/api/v1/state", "[::1]:7967", "", "", false, 200, ""},
		{
			"allowed name",
			"GET",
			"/api/v1/state",
			"Symphony.Example:80",
			"Authorization",
			"Bearer 0123456789abcdef",
			true,
			200,
			"",
		},
		{"allowed name without token", "GET", "/api/v1/state", "symphony.example", "", "", true, 401, "unauthorized"},
		{"foreign host", "GET", "/api/v1/state", "evil.example", "", "", false, 421, "host_refused"},
		{"a port that is no number", "GET", "/healthz", "localhost:x", "", "", false, 421, "host_refused"},
		{"no host", "GET", "/healthz", "", "", "", false, 421, "host_refused"},
		{"public without token", "GET", "/api/v1/state", "localhost", "", "", true, 401, "unauthorized"},
		{
			"public with token",
			"GET",
			"/api/v1/state",
			"localhost",
			"Authorization",
			"Bearer 0123456789abcdef",
			true,
			200,
			"",
		},
		{
			"public with cookie",
			"GET",
			"/api/v1/state",
			"localhost",
			"Cookie",
			public.access.cookie + "=0123456789abcdef",
			true,
			200,
			"",
		},
		{
			"scheme in lower case",
			"GET",
			"/api/v1/state",
			"localhost",
			"Authorization",
			"bearer 0123456789abcdef",
			true,
			200,
			"",
		},
		{
			"token without scheme",
			"GET",
			"/api/v1/state",
			"localhost",
			"Authorization",
			"0123456789abcdef",
			true,
			401,
			"send Authorization: Bearer TOKEN",
		},
		{
			"wrong token",
			"GET",
			"/api/v1/state",
			"localhost",
			"Authorization",
			"Bearer 0123456789abcdeF",
			true,
			401,
			"this is not the token",
		},
		{
			"wrong token where none is needed",
			"GET",
			"/api/v1/state",
			"localhost",
			"Authorization",
			"Bearer 0123456789abcdeF",
			false,
			401,
			"this is not the token",
		},
		{
			"the login of a proxy where no token is needed",
			"GET",
			"/api/v1/state",
			"localhost",
			"Authorization",
			"Basic YW5uOng=",
			false,
			200,
			"",
		},
		{
			"other scheme",
			"GET",
			"/api/v1/state",
			"localhost",
			"Authorization",
			"token 0123456789abcdef",
			true,
			401,
			"send Authorization: Bearer TOKEN",
		},
		{"health needs nothing", "GET", "/healthz", "localhost", "", "", true, 200, ""},
		{"no project", "GET", "/api/v1/ABC-1", "localhost", "", "", false, 404, "not_found"},
		{"no project of an address", "GET", "/?project=nope", "localhost", "", "", false, 404, "not_found"},
		{"unknown path", "GET", "/api/v1/a/b/c", "localhost", "", "", false, 404, "not_found"},
		{"method", "DELETE", "/api/v1/state", "localhost", "", "", false, 405, "method_not_allowed"},
		{"other origin", "POST", "/login", "localhost", "Origin", "https://evil.example", false, 403, "origin_refused"},
		{"other site", "POST", "/login", "localhost", "Sec-Fetch-Site", "cross-site", false, 403, "origin_refused"},
		{"a link of another site", "GET", "/api/v1/state", "localhost", "Sec-Fetch-Mode", "navigate", false, 200, ""},
		{
			"a stream for another site",
			"GET",
			"/api/v1/state",
			"localhost",
			"Sec-Fetch-Mode",
			"cors",
			false,
			403,
			"origin_refused",
		},
		{
			"login without token",
			"POST",
			"/login",
			"localhost",
			"Sec-Fetch-Site",
			"same-origin",
			false,
			401,
			"unauthorized",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, nil)
			r.Host = c.host
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			if c.header == "Sec-Fetch-Mode" {
				r.Header.Set("Sec-Fetch-Site", "cross-site")
			}
			s := local
			if c.public {
				s = public
			}
			answer := httptest.NewRecorder()
			s.routes().ServeHTTP(answer, r)
			test.Equal(t, "the status", answer.Code, c.status)
			test.Contains(t, "the answer", answer.Body.String(), c.code)
			policy, _, _ := strings.Cut(answer.Header().Get("Content-Security-Policy"), ";")
			test.Equal(t, "the beginning of Content-Security-Policy", policy, "default-src 'none'")
		})
	}
}

// The results of several projects are one list with pages, and a search on the overview
// reaches all recorded runs.
func TestResults(t *testing.T) {
	var places []Place
	for _, name := range []string{"web", "api"} {
		dir := filepath.Join(t.TempDir(), name)
		p := Place{filepath.Join(dir, "WORKFLOW.md"), filepath.Join(dir, "state")}
		test.OK(t, statetest.Large(t.Context(), p.StateDir, time.Now(), statetest.Size{
			Claims: 50,
			Runs:   1000,
			Passes: 2,
		}))
		test.OK(
			t,
			os.WriteFile(
				p.Workflow,
				[]byte("---\ntracker: {kind: file, provider: {path: "+dir+"/tasks}}\n---\nWork.\n"),
				0o600,
			),
		)
		places = append(places, p)
	}
	s, _ := serve(t, Options{Places: places})
	body := func(path string) string {
		answer := get(t, s, path, time.Minute)
		test.Equal(t, path, answer.Code, http.StatusOK)
		return answer.Body.String()
	}
	test.Contains(t, "the first page", body("/results"), "1 to 100 of 258", `href="/results?from=100"`)
	last := body("/results?from=200")
	test.Contains(t, "the last page", last, "201 to 258 of 258", `href="/results?from=100"`)
	test.Lacks(t, "the last page", last, "earlier")
	test.Contains(t, "a project", body("/results?project=api&outcome=held&label=BUG"), "1 to 4 of 4")
	test.Contains(t, "a search", body("/results?q=abc-10008"), "1 to 2 of 2", "First I look at the tests.")
	test.Contains(t, "nothing", body("/results?q=%25"), "No result matches")
	test.Equal(t, "a wrong day", get(t, s, "/results?since=x", time.Minute).Code, http.StatusBadRequest)
	test.Contains(t, "the list of all", body("/api/v1/results?limit=1"), `"total":258,`, `"unreadable":[]`)
	test.Contains(
		t,
		"a label",
		body("/?q=label:Symphony&project=web&status=held"),
		`href="/?q=label%3Abug"`,
		`/results?label=Symphony&amp;project=web`,
		`name="issue" value="web/ABC-10"`,
	)
	test.Contains(t, "a part of a label", body("/?q=label:symph"), "No issue matches")
	test.Contains(
		t,
		"the oldest runs",
		body("/?q=first+i+look&status=ended&project=web&from=300"),
		"100 more",
	)
}

// A project of several that can't be read is named beside the results of the others. Alone it
// is an error.
func TestResultsBesideAnUnreadableProject(t *testing.T) {
	var places []Place
	for _, name := range []string{"web", "api"} {
		dir := filepath.Join(t.TempDir(), name)
		p := Place{filepath.Join(dir, "WORKFLOW.md"), filepath.Join(dir, "state")}
		test.OK(t, statetest.Large(t.Context(), p.StateDir, time.Now(), statetest.Size{
			Claims: 50,
			Runs:   1000,
			Passes: 2,
		}))
		places = append(places, p)
	}
	pool := test.Must(sql.Open("sqlite", filepath.Join(places[1].StateDir, "state.db")))
	defer pool.Close()
	s, _ := serve(t, Options{Places: places})
	for _, c := range []struct {
		fault, path string
		want        []string
	}{
		{
			"UPDATE releases SET links = 'x'",
			"/api/v1/results",
			[]string{`"total":129,`, `"unreadable":[{"project":"api","error":{"code":"state_corrupt",`},
		},
		{
			"PRAGMA user_version = 99",
			"/results",
			[]string{"1 to 100 of 129", "api", "The project can", "to schema 99", "upgrade symphony here, too"},
		},
		{
			"",
			"/api/v1/results",
			[]string{`"total":129,`, `"unreadable":[{"project":"api","error":{"code":"state_newer",`},
		},
	} {
		test.Must(pool.ExecContext(t.Context(), c.fault))
		answer := get(t, s, c.path, time.Minute)
		test.Equal(t, c.path, answer.Code, http.StatusOK)
		test.Contains(t, c.path, answer.Body.String(), c.want...)
	}
	test.Equal(
		t,
		"the project alone",
		get(t, s, "/api/v1/results?project=api", time.Minute).Code,
		http.StatusServiceUnavailable,
	)
}

// The link lets one browser keep the token, and that browser may open it again. A program that
// only looks at the link leaves it to the browser.
func TestLogin(t *testing.T) {
	s, _ := serve(t, Options{})
	for _, method := range []string{"HEAD", "GET"} {
		answer := visit(s, method, "/login?token="+string(s.access.code), "")
		test.Equal(
			t,
			method+" by a program that previews links",
			fmt.Sprint(answer.Code, answer.Header()["Set-Cookie"]),
			"200 []",
		)
		test.Lacks(t, "the page that it gets", answer.Body.String(), string(s.access.code))
	}
	test.Equal(
		t,
		"HEAD by a browser",
		visit(s, "HEAD", "/login?token="+string(s.access.code), "", "Sec-Fetch-Mode", "navigate").Code,
		200,
	)
	open := func(token Token, cookie string) (status int, set *http.Cookie) {
		answer := visit(
			s,
			"GET",
			"/login?token="+string(token),
			"",
			"Cookie",
			cookie,
			"Upgrade-Insecure-Requests",
			"1",
		)
		set, _ = http.ParseSetCookie(answer.Header().Get("Set-Cookie")) // nil if there is none
		return answer.Code, set
	}
	status, _ := open(s.token, "")
	test.Equal(t, "the token as a link", status, http.StatusUnauthorized)
	status, c := open(s.access.code, "")
	if status != http.StatusSeeOther || c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode ||
		c.Value != string(s.token) {
		t.Fatalf("%d %v", status, c)
	}
	status, _ = open(s.access.code, "")
	test.Equal(t, "another browser", status, http.StatusUnauthorized)
	status, _ = open(s.access.code, c.Name+"="+c.Value)
	test.Equal(t, "the same browser", status, http.StatusSeeOther)
}

// The link has a name that no other server at this machine can have, unless another program
// listens at ::1.
func TestSecretName(t *testing.T) {
	link := func(s *Server) (said string) {
		s.Announce(func(line string) { said += line + "\n" }, true)
		return said
	}
	s, address := serve(t, Options{})
	port := address[strings.LastIndex(address, ":"):]
	if !regexp.MustCompile(`http://symphony-[a-z2-7]{12}\.localhost` + port + `/login`).MatchString(link(s)) {
		t.Error(link(s))
	}
	if c, err := net.Dial("tcp", "[::1]"+port); len(s.listeners) > 1 && err != nil {
		t.Error(err)
	} else if err == nil {
		c.Close()
	}
	var config net.ListenConfig
	first := test.Must(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer first.Close()
	taken, safe := listenIPv6(t.Context(), first.Addr())
	test.Equal(t, "a name beside a free ::1", safe, true)
	if taken == nil {
		t.Skip("no IPv6")
	}
	_, safe = listenIPv6(t.Context(), first.Addr())
	test.Equal(t, "a name beside another program at ::1", safe, false)
	taken.Close()
	const token = "0123456789abcdef"
	test.Equal(t, "the name of the same token", secretName(token), secretName(token))
	test.Equal(t, "two tokens have the same name", secretName(token) == secretName(token+"F"), false)
	one := secretName("")
	another := secretName("")
	test.Equal(t, "two starts have the same name", one == another, false)
	own, _ := serve(t, Options{OwnToken: true})
	if said := link(own); !strings.Contains(said, "log in at http://"+secretName(token)+":") ||
		strings.Contains(said, string(own.token)) ||
		strings.Contains(said, string(own.access.code)) {
		t.Error(said)
	}
	other, _ := serve(t, Options{Listen: "[::1]:0"})
	test.Contains(t, "the link", link(other), "once: http://[::1]:")
}

// Only this account can use the socket, and the next server replaces the one of a killed
// server.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "symphony.sock")
	for range 2 {
		l := test.Must(privateSocket(t.Context(), path))
		test.Equal(t, "the mode of the socket", test.Must(os.Stat(path)).Mode().Perm(), 0o600)
		_ = l.(*socketListener).Listener.Close() // as a kill: the socket stays
	}
	serve(t, Options{Listen: "unix:" + path})
	kept := filepath.Join(filepath.Dir(path), "notes.txt")
	long := path + strings.Repeat("x", 100)
	test.OK(t, os.WriteFile(kept, []byte("kept"), 0o600))
	test.OK(t, os.Symlink(kept, kept+".link"))
	w := &environ.Env{Dir: "/"}
	for _, c := range []struct{ path, want string }{
		{path, "another process listens"},
		{kept, "is not a socket"},
		{kept + ".link", "is not a socket"},
		{filepath.Dir(path), "is not a socket"},
		{"", "the path of the socket is missing"},
		{long, "too long"},
		{"/nowhere/symphony.sock", "no such file"},
	} {
		if l, err := listen(t.Context(), w, Options{Listen: "unix:" + c.path}); err == nil {
			l.Close()
			t.Errorf("%s was taken", c.path)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Error(err)
		}
	}
	test.Equal(t, "the file behind a link", string(test.Must(os.ReadFile(kept+".link"))), "kept")
}

// What the options name, and whether the printed link leads there.
func TestAddresses(t *testing.T) {
	elsewhere := "http://" + reachable(net.IPv4zero)[0] + ":" // works on other machines
	for _, c := range []struct {
		listen string
		port   int
		want   string // the address of the link, or a part of the error
	}{
		{"", 0, "http://symphony-"},
		{"localhost", 0, "http://symphony-"},
		{"localhost:1", 0, "http://symphony-"}, // the flag wins
		{"::1", 0, "http://[::1]:"},
		{"[::1]:0", -1, "http://[::1]:"},
		{"::", 0, elsewhere},
		{"[::]:0", -1, elsewhere},
		{"0.0.0.0", 0, elsewhere},
		{"LOCALHOST:http", -1, "the port must be a number"},
		{"127.0.0.1", 65536, "the port must be a number"},
		{"192.0.2.1:0", -1, "assign requested address"},
	} {
		if strings.Contains(c.listen, "::") && !hasIPv6(t) {
			continue
		}
		w := &environ.Env{Dir: t.TempDir()}
		s, err := New(t.Context(), w, Options{
			Listen: c.listen,
			Port:   c.port,
			Token:  "0123456789abcdef",
		})
		if err != nil {
			test.Contains(t, c.listen, err.Error(), c.want)
			continue
		}
		for _, l := range s.listeners {
			defer l.Close()
		}
		said := ""
		s.Announce(func(line string) { said += line + "\n" }, true)
		link := regexp.MustCompile("http.*/login.*").FindString(said)
		r := httptest.NewRequest("GET", link, nil)
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		answer := httptest.NewRecorder()
		s.handler.ServeHTTP(answer, r)
		if !strings.HasPrefix(link, c.want) || answer.Code != http.StatusSeeOther {
			t.Errorf("%q: %s: %d", c.listen, said, answer.Code)
		}
	}
	// A name without a port is one of the server's names.
	a := newAccess(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, Options{Listen: "Tower"})
	test.Contains(t, "the names", " "+strings.Join(a.hosts, " ")+" ", " tower ", " 192.0.2.1 ")
}

// A server that other machines can reach reports it, and they reach it by the machine's name
// and addresses; 0.0.0.0 is IPv4 alone.
func TestOpenToOthers(t *testing.T) {
	s, address := serve(t, Options{Listen: "0.0.0.0:0"})
	port := address[strings.LastIndex(address, ":"):]
	name := strings.ToLower(test.Must(os.Hostname()))
	said := ""
	s.Announce(func(line string) { said += line + "\n" }, false)
	test.Lacks(t, "a link without asking for it", said, "/login")
	test.Contains(
		t,
		"the start",
		said,
		"serving at http://0.0.0.0"+port,
		"open to other machines, without encryption",
		" http://"+name+port+"/",
	)
	s.Announce(func(line string) { said += line + "\n" }, true)
	test.Contains(t, "the start with a link", said, "open this link once: http://"+s.access.open[0]+port+"/login?token=")
	short, _, _ := strings.Cut(name, ".")
	for host, want := range map[string]int{
		name:               401,
		name + port:        401,
		short:              401,
		"192.0.2.7" + port: 401,
		"evil.example":     421,
		name + ":http":     421,
	} {
		r := httptest.NewRequest("GET", "/api/v1/state", nil)
		r.Host = host
		answer := httptest.NewRecorder()
		s.handler.ServeHTTP(answer, r)
		test.Equal(t, host, answer.Code, want)
	}
	if c, err := net.Dial("tcp", "[::1]"+port); err == nil {
		c.Close()
		t.Error("it listens at IPv6, too")
	}
}

func hasIPv6(t *testing.T) bool {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "[::1]:0")
	if err == nil {
		l.Close()
	}
	return err == nil
}

// A token of the operator's own is a secret that a cookie and a header can contain.
func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		text, said string
		mode       os.FileMode
	}{
		{"0123456789abcdef\n", "", 0o600},
		{"0123456789abcdef", "chmod 600", 0o640},
		{"0123456789", "shorter", 0o600},
		{"0123456789;abcdef", "letters, digits", 0o600},
		{"0123456789\nabcdefghij", "letters, digits", 0o600},
		{strings.Repeat("a", 5000), "at most", 0o600},
	} {
		test.OK(t, errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chmod(path, c.mode)))
		token, err := ReadToken(path)
		if c.said == "" && (err != nil || string(token) != strings.TrimSpace(c.text)) ||
			c.said != "" && (err == nil || !strings.Contains(err.Error(), c.said)) {
			t.Errorf("%.30q: %v", c.text, err)
		}
	}
}

// The chosen theme is kept by the browser, and the form returns to a page of this server only.
func TestTheme(t *testing.T) {
	s, _ := serve(t, Options{})
	for _, c := range []struct{ theme, back, cookie, location string }{
		{"dark", "/?q=x", "theme=dark", "/?q=x"},
		{"", "/issues/a/B-1", "theme=;", "/issues/a/B-1"},
		{"<script>", "//evil.example/", "theme=;", "/"},
		{"light", "https://evil.example/", "theme=light", "/"},
		{"light", `/\evil.example`, "theme=light", "/"},
	} {
		form := url.Values{"theme": {c.theme}, "back": {c.back}}.Encode()
		to := visit(s, "POST", "/theme", form, "Content-Type", "application/x-www-form-urlencoded").Header()
		if to.Get("Location") != c.location || !strings.HasPrefix(to.Get("Set-Cookie"), c.cookie) {
			t.Errorf("%s %s: %v", c.theme, c.back, to)
		}
	}
	test.Contains(
		t,
		"the page",
		visit(s, "GET", "/", "", "Cookie", "theme=dark").Body.String(),
		`data-theme="dark"`,
	)
}
