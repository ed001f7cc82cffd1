package githubtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// Issue is an issue. AddIssue gives empty fields a default.
type Issue struct {
	Repository string // owner/name; the server's first if empty
	Number     int    // the next if 0
	ID         int64
	Title      string
	Body       string
	State      string // open or closed; open if empty
	// why it is in this state: completed, not_planned, duplicate, reopened or empty
	Reason string
	Labels []string // created if they do not exist
	// login of the user who sets new labels; the first user if empty
	LabeledBy string
	Assignees []string // logins
	Author    string   // login; the first user if empty
	// other issues, as owner/name#NUMBER; #NUMBER is accepted within the same repository
	BlockedBy []string
	Comments  []Comment
	CreatedAt time.Time
	UpdatedAt time.Time
	ClosedAt  time.Time
	Deleted   bool
	Pull      bool   // it is a pull request, as every pull request is an issue too
	MovedTo   string // the issue that it was transferred to, as owner/name#NUMBER

	labeled []labelEvent // the labels that were set, the oldest first
}

// labelEvent says that a label was set.
type labelEvent struct {
	id    int64
	label string // its node id
	by    string // login
	at    time.Time
}

// Comment is a comment of an issue.
type Comment struct {
	ID                   int64
	Author               string // login; the first user if empty
	Body                 string
	CreatedAt, UpdatedAt time.Time // now if zero
}

// Ref is the issue's name: owner/name#NUMBER.
func (i *Issue) Ref() string { return fmt.Sprint(i.Repository, "#", i.Number) }

func (i *Issue) clone() Issue {
	c := *i
	c.Labels = slices.Clone(i.Labels)
	c.Assignees = slices.Clone(i.Assignees)
	c.BlockedBy = slices.Clone(i.BlockedBy)
	c.Comments = slices.Clone(i.Comments)
	return c
}

// find returns an issue of a repository by its number; nil if it never existed.
func (r *repository) find(number int) *Issue {
	return text.First(r.issues, func(i *Issue) bool { return i.Number == number })
}

// lookUp returns an issue by owner/name#12, #12, 12 or GH-12; the last three are in the
// repository in, or in the first repository.
func (d *data) lookUp(ref, in string) (*Issue, error) {
	name, digits, cut := strings.Cut(ref, "#")
	if !cut {
		name = ""
		digits = strings.TrimPrefix(ref, "GH-")
	}
	number, _ := strconv.Atoi(digits)
	if r := d.repository(cmp.Or(name, in, d.repos[0].name)); r != nil {
		if i := r.find(number); i != nil && i.exists() {
			return i, nil
		}
	}
	return nil, fmt.Errorf("there is no issue %q", ref)
}

func (i *Issue) exists() bool { return !i.Deleted && i.MovedTo == "" }

// AddIssue creates an issue and returns it with all fields set.
func (s *Server) AddIssue(given Issue) (Issue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, err := s.add(s.repository(cmp.Or(given.Repository, s.repos[0].name)), given)
	if err != nil {
		return Issue{}, err
	}
	return i.clone(), nil
}

func (d *data) add(r *repository, given Issue) (*Issue, error) {
	number := cmp.Or(given.Number, r.newest+1)
	if r.find(number) != nil {
		return nil, fmt.Errorf("number %d of %s is taken", number, r.name)
	}
	i := &Issue{
		Repository: r.name,
		Number:     number,
		ID:         d.id(),
		Author:     cmp.Or(given.Author, users[0]),
		Pull:       given.Pull,
	}
	i.CreatedAt = atSecond(cmp.Or(given.CreatedAt, d.now()))
	given.State = cmp.Or(given.State, "open")
	if err := d.edit(i, given); err != nil {
		return nil, err
	}
	for _, c := range given.Comments {
		d.addComment(i, c)
	}
	i.UpdatedAt = atSecond(cmp.Or(given.UpdatedAt, i.CreatedAt))
	r.newest = max(r.newest, number)
	r.issues = append(r.issues, i)
	return i, nil
}

