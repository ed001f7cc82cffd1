package modeltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// patience bounds every step with the real codex; none comes near it.
const patience = time.Minute

// realCodex is the real codex with a scripted model.
type realCodex struct {
	*codex.Session
	t     *testing.T
	model *modeltest.Server
	home  string
	dir   string
	cmd   *exec.Cmd

	mu     sync.Mutex
	events []agent.Event
}

// launch starts codex on home (made if "").
func launch(t *testing.T, model *modeltest.Server, home, dir string, o agent.Options) *realCodex {
	t.Helper()
	bin := os.Getenv("SYMPHONY_TEST_CODEX")
	if bin == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	a := &realCodex{t: t, model: model, home: home, dir: dir}
	if a.home == "" {
		a.home = t.TempDir()
		if err := modeltest.WriteHome(a.home, model.URL); err != nil {
			t.Fatal(err)
		}
	}
	a.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), bin, "app-server")
	a.cmd.Dir = dir
	a.cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "CODEX_HOME=" + a.home, "NO_PROXY=127.0.0.1"}
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW := io.Pipe()
	log := &strings.Builder{}
	a.cmd.Stdout, a.cmd.Stderr = outW, log
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = patience
	}
	o.OnEvent = func(e agent.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.events = append(a.events, e)
	}
	a.Session = codex.New(agent.Streams{Stdin: stdin, Stdout: outR}, o)
	exited := make(chan error, 1)
	go func() {
		exited <- a.cmd.Wait()
		_ = outW.Close()
	}()
	t.Cleanup(func() {
		_ = a.Close()
		timer := time.NewTimer(10 * time.Second)
		defer timer.Stop()
		select {
		case err := <-exited:
			if err != nil {
				t.Errorf("codex: %v", err)
			}
		case <-timer.C:
			t.Error("codex did not end with its stdin")
			_ = a.cmd.Process.Kill()
			t.Logf("killed: %v", <-exited)
		}
		<-a.Done()
		if t.Failed() {
			t.Logf("stderr:\n%s\nevents:\n%s", log, a.messages())
		}
	})
	server, err := a.Initialize(t.Context())
	if err != nil || server.Version == "" || server.Home == "" {
		t.Fatalf("Initialize: %+v, %v", server, err)
	}
	return a
}

func (a *realCodex) messages() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, e := range a.events {
		b.WriteString(e.Name + " " + e.Message + "\n")
	}
	return b.String()
}

func (a *realCodex) open() *realCodex {
	a.t.Helper()
	if _, err := a.StartThread(a.t.Context(), a.threadParams()); err != nil {
		a.t.Fatal(err)
	}
	return a
}

func (a *realCodex) threadParams() agent.ThreadParams {
	return agent.ThreadParams{Cwd: a.dir, ApprovalPolicy: json.RawMessage(`"never"`), Config: map[string]any{
		"features.goals": false, "features.unbounded_connection_retries": false,
		"shell_environment_policy": map[string]any{"set": map[string]any{"RIG_MARK": "m1"}},
	}}
}

func (a *realCodex) turn(lines ...string) (agent.Turn, error) {
	return a.prompt("Do this.\n\n```agent\n" + strings.Join(lines, "\n") + "\n```\n")
}

