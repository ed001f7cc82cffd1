package lineartest

import (
	"fmt"
	"slices"
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

// onIssue calls f with an issue, found by identifier or id, under the lock.
func (s *Server) onIssue(ref string, f func(*issue) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.w.find(ref)
	if i == nil {
		return fmt.Errorf("there is no issue %q", ref)
	}
	return f(i)
}

// Issue returns an issue by identifier or id.
func (s *Server) Issue(identifier string) (found Issue, err error) {
	err = s.onIssue(identifier, func(i *issue) error { found = s.w.public(i); return nil })
	return found, err
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
	return s.onIssue(identifier, func(i *issue) error {
		want := s.w.public(i)
		change(&want)
		return s.w.edit(i, want)
	})
}

// Comment adds a comment to an issue; author is an email, or empty for the key's user.
func (s *Server) Comment(identifier, author, body string) (made Comment, err error) {
	err = s.onIssue(identifier, func(i *issue) error {
		made, err = s.w.comment(i, Comment{Author: author, Body: body})
		return err
	})
	return made, err
}

// Comments returns the comments of an issue, oldest first.
func (s *Server) Comments(identifier string) ([]Comment, error) {
	i, err := s.Issue(identifier)
	return i.Comments, err
}

// Remove deletes an issue, or hides it from the key's user.
func (s *Server) Remove(identifier string) error {
	return s.onIssue(identifier, func(i *issue) error { s.w.remove(i); return nil })
}

// History returns the changes of an issue since it was created, oldest first.
func (s *Server) History(identifier string) (changes []Change, err error) {
	err = s.onIssue(identifier, func(i *issue) error { changes = slices.Clone(i.history); return nil })
	return changes, err
}

// StateID is the id of a team's workflow state, which a mutation needs to move an issue.
func (s *Server) StateID(team, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.w.team(team); t != nil && t.state(name) >= 0 {
		return stateID(t.Key, t.States[t.state(name)].Name), nil
	}
	return "", fmt.Errorf("team %s has no state %q", team, name)
}
