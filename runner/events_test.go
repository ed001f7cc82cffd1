package runner

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// What comes in pieces is not kept piece by piece, whatever its name in which version: a secret would be spread over
// events, each of which holds too little of it to be seen.
func TestPiecesAreNoEvents(t *testing.T) {
	for method, want := range map[string]bool{
		"item/agentMessage/delta": true, "item/commandExecution/outputDelta": true, "item/reasoning/summaryTextDelta": true,
		"turn/diff/updated": true, "codex/event/agent_message_delta": true, "codex/event/agent_message_content_delta": true,
		"codex/event/exec_command_output_delta": true, "codex/event/agent_reasoning_delta": true, "codex/event/turn_diff": true,
		"item/completed": false, "codex/event/agent_message": false, "codex/event/exec_command_end": false, "": false,
	} {
		if got := fragment(method); got != want {
			t.Errorf("%q is a piece: %v", method, got)
		}
	}
}

// Nor is a piece the run's last message: half a secret would stand in the database, and nobody reads half a word.
func TestPiecesAreNoLastMessage(t *testing.T) {
	r := newRig(t, "say hm")
	a := &attempt{job: r.newJob(r.run, func(error) {}), agent: &agentProcess{ready: make(chan struct{})}}
	var err error
	a.events, err = agent.OpenEventLog(filepath.Join(t.TempDir(), eventsFile), a.Redactor)
	must(t, err)
	defer func() { must(t, a.events.Close()) }()
	in, out := io.Pipe()
	a.agent.session = codex.New(codex.Transport{Stdin: out, Stdout: in}, codex.Options{})
	defer a.agent.session.Close()
	close(a.agent.ready)
	a.onEvent(codex.Event{Name: codex.EventNotification, Method: "item/completed", Message: "reads the key"})
	for _, piece := range []string{testKey[:16], testKey[16:]} {
		a.onEvent(codex.Event{Name: codex.EventNotification, Method: "item/commandExecution/outputDelta", Message: piece})
		if got := a.rec.get().LastMessage; got != "reads the key" {
			t.Errorf("the last message is %q", got)
		}
	}
}

// A secret that looks like a number of the rate limits leaves no record that is no JSON: ps could not be written any more.
func TestRateLimitsStayJSON(t *testing.T) {
	r := newRig(t, "say hm")
	a := &attempt{job: r.newJob(r.run, func(error) {}), agent: &agentProcess{ready: make(chan struct{})}}
	a.Redactor.Add([]string{"17900000"})
	var err error
	a.events, err = agent.OpenEventLog(filepath.Join(t.TempDir(), eventsFile), a.Redactor)
	must(t, err)
	defer func() { must(t, a.events.Close()) }()
	in, agentOut := io.Pipe()
	_, stdin := io.Pipe()
	seen := make(chan json.RawMessage, 10)
	a.agent.session = codex.New(codex.Transport{Stdin: stdin, Stdout: in}, codex.Options{OnEvent: func(e codex.Event) {
		a.onEvent(e)
		seen <- a.rec.get().RateLimits
	}})
	defer a.agent.session.Close()
	close(a.agent.ready)
	for _, reset := range []string{"1790000000", "1800000000"} {
		_, err := io.WriteString(agentOut, `{"method":"account/rateLimits/updated","params":{"rateLimits":{"primary":{"usedPercent":7,"resetsAt":`+reset+`}}}}`+"\n")
		must(t, err)
		limits := <-seen
		if good := reset == "1800000000"; good != strings.Contains(string(limits), reset) || limits != nil && !json.Valid(limits) {
			t.Errorf("kept are %s", limits)
		}
	}
	must(t, agentOut.Close())
}
