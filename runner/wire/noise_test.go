package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// TestNoise checks what is kept of the lines before the first message.
func TestNoise(t *testing.T) {
	const answer = `{"id":1,"result":{}}`
	for _, c := range []struct {
		name    string
		written string
		found   bool
		said    string
	}{
		{"an answer alone", answer, true, ""},
		{"a notice", "Update available: 9.0\r\n" + answer, true, ""},
		{"nothing visible", "\x1b]0;codex\a\n", false, ""},
		{"a question", "\x1b[33mUpdate available!\x1b[0m\nInstall it now? [Y/n] ", false, "Install it now? [Y/n]"},
		{"an object that is no message", "ready {\"port\":1}", false, `ready {"port":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := NewConn(agent.Streams{Stdout: strings.NewReader(c.written)}, &agent.Options{})
			found := false
			conn.Read(func(m *Message) { found = found || m.IsMessage() })
			test.Equal(t, "a message was found", found, c.found)
			test.Equal(t, "what the agent has said", conn.noise.said(), c.said)
		})
	}
}

// TestNoiseBeforeTheEndIsAwaited lets a write to an ended agent fail before the reader gets
// what the agent wrote.
func TestNoiseBeforeTheEndIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stdin, agentStdin := io.Pipe()
		agentStdout, stdout := io.Pipe()
		test.OK(t, stdin.Close())
		conn := NewConn(
			agent.Streams{Stdin: agentStdin, Stdout: agentStdout},
			&agent.Options{ReadTimeout: time.Minute},
		)
		go func() {
			conn.Read(func(*Message) {})
			conn.Finish()
		}()
		_, err := conn.Request(t.Context(), &Call{Method: "initialize"})
		explained := make(chan error)
		go func() { explained <- conn.InsteadOfAnswer(t.Context(), err, agent.CodeIncompatible) }()
		synctest.Wait()
		test.OK(t, test.Err(io.WriteString(stdout, "Welcome\n")))
		test.OK(t, stdout.Close())
		failed, is := errors.AsType[*agent.Error](<-explained)
		test.Equal(t, "an agent's error", is, true)
		test.Equal(t, "what the agent has said", failed.Said, "Welcome")
	})
}
