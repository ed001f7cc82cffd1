package codex

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// TestStages checks which requests and notifications an agent gets after its answer to
// initialize.
func TestStages(t *testing.T) {
	for answer, want := range map[string]string{
		`{}`:                     "initialized thread/start turn/start",
		`{"userAgent":"peer/1"}`: "initialized thread/start turn/start",
		`{"userAgent":"fork/9.9","codexHome":"/h"}`: "initialized thread/start thread/name/set turn/start " +
			"turn/interrupt",
		`{"userAgent":"symphony/0.169.0 (Debian 12)"}`: "initialized config/read thread/resume thread/start " +
			"thread/name/set turn/start turn/steer turn/interrupt command/exec",
	} {
		s, p := connect(t, agent.Options{})
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.hear()
			p.say(`{"id":1,"result":` + answer + `}`)
			for line := range p.lines() {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				test.OK(t, json.Unmarshal([]byte(line), &m))
				got = append(got, m.Method)
				result := `{"thread":{"id":"th"},"turn":{"id":"tu"}}`
				if m.Method == "thread/resume" {
					p.say(`{"id":` + string(m.ID) + `,"error":{"code":1,"message":"no rollout found"}}`)
					continue
				}
				if m.ID != nil {
					p.say(`{"id":` + string(m.ID) + `,"result":` + result + `}`)
				}
				if m.Method == "turn/interrupt" {
					p.say(`{"method":"turn/completed","params":{"turn":{"id":"tu","status":"interrupted"}}}`)
				}
			}
		}()
		test.Must(s.Initialize(t.Context()))
		params := agent.ThreadParams{Name: "A-1: t", Cwd: "/w"}
		test.ErrorIs(t, "resume", s.ResumeThread(t.Context(), "th", params), agent.ErrNoThread)
		test.Must(s.StartThread(t.Context(), params))
		turn := make(chan error, 1)
		go func() {
			_, err := s.RunTurn(t.Context(), agent.TurnParams{Input: "go", Cwd: "/w"})
			turn <- err
		}()
		test.Until(t, "a turn", func() bool { return s.current() != nil && s.current().id != "" })
		_ = s.Steer(t.Context(), []agent.Input{{Type: "text", Text: "more"}})
		_ = s.Interrupt(t.Context())
		_ = s.ProbeSandbox(t.Context(), "/w", json.RawMessage(confined))
		_ = p.out.Close()
		_ = s.Close()
		<-turn
		<-done
		test.Equal(t, answer, strings.Join(got, " "), want)
	}
}
