package codex

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/agent"
)

// TestEventsAfterTheEnd checks that events emitted after the agent's end are delivered too, the end of the turn above all.
func TestEventsAfterTheEnd(t *testing.T) {
	for range 50 {
		_, p, wait := inTurn(t, t.Context(), agent.Options{})
		if err := p.out.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := wait(); err == nil {
			t.Fatal("the turn ended well")
		}
		if names := p.names(); !strings.HasSuffix(names, agent.EventTurnEndedWithError) {
			t.Fatalf("events: %s", names)
		}
	}
}

// TestModelOfTheThread checks that the model is the one in the answer to thread/start.
func TestModelOfTheThread(t *testing.T) {
	s, p := connect(t, agent.Options{})
	go func() {
		p.hear() // initialize
		p.say(initialized1)
		p.hear() // initialized
		p.hear() // thread/start
		p.say(`{"id":2,"result":{"thread":{"id":"th","model":"other"},"model":"gpt-a"}}`)
		p.rest()
	}()
	if _, err := s.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.Model(); got != "" {
		t.Errorf("before the thread is there the model is %q", got)
	}
	if _, err := s.StartThread(t.Context(), agent.ThreadParams{Cwd: "/w"}); err != nil {
		t.Fatal(err)
	}
	if got := s.Model(); got != "gpt-a" {
		t.Errorf("the model is %q", got)
	}
}

// TestModelRerouted checks that models to which codex reroutes the thread are added, without those of sub-agents.
func TestModelRerouted(t *testing.T) {
	s, p, wait := inTurn(t, t.Context(), agent.Options{})
	go p.rest()
	p.say(
		`{"method":"model/rerouted","params":{"threadId":"th","turnId":"tu","fromModel":"gpt-a","toModel":"gpt-b","reason":"highRiskCyberActivity"}}`,
		`{"method":"model/rerouted","params":{"threadId":"th","turnId":"tu","fromModel":"gpt-a","toModel":"gpt-b","reason":"highRiskCyberActivity"}}`,
		`{"method":"model/rerouted","params":{"threadId":"sub","turnId":"x","fromModel":"gpt-a","toModel":"gpt-c","reason":"highRiskCyberActivity"}}`,
		`{"method":"model/rerouted","params":{"threadId":"th","turnId":"tu","fromModel":"gpt-b","toModel":"gpt-d","reason":"highRiskCyberActivity"}}`,
		turnCompleted,
	)
	if _, err := wait(); err != nil {
		t.Fatal(err)
	}
	if got := s.Model(); got != "gpt-b+gpt-d" { // this answer to thread/start named none
		t.Errorf("the models are %q", got)
	}
}
