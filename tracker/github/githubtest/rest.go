package githubtest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

type route struct {
	method, path string
	answer       func(*call) answer
}

// routes are the requests that the server answers; the first match wins.
var routes = []route{
	{"GET", "/", func(*call) answer { return ok(object{"current_user_url": apiURL + "user"}) }},
	{"POST", "/graphql", (*call).graphQL},
	{"GET", "/user", func(c *call) answer { return ok(userObject(c.user)) }},
	{"GET", "REPO", func(c *call) answer { return ok(c.repoObject()) }},
	{"GET", "REPO/issues", (*call).listIssues},
	{"PATCH", "REPO/issues/comments/{comment_id}", (*call).editComment},
	{"GET", "ISSUE", (*call).getIssue},
	{"PATCH", "ISSUE", (*call).editIssue},
	{"GET", "ISSUE/comments", (*call).listComments},
	{"POST", "ISSUE/comments", (*call).createComment},
	{"POST", "ISSUE/labels", (*call).changeLabels},
	{"PUT", "ISSUE/labels", (*call).changeLabels},
	{"DELETE", "ISSUE/labels/{name}", (*call).removeLabel},
	{"POST", "REPO/pulls", (*call).openPull},
	{"PUT", "REPO/pulls/{pull_number}/merge", (*call).mergePull},
	{"GET", "REPO/actions/jobs/{job_id}/logs", (*call).jobLog},
	{"POST", "REPO/actions/runs/{run_id}/rerun-failed-jobs", (*call).rerun},
	{"GET", "/orgs/BOARD/fields", (*call).listFields},
	{"PATCH", "/orgs/BOARD/items/{item_id}", (*call).editItem},
}

// match returns the route of a request, and the values of the parts of its path that are in
// braces. A repository is also found by its number, to which GitHub redirects. On GitHub
// Enterprise all paths are below /api/v3, but /graphql below /api.
func match(r *http.Request) (route, map[string]string) {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/api"), "/v3")
	got := strings.Split(path, "/")
	fits := func(w, g string) bool { return w == g || strings.HasPrefix(w, "{") && g != "" }
	for _, to := range routes {
		want := strings.Split(to.full(), "/")
		if len(got) > 1 && got[1] == "repositories" && len(want) > 3 {
			want = slices.Replace(want, 1, 4, "repositories", "{id}")
		}
		if r.Method != to.method || !slices.EqualFunc(want, got, fits) {
			continue
		}
		values := map[string]string{}
		for i, w := range want {
			if w != got[i] {
				// net/http already parsed it
				values[strings.Trim(w, "{}")], _ = url.PathUnescape(got[i])
			}
		}
		return to, values
	}
	return undeclared, nil
}

// find finds the repository and the issue that the path names. It redirects from former names
// and transferred issues.
func (c *call) find() {
	name := c.named["owner"] + "/" + c.named["repo"]
	id := c.named["id"]
	if name == "/" && id == "" {
		return
	}
	for _, r := range c.repos {
		former := slices.ContainsFunc(r.former, func(f string) bool { return strings.EqualFold(f, name) })
		if former && c.repository(name) == nil {
			c.redirect(r, belowRepository(c.r.URL.Path))
		}
		if strings.EqualFold(r.name, name) || fmt.Sprint(r.id) == id {
			c.repo = r
		}
	}
	if c.repo == nil {
		panic(missing)
	}
	digits := c.named["issue_number"]
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
		to, _ := c.lookUp(c.issue.MovedTo, "") // no test deletes it there
		_, rest, _ := strings.Cut(c.r.URL.Path, "/issues/"+digits)
		c.redirect(c.repository(to.Repository), fmt.Sprint("/issues/", to.Number, rest))
	}
}

// belowRepository returns the end of a path, below the name or the number of the repository:
// "/issues" of /repos/acme/web/issues and of /api/v3/repositories/7/issues.
func belowRepository(path string) string {
	const nameAfter, numberAfter = "/repos/", "/repositories/"
	parts := 2 // owner and name
	_, rest, named := strings.Cut(path, nameAfter)
	if !named {
		parts = 1
		_, rest, _ = strings.Cut(path, numberAfter)
	}
	below := strings.Split(rest, "/")[parts:]
	if len(below) == 0 {
		return ""
	}
	return "/" + strings.Join(below, "/")
}

func (c *call) redirect(r *repository, path string) {
	status := http.StatusMovedPermanently
	text := "Moved Permanently"
	if c.r.Method != http.MethodGet {
		status = http.StatusTemporaryRedirect
		text = "Temporary Redirect"
	}
	to := fmt.Sprint(c.base, "/repositories/", r.id, path)
	if c.r.URL.RawQuery != "" {
		to += "?" + c.r.URL.RawQuery
	}
	c.header.Set("Location", to)
	panic(answer{status, object{
		"message":           text,
		"url":               to,
		"documentation_url": "https://docs.github.com/rest",
	}})
}

