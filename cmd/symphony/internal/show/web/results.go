package web

import (
	"context"
	"net/http"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/internal/text"
)

// results answers GET /api/v1/results.
func (s *Server) results(w http.ResponseWriter, r *http.Request) error {
	found, err := s.readResults(r)
	if err != nil {
		return err
	}
	return answer(w, found)
}

// readResults reads the results that the query of the address chooses.
func (s *Server) readResults(r *http.Request) (found report.ResultList, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	q, err := report.ParseQuery(r.URL.Query(), s.source.env.Now().UTC())
	if err != nil {
		return found, err
	}
	projects, err := s.source.named(ctx, q.Project)
	if err != nil {
		return found, err
	}
	found, err = report.List(ctx, projects, q)
	if err != nil {
		return found, snapshotError(err)
	}
	return found, nil
}

// resultsPage answers GET /results. The page does not change while it is open, because its
// rows would move.
func (s *Server) resultsPage(w http.ResponseWriter, r *http.Request) error {
	found, err := s.readResults(r)
	if err != nil {
		return err
	}
	all, err := s.source.projects(r.Context())
	if err != nil {
		return err
	}
	names := text.Map(all, func(p view.Named) string { return p.Name })
	s.write(w, r, http.StatusOK, page.Results{
		Choice:   page.NewResultChoice(r.URL.Query()),
		Found:    found,
		Projects: names,
	}.Page())
	return nil
}
