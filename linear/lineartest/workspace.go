package lineartest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Seed describes a workspace. Parts that are left out come from DefaultSeed.
type Seed struct {
	Organization string        `json:"organization"`
	Users        []SeedUser    `json:"users"` // the first is the one whose key is used
	Teams        []SeedTeam    `json:"teams"`
	Projects     []SeedProject `json:"projects"`
	Labels       []string      `json:"labels"`
	Issues       []Issue       `json:"issues"` // oldest first; blockers may come later in the list
}

// SeedUser is a user of the workspace.
type SeedUser struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// SeedTeam is a team. Without states it gets Linear's usual ones.
type SeedTeam struct {
	Key    string      `json:"key"`
	Name   string      `json:"name"`
	States []SeedState `json:"states"`
}

// SeedState is a workflow state; Type is one of Linear's (backlog, unstarted, started, completed, canceled …).
type SeedState struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// SeedProject is a project. Without teams it belongs to all of them.
type SeedProject struct {
	Name   string   `json:"name"`
	SlugID string   `json:"slugId"`
	Teams  []string `json:"teams"`
}

// Issue is an issue as callers, seeds and the control API see it. AddIssue gives empty fields a default.
type Issue struct {
	ID          string    `json:"id"`
	Identifier  string    `json:"identifier"` // TEAM-NUMBER; the team's next number if empty
	Title       string    `json:"title"`
	Description *string   `json:"description"`
	State       string    `json:"state"`     // name; the team's first unstarted state if empty
	Team        string    `json:"team"`      // key; the one in the identifier, or the first team
	Project     string    `json:"project"`   // slug id; the first project if empty, no project if "none"
	Priority    int       `json:"priority"`  // 0 none, 1 urgent … 4 low
	Branch      string    `json:"branch"`    // made from identifier and title if empty
	URL         string    `json:"url"`       // only read
	Labels      []string  `json:"labels"`    // created if new
	Assignee    string    `json:"assignee"`  // email, id or "me"; empty: not assigned
	BlockedBy   []string  `json:"blockedBy"` // identifiers
	CreatedAt   time.Time `json:"createdAt"` // now if zero
	UpdatedAt   time.Time `json:"updatedAt"`
	Archived    bool      `json:"archived"`
	Comments    []Comment `json:"comments"` // oldest first
	Links       []string  `json:"links"`    // URLs of the attachments
}

