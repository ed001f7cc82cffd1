package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/tracker/trackertest/contract"
)

// example returns the adapter to a program of examples/trackers, which runs in dir.
func example(t *testing.T, dir, name string, verbs []string, env ...string) *reconcile.TrackerAdapter {
	t.Helper()
	return test.Must(Adapter(Options{
		Command: []string{test.Must(filepath.Abs("../../examples/trackers/" + name))}, Verbs: verbs,
		States: []string{"Todo", "In Progress", "Done", "open", "in_progress", "closed"},
		Run: func(ctx context.Context, argv []string, stdin []byte, limit int) (Output, error) {
			out, err := tree.Run(ctx, host.StartRequest{
				Argv: argv,
				Dir:  dir,
				Env:  append(os.Environ(), env...),
			}, stdin, limit)
			return Output{out.Stdout, out.Stderr, out.Exit.Code, out.Exit.Text}, err
		},
	}))
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("there is no " + p)
		}
	}
}

// keeps checks the contract.
func keeps(t *testing.T, a *reconcile.TrackerAdapter, states []string, issues int) {
	t.Helper()
	r := contract.Check(t.Context(), a, states, time.Now())
	for _, v := range r.Violations {
		t.Errorf("%s: %s", v.Rule, v.Message)
	}
	test.Equal(t, "issues", r.Issues, issues)
}

// shown returns the issues as JSON, without what is absent.
func shown(t *testing.T, a *reconcile.TrackerAdapter, states ...string) []string {
	t.Helper()
	list := []string{}
	for _, i := range test.Must(a.Candidates(t.Context(), states)) {
		var fields map[string]any
		test.OK(t, json.Unmarshal(test.Must(json.Marshal(i)), &fields))
		maps.DeleteFunc(
			fields,
			func(_ string, v any) bool { return v == nil || v == "" || v == false || fmt.Sprint(v) == "[]" },
		)
		list = append(list, string(test.Must(json.Marshal(fields))))
	}
	return list
}

// move moves an issue by the agent's tool. The answer contains refused; it is a success if
// this is empty.
func move(t *testing.T, a *reconcile.TrackerAdapter, id, to, refused string) {
	t.Helper()
	args := test.Must(json.Marshal(map[string]string{"state": to}))
	answer := a.Tools[0].Call(t.Context(), reconcile.Issue{
		ID:         id,
		Identifier: id,
		State:      "x",
	}, args)
	test.Equal(t, "the answer", answer.Success, refused == "")
	test.Contains(t, "the answer", answer.Text, refused)
}

func TestCSVExample(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	needs(t, "python3")
	dir := t.TempDir()
	file := filepath.Join(dir, "issues.csv")
	const rows = "id,title,state,priority,labels,blocked_by,description\n" +
		"1,First,Todo,2,bug ui,,\"Several\nlines, and \"\"quotes\"\"\"\n2,Second,In Progress,,,1 3," +
		"\n3,Third,Done,1,,,\n"
	test.OK(t, os.WriteFile(file, []byte(rows), 0o600))
	a := example(t, dir, "csv_file.py", []string{verbTool, verbMove})
	keeps(t, a, []string{"Todo", "In Progress"}, 2)
	test.Equal(t, "candidates", shown(t, a, "Todo", "In Progress"), []string{
		`{"description":"Several\nlines, and \"quotes\"","id":"1","identifier":"1","labels":["bug",` +
			`"ui"],"priority":2,"state":"Todo","title":"First"}`,
		`{"blocked_by":[{"id":"1","identifier":"1","state":"Todo"},{"id":"3","identifier":"3",` +
			`"state":"Done"}],"id":"2","identifier":"2","priority":0,` +
			`"state":"In Progress","title":"Second"}`,
	})
	move(t, a, "1", "Human Review", "")
	move(t, a, "9", "Done", "issue_not_found")
	test.OK(t, a.Move(t.Context(), "2", "Done"))
	wantCode(t, a.Move(t.Context(), "9", "Done"), "issue_not_found")
	changed := strings.ReplaceAll(string(test.Must(os.ReadFile(file))), "\r\n", "\n")
	test.Equal(
		t,
		"the file",
		changed,
		strings.NewReplacer("First,Todo", "First,Human Review", "In Progress", "Done").Replace(rows),
	)
	// A person's mistake is an error with its place.
	test.OK(t, os.WriteFile(file, []byte(rows+"3,Third again,Todo,,,,\n"), 0o600))
	test.Must(a.ByIDs(t.Context(), []string{"1"}))
	test.OK(t, os.WriteFile(file, []byte(rows+"1,First again,Todo,,,,\n"), 0o600))
	test.Contains(
		t,
		"the error",
		fmt.Sprint(test.Err(a.Candidates(t.Context(), []string{"Todo"}))),
		`issues[1].id is "1", as in issues[0]`,
	)
	if _, err := example(t, t.TempDir(), "csv_file.py", nil).Candidates(t.Context(), []string{"Todo"}); err == nil ||
		!strings.Contains(err.Error(), "No such file or directory: 'issues.csv'") {
		t.Error(err)
	}
}

