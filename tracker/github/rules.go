package github

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/agenttool"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// rule allows changes of a path below the repository. In path, # is a number and * any text.
type rule struct {
	methods string // such as "POST DELETE"
	path    string // such as issues/#/labels/*
	text    string // the field of a text that people read as a comment; empty for none
	creates string // the kind of object that a POST creates
}

// changes are the changes that the tool may make in the repository of the run's issue.
// Everything else is refused: contents and references, which agents change by commits; merging
// and approving, which are for people; settings, members, hooks, keys and workflows.
var changes = []rule{
	{methods: "POST", path: "issues", creates: "issue"},
	{methods: "PATCH", path: "issues/#"},
	{methods: "POST", path: "issues/#/comments", text: "body", creates: "comment"},
	{methods: "PATCH DELETE", path: "issues/comments/#", text: "body"},
	{methods: "POST DELETE", path: "issues/#/assignees"},
	{methods: "POST PUT DELETE", path: "issues/#/labels"},
	{methods: "DELETE", path: "issues/#/labels/*"},
	{methods: "POST", path: "issues/#/sub_issues"},
	{methods: "DELETE", path: "issues/#/sub_issue"},
	{methods: "POST", path: "issues/#/dependencies/blocked_by"},
	{methods: "DELETE", path: "issues/#/dependencies/blocked_by/#"},
	{methods: "POST", path: "issues/#/reactions"},
	{methods: "POST", path: "issues/comments/#/reactions"},
	{methods: "POST", path: "labels"},
	{methods: "PATCH", path: "labels/*"},
	{methods: "POST", path: "milestones"},
	{methods: "PATCH", path: "milestones/#"},
	{methods: "POST", path: "pulls", creates: "pull_request"},
	{methods: "PATCH", path: "pulls/#"},
	{methods: "POST DELETE", path: "pulls/#/requested_reviewers"},
	{methods: "POST", path: "pulls/#/comments", text: "body", creates: "comment"},
	{methods: "POST", path: "pulls/#/comments/#/replies", text: "body", creates: "comment"},
	{methods: "PATCH DELETE", path: "pulls/comments/#", text: "body"},
	{methods: "POST", path: "pulls/#/reviews", text: "body", creates: "review"},
	{methods: "PUT DELETE", path: "pulls/#/reviews/#", text: "body"},
	{methods: "POST", path: "pulls/#/reviews/#/events", text: "body"},
}

// onBoard are all calls that the tool may make on the board of tracker.provider.project: the
// item must belong to the run's issue, because a board may have issues of other repositories.
var onBoard = []rule{
	{methods: "GET", path: "fields"},
	{methods: "GET PATCH", path: itemRule},
}

const itemRule = "items/#"

// target is a path that the rules allow.
type target struct {
	path     string // begins with /repos/OWNER/NAME, or with the path of the board
	below    string // the rest of path, such as issues/12/labels
	escaped  string // path as it is sent, with the present name of the repository
	repo     string // OWNER/NAME in the workflow; empty on a board
	now      string // OWNER/NAME in escaped: repo, unless it was renamed
	issue    int    // the number of the run's issue
	rule     string // the path of the rule that allows a change
	text     string // as in rule
	creates  string // as in rule
	existing bool   // the text exists already
}

// target checks a path that the agent wrote. It is built anew from its parts, so that exactly
// the checked path is sent.
func (n *names) target(issue reconcile.Issue, method, written string) (target, error) {
	parts, err := splitPath(written)
	if err != nil {
		return target{}, err
	}
	at, err := n.IssueOf(issue.ID)
	if err != nil {
		return target{}, err
	}
	now := n.Present(at.Repo) // its name after a rename
	for _, name := range []string{at.Repo, now} {
		rest, isBelow := partsBelow("/repos/"+name, parts)
		if isBelow {
			t := newTarget("/repos/"+name, "/repos/"+now, rest)
			t.repo = at.Repo
			t.now = now
			t.issue = at.Number
			return t.allowed(method, rest, changes)
		}
	}
	board := boardOf(n.o.Project)
	rest, isBelow := partsBelow(board, parts)
	if !isBelow {
		return target{}, agenttool.Refusal(
			"path_refused",
			"only paths below /repos/"+now+" are allowed, the repository of this run's issue",
		)
	}
	t, err := newTarget(board, board, rest).allowed(method, rest, onBoard)
	own := fmt.Sprint("items/", issue.NativeRef["item"])
	if err != nil || t.rule == itemRule && t.below != own {
		return t, agenttool.Refusal(
			"path_refused",
			"on the board only GET of "+board+"/fields, and GET and PATCH of "+board+"/"+own+
				" are allowed, the item of this run's issue",
		)
	}
	return t, nil
}

