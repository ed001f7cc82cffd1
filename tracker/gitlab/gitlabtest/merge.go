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

// MergeRequest is a merge request of the first project.
type MergeRequest struct {
	Number   int
	ID       int64
	Title    string
	Body     string
	State    string // opened, closed or merged
	Source   string
	Target   string
	SHA      string // the newest commit of Source while it was open
	Draft    bool
	Conflict bool // it can't be merged
	Foreign  bool // its branch is in a fork
	// MergeError is why a merge fails that nothing is in the way of, such as a server's hook.
	MergeError string
	// PipelineOf is the commit whose pipeline GitLab takes for the newest; SHA if it is empty.
	PipelineOf  string
	AutoMerge   bool // GitLab merges it once it can
	TrainPassed bool // the pipeline of its merge train has succeeded
	Begun       bool // its merge has begun, so that it can't be canceled
	Squash      bool // it was merged by squashing
	Notes       []*Note
	Reviewers   map[string]string    // the states of reviewers by login, such as requested_changes
	Approvals   map[string]time.Time // when people approved it, by login

	versions []version // the newest first
	unsure   bool      // whether it can be merged is not known at the first request after a push
}

// version is what a merge request was from a time on.
type version struct {
	sha string
	at  time.Time
}

const mergePath = projectPath + "/merge_requests/{merge_request_iid}"

var mergeRoutes = []route{
	{"GET", projectPath + "/merge_requests", (*call).listMerges},
	{"POST", projectPath + "/merge_requests", (*call).createMerge},
	{"GET", mergePath, func(c *call) answer { return ok(c.mergeObject(c.merge, true)) }},
	{"GET", mergePath + "/commits", (*call).listMergeCommits},
	{"GET", mergePath + "/pipelines", (*call).listMergePipelines},
	{"GET", mergePath + "/versions", (*call).listVersions},
	{"GET", mergePath + "/approvals", (*call).approvals},
	{"GET", mergePath + "/reviewers", (*call).listReviewers},
	{"PUT", mergePath + "/merge", (*call).mergeNow},
	{"POST", projectPath + "/merge_trains/merge_requests/{merge_request_iid}", (*call).boardTrain},
	{"POST", mergePath + "/cancel_merge_when_pipeline_succeeds", (*call).cancelMerge},
	{"GET", projectPath + "/merge_requests/{noteable_id}/discussions", (*call).listDiscussions},
	{"GET", projectPath + "/merge_requests/{noteable_id}/notes", (*call).listMergeNotes},
	{"POST", projectPath + "/merge_requests/{noteable_id}/notes", (*call).createMergeNote},
	{"GET", projectPath + "/members/all/{user_id}", (*call).member},
}

// findMerge finds the merge request that the path names.
func (c *call) findMerge(digits string) {
	c.follow()
	number, _ := strconv.Atoi(digits)
	c.merge = text.First(c.merges, func(m *MergeRequest) bool { return m.Number == number })
	if c.merge == nil {
		panic(missing(""))
	}
}

// follow moves the open merge requests to the commits of their branches, and merges those that
// GitLab is to merge.
func (s *Server) follow() {
	for _, m := range s.merges {
		if m.State != opened {
			continue
		}
		if sha := s.commitOf(m.Source); sha != "" && sha != m.SHA {
			m.SHA = sha
			m.unsure = true
			m.AutoMerge = false // a push ends it
			m.versions = append([]version{{sha, s.now()}}, m.versions...)
		}
		isDue := !s.MergeTrains || m.TrainPassed
		if m.AutoMerge && isDue && s.lacks(m) == "" {
			s.mergeIt(m)
		}
	}
}

// lacks returns why a merge request can't be merged, in GitLab's words; empty if it can. Of several
// reasons GitLab names the first in this order.
func (s *Server) lacks(m *MergeRequest) string {
	state := s.stateOf(m.SHA)
	switch {
	case m.State != opened:
		return "not_open"
	case m.Draft:
		return "draft_status"
	case slices.Contains(values(m.Reviewers), "requested_changes"):
		return "requested_changes"
	case len(m.Approvals) < s.NeedsApprovals:
		return "not_approved"
	case m.Conflict:
		return "conflict"
	case s.isBehind(m):
		return "need_rebase"
	case s.NeedsGreen && isActive(state):
		return "ci_still_running"
	case s.NeedsGreen && state != "success":
		return "ci_must_pass"
	}
	return ""
}

