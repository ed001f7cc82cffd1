package lineartest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// Seed describes a workspace. The defaults are a team ABC, a project with the slug id "demo",
// two users and two labels.
type Seed struct {
	Users    []SeedUser // the first is the key's user
	Teams    []SeedTeam
	Projects []SeedProject
	Labels   []string
	Issues   []Issue // oldest first
}

// SeedUser is a user of the workspace.
type SeedUser struct{ Name, Email string }

// SeedTeam is a team. Without states it gets Linear's usual states.
type SeedTeam struct {
	Key, Name string
	States    []SeedState
}

// SeedState is a workflow state; Type is a type of Linear (backlog, unstarted, started,
// completed, canceled …).
type SeedState struct{ Name, Type string }

// SeedProject is a project. Without teams it belongs to all teams.
type SeedProject struct {
	Name, SlugID string
	Description  string // at most 255 characters
	Teams        []string
}

// Issue is an issue. AddIssue gives empty fields a default, and requires that the entities
// that the issue refers to exist.
type Issue struct {
	ID          string
	Identifier  string // TEAM-NUMBER; the team's next number if empty
	Title       string
	Description *string
	State       string   // name; the team's first unstarted state if empty
	Team        string   // key; if empty the team in the identifier, or the first team
	Project     string   // slug id; the first project if empty, no project if "none"
	Priority    int      // 0 none, 1 urgent … 4 low
	Branch      string   // derived from identifier and title if empty
	URL         string   // read-only
	Labels      []string // created if they do not exist
	Assignee    string   // email, id or "me"; empty if not assigned
	BlockedBy   []string // identifiers
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Archived    bool
	Comments    []Comment // oldest first
}

// Comment is a comment of an issue.
type Comment struct {
	ID        string
	Author    string // email; the key's user if empty
	Bot       string // the name of the integration that wrote the comment, if it was not a user
	Body      string
	CreatedAt time.Time // now if zero
	EditedAt  time.Time
}

