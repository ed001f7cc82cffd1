package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
)

// seeAPI is the hint of errors about requests.
const seeAPI = "docs/api.md describes the request"

// seeAddresses is the hint of errors about unknown addresses.
const seeAddresses = "docs/api.md lists the addresses; the pages begin at /"

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
		return badRequest(fmt.Sprintf("unknown parameter %q, %s", name, suggest.Instead(name, known)))
	}
	return nil
}