func ok(body any) answer { return answer{http.StatusOK, body} }

func (c *call) getIssue() answer { return ok(c.issueObject(c.issue)) }

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
	return answer{http.StatusCreated, commentObject(c.issue, c.addComment(c.issue, Comment{
		Author: c.user,
		Body:   c.text(),
	}))}
}

func (c *call) editComment() answer {
	for _, i := range c.repo.issues {
		n := slices.IndexFunc(
			i.Comments,
			func(comment Comment) bool { return fmt.Sprint(comment.ID) == c.named["comment_id"] },
		)
		if i.exists() && n >= 0 {
			i.Comments[n].Body = c.text()
			i.Comments[n].UpdatedAt = c.now()
			return ok(commentObject(i, i.Comments[n]))
		}
	}
	return missing
}

// page answers a page of a list.
func page[T any](c *call, all []T, show func(T) object) answer {
	q := c.r.URL.Query()
	size, _ := strconv.Atoi(cmp.Or(q.Get("per_page"), "30"))
	number, _ := strconv.Atoi(cmp.Or(q.Get("page"), "1"))
	size = min(max(size, 1), 100)
	number = max(number, 1)
	if len(all) > number*size {
		q.Set("page", strconv.Itoa(number+1))
		next := fmt.Sprint(c.base, "/repositories/", c.repo.id, belowRepository(c.r.URL.Path), "?", q.Encode())
		c.header.Set("Link", "<"+next+`>; rel="next"`)
	}
	return ok(text.Map(all[min(len(all), (number-1)*size):min(len(all), number*size)], show))
}

// listIssues answers the issues in a state, the most recently updated first.
func (c *call) listIssues() answer {
	q := c.r.URL.Query()
	state := cmp.Or(q.Get("state"), "open")
	list := text.Filter(
		c.repo.issues,
		func(i *Issue) bool { return i.exists() && (state == "all" || i.State == state) },
	)
	slices.SortFunc(
		list,
		func(a, b *Issue) int { return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), b.Number-a.Number) },
	)
	return page(c, list, c.issueObject)
}

func (c *call) editIssue() answer {
	var asked struct {
		Title, Body, State *string
		StateReason        *string `json:"state_reason"`
		Labels, Assignees  *[]string
	}
	c.decode(&asked)
	want := c.issue.clone()
	replace(&want.Title, asked.Title)
	replace(&want.Body, asked.Body)
	replace(&want.State, asked.State)
	replace(&want.Labels, asked.Labels)
	replace(&want.Assignees, asked.Assignees)
	if asked.State != nil {
		want.Reason = ""
		replace(&want.Reason, asked.StateReason)
	}
	if c.edit(c.issue, want) != nil {
		return invalid("Issue", "title")
	}
	return c.getIssue()
}

// replace sets a field to the value of a request, unless the request lacks it.
func replace[T any](field, asked *T) {
	if asked != nil {
		*field = *asked
	}
}

// changeLabels adds labels to an issue, or with PUT replaces its labels. It answers all of
// them.
func (c *call) changeLabels() answer {
	var asked struct{ Labels []string }
	c.decode(&asked)
	want := c.issue.clone()
	if c.r.Method == http.MethodPut {
		want.Labels = nil
	}
	want.Labels = append(want.Labels, asked.Labels...)
	if c.edit(c.issue, want) != nil {
		return invalid("Label", "name")
	}
	return ok(text.Map(c.issue.Labels, c.repo.labelObject))
}

// removeLabel takes a label, exactly as it is spelled, from an issue, and answers the rest.
func (c *call) removeLabel() answer {
	want := c.issue.clone()
	want.Labels = slices.DeleteFunc(want.Labels, func(l string) bool { return l == c.named["name"] })
	if len(want.Labels) == len(c.issue.Labels) {
		return problem(http.StatusNotFound, "Label does not exist")
	}
	if c.edit(c.issue, want) != nil {
		return invalid("Label", "name")
	}
	return ok(text.Map(c.issue.Labels, c.repo.labelObject))
}

// listComments answers the comments since a time, the oldest first.
func (c *call) listComments() answer {
	from, _ := time.Parse(time.RFC3339, c.r.URL.Query().Get("since")) // zero without the parameter
	list := text.Filter(
		c.issue.Comments,
		func(comment Comment) bool { return !comment.UpdatedAt.Before(from) },
	)
	return page(c, list, func(comment Comment) object { return commentObject(c.issue, comment) })
}
