package modeltest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// launch starts the real codex with a scripted model and opens a thread. Codex ends with the test.
func launch(t *testing.T) *codex.Session {
	t.Helper()
	bin := os.Getenv("SYMPHONY_TEST_CODEX")
	if bin == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	model := modeltest.New()
	t.Cleanup(model.Close)
	home, dir := t.TempDir(), t.TempDir()
	test.OK(t, modeltest.WriteHome(home, model.URL))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), bin, "app-server") // ended in Cleanup
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "CODEX_HOME=" + home, "NO_PROXY=127.0.0.1"}
	stdin := test.Must(cmd.StdinPipe())
	outR, outW := io.Pipe()
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = outW, log
	test.OK(t, cmd.Start())
	s := codex.New(agent.Streams{Stdin: stdin, Stdout: outR}, agent.Options{ReadTimeout: time.Minute})
	exited := make(chan error, 1)
	go func() {
		exited <- cmd.Wait()
		_ = outW.Close()
	}()
	t.Cleanup(func() {
		_ = s.Close()
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := <-exited; err != nil {
			t.Errorf("codex: %v", err)
		}
		<-s.Done()
		if t.Failed() {
			t.Logf("stderr:\n%s", log)
		}
	})
	test.Must(s.Initialize(t.Context()))
	_, err := s.StartThread(t.Context(), agent.ThreadParams{
		Cwd: dir, ApprovalPolicy: json.RawMessage(`"never"`), Config: map[string]any{"features.goals": false},
	})
	test.OK(t, err)
	return s
}

// TestRealFailures checks how a session classifies the errors that the real codex reports when the model fails.
func TestRealFailures(t *testing.T) {
	for script, code := range map[string]agent.Code{
		"fail 400 no good":                 agent.CodeTurnFailed,
		"fail insufficient_quota no money": agent.CodeAgentQuota,
		"fail usage_limit_reached enough":  agent.CodeAgentQuota,
		"fail server_is_overloaded busy":   agent.CodeNetwork,
		"fail 429 slow down":               agent.CodeAgentQuota,
		"fail 401 unknown key":             agent.CodeAgentAuth,
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := launch(t)
			turn := func(script string) (agent.Turn, error) {
				return s.RunTurn(t.Context(), agent.TurnParams{Input: "Do this.\n\n```agent\n" + script + "\n```\n"})
			}
			_, err := turn(script)
			var e *agent.Error
			if !errors.As(err, &e) || e.Code != code {
				t.Fatalf("%v, want %s", err, code)
			}
			if strings.Contains(script, "usage_limit") && e.ResetsAt.IsZero() {
				t.Error("the error has no reset time")
			}
			next, err := turn("say still here")
			test.Equal(t, "the next turn", []any{err, next.LastMessage}, []any{nil, "still here"})
		})
	}
}
