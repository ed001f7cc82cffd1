package report

import (
	"context"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/reconcile"
)

// OfProject is the report of a project among several.
type OfProject struct {
	Project  string           `json:"project"` // its name, such as web-shop
	Workflow string           `json:"workflow_path"`
	Report   *Report          `json:"report"` // null if it can't be read
	Error    *reconcile.Error `json:"error"`  // why; null if it can be read
}

// ReadEach reads the reports of several projects. A project that can't be read has an error
// instead.
func ReadEach(ctx context.Context, projects []view.Named, period Period) ([]OfProject, error) {
	all := []OfProject{}
	for _, p := range projects {
		row := OfProject{Project: p.Name, Workflow: p.Path}
		r, err := Read(ctx, p.Project, period)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			row.Error = exit.From(err)
		} else {
			row.Report = &r
		}
		all = append(all, row)
	}
	return all, nil
}