// Comment is a comment of an issue.
type Comment struct {
	ID        string    `json:"id"`
	Author    string    `json:"author"` // email; the key's user if empty
	Bot       string    `json:"bot"`    // the integration that wrote it instead of a user
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"createdAt"` // now if zero
}

// Change is one step in the history of an issue. Field is state, title, description, priority, labels, assignee, project,
// archived, blockedBy, comment or attachment.
type Change struct {
	At    time.Time `json:"at"`
	Field string    `json:"field"`
	From  string    `json:"from"`
	To    string    `json:"to"`
}

// DefaultSeed is a workspace with one team ABC, one project with the slug id "demo", two users, and no issues.
func DefaultSeed() Seed {
	return Seed{
		Organization: "Example",
		Users:        []SeedUser{{Name: "Robin Doe", Email: "robin@example.com"}, {Name: "Kim Poe", Email: "kim@example.com"}},
		Teams:        []SeedTeam{{Key: "ABC", Name: "Alphabet"}},
		Projects:     []SeedProject{{Name: "Demo", SlugID: "demo"}},
		Labels:       []string{"Bug", "Feature"},
	}
}

var defaultStates = []SeedState{
	{"Backlog", "backlog"},
	{"Todo", "unstarted"},
	{"In Progress", "started"},
	{"In Review", "started"},
	{"Human Review", "started"},
	{"Rework", "started"},
	{"Merging", "started"},
	{"Done", "completed"},
	{"Closed", "completed"},
	{"Canceled", "canceled"},
	{"Duplicate", "canceled"},
}

// issue is an issue with its past. What it refers to (state, project, users, labels, blockers) exists.
type issue struct {
	Issue
	history []Change
}

// workspace is all the data, under the server's lock. Ids are derived from names or the order of creation, so that two
// runs agree.
type workspace struct {
	Seed
	now     func() time.Time
	seq     int
	issues  []*issue
	newest  map[string]int // number of the newest issue by team
	created time.Time
}

func newWorkspace(now func() time.Time, s Seed) (*workspace, error) {
	d := DefaultSeed()
	s.Organization = cmp.Or(s.Organization, d.Organization)
	s.Users, s.Projects = orDefault(s.Users, d.Users), orDefault(s.Projects, d.Projects)
	s.Teams, s.Labels = slices.Clone(orDefault(s.Teams, d.Teams)), slices.Clone(orDefault(s.Labels, d.Labels))
	for i, t := range s.Teams {
		if len(t.States) == 0 {
			s.Teams[i].States = defaultStates
		}
	}
	w := &workspace{Seed: s, now: now, newest: map[string]int{}}
	w.created = w.time()
	made := make([]*issue, len(s.Issues))
	for n, given := range s.Issues {
		given.BlockedBy = nil
		var err error
		if made[n], err = w.add(given); err != nil {
			return nil, err
		}
	}
	for n, given := range s.Issues {
		for _, b := range given.BlockedBy {
			if w.find(b) == nil {
				return nil, fmt.Errorf("there is no issue %q", b)
			}
		}
		made[n].BlockedBy = given.BlockedBy
	}
	return w, nil
}

func orDefault[T any](list, instead []T) []T {
	if len(list) == 0 {
		return instead
	}
	return list
}

func (w *workspace) time() time.Time { return w.now().UTC().Truncate(time.Millisecond) }

// id derives an id from words.
func id(words ...string) string {
	h := sha256.Sum256([]byte(strings.Join(words, "/")))
	h[6], h[8] = h[6]&0x0f|0x40, h[8]&0x3f|0x80
	s := hex.EncodeToString(h[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func (w *workspace) nextID(kind string) string {
	w.seq++
	return id(kind, strconv.Itoa(w.seq))
}

// find returns an issue by identifier or id; nil if there is none.
func (w *workspace) find(ref string) *issue {
	for _, i := range w.issues {
		if i.ID == ref || strings.EqualFold(i.Identifier, ref) {
			return i
		}
	}
	return nil
}

func (w *workspace) team(ref string) *SeedTeam {
	i := slices.IndexFunc(w.Teams, func(t SeedTeam) bool { return t.Key == ref || teamID(t.Key) == ref })
	if i < 0 {
		return nil
	}
	return &w.Teams[i]
}

func teamID(key string) string         { return id("team", key) }
func stateID(team, name string) string { return id("state", team, name) }
func userID(email string) string       { return id("user", email) }
func projectID(slug string) string     { return id("project", slug) }
func labelID(name string) string       { return id("label", strings.ToLower(name)) }

// state is the index of a state, by name or id, and -1 if there is none.
func (t *SeedTeam) state(ref string) int {
	return slices.IndexFunc(t.States, func(s SeedState) bool { return strings.EqualFold(s.Name, ref) || stateID(t.Key, s.Name) == ref })
}

func lookUp[T any](list []T, is func(T) bool) (found T, ok bool) {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return found, false
	}
	return list[i], true
}

func (w *workspace) project(ref string) (SeedProject, bool) {
	return lookUp(w.Projects, func(p SeedProject) bool { return p.SlugID == ref || projectID(p.SlugID) == ref })
}

func (w *workspace) user(ref string) (SeedUser, bool) {
	return lookUp(w.Users, func(u SeedUser) bool {
		return strings.EqualFold(u.Email, ref) || userID(u.Email) == ref || ref == "me" && u == w.Users[0]
	})
}

// label finds a label by name or id.
func (w *workspace) label(ref string) (string, bool) {
	return lookUp(w.Labels, func(l string) bool { return strings.EqualFold(l, ref) || labelID(l) == ref })
}

// add creates an issue.
func (w *workspace) add(p Issue) (*issue, error) {
	number := 0
	if p.Identifier != "" {
		key, rest, _ := strings.Cut(p.Identifier, "-")
		var err error
		if number, err = strconv.Atoi(rest); err != nil || number < 1 || p.Identifier != key+"-"+strconv.Itoa(number) {
			return nil, fmt.Errorf("identifier %q is not of the form TEAM-NUMBER", p.Identifier)
		}
		p.Team = key
	}
	t := &w.Teams[0]
	if p.Team != "" {
		if t = w.team(p.Team); t == nil {
			return nil, fmt.Errorf("there is no team %q", p.Team)
		}
	}
	if number == 0 {
		number = w.newest[t.Key] + 1
	}
	p.Team, p.Identifier = t.Key, t.Key+"-"+strconv.Itoa(number)
	if w.find(p.Identifier) != nil || p.ID != "" && w.find(p.ID) != nil {
		return nil, fmt.Errorf("issue %s exists", p.Identifier)
	}
	if p.State == "" {
		initial := slices.IndexFunc(t.States, func(s SeedState) bool { return s.Type == "unstarted" })
		p.State = t.States[max(0, initial)].Name
	}
	if p.Project == "" {
		p.Project = w.Projects[0].SlugID
	}
	i := &issue{Issue: Issue{Identifier: p.Identifier, Team: p.Team, ID: p.ID}}
	comments, created, updated := p.Comments, p.CreatedAt.UTC(), p.UpdatedAt.UTC()
	if err := w.edit(i, p); err != nil {
		return nil, err
	}
	if i.ID == "" {
		i.ID = w.nextID("issue")
	}
	w.seq++
	i.CreatedAt = i.UpdatedAt
	for _, c := range comments {
		if _, err := w.comment(i, c); err != nil {
			return nil, err
		}
	}
	if !created.IsZero() {
		i.CreatedAt, i.UpdatedAt = created, created
	}
	if !updated.IsZero() {
		i.UpdatedAt = updated
	}
	w.newest[t.Key] = max(w.newest[t.Key], number)
	w.issues = append(w.issues, i)
	i.history = nil
	return i, nil
}

// edit makes an issue what p says, or changes nothing. Id, identifier, team, creation time, comments and links stay.
func (w *workspace) edit(i *issue, p Issue) error {
	t := w.team(i.Team)
	state := t.state(p.State)
	switch {
	case strings.TrimSpace(p.Title) == "":
		return fmt.Errorf("an issue needs a title")
	case state < 0:
		return fmt.Errorf("team %s has no state %q", t.Key, p.State)
	case p.Priority < 0 || p.Priority > 4:
		return fmt.Errorf("priority %d is not within 0 and 4", p.Priority)
	}
	p.State = t.States[state].Name
	if p.Project != "" && p.Project != "none" {
		project, ok := w.project(p.Project)
		if !ok {
			return fmt.Errorf("there is no project %q", p.Project)
		}
		p.Project = project.SlugID
	}
	if p.Assignee != "" {
		user, ok := w.user(p.Assignee)
		if !ok {
			return fmt.Errorf("there is no user %q", p.Assignee)
		}
		p.Assignee = user.Email
	}
	blockers := []string{}
	for _, ref := range p.BlockedBy {
		b := w.find(ref)
		if b == nil || b == i {
			return fmt.Errorf("%q can't block this issue", ref)
		}
		blockers = append(blockers, b.Identifier)
	}
	labels := []string{}
	for _, ref := range p.Labels {
		name, ok := w.label(ref)
		if !ok {
			name = ref
			w.Labels = append(w.Labels, ref)
		}
		if !slices.Contains(labels, name) {
			labels = append(labels, name)
		}
	}
	w.change(i, "title", i.Title, p.Title)
	w.change(i, "description", text(i.Description), text(p.Description))
	w.change(i, "priority", strconv.Itoa(i.Priority), strconv.Itoa(p.Priority))
	w.change(i, "state", i.State, p.State)
	w.change(i, "project", i.Project, p.Project)
	w.change(i, "assignee", i.Assignee, p.Assignee)
	w.change(i, "labels", strings.Join(i.Labels, ", "), strings.Join(labels, ", "))
	w.change(i, "blockedBy", strings.Join(i.BlockedBy, ", "), strings.Join(blockers, ", "))
	w.change(i, "archived", strconv.FormatBool(i.Archived), strconv.FormatBool(p.Archived))
	i.Title, i.Description, i.Priority, i.State, i.Project, i.Assignee = p.Title, p.Description, p.Priority, p.State, p.Project, p.Assignee
	i.Labels, i.BlockedBy, i.Archived = labels, blockers, p.Archived
	if p.Branch != "" {
		i.Branch = p.Branch
	}
	return nil
}

// change records a change of a field and marks the issue as updated.
func (w *workspace) change(i *issue, field, from, to string) {
	if from != to {
		i.UpdatedAt = w.time()
		i.history = append(i.history, Change{At: i.UpdatedAt, Field: field, From: from, To: to})
	}
}

func (w *workspace) comment(i *issue, c Comment) (Comment, error) {
	if c.Author == "" && c.Bot == "" {
		c.Author = w.Users[0].Email
	}
	if c.Author != "" {
		user, ok := w.user(c.Author)
		if !ok {
			return c, fmt.Errorf("there is no user %q", c.Author)
		}
		c.Author = user.Email
	}
	if c.ID == "" {
		c.ID = w.nextID("comment")
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = w.time()
	}
	c.CreatedAt = c.CreatedAt.UTC()
	i.Comments = append(i.Comments, c)
	w.change(i, "comment", "", c.Body)
	return c, nil
}

// remove deletes an issue and every reference to it.
func (w *workspace) remove(i *issue) {
	w.issues = slices.DeleteFunc(w.issues, func(x *issue) bool { return x == i })
	for _, x := range w.issues {
		x.BlockedBy = slices.DeleteFunc(x.BlockedBy, func(b string) bool { return b == i.Identifier })
	}
}

// public is a copy of the issue for callers.
func (w *workspace) public(i *issue) Issue {
	p := i.Issue
	p.URL, p.Branch = w.issueURL(i), i.branch()
	p.Labels, p.BlockedBy = append([]string{}, i.Labels...), append([]string{}, i.BlockedBy...)
	p.Comments, p.Links = append([]Comment{}, i.Comments...), append([]string{}, i.Links...)
	return p
}

func (i *issue) branch() string {
	if i.Branch != "" {
		return i.Branch
	}
	return slugify(i.Identifier + " " + i.Title)
}

func (w *workspace) url(path string) string {
	return "https://linear.invalid/" + slugify(w.Organization) + "/" + path
}

func (w *workspace) issueURL(i *issue) string {
	return w.url("issue/" + i.Identifier + "/" + slugify(i.Title))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func slugify(s string) string {
	isWord := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !isWord(r) }), "-")
}
