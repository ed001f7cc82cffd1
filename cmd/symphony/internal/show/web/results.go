package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/report"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/internal/text"
)

// results answers GET /api/v1/results.
func (s *Server) results(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	found, err := s.readResults(ctx, r.URL.Query())
	if err != nil {
		return err
	}
	return answer(w, found)
}

// readResults reads the results that the query of an address chooses.
func (s *Server) readResults(ctx context.Context, query url.Values) (found report.ResultList, err error) {
	q, err := report.ParseQuery(query, s.source.env.Now().UTC())
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
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	found, err := s.readResults(ctx, r.URL.Query())
	if err != nil {
		return p, nil, err
	}
	all, err := s.source.projects(ctx)
	if err != nil {
		return p, nil, err
	}
	for _, one := range all {
		files = append(files, filesOf(view.ProjectRow{WorkflowPath: one.Path, StateDir: one.StateDir})...)
	}
	labels, err := report.Labels(ctx, all)
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
