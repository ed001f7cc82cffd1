package codextest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/codextest"
)

// TestMain makes the test binary a scripted codex if CODEXTEST_AS_CODEX is set. The tests run
// in a home without a login profile, because a test may kill a shell that still reads its
// profile.
func TestMain(m *testing.M) {
	if os.Getenv("CODEXTEST_AS_CODEX") != "" {
		os.Exit(codextest.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	home, err := os.MkdirTemp("", "codextest-home-")
	if err == nil {
		err = os.Setenv("HOME", home)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(home)
	os.Exit(code)
}

// process is a server in a separate process, with a session on its pipes.
type process struct {
	*codex.Session
	t      *testing.T
	cmd    *exec.Cmd
	dir    string
	out    bytes.Buffer // its output; complete when it has exited
	exited chan struct{}
}

// spawn starts a server and initializes a session with it.
func spawn(t *testing.T, o agent.Options, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), exited: make(chan struct{})}
	// it ends with its stdin, or is killed below
	p.cmd = exec.Command(os.Args[0], append([]string{"app-server"}, args...)...)
	p.cmd.Env = append(os.Environ(), "CODEXTEST_AS_CODEX=1")
	p.cmd.Stderr = os.Stderr
	stdin := test.Must(p.cmd.StdinPipe())
	outR, outW := io.Pipe()
	p.cmd.Stdout = io.MultiWriter(&p.out, outW)
	test.OK(t, p.cmd.Start())
	o.ReadTimeout = test.Patience()
	p.Session = codex.New(agent.Streams{Stdin: stdin, Stdout: outR}, o)
	go func() {
		_ = p.cmd.Wait() // ProcessState has the result
		_ = outW.Close()
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.Close()
		_ = p.cmd.Process.Kill()
		<-p.exited
		<-p.Done()
	})
	server, err := p.Initialize(t.Context())
	test.Equal(t, "error and version", []any{err, server.Version}, []any{nil, codextest.Version})
	return p
}

// start starts a server with a thread.
func start(t *testing.T, o agent.Options, args ...string) *process {
	t.Helper()
	p := spawn(t, o, args...)
	test.Must(p.StartThread(t.Context(), p.params()))
	return p
}

func (p *process) params() agent.ThreadParams {
	return agent.ThreadParams{
		Cwd: p.dir, ApprovalPolicy: json.RawMessage(`"never"`),
		Config: map[string]any{
			"shell_environment_policy": map[string]any{"set": map[string]any{"MARK": "m1"}},
		},
	}
}

func (p *process) turn(lines ...string) (agent.Turn, error) {
	return p.RunTurn(p.t.Context(), agent.TurnParams{
		Input:         "Do this.\n\n```agent\n" + strings.Join(lines, "\n") + "\n```\n",
		Cwd:           p.dir,
		SandboxPolicy: json.RawMessage(`{"type":"workspaceWrite"}`),
	})
}

// ends closes the server's stdin, and returns its exit status.
func (p *process) ends() int {
	p.t.Helper()
	_ = p.Close()
	return p.status()
}

func (p *process) status() int {
	p.t.Helper()
	test.Until(p.t, "exit of the server", func() bool {
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	})
	return p.cmd.ProcessState.ExitCode()
}

// read returns a file of the workspace, "" if there is none.
func (p *process) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(text)
}

// writePid is a command that writes its process id to a file and goes on running.
const writePid = "echo $$ > p; mv p pid; exec sleep 600"

func (p *process) pid() int {
	p.t.Helper()
	test.Until(p.t, "process id", func() bool { return p.read("pid") != "" })
	return test.Must(strconv.Atoi(strings.TrimSpace(p.read("pid"))))
}

// gone waits for the end of a process.
func gone(t *testing.T, pid int) {
	t.Helper()
	test.Until(t, "end of the command", func() bool { return syscall.Kill(pid, 0) != nil })
}

func code(err error) agent.Code {
	var e *agent.Error
	errors.As(err, &e)
	if e == nil {
		return ""
	}
	return e.Code
}

// TestInterrupt checks that an interrupt leaves the command running, and that the server kills
// it when it ends.
func TestInterrupt(t *testing.T) {
	p := start(t, agent.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		p.pid()
	}()
	if _, err := p.RunTurn(ctx, agent.TurnParams{
		Input: "```agent\nsh " + writePid + "\n```",
		Cwd:   p.dir,
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	test.OK(t, p.Interrupt(t.Context()))
	turn, err := p.turn("say next")
	test.Equal(t, "turn after an interrupt", []any{err, turn.LastMessage}, []any{nil, "next"})
	if err := syscall.Kill(p.pid(), 0); err != nil {
		t.Errorf("the command ended with the turn: %v", err)
	}
	p.ends()
	gone(t, p.pid())
}

// TestTermination checks that SIGTERM ends the server with status 0, and its commands with it
// although each has its own session.
func TestTermination(t *testing.T) {
	p := start(t, agent.Options{})
	test.Must(p.turn("background " + writePid))
	pid := p.pid()
	test.Equal(t, "session of the command", test.Must(unix.Getsid(pid)), pid)
	test.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
	test.Equal(t, "status after SIGTERM", p.status(), 0)
	gone(t, pid)
}

// TestCrash checks that commands outlive a crash, and that a thread whose first turn was cut
// off can be resumed.
func TestCrash(t *testing.T) {
	home := t.TempDir()
	p := start(t, agent.Options{}, "--home", home)
	if _, err := p.turn("background "+writePid, "sh while [ ! -e pid ]; do sleep 0.01; done", "crash"); code(
		err,
	) != agent.CodePortExit {
		t.Fatal(err)
	}
	test.Equal(t, "status", p.status(), 1)
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		t.Errorf("the command ended with the server: %v", err)
	}
	next := spawn(t, agent.Options{}, "--home", home)
	test.OK(t, next.ResumeThread(t.Context(), p.ThreadID(), next.params()))
	text, err := os.ReadFile(filepath.Join(home, "threads", p.ThreadID()+".json"))
	if err != nil || !strings.Contains(string(text), `"interrupted"`) {
		t.Errorf("the cut turn is not kept as interrupted: %v\n%s", err, text)
	}
}
