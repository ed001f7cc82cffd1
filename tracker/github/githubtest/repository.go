package githubtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// repository is a repository, protected by the server's lock.
type repository struct {
	id     int64
	name   string   // owner/name
	former []string // its earlier names
	labels []string // their places are their ids
	// labelTimes are when the labels were made and changed last, at the same places.
	labelTimes []labelTimes
	issues     []*Issue // deleted and transferred ones included
	pulls      []*pull
	newest     int // the number of the newest issue or pull request
}

type labelTimes struct{ created, updated time.Time }

// AddRepository creates a repository with the labels bug and enhancement.
func (s *Server) AddRepository(name string) {
	s.locked(func() {
		r := &repository{id: s.id(), name: name}
		r.label("bug", s.now())
		r.label("enhancement", s.now())
		s.repos = append(s.repos, r)
	})
}

// Rename renames a repository: requests by its earlier name are redirected.
func (s *Server) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repository(from)
	for _, other := range s.repos {
		for _, i := range other.issues {
			for n, ref := range i.BlockedBy {
				i.BlockedBy[n] = strings.ReplaceAll(ref, r.name+"#", to+"#")
			}
		}
	}
	for _, i := range r.issues {
		i.Repository = to
	}
	r.former = append(r.former, r.name)
	r.name = to
	return nil
}

// repository returns the repository with this name; nil if there is none.
func (d *data) repository(name string) *repository {
	return text.First(d.repos, func(r *repository) bool { return strings.EqualFold(r.name, name) })
}

// label returns the name of a label as the repository spells it. It creates a label that does
// not exist.
func (r *repository) label(name string, now time.Time) string {
	i := slices.IndexFunc(r.labels, func(l string) bool { return strings.EqualFold(l, name) })
	if i < 0 {
		i = len(r.labels)
		r.labels = append(r.labels, name)
		r.labelTimes = append(r.labelTimes, labelTimes{created: now, updated: now})
	}
	return r.labels[i]
}

func (r *repository) owner() string { owner, _, _ := strings.Cut(r.name, "/"); return owner }

const (
	apiURL  = "https://api.github.com/"
	siteURL = "https://github.com/"
)

func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// userID returns the number of an account, which owners of repositories without an account
// have too.
func userID(login string) int {
	return 1 + slices.Index(append(slices.Clone(users), login), login)
}

func userObject(login string) object {
	return object{
		"login":          login,
		"id":             userID(login),
		"node_id":        fmt.Sprint("U_", userID(login)),
		"html_url":       siteURL + login,
		"type":           "User",
		"user_view_type": "private",
	}
}

func (r *repository) url() string { return apiURL + "repos/" + r.name }

func (c *call) repoObject() object {
	r := c.repo
	_, name, _ := strings.Cut(r.name, "/")
	return object{
		"id":             r.id,
		"node_id":        fmt.Sprint("R_", r.id),
		"name":           name,
		"full_name":      r.name,
		"owner":          userObject(r.owner()),
		"url":            r.url(),
		"html_url":       siteURL + r.name,
		"default_branch": c.defaultBranch(c.r.Context()),
	}
}

func (r *repository) labelObject(name string) object {
	return object{"node_id": r.labelID(name), "name": name}
}

func (r *repository) labelID(name string) string {
	return fmt.Sprint("LA_", r.id, "_", slices.Index(r.labels, name))
}
