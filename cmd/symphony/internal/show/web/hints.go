package web

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// seeAPI is the hint of errors about requests.
const seeAPI = "docs/api.md describes the request"

// addressOf are the addresses of the API that do what a command does. NAME stands for the
// issue or the request that the command names.
var addressOf = map[string]string{
	"approve":          "POST /api/v1/requests/NAME/approve",
	"answer":           "POST /api/v1/requests/NAME/answer",
	"deliver":          "POST /api/v1/NAME/deliver",
	"deny":             "POST /api/v1/requests/NAME/deny",
	"pause":            "POST /api/v1/pause",
	"ps":               "GET /api/v1/state",
	"resume":           "POST /api/v1/resume",
	"retry":            "POST /api/v1/NAME/retry",
	"send-back":        "POST /api/v1/NAME/send-back",
	"show":             "GET /api/v1/NAME",
	"status":           "GET /api/v1/state",
	"stop":             "POST /api/v1/NAME/stop",
	"stop --after-run": "POST /api/v1/NAME/hold",
	"tell":             "POST /api/v1/NAME/tell",
	"tick":             "POST /api/v1/refresh",
	"verify":           "POST /api/v1/NAME/verify",
}

// lists are addresses of other services that list something, which our state has.
var lists = []string{"agents", "claims", "issues", "projects", "requests", "runs"}

// Answers that several addresses have.
const (
	noRun = "POST /api/v1/refresh runs a pass, which starts what is ready; symphony run ISSUE starts one issue at once"
	inAPI = "GET /api/v1/openapi.json describes the addresses, and docs/api.md has examples"
	alive = "did you mean GET /healthz?"
)

// otherPlaces tells where something is that a method and an address are taken for.
var otherPlaces = map[string]string{
	"POST /api/v1/issues": "the API adds no issue: symphony issues new TITLE does",
	"POST /api/v1/run":    noRun,
	"POST /api/v1/runs":   noRun,
	"POST /api/v1/start":  noRun,
	"GET /api":            inAPI,
	"GET /api/v1":         inAPI,
	"GET /docs":           inAPI,
	"GET /graphql":        inAPI,
	"GET /swagger":        inAPI,
	"GET /live":           alive,
	"GET /livez":          alive,
	"GET /ping":           alive,
	"GET /ready":          alive,
	"GET /readyz":         alive,
}

// elsewhere tells where something is that a request looks for where it is not, empty if that is not
// known.
func (s *Server) elsewhere(r *http.Request) string {
	parts := partsOf(r)
	last := parts[len(parts)-1]
	isAPI := strings.HasPrefix(r.URL.Path, "/api/v1/")
	isKnown := slices.ContainsFunc(s.table(), func(known route) bool { return known.path == r.URL.Path })
	asked := r.Method + " " + cmp.Or(strings.TrimSuffix(r.URL.Path, "/"), "/")
	changes := slices.Contains([]string{http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method)
	switch {
	case otherPlaces[asked] != "":
		return otherPlaces[asked]
	case isOfIssue(parts) && slices.Contains([]string{"run", "start", "runs", "dispatch"}, last):
		return noRun
	case isAPI && changes && !isKnown && len(parts) == projectParts && !slices.Contains(lists, last):
		return "an issue is changed in its tracker; about the work on it there are " + strings.Join(s.issueAddresses(), ", ")
	case isAPI && len(parts) == 4 && parts[2] == "projects":
		return "did you mean GET /api/v1/state?project=" + last + "?"
	}
	return ""
}

// meantAddress is the method and the address that an unknown one was probably meant for, such as
// GET /api/v1/state; empty if there is none. The end of both is alike: the beginning may differ, as
// in /api/v2/state, and an issue in it is the same.
func (s *Server) meantAddress(r *http.Request) string {
	given := partsOf(r)
	last := given[len(given)-1]
	best := 0
	meant := ""
	for _, known := range s.table() {
		parts, near := alike(known.path, given)
		rank := 1
		if len(parts) == len(given) {
			rank += 4
		}
		if known.method == r.Method {
			rank += 2
		}
		isOther := isOfIssue(given) && len(parts) != len(given)
		if near && !isOther && rank > best && "/"+strings.Join(parts, "/") != r.URL.Path {
			best = rank
			meant = known.method + " /" + strings.Join(parts, "/")
		}
	}
	switch {
	case meant != "" || !strings.HasPrefix(r.URL.Path, "/api/"):
		return meant
	case slices.Contains(lists, last):
		return addressOf["ps"]
	}
	if isOfIssue(given) {
		return strings.Replace(addressOf[verbs[last]], "NAME", given[2], 1)
	}
	address := addressOf[last]
	isSame := strings.HasSuffix(address, " "+r.URL.Path)
	if isSame || len(given) > projectParts {
		return ""
	}
	return strings.Replace(address, "NAME", "ISSUE", 1)
}

// projectParts is how many parts the address of a command about a project has, such as
// /api/v1/pause.
const projectParts = 3

// verbs are the commands about an issue for the words of other services.
var verbs = map[string]string{
	"abort":   "stop",
	"cancel":  "stop",
	"comment": "send-back",
	"kill":    "stop",
	"message": "tell",
	"pause":   "stop --after-run",
	"reject":  "send-back",
	"release": "retry",
	"reopen":  "send-back",
	"rerun":   "retry",
	"restart": "retry",
	"resume":  "retry",
}

// hintAddress says which address was probably meant by an unknown one, or where addresses are listed.
func (s *Server) hintAddress(r *http.Request) string {
	const list = "docs/api.md lists the addresses; the pages begin at /"
	issue, isIssue := strings.CutPrefix(r.URL.Path, "/api/v1/issues/")
	other := s.elsewhere(r)
	meant := s.meantAddress(r)
	switch {
	case other != "":
		return other
	case meant != "":
		return "did you mean " + meant + "? " + list
	case isIssue:
		return "the issue is at /api/v1/" + issue + "; " + list
	case isOfIssue(partsOf(r)):
		return "about an issue there are " + strings.Join(s.issueAddresses(), ", ") + "; " + list
	case s.pageOfIssue(r) != "":
		return "did you mean " + s.pageOfIssue(r) + "?"
	}
	return list
}

// pageOfIssue returns the address of the page of the issue whose name an unknown address ends with; empty
// for an address of the API, and for those who may not read.
func (s *Server) pageOfIssue(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/api/") || s.access.permit(r, needReading) != nil {
		return ""
	}
	parts := partsOf(r)
	found, err := s.source.issue(r.Context(), "", parts[len(parts)-1], 0)
	if err != nil {
		return ""
	}
	return page.IssueAddress(found.Project.Name, found.Identifier)
}

