package web

import (
	"net/http"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/metrics"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
)

// metrics answers GET /metrics for Prometheus, with all projects or one of them.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	all, err := s.source.overviews(r.Context(), r.URL.Query().Get("project"), view.Options{Health: true})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", metrics.ContentType)
	_, _ = w.Write(metrics.Text(all, project.Version())) // the client may have gone
	return nil
}
