package web

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/state/statetest"
)

// withWorkspace serves a project with state, and one without. The workspace of the issue is a
// repository in dir.
func withWorkspace(t *testing.T) (s *Server, dir, issue string) {
	t.Helper()
	dir = t.TempDir()
	p := Place{filepath.Join(dir, "web", "WORKFLOW.md"), filepath.Join(dir, "web", "state")}
	test.OK(t, statetest.Large(t.Context(), p.StateDir, time.Now(), statetest.Size{
		Claims: 50,
		Runs:   5,
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
	db := test.Must(sql.Open("sqlite", "file:"+filepath.Join(p.StateDir, "state.db")))
	defer db.Close()
	test.OK(
		t,
		db.QueryRowContext(t.Context(), "UPDATE runs SET workspace_path = ? RETURNING identifier", dir).
			Scan(&issue),
	)
	test.OK(t, exec.CommandContext(t.Context(), "git", "init", "-q", dir).Run())
	s, _ = serve(
		t,
		Options{
			Places: []Place{
				{filepath.Join(dir, "new", "WORKFLOW.md"), filepath.Join(dir, "new", "state")},
				p,
			},
		},
	)
	return s, dir, issue
}

// get asks for an address with the token, for at most so long.
func get(t *testing.T, s *Server, path string, patience time.Duration) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := httptest.NewRequest("GET", path, nil).WithContext(ctx)
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer 0123456789abcdef")
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, r)
	return answer
}

// A diff is limited in size, in time, and in how many are made at once.
func TestDiffLimits(t *testing.T) {
	s, dir, issue := withWorkspace(t)
	path := "/issues/web/" + issue + "/diff"
	check := func(what string, patience time.Duration, status int, want string) (body string) {
		t.Helper()
		answer := get(t, s, path, patience)
		test.Equal(t, what, answer.Code, status)
		test.Contains(t, what, answer.Body.String(), want)
		return answer.Body.String()
	}
	test.OK(t, os.WriteFile(filepath.Join(dir, "small.txt"), []byte("a small file\n"), 0o600))
	test.Lacks(
		t,
		"a small diff",
		check("small", time.Minute, http.StatusOK, "a small file"),
		"only the beginning",
	)
	var asked diffJSON
	test.OK(
		t,
		json.Unmarshal(get(t, s, "/api/v1/"+issue+"/diff?project=web", time.Minute).Body.Bytes(), &asked),
	)
	test.Contains(t, "the diff as JSON", asked.Diff, "small.txt", "+a small file")
	test.Equal(t, "its issue, and whether it is cut", asked.Identifier+fmt.Sprint(asked.Cut), issue+"false")
	line := strings.Repeat("x", 99) + "\n"
	test.OK(
		t,
		os.WriteFile(
			filepath.Join(dir, "large.txt"),
			[]byte(strings.Repeat(line, maxDiff/len(line)+1)),
			0o600,
		),
	)
	if body := check("large", time.Minute, http.StatusOK, "only the beginning of the diff"); len(
		body,
	) > 2*maxDiff {
		t.Error(len(body), "bytes")
	}
	s.details.large <- struct{}{}
	check("beside another one", time.Minute, http.StatusOK, "xxx")
	s.details.large <- struct{}{}
	check("beside two others", 10*time.Millisecond, http.StatusServiceUnavailable, `"busy"`)
	<-s.details.large
	<-s.details.large
	t.Setenv("PATH", t.TempDir()+":"+os.Getenv("PATH"))
	slow, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	test.OK(t, os.WriteFile(filepath.Join(slow, "git"), []byte("#!/bin/sh\nexec sleep 60\n"), 0o700))
	check("slow", 200*time.Millisecond, http.StatusServiceUnavailable, `"snapshot_timeout"`)
	test.Equal(t, "diffs under way", len(s.details.large), 0)
}

// A log that can't be read to its end is no whole answer.
func TestLogBreaksOff(t *testing.T) {
	s, dir, issue := withWorkspace(t)
	stateDir := filepath.Join(dir, "web", "state")
	db := test.Must(sql.Open("sqlite", "file:"+filepath.Join(stateDir, "state.db")))
	defer db.Close()
	rows := test.Must(db.QueryContext(t.Context(), "SELECT id FROM runs WHERE identifier = ?", issue))
	defer rows.Close()
	for rows.Next() {
		var run string
		test.OK(t, rows.Scan(&run))
		test.Write(t, filepath.Join(host.RunDir(stateDir, run), "events.1.jsonl"), "{\"kind\":\"started\"}\n")
		test.OK(t, os.MkdirAll(filepath.Join(host.RunDir(stateDir, run), "events.jsonl"), 0o700))
	}
	test.OK(t, rows.Err())
	address := "http://" + s.listeners[0].Addr().String() + "/api/v1/" + issue + "/log?project=web"
	r := test.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))
	r.Header.Set("Authorization", "Bearer 0123456789abcdef")
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		defer answer.Body.Close()
		_, err = io.ReadAll(answer.Body)
	}
	test.ErrorIs(t, "a log without its end", err, io.EOF)
}

