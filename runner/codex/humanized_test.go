package codex

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// row is a message of codex and the row of the golden file that describes it.
type row struct {
	Row string          `json:"row"`
	Msg json.RawMessage `json:"msg"`
}

// TestHumanized compares the texts of events with a golden file, which UPDATE_SCRIPTS=1 rewrites.
func TestHumanized(t *testing.T) {
	text, err := os.ReadFile("testdata/humanized.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{} // lines by row
	var rows []string
	for line := range bytes.Lines(text) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if told[r.Row] == nil {
			rows = append(rows, r.Row)
		}
		synctest.Test(t, func(t *testing.T) { told[r.Row] = append(told[r.Row], tell(t, r.Msg)...) })
	}
	const golden = "testdata/humanized.golden"
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		var b strings.Builder
		for _, name := range rows {
			for _, line := range told[name] {
				b.WriteString(name + ": " + line + "\n")
			}
		}
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := readGolden(t, golden)
	if a, b := slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
		t.Errorf("rows %q, the golden file has %q", a, b)
	}
	for _, name := range rows {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(told[name], "\n"); got != strings.Join(want[name], "\n") {
				t.Errorf("told\n%s\nwant\n%s", got, strings.Join(want[name], "\n"))
			}
		})
	}
	judgeRows(t, told)
}

func readGolden(t *testing.T, name string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		row, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			t.Fatalf("no row in %q", line)
		}
		lines[row] = append(lines[row], rest)
	}
	return lines
}

// judgeRows checks that every method has a row, and every event a text.
func judgeRows(t *testing.T, told map[string][]string) {
	t.Helper()
	for _, name := range []string{
		"turn/started", "turn/completed", "error", "thread/status/changed", "thread/tokenUsage/updated", "account/rateLimits/updated",
		"item/started", "item/completed", "item/agentMessage/delta", "item/commandExecution/outputDelta", "item/reasoning/summaryTextDelta",
		"item/reasoning/textDelta", "turn/diff/updated", "turn/plan/updated", "serverRequest/resolved", "thread/goal/updated",
		"thread/goal/cleared", "warning", "configWarning", "deprecationNotice", "guardianWarning", "mcpServer/startupStatus/updated",
		"model/rerouted", "modelProvider/authRecoveryStarted", "thread/closed",
	} {
		if told[name] == nil {
			t.Errorf("%s is not in the file", name)
		}
	}
	for method := range requestCases {
		if told[method] == nil && method != "item/unheardOf/request" {
			t.Errorf("the request %s is not in the file", method)
		}
	}
	for name, lines := range told {
		for _, line := range lines {
			event, text, _ := strings.Cut(line, ": ")
			if text == "" || text == name {
				t.Errorf("%s: nothing is said (%s)", name, event)
			}
		}
	}
}

// tell returns the events for one message in a turn with an open file change, under a setting that approves.
func tell(t *testing.T, msg json.RawMessage) []string {
	t.Helper()
	o := settings["yes"]
	_, p, wait := inTurn(t, t.Context(), o)
	go p.rest()
	p.say(strings.Replace(begunPatch, "PATH", "/w/f", 1))
	synctest.Wait()
	p.mu.Lock()
	before := len(p.events)
	p.mu.Unlock()
	p.say(string(msg))
	synctest.Wait()
	p.mu.Lock()
	var lines []string
	for _, e := range p.events[before:] {
		lines = append(lines, e.Name+": "+e.Message)
	}
	p.mu.Unlock()
	p.say(turnCompleted)
	if _, err := wait(); err != nil {
		t.Error(err)
	}
	return lines
}
