package gitlabtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// Issue is an issue. AddIssue gives empty fields a default.
type Issue struct {
	Project   string // group/project; the server's first if empty
	Number    int    // the next if 0
	ID        int64
	Title     string
	Body      string
	State     string // opened or closed; opened if empty
	Type      string // issue, incident, task and others; issue if empty
	Labels    []string
	Assignees []string // logins
	Author    string   // login; Operator if empty
	Blockers  []string // other issues, as group/project#NUMBER, or #NUMBER within the same project
	MovedTo   int64    // the id of the issue that continues it
	CreatedAt time.Time
	UpdatedAt time.Time
	ClosedAt  time.Time
	Deleted   bool
	// Confidential: only its author and people with the role Planner or a higher one see it.
	Confidential bool
	Notes        []*Note
}

const (
	opened = "opened"
	closed = "closed"
)

// find returns an issue of a project by its number; nil if there is none.
func (p *project) find(number int) *Issue {
	return text.First(p.issues, func(i *Issue) bool { return i.Number == number && !i.Deleted })
}

// lookUp returns an issue by group/project#12, or by #12, 12 or GL-12 in a project.
func (s *Server) lookUp(ref, in string) (*Issue, error) {
	name, digits, cut := strings.Cut(ref, "#")
	if !cut {
		name = ""
		digits = strings.TrimPrefix(ref, "GL-")
	}
	number, _ := strconv.Atoi(digits)
	p := s.projectOf(cmp.Or(name, in))
	if p != nil {
		if i := p.find(number); i != nil {
			return i, nil
		}
	}
	return nil, fmt.Errorf("there is no issue %q", ref)
}

// AddIssue creates an issue and returns it with all fields set.
func (s *Server) AddIssue(given Issue) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.projectOf(given.Project)
	i, err := s.add(p, given)
	if err != nil {
		return Issue{}, err
	}
	return *i, nil
}

func (s *Server) add(p *project, given Issue) (*Issue, error) {
	i := given
	i.Project = p.name
	i.Number = cmp.Or(given.Number, p.newest+1)
	i.ID = s.id()
	i.State = cmp.Or(given.State, opened)
	i.Type = cmp.Or(given.Type, "issue")
	i.Author = cmp.Or(given.Author, Operator)
	i.CreatedAt = cmp.Or(given.CreatedAt, s.now())
	i.UpdatedAt = cmp.Or(given.UpdatedAt, i.CreatedAt)
	i.Labels = nil
	if p.find(i.Number) != nil {
		return nil, fmt.Errorf("number %d of %s is taken", i.Number, p.name)
	}
	s.relabel(p, &i, given.Labels, nil)
	p.newest = max(p.newest, i.Number)
	p.issues = append(p.issues, &i)
	return &i, nil
}

// relabel adds labels to an issue, which are made if they do not exist, and removes others. Of
// scoped labels, such as status::doing, an issue has one at most, unless the tier is the free one.
func (s *Server) relabel(p *project, i *Issue, add, remove []string) {
	for _, l := range add {
		p.label(l)
		if slices.Contains(i.Labels, l) {
			continue
		}
		if at := strings.LastIndex(l, "::"); at >= 0 && !s.Free {
			scope := l[:at+2]
			i.Labels = slices.DeleteFunc(i.Labels, func(other string) bool {
				return strings.HasPrefix(other, scope) && !strings.Contains(other[len(scope):], "::")
			})
		}
		i.Labels = append(i.Labels, l)
	}
	i.Labels = slices.DeleteFunc(i.Labels, func(l string) bool { return slices.Contains(remove, l) })
	slices.Sort(i.Labels)
}

// onIssue calls f with an issue under the lock. All methods take references as group/project#12,
// or #12, 12 or GL-12 for an issue of the first project.
func (s *Server) onIssue(ref string, f func(*project, *Issue)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.lookUp(ref, "")
	if err != nil {
		return err
	}
	f(s.projectOf(i.Project), i)
	return nil
}

// Edit calls change with an issue.
func (s *Server) Edit(ref string, change func(*Issue)) error {
	return s.onIssue(ref, func(_ *project, i *Issue) {
		change(i)
		i.UpdatedAt = s.now()
	})
}

