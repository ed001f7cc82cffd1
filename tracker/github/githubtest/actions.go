package githubtest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
)

// Check is a check of a commit: a job of GitHub Actions if Workflow is set, a check of another
// app, or a commit status.
type Check struct {
	Name     string
	Workflow string // the name of the workflow
	Run, Job int64  // the numbers of its run and of the job
	// State is a conclusion, such as FAILURE, or QUEUED or IN_PROGRESS; of a status SUCCESS,
	// FAILURE, ERROR, PENDING or EXPECTED.
	State  string
	Status bool   // it is a commit status
	URL    string // of others than jobs
	// Log is the log of a job, repeated that many times; empty if it was deleted.
	Log    string
	Repeat int
}

func (c Check) atWork() bool {
	return slices.Contains([]string{"QUEUED", "IN_PROGRESS", "WAITING"}, c.State)
}

// SetChecks replaces the checks of a commit.
func (s *Server) SetChecks(commit string, checks ...Check) {
	s.locked(func() { s.checks[commit] = checks })
}

// Checks returns the checks of a commit.
func (s *Server) Checks(commit string) (list []Check) {
	s.locked(func() { list = slices.Clone(s.checks[commit]) })
	return list
}

// Push sets the newest commit of a branch, on a server without Remote.
func (s *Server) Push(branch, commit string) { s.locked(func() { s.heads[branch] = commit }) }

func (d *data) commitOf(ctx context.Context, branch string) string {
	if d.remote == "" {
		return d.heads[branch]
	}
	return d.git(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
}

// branches returns the newest commits of all branches of the Remote.
func (d *data) branches(ctx context.Context) map[string]string {
	heads := map[string]string{}
	for line := range strings.Lines(d.git(ctx, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")) {
		name, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		heads[strings.TrimPrefix(name, "refs/heads/")] = commit
	}
	return heads
}

func (d *data) defaultBranch(ctx context.Context) string {
	if d.remote == "" {
		return "main"
	}
	return d.git(ctx, "symbolic-ref", "--short", "HEAD")
}

func (d *data) git(ctx context.Context, args ...string) string {
	out, _ := exec.CommandContext(ctx, "git", append([]string{"--git-dir", d.remote}, args...)...).Output()
	return strings.TrimSpace(string(out))
}

// objectNode returns the commit that an expression names; nil if there is none.
func (x *execution) objectNode(args map[string]any) any {
	oid := fmt.Sprint(args["expression"])
	if branch, is := strings.CutPrefix(oid, "refs/heads/"); is {
		oid = x.commitOf(x.r.Context(), branch)
	}
	if _, checked := x.checks[oid]; !checked &&
		x.git(x.r.Context(), "rev-parse", "--verify", "--quiet", oid+"^{commit}") == "" {
		return node(nil)
	}
	return x.commitNode(oid, "")
}

// commitNode is a commit with its checks. If state is not empty, it is their state.
func (x *execution) commitNode(oid, state string) node {
	rollup := node(nil)
	checks := x.checks[oid]
	contexts := connection{}
	if state != "" || len(checks) > 0 {
		rolled := "SUCCESS"
		for i, c := range checks {
			contexts = append(contexts, x.checkNode(c, i))
			switch {
			case c.State == "FAILURE" || c.State == "ERROR":
				rolled = c.State
			case rolled == "SUCCESS" && (c.atWork() || c.State == "PENDING" || c.State == "EXPECTED"):
				rolled = "PENDING"
			}
		}
		rollup = node{"id": "SCR_" + oid, "state": cmp.Or(state, rolled), "contexts": contexts}
	}
	return node{"__typename": "Commit", "id": "C_" + oid, "oid": oid, "statusCheckRollup": rollup}
}

func (x *execution) checkNode(c Check, i int) node {
	if c.Status {
		return node{
			"__typename": "StatusContext",
			"id":         fmt.Sprint("SC_", i),
			"context":    c.Name,
			"state":      c.State,
			"targetUrl":  orNull(c.URL),
		}
	}
	if x.FineGrained {
		return node{"id": fmt.Sprint("CR_", i), "fault": graphQLRefusals[FailForbidden]}
	}
	status := "COMPLETED"
	conclusion := any(c.State)
	run := node(nil)
	if c.atWork() {
		status = c.State
		conclusion = nil
	}
	if c.Workflow != "" {
		run = node{
			"id":       fmt.Sprint("WFR_", c.Run),
			"workflow": node{"id": "W_" + c.Workflow, "name": c.Workflow},
		}
		c.URL = fmt.Sprint(siteURL, x.repos[0].name, "/actions/runs/", c.Run, "/job/", c.Job)
	}
	return node{
		"__typename": "CheckRun",
		"id":         fmt.Sprint("CR_", i),
		"name":       c.Name,
		"status":     status,
		"conclusion": conclusion,
		"detailsUrl": orNull(c.URL),
		"checkSuite": node{"id": "CS", "workflowRun": run},
	}
}

// orNull returns a text, or nil if it is empty.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// jobs returns the jobs of GitHub Actions for which is holds.
func (d *data) jobs(is func(Check) bool) (found []*Check) {
	for _, list := range d.checks {
		for i := range list {
			if list[i].Workflow != "" && is(list[i]) {
				found = append(found, &list[i])
			}
		}
	}
	return found
}

// job returns the job with a number; nil if there is none.
func (d *data) job(number string) *Check {
	found := d.jobs(func(c Check) bool { return fmt.Sprint(c.Job) == number })
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// jobLog redirects to the log of a job, on a host that must not get the token.
func (c *call) jobLog() answer {
	job := c.job(c.named["job_id"])
	switch {
	case job == nil || job.atWork():
		return missing
	case job.Log == "":
		return problem(http.StatusGone, "Server Error")
	}
	if c.storage == nil {
		c.storage = httptest.NewServer(logHost{c.Server})
	}
	c.header.Set("Location", fmt.Sprint(c.storage.URL, "/logs/", job.Job, "?sig=", LogSignature))
	return answer{http.StatusFound, nil}
}

// LogSignature is the secret in the address of a log.
const LogSignature = "c2lnbmF0dXJl"

// logHost is the host of logs.
type logHost struct{ *Server }

func (s logHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	job := s.job(strings.TrimPrefix(r.URL.Path, "/logs/"))
	if r.Header.Get("Authorization") != "" {
		s.Errorf("the token was sent to the host of a log")
	}
	refused := s.NoLogs || r.URL.Query().Get("sig") != LogSignature || job == nil
	log := ""
	repeat := 0
	if !refused {
		log = job.Log
		repeat = max(1, job.Repeat)
	}
	s.mu.Unlock()
	if refused {
		http.Error(w, "AuthenticationFailed", http.StatusForbidden)
		return
	}
	for range repeat {
		if _, err := io.WriteString(w, log); err != nil {
			return
		}
	}
}

// rerun starts the failed jobs of a run again, as new jobs.
func (c *call) rerun() answer {
	of := c.jobs(func(check Check) bool { return fmt.Sprint(check.Run) == c.named["run_id"] })
	switch {
	case len(of) == 0:
		return missing
	case slices.ContainsFunc(of, func(check *Check) bool { return check.atWork() }):
		return problem(http.StatusForbidden, "This workflow run is already running")
	}
	for _, check := range of {
		if check.State == "FAILURE" {
			check.State = "QUEUED"
			check.Job = check.Job + 1000
		}
	}
	return answer{http.StatusCreated, object{}}
}
