package wire

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// TestNoise checks which messages are found beside what a terminal's program writes, and what
// is kept of it.
func TestNoise(t *testing.T) {
	const answer = `{"id":1,"result":{}}`
	for _, c := range []struct {
		name    string
		written string
		found   bool
		said    string
	}{
		{"an answer alone", answer, true, ""},
		{"a window's title", "\x1b]0;codex\a" + answer, true, ""},
		{"a title and the end of the cursor", "\x1b]2;codex\x1b\\\x1b[?25l" + answer + "\x1b[0m", true, ""},
		{"a notice", "Update available: 9.0\r\n" + answer, true, ""},
		{"a question that was answered", "Install it now? [Y/n] " + answer, true, ""},
		{"a byte order mark", "\xef\xbb\xbf" + answer, true, ""},
		{"nothing visible", "\x1b]0;codex\a\n", false, ""},
		{"a question", "\x1b[33mUpdate available!\x1b[0m\nInstall it now? [Y/n] ", false, "Install it now? [Y/n]"},
		{
			"a colour at the start of what is kept",
			"dropped \x1b[32mgreen" + strings.Repeat("\x1b[0m", (mostNoise-len("32mgreen"))/4),
			false, "green",
		},
		{"an object that is no message", "ready {\"port\":1}", false, `ready {"port":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := NewConn(agent.Streams{Stdout: strings.NewReader(c.written)}, &agent.Options{})
			found := false
			conn.Read(func(m *Message) { found = found || m.IsMessage() })
			test.Equal(t, "a message was found", found, c.found)
			test.Equal(t, "what the agent has said", conn.Said(), c.said)
		})
	}
}
