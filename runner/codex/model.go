package codex

import (
	"encoding/json"
	"slices"
	"strings"
)

// Model is the model that codex gave the session's thread, "" where it did not
// say. Those that it went on with follow, each after a plus. Of the threads of
// sub-agents nobody asks.
func (s *Session) Model() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.models, "+")
}

// openedOn keeps the model of an answer to thread/start or thread/resume; mu is
// held.
func (s *Session) openedOn(result json.RawMessage) {
	var answer struct {
		Model string `json:"model"`
	}
	s.models = nil
	if json.Unmarshal(result, &answer) == nil && answer.Model != "" {
		s.models = []string{answer.Model}
	}
}

// rerouted keeps the model that codex goes on with.
func (s *Session) rerouted(thread, model string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if model != "" && (thread == "" || thread == s.thread) && !slices.Contains(s.models, model) {
		s.models = append(s.models, model)
	}
}
