package gitea

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi/giteatest"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// runner plays the program that runs jobs of Actions, whose protocol accepts JSON.
type runner struct {
	p           *place
	uuid, token string
}

// call sends a request of the protocol and decodes the answer.
func (r *runner) call(method string, body, to any) {
	r.p.t.Helper()
	address := r.p.URL + "/api/actions/runner.v1.RunnerService/" + method
	sent := bytes.NewReader(test.Must(json.Marshal(body)))
	req := test.Must(http.NewRequestWithContext(r.p.t.Context(), http.MethodPost, address, sent))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-runner-uuid", r.uuid)
	req.Header.Set("x-runner-token", r.token)
	resp, err := http.DefaultClient.Do(req)
	test.OK(r.p.t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		r.p.t.Fatalf("%s: %s", method, resp.Status)
	}
	test.OK(r.p.t, json.NewDecoder(resp.Body).Decode(to))
}

// newRunner registers a runner for the repository.
func newRunner(p *place) *runner {
	p.t.Helper()
	var registration struct {
		Token string `json:"token"`
	}
	path := "/repos/" + p.repository + "/actions/runners/registration-token"
	p.as(p.t, giteatest.Owner)(http.MethodPost, path, nil, &registration)
	r := &runner{p: p}
	labels := []string{"test"}
	var made struct {
		Runner struct{ UUID, Token string }
	}
	r.call("Register", map[string]any{
		"name":    "test",
		"token":   registration.Token,
		"version": "v0",
		"labels":  labels,
	}, &made)
	r.uuid = made.Runner.UUID
	r.token = made.Runner.Token
	r.call("Declare", map[string]any{"version": "v0", "labels": labels}, &struct{}{})
	return r
}

// fetch takes the next job, and returns the id of its task.
func (r *runner) fetch() string {
	r.p.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		var next struct {
			Task struct{ ID string }
		}
		r.call("FetchTask", map[string]any{"tasksVersion": 0}, &next)
		if next.Task.ID != "" {
			return next.Task.ID
		}
	}
	r.p.t.Fatal("there is no job")
	return ""
}

// fail ends a task with a log.
func (r *runner) fail(task string, lines ...string) {
	r.p.t.Helper()
	var rows []map[string]string
	for _, line := range lines {
		rows = append(rows, map[string]string{"time": "2026-03-01T12:00:00Z", "content": line})
	}
	r.call("UpdateLog", map[string]any{"taskId": task, "index": 0, "rows": rows, "noMore": true}, &struct{}{})
	r.call("UpdateTask", map[string]any{"state": map[string]any{
		"id":        task,
		"result":    "RESULT_FAILURE",
		"startedAt": "2026-03-01T12:00:00Z",
		"stoppedAt": "2026-03-01T12:00:01Z",
	}}, &struct{}{})
}

// pushWorkflow pushes a commit to a new branch that adds a workflow of Actions with one job.
func (p *place) pushWorkflow(branch string) (commit string) {
	p.t.Helper()
	p.git("checkout", "-q", "-B", "here", "refs/pushed/main")
	file := filepath.Join(p.clone, ".gitea", "workflows", "ci.yml")
	test.OK(p.t, os.MkdirAll(filepath.Dir(file), 0o700))
	test.Write(p.t, file, "name: CI\non: [push]\njobs:\n  test:\n    runs-on: test\n    steps: [{run: 'false'}]\n")
	p.git("add", ".")
	p.git("commit", "-q", "-m", "ci")
	p.git("push", "-q", "origin", "HEAD:refs/heads/"+branch)
	return p.git("rev-parse", "HEAD")
}

// A failed job of Actions has a log, of which only the end is read, and can be run again.
func TestActions(t *testing.T) {
	p := newPlace(t)
	f := p.connect(p.Token)
	r := newRunner(p)
	commit := p.pushWorkflow("work")
	task := r.fetch()
	check := func() reconcile.Check {
		t.Helper()
		list := test.Must(f.ReadChecks(t.Context(), commit)).List
		test.Equal(t, "checks", len(list), 1)
		return list[0]
	}
	atWork := check()
	test.Equal(t, "at work", []any{atWork.Name, atWork.State}, []any{"CI / test (push)", reconcile.CheckPending})
	_, err := f.ReadLog(t.Context(), atWork.Job)
	if !errors.Is(err, reconcile.ErrGone) {
		t.Errorf("the log of a job at work: error %v, want ErrGone", err)
	}
	long := strings.Repeat("x", reconcile.MaxLog)
	r.fail(task, "first", long, "FAIL: TestHello", "exit status 1")
	failed := check()
	test.Equal(t, "failed", failed.State, reconcile.CheckFailure)
	if failed.Job == 0 || failed.Run == 0 || !strings.HasPrefix(failed.URL, p.URL+"/"+p.repository) {
		t.Errorf("check %+v", failed)
	}
	log := test.Must(f.ReadLog(t.Context(), failed.Job))
	test.Contains(t, "log", log, "FAIL: TestHello", "exit status 1")
	test.Lacks(t, "log", log, "first", "xx")

	test.OK(t, f.Rerun(t.Context(), failed.Run))
	r.fail(r.fetch(), "again")
	test.Contains(t, "second log", test.Must(f.ReadLog(t.Context(), check().Job)), "again")
}