// isBehind reports whether the project demands that the branch contain its target, which it does
// not. GitLab does not ask whether the branch was rebased or the target merged into it.
func (s *Server) isBehind(m *MergeRequest) bool {
	demands := s.MergeMethod == "ff" || s.MergeMethod == "rebase_merge"
	return demands && s.git("merge-base", "--is-ancestor", "refs/heads/"+m.Target, m.SHA) != nil
}

// canArm reports whether GitLab agrees to merge a merge request later.
func (s *Server) canArm(m *MergeRequest) bool {
	switch s.lacks(m) {
	case "not_open", "conflict", "need_rebase":
		return false
	case "", "ci_still_running":
		return isActive(s.stateOf(m.SHA))
	}
	return !s.WaitsForPipelines
}

func values(m map[string]string) []string {
	var list []string
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// mergeIt merges a merge request, in the repository too if there is one.
func (s *Server) mergeIt(m *MergeRequest) {
	m.State = "merged"
	m.AutoMerge = false
	s.mergeBranch(m)
}

func (c *call) mergeObject(m *MergeRequest, full bool) object {
	status := cmp.Or(c.lacks(m), "mergeable")
	if m.unsure && full && m.State == opened {
		status = "checking"
		m.unsure = false
	}
	from := c.project.id
	if m.Foreign {
		from++
	}
	o := object{
		"id":                            m.ID,
		"iid":                           m.Number,
		"project_id":                    c.project.id,
		"title":                         m.Title,
		"description":                   m.Body,
		"state":                         m.State,
		"created_at":                    "2026-01-01T00:00:00.000Z",
		"updated_at":                    "2026-01-01T00:00:00.000Z",
		"target_branch":                 m.Target,
		"source_branch":                 m.Source,
		"author":                        userObject(Operator),
		"source_project_id":             from,
		"target_project_id":             c.project.id,
		"labels":                        []string{},
		"draft":                         m.Draft,
		"work_in_progress":              m.Draft,
		"merge_when_pipeline_succeeds":  m.AutoMerge,
		"merge_status":                  "can_be_merged",
		"detailed_merge_status":         status,
		"sha":                           m.SHA,
		"merge_commit_sha":              nil,
		"squash":                        false,
		"has_conflicts":                 m.Conflict,
		"blocking_discussions_resolved": true,
		"web_url":                       fmt.Sprint(c.URL(), "/", c.project.name, "/-/merge_requests/", m.Number),
	}
	if full {
		o["merge_error"] = text.OrNull(m.MergeError)
		o["head_pipeline"] = nil
		if p := c.newestPipeline(cmp.Or(m.PipelineOf, m.SHA)); p != nil {
			o["head_pipeline"] = c.pipelineObject(p)
		}
	}
	return o
}

func (c *call) listMerges() answer {
	c.follow()
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "all")
	found := text.Filter(c.merges, func(m *MergeRequest) bool {
		return (state == "all" || m.State == state) &&
			(!q.Has("source_branch") || q.Get("source_branch") == m.Source)
	})
	slices.Reverse(found)
	return page(c, found, func(m *MergeRequest) object { return c.mergeObject(m, false) })
}

func (c *call) createMerge() answer {
	var asked struct {
		Title       string
		Description string
		Source      string `json:"source_branch"`
		Target      string `json:"target_branch"`
	}
	c.decode(&asked)
	for _, m := range c.merges {
		if m.State == opened && m.Source == asked.Source && m.Target == asked.Target {
			return problem(http.StatusConflict, []string{
				fmt.Sprint("Another open merge request already exists for this source branch: !", m.Number),
			})
		}
	}
	if strings.TrimSpace(asked.Title) == "" {
		return problem(http.StatusBadRequest, object{"title": []string{"can't be blank"}})
	}
	body, commands := extract(asked.Description)
	m := &MergeRequest{
		Number: len(c.merges) + 1,
		ID:     c.id(),
		Title:  asked.Title,
		Body:   body,
		State:  opened,
		Source: asked.Source,
		Target: asked.Target,
		Draft:  strings.HasPrefix(asked.Title, "Draft:"),
	}
	c.merges = append(c.merges, m)
	c.carryOutMerge(m, commands)
	c.follow()
	return made(c.mergeObject(m, false))
}

