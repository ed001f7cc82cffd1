package githubtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// repository is a repository, protected by the server's lock.
type repository struct {
	id      int64
	name    string   // owner/name
	former  []string // its earlier names
	labels  []string
	issues  []*Issue // deleted and transferred ones included
	pulls   []*pull
	newest  int // the number of the newest issue or pull request
	created time.Time
}

// AddRepository creates a repository with the labels bug and enhancement.
func (s *Server) AddRepository(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repos = append(s.repos, &repository{id: s.id(), name: name, labels: []string{"bug", "enhancement"}, created: s.now()})
}

// Rename renames a repository: requests by its earlier name are redirected.
func (s *Server) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repository(from)
	if r == nil {
		return fmt.Errorf("there is no repository %q", from)
	}
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
	r.former, r.name = append(r.former, r.name), to
	return nil
}

// repository returns the repository with this name; nil if there is none.
func (s *Server) repository(name string) *repository {
	for _, r := range s.repos {
		if strings.EqualFold(r.name, name) {
			return r
		}
	}
	return nil
}

// label returns the name of a label as the repository spells it. It creates a label that does not exist.
func (r *repository) label(name string) string {
	i := slices.IndexFunc(r.labels, func(l string) bool { return strings.EqualFold(l, name) })
	if i < 0 {
		i, r.labels = len(r.labels), append(r.labels, name)
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

// linked adds the fields NAME_url, which all are below base.
func linked(o object, base string, names string) object {
	for _, name := range strings.Fields(names) {
		o[name+"_url"] = base + "/" + name
	}
	return o
}

// userID returns the number of an account, which owners of repositories without an account have too.
func (s *Server) userID(login string) int {
	return 1 + slices.Index(append(slices.Clone(s.Users), login), login)
}

func (s *Server) userObject(login string) object {
	n := strconv.Itoa(s.userID(login))
	o := object{
		"login": login, "id": s.userID(login), "node_id": "U_" + n, "avatar_url": "https://avatars.githubusercontent.com/u/" + n,
		"gravatar_id": "", "html_url": siteURL + login, "type": "User", "site_admin": false, "url": apiURL + "users/" + login,
	}
	return linked(o, apiURL+"users/"+login, "events followers following gists organizations received_events repos starred subscriptions")
}

// viewerObject is what GitHub tells only to the account itself.
func (s *Server) viewerObject(login string) object {
	o := s.userObject(login)
	for _, name := range strings.Fields("bio company email hireable location name") {
		o[name] = nil
	}
	for _, name := range strings.Fields("followers following public_gists public_repos collaborators disk_usage owned_private_repos " +
		"private_gists total_private_repos") {
		o[name] = 0
	}
	o["blog"], o["user_view_type"], o["two_factor_authentication"] = "", "private", true
	o["created_at"], o["updated_at"] = stamp(s.repos[0].created), stamp(s.repos[0].created)
	return o
}

func (r *repository) url() string { return apiURL + "repos/" + r.name }

func (s *Server) repositoryObject(r *repository) object {
	_, name, _ := strings.Cut(r.name, "/")
	o := object{
		"id": r.id, "node_id": fmt.Sprint("R_", r.id), "name": name, "full_name": r.name, "owner": s.userObject(r.owner()), "url": r.url(),
		"html_url": siteURL + r.name, "clone_url": siteURL + r.name + ".git", "svn_url": siteURL + r.name,
		"git_url": "git:github.com/" + r.name + ".git", "ssh_url": "git@github.com:" + r.name + ".git", "default_branch": "main",
		"permissions": object{"admin": false, "maintain": false, "push": true, "triage": true, "pull": true},
		"created_at":  stamp(r.created), "updated_at": stamp(r.created), "pushed_at": stamp(r.created),
	}
	for _, field := range strings.Fields("description homepage language mirror_url license") {
		o[field] = nil
	}
	for _, field := range strings.Fields("fork has_projects has_wiki has_pages has_discussions archived disabled") {
		o[field] = false
	}
	for _, field := range strings.Fields("forks forks_count open_issues open_issues_count size stargazers_count watchers " +
		"watchers_count network_count subscribers_count") {
		o[field] = 0
	}
	o["private"], o["has_issues"], o["has_downloads"] = true, true, true
	return linked(o, r.url(), "archive assignees blobs branches collaborators comments commits compare contents contributors "+
		"deployments downloads events forks git_commits git_refs git_tags hooks issue_comment issue_events issues keys labels languages "+
		"merges milestones notifications pulls releases stargazers statuses subscribers subscription tags teams trees")
}

func (r *repository) labelObject(name string) object {
	i := slices.Index(r.labels, name)
	return object{
		"id": r.id*1000 + int64(i), "node_id": fmt.Sprint("LA_", r.id, "_", i), "name": name, "description": nil,
		"color": "ededed", "default": false, "url": r.url() + "/labels/" + strings.ReplaceAll(name, " ", "%20"),
	}
}

func (r *repository) labelObjects(names []string) []any {
	list := []any{}
	for _, name := range names {
		list = append(list, r.labelObject(name))
	}
	return list
}
