package codex

import (
	"encoding/json"
	"time"
)

// rateLimit is the merged state of one limit, as decoded JSON.
type rateLimit map[string]any

// RateLimits is the latest state of the account's limits, in codex's own
// shape; nil if none was ever reported. Updates are sparse: a member that is
// null in one does not clear what an earlier one said.
func (s *Session) RateLimits() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limits[s.limitID]
	if limit == nil {
		return nil
	}
	raw, err := json.Marshal(limit)
	if err != nil {
		return nil // can't be: it was decoded from JSON
	}
	return raw
}

// mainLimit is the limit that counts for the agent; others are those of single
// models.
const mainLimit = "codex"

func (s *Session) updateLimits(raw json.RawMessage) {
	var update rateLimit
	if json.Unmarshal(raw, &update) != nil || update == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := update["limitId"].(string)
	if s.limits[id] == nil {
		s.limits[id] = rateLimit{}
	}
	merge(s.limits[id], update)
	if s.limits[mainLimit] != nil {
		id = mainLimit
	}
	s.limitID = id
}

// merge puts what update says over old, member by member.
func merge(old, update map[string]any) {
	for k, v := range update {
		sub, isObject := v.(map[string]any)
		was, wasObject := old[k].(map[string]any)
		switch {
		case v == nil:
			if _, there := old[k]; !there {
				old[k] = nil
			}
		case isObject && wasObject:
			merge(was, sub)
		default:
			old[k] = v
		}
	}
}

// resetsAt is when the windows that are used up come back: the latest of them,
// zero if none is known to be used up. mu is held.
func (s *Session) resetsAt() time.Time {
	var at time.Time
	for _, window := range []string{"primary", "secondary"} {
		w, _ := s.limits[s.limitID][window].(map[string]any)
		used, _ := w["usedPercent"].(float64)
		seconds, _ := w["resetsAt"].(float64)
		if used < 100 || seconds <= 0 {
			continue
		}
		at = later(at, time.Unix(int64(seconds), 0).UTC())
	}
	return at
}
