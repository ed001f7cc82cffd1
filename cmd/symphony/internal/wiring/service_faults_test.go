package wiring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

const serviceToken = "0123456789abcdef0123456789abcdef01234567"

// apiPaths are the paths of the APIs of services.
var apiPaths = map[string]string{"gitea": "/api/v1", "gitlab": "/api/v4"}

// trackerAt is a tracker of a kind whose server is at an address.
func trackerAt(t *testing.T, kind, address string, warn ...func(string)) *reconcile.TrackerAdapter {
	t.Helper()
	cfg := &workflow.Config{}
	cfg.Policy.ActiveStates = []string{"open", "opened", "Todo"}
	cfg.Policy.TerminalStates = []string{"closed"}
	cfg.Tracker = workflow.Tracker{
		Kind:         kind,
		Endpoint:     address + apiPaths[kind],
		APIKey:       serviceToken,
		Repositories: workflow.Repositories{Names: []string{"acme/shop"}},
		Jira:         workflow.Jira{Email: "ann@example.com", Project: "SHOP"},
	}
	dir := t.TempDir()
	p := &Project{Env: &environ.Env{Now: time.Now}, Path: filepath.Join(dir, "WORKFLOW.md"), StateDir: dir}
	o := TrackerOptions{Memory: noMemory{}}
	if warn != nil {
		o.Warn = warn[0]
	}
	return test.Must(NewTracker(p, cfg, o))
}

// forgeAt is a forge of a kind whose server is at an address.
func forgeAt(kind, address string) *reconcile.Forge {
	return test.Must(forgeAdapters[kind](transport.ForgeOptions{
		Options:    transport.Options{Endpoint: address + apiPaths[kind], Key: serviceToken},
		Repository: "acme/shop",
		By:         "$TEAM_TOKEN",
		Renew:      "put a valid token into $TEAM_TOKEN",
	}))
}

// callsOf are the calls of a service that make a request, by name.
func callsOf(t *testing.T, name, address string) map[string]func(context.Context) error {
	t.Helper()
	const commit = "1111111111111111111111111111111111111111"
	kind, isForge := strings.CutSuffix(name, " pull requests")
	if isForge {
		f := forgeAt(kind, address)
		m := reconcile.Merging{Number: 1, Head: commit, Method: "merge"}
		return map[string]func(context.Context) error{
			"open": func(ctx context.Context) error {
				return test.Err(f.Open(ctx, reconcile.NewPull{Branch: "work", Base: "main", Commit: commit, Title: "T"}))
			},
			"read":    func(ctx context.Context) error { return test.Err(f.Read(ctx, []int{1})) },
			"checks":  func(ctx context.Context) error { return test.Err(f.ReadChecks(ctx, "work")) },
			"log":     func(ctx context.Context) error { return test.Err(f.ReadLog(ctx, 1)) },
			"rerun":   func(ctx context.Context) error { return f.Rerun(ctx, 1) },
			"comment": func(ctx context.Context) error { return f.Comment(ctx, 1, "m", "m") },
			"rules":   func(ctx context.Context) error { return test.Err(f.ReadMerge(ctx, 1)) },
			"merge":   func(ctx context.Context) error { return f.Merge(ctx, m) },
			"arm":     func(ctx context.Context) error { return test.Err(f.ArmMerge(ctx, m)) },
		}
	}
	a := trackerAt(t, kind, address)
	return map[string]func(context.Context) error{
		"candidates": func(ctx context.Context) error {
			found, err := a.Candidates(ctx, []string{"open", "opened", "Todo"})
			test.Equal(t, "candidates", len(found), 0)
			return err
		},
		"by id": func(ctx context.Context) error {
			found, err := a.ByIDs(ctx, []string{"1"})
			test.Equal(t, "issues", len(found), 0)
			return err
		},
		"comments": func(ctx context.Context) error { return test.Err(a.Comments(ctx, "1", time.Time{})) },
		"post":     func(ctx context.Context) error { return test.Err(a.Post(ctx, "1", "Text.")) },
		"move":     func(ctx context.Context) error { return a.Move(ctx, "1", "closed") },
		"verify":   func(ctx context.Context) error { return test.Err(a.Verify(ctx, reconcile.TrackerNames{})) },
	}
}

// services are those of people's issues and pull requests that are reached over HTTP with REST, or
// with REST and GraphQL.
var services = []string{
	"github", "gitea", "gitlab", "jira",
	"github pull requests", "gitea pull requests", "gitlab pull requests",
}

