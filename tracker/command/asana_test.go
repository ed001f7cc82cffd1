package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const asanaToken = "2/1200000000000001/1200000000000002:0123456789abcdef"

// asana is Asana's API, as far as the program uses it. Its pages have two elements.
type asana struct {
	mu       sync.Mutex
	sections []string
	tasks    []*asanaTask
	status   int // of every answer; 0 if there is no fault
	hidden   bool
}

type asanaTask struct {
	gid, name string
	project   string
	section   string
	completed bool
	waitsFor  *asanaTask
	stories   []map[string]any
}

func (a *asana) task(gid string) *asanaTask {
	return text.First(a.tasks, func(t *asanaTask) bool { return t.gid == gid })
}

func (t *asanaTask) record() map[string]any {
	dependencies := []any{}
	if t.waitsFor != nil {
		dependencies = append(dependencies, map[string]any{"gid": t.waitsFor.gid, "completed": t.waitsFor.completed})
	}
	return map[string]any{
		"gid":           t.gid,
		"name":          t.name,
		"notes":         "",
		"completed":     t.completed,
		"created_at":    "2026-01-0" + t.gid[len(t.gid)-1:] + "T10:00:00.000Z",
		"modified_at":   "2026-02-01T10:00:00.000Z",
		"permalink_url": "https://app.asana.com/0/77/" + t.gid,
		"assignee":      map[string]any{"gid": "900", "email": "kim@example.com"},
		"tags":          []any{map[string]any{"gid": "1", "name": "UI"}},
		"dependencies":  dependencies,
		"memberships": []any{map[string]any{
			"project": map[string]any{"gid": t.project},
			"section": map[string]any{"gid": "5", "name": t.section},
		}},
	}
}

func (a *asana) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := a.status
	if r.Header.Get("Authorization") != "Bearer "+asanaToken {
		status = http.StatusUnauthorized
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "600")
	}
	var in struct{ Data map[string]any }
	_ = json.NewDecoder(r.Body).Decode(&in) // a GET has none
	var data any
	if status == 0 && !a.hidden {
		data = a.answer(r, in.Data)
	}
	if data == nil {
		w.WriteHeader(cmp.Or(status, http.StatusNotFound))
		fmt.Fprint(w, `{"errors": [{"message": "no"}]}`)
		return
	}
	whole := map[string]any{"data": data}
	if list, is := data.([]map[string]any); is {
		from, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		to := min(from+2, len(list))
		whole["data"] = list[from:to]
		whole["next_page"] = nil
		if to < len(list) {
			whole["next_page"] = map[string]any{"offset": strconv.Itoa(to)}
		}
	}
	_ = json.NewEncoder(w).Encode(whole)
}

// answer is the data of an answer; nil if there is none at the path.
func (a *asana) answer(r *http.Request, in map[string]any) any {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	one := ""
	if len(parts) > 1 {
		one = parts[1]
	}
	last := parts[len(parts)-1]
	switch r.Method + " " + parts[0] + " " + strconv.Itoa(len(parts)) {
	case "GET projects 2":
		if one == "77" {
			return map[string]any{"gid": one}
		}
	case "GET projects 3":
		list := []map[string]any{}
		for n, name := range a.sections {
			list = append(list, map[string]any{"gid": strconv.Itoa(n), "name": name})
		}
		return list
	case "GET tasks 1":
		list := []map[string]any{}
		for _, t := range a.tasks {
			isOpen := !t.completed || r.URL.Query().Get("completed_since") == ""
			if isOpen && t.project == r.URL.Query().Get("project") {
				list = append(list, t.record())
			}
		}
		return list
	case "POST sections 3":
		n, _ := strconv.Atoi(one)
		a.task(in["task"].(string)).section = a.sections[n]
		return map[string]any{}
	case "PUT stories 2":
		for _, t := range a.tasks {
			for _, s := range t.stories {
				if s["gid"] == last {
					s["text"] = in["text"]
					return s
				}
			}
		}
	}
	t := a.task(one)
	if t == nil || parts[0] != "tasks" {
		return nil
	}
	switch {
	case r.Method == http.MethodPut:
		t.completed = in["completed"].(bool)
		return t.record()
	case r.Method == http.MethodPost:
		s := asanaStory(fmt.Sprint(t.gid, len(t.stories)), "comment", in["text"].(string), time.Now())
		t.stories = append(t.stories, s)
		return s
	case last == "stories":
		return append([]map[string]any{}, t.stories...)
	}
	return t.record()
}

func asanaStory(gid, kind, words string, at time.Time) map[string]any {
	return map[string]any{
		"gid":        gid,
		"type":       kind,
		"text":       words,
		"created_at": at.UTC().Format("2006-01-02T15:04:05.000Z"),
		"created_by": map[string]any{"gid": "900", "name": "Kim"},
	}
}

