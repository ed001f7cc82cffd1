package runner

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/codex"
)

// TestFragments: a piece of a message or of output is neither stored as an event nor the run's last message. A secret that
// comes in pieces would be recognised in none of them.
func TestFragments(t *testing.T) {
	r := newRig(t, "say hm")
	a, g := newConversation(r.newJob(r.run, func(error) {}), nil), &agentProcess{}
	dir := t.TempDir()
	var err error
	a.events, err = agent.OpenEventLog(filepath.Join(dir, eventsFile), a.Redactor)
	must(t, err)
	defer func() { must(t, a.events.Close()) }()
	in, out := io.Pipe()
	g.session = codex.New(agent.Streams{Stdin: out, Stdout: in}, agent.Options{})
	defer g.session.Close()
	a.onEvent(g, agent.Event{Name: agent.EventNotification, Message: "reads the key"})
	for _, piece := range []string{testKey[:16], testKey[16:]} {
		a.onEvent(g, agent.Event{Name: agent.EventNotification, Fragment: true, Message: piece})
		if got := a.rec.get().LastMessage; got != "reads the key" {
			t.Errorf("the last message is %q", got)
		}
	}
	stored, err := os.ReadFile(filepath.Join(dir, eventsFile))
	must(t, err)
	if n := strings.Count(string(stored), "\n"); n != 1 {
		t.Errorf("%d events are stored", n)
	}
}

// A secret that looks like a number of the rate limits leaves the record valid JSON, which ps has to read.
func TestRateLimitsStayJSON(t *testing.T) {
	r := newRig(t, "say hm")
	a, g := newConversation(r.newJob(r.run, func(error) {}), nil), &agentProcess{}
	a.Redactor.Add([]string{"17900000"})
	var err error
	a.events, err = agent.OpenEventLog(filepath.Join(t.TempDir(), eventsFile), a.Redactor)
	must(t, err)
	defer func() { must(t, a.events.Close()) }()
	in, agentOut := io.Pipe()
	_, stdin := io.Pipe()
	seen := make(chan json.RawMessage, 10)
	g.session = codex.New(agent.Streams{Stdin: stdin, Stdout: in}, agent.Options{OnEvent: func(e agent.Event) {
		a.onEvent(g, e)
		seen <- a.rec.get().RateLimits
	}})
	defer g.session.Close()
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