// reply is an answer of a server. body may differ between services, by their first words.
type reply struct {
	status int
	body   string
	bodies map[string]string
	header map[string]string
}

func (r reply) serve(service string) http.HandlerFunc {
	kind, _, _ := strings.Cut(service, " ")
	return func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range r.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(r.status)
		body := r.body
		if own, has := r.bodies[kind]; has {
			body = own
		}
		_, _ = io.WriteString(w, body)
	}
}

// Whatever a service answers instead of what was asked for, each call fails with an error that people
// understand: in one line, with the next step, without the token, and with nothing in it that a
// terminal would obey. Nothing looks as if it were gone.
func TestFaultsOfServices(t *testing.T) {
	hostile := "\x1b[2J\u202emoc.elpmaxe ```\nrm -rf /"
	for name, c := range map[string]struct {
		reply
		codes []string // one of these ends the code
		says  map[string]string
		gone  bool // it may look gone, because it is hidden
	}{
		"401": {
			reply: reply{status: 401, bodies: map[string]string{
				"github": `{"message": "Bad credentials"}`,
				"gitea":  `{"message": "invalid username, password or token"}`,
				"gitlab": `{"error": "invalid_token", "error_description": "Token was revoked."}`,
				"jira":   `{"errorMessages": ["Client must be authenticated to access this resource."]}`,
			}},
			codes: []string{"_api_status"},
			says:  map[string]string{"github": "token", "gitea": "token", "gitlab": "token", "jira": "API token"},
		},
		"403 with the scope that is missing": {
			reply: reply{status: 403, bodies: map[string]string{
				"github": `{"message": "Resource not accessible by personal access token"}`,
				"gitea": `{"message": "token does not have at least one of required scope(s), ` +
					`required=[write:issue], token scope=read:issue"}`,
				"gitlab": `{"error": "insufficient_scope", "error_description": "The request requires higher ` +
					`privileges than provided by the access token.", "scope": "api"}`,
				"jira": `{"errorMessages": ["Forbidden"]}`,
			}},
			codes: []string{"_api_status"},
			says: map[string]string{
				"github": "access",
				"gitea":  "scope",
				"gitlab": "scope api",
				"jira":   "write:jira-work",
			},
		},
		"404": {
			reply: reply{status: 404, bodies: map[string]string{
				"jira": `{"errorMessages": ["Issue does not exist or you do not have permission to see it."]}`,
			}, body: `{"message": "Not Found"}`},
			gone: true,
		},
		"409":             {reply: reply{status: 409, body: `{"message": "Conflict"}`}},
		"422":             {reply: reply{status: 422, body: `{"message": "Unprocessable"}`}},
		"423, archived":   {reply: reply{status: 423, body: `{"message": "Repo is archived"}`}},
		"500":             {reply: reply{status: 500, body: `{"message": ""}`}, codes: []string{"_api_status"}},
		"502 of a proxy":  {reply: reply{status: 502, body: "<html>bad gateway</html>"}, codes: []string{"_api_status"}},
		"503":             {reply: reply{status: 503}, codes: []string{"_api_status"}},
		"a login page":    {reply: reply{status: 200, body: "<html>Sign in</html>"}},
		"half an answer":  {reply: reply{status: 200, body: `{"id": 1, "title": "W`}},
		"null":            {reply: reply{status: 200, body: "null"}},
		"a text":          {reply: reply{status: 200, body: `"hello"`}},
		"hostile letters": {reply: reply{status: 400, body: string(text.JSON(map[string]string{"message": hostile}))}},
	} {
		for _, service := range services {
			t.Run(name+"/"+service, func(t *testing.T) {
				t.Parallel()
				s := httptest.NewServer(c.serve(service))
				defer s.Close()
				for what, call := range callsOf(t, service, s.URL) {
					isLog := what == "log" && c.status == 200 // any text may be a log
					if isLog || what == "rerun" && c.status == 200 {
						continue
					}
					err := call(t.Context())
					e := understood(t, what, err)
					if e == nil {
						continue
					}
					if c.codes != nil && !slices.ContainsFunc(c.codes, func(end string) bool {
						return strings.HasSuffix(e.Code, end)
					}) {
						t.Errorf("%s: code %s, want …%v: %v", what, e.Code, c.codes, err)
					}
					kind, _, _ := strings.Cut(service, " ")
					test.Contains(t, what+" says", e.Message+" "+e.Hint, c.says[kind])
					if !c.gone && errors.Is(err, reconcile.ErrGone) {
						t.Errorf("%s: it looks gone: %v", what, err)
					}
				}
			})
		}
	}
}

