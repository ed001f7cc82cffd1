package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/acp/acptest"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The test's program is also the scripted agent, and the relay that the agent starts.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == RelayCommand:
		if err := Relay(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) > 1 && os.Args[1] == "scripted":
		os.Exit(acptest.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// scripted starts a scripted agent and opens a session with it.
func scripted(t *testing.T, o agent.Options, args ...string) *Session {
	t.Helper()
	program := test.Must(os.Executable())
	c := exec.CommandContext(t.Context(), program, append([]string{"scripted"}, args...)...)
	stdin := test.Must(c.StdinPipe())
	stdout := test.Must(c.StdoutPipe())
	var stderr bytes.Buffer
	c.Stderr = &stderr
	test.OK(t, c.Start())
	o.Program = program
	var sent, heard bytes.Buffer
	s := newSession(kindNamed("acp"), agent.Streams{
		Stdin:  teeWriter{stdin, &sent},
		Stdout: io.TeeReader(stdout, &heard),
	}, o)
	t.Cleanup(func() {
		test.OK(t, s.Close())
		<-s.Done()
		_ = c.Wait()
		checkConversation(t, sent.Bytes(), heard.Bytes())
		if t.Failed() {
			t.Log(stderr.String())
		}
	})
	test.Must(s.Initialize(t.Context()))
	return s
}

// teeWriter also keeps what is written.
type teeWriter struct {
	io.WriteCloser

	kept *bytes.Buffer
}

func (w teeWriter) Write(p []byte) (int, error) {
	w.kept.Write(p)
	return w.WriteCloser.Write(p)
}

func script(lines ...string) agent.TurnParams {
	return agent.TurnParams{Input: "```agent\n" + strings.Join(lines, "\n") + "\n```"}
}

// An agent calls symphony's tools through the MCP server that it starts. The directory of the
// socket may have a path of any length.
func TestTools(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	test.OK(t, os.Mkdir(dir, 0o700))
	var mu sync.Mutex
	var called []string
	s := scripted(t, agent.Options{
		ToolsDir: dir,
		Tools:    []agent.Tool{{Name: "note", Description: "notes", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		CallTool: func(_ context.Context, name string, args json.RawMessage) agent.ToolResult {
			mu.Lock()
			defer mu.Unlock()
			called = append(called, name+" "+string(args))
			return agent.ToolResult{Text: "noted", Success: true}
		},
	})
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: t.TempDir()}))
	turn := test.Must(s.RunTurn(t.Context(), script(`tool note {"text":"hi"}`, "say Done.")))
	test.Equal(t, "turn", turn.LastMessage, "Done.")
	test.Equal(t, "calls", called, []string{`note {"text":"hi"}`})
}

// Commands of an agent can open any number of connections to the server of the tools, and write
// any number of bytes: most are closed.
func TestToolsAreLimited(t *testing.T) {
	dir := t.TempDir()
	s := scripted(t, agent.Options{
		ToolsDir: dir,
		Tools:    []agent.Tool{{Name: "note", InputSchema: json.RawMessage(`{"type":"object"}`)}},
	})
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: t.TempDir()})) // its relay has a place
	connect := func() net.Conn {
		conn := test.Must(net.Dial("unix", filepath.Join(dir, socketName)))
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	wasClosed := func(conn net.Conn) bool {
		_, err := conn.Read(make([]byte, 1))
		return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	}
	var served []net.Conn
	for range maxRelays - 1 {
		served = append(served, connect())
	}
	test.Equal(t, "one more is closed", wasClosed(connect()), true)
	// the first goes on until it has said too much
	_, err := io.Copy(served[0], io.LimitReader(blanks{}, maxHeard+1))
	test.Equal(t, "one that says too much is closed", err != nil || wasClosed(served[0]), true)
	test.Until(t, "a place for another", func() bool {
		conn := connect()
		fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		return !wasClosed(conn)
	})
}

// blanks are what JSON allows between messages.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) { return copy(p, strings.Repeat("\n", len(p))), nil }

// A turn of an agent that does not load symphony's tools fails: it could hand nothing over.
func TestToolsAreMissing(t *testing.T) {
	s := scripted(t, agent.Options{
		ToolsDir: t.TempDir(),
		Tools:    []agent.Tool{{Name: "note", InputSchema: json.RawMessage(`{"type":"object"}`)}},
	}, "--fault", "no-tools")
	test.Must(s.StartThread(t.Context(), agent.ThreadParams{Cwd: t.TempDir()}))
	_, err := s.RunTurn(t.Context(), script("say Done."))
	test.Equal(t, "code", codeOf(err), agent.CodeAgentIncompatible)
	test.Contains(t, "error", err.Error(), "has not loaded symphony's tools")
}

// A session goes on in another process of the agent.
func TestResume(t *testing.T) {
	home := t.TempDir()
	cwd := t.TempDir()
	first := scripted(t, agent.Options{}, "--home", home)
	id := test.Must(first.StartThread(t.Context(), agent.ThreadParams{Cwd: cwd}))
	test.Must(first.RunTurn(t.Context(), script("say one", "turn 2:", "sh echo two > made")))
	test.OK(t, first.Close())
	second := scripted(t, agent.Options{}, "--home", home)
	test.OK(t, second.ResumeThread(t.Context(), id, agent.ThreadParams{Cwd: cwd}))
	test.Must(second.RunTurn(t.Context(), agent.TurnParams{Input: "continuation turn #2 of 3"}))
	test.Equal(t, "file", test.Read(t, filepath.Join(cwd, "made")), "two\n")
}
