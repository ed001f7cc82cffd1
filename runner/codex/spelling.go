package codex

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// formerly are the words of approval policies and sandboxes as releases up to 0.66 wrote them.
func formerly() map[string]string {
	return map[string]string{
		"untrusted": "unlessTrusted", "on-failure": "onFailure", "on-request": "onRequest",
		"read-only": "readOnly", "workspace-write": "workspaceWrite", "danger-full-access": "dangerFullAccess",
	}
}

// FormerWord is how older releases wrote a word of today's, which the session finds out by itself; "" where they wrote
// it no other way.
func FormerWord(word string) string { return formerly()[word] }

const unknownVariant = "unknown variant `([^`]*)`, expected (.*)"

// spelledBy finds in a refusal the word that was refused, and the spelling of it that this codex knows.
func spelledBy(refusal string) (refused, known string, ok bool) {
	m := regexp.MustCompile(unknownVariant).FindStringSubmatch(refusal)
	if m == nil {
		return "", "", false
	}
	known = formerly()[m[1]]
	return m[1], known, known != "" && strings.Contains(m[2], "`"+known+"`")
}

// learnSpelling takes the spelling of a word from a refusal; false where that names none, or one that was known.
func (s *Session) learnSpelling(refusal *wireError) bool {
	if refusal == nil {
		return false
	}
	refused, known, ok := spelledBy(refusal.Message)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spelled[refused] == known {
		return false
	}
	if s.spelled == nil {
		s.spelled = make(map[string]string)
	}
	s.spelled[refused] = known
	return true
}

// spell writes a word as this codex does; anything else, an object say, stays as it is.
func (s *Session) spell(raw json.RawMessage) json.RawMessage {
	var word string
	if json.Unmarshal(raw, &word) != nil {
		return raw
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.spelled[word]; ok {
		return json.RawMessage(strconv.Quote(known))
	}
	return raw
}

// olderThan says whether the agent is a release before 0.minor.
func (s *Session) olderThan(minor int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return olderThan(s.version, minor)
}

// olderThan is false for a version that can't be read: it is taken for a new one.
func olderThan(version string, minor int) bool {
	parts := strings.Split(version, ".")
	if len(parts) < 2 || parts[0] != "0" {
		return false
	}
	its, err := strconv.Atoi(parts[1])
	return err == nil && its < minor
}
