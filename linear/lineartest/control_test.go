package lineartest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func control(t *testing.T, s *Server, method, path, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+"/control/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func TestControl(t *testing.T) {
	s := started(t, Config{})
	for _, step := range []struct{ method, path, body, want string }{
		{"POST", "issue", `{"title":"One","labels":["Bug"]}`, `"identifier":"ABC-1"`},
		{"POST", "move", `{"identifier":"ABC-1","state":"In Progress"}`, `"state":"In Progress"`},
		{"POST", "edit", `{"identifier":"ABC-1","priority":2,"description":"text"}`, `"labels":["Bug"]`},
		{"POST", "edit", `{"identifier":"ABC-1","labels":[],"archived":true}`, `"archived":true`},
		{"POST", "comment", `{"identifier":"ABC-1","author":"kim@example.com","body":"hi"}`, `"author":"kim@example.com"`},
		{"GET", "issue?identifier=abc-1", "", `"description":"text"`},
		{"GET", "issues", "", `[{"id":`},
		{"GET", "history?identifier=ABC-1", "", `"field":"state","from":"Todo","to":"In Progress"`},
		{"POST", "fail", `{"kind":"status","status":502}`, `{}`},
		{"POST", "fail/clear", ``, `{}`},
		{"POST", "limits", `{"requests":3,"complexity":100}`, `{}`},
		{"POST", "remove", `{"identifier":"ABC-1"}`, `{}`},
		{"GET", "issues", "", `[]`},
		{"POST", "seed", `{"issues":[{"title":"Seeded"}]}`, `"title":"Seeded"`},
		{"POST", "log/clear", ``, `{}`},
		{"GET", "log", "", `[]`},
	} {
		status, body := control(t, s, step.method, step.path, step.body)
		if status != 200 || !strings.Contains(body, step.want) {
			t.Errorf("%s %s %s: HTTP %d %s, want %s", step.method, step.path, step.body, status, body, step.want)
		}
	}
	r := ask(t, s, "query Q { viewer { id } }", nil)
	if r.header.Get("X-RateLimit-Requests-Remaining") != "2" {
		t.Errorf("requests remaining %q, want 2", r.header.Get("X-RateLimit-Requests-Remaining"))
	}
	var log []Entry
	if _, body := control(t, s, "GET", "log", ""); json.Unmarshal([]byte(body), &log) != nil || len(log) != 1 || log[0].Operation != "Q" {
		t.Errorf("log %s", body)
	}
}

func TestControlRefuses(t *testing.T) {
	s := started(t, Config{})
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "issue", `{"nonsense":1}`, 400},
		{"POST", "issue", `{}`, 400},
		{"POST", "edit", `{"title":"x"}`, 400},
		{"POST", "edit", `{"identifier":"ABC-9"}`, 400},
		{"POST", "move", `{"identifier":"ABC-9","state":"Done"}`, 400},
		{"POST", "fail", `{"kind":"x"}`, 400},
		{"POST", "limits", `{}`, 400},
		{"GET", "issue?identifier=ABC-9", ``, 400},
		{"GET", "move", ``, 405},
		{"GET", "nonsense", ``, 404},
	} {
		status, body := control(t, s, step.method, step.path, step.body)
		if status != step.status || (status == 400 && !strings.Contains(body, `"error":`)) {
			t.Errorf("%s %s %s: HTTP %d %s, want %d", step.method, step.path, step.body, status, body, step.status)
		}
	}
	if status, _ := control(t, s, "POST", "issue", `{"title":"x"}`, "Origin", "https://evil.invalid"); status != http.StatusForbidden || len(s.Issues()) != 0 {
		t.Errorf("a browser's request: HTTP %d", status)
	}
	off := started(t, Config{NoControl: true})
	if status, _ := control(t, off, "GET", "issues", ""); status != http.StatusNotFound {
		t.Errorf("switched off: HTTP %d", status)
	}
}
