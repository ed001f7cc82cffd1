package githubtest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// Pull is a pull request.
type Pull struct {
	Number int
	State  string // open or closed
	Title  string
	Body   string
	Branch string
	Base   string
	From   string // the token of the account that opened it
	Commit string // its last commit while it was open
	Merged bool
	Draft  bool
	// GitHub's decision: APPROVED, CHANGES_REQUESTED, REVIEW_REQUIRED or empty
	Review     string
	Conflict   bool // it can't be merged
	Foreign    bool // its branch is in a fork
	Reviews    []Review
	Repository string // owner/name for AddPull; the first if empty
	// login, for AddPull; the first user if empty, ghost for a deleted account
	Author string
	Bot    bool // the author is an app
	// the issues that it closes when it is merged, as owner/name#NUMBER
	Closes   []string
	Required []string // the checks that the base requires
	// GitHub's state of all checks: SUCCESS, FAILURE, PENDING, ERROR, EXPECTED or empty
	Checks    string
	Approvals int  // how many approvals the base requires
	Behind    bool // the base requires that the branch contain it; without a Remote it does not
	// AutoMerge is how GitHub merges it once it can, such as SQUASH; empty if it does not.
	AutoMerge string
	Queued    bool   // it is in the merge queue
	Method    string // by which it was merged through the API, such as squash
	Merges    int    // how often it was merged so
}

// Review is a review of a pull request.
type Review struct {
	Author string // login; empty for a deleted account
	Bot    bool   // the author is an app
	Role   string // OWNER, MEMBER, CONTRIBUTOR and others
	Writer bool   // the author may push
	// APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED, or PENDING before it is submitted
	State  string
	Body   string
	Commit string
	At     time.Time
	Lines  []LineComment
}

// LineComment is a comment of a review.
type LineComment struct {
	Path string
	Line int // 0 if the line is not there any more
	Body string
}

// pull is a pull request and its issue.
type pull struct {
	Pull
	issue *Issue
	base  string // the newest commit of Base
	// contains: the branch contains base
	contains bool
	// unsure: whether it can be merged is not known at the first request after a push.
	unsure bool
}

// Pulls returns all pull requests of the first repository, the oldest first.
func (s *Server) Pulls(ctx context.Context) []Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(ctx)
	return text.Map(s.repos[0].pulls, func(p *pull) Pull { return p.Pull })
}

// AddPull creates a pull request; its branch need not exist. It returns the number.
func (s *Server) AddPull(p Pull) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := s.addPull(s.repository(cmp.Or(p.Repository, s.repos[0].name)), p, p.Author)
	if err != nil {
		return 0, err
	}
	return made.Number, nil
}

func (d *data) addPull(r *repository, p Pull, author string) (*pull, error) {
	p.State = cmp.Or(p.State, "open")
	i, err := d.add(r, Issue{
		Number: p.Number,
		Title:  p.Title,
		Body:   p.Body,
		State:  p.State,
		Author: author,
		Pull:   true,
	})
	if err != nil {
		return nil, err
	}
	p.Number = i.Number
	made := &pull{Pull: p, issue: i}
	r.pulls = append(r.pulls, made)
	return made, nil
}

// EditPull calls change with a pull request of the first repository.
func (s *Server) EditPull(ctx context.Context, number int, change func(*Pull)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow(ctx)
	p := text.First(s.repos[0].pulls, func(p *pull) bool { return p.Number == number })
	if p == nil {
		return fmt.Errorf("there is no pull request %d", number)
	}
	was := p.State
	change(&p.Pull)
	// GitHub refuses to reopen a pull request while another of the same branches is open.
	another := func(o *pull) bool {
		return o != p && o.State == "open" && o.Branch == p.Branch && o.Base == p.Base
	}
	if was != "open" && slices.ContainsFunc(s.repos[0].pulls, another) {
		p.State = was
	}
	want := p.issue.clone()
	want.Title = p.Title
	want.Body = p.Body
	want.State = p.State
	return s.edit(p.issue, want)
}

