package codextest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// kindOf returns the kind of a message. Messages of one kind have the same shape.
func kindOf(msg map[string]any, answers map[string]string) string {
	method, _ := msg["method"].(string)
	if method == "" {
		return "answer to " + answers[fmt.Sprint(msg["id"])]
	}
	params, _ := msg["params"].(map[string]any)
	if item, ok := params["item"].(map[string]any); ok {
		return method + " " + fmt.Sprint(item["type"])
	}
	return method
}

// isData reports whether the members at a path are data rather than shape.
func isData(path string) bool {
	return slices.ContainsFunc([]string{
		".permissions.", ".arguments", ".agentsStates", ".codexErrorInfo", ".rateLimits.", ".sandbox", ".codexHome",
		".gitInfo",
		".commandActions", ".availableDecisions", ".activePermissionProfile", ".requestedSchema.",
	}, func(data string) bool { return strings.Contains(path, data) })
}

// walk calls visit for every object in v, with the names of its members.
func walk(path string, v any, visit func(path, members string)) {
	switch v := v.(type) {
	case map[string]any:
		if isData(path) {
			return
		}
		for k, member := range v {
			walk(path+"."+k, member, visit)
		}
		visit(path, strings.Join(slices.Sorted(maps.Keys(v)), " "))
	case []any:
		for _, member := range v {
			walk(path+"[]", member, visit)
		}
	}
}

// recordedShapes returns the members of each object in the recordings of the real codex, by
// kind of message and path.
func recordedShapes(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../testdata/recorded/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings (%v)", err)
	}
	shapes := map[string]bool{}
	for _, f := range files {
		asked := make(map[string]string)
		for line := range bytes.Lines(test.Must(os.ReadFile(f))) {
			var rec struct {
				Dir string
				Msg map[string]any
			}
			if err := json.Unmarshal(line, &rec); err != nil {
				continue // not a message
			}
			if method, _ := rec.Msg["method"].(string); rec.Dir == "send" && method != "" {
				asked[fmt.Sprint(rec.Msg["id"])] = method
			} else if rec.Dir == "recv" {
				walk(
					kindOf(rec.Msg, asked), rec.Msg,
					func(path, members string) { shapes[path+" has "+members] = true },
				)
			}
		}
	}
	return shapes
}

// TestShapes compares the members of what the scripted server sends with those of the
// recordings.
func TestShapes(t *testing.T) {
	recorded := recordedShapes(t)
	home := t.TempDir()
	o := agent.Options{
		OnQuestion: agent.QuestionAsk,
		Ask:        func(context.Context, agent.Request) agent.Decision { return agent.Decision{} },
		Tools:      []agent.Tool{{Name: "linear_graphql", InputSchema: json.RawMessage(`{}`)}},
		CallTool: func(context.Context, string, json.RawMessage) agent.ToolResult {
			return agent.ToolResult{Success: true}
		},
	}
	first := start(t, o, "--home", home)
	_, _ = first.turn(
		"sh echo out; exit 3",
		"background sleep 1000",
		"say b c",
		"patch f t",
		`tool linear_graphql {"query":"q"}`,
		"tokens 1 2",
		"subagent s",
		"ask-command true",
		"ask-file g",
		"ask-permissions",
		"ask-user q?",
		"long 10",
		"say end",
		"turn 2:",
		"fail httpConnectionFailed=503 no",
	)
	_, _ = first.RunTurn(t.Context(), agent.TurnParams{Input: "continuation turn #2 of 3"})
	first.ends()
	second := spawn(t, o, "--home", home)
	test.OK(t, second.ResumeThread(t.Context(), first.ThreadID(), second.params()))
	_, _ = second.turn("cancel")
	second.ends()
	kinds := make(map[string]bool)
	for p, requests := range map[*process]map[string]string{
		first:  {"1": "initialize", "2": "thread/start", "3": "turn/start", "4": "turn/start"},
		second: {"1": "initialize", "1001": "config/read", "2": "thread/resume", "3": "turn/start"},
	} {
		for line := range bytes.Lines(p.out.Bytes()) {
			var msg map[string]any
			if err := json.Unmarshal(line, &msg); err != nil {
				t.Errorf("not a message: %s", line)
				continue
			}
			kind := kindOf(msg, requests)
			kinds[kind] = true
			if kind == "answer to config/read" {
				continue // not recorded
			}
			walk(kind, msg, func(path, members string) {
				test.Equal(t, path+" has "+members+" in a recording", recorded[path+" has "+members], true)
			})
		}
	}
	if len(kinds) < 25 {
		t.Errorf("only %d kinds of messages were compared: %v", len(kinds), kinds)
	}
}