// beads are lines of an export of bd 1.0: a type, an epic with a child, comments, a deleted
// issue, a memory.
const beads = `{"_type":"issue","id":"bd-a1","title":"Epic","status":"open","priority":0,"issue_type":"epic","created_at":"2026-01-03T10:00:00.25-08:00","updated_at":"2026-01-03T10:00:00.25-08:00","dependency_count":0,"dependent_count":1,"comment_count":0}
{"_type":"issue","id":"bd-a1.1","title":"Child","description":"Do it.","acceptance_criteria":"It works.","status":"in_progress","priority":2,"issue_type":"task","assignee":"kim","created_at":"2026-01-02T10:00:00Z","updated_at":"2026-01-04T10:00:00Z","labels":["UI"],"dependencies":[{"issue_id":"bd-a1.1","depends_on_id":"bd-a1","type":"parent-child","created_at":"2026-01-02T10:00:00Z"},{"issue_id":"bd-a1.1","depends_on_id":"bd-b2","type":"blocks","created_at":"2026-01-02T10:00:00Z"}],"comments":[{"id":"01","issue_id":"bd-a1.1","author":"kim","text":"One","created_at":"2026-01-05T10:00:00Z"},{"id":"02","issue_id":"bd-a1.1","author":"kim","text":"Two","created_at":"2026-01-06T10:00:00Z"}]}
{"_type":"issue","id":"bd-b2","title":"Before","status":"closed","priority":1,"issue_type":"bug","created_at":"2026-01-01T10:00:00Z","updated_at":"2026-01-01T11:00:00Z","closed_at":"2026-01-01T11:00:00Z"}
{"_type":"issue","id":"bd-c3","title":"Deleted","status":"tombstone","priority":1,"issue_type":"bug","created_at":"2026-01-01T10:00:00Z","updated_at":"2026-01-01T11:00:00Z"}
{"_type":"memory","key":"x","value":"y"}
`

func TestBeadsExample(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	needs(t, "python3")
	dir := t.TempDir()
	export := filepath.Join(dir, "export")
	test.OK(t, os.WriteFile(export, []byte(beads), 0o600))
	// bd, as far as the program uses it.
	const bd = `case $1 in
export) cat export ;;
update) [ "$3" = --status ] && echo "updated $2" && sed -i "/\"id\":\"$2\",/s/\"status\":\"[a-z_]*\"/\"status\":\"$4\"/" export ;;
esac
`
	test.OK(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	test.OK(t, os.WriteFile(filepath.Join(dir, "bin", "bd"), []byte("#!/bin/sh\n"+bd), 0o700))
	path := "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")
	keeps(t, example(t, dir, "beads.py", nil, path), []string{"open", "in_progress"}, 2)
	for name, env := range map[string]string{
		"by bd":       path,
		"from a file": "BEADS_EXPORT=" + export,
	} {
		t.Run(name, func(t *testing.T) {
			a := example(t, dir, "beads.py", nil, env)
			test.Equal(t, "candidates", shown(t, a, "open", "in_progress"), []string{
				`{"assignee":{"email":"","id":"kim","is_me":false},"blocked_by":[{"id":"bd-b2",` +
					`"identifier":"bd-b2","state":"closed"}],` +
					`"created_at":"2026-01-02T10:00:00Z","description":"Do it.\n\n## Acceptance ` +
					`criteria\n\nIt works.","id":"bd-a1.1","identifier":"bd-a1.1",` +
					`"labels":["ui","task"],"last_comment_at":"2026-01-06T10:00:00Z","priority":3,` +
					`"state":"in_progress","title":"Child","updated_at":"2026-01-04T10:00:00Z"}`,
				`{"created_at":"2026-01-03T18:00:00.25Z","id":"bd-a1","identifier":"bd-a1",` +
					`"labels":["epic"],"priority":1,"state":"open","title":"Epic",` +
					`"updated_at":"2026-01-03T18:00:00.25Z"}`,
			})
			found := test.Must(a.ByIDs(t.Context(), []string{"bd-b2", "bd-c3"}))
			test.Equal(t, "found", []any{len(found), found["bd-b2"].State}, []any{1, "closed"})
		})
	}
	a := example(t, dir, "beads.py", []string{verbTool, verbMove}, path)
	stateOf := func() string { return test.Must(a.ByIDs(t.Context(), []string{"bd-a1.1"}))["bd-a1.1"].State }
	move(t, a, "bd-a1.1", "blocked", "")
	test.Equal(t, "state", stateOf(), "blocked")
	test.OK(t, a.Move(t.Context(), "bd-a1.1", "Closed"))
	test.Equal(t, "state", stateOf(), "closed")
	wantCode(t, a.Move(t.Context(), "bd-c3", "closed"), "issue_not_found")
}