var defaultSeed = Seed{
	Users:    []SeedUser{{"Robin Doe", "robin@example.com"}, {"Kim Poe", "kim@example.com"}},
	Teams:    []SeedTeam{{Key: "ABC", Name: "Alphabet"}},
	Projects: []SeedProject{{Name: "Demo", SlugID: "demo"}},
	Labels:   []string{"Bug", "Feature"},
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

// workspace is all the data, protected by the server's lock. Ids are derived from names or the
// order of creation, so that they are the same in every run.
type workspace struct {
	Seed
	now     func() time.Time
	seq     int
	issues  []*Issue
	newest  map[string]int // the number of the newest issue, by team
	created time.Time
	// labels are the labels that were changed, by their ids. All others are as old as the
	// workspace.
	labels map[string]labelTimes
	// renamed are the ids of labels that have another name than they were made with, by the
	// present name in lower case.
	renamed map[string]string
}

type labelTimes struct{ created, updated time.Time }

func newWorkspace(now func() time.Time, s Seed) (*workspace, error) {
	d := defaultSeed
	s.Users = orDefault(s.Users, d.Users)
	s.Projects = orDefault(s.Projects, d.Projects)
	s.Teams = orDefault(s.Teams, d.Teams)
	s.Labels = orDefault(s.Labels, d.Labels)
	for i, t := range s.Teams {
		s.Teams[i].States = orDefault(t.States, defaultStates)
	}
	w := &workspace{
		Seed:    s,
		now:     now,
		newest:  map[string]int{},
		labels:  map[string]labelTimes{},
		renamed: map[string]string{},
	}
	w.created = w.time()
	for _, given := range s.Issues {
		if _, err := w.add(given); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// orDefault returns a copy of the list, or of the default if the list is empty.
func orDefault[T any](list, standard []T) []T {
	if len(list) == 0 {
		list = standard
	}
	return slices.Clone(list)
}

func (w *workspace) time() time.Time { return w.now().UTC().Truncate(time.Millisecond) }

// id derives an id from words.
func id(words ...string) string {
	h := sha256.Sum256([]byte(strings.Join(words, "/")))
	h[6] = h[6]&0x0f | 0x40
	h[8] = h[8]&0x3f | 0x80
	s := hex.EncodeToString(h[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func (w *workspace) nextID(kind string) string {
	w.seq++
	return id(kind, strconv.Itoa(w.seq))
}

func teamID(key string) string         { return id("team", key) }
func stateID(team, name string) string { return id("state", team, name) }
func userID(email string) string       { return id("user", email) }
func projectID(slug string) string     { return id("project", slug) }

// find returns an issue by its identifier or id; nil if there is none.
func (w *workspace) find(ref string) *Issue {
	return text.First(
		w.issues,
		func(i *Issue) bool { return i.ID == ref || strings.EqualFold(i.Identifier, ref) },
	)
}

func (w *workspace) team(ref string) *SeedTeam {
	for n := range w.Teams {
		if t := &w.Teams[n]; t.Key == ref || teamID(t.Key) == ref {
			return t
		}
	}
	return nil
}

// state returns the index of a state, by its name or id; -1 if there is none.
func (t *SeedTeam) state(ref string) int {
	return slices.IndexFunc(
		t.States,
		func(s SeedState) bool { return strings.EqualFold(s.Name, ref) || stateID(t.Key, s.Name) == ref },
	)
}

// project returns a project by its slug id or id; the zero value if there is none.
func (w *workspace) project(ref string) SeedProject {
	return text.First(
		w.Projects,
		func(p SeedProject) bool { return p.SlugID == ref || projectID(p.SlugID) == ref },
	)
}

// user returns a user by email or id; the zero value if there is none.
func (w *workspace) user(ref string) SeedUser {
	return text.First(w.Users, func(u SeedUser) bool {
		return strings.EqualFold(u.Email, ref) || userID(u.Email) == ref || ref == "me" && u == w.Users[0]
	})
}

// labelID returns the id of a label, which it keeps when it is renamed.
func (w *workspace) labelID(name string) string {
	name = strings.ToLower(name)
	return cmp.Or(w.renamed[name], id("label", name))
}

// label returns the name of a label, given its name or id. It creates a label that does not
// exist.
func (w *workspace) label(ref string) string {
	name := text.First(
		w.Labels,
		func(l string) bool { return strings.EqualFold(l, ref) || w.labelID(l) == ref },
	)
	if name == "" {
		name = ref
		// the id of this name belongs to a renamed label
		if slices.Contains(slices.Collect(maps.Values(w.renamed)), w.labelID(name)) {
			w.renamed[strings.ToLower(name)] = w.nextID("label")
		}
		w.Labels = append(w.Labels, ref)
	}
	return name
}

// labelTimes returns when a label was made and changed last.
func (w *workspace) labelTimes(name string) labelTimes {
	times, known := w.labels[w.labelID(name)]
	if !known {
		return labelTimes{created: w.created, updated: w.created}
	}
	return times
}

// add creates an issue.
func (w *workspace) add(given Issue) (*Issue, error) {
	key := given.Team
	number := 0
	if given.Identifier != "" {
		var rest string
		key, rest, _ = strings.Cut(given.Identifier, "-")
		number, _ = strconv.Atoi(rest)
		if number < 1 || given.Identifier != key+"-"+strconv.Itoa(number) {
			return nil, fmt.Errorf("identifier %q is not of the form TEAM-NUMBER", given.Identifier)
		}
	}
	t := w.team(cmp.Or(key, w.Teams[0].Key))
	if t == nil {
		return nil, fmt.Errorf("there is no team %q", key)
	}
	number = cmp.Or(number, w.newest[t.Key]+1)
	i := &Issue{ID: given.ID, Team: t.Key, Identifier: t.Key + "-" + strconv.Itoa(number)}
	if w.find(i.Identifier) != nil || i.ID != "" && w.find(i.ID) != nil {
		return nil, fmt.Errorf("issue %s exists", i.Identifier)
	}
	i.URL = baseURL + "issue/" + i.Identifier + "/" + slugify(given.Title)
	i.Branch = cmp.Or(given.Branch, slugify(i.Identifier+" "+given.Title))
	unstarted := slices.IndexFunc(t.States, func(s SeedState) bool { return s.Type == "unstarted" })
	given.State = cmp.Or(given.State, t.States[max(0, unstarted)].Name)
	given.Project = cmp.Or(given.Project, w.Projects[0].SlugID)
	if err := w.edit(i, given); err != nil {
		return nil, err
	}
	for _, c := range given.Comments {
		if _, err := w.comment(i, c); err != nil {
			return nil, err
		}
	}
	i.ID = cmp.Or(i.ID, w.nextID("issue"))
	i.CreatedAt = cmp.Or(given.CreatedAt.UTC(), i.UpdatedAt)
	i.UpdatedAt = cmp.Or(given.UpdatedAt.UTC(), i.CreatedAt)
	w.newest[t.Key] = max(w.newest[t.Key], number)
	w.issues = append(w.issues, i)
	return i, nil
}

// edit sets the fields of an issue to the fields of want, or changes nothing. Id, identifier,
// team, URL, times, comments and links stay.
func (w *workspace) edit(i *Issue, want Issue) error {
	t := w.team(i.Team)
	state := t.state(want.State)
	project := w.project(want.Project)
	user := w.user(want.Assignee)
	switch {
	case strings.TrimSpace(want.Title) == "":
		return fmt.Errorf("an issue needs a title")
	case state < 0:
		return fmt.Errorf("team %s has no state %q", t.Key, want.State)
	case want.Priority < 0 || want.Priority > 4:
		return fmt.Errorf("priority %d is not within 0 and 4", want.Priority)
	case project.SlugID == "" && want.Project != "" && want.Project != "none":
		return fmt.Errorf("there is no project %q", want.Project)
	case user.Email == "" && want.Assignee != "":
		return fmt.Errorf("there is no user %q", want.Assignee)
	}
	blockers := []string{}
	for _, ref := range want.BlockedBy {
		b := w.find(ref)
		if b == nil || b == i {
			return fmt.Errorf("%q can't block this issue", ref)
		}
		blockers = append(blockers, b.Identifier)
	}
	i.State = t.States[state].Name
	i.Labels = text.Unique(text.Map(want.Labels, w.label))
	i.Title = want.Title
	i.Description = want.Description
	i.Priority = want.Priority
	i.Archived = want.Archived
	i.Project = project.SlugID
	i.Assignee = user.Email
	i.BlockedBy = blockers
	i.Branch = cmp.Or(want.Branch, i.Branch)
	i.UpdatedAt = w.time()
	return nil
}

func (w *workspace) comment(i *Issue, c Comment) (Comment, error) {
	if c.Bot == "" {
		c.Author = cmp.Or(c.Author, w.Users[0].Email)
	}
	user := w.user(c.Author)
	if user.Email == "" && c.Author != "" {
		return c, fmt.Errorf("there is no user %q", c.Author)
	}
	c.Author = user.Email
	c.ID = cmp.Or(c.ID, w.nextID("comment"))
	c.CreatedAt = cmp.Or(c.CreatedAt, w.time()).UTC()
	i.Comments = append(i.Comments, c)
	i.UpdatedAt = w.time()
	return c, nil
}

// editComment changes the text of a comment, and returns it; nil if there is none.
func (w *workspace) editComment(id, body string) *Comment {
	for _, i := range w.issues {
		if n := slices.IndexFunc(i.Comments, func(c Comment) bool { return c.ID == id }); n >= 0 {
			i.Comments[n].Body = body
			i.Comments[n].EditedAt = w.time()
			i.UpdatedAt = w.time()
			return &i.Comments[n]
		}
	}
	return nil
}

// remove deletes an issue and every reference to it.
func (w *workspace) remove(i *Issue) {
	w.issues = slices.DeleteFunc(w.issues, func(x *Issue) bool { return x == i })
	for _, x := range w.issues {
		x.BlockedBy = slices.DeleteFunc(x.BlockedBy, func(b string) bool { return b == i.Identifier })
	}
}

// clone returns a copy of the issue with copies of its lists.
func (i *Issue) clone() Issue {
	c := *i
	c.Labels = slices.Clone(i.Labels)
	c.BlockedBy = slices.Clone(i.BlockedBy)
	c.Comments = slices.Clone(i.Comments)
	return c
}

const baseURL = "https://linear.invalid/example/"

func slugify(s string) string {
	isWord := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !isWord(r) }), "-")
}