// partsBelow returns the parts of a path below a base such as /repos/acme/shop. It is false
// for a path elsewhere, and for an empty base.
func partsBelow(base string, parts []string) (rest []string, isBelow bool) {
	top := strings.Split(base, "/")[1:]
	if len(top) == 0 || len(parts) < len(top) || !slices.EqualFunc(top, parts[:len(top)], strings.EqualFold) {
		return nil, false
	}
	return parts[len(top):], true
}

// newTarget returns the target with these parts below a base. The request is sent to the same
// parts below another base, which differs after a rename.
func newTarget(base, sent string, rest []string) target {
	t := target{
		path:    strings.Join(append([]string{base}, rest...), "/"),
		below:   strings.Join(rest, "/"),
		escaped: sent,
	}
	for _, part := range rest {
		t.escaped += "/" + url.PathEscape(part)
	}
	return t
}

// belowIssue returns the part of the path below the run's issue: "labels" for issues/12/labels
// and the issue 12. It is false for the path of something else.
func (t target) belowIssue() (below string, ofIssue bool) {
	first, rest, _ := strings.Cut(t.below, "/")
	digits, below, _ := strings.Cut(rest, "/")
	number, err := strconv.Atoi(digits)
	return below, t.repo != "" && first == "issues" && err == nil && number == t.issue
}

// allowed completes the target with the rule for it.
func (t target) allowed(method string, rest []string, rules []rule) (target, error) {
	if method == http.MethodGet && t.repo != "" {
		if secret(rest) {
			return t, agenttool.Refusal(
				"path_refused",
				t.path+" may contain secrets and is not read for agents",
			)
		}
		return t, nil
	}
	for _, r := range rules {
		if !slices.Contains(strings.Fields(r.methods), method) || !matches(strings.Split(r.path, "/"), rest) {
			continue
		}
		t.rule = r.path
		t.text = r.text
		t.creates = r.creates
		t.existing = method != http.MethodPost
		return t, nil
	}
	return t, agenttool.Refusal(
		"path_refused",
		method+" "+t.path+" is not among the changes that this tool makes: issues with their "+
			"comments, labels, assignees and dependencies; labels and milestones; "+
			"pull requests with comments and reviews. Everything else is for people",
	)
}

// matches reports whether the parts of a path fit the path of a rule.
func matches(pattern, parts []string) bool {
	return slices.EqualFunc(pattern, parts, func(p, part string) bool {
		return p == "*" || p == part || p == "#" && text.IsNumber(part)
	})
}

// secret reports whether an answer may contain secrets: web hooks, found secrets, and the
// variables of workflows.
func secret(rest []string) bool {
	if len(rest) == 0 {
		return false
	}
	rest = strings.Split(strings.ToLower(strings.Join(rest, "/")), "/")
	switch rest[0] {
	case "hooks", "secret-scanning":
		return true
	case "actions", "agents", "codespaces", "dependabot", "environments":
		return slices.ContainsFunc(rest, func(part string) bool { return slices.Contains(secretLists, part) })
	}
	return false
}

// secretLists are the lists of secrets and variables in paths such as actions/variables.
var secretLists = []string{"secrets", "variables", "organization-secrets", "organization-variables"}

// splitPath returns the decoded parts of a path.
func splitPath(path string) ([]string, error) {
	return agenttool.SplitPath(path, "with /repos/OWNER/NAME", "params")
}
