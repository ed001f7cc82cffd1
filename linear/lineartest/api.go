package lineartest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Issue is an issue as callers, seeds and the control API see it. In AddIssue, what is empty gets a default.
type Issue struct {
	ID          string  `json:"id"`
	Identifier  string  `json:"identifier"` // TEAM-NUMBER; the team's next number if empty
	Title       string  `json:"title"`
	Description *string `json:"description"`
	State       string  `json:"state"`     // name; the team's first unstarted state if empty
	StateType   string  `json:"stateType"` // only read
	Team        string  `json:"team"`      // key; that of the identifier, or the first team
	Project     string  `json:"project"`   // slug id or name; the first project if empty, none if "none"
	Priority    int     `json:"priority"`  // 0 none, 1 urgent … 4 low
	Branch      string  `json:"branch"`    // made from identifier and title if empty
	URL         string  `json:"url"`       // only read
	// Labels are created where they do not exist.
	Labels    []string  `json:"labels"`
	Assignee  string    `json:"assignee"`  // email, id, name, or "me"; empty: nobody
	BlockedBy []string  `json:"blockedBy"` // identifiers
	CreatedAt time.Time `json:"createdAt"` // now if zero
	UpdatedAt time.Time `json:"updatedAt"`
	Archived  bool      `json:"archived"`
	Comments  []Comment `json:"comments"` // oldest first
}