// gitlab is GitLab's API, as far as the program uses it. Its pages have two elements.
type gitlab struct {
	mu     sync.Mutex
	issues []map[string]any
	notes  map[string][]map[string]any // by iid
	status int                         // of every answer; 0 if there is no fault
	tokens []string
}

func (g *gitlab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tokens = append(g.tokens, r.Header.Get("Private-Token"))
	path, ours := strings.CutPrefix(r.URL.EscapedPath(), "/api/v4/projects/team%2Fweb%20shop/issues")
	if g.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "600")
	}
	if g.status != 0 || !ours {
		w.WriteHeader(cmp.Or(g.status, http.StatusNotFound))
		fmt.Fprint(w, `{"message": "no"}`)
		return
	}
	var body map[string]string
	_ = json.NewDecoder(r.Body).Decode(&body) // a GET has none
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := slices.IndexFunc(g.issues, func(i map[string]any) bool { return fmt.Sprint(i["iid"]) == parts[0] })
	switch {
	case path == "":
		g.page(w, r.URL.Query(), slices.DeleteFunc(slices.Clone(g.issues), func(i map[string]any) bool {
			state := r.URL.Query().Get("state")
			iids := r.URL.Query()["iids[]"]
			return state != "" && i["state"] != state ||
				iids != nil && !slices.Contains(iids, fmt.Sprint(i["iid"]))
		}))
	case at < 0:
		w.WriteHeader(http.StatusNotFound)
	case len(parts) == 1:
		if r.Method == http.MethodPut {
			g.change(g.issues[at], body)
		}
		_ = json.NewEncoder(w).Encode(g.issues[at])
	case r.Method == http.MethodGet:
		g.page(w, r.URL.Query(), g.notes[parts[0]])
	case r.Method == http.MethodPost:
		made := note(
			100+len(g.notes[parts[0]]),
			"symphony-bot",
			body["body"],
			time.Now().UTC().Format(time.RFC3339Nano),
		)
		g.notes[parts[0]] = append(g.notes[parts[0]], made)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(made)
	default:
		n := slices.IndexFunc(
			g.notes[parts[0]],
			func(n map[string]any) bool { return fmt.Sprint(n["id"]) == parts[2] },
		)
		if n < 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		g.notes[parts[0]][n]["body"] = body["body"]
		_ = json.NewEncoder(w).Encode(g.notes[parts[0]][n])
	}
}

func (g *gitlab) page(w http.ResponseWriter, q url.Values, list []map[string]any) {
	const size = 2
	page, _ := strconv.Atoi(q.Get("page"))
	from := min((page-1)*size, len(list))
	to := min(from+size, len(list))
	next := ""
	if to < len(list) {
		next = strconv.Itoa(page + 1)
	}
	w.Header().Set("X-Next-Page", next)
	_ = json.NewEncoder(w).Encode(append([]map[string]any{}, list[from:to]...))
}

func (g *gitlab) change(i map[string]any, body map[string]string) {
	switch body["state_event"] {
	case "close":
		i["state"] = "closed"
	case "reopen":
		i["state"] = "opened"
	}
	labels := slices.DeleteFunc(
		i["labels"].([]string),
		func(l string) bool { return slices.Contains(strings.Split(body["remove_labels"], ","), l) },
	)
	if add := body["add_labels"]; add != "" {
		labels = append(labels, add)
	}
	i["labels"] = labels
}

func note(id int, author, body, at string) map[string]any {
	return map[string]any{
		"id":         id,
		"author":     map[string]any{"username": author},
		"body":       body,
		"created_at": at,
		"updated_at": at,
		"system":     false,
	}
}

func newGitLab() *gitlab {
	g := &gitlab{notes: map[string][]map[string]any{}}
	for n, labels := range [][]string{{"Todo", "bug"}, {"In Progress"}, {"bug"}, {"Todo"}, {"Human Review"}} {
		state := "opened"
		if n == 3 {
			state = "closed"
		}
		iid := n + 1
		g.issues = append(g.issues, map[string]any{
			"id":               1000 + iid,
			"iid":              iid,
			"title":            fmt.Sprint("Number ", iid),
			"description":      nil,
			"state":            state,
			"labels":           labels,
			"assignees":        []any{},
			"web_url":          fmt.Sprint("https://gitlab.example/team/web/-/issues/", iid),
			"user_notes_count": 0,
			"created_at":       fmt.Sprintf("2026-01-0%dT10:00:00.000Z", iid),
			"updated_at":       fmt.Sprintf("2026-01-0%dT10:00:00.000+02:00", iid+1),
			"references":       map[string]any{"short": fmt.Sprint("#", iid)},
		})
	}
	g.issues[0]["assignees"] = []any{map[string]any{"id": 7, "username": "kim"}}
	g.issues[0]["user_notes_count"] = 2
	moved := note(1, "kim", "added ~Todo", "2026-01-04T10:00:00.000Z")
	moved["system"] = true
	g.notes["1"] = []map[string]any{
		note(2, "kim", "approve", "2026-01-02T10:00:00.000Z"),
		note(3, "kim", "more", "2026-01-03T10:00:00.000Z"),
		moved,
	}
	return g
}

