package githubtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// mistake is the status of an answer to a request that GitHub does not know, or for which this
// server lacks GitHub's answer.
const mistake = 599

// checked answers a request by its route, and checks both by GitHub's description. A fault is
// reported and answered 599.
func (c *call) checked(to route) (out answer) {
	if c.Check == nil || c.isGraphQL() {
		return to.answer(c)
	}
	if c.repo != nil {
		c.named["owner"], c.named["repo"], _ = strings.Cut(c.repo.name, "/")
	}
	wrong := c.Check(c.r, c.body, to.full(), c.named, func() (int, http.Header, []byte) {
		out = c.try(func() answer { return to.answer(c) })
		return out.status, c.header, encode(out.body)
	})
	if wrong != "" {
		return c.mistake(wrong)
	}
	return out
}

// mistake reports the fault of a request or of this server's answer.
func (c *call) mistake(what string) answer {
	what = c.r.Method + " " + c.r.URL.RequestURI() + ": " + what
	c.Errorf("GitHub's description: %s", what)
	return problem(mistake, what)
}

// full is the path as GitHub's description writes it.
func (r route) full() string {
	return strings.NewReplacer(
		"ISSUE", "/repos/{owner}/{repo}/issues/{issue_number}", "REPO", "/repos/{owner}/{repo}",
		"/orgs/BOARD", "/orgs/{org}/projectsV2/{project_number}",
	).Replace(r.path)
}

// undeclared is the route of requests that no other route answers.
var undeclared = route{http.MethodGet, "", func(*call) answer { return missing }}

// CheckFunc returns the fault of a request, or of the reply to it, by GitHub's description.
// params are the values of the parts of path in braces.
type CheckFunc = func(
	r *http.Request, body []byte, path string, params map[string]string, reply func() (int, http.Header, []byte),
) (mistake string)

// Exchange is a request to GitHub and the reply to it, as the program in openapi/validate
// reads it.
type Exchange struct {
	Method, URL, Path string
	Params            map[string]string // the parts of Path in braces
	Header            http.Header
	Body              []byte
	Status            int
	ReplyHeader       http.Header
	Reply             []byte
}

// CheckBy returns a function that lets a validator check exchanges. The validator reads them
// from in and writes the fault of each to out.
func CheckBy(in io.Writer, out io.Reader) CheckFunc {
	var mu sync.Mutex
	send := json.NewEncoder(in)
	receive := json.NewDecoder(out)
	return func(
		r *http.Request, body []byte, path string, params map[string]string, reply func() (int, http.Header, []byte),
	) (mistake string) {
		e := Exchange{
			Method: r.Method,
			URL:    r.URL.String(),
			Path:   path,
			Params: params,
			Header: r.Header,
			Body:   body,
		}
		e.Status, e.ReplyHeader, e.Reply = reply()
		mu.Lock()
		defer mu.Unlock()
		err := send.Encode(e)
		if err == nil {
			err = receive.Decode(&mistake)
		}
		if err != nil {
			return "the validator: " + err.Error()
		}
		return mistake
	}
}