// understood checks that people understand the error of a call.
func understood(t *testing.T, what string, err error) *reconcile.Error {
	t.Helper()
	e, is := errors.AsType[*reconcile.Error](err)
	if !is {
		t.Errorf("%s: error %v", what, err)
		return nil
	}
	said := e.Message + " " + e.Hint
	hasClass := reconcile.ClassOf(err) != "" || errors.Is(err, reconcile.ErrGone)
	if e.Code == "" || e.Hint == "" || !hasClass {
		t.Errorf("%s: no code, no class or no next step: %q: %v, hint %q", what, e.Code, err, e.Hint)
	}
	test.Lacks(t, what, said, serviceToken)
	if strings.ContainsAny(e.Message, "\r\n") || len(said) > 1000 { // who prints it escapes the rest
		t.Errorf("%s: %d bytes, or several lines: %q", what, len(said), said)
	}
	return e
}

// A limit with a time ends then, one without a time in a minute.
func TestLimitsOfServices(t *testing.T) {
	for after, want := range map[string]time.Duration{"": time.Minute, "90": 90 * time.Second} {
		for _, service := range services {
			t.Run("Retry-After "+after+"/"+service, func(t *testing.T) {
				t.Parallel()
				r := reply{status: 429, body: `{"message": "Slow down"}`}
				if after != "" {
					r.header = map[string]string{"Retry-After": after}
				}
				s := httptest.NewServer(r.serve(service))
				defer s.Close()
				for what, call := range callsOf(t, service, s.URL) {
					began := time.Now()
					err := call(t.Context())
					understood(t, what, err)
					var limited reconcile.Limited
					if !errors.As(err, &limited) {
						t.Errorf("%s: %v", what, err)
						continue
					}
					end := limited.ResetAt().Sub(began)
					if end < want-time.Second || end > want+test.Patience() {
						t.Errorf("%s: the limit ends in %v, want %v", what, end, want)
					}
				}
			})
		}
	}
}

// A service that does not answer holds nothing up for longer than the caller wants.
func TestSilentServices(t *testing.T) {
	for _, service := range services {
		t.Run(service, func(t *testing.T) {
			asked := make(chan struct{}, 100)
			s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}))
			defer s.Close()
			for what, call := range callsOf(t, service, s.URL) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-asked
					cancel()
				}()
				err := call(ctx)
				if err == nil {
					t.Errorf("%s: no error", what)
				}
				cancel()
			}
		})
	}
}

// A list that never ends is given up after a bounded number of requests, and returns no issue.
func TestEndlessLists(t *testing.T) {
	for _, kind := range []string{"gitea", "gitlab", "jira"} {
		t.Run(kind, func(t *testing.T) {
			requests := 0
			s := httptest.NewServer(bigService(kind, 1<<30, &requests))
			defer s.Close()
			found, err := trackerAt(t, kind, s.URL).Candidates(t.Context(), []string{"open", "opened", "Todo"})
			e := understood(t, "candidates", err)
			isRefused := e != nil && len(found) == 0 && strings.HasSuffix(e.Code, "_unknown_payload")
			if !isRefused || requests > 450 { // it is read twice
				t.Errorf("%d issues after %d requests: %v", len(found), requests, err)
			}
		})
	}
}

// 10,000 issues are all read, by as many requests as their pages need, and one for the blockers of
// each where the list lacks them.
func TestLargeProjects(t *testing.T) {
	const issues = 10_000
	for kind, most := range map[string]int{
		"gitea":  issues/50 + issues,
		"gitlab": issues/100 + issues,
		"jira":   2 * issues / 100,
	} {
		t.Run(kind, func(t *testing.T) {
			requests := 0
			s := httptest.NewServer(bigService(kind, issues, &requests))
			defer s.Close()
			found := test.Must(trackerAt(t, kind, s.URL).Candidates(t.Context(), []string{"open", "opened", "Todo"}))
			test.Equal(t, "issues", len(found), issues)
			if requests > most+10 {
				t.Errorf("%d requests, want %d", requests, most)
			}
		})
	}
}

// statuses are those of a project of Jira.
var statuses = []any{map[string]any{"id": "1", "name": "Task", "statuses": []any{
	map[string]any{"id": "1", "name": "Todo", "statusCategory": map[string]string{"key": "new"}},
}}}

