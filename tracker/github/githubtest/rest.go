package githubtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type route struct {
	method, path string
	answer       func(*call) answer
}

// routes are what the server answers; the first that matches wins.
var routes = []route{
	{"GET", "/", (*call).root},
	{"POST", "/graphql", (*call).graphQL},
	{"GET", "/user", (*call).viewer},
	{"GET", "/rate_limit", (*call).rateLimit},
	{"GET", "REPO", (*call).getRepository},
	{"GET", "REPO/labels", (*call).listLabels},
	{"GET", "REPO/issues", (*call).listIssues},
	{"POST", "REPO/issues", (*call).createIssue},
	{"GET", "REPO/issues/comments", (*call).listAllComments},
	{"GET", "REPO/issues/comments/{comment_id}", (*call).getComment},
	{"PATCH", "REPO/issues/comments/{comment_id}", (*call).editComment},
	{"DELETE", "REPO/issues/comments/{comment_id}", (*call).deleteComment},
	{"GET", "ISSUE", (*call).getIssue},
	{"PATCH", "ISSUE", (*call).editIssue},
	{"GET", "ISSUE/comments", (*call).listComments},
	{"POST", "ISSUE/comments", (*call).createComment},
	{"GET", "ISSUE/labels", (*call).issueLabels},
	{"POST", "ISSUE/labels", (*call).addLabels},
	{"PUT", "ISSUE/labels", (*call).setLabels},
	{"DELETE", "ISSUE/labels", (*call).removeLabels},
	{"DELETE", "ISSUE/labels/{name}", (*call).removeLabels},
	{"POST", "ISSUE/assignees", (*call).addAssignees},
	{"DELETE", "ISSUE/assignees", (*call).removeAssignees},
	{"GET", "ISSUE/dependencies/blocked_by", (*call).listBlockers},
	{"POST", "ISSUE/dependencies/blocked_by", (*call).addBlocker},
	{"DELETE", "ISSUE/dependencies/blocked_by/{issue_id}", (*call).removeBlocker},
	{"GET", "ISSUE/dependencies/blocking", (*call).listBlocked},
	{"GET", "REPO/pulls", (*call).listPulls},
	{"POST", "REPO/pulls", (*call).openPull},
	{"GET", "REPO/pulls/{pull_number}", (*call).getPull},
	{"GET", "/orgs/BOARD/fields", (*call).listFields},
	{"GET", "/orgs/BOARD/items", (*call).listItems},
	{"GET", "/orgs/BOARD/items/{item_id}", (*call).getItem},
	{"PATCH", "/orgs/BOARD/items/{item_id}", (*call).editItem},
	{"GET", "/users/BOARD/fields", (*call).listFields},
	{"GET", "/users/BOARD/items", (*call).listItems},
	{"GET", "/users/BOARD/items/{item_id}", (*call).getItem},
	{"PATCH", "/users/BOARD/items/{item_id}", (*call).editItem},
}

// match returns how a request is answered, and sets its path values. A repository is also found by its number, to which GitHub
// redirects. GitHub Enterprise has all paths below /api/v3, but /graphql below /api.
func match(r *http.Request) route {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/api"), "/v3")
	got := strings.Split(path, "/")
	for _, to := range routes {
		want := strings.Split(to.full(), "/")
		if len(got) > 1 && got[1] == "repositories" && len(want) > 3 {
			want = slices.Replace(want, 1, 4, "repositories", "{id}")
		}
		if r.Method != to.method || !slices.EqualFunc(want, got, func(w, g string) bool { return w == g || w[:min(1, len(w))] == "{" && g != "" }) {
			continue
		}
		for i, w := range want {
			if value, err := url.PathUnescape(got[i]); err == nil && w != got[i] {
				r.SetPathValue(strings.Trim(w, "{}"), value)
			}
		}
		return to
	}
	return undeclared
}