// prompt runs a turn whose sandbox is the one a worker would give, where the
// machine can have a sandbox.
func (a *realCodex) prompt(text string) (agent.Turn, error) {
	policy, err := json.Marshal(map[string]any{
		"type": "workspaceWrite", "writableRoots": []string{filepath.Join(a.dir, ".git")},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	if os.Getenv("SYMPHONY_TEST_CODEX_SANDBOX") == "off" {
		policy = []byte(`{"type":"dangerFullAccess"}`)
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	return a.RunTurn(ctx, agent.TurnParams{
		Input: text, Cwd: a.dir, ApprovalPolicy: json.RawMessage(`"never"`), SandboxPolicy: policy,
	})
}

func newModel(t *testing.T) *modeltest.Server {
	t.Helper()
	m := modeltest.New()
	t.Cleanup(m.Close)
	return m
}

func TestRealTurns(t *testing.T) {
	m := newModel(t)
	a := launch(t, m, "", t.TempDir(), agent.Options{ClientVersion: "1"}).open()
	turn, err := a.turn("think I look", "tokens 200 20", "say hello there", "turn 2:", "say the second")
	if err != nil || turn.LastMessage != "hello there" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if u := a.Usage(); u.Input != 200 || u.Output != 20 || u.Total != 220 {
		t.Errorf("usage %+v", u)
	}
	if turn, err = a.prompt("Continuation guidance: this is continuation turn #2 of 3."); err != nil || turn.LastMessage != "the second" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if a.RateLimits() == nil {
		t.Error("no rate limits")
	}
	if n := len(m.Requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestRealCommit(t *testing.T) {
	if os.Getenv("SYMPHONY_TEST_CODEX") == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	origin, dir := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	git(t, origin, "init", "-q")
	git(t, origin, "commit", "-q", "--allow-empty", "-m", "first")
	git(t, origin, "clone", "-q", origin, dir)
	m := newModel(t)
	a := launch(t, m, "", dir, agent.Options{}).open()
	turn, err := a.turn("patch new.txt hello", "sh echo $RIG_MARK >> new.txt && git add -A && git -c user.name=a -c user.email=a@example.org commit -qm work", "say done it")
	if err != nil || turn.LastMessage != "done it" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if strings.Contains(a.messages(), "bwrap") {
		t.Skip("this machine can't sandbox; set SYMPHONY_TEST_CODEX_SANDBOX=off")
	}
	if got := git(t, dir, "log", "--format=%s", "-1"); got != "work\n" {
		for _, r := range m.Requests() {
			t.Logf("outputs: %q", r.Outputs)
		}
		t.Errorf("last commit %q", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, "new.txt"))
	if err != nil || string(text) != "hello\nm1\n" {
		t.Errorf("new.txt %q, %v", text, err)
	}
}

func TestRealTool(t *testing.T) {
	m := newModel(t)
	a := launch(t, m, "", t.TempDir(), agent.Options{
		Tools: []agent.Tool{{Name: "linear_graphql", Description: "Linear", InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`)}},
		CallTool: func(_ context.Context, name string, args json.RawMessage) agent.ToolResult {
			return agent.ToolResult{Text: "result of " + name + " " + string(args), Success: true}
		},
	}).open()
	if _, err := a.turn(`tool linear_graphql {"query":"{viewer{id}}"}`, "say ok"); err != nil {
		t.Fatal(err)
	}
	r := m.Requests()
	if got := r[len(r)-1].Outputs; len(got) != 1 || !strings.Contains(got[0], "result of linear_graphql") {
		t.Errorf("the model read %q", got)
	}
}

func TestRealResume(t *testing.T) {
	m := newModel(t)
	dir := t.TempDir()
	first := launch(t, m, "", dir, agent.Options{}).open()
	id := first.ThreadID()
	if _, err := first.turn("say one"); err != nil {
		t.Fatal(err)
	}
	second := launch(t, m, first.home, dir, agent.Options{})
	if err := second.ResumeThread(t.Context(), id, second.threadParams()); !errors.Is(err, agent.ErrThreadBusy) {
		t.Fatalf("resume of a thread in use: %v", err)
	}
	_ = first.Close()
	<-first.Done()
	if err := second.ResumeThread(t.Context(), "01a00000-0000-7000-8000-000000000000", second.threadParams()); !errors.Is(err, agent.ErrNoThread) {
		t.Fatalf("resume of nothing: %v", err)
	}
	if err := second.ResumeThread(t.Context(), id, second.threadParams()); err != nil {
		t.Fatal(err)
	}
	turn, err := second.turn("say two")
	if err != nil || turn.LastMessage != "two" {
		t.Fatalf("%+v, %v", turn, err)
	}
	if u := second.Usage(); u.Total != 2100 {
		t.Errorf("usage over a resume: %+v", u)
	}
}

func TestRealFailures(t *testing.T) {
	for _, c := range []struct {
		script string
		code   agent.Code
	}{
		{"fail 400 no good", agent.CodeTurnFailed},
		{"fail insufficient_quota no money", agent.CodeAgentQuota},
		{"fail usage_limit_reached enough", agent.CodeAgentQuota},
		{"fail server_is_overloaded busy", agent.CodeNetwork},
		{"fail 429 slow down", agent.CodeAgentQuota},
		{"fail 401 who", agent.CodeAgentAuth},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()
			a := launch(t, newModel(t), "", t.TempDir(), agent.Options{}).open()
			_, err := a.turn(c.script)
			var e *agent.Error
			if !errors.As(err, &e) || e.Code != c.code {
				t.Fatalf("%v, want %s", err, c.code)
			}
			if strings.Contains(c.script, "usage_limit") && e.ResetsAt.Before(time.Now()) {
				t.Errorf("resets at %v", e.ResetsAt)
			}
			if turn, err := a.turn("say still here"); err != nil || turn.LastMessage != "still here" {
				t.Errorf("the next turn: %+v, %v", turn, err)
			}
		})
	}
}

func TestRealSilence(t *testing.T) {
	for _, script := range []string{"hang", "silent"} {
		t.Run(script, func(t *testing.T) {
			a := launch(t, newModel(t), "", t.TempDir(), agent.Options{StallTimeout: 2 * time.Second}).open()
			_, err := a.turn(script)
			var e *agent.Error
			if !errors.As(err, &e) || e.Code != agent.CodeStalled || !strings.HasPrefix(err.Error(), "stalled for ") {
				t.Fatal(err)
			}
			if err := a.Interrupt(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Without features.goals off, the model makes codex go on by itself.
func TestRealGoal(t *testing.T) {
	a := launch(t, newModel(t), "", t.TempDir(), agent.Options{})
	if _, err := a.StartThread(t.Context(), agent.ThreadParams{Cwd: a.dir, ApprovalPolicy: json.RawMessage(`"never"`)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if turn, err := a.turn("steal-turn", "say mine"); err != nil || turn.LastMessage != "mine" {
			t.Fatalf("%+v, %v", turn, err)
		}
	}
}
