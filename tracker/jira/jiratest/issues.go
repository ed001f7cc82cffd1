package jiratest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/adf"
)

// Issue is an issue to make.
type Issue struct {
	Key         string // the next one of the project if empty
	Summary     string
	Description string // in Markdown
	Status      string
	Priority    string // a name; empty for none
	Labels      []string
	Assignee    string // the id of an account; empty for none
	Created     time.Time
}

type issue struct {
	id, key, project string
	kind             string // the id of its type
	summary          string
	description      any // a document; nil for none
	status           Status
	priority         string
	labels           []string
	assignee         string
	created, updated time.Time
	blockers         []link
	comments         []*comment
}

// link says that another issue blocks the one with the link.
type link struct {
	id      string
	blocker *issue
}

type comment struct {
	id               int64
	author           string
	body             any
	created, updated time.Time
	properties       []any
	visibility       any  // nil for everybody
	isInternal       bool // of a service project
}

// Priorities are the priorities of a new site, the most urgent first.
var Priorities = []string{"Highest", "High", "Medium", "Low", "Lowest"}

func (s *Server) find(name string) (*issue, error) {
	name = s.renewed(name, s.Project)
	for _, i := range s.issues {
		if i.id == name || strings.EqualFold(i.key, name) {
			return i, nil
		}
	}
	return nil, fmt.Errorf("there is no issue %q", name)
}

func (s *Server) statusOf(name string) (Status, error) {
	for _, status := range s.statuses {
		if strings.EqualFold(status.Name, name) {
			return status, nil
		}
	}
	return Status{}, fmt.Errorf("there is no status %q", name)
}

// Add makes an issue in the project, and returns its id and key.
func (s *Server) Add(n Issue) (id, key string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.add(s.Project, n)
	if err != nil {
		return "", "", err
	}
	return i.id, i.key, nil
}

// AddElsewhere makes an issue in another project.
func (s *Server) AddElsewhere(n Issue) (id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.add("OTHER", n)
	if err != nil {
		return "", err
	}
	return i.id, nil
}

func (s *Server) add(project string, n Issue) (*issue, error) {
	status, err := s.statusOf(cmp.Or(n.Status, "Backlog"))
	if err != nil {
		return nil, err
	}
	s.last++
	s.numbers[project]++
	i := &issue{
		id:       fmt.Sprint(s.last),
		key:      cmp.Or(n.Key, fmt.Sprintf("%s-%d", project, s.numbers[project])),
		project:  project,
		kind:     "10100",
		summary:  n.Summary,
		status:   status,
		priority: n.Priority,
		labels:   slices.Clone(n.Labels),
		assignee: n.Assignee,
		created:  n.Created,
	}
	if i.created.IsZero() {
		i.created = s.Now()
	}
	i.updated = i.created
	if n.Description != "" {
		i.description = adf.Document(n.Description)
	}
	s.issues = append(s.issues, i)
	return i, nil
}

// Move gives an issue a status, as a person does it.
func (s *Server) Move(name, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return err
	}
	to, err := s.statusOf(status)
	if err != nil {
		return err
	}
	i.status = to
	i.updated = s.Now()
	return nil
}

// MoveAway moves an issue to the other project, where it gets another key.
func (s *Server) MoveAway(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return err
	}
	s.numbers["OTHER"]++
	i.project = "OTHER"
	i.key = fmt.Sprint("OTHER-", s.numbers["OTHER"])
	return nil
}

// Block makes an issue wait for another one.
func (s *Server) Block(name, blocker string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.block(name, blocker)
}

func (s *Server) block(name, blocker string) error {
	i, err := s.find(name)
	if err != nil {
		return err
	}
	by, err := s.find(blocker)
	if err != nil {
		return err
	}
	s.last++
	i.blockers = append(i.blockers, link{id: fmt.Sprint(s.last), blocker: by})
	return nil
}

// Delete removes an issue.
func (s *Server) Delete(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return err
	}
	s.issues = slices.DeleteFunc(s.issues, func(other *issue) bool { return other == i })
	return nil
}

// Comment comments on an issue in Markdown. A time that is zero is now.
func (s *Server) Comment(name, author, markdown string, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return err
	}
	if at.IsZero() {
		at = s.Now()
	}
	s.comment(i, author, adf.Document(markdown), at)
	return nil
}

func (s *Server) comment(i *issue, author string, body any, at time.Time) *comment {
	s.comments++
	made := &comment{id: int64(s.comments), author: author, body: body, created: at, updated: at}
	i.comments = append(i.comments, made)
	i.updated = at
	return made
}

// Restrict lets only a role see the newest comment of an issue, or makes it internal if role is
// empty. Visibility returns what it says about that.
func (s *Server) Restrict(name, role string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return err
	}
	last := i.comments[len(i.comments)-1]
	last.isInternal = role == ""
	if role != "" {
		last.visibility = map[string]any{"type": "role", "value": role, "identifier": role}
	}
	return nil
}

// Visibility is who sees the newest comment of an issue; nil for everybody.
func (s *Server) Visibility(name string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return i.comments[len(i.comments)-1].visibility, nil
}

// State is the name of an issue's status.
func (s *Server) State(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return "", err
	}
	return i.status.Name, nil
}

// Comments counts the comments of an issue.
func (s *Server) Comments(name string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return 0, err
	}
	return len(i.comments), nil
}

// Texts are the documents of an issue's comments, as Jira shows them.
func (s *Server) Texts(name string) ([]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.find(name)
	if err != nil {
		return nil, err
	}
	var texts []any
	for _, m := range i.comments {
		texts = append(texts, m.body)
	}
	return texts, nil
}