// find finds the repository and the issue that the path names. It redirects from former names and transferred issues.
func (c *call) find() {
	name, id := c.r.PathValue("owner")+"/"+c.r.PathValue("repo"), c.r.PathValue("id")
	if name == "/" && id == "" {
		return
	}
	for _, r := range c.repos {
		former := slices.ContainsFunc(r.former, func(f string) bool { return strings.EqualFold(f, name) })
		if former && c.repository(name) == nil {
			_, rest, _ := strings.Cut(c.r.URL.Path, "/"+c.r.PathValue("repo"))
			c.redirect(r, rest)
		}
		if strings.EqualFold(r.name, name) || fmt.Sprint(r.id) == id {
			c.repo = r
		}
	}
	if c.repo == nil {
		panic(missing)
	}
	digits := c.r.PathValue("issue_number") + c.r.PathValue("pull_number")
	if digits == "" {
		return
	}
	number, _ := strconv.Atoi(digits)
	c.issue = c.repo.find(number)
	switch {
	case c.issue == nil:
		panic(missing)
	case c.issue.Deleted:
		panic(problem(http.StatusGone, "This issue was deleted"))
	case c.issue.MovedTo != "":
		to, err := c.lookUp(c.issue.MovedTo, "")
		if err != nil {
			panic(missing)
		}
		_, rest, _ := strings.Cut(c.r.URL.Path, "/issues/"+digits)
		c.redirect(c.repository(to.Repository), fmt.Sprint("/issues/", to.Number, rest))
	}
}

func (c *call) redirect(r *repository, path string) {
	status, text := http.StatusMovedPermanently, "Moved Permanently"
	if c.r.Method != http.MethodGet {
		status, text = http.StatusTemporaryRedirect, "Temporary Redirect"
	}
	to := fmt.Sprint(c.base, "/repositories/", r.id, path)
	if c.r.URL.RawQuery != "" {
		to += "?" + c.r.URL.RawQuery
	}
	c.header.Set("Location", to)
	panic(answer{status, object{"message": text, "url": to, "documentation_url": "https://docs.github.com/rest"}})
}

func ok(body any) answer { return answer{http.StatusOK, body} }

func (c *call) root() answer {
	return ok(linked(object{}, strings.TrimSuffix(apiURL, "/"), "authorizations code_search commit_search current_user "+
		"current_user_authorizations_html current_user_repositories emails emojis events feeds followers following gists issue_search "+
		"issues keys label_search notifications organization organization_repositories organization_teams public_gists rate_limit "+
		"repository repository_search starred starred_gists user user_organizations user_repositories user_search"))
}

func (c *call) viewer() answer { return ok(c.viewerObject(c.user)) }

func (c *call) rateLimit() answer {
	c.rest.left++ // it is free
	resources := object{"core": c.rest.object(), "search": c.rest.object(), "graphql": c.points.object()}
	return ok(object{"resources": resources, "rate": c.rest.object()})
}

func (c *call) getRepository() answer { return ok(c.repositoryObject(c.repo)) }

func (c *call) listLabels() answer { return page(c, c.repo.labels, c.repo.labelObject) }

// page answers one page of a list.
func page[T, O any](c *call, all []T, show func(T) O) answer {
	q := c.r.URL.Query()
	size, _ := strconv.Atoi(cmp.Or(q.Get("per_page"), "30"))
	number, _ := strconv.Atoi(cmp.Or(q.Get("page"), "1"))
	size, number = min(max(size, 1), 100), max(number, 1)
	last := max(1, (len(all)+size-1)/size)
	var links []string
	link := func(rel string, to int) {
		q.Set("page", strconv.Itoa(to))
		_, path, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, "/api/v3"), c.repo.name)
		if c.r.PathValue("id") != "" {
			_, path, _ = strings.Cut(c.r.URL.Path, fmt.Sprint(c.repo.id))
		}
		links = append(links, fmt.Sprintf(`<%s/repositories/%d%s?%s>; rel="%s"`, c.base, c.repo.id, path, q.Encode(), rel))
	}
	if number > 1 {
		link("prev", number-1)
	}
	if number < last {
		link("next", number+1)
		link("last", last)
	}
	if number > 1 {
		link("first", 1)
	}
	if len(links) > 0 {
		c.header.Set("Link", strings.Join(links, ", "))
	}
	list := []any{}
	for _, one := range all[min(len(all), (number-1)*size):min(len(all), number*size)] {
		list = append(list, show(one))
	}
	return ok(list)
}

// since returns the time of the parameter of that name; the zero time if there is none.
func since(q url.Values) time.Time {
	t, err := time.Parse(time.RFC3339, cmp.Or(q.Get("since"), "0001-01-01T00:00:00Z"))
	if err != nil {
		panic(problem(http.StatusUnprocessableEntity, "Validation Failed"))
	}
	return t
}

