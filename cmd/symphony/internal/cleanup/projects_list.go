package cleanup

import (
	"context"
	"fmt"
	"strconv"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

func ListProjects(ctx context.Context, w *term.Env, disk bool) error {
	rows, err := project.KnownProjects(ctx, w)
	if err != nil {
		return err
	}
	if disk {
		return listDisk(ctx, w, rows)
	}
	if w.JSON {
		w.PrintJSON(append([]project.State{}, rows...))
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintln(w.Stdout, "no project: no pass has run yet under this account")
		return nil
	}
	t := term.Table{Head: []string{"WORKFLOW", "SCHEDULE", "RUNNING", "WAITING", "HELD", "LAST PASS", "STATE"}}
	now := w.Now()
	for _, r := range rows {
		last := "-"
		if r.LastPass != nil {
			last = term.AgoText(w, now, *r.LastPass)
		}
		t.Add(r.Name(), r.ScheduleText(), strconv.Itoa(r.Running), strconv.Itoa(r.Retrying), strconv.Itoa(r.Held), last, r.StateDir)
	}
	w.PrintTable("PROJECTS", t)
	return nil
}
