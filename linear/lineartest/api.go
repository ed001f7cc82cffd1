package lineartest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// AddIssue creates an issue and returns it with all fields set.
func (s *Server) AddIssue(i Issue) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := s.w.add(i)
	if err != nil {
		return Issue{}, err
	}
	return s.w.public(made), nil
}

// Issue returns an issue by identifier or id.
func (s *Server) Issue(identifier string) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.mustFind(identifier)
	if err != nil {
		return Issue{}, err
	}
	return s.w.public(i), nil
}

// Issues returns all issues, archived ones included, oldest first.
func (s *Server) Issues() []Issue {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Issue{}
	for _, i := range s.w.issues {
		all = append(all, s.w.public(i))
	}
	return all
}

// Move changes the state of an issue.
func (s *Server) Move(identifier, state string) error {
	return s.Edit(identifier, func(i *Issue) { i.State = state })
}

// Edit lets change alter a copy of the issue, and applies what it altered, or nothing. Id, identifier, team, URL, times,
// comments and links stay as they are.
func (s *Server) Edit(identifier string, change func(*Issue)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.mustFind(identifier)
	if err != nil {
		return err
	}
	want := s.w.public(i)
	change(&want)
	return s.w.edit(i, want)
}

// Comment adds a comment to an issue; author is an email, or empty for the key's user.
func (s *Server) Comment(identifier, author, body string) (Comment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.mustFind(identifier)
	if err != nil {
		return Comment{}, err
	}
	return s.w.comment(i, Comment{Author: author, Body: body})
}

// Comments returns the comments of an issue, oldest first.
func (s *Server) Comments(identifier string) ([]Comment, error) {
	i, err := s.Issue(identifier)
	return i.Comments, err
}

// Remove deletes an issue, or hides it from the key's user.
func (s *Server) Remove(identifier string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.mustFind(identifier)
	if err != nil {
		return err
	}
	s.w.remove(i)
	return nil
}

// History returns the changes of an issue since it was created, oldest first.
func (s *Server) History(identifier string) ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.mustFind(identifier)
	if err != nil {
		return nil, err
	}
	return append([]Change{}, i.history...), nil
}

// StateID is the id of a team's workflow state, which a mutation needs to move an issue.
func (s *Server) StateID(team, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.w.team(team); t != nil {
		if state, ok := t.state(name); ok {
			return stateID(t.Key, state.Name), nil
		}
	}
	return "", fmt.Errorf("team %s has no state %q", team, name)
}

// control adds the API for other processes. Bodies and answers are JSON; an error is HTTP 400 with {"error": "…"}. It
// needs no key, so requests of browsers are refused.
//
//	GET  /control/issues       all issues
//	GET  /control/log          the requests
//	POST /control/move         {"identifier", "state"}
//	POST /control/fail         a Failure
//	POST /control/fail/clear   ends all failures
//	POST /control/seed         a Seed, which replaces the workspace
func (s *Server) control() {
	handle := func(pattern string, answer func(decode func(any) error) (any, error)) {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			decode := func(v any) error {
				d := json.NewDecoder(io.LimitReader(r.Body, maxControl))
				d.DisallowUnknownFields()
				return d.Decode(v)
			}
			var out any
			err := errors.New("not for browsers")
			if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
				out, err = answer(decode)
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				out = map[string]string{"error": err.Error()}
			}
			_ = json.NewEncoder(w).Encode(out) // a client that has gone needs no answer
		})
	}
	done := struct{}{}
	handle("GET /control/issues", func(func(any) error) (any, error) { return s.Issues(), nil })
	handle("GET /control/log", func(func(any) error) (any, error) { return s.Log(), nil })
	handle("POST /control/move", func(decode func(any) error) (any, error) {
		var in struct{ Identifier, State string }
		if err := decode(&in); err != nil {
			return nil, err
		}
		return done, s.Move(in.Identifier, in.State)
	})
	handle("POST /control/fail", func(decode func(any) error) (any, error) {
		var f Failure
		if err := decode(&f); err != nil {
			return nil, err
		}
		return done, s.Fail(f)
	})
	handle("POST /control/fail/clear", func(func(any) error) (any, error) { s.ClearFailures(); return done, nil })
	handle("POST /control/seed", func(decode func(any) error) (any, error) {
		var seed Seed
		if err := decode(&seed); err != nil {
			return nil, err
		}
		return done, s.Load(seed)
	})
}

const maxControl = 256 << 20 // a seed of many thousand issues
