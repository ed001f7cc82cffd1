package codex

import (
	"bytes"
	"encoding/json"
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
	messages, err := os.ReadFile("testdata/humanized.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	rows := map[string]bool{}
	for line := range bytes.Lines(messages) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		rows[r.Row] = true
		synctest.Test(t, func(t *testing.T) {
			for _, event := range tell(t, r.Msg) {
				told = append(told, r.Row+": "+event+"\n")
			}
		})
	}
	const golden = "testdata/humanized.golden"
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(golden, []byte(strings.Join(told, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Collect(strings.Lines(string(text)))
	for i := range max(len(told), len(want)) {
		if i >= len(told) || i >= len(want) || told[i] != want[i] {
			t.Fatalf("from line %d:\n%swant\n%s", i+1, strings.Join(told[min(i, len(told)):], ""), strings.Join(want[min(i, len(want)):], ""))
		}
	}
	for method := range requestCases {
		if !rows[method] && method != "item/unheardOf/request" {
			t.Errorf("the request %s is not in the file", method)
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