// Move closes or opens an issue, or opens it with a label instead of all its StateLabels.
func (s *Server) Move(ref, state string) error {
	return s.onIssue(ref, func(p *project, i *Issue) {
		i.setState(opened, s.now())
		if state == opened || state == closed {
			i.setState(state, s.now())
			if state == closed {
				return
			}
		}
		others := text.Filter(s.StateLabels, func(l string) bool { return l != state })
		var add []string
		if state != opened {
			add = []string{state}
		}
		s.relabel(p, i, add, others)
	})
}

func (i *Issue) setState(state string, now time.Time) {
	i.UpdatedAt = now
	i.State = state
	i.ClosedAt = time.Time{}
	if state == closed {
		i.ClosedAt = now
	}
}

// State returns the state of an issue: closed, the first of its StateLabels, or opened.
func (s *Server) State(ref string) (state string, err error) {
	err = s.onIssue(ref, func(_ *project, i *Issue) {
		state = i.State
		if state == opened {
			has := func(l string) bool { return slices.Contains(i.Labels, l) }
			state = cmp.Or(text.First(s.StateLabels, has), state)
		}
	})
	return state, err
}

// Issue returns an issue.
func (s *Server) Issue(ref string) (found Issue, err error) {
	err = s.onIssue(ref, func(_ *project, i *Issue) { found = *i })
	return found, err
}

// Block lets issues block an issue.
func (s *Server) Block(ref string, blockers ...string) error {
	return s.onIssue(ref, func(p *project, i *Issue) {
		for _, b := range blockers {
			if !strings.Contains(b, "#") {
				b = "#" + strings.TrimPrefix(b, "GL-")
			}
			i.Blockers = append(i.Blockers, b)
			s.addNote(&i.Notes, Note{Body: "marked this issue as blocked by " + b, System: true})
		}
		i.UpdatedAt = s.now()
	})
}

// Delete deletes an issue.
func (s *Server) Delete(ref string) error {
	return s.onIssue(ref, func(_ *project, i *Issue) { i.Deleted = true })
}

func (c *call) issueObject(i *Issue) object {
	p := c.projectOf(i.Project)
	o := object{
		"id":                     i.ID,
		"iid":                    i.Number,
		"project_id":             p.id,
		"title":                  i.Title,
		"description":            text.OrNull(i.Body),
		"state":                  i.State,
		"created_at":             stamp(i.CreatedAt),
		"updated_at":             stamp(i.UpdatedAt),
		"closed_at":              stamp(i.ClosedAt),
		"closed_by":              nil,
		"labels":                 append([]string{}, i.Labels...),
		"milestone":              nil,
		"assignees":              text.Map(i.Assignees, userObject),
		"author":                 userObject(i.Author),
		"type":                   strings.ToUpper(i.Type),
		"assignee":               nil,
		"user_notes_count":       len(text.Filter(i.Notes, func(n *Note) bool { return !n.System })),
		"merge_requests_count":   0,
		"upvotes":                0,
		"downvotes":              0,
		"due_date":               nil,
		"confidential":           i.Confidential,
		"discussion_locked":      nil,
		"issue_type":             i.Type,
		"web_url":                fmt.Sprint(c.URL(), "/", p.name, "/-/issues/", i.Number),
		"task_completion_status": object{"count": 0, "completed_count": 0},
		"blocking_issues_count":  0,
		"has_tasks":              false,
		"references": object{
			"short":    fmt.Sprint("#", i.Number),
			"relative": fmt.Sprint("#", i.Number),
			"full":     fmt.Sprint(p.name, "#", i.Number),
		},
		"severity":              "UNKNOWN",
		"moved_to_id":           nil,
		"imported":              false,
		"imported_from":         "none",
		"service_desk_reply_to": nil,
	}
	if len(i.Assignees) > 0 {
		o["assignee"] = userObject(i.Assignees[0])
	}
	if i.MovedTo != 0 {
		o["moved_to_id"] = i.MovedTo
	}
	if !c.Free {
		o["weight"] = nil
		o["epic_iid"] = nil
		o["epic"] = nil
		o["iteration"] = nil
		o["health_status"] = nil
	}
	return o
}