// Another account of the machine reads no log, no diff and no patch.
func TestDetailsNeedTheToken(t *testing.T) {
	s, _, issue := withWorkspace(t)
	address := "/issues/web/" + issue
	const hint = `To read logs and diffs <a href="/login">enter the token</a>`
	test.Contains(t, "the page without the token", visit(s, "GET", address, "").Body.String(), hint)
	test.Lacks(t, "the page with it", get(t, s, address, time.Minute).Body.String(), hint)
	for _, path := range []string{
		address + "/log",
		address + "/log?line=line-1-1",
		address + "/run",
		address + "/run?only=failures",
		address + "/diff",
		"/api/v1/" + issue + "/log", "/api/v1/" + issue + "/diff",
	} {
		test.Equal(t, path+" without the token", visit(s, "GET", path, "").Code, http.StatusUnauthorized)
	}
	noLine := get(t, s, address+"/log?line=line-1-1", time.Minute)
	test.Contains(t, "a line that the log does not have", noLine.Body.String(), "not_found")
	test.Equal(t, "its status", noLine.Code, http.StatusNotFound)
	test.Contains(
		t,
		"a run that there is not",
		get(t, s, address+"/run?run=nothing", time.Minute).Body.String(),
		"not_found",
	)
	socket, _ := serve(t, Options{Listen: "unix:" + filepath.Join(t.TempDir(), "s")})
	for who, c := range map[string]struct {
		server *Server
		header string
		want   string
	}{
		"another account": {s, "", ""},
		"the operator":    {s, "Bearer 0123456789abcdef", "-old\n+new"},
		"a socket":        {socket, "", "-old\n+new"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", c.header)
		row := view.RequestRow{}
		row.Detail.Changes = []reconcile.RequestChange{{Path: "a", Diff: "-old\n+new"}}
		row.Request.Detail.Changes = slices.Clone(row.Detail.Changes)
		c.server.access.withholdChanges(r, []view.RequestRow{row})
		v := detail.Issue{Issue: detail.KnownIssue{Description: new("a task")}}
		v.Tracked = v.Issue
		c.server.access.withhold(r, &v)
		test.Equal(t, "a description for "+who, v.Issue.Description != nil, c.want != "")
		test.Equal(t, "its copy for "+who, v.Tracked.Description != nil, c.want != "")
		test.Equal(
			t,
			"patches that "+who+" reads",
			[]string{row.Detail.Changes[0].Diff, row.Request.Detail.Changes[0].Diff},
			[]string{c.want, c.want},
		)
	}
}

// A project without a pass does not hide that the others don't know an issue.
func TestIssueBesideNewProject(t *testing.T) {
	s, _, issue := withWorkspace(t)
	for path, code := range map[string]string{
		"/api/v1/NO-1":             "issue_not_found",
		"/api/v1/NO-1?project=new": "snapshot_unavailable",
		"/api/v1/" + issue:         `"issue_identifier":"` + issue,
	} {
		test.Contains(t, path, get(t, s, path, time.Minute).Body.String(), code)
	}
}
