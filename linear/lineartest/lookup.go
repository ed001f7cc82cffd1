package lineartest

import (
	"fmt"
	"strings"
)

// StateID is the id of a team's workflow state, which a mutation needs to move an issue.
func (s *Server) StateID(key, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.w.byID("Team", key).(*team)
	if !ok {
		return "", fmt.Errorf("there is no team %q", key)
	}
	for _, st := range t.states {
		if strings.EqualFold(st.name, name) {
			return st.id, nil
		}
	}
	return "", fmt.Errorf("team %s has no state %q", key, name)
}
