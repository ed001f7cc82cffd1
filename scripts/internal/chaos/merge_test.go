//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// The ways to judge a pull request at the end that lead to a merge by symphony.
const (
	wayApproved = 7
	wayBehind   = 8 // the base demands that the branch contain it
)

// tryAgain lets passes merge what a forge refused during the storm.
const tryAgain = `UPDATE watches SET watch = json_remove(watch, '$.merge') WHERE watch ->> '$.merge.state' = 'refused'`

// mergeSeen is a merge that symphony has asked for.
type mergeSeen struct{ path, commit string }

// serve answers a request, and notes a merge.
func (f *forge) serve(answer *httptest.ResponseRecorder, r *http.Request, body []byte) {
	isMerge := r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/merge")
	if !isMerge {
		f.hub.ServeHTTP(answer, r)
		return
	}
	f.noteProven(r.Context()) // symphony may have merged the base a moment ago
	f.hub.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		return
	}
	var asked struct{ SHA string }
	stage.Must(json.Unmarshal(body, &asked))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.merges = append(f.merges, mergeSeen{r.URL.Path, asked.SHA})
}

// approve approves the newest commit of a pull request, whose checks succeed.
func (f *forge) approve(p githubtest.Pull) {
	f.hub.SetChecks(p.Commit, githubtest.Check{Name: "lint", State: "SUCCESS"})
	f.edit(p.Number, func(p *githubtest.Pull) {
		p.Reviews = append(p.Reviews, approval("kim", p.Commit))
	})
}

// inReview returns a pull request whose issue waits for a review; otherwise is for none.
func (c *checker) inReview(open []githubtest.Pull, otherwise githubtest.Pull) githubtest.Pull {
	for _, p := range open {
		for _, i := range c.tracker.Issues() {
			if strings.HasSuffix(p.Branch, "/"+i.Identifier) && i.State == "Human Review" {
				return p
			}
		}
	}
	return otherwise
}

// noteProven notes the commits that are approved and green now. Only the goroutine that judges
// changes that, and notes it after each change.
func (f *forge) noteProven(ctx context.Context) {
	for _, p := range f.hub.Pulls(ctx) {
		if p.State == "open" && !f.isProven(p.Commit) && f.isGreen(p.Commit) && f.isApproved(p) {
			f.mu.Lock()
			f.proven[p.Commit] = true
			f.mu.Unlock()
		}
	}
}

func (f *forge) isProven(commit string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proven[commit]
}

func (f *forge) isGreen(commit string) bool {
	isOpen := func(c githubtest.Check) bool { return c.State != "SUCCESS" && c.State != "SKIPPED" }
	return !slices.ContainsFunc(f.hub.Checks(commit), isOpen)
}

// isApproved reports whether the last verdict about a pull request approves its newest commit, or
// the commit into which symphony has merged the base since.
func (f *forge) isApproved(p githubtest.Pull) bool {
	last := githubtest.Review{}
	for _, r := range p.Reviews {
		if r.State != "COMMENTED" && r.Writer {
			last = r
		}
	}
	return last.State == "APPROVED" && slices.Contains(f.withoutUpdates(p.Commit), last.Commit)
}

// withoutUpdates returns a commit, and those below the merges of the base on top of it.
func (f *forge) withoutUpdates(commit string) []string {
	list := []string{commit}
	for {
		said, err := f.remote.run("log", "-1", "--format=%P%n%s", commit)
		parents, subject, _ := strings.Cut(said, "\n")
		first, _, isMerge := strings.Cut(parents, " ")
		if err != nil || !isMerge || !isUpdate(subject) {
			return list
		}
		commit = first
		list = append(list, commit)
	}
}

// isUpdate reports whether a subject is that of a merge of the base by symphony.
func isUpdate(subject string) bool { return strings.HasPrefix(subject, "Merge branch '") }

// merged counts the merges by symphony, and by the forge for it.
func (f *forge) merged() (n int) {
	for _, p := range f.hub.Pulls(context.Background()) {
		n += p.Merges
	}
	return n
}

// updated counts the merges of commits into which symphony has merged the base before.
func (f *forge) updated() (n int) {
	for _, m := range f.merges {
		if len(f.withoutUpdates(m.commit)) > 1 {
			n++
		}
	}
	return n
}

// mayMerge reports whether an approval is all that a pull request in review lacks.
func (c *checker) mayMerge(j judged) bool {
	main := stage.Get(c.remote.run("rev-parse", "main"))
	_, conflict := c.remote.run("merge-tree", "--write-tree", main, j.pull.Commit)
	return conflict == nil && j.pull.Commit == j.Commit && j.pull.Base == "main" && !j.pull.Draft && !j.pull.Conflict
}

// checkMerges checks that symphony has merged only what it had delivered and what was approved and
// green, each once, and that it said so once.
func (c *checker) checkMerges() {
	made := map[string]bool{}
	for _, i := range c.tracker.Issues() {
		for _, m := range c.made(i.Identifier) {
			made[m.id] = true
		}
		told := map[string]bool{}
		for _, comment := range i.Comments {
			isMerge := strings.HasPrefix(comment.Body, "Symphony has merged")
			if isMerge && told[comment.Body] {
				c.fault("merged twice", "%s: %s", i.Identifier, comment.Body)
			}
			told[comment.Body] = true
		}
	}
	merged := map[string]bool{}
	for _, m := range c.forge.merges {
		below := c.forge.withoutUpdates(m.commit)
		delivered := below[len(below)-1]
		switch {
		case merged[m.path]:
			c.fault("merged twice", "%s", m.path)
		case !made[delivered] || slices.Contains(c.remote.theirs, delivered):
			c.fault("merged unproven", "%s: symphony did not deliver %s", m.path, m.commit)
		case !c.forge.proven[m.commit]:
			c.fault("merged unproven", "%s: %s was never approved and green", m.path, m.commit)
		}
		merged[m.path] = true
	}
	for _, p := range c.forge.hub.Pulls(context.Background()) {
		c.merged += p.Merges
		if p.Merges > 0 {
			c.checkArmed(p, made, merged)
		}
	}
}

// checkArmed checks the merge of a pull request that the forge has made by itself. The forge merges what
// somebody else has pushed after symphony has asked it.
func (c *checker) checkArmed(p githubtest.Pull, made, bySymphony map[string]bool) {
	if p.Merges > 1 {
		c.fault("merged twice", "pull request %d, %d times", p.Number, p.Merges)
	}
	if bySymphony[fmt.Sprintf("/repos/%s/pulls/%d/merge", remoteName, p.Number)] {
		return
	}
	c.byForge++
	below := c.forge.withoutUpdates(p.Commit)
	delivered := below[len(below)-1]
	switch {
	case slices.Contains(c.remote.theirs, delivered):
		c.foreignMerges++
	case !made[delivered]:
		c.fault("merged unproven", "pull request %d: symphony did not deliver %s", p.Number, p.Commit)
	case !slices.ContainsFunc(below, c.forge.isProven):
		c.fault("merged unproven", "pull request %d: %s was never approved and green", p.Number, p.Commit)
	}
}