// carryOutMerge carries out quick actions on a merge request.
func (c *call) carryOutMerge(m *MergeRequest, commands [][2]string) object {
	changes := object{}
	for _, command := range commands {
		changes[command[0]] = command[1]
		switch command[0] {
		case "close":
			m.State = closed
		case "merge":
			c.mergeIt(m)
		}
	}
	return changes
}

func (c *call) listMergeCommits() answer {
	return page(c, c.commitsBetween(c.merge.Target, c.merge.SHA), c.commitObject)
}

func (c *call) listVersions() answer {
	return page(c, c.merge.versions, func(v version) object {
		return object{
			"id":               1,
			"head_commit_sha":  v.sha,
			"base_commit_sha":  v.sha,
			"start_commit_sha": v.sha,
			"created_at":       stamp(v.at),
			"merge_request_id": c.merge.ID,
			"state":            "collected",
			"real_size":        "1",
		}
	})
}

func (c *call) approvals() answer {
	by := []object{}
	for _, login := range users {
		if at, has := c.merge.Approvals[login]; has {
			by = append(by, object{"user": userObject(login), "approved_at": stamp(at)})
		}
	}
	return ok(object{
		"user_has_approved": false,
		"user_can_approve":  true,
		"approved":          len(by) >= c.NeedsApprovals,
		"approved_by":       by,
	})
}

func (c *call) listReviewers() answer {
	list := []object{}
	for _, login := range users {
		if state, has := c.merge.Reviewers[login]; has {
			list = append(list, object{
				"user":       userObject(login),
				"state":      state,
				"created_at": "2026-01-01T00:00:00.000Z",
			})
		}
	}
	return ok(list)
}

