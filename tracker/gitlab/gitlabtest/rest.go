package gitlabtest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

type route struct {
	method, path string // as GitLab's description writes it, below /api/v4
	answer       func(*call) answer
}

const (
	projectPath = "/projects/{id}"
	issuePath   = projectPath + "/issues/{issue_iid}"
	notesPath   = projectPath + "/issues/{noteable_id}/notes"
)

// routes are the requests that the server answers: those about issues here, others in the files of
// their subjects.
var routes = slices.Concat(issueRoutes, mergeRoutes, pipelineRoutes)

var issueRoutes = []route{
	{"GET", "/user", func(c *call) answer { return ok(userObject(c.user)) }},
	{"GET", "/users", (*call).listUsers},
	{"GET", "/personal_access_tokens/self", (*call).ownToken},
	{"GET", projectPath, func(c *call) answer { return ok(c.projectObject(c.project)) }},
	{"GET", projectPath + "/labels", (*call).listLabels},
	{"GET", projectPath + "/issues", (*call).listIssues},
	{"POST", projectPath + "/issues", (*call).createIssue},
	{"GET", issuePath, func(c *call) answer { return ok(c.issueObject(c.issue)) }},
	{"PUT", issuePath, (*call).editIssue},
	{"GET", issuePath + "/links", (*call).listLinks},
	{"GET", notesPath, (*call).listNotes},
	{"POST", notesPath, (*call).createNote},
	{"PUT", notesPath + "/{note_id}", (*call).editNote},
}

// route returns the route of a request, and the values of the parts of its path that are in
// braces.
func (c *call) route() (route, map[string]string) {
	path, isAPI := strings.CutPrefix(c.r.URL.EscapedPath(), c.Path+"/api/v4")
	if !isAPI {
		return route{}, nil
	}
	got := strings.Split(path, "/")
	fits := func(want, got string) bool { return want == got || strings.HasPrefix(want, "{") && got != "" }
	for _, to := range routes {
		want := strings.Split(to.path, "/")
		if to.method != c.r.Method || !slices.EqualFunc(want, got, fits) {
			continue
		}
		named := map[string]string{}
		for i, w := range want {
			if w != got[i] {
				// net/http already parsed it
				named[strings.Trim(w, "{}")], _ = url.PathUnescape(got[i])
			}
		}
		return to, named
	}
	return route{}, nil
}

// find finds the project and the issue that the path names. It redirects from former names, but
// only what reads.
func (c *call) find() {
	name, has := c.named["id"]
	if !has {
		return
	}
	for _, p := range c.projects {
		if strings.EqualFold(p.name, name) || strconv.FormatInt(p.id, 10) == name {
			c.project = p
		}
	}
	if c.project == nil {
		c.redirect(name)
		panic(missing("Project"))
	}
	if digits, has := c.named["merge_request_iid"]; has {
		c.findMerge(digits)
	}
	if digits, has := c.named["noteable_id"]; has && strings.Contains(c.r.URL.Path, "/merge_requests/") {
		c.findMerge(digits)
	}
	for _, part := range []string{"issue_iid", "noteable_id"} {
		digits, has := c.named[part]
		if !has || !strings.Contains(c.r.URL.Path, "/issues/") {
			continue
		}
		number, _ := strconv.Atoi(digits)
		c.issue = c.project.find(number)
		if c.issue == nil || c.hides(c.issue) {
			panic(missing(""))
		}
	}
}

// redirect answers a request for a project by a former name.
func (c *call) redirect(name string) {
	is := func(former string) bool { return strings.EqualFold(former, name) }
	p := text.First(c.projects, func(p *project) bool { return slices.ContainsFunc(p.former, is) })
	if p == nil {
		return
	}
	if c.r.Method != http.MethodGet {
		panic(problem(http.StatusMethodNotAllowed, "Non GET methods are not allowed for moved projects"))
	}
	to := strings.Replace(c.r.URL.RequestURI(), url.PathEscape(name), fmt.Sprint(p.id), 1)
	c.header.Set("Location", "http://"+c.r.Host+to)
	panic(problem(http.StatusMovedPermanently, "This resource has been moved permanently to http://"+c.r.Host+to))
}

const (
	usualPage   = 20
	largestPage = 100
)

// page answers a page of a list.
func page[T any](c *call, all []T, show func(T) object) answer {
	q := c.r.URL.Query()
	size, err := strconv.Atoi(cmp.Or(q.Get("per_page"), strconv.Itoa(usualPage)))
	if err != nil {
		return unfit("per_page is invalid")
	}
	number, err := strconv.Atoi(cmp.Or(q.Get("page"), "1"))
	if err != nil {
		return unfit("page is invalid")
	}
	size = min(max(size, 1), largestPage)
	number = max(number, 1)
	pages := max((len(all)+size-1)/size, 1)
	c.header.Set("X-Page", fmt.Sprint(number))
	c.header.Set("X-Per-Page", fmt.Sprint(size))
	c.header.Set("X-Total", fmt.Sprint(len(all)))
	c.header.Set("X-Total-Pages", fmt.Sprint(pages))
	c.header.Set("X-Next-Page", "")
	links := []string{c.link(1, "first"), c.link(pages, "last")}
	if number < pages {
		c.header.Set("X-Next-Page", fmt.Sprint(number+1))
		links = append([]string{c.link(number+1, "next")}, links...)
	}
	c.header.Set("Link", strings.Join(links, ", "))
	from := min((number-1)*size, len(all))
	to := min(number*size, len(all))
	return ok(text.Map(all[from:to], show))
}

// link is a link to a page of the list that is asked for. Its query has also the parts of the
// path, as GitLab writes it, and its host is the one by which the server knows itself.
func (c *call) link(number int, rel string) string {
	q := c.r.URL.Query()
	for name, value := range c.named {
		q.Set(name, value)
	}
	q.Set("page", strconv.Itoa(number))
	return fmt.Sprintf(`<https://gitlab.internal%s?%s>; rel="%s"`, c.r.URL.EscapedPath(), q.Encode(), rel)
}
