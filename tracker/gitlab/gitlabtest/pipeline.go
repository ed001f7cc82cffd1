package gitlabtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// Job is a job of a pipeline, or a status that another program has reported.
type Job struct {
	ID           int64
	Name         string
	State        string // in GitLab's words: success, failed, running and others
	AllowFailure bool
	Log          string
	// Reported: by another program; a pipeline of such statuses alone is an external one.
	Reported bool
	Ref      string // of the pipeline; main if empty
}

// pipeline is a run of jobs for a commit.
type pipeline struct {
	id     int64
	sha    string
	ref    string
	source string
	jobs   []*Job
	broken bool // its configuration has an error
}

var pipelineRoutes = []route{
	{"GET", projectPath + "/repository/commits/{sha}", (*call).commit},
	{"GET", projectPath + "/repository/commits/{sha}/statuses", (*call).listStatuses},
	{"GET", projectPath + "/repository/branches/{branch}", (*call).branch},
	{"GET", projectPath + "/protected_branches/{name}", (*call).rule},
	{"GET", projectPath + "/repository/compare", (*call).compare},
	{"GET", projectPath + "/pipelines", (*call).listPipelines},
	{"GET", projectPath + "/pipelines/{pipeline_id}", (*call).onePipeline},
	{"GET", projectPath + "/pipelines/{pipeline_id}/jobs", (*call).listJobs},
	{"GET", projectPath + "/pipelines/{pipeline_id}/bridges", (*call).listBridges},
	{"POST", projectPath + "/pipelines/{pipeline_id}/retry", (*call).retry},
	{"GET", projectPath + "/jobs/{job_id}/trace", (*call).trace},
}

// SetJob sets a job of the pipeline of a commit and a reference, which is made if there is none, and
// returns the job's id.
func (s *Server) SetJob(sha string, j Job) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	source := "push"
	if j.Reported {
		source = "external"
	}
	p := text.First(s.pipelines, func(p *pipeline) bool {
		return p.sha == sha && p.source == source && p.ref == j.Ref
	})
	if p == nil {
		p = &pipeline{id: s.id(), sha: sha, ref: j.Ref, source: source}
		s.pipelines = append(s.pipelines, p)
	}
	j.ID = s.id()
	p.jobs = append(text.Filter(p.jobs, func(o *Job) bool { return o.Name != j.Name }), &j)
	return j.ID
}

// BreakPipeline makes a pipeline of a commit whose configuration has an error.
func (s *Server) BreakPipeline(sha string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipelines = append(s.pipelines, &pipeline{id: s.id(), sha: sha, source: "push", broken: true})
}

// newestPipeline returns the newest pipeline of a commit that is not external if there is one; nil
// for none.
func (s *Server) newestPipeline(sha string) *pipeline {
	var newest *pipeline
	for _, p := range s.pipelines {
		if p.sha == sha && (newest == nil || p.source != "external") {
			newest = p
		}
	}
	return newest
}

// state is the state of a pipeline.
func (p *pipeline) state() string {
	has := func(state string) bool {
		return slices.ContainsFunc(p.jobs, func(j *Job) bool { return j.State == state && !j.AllowFailure })
	}
	for _, state := range []string{"running", "pending", "failed", "manual", "canceled"} {
		if has(state) || state == "failed" && p.broken {
			return state
		}
	}
	return "success"
}

// isActive reports whether a pipeline in a state is at work.
func isActive(state string) bool { return state == "running" || state == "pending" }

// stateOf is the state of all pipelines of a commit; empty for none.
func (s *Server) stateOf(sha string) string {
	state := ""
	for _, p := range s.pipelines {
		if p.sha == sha && (state == "" || state == "success") {
			state = p.state()
		}
	}
	return state
}

func (c *call) pipelineObject(p *pipeline) object {
	return object{
		"id":         p.id,
		"iid":        1,
		"project_id": c.project.id,
		"sha":        p.sha,
		"ref":        cmp.Or(p.ref, "main"),
		"status":     p.state(),
		"source":     p.source,
		"created_at": "2026-01-01T00:00:00.000Z",
		"updated_at": "2026-01-01T00:00:00.000Z",
		"web_url":    fmt.Sprint(c.URL(), "/", c.project.name, "/-/pipelines/", p.id),
	}
}

func (c *call) listPipelines() answer {
	sha := c.r.URL.Query().Get("sha")
	found := text.Filter(c.pipelines, func(p *pipeline) bool { return sha == "" || p.sha == sha })
	slices.Reverse(found)
	return page(c, found, c.pipelineObject)
}

// listMergePipelines answers the pipelines of all commits of a merge request, the newest first: those
// of its branch, and those of references that GitLab keeps for it.
func (c *call) listMergePipelines() answer {
	m := c.merge
	found := text.Filter(c.pipelines, func(p *pipeline) bool {
		ofVersion := slices.ContainsFunc(m.versions, func(v version) bool { return v.sha == p.sha })
		return ofVersion && p.ref == "" || strings.HasPrefix(p.ref, fmt.Sprintf("refs/merge-requests/%d/", m.Number))
	})
	slices.Reverse(found)
	return page(c, found, c.pipelineObject)
}

// findPipeline returns the pipeline that the path names.
func (c *call) findPipeline() *pipeline {
	for _, p := range c.pipelines {
		if strconv.FormatInt(p.id, 10) == c.named["pipeline_id"] {
			return p
		}
	}
	panic(missing(""))
}