// Comment is a comment of an issue.
type Comment struct {
	ID        string    `json:"id"`
	Author    string    `json:"author"` // email; the viewer's if empty
	Bot       string    `json:"bot"`    // the integration that wrote it instead of a user
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"createdAt"` // now if zero
}

// Change is one step in the history of an issue: of its field state, title, description, priority, labels,
// assignee, project, archived, blockedBy, comment or attachment.
type Change struct {
	At    time.Time `json:"at"`
	Field string    `json:"field"`
	From  string    `json:"from"`
	To    string    `json:"to"`
}

// AddIssue creates an issue and returns it with everything filled in.
func (s *Server) AddIssue(i Issue) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := s.w.addIssue(i)
	if err != nil {
		return Issue{}, err
	}
	return made.public(), nil
}

// Issue returns an issue by identifier or id.
func (s *Server) Issue(identifier string) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.issue(identifier)
	if err != nil {
		return Issue{}, err
	}
	return i.public(), nil
}

// Issues returns all issues, archived ones too, oldest first.
func (s *Server) Issues() []Issue {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Issue{}
	for _, i := range s.w.issues {
		all = append(all, i.public())
	}
	return all
}

// Move puts an issue into another state of its team, as somebody in Linear would.
func (s *Server) Move(identifier, state string) error {
	return s.Edit(identifier, func(i *Issue) { i.State = state })
}

// Edit lets change alter the issue and takes over what it altered. Id, identifier, team, url, creation time and
// comments stay as they are.
func (s *Server) Edit(identifier string, change func(*Issue)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.issue(identifier)
	if err != nil {
		return err
	}
	want := i.public()
	change(&want)
	return s.w.apply(i, want)
}

// Comment adds a comment to an issue; author is an email, or empty for the viewer.
func (s *Server) Comment(identifier, author, body string) (Comment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.issue(identifier)
	if err != nil {
		return Comment{}, err
	}
	c, err := s.w.addComment(i, Comment{Author: author, Body: body})
	if err != nil {
		return Comment{}, err
	}
	return c.public(), nil
}

// Comments returns the comments of an issue, oldest first.
func (s *Server) Comments(identifier string) ([]Comment, error) {
	i, err := s.Issue(identifier)
	return i.Comments, err
}

// Remove takes an issue away for good, as if it was deleted or hidden from the key's user.
func (s *Server) Remove(identifier string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.issue(identifier)
	if err != nil {
		return err
	}
	s.w.remove(i)
	return nil
}

// History returns what happened to an issue since it was created, oldest first.
func (s *Server) History(identifier string) ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.w.issue(identifier)
	if err != nil {
		return nil, err
	}
	return append([]Change{}, i.history...), nil
}

func (w *workspace) issue(identifier string) (*issue, error) {
	if i, ok := w.byID("Issue", identifier).(*issue); ok {
		return i, nil
	}
	return nil, fmt.Errorf("there is no issue %q", identifier)
}

func (i *issue) public() Issue {
	p := Issue{
		ID: i.id, Identifier: i.identifier(), Title: i.title, State: i.state.name, StateType: i.state.kind,
		Team: i.team.key, Project: "none", Priority: i.priority, Branch: i.branchName(), URL: i.get("url").(string),
		Labels: []string{}, BlockedBy: []string{}, Comments: []Comment{},
		CreatedAt: i.created, UpdatedAt: i.updated, Archived: !i.archived.IsZero(),
	}
	if i.description != nil {
		d := *i.description
		p.Description = &d
	}
	if i.project != nil {
		p.Project = i.project.slug
	}
	if i.assignee != nil {
		p.Assignee = i.assignee.email
	}
	for _, l := range i.labels {
		p.Labels = append(p.Labels, l.name)
	}
	for _, r := range i.w.relations {
		if r.to == i && r.kind == "blocks" {
			p.BlockedBy = append(p.BlockedBy, r.from.identifier())
		}
	}
	for _, c := range i.comments() {
		p.Comments = append(p.Comments, c.public())
	}
	return p
}

func (c *comment) public() Comment {
	p := Comment{ID: c.id, Bot: c.bot, Body: c.body, CreatedAt: c.created}
	if c.user != nil {
		p.Author = c.user.email
	}
	return p
}

// teamOf picks the team of a new issue and its number.
func (w *workspace) teamOf(p Issue) (*team, int, error) {
	key, number := p.Team, 0
	if p.Identifier != "" {
		prefix, rest, ok := strings.Cut(p.Identifier, "-")
		if _, err := fmt.Sscanf(rest, "%d", &number); !ok || err != nil || number < 1 || identifier(prefix, number) != p.Identifier {
			return nil, 0, fmt.Errorf("identifier %q is not of the form TEAM-NUMBER", p.Identifier)
		}
		if w.byID("Issue", p.Identifier) != nil {
			return nil, 0, fmt.Errorf("issue %s exists", p.Identifier)
		}
		key = prefix
	}
	t := w.teams[0]
	if key != "" {
		found, ok := w.byID("Team", key).(*team)
		if !ok {
			return nil, 0, fmt.Errorf("there is no team %q", key)
		}
		t = found
	}
	if number == 0 {
		number = t.number + 1
	}
	return t, number, nil
}

func (w *workspace) addIssue(p Issue) (*issue, error) {
	t, number, err := w.teamOf(p)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(p.Title) == "" {
		return nil, fmt.Errorf("an issue needs a title")
	}
	if p.ID != "" && w.byID("Issue", p.ID) != nil {
		return nil, fmt.Errorf("issue id %s exists", p.ID)
	}
	i := &issue{team: t, number: number, state: t.initial(), creator: w.viewer}
	i.w = w
	if p.Project == "" && len(w.projects) > 0 {
		p.Project = w.projects[0].slug
	}
	if p.State == "" {
		p.State = i.state.name
	}
	if err := w.check(i, p); err != nil {
		return nil, err
	}
	i.entity = w.entity("issue", p.ID)
	t.number = max(t.number, number)
	w.issues = append(w.issues, i)
	if err := w.apply(i, p); err != nil {
		w.remove(i)
		return nil, err
	}
	for _, c := range p.Comments {
		if _, err := w.addComment(i, c); err != nil {
			w.remove(i)
			return nil, err
		}
	}
	if !p.CreatedAt.IsZero() {
		i.created = p.CreatedAt.UTC()
		i.updated = i.created
	}
	if !p.UpdatedAt.IsZero() {
		i.updated = p.UpdatedAt.UTC()
	}
	i.history = nil
	return i, nil
}

func (w *workspace) addComment(i *issue, p Comment) (*comment, error) {
	author := w.viewer
	if p.Author != "" {
		if author = w.user(p.Author); author == nil {
			return nil, fmt.Errorf("there is no user %q", p.Author)
		}
	}
	if p.Bot != "" {
		author = nil
	}
	c := &comment{entity: w.entity("comment", p.ID), body: p.Body, bot: p.Bot, issue: i, user: author}
	if !p.CreatedAt.IsZero() {
		c.created = p.CreatedAt.UTC()
	}
	w.comments = append(w.comments, c)
	i.changed("comment", "", p.Body)
	return c, nil
}

func (w *workspace) findProject(name string) *project {
	n := slices.IndexFunc(w.projects, func(p *project) bool { return p.slug == name || p.id == name || strings.EqualFold(p.name, name) })
	if n < 0 {
		return nil
	}
	return w.projects[n]
}