// End closes a pull request.
func (s *Server) End(ctx context.Context, number int) error {
	return s.EditPull(ctx, number, func(p *Pull) { p.State = "closed" })
}

// follow moves the open pull requests of the first repository to the commits of their branches
// and bases. Only this repository has a remote whose branches can move.
func (d *data) follow(ctx context.Context) {
	for _, p := range d.repos[0].pulls {
		p.State = p.issue.State
	}
	heads := d.currentHeads(ctx)
	if len(heads) == 0 {
		return
	}
	for _, p := range d.repos[0].pulls {
		if p.State != "open" {
			continue
		}
		commit := cmp.Or(heads[p.Branch], p.Commit) // the branch may have been deleted
		base := heads[p.Base]
		pushed := commit != p.Commit
		baseMoved := p.base != "" && base != p.base
		if pushed || baseMoved {
			p.unsure = true
		}
		p.Commit = commit
		p.base = base
		p.contains = p.Behind && d.git(ctx, "rev-list", "--count", commit+".."+base) == "0"
	}
}

// currentHeads returns the commits of the branches by name: those that a test has set,
// otherwise those of the remote. There are none if no open pull request needs them.
func (d *data) currentHeads(ctx context.Context) map[string]string {
	isOpen := func(p *pull) bool { return p.State == "open" }
	switch {
	case len(d.heads) > 0:
		return d.heads
	case d.remote == "" || !slices.ContainsFunc(d.repos[0].pulls, isOpen):
		return nil
	}
	return d.branches(ctx)
}

func (r *repository) pullObject(p *pull) object {
	return object{
		"id":       p.issue.ID,
		"node_id":  nodeID("PR", p.issue.ID),
		"number":   p.Number,
		"state":    p.State,
		"title":    p.Title,
		"body":     p.Body,
		"draft":    p.Draft,
		"html_url": fmt.Sprint(siteURL, r.name, "/pull/", p.Number),
		"user":     userObject(p.issue.Author),
		"head":     object{"ref": p.Branch, "sha": p.Commit},
		"base":     object{"ref": p.Base},
	}
}

func (c *call) openPull() answer {
	ctx := c.r.Context()
	var asked struct{ Title, Body, Head, Base string }
	c.decode(&asked)
	custom := func(message string) answer {
		return problem(http.StatusUnprocessableEntity, "Validation Failed",
			object{"resource": "PullRequest", "code": "custom", "message": message})
	}
	at := c.commitOf(ctx, asked.Head)
	base := c.commitOf(ctx, asked.Base)
	same := func(p *pull) bool { return p.State == "open" && p.Branch == asked.Head && p.Base == asked.Base }
	switch {
	case len([]rune(asked.Title)) > 256:
		return custom("title is too long (maximum is 256 characters)")
	case at == "":
		return invalid("PullRequest", "head")
	case base == "":
		return invalid("PullRequest", "base")
	case c.isAncestor(ctx, at, base):
		return custom("No commits between " + asked.Base + " and " + asked.Head)
	case slices.ContainsFunc(c.repo.pulls, same):
		return custom("A pull request already exists for " + c.repo.owner() + ":" + asked.Head + ".")
	}
	_, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	p, err := c.addPull(c.repo, Pull{
		Title:  asked.Title,
		Body:   asked.Body,
		Branch: asked.Head,
		Base:   asked.Base,
		Commit: at,
		From:   token,
	}, c.user)
	if err != nil {
		return invalid("PullRequest", "title")
	}
	return answer{http.StatusCreated, c.repo.pullObject(p)}
}

// isAncestor reports whether the base contains a commit already.
func (c *call) isAncestor(ctx context.Context, commit, base string) bool {
	cmd := exec.CommandContext(ctx, "git", "--git-dir", c.Remote, "merge-base", "--is-ancestor", commit, base)
	return cmd.Run() == nil
}