// issueAddresses are the addresses of the API about an issue, by their methods:
// GET /api/v1/ISSUE/log, /diff.
func (s *Server) issueAddresses() (list []string) {
	methods := map[string]string{}
	for _, known := range s.table() {
		verb, isOfIssue := strings.CutPrefix(known.path, "/api/v1/{identifier}/")
		if isOfIssue {
			methods[known.method] += ", /" + verb
		}
	}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		list = append(list, method+" /api/v1/ISSUE"+strings.TrimPrefix(methods[method], ", "))
	}
	return list
}

// isOfIssue reports whether an address of the API is about an issue: api, v1, WEB-1, hold.
func isOfIssue(given []string) bool {
	return len(given) == 4 && given[0] == "api" && given[1] == "v1" && !slices.Contains(lists, given[2])
}

func partsOf(r *http.Request) []string { return strings.Split(strings.Trim(r.URL.Path, "/"), "/") }

// alike fills the names of a known address from the end of a given one, and reports whether the
// words at their ends are similar. An address that ends with a name is like no other.
func alike(known string, given []string) (parts []string, near bool) {
	parts = strings.Split(strings.Trim(known, "/"), "/")
	tail := strings.Split(strings.TrimPrefix(strings.TrimPrefix(known, "/api/v1"), "/"), "/")
	if len(tail) > len(given) || strings.HasSuffix(known, "}") {
		return parts, false
	}
	for i, word := range tail {
		at := given[len(given)-len(tail)+i]
		isVersion := at == "api" || at == "v1" || at == "v2"
		if strings.HasPrefix(word, "{") && isVersion {
			return parts, false
		}
		if strings.HasPrefix(word, "{") {
			parts[len(parts)-len(tail)+i] = at
		} else if len(text.Nearest(at, []string{word})) == 0 {
			return parts, false
		}
	}
	return parts, true
}

// apiHint returns the hint of an error with addresses of the API in the place of commands: a
// program has no terminal. Commands that no address carries out stay.
func apiHint(e *reconcile.Error) string {
	if e.Next == reconcile.StepReadHelp {
		return seeAPI
	}
	return e.HintWith(func(c reconcile.CommandLine) string {
		address := addressOf[c.Verb]
		if address == "" {
			return c.String()
		}
		return strings.Replace(address, "NAME", cmp.Or(c.Name, "ISSUE"), 1)
	})
}

// asAPI returns an error with a hint for programs.
func asAPI(err *reconcile.Error) *reconcile.Error {
	known := *err
	known.Hint = apiHint(err)
	return &known
}

// resultParameters are the parameters of the address of results.
var resultParameters = []string{"project", "text", "label", "outcome", "by", "since", "until", "from", "limit"}

// parameters are the parameters that the query of an address may have.
func (r route) parameters() []string {
	switch r.path {
	case "/api/v1/results":
		return resultParameters
	case "/api/v1/{identifier}/log":
		return []string{"project", "run"}
	}
	return []string{"project"}
}

// checkQuery refuses a parameter that the address does not have: with a misspelled project an
// answer would be about all projects.
func (r route) checkQuery(asked *http.Request) error {
	isForPrograms := strings.HasPrefix(r.path, "/api/") || r.path == "/metrics"
	if !isForPrograms || r.need == needNothing {
		return nil
	}
	known := r.parameters()
	for _, name := range slices.Sorted(maps.Keys(asked.URL.Query())) {
		if slices.Contains(known, name) {
			continue
		}
		err := exit.From(unknownName("parameter", name, known))
		if r.path == "/api/v1/state" && (isFilter(name) || slices.Contains(pageParameters, name)) {
			err.Hint = "the answer has all issues: choose among .issues by their status, state and title; " +
				"GET /api/v1/results takes " + strings.Join(resultParameters, ", ")
		}
		return err
	}
	return nil
}

// pageParameters are parameters with which other services divide their lists.
var pageParameters = []string{"limit", "page", "per_page", "offset", "sort", "fields"}

// isFilter reports whether a parameter chooses issues, as --filter of ps does.
func isFilter(name string) bool {
	return name == "state" || name == "filter" || slices.Contains(view.FilterKeys, name)
}
