package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/symphony-cron/symphony/internal/test"
)

// vocabularyTests are the tests of words without an event, which TestSeedVocabulary does not
// show itself.
var vocabularyTests = map[string]string{
	"Op::ConfigureSession":                "TestScript/mcp",
	"Op::ConfigureSession, again":         "TestCallsOfAnAgent",
	"Op::UserInput":                       "TestScript/mcp",
	"Op::UserInput during a task":         "TestInterruptAndSteer",
	"Op::UserInput with last_response_id": "TestScript/mcp",
	"Op::Interrupt":                       "TestScript/mcp",
	"Op::ExecApproval":                    "TestRealCodex/mcp_host",
	"Op::PatchApproval":                   "TestHostDecides",
	"sub_id":                              "TestScript/mcp",
	"EventMsg::Warning":                   "TestRecorded",
}

// The table of docs/mcp.md that translates the vocabulary of codex's first protocol: each word
// has a test, each tool is offered, and with the scripted codex each event comes.
func TestSeedVocabulary(t *testing.T) {
	t.Parallel()
	table := rows(between(t, document(t, "docs/mcp.md"), "<!-- vocabulary -->", "<!-- /vocabulary -->"))[1:]
	session, dir := mcpSession(t, "2025-06-18")
	tools := test.Must(session.ListTools(t.Context(), nil))
	known := map[string]bool{}
	tests := testNames(t)
	events := vocabularyEvents(t, session, dir)
	for _, tool := range tools.Tools {
		known[tool.Name] = true
	}
	for _, cells := range table {
		word := cells[0]
		methods := codeSpans(cells[1])
		used := codeSpans(cells[2])
		event := codeSpans(cells[3])
		if name := vocabularyTests[word]; name != "" {
			test.Equal(t, word+": there is the test "+name, tests[name], true)
		} else if len(event) == 0 {
			t.Errorf("%s: there is no test", word)
		}
		for _, name := range used {
			test.Equal(t, word+": there is the tool "+name, known[name], true)
		}
		if len(event) > 0 && !events[strings.Join(append(event, methods...), " ")] {
			t.Errorf(
				"%s: no event %v of %v; there were %s",
				word,
				event,
				methods,
				strings.Join(slices.Sorted(maps.Keys(events)), ", "),
			)
		}
	}
	for word := range vocabularyTests {
		listed := slices.ContainsFunc(table, func(cells []string) bool { return cells[0] == word })
		test.Equal(t, "docs/mcp.md translates "+word, listed, true)
	}
}

// vocabularyEvents lets an agent do what the examples of the first protocol do: run a command
// that a person approves, change a file, say something; be interrupted; fail. It returns the
// names of the events, each with its method and the type of its item.
func vocabularyEvents(t *testing.T, session *mcp.ClientSession, dir string) map[string]bool {
	t.Helper()
	callTool(t, session, "spawn_agent", map[string]any{"id": "one"}, new(any))
	callTool(t, session, "new_conversation", map[string]any{
		"agentId": "one",
		"id":      "main",
	}, new(any))
	turn := func(id, script string) {
		callTool(t, session, "send_user_turn", map[string]any{
			"agentId": "one",
			"params": map[string]any{
				"id":             id,
				"conversationId": "main",
				"items": []any{map[string]any{
					"type": "text",
					"text": "```agent\n" + script + "\n```",
				}},
			},
		}, new(any))
	}
	wait := func(asks bool) {
		var out struct {
			Agents []struct{ Requests []struct{ RequestID string } }
		}
		callTool(t, session, "wait_agent", map[string]any{"agentIds": []string{"one"}}, &out)
		if asks != (len(out.Agents[0].Requests) > 0) {
			t.Fatalf("requests: %v", out)
		}
	}
	turn(
		"first",
		"ask-command touch "+filepath.Join(dir, "made")+"\npatch a.txt hello\nthink it works\nsay done",
	)
	wait(true)
	callTool(t, session, "approve", map[string]any{"requestId": "one.1"}, new(any))
	wait(false)
	turn("second", "sh touch begun\nhang")
	test.Until(t, "the second turn", func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	})
	callTool(t, session, "interrupt", map[string]any{
		"agentId":        "one",
		"conversationId": "main",
	}, new(any))
	turn("third", "fail usage_limit_exceeded")
	wait(false)
	var log struct {
		Events []struct {
			Name  string
			Event struct {
				Method string
				Params struct {
					Item struct{ Type string }
				}
			}
		}
	}
	callTool(t, session, "read_events", map[string]any{
		"agentId":  "one",
		"detail":   "full",
		"maxBytes": 1 << 20,
	}, &log)
	seen := map[string]bool{}
	for _, e := range log.Events {
		seen[strings.TrimSpace(fmt.Sprint(e.Name, " ", e.Event.Method, " ", e.Event.Params.Item.Type))] = true
	}
	callTool(t, session, "kill_agent", map[string]any{"agentId": "one"}, new(any))
	return seen
}