func (c *call) listIssues() answer {
	q := c.r.URL.Query()
	state, from := cmp.Or(q.Get("state"), "open"), since(q)
	var list []*Issue
	for _, i := range c.repo.issues {
		lacks := func(label string) bool { return label != "" && !slices.Contains(i.Labels, label) }
		switch who := q.Get("assignee"); {
		case !i.exists() || state != "all" && i.State != state || i.UpdatedAt.Before(from):
		case slices.ContainsFunc(strings.Split(q.Get("labels"), ","), lacks):
		case who == "*" && len(i.Assignees) == 0 || who == "none" && len(i.Assignees) > 0:
		case who != "" && who != "*" && who != "none" && !slices.Contains(i.Assignees, who):
		default:
			list = append(list, i)
		}
	}
	by := func(i *Issue) time.Time { return i.CreatedAt }
	if q.Get("sort") == "updated" {
		by = func(i *Issue) time.Time { return i.UpdatedAt }
	}
	slices.SortFunc(list, func(a, b *Issue) int {
		order := cmp.Or(by(a).Compare(by(b)), cmp.Compare(a.Number, b.Number))
		if q.Get("direction") == "asc" {
			return order
		}
		return -order
	})
	return page(c, list, c.issueObject)
}

func (c *call) getIssue() answer { return ok(c.issueObject(c.issue)) }

func (c *call) createIssue() answer {
	var asked struct {
		Title, Body       string
		Labels, Assignees []string
	}
	c.decode(&asked)
	i, err := c.add(c.repo, Issue{Title: asked.Title, Body: asked.Body, Labels: asked.Labels, Assignees: asked.Assignees, Author: c.user})
	if err != nil {
		return invalid("Issue", "title")
	}
	return answer{http.StatusCreated, c.issueObject(i)}
}

func (c *call) editIssue() answer {
	var asked struct {
		Title, Body, State *string
		StateReason        *string `json:"state_reason"`
		Assignee           *string
		Labels, Assignees  *[]string
	}
	c.decode(&asked)
	want := c.issue.clone()
	want.Title, want.Body = *cmp.Or(asked.Title, &want.Title), *cmp.Or(asked.Body, &want.Body)
	want.State = *cmp.Or(asked.State, &want.State)
	want.Labels, want.Assignees = *cmp.Or(asked.Labels, &want.Labels), *cmp.Or(asked.Assignees, &want.Assignees)
	if asked.Assignee != nil {
		want.Assignees = []string{*asked.Assignee}
	}
	if asked.State != nil {
		want.Reason = *cmp.Or(asked.StateReason, new(string))
	}
	if c.edit(c.issue, want) != nil {
		return problem(http.StatusUnprocessableEntity, "Validation Failed", object{"resource": "Issue", "field": "title", "code": "invalid"})
	}
	return c.getIssue()
}

func (c *call) issueLabels() answer { return page(c, c.issue.Labels, c.repo.labelObject) }

// names reads a body that is a list of names, or an object with one.
func (c *call) names(key string) (names []string) {
	var asked map[string][]string
	if json.Unmarshal(c.body, &names) != nil && json.Unmarshal(c.body, &asked) != nil {
		panic(unreadable)
	}
	return append(names, asked[key]...)
}

// change edits the issue and answers its labels.
func (c *call) change(labels []string) answer {
	want := c.issue.clone()
	want.Labels = labels
	if c.edit(c.issue, want) != nil {
		return invalid("Label", "name")
	}
	return ok(c.repo.labelObjects(c.issue.Labels))
}

func (c *call) addLabels() answer {
	return c.change(append(slices.Clone(c.issue.Labels), c.names("labels")...))
}

func (c *call) setLabels() answer { return c.change(c.names("labels")) }

// removeLabels removes the label of the path, or all.
func (c *call) removeLabels() answer {
	name := c.r.PathValue("name")
	kept := slices.DeleteFunc(slices.Clone(c.issue.Labels), func(l string) bool { return name == "" || strings.EqualFold(l, name) })
	switch {
	case name == "":
		c.change(nil)
		return answer{http.StatusNoContent, nil}
	case len(kept) == len(c.issue.Labels):
		return problem(http.StatusNotFound, "Label does not exist")
	}
	return c.change(kept)
}

