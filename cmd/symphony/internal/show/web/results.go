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

// resultsPage draws /results.
func (s *Server) resultsPage(r *http.Request) (p page.Page, files []string, err error) {
	found, err := s.readResults(r)
	if err != nil {
		return p, nil, err
	}
	all, err := s.source.projects(r.Context())
	if err != nil {
		return p, nil, err
	}
	for _, one := range all {
		files = append(files, filesOf(view.ProjectRow{WorkflowPath: one.Path, StateDir: one.StateDir})...)
	}
	labels, err := report.Labels(r.Context(), all)
	if err != nil {
		return p, files, snapshotError(err)
	}
	return page.Results{
		Choice:   page.NewResultChoice(r.URL.Query()),
		Found:    found,
		Projects: text.Map(all, func(p view.Named) string { return p.Name }),
		Labels:   labels,
	}.Page(), files, nil
}