// listIssues answers the issues that the query selects, the newest first unless it says otherwise.
// hidesIssues reports whether the account sees no issue.
func (c *call) hidesIssues() bool {
	return c.NoIssues || c.Private && c.Outsider && c.user == Operator
}

// hides reports whether the account does not see an issue.
func (c *call) hides(i *Issue) bool {
	const planner = 15
	return c.hidesIssues() || i.Confidential && c.user != i.Author && c.level(c.user) < planner
}

func (c *call) listIssues() answer {
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "all")
	since, err := time.Parse(time.RFC3339, cmp.Or(q.Get("updated_after"), "1970-01-01T00:00:00Z"))
	if err != nil {
		return unfit("updated_after is invalid")
	}
	list := text.Filter(c.project.issues, func(i *Issue) bool {
		return !i.Deleted && !c.hides(i) &&
			(state == "all" || i.State == state) &&
			(q.Get("issue_type") == "" || q.Get("issue_type") == i.Type) &&
			(!q.Has("iids[]") || slices.Contains(q["iids[]"], strconv.Itoa(i.Number))) &&
			!i.UpdatedAt.Before(since)
	})
	slices.SortStableFunc(list, func(a, b *Issue) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), b.Number-a.Number)
	})
	if q.Get("sort") == "asc" {
		slices.Reverse(list)
	}
	return page(c, list, c.issueObject)
}

func (c *call) createIssue() answer {
	var asked struct {
		Title       string
		Description string
		Labels      []string
	}
	c.decode(&asked)
	if strings.TrimSpace(asked.Title) == "" {
		return problem(http.StatusBadRequest, object{"title": []string{"can't be blank"}})
	}
	body, commands := extract(asked.Description)
	i, err := c.add(c.project, Issue{
		Title:  asked.Title,
		Body:   body,
		Labels: asked.Labels,
		Author: c.user,
	})
	if err != nil {
		panic(err)
	}
	c.carryOut(i, commands)
	return made(c.issueObject(i))
}

func (c *call) editIssue() answer {
	var asked struct {
		Title, Description *string
		Labels             *[]string
		Add                []string `json:"add_labels"`
		Remove             []string `json:"remove_labels"`
		Event              string   `json:"state_event"`
	}
	c.decode(&asked)
	i := c.issue
	switch asked.Event {
	case "close":
		i.setState(closed, c.now())
	case "reopen":
		i.setState(opened, c.now())
	}
	replace(&i.Title, asked.Title)
	if asked.Description != nil {
		body, commands := extract(*asked.Description)
		i.Body = body
		c.carryOut(i, commands)
	}
	if asked.Labels != nil {
		kept := *asked.Labels
		asked.Add = append(asked.Add, kept...)
		gone := text.Filter(i.Labels, func(l string) bool { return !slices.Contains(kept, l) })
		asked.Remove = append(asked.Remove, gone...)
	}
	c.relabel(c.project, i, asked.Add, asked.Remove)
	i.UpdatedAt = c.now()
	return ok(c.issueObject(i))
}

// replace sets a field to the value of a request, unless the request lacks it.
func replace[T any](field, asked *T) {
	if asked != nil {
		*field = *asked
	}
}

// listLinks answers the issues that are linked with an issue: those that block it, and those that
// it blocks.
func (c *call) listLinks() answer {
	var list []object
	add := func(i *Issue, kind string) {
		o := c.issueObject(i)
		o["issue_link_id"] = i.ID
		o["link_type"] = kind
		o["link_created_at"] = stamp(i.CreatedAt)
		o["link_updated_at"] = stamp(i.UpdatedAt)
		list = append(list, o)
	}
	kind := "is_blocked_by"
	if c.Free {
		kind = "relates_to"
	}
	for _, ref := range c.issue.Blockers {
		if b, err := c.lookUp(ref, c.issue.Project); err == nil {
			add(b, kind)
		}
	}
	for _, other := range c.project.issues {
		if other.Deleted {
			continue
		}
		for _, ref := range other.Blockers {
			if b, err := c.lookUp(ref, other.Project); err == nil && b == c.issue {
				add(other, strings.Replace(kind, "is_blocked_by", "blocks", 1))
			}
		}
	}
	return ok(append([]object{}, list...))
}
