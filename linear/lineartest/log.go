package lineartest

import (
	"slices"
	"time"
)

// Entry is one GraphQL request that was received. The key is not in it.
type Entry struct {
	At         time.Time      `json:"at"`
	Type       string         `json:"type"`      // query or mutation; empty where it did not parse
	Operation  string         `json:"operation"` // its name
	Fields     []string       `json:"fields"`    // asked for at the top
	Query      string         `json:"query"`
	Variables  map[string]any `json:"variables"`
	Complexity int            `json:"complexity"`
	// Status is that of the answer, 0 while there is none (and for good, where the connection was closed).
	Status  int      `json:"status"`
	Errors  []string `json:"errors"`
	Failure string   `json:"failure"` // the kind of Failure that was applied
}

// maxLog bounds the log of a demo that runs for days.
const maxLog = 10000

// Log returns the requests in the order in which they came, the last 10,000 at most.
func (s *Server) Log() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Entry, len(s.log))
	for i, e := range s.log {
		all[i] = *e
	}
	return all
}

// Mutations returns those entries of the log that changed something, or tried to.
func (s *Server) Mutations() []Entry {
	return slices.DeleteFunc(s.Log(), func(e Entry) bool { return e.Type != "mutation" })
}

// ClearLog forgets the requests so far.
func (s *Server) ClearLog() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// record adds an entry; the lock is held.
func (s *Server) record(e *Entry) {
	if len(s.log) >= maxLog {
		s.log = slices.Delete(s.log, 0, len(s.log)-maxLog+1)
	}
	s.log = append(s.log, e)
}
