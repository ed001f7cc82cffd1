package web

import (
	"cmp"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// seeAPI is the hint of errors about requests.
const seeAPI = "docs/api.md describes the request"

// addressOf are the addresses of the API that do what a command does. NAME stands for the
// issue or the request that the command names.
var addressOf = map[string]string{
	"approve":          "POST /api/v1/NAME/approve",
	"deny":             "POST /api/v1/NAME/deny",
	"done":             "POST /api/v1/NAME/done",
	"pause":            "POST /api/v1/pause",
	"ps":               "GET /api/v1/state",
	"resume":           "POST /api/v1/resume",
	"retry":            "POST /api/v1/NAME/retry",
	"show":             "GET /api/v1/NAME",
	"status":           "GET /api/v1/state",
	"stop":             "POST /api/v1/NAME/stop",
	"stop --after-run": "POST /api/v1/NAME/hold",
	"tell":             "POST /api/v1/NAME/tell",
	"tick":             "POST /api/v1/refresh",
}

// seeAddresses is the hint of errors about unknown addresses.
const seeAddresses = "docs/api.md lists the addresses; the pages begin at /"

// hintAddress says which address may be meant by an unknown one, or where addresses are listed.
func (s *Server) hintAddress(r *http.Request) string {
	near := s.nearAddress(r)
	if near == "" {
		return seeAddresses
	}
	return "did you mean " + near + "? " + seeAddresses
}

// nearAddress returns the known address that resembles an unknown one most, of those that differ
// from it in the last part alone: /api/v1/WEB-1/retry for /api/v1/WEB-1/retyr. It is empty if none
// does.
func (s *Server) nearAddress(r *http.Request) string {
	place, last := path.Split(r.URL.Path)
	var words []string
	for _, known := range s.table() {
		folder, word := path.Split(known.path)
		isThere, err := path.Match(placeholder().ReplaceAllString(folder, "*"), place)
		if isThere && err == nil && !placeholder().MatchString(word) {
			words = append(words, word)
		}
	}
	near := suggest.Nearest(last, words)
	if near == "" || near == last {
		return ""
	}
	return place + near
}

// placeholder matches {identifier} in the pattern of an address.
var placeholder = text.Pattern(`{\w+}`)

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
		return unknownName("parameter", name, known)
	}
	return nil
}