// bigService answers as a service with many issues does.
func bigService(kind string, issues int, requests *int) http.HandlerFunc {
	const at = "2026-03-01T12:00:00Z"
	issue := func(n int) map[string]any {
		return map[string]any{
			"id": n, "number": n, "iid": n, "title": fmt.Sprint("Issue ", n), "created_at": at, "updated_at": at,
			"state": map[string]string{"gitea": "open", "gitlab": "opened"}[kind],
		}
	}
	jiraIssue := func(id string) map[string]any {
		return map[string]any{"id": id, "key": "SHOP-" + id, "fields": map[string]any{
			"summary": "Issue " + id, "created": at, "updated": at,
			"status":  map[string]any{"id": "1", "name": "Todo", "statusCategory": map[string]string{"key": "new"}},
			"project": map[string]string{"id": "10", "key": "SHOP"},
		}}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		*requests++
		var in struct {
			Token string   `json:"nextPageToken"`
			IDs   []string `json:"issueIdsOrKeys"`
		}
		_ = json.NewDecoder(r.Body).Decode(&in) // a GET has none
		var out any = []any{}
		path := r.URL.Path
		switch {
		case strings.HasSuffix(path, "/dependencies"), strings.HasSuffix(path, "/links"):
		case strings.HasSuffix(path, "/myself"):
			out = map[string]any{"accountId": "1", "displayName": "Ann"}
		case strings.HasSuffix(path, "/statuses"):
			out = statuses
		case strings.HasSuffix(path, "/search/jql"):
			from, _ := strconv.Atoi(in.Token)
			page := map[string]any{"isLast": from+100 >= issues}
			if from+100 < issues {
				page["nextPageToken"] = strconv.Itoa(from + 100)
			}
			page["issues"] = numbered(from, min(from+100, issues), func(n int) any {
				return map[string]string{"id": strconv.Itoa(n)}
			})
			out = page
		case strings.HasSuffix(path, "/bulkfetch"):
			out = map[string]any{"issues": text.Map(in.IDs, jiraIssue), "issueErrors": []any{}}
		case r.URL.Query().Has("since"): // nothing has changed
		case text.IsNumber(path[strings.LastIndexByte(path, '/')+1:]):
			n, _ := strconv.Atoi(path[strings.LastIndexByte(path, '/')+1:])
			out = issue(n)
		default:
			size := map[string]int{"gitea": 50, "gitlab": 100}[kind]
			page, err := strconv.Atoi(r.URL.Query().Get("page"))
			if err != nil {
				page = 1
			}
			if page*size < issues {
				query := r.URL.Query()
				query.Set("page", strconv.Itoa(page+1))
				w.Header().Set("Link", "<"+path+"?"+query.Encode()+`>; rel="next"`)
			}
			out = numbered((page-1)*size, min(page*size, issues), func(n int) any { return issue(n) })
		}
		_ = json.NewEncoder(w).Encode(out)
	}
}

// numbered returns values for the numbers after from, up to and including to.
func numbered(from, to int, value func(n int) any) []any {
	list := []any{}
	for n := from + 1; n <= to; n++ {
		list = append(list, value(n))
	}
	return list
}

// Check tells that a project is archived, because nothing in it can be changed.
func TestArchivedProjects(t *testing.T) {
	project := map[string]any{
		"id": 1, "full_name": "acme/shop", "path_with_namespace": "acme/shop", "archived": true,
		"has_issues": true, "permissions": map[string]any{"push": true, "project_access": map[string]int{"access_level": 30}},
	}
	for _, kind := range []string{"gitea", "gitlab", "jira"} {
		t.Run(kind, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var out any = []any{}
				switch {
				case strings.HasSuffix(r.URL.Path, "/user"), strings.HasSuffix(r.URL.Path, "/myself"):
					out = map[string]any{"id": 1, "login": "ann", "username": "ann", "accountId": "1", "displayName": "Ann"}
				case strings.HasSuffix(r.URL.Path, "/acme/shop"):
					out = project
				case strings.HasSuffix(r.URL.Path, "/project/SHOP"):
					out = map[string]any{"id": "1", "key": "SHOP", "archived": true}
				case strings.HasSuffix(r.URL.Path, "/statuses"):
					out = statuses
				case strings.HasSuffix(r.URL.Path, "/self"), strings.HasSuffix(r.URL.Path, "/mypermissions"):
					out = map[string]any{}
				}
				_ = json.NewEncoder(w).Encode(out)
			}))
			defer s.Close()
			a := trackerAt(t, kind, s.URL, func(string) {})
			found := test.Must(a.Verify(t.Context(), reconcile.TrackerNames{}))
			test.Contains(t, "denied", found.Denied.Error(), "is archived, so that nothing in it can be changed")
		})
	}
}
