package codex

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// TestQuestionInsteadOfAnAnswer checks the error of an agent that asks something at its start,
// and waits or ends.
func TestQuestionInsteadOfAnAnswer(t *testing.T) {
	const question = "Install it now? [Y/n] "
	bubble(t, "it waits", func(t *testing.T) {
		s, p := connect(t, agent.Options{InitializeTimeout: time.Second})
		go func() {
			p.hear()
			_ = test.Must(p.out.Write([]byte(question)))
		}()
		_, err := s.Initialize(t.Context())
		e := wantCode(t, err, agent.CodeResponseTimeout)
		test.Equal(t, "what it said", e.Said, strings.TrimSpace(question))
		test.Equal(t, "whose fault it is", e.Cause, agent.CodeIncompatible)
	})
	bubble(t, "it ends", func(t *testing.T) {
		s, p := connect(t, agent.Options{})
		go func() {
			p.hear()
			p.say(question)
			_ = p.out.Close()
		}()
		_, err := s.Initialize(t.Context())
		var e *agent.Error
		if !errors.As(err, &e) || e.Cause != agent.CodeIncompatible {
			t.Fatalf("error %v, want the machine's fault", err)
		}
	})
}

// TestRelease checks which user agents name a release of codex.
func TestRelease(t *testing.T) {
	for userAgent, want := range map[string]string{
		"symphony/0.169.0 (Debian 12; x86_64) xterm (symphony; 1)": "0.169.0",
		"symphony/1.0.0":             "1.0.0",
		"symphony/0.120.0 (Debian)":  "0.120.0", // is refused
		"renamed/0.171.0 (Debian)":   "0.171.0",
		"codex_cli_rs/0.58.0 (Arch)": "",
		"peer/1.0":                   "",
		"peer/0.1.0":                 "",
		"peer":                       "",
		"...":                        "",
		"":                           "",
	} {
		test.Equal(t, userAgent, release(userAgent), want)
	}
}
