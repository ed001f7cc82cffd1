package workflow

import (
	"fmt"
	"path"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/team"
)

// Claims is repository.claims: whether the machines of a team keep each other from issues by claims in
// the remote, and how.
type Claims struct {
	On bool
	// Branch is the branch with the claims, such as symphony-claims, for a remote that takes no other
	// references; empty for refs/symphony/claims.
	Branch string
	// Term is for how long a claim holds without a renewal.
	Term time.Duration
	// Watch is the same for an issue that waits for its review.
	Watch time.Duration
}

const (
	// claimTerm is the usual term of a claim.
	claimTerm = 20 * time.Minute
	// claimWatch is the usual term of a claim of an issue that waits for its review.
	claimWatch = 24 * time.Hour
)

const claimsHint = "write true, {branch: symphony-claims}, or {term_ms: 1200000} for 20 minutes"

// claims reads true, false, or a map with the branch and the term.
func (r *values) claims(k Key, f field) (c Claims, ok bool) {
	c.Term = claimTerm
	c.Watch = claimWatch
	if f.node == nil || f.node.Kind == yaml.ScalarNode {
		c.On, ok = r.boolean(k, f)
		return c, ok
	}
	if f.node.Kind != yaml.MappingNode {
		r.wrong(k, f, claimsHint)
		return c, false
	}
	c.On = true
	ok = r.options(f, map[string]func(field) bool{
		"branch": func(branch field) (isRead bool) {
			c.Branch, isRead = r.text(Key{Type: typeString}, branch)
			return isRead
		},
		"term_ms":  func(term field) bool { return r.claimsTerm(term, &c.Term) },
		"watch_ms": func(term field) bool { return r.claimsTerm(term, &c.Watch) },
	})
	return c, ok
}

// claimsTerm reads the term of claims.
func (r *values) claimsTerm(f field, to *time.Duration) bool {
	ms, isRead := r.integer(Key{Type: typeMS, min: team.MinTerm.Milliseconds()}, f, maxMS)
	*to = time.Duration(ms) * time.Millisecond
	return isRead
}

// repositoryClaims checks that claims can be kept where the workflow says.
func (r *reader) repositoryClaims(f field) {
	c := r.cfg.Repository.Claims
	switch {
	case !c.On:
	case r.tracker.name == fileTracker.name:
		r.invalid(f, "a folder of issues is on one machine, which no other can take issues from",
			"leave it out, or keep the issues in a tracker that all machines reach")
	case r.tracker.name == commandTracker.name:
		r.invalid(f, "with kind: command each WORKFLOW.md is a project of its own, "+
			"so that no machine would see the claims of another",
			"leave it out, or keep the issues in a tracker that symphony knows itself")
	case r.isOwnRepository():
		r.invalid(f, "repository.url is a directory beside WORKFLOW.md, where no other machine sees the claims",
			"write the address of the remote in repository.url, or leave repository.claims out")
	case r.cfg.Repository.URL == "":
		r.invalid(f, "claims are kept in the repository, and repository.url is missing",
			"write repository.url, or leave repository.claims out")
	case !r.cfg.Repository.Delivers():
		r.invalid(f, "claims keep others from delivering an issue, and repository.deliver is none",
			"leave one of the two out")
	case c.Branch != "" && c.Branch == r.cfg.Repository.Base:
		r.invalid(f, fmt.Sprintf("%s is the base of the work", c.Branch), "name a branch of its own, such as symphony-claims")
	case c.Branch != "" && r.hasIssueBranch(c.Branch):
		r.invalid(f, fmt.Sprintf("%s may be the branch of an issue (repository.branch)", c.Branch),
			"name a branch of its own, such as symphony-claims")
	}
}

// isOwnRepository reports whether repository.url names a directory from the place of WORKFLOW.md, such as
// "." for the repository that contains it.
func (r *reader) isOwnRepository() bool {
	written := r.field("repository.url").node
	return written != nil && (written.Value == "." || strings.HasPrefix(written.Value, "./") ||
		strings.HasPrefix(written.Value, "../"))
}

// hasIssueBranch reports whether a name is one of issues' branches, or a folder of them: symphony/claims
// for symphony/{{ issue.identifier }}, and symphony.
func (r *reader) hasIssueBranch(name string) bool {
	fixed, _, isPattern := strings.Cut(r.cfg.Repository.Branch, "{")
	if !isPattern {
		return name == fixed
	}
	return fixed != "" && strings.HasPrefix(name+"/", fixed) || path.Dir(fixed) == name
}
