package codex

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// row is a message of codex and its name in the golden file.
type row struct {
	Row string          `json:"row"`
	Msg json.RawMessage `json:"msg"`
}

// TestHumanized compares the texts of events with a golden file, which UPDATE_SCRIPTS=1
// rewrites.
func TestHumanized(t *testing.T) {
	var described []string
	rows := map[string]bool{}
	for line := range bytes.Lines(test.Must(os.ReadFile("testdata/humanized.jsonl"))) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		rows[r.Row] = true
		synctest.Test(t, func(t *testing.T) {
			for _, event := range describeEvents(t, r.Msg) {
				described = append(described, r.Row+": "+event+"\n")
			}
		})
	}
	const golden = "testdata/humanized.golden"
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		test.OK(t, os.WriteFile(golden, []byte(strings.Join(described, "")), 0o644))
	}
	want := slices.Collect(strings.Lines(string(test.Must(os.ReadFile(golden)))))
	for i := range max(len(described), len(want)) {
		if i >= len(described) || i >= len(want) || described[i] != want[i] {
			t.Fatalf(
				"from line %d:\n%swant\n%s",
				i+1,
				strings.Join(described[min(i, len(described)):], ""),
				strings.Join(want[min(i, len(want)):], ""),
			)
		}
	}
	for method := range requestCases {
		if !rows[method] && method != "item/unheardOf/request" {
			t.Errorf("the request %s is not in the file", method)
		}
	}
}

// describeEvents returns the events for a message during a turn with an unfinished file
// change, if the operator approves.
func describeEvents(t *testing.T, msg json.RawMessage) []string {
	t.Helper()
	_, p, wait := inTurn(t, t.Context(), settings["yes"])
	go p.rest()
	p.say(strings.Replace(begunPatch, "PATH", "/w/f", 1))
	synctest.Wait()
	before := len(p.heard())
	p.say(string(msg))
	synctest.Wait()
	lines := test.Map(p.heard()[before:], func(e agent.Event) string { return e.Name + ": " + e.Message })
	p.say(turnCompleted)
	wait.completes(t)
	return lines
}
