package lineartest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
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

// SeedUser is a person of the workspace.
type SeedUser struct {
	Name     string `json:"name"`
	Email    string `json:"email"`
	Disabled bool   `json:"disabled"`
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
	Name        string   `json:"name"`
	SlugID      string   `json:"slugId"`
	Description string   `json:"description"`
	Teams       []string `json:"teams"`
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

func defaultStates() []SeedState {
	return []SeedState{
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
}

// ReadSeed reads a Seed from a JSON file. Unknown keys are refused.
func ReadSeed(path string) (Seed, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Seed{}, fmt.Errorf("read seed: %w", err)
	}
	var s Seed
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Seed{}, fmt.Errorf("read seed %s: %w", path, err)
	}
	return s, nil
}

func (s Seed) withDefaults() Seed {
	d := DefaultSeed()
	if s.Organization == "" {
		s.Organization = d.Organization
	}
	if len(s.Users) == 0 {
		s.Users = d.Users
	}
	if len(s.Teams) == 0 {
		s.Teams = d.Teams
	}
	if len(s.Projects) == 0 {
		s.Projects = d.Projects
	}
	if s.Labels == nil {
		s.Labels = d.Labels
	}
	return s
}

func newWorkspace(now func() time.Time, s Seed) (*workspace, error) {
	s = s.withDefaults()
	w := &workspace{now: now}
	w.org = &organization{entity: w.entity("organization", ""), name: s.Organization, urlKey: slugify(s.Organization)}
	for _, u := range s.Users {
		w.users = append(w.users, &user{entity: w.entity("user", ""), name: u.Name, email: u.Email, inactive: u.Disabled})
	}
	w.viewer = w.users[0]
	for _, t := range s.Teams {
		if err := w.addTeam(t); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Projects {
		if err := w.addProject(p); err != nil {
			return nil, err
		}
	}
	for _, l := range s.Labels {
		w.labels = append(w.labels, &label{entity: w.entity("label", ""), name: l})
	}
	return w, w.addSeedIssues(s.Issues)
}

// addSeedIssues adds the relations last, because a blocker may stand further down.
func (w *workspace) addSeedIssues(list []Issue) error {
	made := make([]*issue, len(list))
	for n, given := range list {
		given.BlockedBy = nil
		i, err := w.addIssue(given)
		if err != nil {
			return err
		}
		made[n] = i
	}
	for n, given := range list {
		updated := made[n].updated
		if err := w.setBlockers(made[n], given.BlockedBy); err != nil {
			return err
		}
		made[n].updated, made[n].history = updated, nil
	}
	return nil
}

func (w *workspace) addTeam(t SeedTeam) error {
	if t.Key == "" || w.byID("Team", t.Key) != nil {
		return fmt.Errorf("team key %q is empty or taken", t.Key)
	}
	made := &team{entity: w.entity("team", ""), key: t.Key, name: t.Name}
	if made.name == "" {
		made.name = t.Key
	}
	states := t.States
	if len(states) == 0 {
		states = defaultStates()
	}
	for n, s := range states {
		made.states = append(made.states, &state{
			entity: w.entity("state", ""), name: s.Name, kind: s.Type, team: made, position: n,
		})
	}
	w.teams = append(w.teams, made)
	return nil
}

func (w *workspace) addProject(p SeedProject) error {
	made := &project{entity: w.entity("project", ""), name: p.Name, slug: p.SlugID, description: p.Description}
	if made.slug == "" {
		made.slug = slugID(made.seq)
	}
	for _, t := range w.teams {
		if len(p.Teams) == 0 || slices.Contains(p.Teams, t.key) {
			made.teams = append(made.teams, t)
		}
	}
	for _, key := range p.Teams {
		if w.byID("Team", key) == nil {
			return fmt.Errorf("project %q: there is no team %q", p.Name, key)
		}
	}
	w.projects = append(w.projects, made)
	return nil
}