func TestGitLabExample(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	needs(t, "sh", "curl", "jq")
	g := newGitLab()
	server := httptest.NewServer(g)
	defer server.Close()
	const token = "glpat-0123456789abcdef"
	dir := t.TempDir()
	a := example(
		t,
		dir,
		"gitlab.sh",
		[]string{verbTool, verbComment, verbMove},
		"GITLAB_URL="+server.URL,
		"GITLAB_PROJECT=team/web shop",
		"GITLAB_TOKEN="+token,
		"TMPDIR="+dir,
		"NO_PROXY=*",
	)
	keeps(t, a, []string{"Todo", "In Progress", "open"}, 3)
	got := shown(t, a, "Todo", "In Progress")
	test.Equal(t, "candidates", got, []string{
		`{"assignee":{"email":"","id":"kim","is_me":false},"created_at":"2026-01-01T10:00:00Z",` +
			`"id":"1","identifier":"GL-1","labels":["todo","bug"],"state":"Todo",` +
			`"title":"Number 1","updated_at":"2026-01-02T08:00:00Z",` +
			`"url":"https://gitlab.example/team/web/-/issues/1"}`,
		`{"created_at":"2026-01-02T10:00:00Z","id":"2","identifier":"GL-2","labels":["in progress"],` +
			`"state":"In Progress","title":"Number 2",` +
			`"updated_at":"2026-01-03T08:00:00Z","url":"https://gitlab.example/team/web/-/issues/2"}`,
	})
	stateOf := func(id string) string { return test.Must(a.ByIDs(t.Context(), []string{id}))[id].State }
	for _, to := range []string{"closed", "Todo", "open"} {
		move(t, a, "1", to, "")
		test.Equal(t, "state", stateOf("1"), to)
	}
	move(t, a, "1", "Someday", "there is no state Someday, but open, closed and Todo")
	for range 2 {
		test.OK(t, a.Move(t.Context(), "1", "human review"))
		test.Equal(t, "state", stateOf("1"), "Human Review")
	}
	test.Contains(t, "the error", fmt.Sprint(a.Move(t.Context(), "1", "Someday")), "command_failed: ")
	wantCode(t, a.Move(t.Context(), "99", "closed"), "issue_not_found")
	made := test.Must(
		a.Post(t.Context(), "1", "May I?\n\n```\necho \"$HOME\" 'x' @y\n```\n<!-- symphony:request R 1 -->"),
	)
	// GitLab would carry out a line that begins with a slash.
	test.Must(a.Edit(t.Context(), "1", made.ID, "Approved.\n/close\n\r/merge"))
	edited := test.Must(a.Comments(t.Context(), "1", time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)))
	test.Equal(t, "its text", edited[0].Body, "Approved.\n /close\n \r/merge")
	test.Must(a.Edit(t.Context(), "1", made.ID, "Approved.\n<!-- symphony:request R 1 -->"))
	list := test.Must(a.Comments(t.Context(), "1", time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)))
	if len(list) != 2 || list[0].Body != "Approved.\n<!-- symphony:request R 1 -->" || !list[0].Own ||
		list[1].Own ||
		!slices.Equal(list[1].AuthorIDs, []string{"kim"}) {
		t.Errorf("%+v", list)
	}
	wantCode(t, test.Err(a.Edit(t.Context(), "1", "999", "No.")), "issue_not_found")
	for _, used := range g.tokens {
		test.Equal(t, "token", used, token)
	}
	for status, code := range map[int]string{
		401: "command_key_refused",
		404: "tracker_project_not_found",
		429: "tracker_rate_limited",
		502: "command_failed",
	} {
		g.mu.Lock()
		g.status = status
		g.mu.Unlock()
		wantCode(t, test.Err(a.ByIDs(t.Context(), []string{"1"})), code)
	}
	server.Close()
	wantCode(t, test.Err(a.Candidates(t.Context(), []string{"Todo"})), "command_failed")
	test.Equal(t, "files left behind", len(test.Must(os.ReadDir(dir))), 0)
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), code+": ") {
		t.Errorf("error %v, want %s", err, code)
	}
}