func (c *call) onePipeline() answer { return ok(c.pipelineObject(c.findPipeline())) }

func (c *call) jobObject(j *Job) object {
	return object{
		"id":            j.ID,
		"status":        j.State,
		"stage":         "test",
		"name":          j.Name,
		"ref":           "main",
		"tag":           false,
		"allow_failure": j.AllowFailure,
		"created_at":    "2026-01-01T00:00:00.000Z",
		"web_url":       fmt.Sprint(c.URL(), "/", c.project.name, "/-/jobs/", j.ID),
	}
}

func (c *call) listJobs() answer {
	p := c.findPipeline()
	scope := c.r.URL.Query().Get("scope")
	isAsked := func(j *Job) bool { return !j.Reported && (scope == "" || scope == j.State) }
	return page(c, text.Filter(p.jobs, isAsked), c.jobObject)
}

func (c *call) listBridges() answer {
	c.findPipeline()
	return page(c, []*Job{}, c.jobObject)
}

// listStatuses answers the jobs and the reported statuses of a commit.
func (c *call) listStatuses() answer {
	type entry struct {
		*pipeline
		*Job
	}
	var all []entry
	for _, p := range c.pipelines {
		for _, j := range p.jobs {
			if p.sha == c.named["sha"] {
				all = append(all, entry{p, j})
			}
		}
	}
	return page(c, all, func(e entry) object {
		return object{
			"id":            e.ID,
			"sha":           e.sha,
			"ref":           "main",
			"status":        e.State,
			"name":          e.Name,
			"target_url":    nil,
			"description":   nil,
			"created_at":    "2026-01-01T00:00:00.000Z",
			"allow_failure": e.AllowFailure,
			"pipeline_id":   e.id,
			"author":        userObject(Operator),
		}
	})
}

// retry starts the failed jobs of a pipeline again, with new ids.
func (c *call) retry() answer {
	p := c.findPipeline()
	for i, j := range p.jobs {
		if j.State == "failed" && !j.Reported {
			p.jobs[i] = &Job{ID: c.id(), Name: j.Name, State: "pending"}
		}
	}
	return made(c.pipelineObject(p))
}

func (c *call) trace() answer {
	for _, p := range c.pipelines {
		for _, j := range p.jobs {
			if strconv.FormatInt(j.ID, 10) == c.named["job_id"] && !j.Reported {
				c.header.Set("Content-Type", "text/plain")
				return ok(j.Log)
			}
		}
	}
	return missing("")
}

func (c *call) commitObject(sha string) object {
	return object{
		"id":         sha,
		"short_id":   sha[:8],
		"created_at": "2026-01-01T00:00:00.000Z",
		"parent_ids": strings.Fields(c.output("rev-parse", sha+"^@")),
		"title":      "A commit",
		"message":    "A commit",
	}
}

// commit answers a commit by its id or by a branch.
func (c *call) commit() answer {
	ref := c.named["sha"]
	sha := c.commitOf(ref)
	if sha == "" && c.git("cat-file", "-e", ref+"^{commit}") == nil {
		sha = ref
	}
	if sha == "" {
		return missing("Commit")
	}
	return ok(c.commitObject(sha))
}

func (c *call) branch() answer {
	sha := c.commitOf(c.named["branch"])
	if sha == "" {
		return missing("Branch")
	}
	isProtected := c.named["branch"] == "main" && c.MaintainersMerge
	return ok(object{
		"name":                 c.named["branch"],
		"commit":               c.commitObject(sha),
		"protected":            isProtected,
		"developers_can_merge": false, // no rule says so
		"can_push":             !isProtected,
	})
}

// rule answers the rule of a protected branch.
func (c *call) rule() answer {
	if c.named["name"] != "main" || !c.MaintainersMerge {
		return missing("")
	}
	return ok(object{
		"id":                  1,
		"name":                "main",
		"push_access_levels":  []object{{"id": 1, "access_level": 0, "access_level_description": "No one"}},
		"merge_access_levels": []object{{"id": 2, "access_level": 40, "access_level_description": "Maintainers"}},
		"allow_force_push":    false,
	})
}

func (c *call) compare() answer {
	q := c.r.URL.Query()
	from := c.commitOf(q.Get("from"))
	to := c.commitOf(q.Get("to"))
	if from == "" || to == "" {
		return missing("Ref")
	}
	commits := text.Map(c.commitsBetween(from, to), c.commitObject)
	return ok(object{"commits": commits, "diffs": []object{}, "compare_timeout": false})
}

// commitsBetween returns the commits of a reference that another one lacks, the newest first.
func (s *Server) commitsBetween(base, head string) []string {
	return strings.Fields(s.output("rev-list", base+".."+head))
}

// mergeBranch merges the branch of a merge request into its target, as the project does that. A
// squash gets a merge commit, too, unless the project only moves its target forward.
func (s *Server) mergeBranch(m *MergeRequest) {
	if s.Remote == "" {
		return
	}
	target := "refs/heads/" + m.Target
	tree := s.output("merge-tree", "--write-tree", target, m.SHA)
	source := m.SHA
	if m.Squash {
		source = s.output("commit-tree", tree, "-m", m.Title, "-p", target)
	}
	if s.MergeMethod != "ff" {
		source = s.output("commit-tree", tree, "-m", "Merge branch '"+m.Source+"'", "-p", target, "-p", source)
	}
	if source != "" {
		s.output("update-ref", target, source)
	}
}
