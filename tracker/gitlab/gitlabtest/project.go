package gitlabtest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// project is a project, protected by the server's lock.
type project struct {
	id     int64
	name   string   // group/sub/project
	former []string // its earlier names
	labels []string // two may differ only in the case of their letters
	issues []*Issue // deleted ones included
	newest int      // the number of the newest issue
}

// AddProject creates a project with the label bug.
func (s *Server) AddProject(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.projects = append(s.projects, &project{id: s.id(), name: name, labels: []string{"bug"}})
}

// Rename renames a project: requests by its earlier name are redirected.
func (s *Server) Rename(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.projectOf(from)
	p.former = append(p.former, p.name)
	p.name = to
	for _, i := range p.issues {
		i.Project = to
	}
}

// projectOf returns the project with this name; the first if it is empty, nil if there is none.
func (s *Server) projectOf(name string) *project {
	if name == "" {
		return s.projects[0]
	}
	return text.First(s.projects, func(p *project) bool { return strings.EqualFold(p.name, name) })
}

// userID returns the number of an account.
func userID(login string) int64 {
	return int64(1 + slices.Index(append(slices.Clone(users), login), login))
}

func userObject(login string) object {
	return object{
		"id":         userID(login),
		"username":   login,
		"name":       strings.ToUpper(login[:1]) + login[1:],
		"state":      "active",
		"locked":     false,
		"avatar_url": nil,
		"web_url":    "https://gitlab.example.com/" + login,
	}
}

func (c *call) listUsers() answer {
	wanted := c.r.URL.Query().Get("username")
	found := text.Filter(users, func(login string) bool { return wanted == "" || strings.EqualFold(login, wanted) })
	return page(c, found, userObject)
}

// ownToken describes the token of the request.
func (c *call) ownToken() answer {
	return ok(object{
		"id":           1,
		"name":         "symphony",
		"revoked":      false,
		"created_at":   stamp(c.now()),
		"description":  nil,
		"scopes":       []string{"api"},
		"user_id":      userID(c.user),
		"last_used_at": stamp(c.now()),
		"active":       true,
		"expires_at":   "2099-12-31",
	})
}

// level is the level of the role of an account; 0 for none.
func (s *Server) level(login string) int {
	switch {
	case login == Writer:
		return 30
	case login == Reader:
		return 10
	case s.Outsider:
		return 0
	}
	return cmp.Or(s.Role, 30)
}

func (c *call) projectObject(p *project) object {
	access := "enabled"
	switch {
	case c.NoIssues:
		access = "disabled"
	case c.Private:
		access = "private"
	}
	return object{
		"id":                     p.id,
		"name":                   p.name[strings.LastIndexByte(p.name, '/')+1:],
		"path":                   p.name[strings.LastIndexByte(p.name, '/')+1:],
		"path_with_namespace":    p.name,
		"created_at":             "2026-01-01T00:00:00.000Z",
		"default_branch":         "main",
		"http_url_to_repo":       c.URL() + "/" + p.name + ".git",
		"web_url":                c.URL() + "/" + p.name,
		"visibility":             "private",
		"archived":               false,
		"issues_enabled":         !c.NoIssues,
		"issues_access_level":    access,
		"merge_requests_enabled": true,
		"merge_method":           cmp.Or(c.MergeMethod, "merge"),
		"squash_option":          "default_off",

		"only_allow_merge_if_pipeline_succeeds": c.NeedsGreen,
		"merge_trains_enabled":                  c.MergeTrains,
		"permissions": object{
			"project_access": object{"access_level": c.level(c.user), "notification_level": 3},
			"group_access":   nil,
		},
	}
}

func (c *call) listLabels() answer {
	wanted := strings.ToLower(c.r.URL.Query().Get("search"))
	found := text.Filter(c.project.labels, func(l string) bool { return strings.Contains(strings.ToLower(l), wanted) })
	return page(c, found, func(l string) object {
		o := c.project.labelObject(l)
		o["is_project_label"] = true
		o["subscribed"] = false
		o["priority"] = nil
		return o
	})
}

func (p *project) labelObject(name string) object {
	return object{
		"id":          p.id*1000 + int64(slices.Index(p.labels, name)),
		"name":        name,
		"description": nil,
		"color":       "#dc143c",
		"text_color":  "#FFFFFF",
		"archived":    false,
	}
}

// label makes a label that does not exist. GitLab tells letters in two cases apart.
func (p *project) label(name string) {
	if !slices.Contains(p.labels, name) {
		p.labels = append(p.labels, name)
	}
}
