package modeltest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/runner/codex/modeltest"
)

// ask makes the request that codex makes for a prompt with this script, and gives the answer as far as it came.
func ask(t *testing.T, m *modeltest.Server, script string, outputs int) (status int, header http.Header, body string) {
	t.Helper()
	type object = map[string]any
	input := []object{{"type": "message", "role": "user", "content": "```agent\n" + script + "\n```"}}
	for i := range outputs {
		input = append(input, object{"type": "function_call_output", "call_id": "c" + strconv.Itoa(i), "output": "x"})
	}
	text, err := json.Marshal(object{"model": "gpt-5.5", "prompt_cache_key": "t", "input": input})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(m.URL+"/responses", "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, resp.Header, string(got) + "\ncut: " + err.Error()
	}
	return resp.StatusCode, resp.Header, string(got)
}

func TestFaultsPass(t *testing.T) {
	m := newModel(t)
	const script = "fail 500/2 on fire\nsh true\nfail cut/1\nsay done"
	for _, want := range []int{500, 500, 200, 200} {
		if status, _, body := ask(t, m, script, 0); status != want || status == 200 && !strings.Contains(body, "response.completed") {
			t.Fatalf("%d, not %d: %s", status, want, body)
		}
	}
	// What comes after the call has tries of its own.
	if _, _, body := ask(t, m, script, 1); !strings.Contains(body, "cut: ") || strings.Contains(body, "response.completed") {
		t.Errorf("not cut: %s", body)
	}
	if _, _, body := ask(t, m, script, 1); !strings.Contains(body, `"delta":"done"`) {
		t.Errorf("not over the cut: %s", body)
	}
}

func TestUsageLimit(t *testing.T) {
	m := newModel(t)
	for script, lasts := range map[string]time.Duration{"fail usage_limit_reached x": time.Hour, "fail usage_limit_reached=30s x": 30 * time.Second} {
		status, header, _ := ask(t, m, script, 0)
		at, err := strconv.ParseInt(header.Get("x-codex-primary-reset-at"), 10, 64)
		if off := time.Until(time.Unix(at, 0)); status != 429 || err != nil || off > lasts || off < lasts-20*time.Second {
			t.Errorf("%s: %d, resets in %v, %v", script, status, off, err)
		}
	}
	if status, header, _ := ask(t, m, "fail 429 x", 0); status != 429 || header.Get("x-codex-primary-reset-at") != "" {
		t.Errorf("without a reset: %d, %v", status, header)
	}
}