// atSecond rounds a time down to seconds, as GitHub does.
func atSecond(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// edit sets title, body, state, reason, labels, assignees and blockers of an issue as in want,
// or changes nothing.
func (d *data) edit(i *Issue, want Issue) error {
	blockers := []string{}
	for _, ref := range want.BlockedBy {
		b, err := d.lookUp(ref, i.Repository)
		if err != nil || b == i {
			return fmt.Errorf("%q can't block this issue", ref)
		}
		blockers = append(blockers, b.Ref())
	}
	switch {
	case strings.TrimSpace(want.Title) == "":
		return fmt.Errorf("an issue needs a title")
	case want.State == i.State:
	case want.State == "closed":
		i.ClosedAt = d.now()
		want.Reason = cmp.Or(want.Reason, "completed")
	case i.State != "":
		i.ClosedAt = time.Time{}
		want.Reason = "reopened"
	}
	d.relabel(i, want.Labels, cmp.Or(want.LabeledBy, users[0]))
	i.Title = want.Title
	i.Body = want.Body
	i.State = want.State
	i.Reason = want.Reason
	i.Assignees = want.Assignees
	i.BlockedBy = blockers
	i.UpdatedAt = d.now()
	return nil
}

// relabel sets the labels of an issue. New labels become events.
func (d *data) relabel(i *Issue, want []string, by string) {
	r := d.repository(i.Repository)
	labels := text.Unique(text.Map(want, func(name string) string { return r.label(name, d.now()) }))
	for _, name := range labels {
		if !slices.Contains(i.Labels, name) {
			i.labeled = append(i.labeled, labelEvent{
				id:    d.id(),
				label: r.labelID(name),
				by:    by,
				at:    d.now(),
			})
		}
	}
	i.Labels = labels
}

func (d *data) addComment(i *Issue, c Comment) Comment {
	d.comment++
	c.ID = int64(d.comment)
	c.Author = cmp.Or(c.Author, users[0])
	c.CreatedAt = atSecond(cmp.Or(c.CreatedAt, d.now()))
	c.UpdatedAt = atSecond(cmp.Or(c.UpdatedAt, c.CreatedAt))
	i.Comments = append(i.Comments, c)
	i.UpdatedAt = d.now()
	return c
}

// onIssue calls f with an issue under the lock. All methods take references as owner/name#12,
// or #12, 12 or GH-12 for an issue of the first repository.
func (d *data) onIssue(ref string, f func(*Issue) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, err := d.lookUp(ref, "")
	if err != nil {
		return err
	}
	return f(i)
}

// Issue returns an issue.
func (s *Server) Issue(ref string) (found Issue, err error) {
	err = s.onIssue(ref, func(i *Issue) error { found = i.clone(); return nil })
	return found, err
}

// Edit calls change with a copy of the issue, and applies the changes of title, body, state,
// reason, labels, assignees and blockers, all or none.
func (s *Server) Edit(ref string, change func(*Issue)) error {
	return s.onIssue(ref, func(i *Issue) error {
		want := i.clone()
		change(&want)
		return s.edit(i, want)
	})
}

// Move closes or opens an issue; opens it in a column of the board; or opens it with a label
// instead of all its StateLabels.
func (s *Server) Move(ref, state string) error {
	column := false
	err := s.onIssue(ref, func(i *Issue) error {
		column = s.board.column(state) >= 0
		if column {
			s.place(i, state)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.Edit(ref, func(i *Issue) {
		i.State = "open"
		if state == "open" || state == "closed" {
			i.State = state
		}
		if state == i.State || column {
			return
		}
		i.Labels = append(slices.DeleteFunc(i.Labels, labels(s.StateLabels).has), state)
	})
}

type labels []string

func (l labels) has(label string) bool {
	return slices.ContainsFunc(l, func(l string) bool { return strings.EqualFold(l, label) })
}

// State returns the state of an issue: closed, its column on the board, the first of its
// StateLabels, or open.
func (s *Server) State(ref string) (state string, err error) {
	err = s.onIssue(ref, func(i *Issue) error {
		state = i.State
		if state == "open" {
			state = cmp.Or(text.First(i.Labels, labels(s.StateLabels).has), state)
			if it := s.board.find(i); it != nil {
				state = cmp.Or(it.column, state)
			}
		}
		return nil
	})
	return state, err
}

// Comment adds a comment to an issue; author is a login, or empty for the first user.
func (s *Server) Comment(ref, author, body string) (made Comment, err error) {
	err = s.onIssue(ref, func(i *Issue) error {
		made = s.addComment(i, Comment{
			Author: author,
			Body:   body,
		})
		return nil
	})
	return made, err
}

// Block makes an issue depend on others.
func (s *Server) Block(ref string, blockers ...string) error {
	return s.Edit(ref, func(i *Issue) { i.BlockedBy = append(i.BlockedBy, blockers...) })
}

// Delete deletes an issue and all references to it.
func (s *Server) Delete(ref string) error {
	return s.onIssue(ref, func(i *Issue) error {
		i.Deleted = true
		for _, r := range s.repos {
			for _, x := range r.issues {
				x.BlockedBy = slices.DeleteFunc(x.BlockedBy, func(b string) bool { return b == i.Ref() })
			}
		}
		return nil
	})
}

// Transfer moves an issue to another repository, where it gets the next number, and returns
// its new reference.
func (s *Server) Transfer(ref, repository string) (to string, err error) {
	err = s.onIssue(ref, func(i *Issue) error {
		given := i.clone()
		given.Number = 0
		made, err := s.add(s.repository(repository), given)
		if err != nil {
			return err
		}
		i.MovedTo = made.Ref()
		to = made.Ref()
		return nil
	})
	return to, err
}

func (d *data) blockers(i *Issue) (list []*Issue) {
	for _, ref := range i.BlockedBy {
		if b, err := d.lookUp(ref, ""); err == nil {
			list = append(list, b)
		}
	}
	return list
}

func (d *data) issueObject(i *Issue) object {
	r := d.repository(i.Repository)
	o := object{
		"id":                         i.ID,
		"node_id":                    nodeID("I", i.ID),
		"number":                     i.Number,
		"title":                      i.Title,
		"body":                       text.OrNull(i.Body),
		"state":                      i.State,
		"state_reason":               text.OrNull(i.Reason),
		"html_url":                   fmt.Sprint(siteURL, r.name, "/issues/", i.Number),
		"repository_url":             r.url(),
		"user":                       userObject(i.Author),
		"labels":                     text.Map(i.Labels, r.labelObject),
		"assignees":                  text.Map(i.Assignees, userObject),
		"comments":                   len(i.Comments),
		"created_at":                 stamp(i.CreatedAt),
		"updated_at":                 stamp(i.UpdatedAt),
		"closed_at":                  stamp(i.ClosedAt),
		"issue_dependencies_summary": object{"total_blocked_by": len(d.blockers(i))},
	}
	if i.Pull {
		o["html_url"] = fmt.Sprint(siteURL, r.name, "/pull/", i.Number)
		o["pull_request"] = object{"html_url": o["html_url"]}
	}
	return o
}

func nodeID(kind string, id int64) string { return fmt.Sprint(kind, "_kwDO", id) }

func commentObject(i *Issue, c Comment) object {
	return object{
		"id":         c.ID,
		"node_id":    nodeID("IC", c.ID),
		"body":       c.Body,
		"user":       userObject(c.Author),
		"html_url":   fmt.Sprint(siteURL, i.Repository, "/issues/", i.Number, "#issuecomment-", c.ID),
		"created_at": stamp(c.CreatedAt),
		"updated_at": stamp(c.UpdatedAt),
	}
}
