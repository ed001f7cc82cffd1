package codextest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// TestMain makes the test binary a scripted codex if CODEXTEST_AS_CODEX is set.
func TestMain(m *testing.M) {
	if os.Getenv("CODEXTEST_AS_CODEX") != "" {
		os.Exit(codextest.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(runInHome(m))
}

// runInHome runs the tests in a home without a login profile, because a test may kill a shell that still reads its profile.
func runInHome(m *testing.M) int {
	home, err := os.MkdirTemp("", "codextest-home-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(home)
	if err := os.Setenv("HOME", home); err != nil {
		panic(err)
	}
	return m.Run()
}

// process is a server in a process of its own, with a session on its pipes.
type process struct {
	*codex.Session
	cmd    *exec.Cmd
	dir    string
	exited chan struct{}
}

func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{dir: t.TempDir(), exited: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], append([]string{"app-server"}, args...)...) // ended by its stdin, or killed below
	p.cmd.Env = append(os.Environ(), "CODEXTEST_AS_CODEX=1")
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW := io.Pipe()
	p.cmd.Stdout = outW
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.Session = codex.New(agent.Streams{Stdin: stdin, Stdout: outR}, agent.Options{ReadTimeout: patience})
	go func() {
		_ = p.cmd.Wait() // its state is looked at
		_ = outW.Close()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.Close()
		_ = p.cmd.Process.Kill()
		<-p.exited
		<-p.Done()
	})
	if _, err := p.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.StartThread(t.Context(), agent.ThreadParams{Cwd: p.dir}); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) status(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		t.Fatal("the server goes on")
	}
	return p.cmd.ProcessState.ExitCode()
}

// pid reads the process id that a command left in a file.
func (p *process) pid(t *testing.T) int {
	t.Helper()
	name := filepath.Join(p.dir, "pid")
	waitFor(t, func() bool { _, err := os.Stat(name); return err == nil })
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const leavePid = "echo $$ > p; mv p pid; exec sleep 600"

func TestTermination(t *testing.T) {
	p := spawn(t)
	if _, err := p.RunTurn(t.Context(), agent.TurnParams{Input: script("background " + leavePid)}); err != nil {
		t.Fatal(err)
	}
	pid := p.pid(t)
	if sid, err := unixSession(pid); err != nil || sid != pid {
		t.Errorf("the command %d is in session %d (%v)", pid, sid, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.status(t); code != 0 {
		t.Errorf("exit %d on SIGTERM", code)
	}
	waitFor(t, func() bool { return syscall.Kill(pid, 0) != nil })
}

// unixSession reads a process's session from /proc.
func unixSession(pid int) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// pid (comm) state ppid pgrp session
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	return strconv.Atoi(fields[3])
}

func TestCrashLeavesCommands(t *testing.T) {
	p := spawn(t)
	_, err := p.RunTurn(t.Context(), agent.TurnParams{Input: script("background "+leavePid, "sh while [ ! -e pid ]; do sleep 0.01; done", "crash")})
	_ = wantCode(t, err, agent.CodePortExit)
	if code := p.status(t); code != 1 {
		t.Errorf("exit %d", code)
	}
	pid := p.pid(t)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the command ended with the server: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// A thread whose first turn was cut off can be resumed, like codex's.
func TestResumeAfterCrash(t *testing.T) {
	home := t.TempDir()
	p := spawn(t, "--home", home)
	_, err := p.RunTurn(t.Context(), agent.TurnParams{Input: script("crash")})
	_ = wantCode(t, err, agent.CodePortExit)
	p.status(t)
	stored, err := filepath.Glob(filepath.Join(home, "threads", "*.json"))
	if err != nil || len(stored) != 1 {
		t.Fatal(stored, err)
	}
	next := spawn(t, "--home", home)
	id := strings.TrimSuffix(filepath.Base(stored[0]), ".json")
	if err := next.ResumeThread(t.Context(), id, agent.ThreadParams{Cwd: next.dir}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(stored[0]); err != nil || !strings.Contains(string(text), `"interrupted"`) {
		t.Errorf("the cut turn is not kept as interrupted: %v\n%s", err, text)
	}
}

func TestMainUsage(t *testing.T) {
	for _, c := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"--version"}, 0, "codex-cli " + codextest.Version, ""},
		{nil, 2, "", "usage:"},
		{[]string{"exec"}, 2, "", "usage:"},
		{[]string{"app-server", "--nope"}, 2, "", "-nope"},
		{[]string{"app-server", "more"}, 2, "", `takes no "more"`},
		{[]string{"app-server", "--fault", "odd"}, 2, "", "unknown fault"},
		{[]string{"app-server", "--fault", "exit"}, 1, "", "told to fail"},
		{[]string{"app-server", "--home", "/nonexistent/home"}, 1, "", "does not exist"},
		{[]string{"app-server", "--home", "", "--pace", "1ms"}, 0, "", ""},
	} {
		var out, errw bytes.Buffer
		code := codextest.Main(c.args, strings.NewReader(""), &out, &errw)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errw.String(), c.err) {
			t.Errorf("%q: exit %d, out %q, err %q", c.args, code, &out, &errw)
		}
	}
}

// Requests that codex refuses are refused in its words.
func TestRefusals(t *testing.T) {
	in := strings.Join([]string{
		`{"id":1,"method":"thread/start","params":{}}`,
		`not json`, `{"id":null,"method":"initialize","params":{}}`, `[]`,
		`{"id":2,"method":"initialize","params":{}}`,
		`{"id":3,"method":"initialize","params":{"clientInfo":{"name":"a","version":"1"}}}`,
		`{"id":4,"method":"initialize","params":{"clientInfo":{"name":"a","version":"1"}}}`,
		`{"method":"initialized"}`,
		`{"id":5,"method":"thread/start"}`,
		`{"id":6,"method":"thread/start","params":{"sandbox":"workspaceWrite"}}`,
		`{"id":7,"method":"thread/start","params":{"approvalPolicy":"on-failure"}}`,
		`{"id":8,"method":"turn/start","params":{"threadId":"x","input":[]}}`,
		`{"id":9,"method":"turn/start","params":{"threadId":"x","sandboxPolicy":{"mode":"x"}}}`,
		`{"id":10,"method":"turn/start","params":{"threadId":"x","sandboxPolicy":"workspace-write"}}`,
		`{"id":11,"method":"newConversation","params":{}}`,
		`{"id":12,"method":"turn/interrupt","params":{"threadId":"x","turnId":"y"}}`,
		`{"id":13,"method":"thread/resume","params":{"threadId":"x"}}`,
	}, "\n")
	var out bytes.Buffer
	if code := codextest.Serve(t.Context(), strings.NewReader(in), &out, io.Discard, codextest.ServeOptions{}); code != 0 {
		t.Errorf("exit %d", code)
	}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var m struct {
			ID    json.RawMessage
			Error struct{ Message string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		got[string(m.ID)] = m.Error.Message
	}
	for id, text := range map[string]string{
		"1": "Not initialized", "2": "missing field `clientInfo`", "4": "Already initialized", "5": "missing field `params`",
		"6": "unknown variant `workspaceWrite`", "7": "unknown variant `on-failure`", "8": "thread not found: x", "9": "missing field `type`",
		"10": "expected internally tagged enum", "11": "unknown variant `newConversation`", "12": "thread not found", "13": "no rollout found",
	} {
		if !strings.Contains(got[id], text) {
			t.Errorf("answer %s: %q, want %q in it", id, got[id], text)
		}
	}
}
