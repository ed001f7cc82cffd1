package web

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile"
)

// seeAPI is the hint of errors about requests.
const seeAPI = "docs/api.md describes the request"

// rightProject is the part of a hint that names flags.
const rightProject = "name the right project with -w and --state-dir"

// addressOf are the addresses of the API that do what a command does. NAME stands for the
// issue or the request that the command names.
var addressOf = map[string]string{
	"approve": "POST /api/v1/requests/NAME/approve",
	"answer":  "POST /api/v1/requests/NAME/answer",
	"deliver": "POST /api/v1/NAME/deliver",
	"deny":    "POST /api/v1/requests/NAME/deny",
	"hold":    "POST /api/v1/NAME/hold",
	"pause":   "POST /api/v1/pause",
	"ps":      "GET /api/v1/state",
	"resume":  "POST /api/v1/resume",
	"retry":   "POST /api/v1/NAME/retry",
	"show":    "GET /api/v1/NAME",
	"status":  "GET /api/v1/state",
	"stop":    "POST /api/v1/NAME/stop",
	"tell":    "POST /api/v1/NAME/tell",
	"tick":    "POST /api/v1/refresh",
	"unblock": "POST /api/v1/unblock",
	"verify":  "POST /api/v1/NAME/verify",
}

const asksTracker = " asks the tracker"

// commandInHint matches a command in a hint, with the name of an issue or a request, such as
// symphony retry WEB-13.
var commandInHint = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`symphony show \S+` + asksTracker + `|symphony ([a-z]+)( --[a-z-]+)?( [^\s;,|)]*\d[^\s;,|)]*| ISSUE\b)?`)
})

// apiHint replaces the commands in a hint by addresses of the API: a program has no terminal.
// Commands that no address carries out stay.
func apiHint(hint string) string {
	if strings.HasPrefix(hint, exit.SeeHelp) {
		return seeAPI
	}
	hint = strings.ReplaceAll(hint, rightProject, "serve the right project")
	return commandInHint().ReplaceAllStringFunc(hint, func(command string) string {
		if strings.HasSuffix(command, asksTracker) { // no address does
			return command
		}
		parts := commandInHint().FindStringSubmatch(command)
		verb := parts[1]
		flag := strings.TrimSpace(parts[2])
		name := strings.TrimSpace(parts[3])
		address := addressOf[verb]
		if address == "" || flag != "" && verb != "ps" {
			return command
		}
		if !strings.Contains(address, "NAME") {
			return address + parts[3]
		}
		if name == "" {
			name = "ISSUE"
		}
		return strings.Replace(address, "NAME", name, 1)
	})
}

// asAPI returns an error with a hint for programs.
func asAPI(err *reconcile.Error) *reconcile.Error {
	known := *err
	known.Hint = apiHint(known.Hint)
	return &known
}

// parameters are the parameters that the query of an address may have.
func (r route) parameters() []string {
	switch r.path {
	case "/api/v1/results":
		return []string{"project", "text", "label", "outcome", "by", "since", "until", "from", "limit"}
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
		if !slices.Contains(known, name) {
			return unknownName("parameter", name, known)
		}
	}
	return nil
}
