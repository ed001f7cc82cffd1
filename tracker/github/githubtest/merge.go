package githubtest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// mergeMethods are the ways to merge a pull request, in the words of the REST API.
var mergeMethods = []string{"merge", "rebase", "squash"}

// allows reports whether the repositories allow a way to merge.
func (s *Server) allows(method string) bool {
	if s.Methods == nil {
		return slices.Contains(mergeMethods, method)
	}
	return slices.Contains(s.Methods, method)
}

// mergeStatus is GitHub's word for whether a pull request can be merged now.
func (d *data) mergeStatus(p *pull) string {
	_, missing := d.missing(p)
	switch {
	case p.State != "open" || p.unsure:
		return "UNKNOWN"
	case p.Conflict:
		return "DIRTY"
	case p.Draft || missing != "":
		return "BLOCKED"
	case p.isBehind():
		return "BEHIND"
	}
	failed := func(c Check) bool { return c.State != "SUCCESS" }
	if slices.ContainsFunc(d.checks[p.Commit], failed) {
		return "UNSTABLE"
	}
	return "CLEAN"
}

// isBehind reports whether the base requires that the branch contain it, which it does not.
func (p *pull) isBehind() bool { return p.Behind && !p.contains }

// missing returns what the base of a pull request requires and does not have.
func (d *data) missing(p *pull) (status int, message string) {
	for _, name := range p.Required {
		isGreen := func(c Check) bool { return c.Name == name && c.State == "SUCCESS" }
		if !slices.ContainsFunc(d.checks[p.Commit], isGreen) {
			return http.StatusMethodNotAllowed, fmt.Sprintf("Required status check %q is expected.", name)
		}
	}
	approvals := text.Filter(p.Reviews, func(r Review) bool { return r.State == "APPROVED" && r.Writer })
	if len(approvals) < p.Approvals {
		return http.StatusMethodNotAllowed, fmt.Sprintf(
			"At least %d approving review is required by reviewers with write access.", p.Approvals)
	}
	return 0, ""
}

// finish merges a pull request.
func (d *data) finish(p *pull, method string) {
	p.State = "closed"
	p.Merged = true
	p.Method = method
	p.Merges++
	p.AutoMerge = ""
	p.Queued = false
	want := p.issue.clone()
	want.State = p.State
	_ = d.edit(p.issue, want) // closing an issue is never refused
}

// mergeArmed merges the pull requests that wait for that, or puts them into the queue.
func (s *Server) mergeArmed() {
	for _, p := range s.repos[0].pulls {
		status := s.mergeStatus(p)
		switch {
		case p.State != "open" || p.AutoMerge == "" || status != "CLEAN" && status != "UNSTABLE":
		case s.Queue:
			p.Queued = true
			p.AutoMerge = ""
		default:
			s.finish(p, strings.ToLower(p.AutoMerge))
		}
	}
}

// mergePull answers a request to merge a pull request.
func (c *call) mergePull() answer {
	var asked struct {
		SHA    string `json:"sha"`
		Method string `json:"merge_method"`
	}
	c.decode(&asked)
	number, _ := strconv.Atoi(c.named["pull_number"])
	p := text.First(c.repo.pulls, func(p *pull) bool { return p.Number == number })
	if p == nil {
		return missing
	}
	method := cmp.Or(asked.Method, "merge")
	status, message := c.missing(p)
	state := c.mergeStatus(p)
	refuse := func(message string) answer { return problem(http.StatusMethodNotAllowed, message) }
	switch {
	case p.State != "open" || p.Draft || state == "UNKNOWN" || state == "DIRTY":
		return refuse("Pull Request is not mergeable")
	case asked.SHA != "" && asked.SHA != p.Commit:
		return problem(http.StatusConflict, "Head branch was modified. Review and try the merge again.")
	case c.Queue:
		return refuse("Changes must be made through the merge queue")
	case !c.allows(method):
		word := strings.ToUpper(method[:1]) + method[1:]
		return refuse(word + " merges are not allowed on this repository.")
	case p.isBehind():
		return refuse("The head branch is not up to date with the base branch.")
	case status != 0:
		return problem(status, message)
	}
	c.finish(p, method)
	return ok(object{"sha": p.Commit, "merged": true, "message": "Pull Request successfully merged"})
}

// mutation returns the fields of Mutation.
func (x *execution) mutation() node {
	return node{
		"enablePullRequestAutoMerge": x.change("pullRequestId", func(p *pull, input map[string]any) string {
			method, _ := input["mergeMethod"].(string)
			method = cmp.Or(method, "MERGE")
			status := x.mergeStatus(p)
			switch {
			case x.NoAutoMerge:
				return "Pull request Auto merge is not allowed for this repository"
			case status == "CLEAN" || status == "UNSTABLE":
				return "Pull request Pull request is in " + strings.ToLower(status) + " status"
			case p.Draft || p.State != "open":
				return "Pull request is not open"
			case !x.Queue && !x.allows(strings.ToLower(method)):
				return "Pull request Merge method " + strings.ToLower(method) + " merging is not allowed on this repository"
			}
			p.AutoMerge = method
			return ""
		}),
		"disablePullRequestAutoMerge": x.change("pullRequestId", func(p *pull, _ map[string]any) string {
			if p.AutoMerge == "" {
				return "Can't disable auto-merge for this pull request"
			}
			p.AutoMerge = ""
			return ""
		}),
		"enqueuePullRequest": x.change("pullRequestId", func(p *pull, _ map[string]any) string {
			if !x.Queue || x.mergeStatus(p) == "BLOCKED" {
				return "Pull request is not ready to be added to the merge queue"
			}
			p.Queued = true
			return ""
		}),
		"dequeuePullRequest": x.change("id", func(p *pull, _ map[string]any) string {
			p.Queued = false
			return ""
		}),
	}
}

// change returns a mutation of the pull request whose id is in a field of the input. It refuses
// an expected head that is not the pull request's.
func (x *execution) change(field string, apply func(*pull, map[string]any) (refusal string)) resolver {
	return func(args map[string]any) any {
		input, _ := args["input"].(map[string]any)
		id, _ := input[field].(string)
		var p *pull
		for _, r := range x.repos {
			for _, one := range r.pulls {
				if nodeID("PR", one.issue.ID) == id {
					p = one
				}
			}
		}
		if p == nil {
			panic(notFound("a node with the global id of '%s'.", id))
		}
		head, given := input["expectedHeadOid"].(string)
		refusal := "Head sha didn't match expected value"
		if !given || head == p.Commit {
			refusal = apply(p, input)
		}
		if refusal != "" {
			panic(fault{Type: "UNPROCESSABLE", Message: refusal})
		}
		return node{"clientMutationId": nil}
	}
}

// mergeNode are the fields of a pull request that its merge depends on.
func (x *execution) mergeNode(p *pull) node {
	request := node(nil)
	if p.AutoMerge != "" {
		request = node{"enabledAt": x.now()}
	}
	return node{
		"mergeStateStatus":    x.mergeStatus(p),
		"isMergeQueueEnabled": x.Queue,
		"isInMergeQueue":      p.Queued,
		"autoMergeRequest":    request,
	}
}