func (c *call) assign(status int, logins []string) answer {
	want := c.issue.clone()
	want.Assignees = slices.Compact(logins)
	if c.edit(c.issue, want) != nil {
		return invalid("Issue", "assignees")
	}
	return answer{status, c.issueObject(c.issue)}
}

func (c *call) addAssignees() answer {
	return c.assign(http.StatusCreated, append(slices.Clone(c.issue.Assignees), c.names("assignees")...))
}

func (c *call) removeAssignees() answer {
	gone := c.names("assignees")
	left := slices.DeleteFunc(slices.Clone(c.issue.Assignees), func(l string) bool { return slices.Contains(gone, l) })
	return c.assign(http.StatusOK, left)
}

func (c *call) listBlockers() answer { return page(c, c.blockers(c.issue), c.issueObject) }

func (c *call) listBlocked() answer { return page(c, c.blocks(c.issue), c.issueObject) }

// byID returns an issue of any repository.
func (c *call) byID(id int64) *Issue {
	for _, r := range c.repos {
		for _, i := range r.issues {
			if i.ID == id && i.exists() {
				return i
			}
		}
	}
	panic(missing)
}

func (c *call) addBlocker() answer {
	var asked struct {
		ID int64 `json:"issue_id"`
	}
	c.decode(&asked)
	want := c.issue.clone()
	want.BlockedBy = append(want.BlockedBy, c.byID(asked.ID).Ref())
	if c.edit(c.issue, want) != nil {
		return invalid("Issue", "issue_id")
	}
	return answer{http.StatusCreated, c.issueObject(c.issue)}
}

func (c *call) removeBlocker() answer {
	id, _ := strconv.ParseInt(c.r.PathValue("issue_id"), 10, 64)
	other := c.byID(id).Ref()
	want := c.issue.clone()
	want.BlockedBy = slices.DeleteFunc(want.BlockedBy, func(ref string) bool { return ref == other })
	if c.edit(c.issue, want) != nil {
		return missing
	}
	return c.getIssue()
}

func (c *call) listComments() answer { return c.comments([]*Issue{c.issue}) }

func (c *call) listAllComments() answer { return c.comments(c.repo.issues) }

// comments answers the comments of issues since a time, the oldest first.
func (c *call) comments(of []*Issue) answer {
	q := c.r.URL.Query()
	from := since(q)
	type entry struct {
		of *Issue
		Comment
	}
	var list []entry
	for _, i := range of {
		for _, comment := range i.Comments {
			if i.exists() && !comment.UpdatedAt.Before(from) {
				list = append(list, entry{i, comment})
			}
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.ID, b.ID) })
	if q.Get("direction") == "desc" {
		slices.Reverse(list)
	}
	return page(c, list, func(e entry) object { return c.commentObject(e.of, e.Comment) })
}

// text reads the body of a comment.
func (c *call) text() string {
	var asked struct{ Body string }
	c.decode(&asked)
	if strings.TrimSpace(asked.Body) == "" {
		panic(invalid("IssueComment", "body"))
	}
	return asked.Body
}

func (c *call) createComment() answer {
	return answer{http.StatusCreated, c.commentObject(c.issue, c.addComment(c.issue, Comment{Author: c.user, Body: c.text()}))}
}

// onComment calls f with the comment that the path names.
func (c *call) onComment(f func(i *Issue, n int) answer) answer {
	id, _ := strconv.ParseInt(c.r.PathValue("comment_id"), 10, 64)
	for _, i := range c.repo.issues {
		n := slices.IndexFunc(i.Comments, func(comment Comment) bool { return comment.ID == id })
		if i.exists() && n >= 0 {
			return f(i, n)
		}
	}
	return missing
}

func (c *call) getComment() answer {
	return c.onComment(func(i *Issue, n int) answer { return ok(c.commentObject(i, i.Comments[n])) })
}

func (c *call) editComment() answer {
	return c.onComment(func(i *Issue, n int) answer {
		i.Comments[n].Body, i.Comments[n].UpdatedAt = c.text(), c.now()
		return ok(c.commentObject(i, i.Comments[n]))
	})
}

func (c *call) deleteComment() answer {
	return c.onComment(func(i *Issue, n int) answer {
		i.Comments, i.UpdatedAt = slices.Delete(i.Comments, n, n+1), c.now()
		return answer{http.StatusNoContent, nil}
	})
}