func (c *call) mergeNow() answer {
	var asked struct {
		SHA    string
		Squash bool
		Auto   bool `json:"auto_merge"`
	}
	c.decode(&asked)
	m := c.merge
	if c.MaintainersMerge {
		return unauthorized
	}
	if asked.SHA != "" && asked.SHA != m.SHA && m.State == opened {
		return problem(http.StatusConflict, "SHA does not match HEAD of source branch: "+m.SHA)
	}
	m.Squash = asked.Squash
	state := c.stateOf(m.SHA)
	isIdle := state == "success" || state == "" && !c.WaitsForPipelines
	canMerge := c.lacks(m) == ""
	switch {
	case m.unsure:
		return c.refusal(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	case asked.Auto && c.canArm(m):
		m.AutoMerge = true
	case asked.Auto && isIdle && !canMerge:
		return problem(http.StatusUnprocessableEntity, "Branch cannot be merged")
	case asked.Auto && !isIdle, !canMerge:
		return c.refusal(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	case m.MergeError != "":
		return problem(http.StatusUnprocessableEntity, "Branch cannot be merged")
	default:
		c.mergeIt(m)
	}
	return ok(c.mergeObject(m, true))
}

func (c *call) cancelMerge() answer {
	if c.merge.State != opened {
		return c.refusal(http.StatusMethodNotAllowed, "405 Method Not Allowed")
	}
	if !c.merge.AutoMerge || c.merge.Begun {
		return c.refusal(http.StatusNotAcceptable, "Can't cancel the automatic merge")
	}
	c.merge.AutoMerge = false
	return made(c.mergeObject(c.merge, true))
}

// refusal answers that a merge is not made.
func (c *call) refusal(status int, message string) answer {
	if c.Unprocessable {
		status = http.StatusUnprocessableEntity
		message = "Branch cannot be merged"
	}
	return problem(status, message)
}

// boardTrain puts a merge request on the train of its base.
func (c *call) boardTrain() answer {
	var asked struct {
		SHA    string
		Squash bool
	}
	c.decode(&asked)
	m := c.merge
	switch {
	case !c.MergeTrains:
		return problem(http.StatusForbidden, "403 Forbidden")
	case asked.SHA != "" && asked.SHA != m.SHA:
		return problem(http.StatusConflict, "SHA does not match HEAD of source branch: "+m.SHA)
	case m.AutoMerge, m.unsure, m.Conflict, m.State != opened:
		return problem(http.StatusBadRequest, "Failed to add the merge request to the merge train")
	}
	m.Squash = asked.Squash
	m.AutoMerge = true
	if c.lacks(m) != "" {
		return answer{http.StatusAccepted, []object{}}
	}
	return made([]object{{"id": m.ID, "target_branch": m.Target, "status": "fresh"}})
}

// listDiscussions answers each note as a discussion, the oldest first.
func (c *call) listDiscussions() answer {
	return page(c, c.merge.Notes, func(n *Note) object {
		o := noteObject("MergeRequest", n)
		o["resolvable"] = !n.System
		o["resolved"] = n.Resolved
		if n.File != "" {
			o["type"] = "DiffNote"
			o["position"] = object{
				"base_sha":      n.Commit,
				"start_sha":     n.Commit,
				"head_sha":      n.Commit,
				"position_type": "text",
				"new_path":      n.File,
				"old_path":      n.File,
				"new_line":      n.Line,
				"old_line":      nil,
			}
		}
		return object{"id": fmt.Sprint("d", n.ID), "individual_note": n.File == "", "notes": []object{o}}
	})
}

func (c *call) listMergeNotes() answer {
	return page(c, c.selectNotes(c.merge.Notes), func(n *Note) object { return noteObject("MergeRequest", n) })
}

func (c *call) createMergeNote() answer {
	body, commands := extract(c.text())
	changes := c.carryOutMerge(c.merge, commands)
	if strings.TrimSpace(body) == "" {
		return answer{http.StatusAccepted, object{"commands_changes": changes, "summary": []string{"Done."}}}
	}
	n := c.addNote(&c.merge.Notes, Note{Author: c.user, Body: body})
	o := noteObject("MergeRequest", n)
	o["commands_changes"] = changes
	return made(o)
}

// member answers the role of an account.
func (c *call) member() answer {
	for _, login := range users {
		level := c.level(login)
		if strconv.FormatInt(userID(login), 10) == c.named["user_id"] && level > 0 {
			o := userObject(login)
			o["access_level"] = level
			o["membership_state"] = "active"
			return ok(o)
		}
	}
	return missing("")
}

// Merges returns all merge requests, the oldest first.
func (s *Server) Merges() []MergeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow()
	return text.Map(s.merges, func(m *MergeRequest) MergeRequest { return *m })
}

// EditMerge calls change with a merge request.
func (s *Server) EditMerge(number int, change func(*MergeRequest)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow()
	m := text.First(s.merges, func(m *MergeRequest) bool { return m.Number == number })
	if m == nil {
		return fmt.Errorf("there is no merge request %d", number)
	}
	wasOpen := m.State == opened
	change(m)
	if wasOpen && m.State == "merged" {
		s.mergeIt(m)
	}
	return nil
}

// Review submits a review of a merge request, which was made a while ago; state is approved,
// changes_requested or commented. All that happened before becomes older, too.
func (s *Server) Review(number int, author, state string, ago time.Duration, notes ...Note) error {
	return s.EditMerge(number, func(m *MergeRequest) {
		older := ago
		if older > 0 {
			older += time.Second
		}
		for i := range m.versions {
			m.versions[i].at = m.versions[i].at.Add(-older)
		}
		for _, n := range m.Notes {
			n.CreatedAt = n.CreatedAt.Add(-older)
		}
		at := s.now().Add(-ago)
		if m.Reviewers == nil {
			m.Reviewers = map[string]string{}
			m.Approvals = map[string]time.Time{}
		}
		for _, n := range notes {
			n.Author = author
			n.CreatedAt = at
			n.Commit = m.SHA
			s.addNote(&m.Notes, n)
		}
		says := ""
		switch state {
		case "approved":
			m.Reviewers[author] = "approved"
			m.Approvals[author] = at
			says = "approved this merge request"
		case "changes_requested":
			m.Reviewers[author] = "requested_changes"
			delete(m.Approvals, author)
			says = "requested changes"
		default:
			return
		}
		s.addNote(&m.Notes, Note{
			Author:    author,
			Body:      says,
			System:    true,
			CreatedAt: at,
		})
	})
}
