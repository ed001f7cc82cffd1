package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/metrics"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/reconcile"
)

// state answers GET /api/v1/state (specification 13.7).
func (s *Server) state(w http.ResponseWriter, r *http.Request) error {
	v, _, err := s.readState(r)
	if err != nil {
		return err
	}
	return answer(w, v)
}

// readState returns ps --json --all of the only project, or of several with their lists
// joined, with the claims of other machines, and the files that change with it.
func (s *Server) readState(r *http.Request) (v any, files []string, err error) {
	o := view.Options{All: true, Team: true}
	all, err := s.source.overviews(r.Context(), r.URL.Query().Get("project"), o)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range all {
		files = append(files, filesOf(one.Project)...)
		s.access.withholdChanges(r, one.Requests)
	}
	if len(all) != 1 {
		return view.Join(all), files, nil
	}
	if e := all[0].Error; e != nil {
		return nil, files, snapshotError(e)
	}
	return all[0], files, nil
}

// issue answers GET /api/v1/<issue_identifier> (specification 13.7).
func (s *Server) issue(w http.ResponseWriter, r *http.Request) error {
	v, err := s.source.issue(r.Context(), r.URL.Query().Get("project"), r.PathValue("identifier"), 0)
	if err != nil {
		return err
	}
	s.access.withhold(r, &v)
	for i, log := range v.Logs.Sessions {
		address := page.IssueAddress(v.Project.Name, v.Identifier) + "/log?run=" + url.QueryEscape(log.Label)
		v.Logs.Sessions[i].URL = &address
	}
	return answer(w, v)
}

// metrics answers GET /metrics for Prometheus, with all projects or a single project.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	all, err := s.source.overviews(r.Context(), r.URL.Query().Get("project"), view.Options{Health: true})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", metrics.ContentType)
	_, _ = w.Write(metrics.Text(all, wiring.Version())) // the client may have gone
	return nil
}

// healthz shows that the server answers, for load balancers and supervisors. Its answer is
// independent of the projects.
func healthz(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, map[string]string{"status": "ok"})
}

// answer answers with JSON.
func answer(w http.ResponseWriter, v any) error { return answerWith(w, http.StatusOK, v) }

// answerWith answers with a status and JSON.
func answerWith(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(encoded(v)) // the client may have gone
	return nil
}

// fail answers with an error: an envelope for programs, a page for people.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	known := exit.From(err)
	s.answerError(w, r, statusCode(known), known)
}

// answerError answers with an error and a status.
func (s *Server) answerError(w http.ResponseWriter, r *http.Request, status int, known *reconcile.Error) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	// A browser sends forms to the API.
	if strings.HasPrefix(r.URL.Path, "/api/") && r.Method != http.MethodPost ||
		!strings.Contains(r.Header.Get("Accept"), "text/html") {
		_ = answerWith(w, status, term.ErrorJSON{Error: *known})
		return
	}
	s.write(w, r, status, page.Problem(known, status == http.StatusUnauthorized))
}

// statusCode is the HTTP status of an error by its code, or else by its class.
func statusCode(e *reconcile.Error) int {
	switch e.Code {
	case "not_found", "issue_not_found", "request_not_found":
		return http.StatusNotFound
	case "method_not_allowed":
		return http.StatusMethodNotAllowed
	case "body_too_large":
		return http.StatusRequestEntityTooLarge
	case "unauthorized":
		return http.StatusUnauthorized
	case "origin_refused":
		return http.StatusForbidden
	case "host_refused":
		return http.StatusMisdirectedRequest
	case "ambiguous",
		"request_ended",
		"locked",
		"handed_over",
		"not_possible",
		"not_started",
		"needs_words",
		"status_changed":
		return http.StatusConflict
	case "snapshot_timeout", "snapshot_unavailable", "no_state", "busy":
		return http.StatusServiceUnavailable
	case "command_timeout":
		return http.StatusGatewayTimeout
	}
	switch reconcile.ClassOf(e) {
	case reconcile.ClassUsage:
		return http.StatusBadRequest
	case reconcile.ClassTracker:
		return http.StatusBadGateway
	case reconcile.ClassWorkflow, reconcile.ClassMachine, reconcile.ClassIssue, reconcile.ClassLock:
	}
	return http.StatusInternalServerError
}
