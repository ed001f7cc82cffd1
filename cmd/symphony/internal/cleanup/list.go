package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// ListProjects prints the projects of the account, or with disk every path that symphony has made.
func ListProjects(ctx context.Context, w *term.Env, disk bool) error {
	rows, err := project.KnownProjects(ctx, w)
	if err != nil {
		return err
	}
	switch {
	case disk:
		paths, err := listDisk(ctx, w, rows)
		if err == nil {
			printDisk(w, paths)
		}
		return err
	case w.JSON:
		w.PrintJSON(append([]project.Known{}, rows...))
		return nil
	case len(rows) == 0:
		fmt.Fprintln(w.Stdout, "no project: no pass has run yet under this account")
		return nil
	}
	t := term.Table{Head: []string{"WORKFLOW", "SCHEDULE", "RUNNING", "WAITING", "HELD", "LAST PASS", "STATE"}}
	for _, r := range rows {
		name, schedule, last := cmp.Or(r.WorkflowPath, "unknown"), "none", "-"
		switch {
		case r.Error != nil:
			name = r.Error.Code
		case r.WorkflowPath != "" && !r.WorkflowExists:
			name += " (gone)"
		case r.Paused:
			name += " (paused)"
		}
		if r.Schedule {
			schedule = "active"
		}
		if r.LastPass != nil {
			last = term.AgoText(w, w.Now(), *r.LastPass)
		}
		t.Add(name, schedule, strconv.Itoa(r.Running), strconv.Itoa(r.Retrying), strconv.Itoa(r.Held), last, r.StateDir)
	}
	w.PrintTable("PROJECTS", t)
	return nil
}

// diskRow is one path that symphony has made.
type diskRow struct {
	Path string `json:"path"`
	// Kind is state, workspace, trash, root (symphony's own files in a workspace root), env_file, account or schedule.
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
	// Project is the state directory that the path belongs to, empty where several may use it.
	Project string `json:"state_dir"`
}

// listDisk returns every path on this disk that symphony has made, in order.
func listDisk(ctx context.Context, w *term.Env, projects []project.Known) ([]diskRow, error) {
	rows := []diskRow{}
	add := func(kind, owner, path string) error {
		size, exists, err := diskUsage(ctx, path)
		if exists && !slices.ContainsFunc(rows, func(r diskRow) bool { return r.Path == path }) {
			rows = append(rows, diskRow{path, kind, size, owner})
		}
		return err
	}
	var errs []error
	for _, p := range projects {
		errs = append(errs, add("state", p.StateDir, p.StateDir), add("env_file", p.StateDir, envFile(w, p)))
		for _, path := range p.Roots {
			root, found, err := workspace.FindRoot(path)
			if err != nil || !found {
				continue // an unusable root holds nothing that is certainly symphony's
			}
			records, err := root.List()
			errs = append(errs, err)
			for _, r := range records {
				errs = append(errs, add("workspace", r.StateDir, r.Path))
			}
			meta := filepath.Join(path, ".symphony")
			errs = append(errs, add("trash", "", filepath.Join(meta, "trash")), add("root", "", meta))
		}
	}
	home := project.StateHome(w)
	errs = append(errs, add("account", "", filepath.Join(home, "accounts")), add("account", "", filepath.Join(home, "elsewhere")))
	for _, path := range schedule.UnitFiles(w) {
		errs = append(errs, add("schedule", "", path))
	}
	slices.SortFunc(rows, func(a, b diskRow) int { return strings.Compare(a.Path, b.Path) })
	return rows, errors.Join(errs...)
}

func printDisk(w *term.Env, rows []diskRow) {
	var sum int64
	for _, r := range rows {
		// The trash of a root is part of the root's own bytes.
		if !slices.ContainsFunc(rows, func(o diskRow) bool { return o.Path != r.Path && text.PathInside(o.Path, r.Path) }) {
			sum += r.Bytes
		}
	}
	if w.JSON {
		w.PrintJSON(struct {
			Bytes int64     `json:"bytes"`
			Paths []diskRow `json:"paths"`
		}{sum, rows})
		return
	}
	t := term.Table{Head: []string{"KIND", "SIZE", "PATH"}}
	for _, r := range rows {
		size := term.BytesText(r.Bytes)
		if w.Width == 0 {
			size = strconv.FormatInt(r.Bytes, 10)
		}
		t.Add(r.Kind, size, r.Path)
	}
	w.PrintTable("DISK", t)
	if w.Width > 0 {
		fmt.Fprintf(w.Stdout, "%s in total; codex keeps its threads in its own home\n", term.BytesText(sum))
	}
}