func TestAsanaExample(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	needs(t, "python3")
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	service := &asana{sections: []string{"Todo", "In Progress", "Review", "Finished"}}
	first := &asanaTask{gid: "1201", name: "First", project: "77", section: "Todo", stories: []map[string]any{
		asanaStory("31", "system", "Kim moved this task", at.Add(time.Hour)),
		asanaStory("32", "comment", "approve", at),
	}}
	second := &asanaTask{gid: "1202", name: "Second", project: "77", section: "In Progress", waitsFor: first}
	service.tasks = []*asanaTask{
		first,
		second,
		{gid: "1203", name: "Third", project: "77", section: "In Progress", completed: true},
		{gid: "1204", name: "Fourth", project: "77", section: "Review"},
		{gid: "1205", name: "Elsewhere", project: "78", section: "Todo"},
	}
	server := httptest.NewServer(service)
	defer server.Close()
	verbs := []string{verbTool, verbComment, verbMove}
	env := []string{"ASANA_ENDPOINT=" + server.URL, "ASANA_PROJECT_GID=77", "NO_PROXY=*"}
	a := example(t, t.TempDir(), "asana.py", verbs, append(env, "ASANA_PAT="+asanaToken)...)
	keeps(t, a, []string{"Todo", "In Progress"}, 2)
	test.Equal(t, "candidates", shown(t, a, "Todo", "in progress"), []string{
		`{"assignee":{"email":"kim@example.com","id":"900","is_me":false},"created_at":"2026-01-01T10:00:00Z",` +
			`"id":"1201","identifier":"AS-1201","labels":["ui"],"state":"Todo","title":"First",` +
			`"updated_at":"2026-02-01T10:00:00Z","url":"https://app.asana.com/0/77/1201"}`,
		`{"assignee":{"email":"kim@example.com","id":"900","is_me":false},` +
			`"blocked_by":[{"id":"1201","identifier":"AS-1201","state":"open"}],"created_at":"2026-01-02T10:00:00Z",` +
			`"id":"1202","identifier":"AS-1202","labels":["ui"],"state":"In Progress","title":"Second",` +
			`"updated_at":"2026-02-01T10:00:00Z","url":"https://app.asana.com/0/77/1202"}`,
	})
	ids := func(list []reconcile.Issue) []string {
		return text.Map(list, func(i reconcile.Issue) string { return i.ID })
	}
	test.Equal(t, "completed", ids(test.Must(a.Candidates(t.Context(), []string{"Done"}))), []string{"1203"})

	// A completed task is Done whatever its section; a task of another project does not exist.
	found := test.Must(a.ByIDs(t.Context(), []string{"1201", "1203", "1205", "99", "../1201"}))
	test.Equal(t, "found", []any{len(found), found["1203"].State}, []any{2, "Done"})
	test.Equal(t, "its newest comment", found["1201"].LastCommentAt.Equal(at), true)

	stateOf := func(id string) string { return test.Must(a.ByIDs(t.Context(), []string{id}))[id].State }
	for _, to := range []string{"Review", "Done", "Todo"} {
		move(t, a, "1201", to, "")
		test.Equal(t, "state", stateOf("1201"), to)
	}
	move(t, a, "1201", "Someday", "there is no state Someday, but Todo, In Progress, Review, Finished, Done")
	for range 2 {
		test.OK(t, a.Move(t.Context(), "1201", "done"))
		test.Equal(t, "is completed", []any{first.completed, first.section}, []any{true, "Todo"})
	}
	wantCode(t, a.Move(t.Context(), "1205", "Done"), "issue_not_found")

	made := test.Must(a.Post(t.Context(), "1202", "May I?\n<!-- symphony:request R 1 -->"))
	test.Must(a.Edit(t.Context(), "1202", made.ID, "Approved.\n<!-- symphony:request R 1 -->"))
	list := test.Must(a.Comments(t.Context(), "1202", at))
	test.Equal(t, "comment", []any{len(list), list[0].Body, list[0].Own},
		[]any{1, "Approved.\n<!-- symphony:request R 1 -->", true})
	person := test.Must(a.Comments(t.Context(), "1201", at.Add(-time.Hour)))
	if len(person) != 1 || person[0].Own || !slices.Equal(person[0].AuthorIDs, []string{"900"}) {
		t.Errorf("a person's comments: %+v", person)
	}
	wantCode(t, test.Err(a.Edit(t.Context(), "1202", "999", "No.")), "issue_not_found")

	// After any fault nothing is gone.
	for status, code := range map[int]string{
		401: "command_key_refused",
		403: "command_key_refused",
		429: "tracker_rate_limited",
		502: "command_failed",
	} {
		service.mu.Lock()
		service.status = status
		service.mu.Unlock()
		wantCode(t, test.Err(a.ByIDs(t.Context(), []string{"1201"})), code)
	}
	service.mu.Lock()
	service.status = 0
	service.hidden = true
	service.mu.Unlock()
	wantCode(t, test.Err(a.ByIDs(t.Context(), []string{"1201"})), "tracker_project_not_found")
	wantCode(t, test.Err(a.Candidates(t.Context(), []string{"Todo"})), "tracker_project_not_found")
	server.Close()
	wantCode(t, test.Err(a.Candidates(t.Context(), []string{"Todo"})), "command_failed")
	wantCode(t, test.Err(example(t, t.TempDir(), "asana.py", verbs, env...).
		Candidates(t.Context(), []string{"Todo"})), "tracker_setting_invalid")
}
