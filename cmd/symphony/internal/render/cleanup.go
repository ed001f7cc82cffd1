package render

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
)

// Trash prints the removed workspaces of a project.
func Trash(w *term.Env, rows cleanup.TrashJSON) {
	switch {
	case w.JSON:
		w.PrintJSON(rows)
		return
	case len(rows) == 0:
		fmt.Fprintln(w.Stdout, "the trash is empty")
		return
	}
	t := term.Table{Head: []string{"ISSUE", "SIZE", "REMOVED", "DELETED", "UNSAVED WORK", "NAME"}}
	for _, r := range rows {
		size, deleted, work := text.BytesText(r.Bytes), "kept", "none"
		if w.Width == 0 {
			size = fmt.Sprint(r.Bytes)
		}
		switch at := r.DeletedAt; {
		case at != nil && w.Width == 0:
			deleted = text.Rfc3339(*at)
		case at != nil && !at.After(w.Now()):
			deleted = "by the next pass that cleans up"
		case at != nil:
			deleted = "in " + text.Duration(at.Sub(w.Now()))
		}
		if r.Unsaved != nil {
			work = *r.Unsaved
			if r.Discarded {
				work += " (discarded)"
			}
		}
		t.Add(r.Identifier, size, term.AgoText(w, w.Now(), r.RemovedAt), deleted, work, filepath.Base(r.Path))
	}
	w.PrintTable("TRASH", t)
}

// Restored prints the path of a restored workspace.
func Restored(w *term.Env, r cleanup.RestoreJSON) {
	if w.JSON {
		w.PrintJSON(r)
		return
	}
	fmt.Fprintln(w.Stdout, text.Visible("restored "+r.Restored+"; passes do not remove it before a run has used it"))
}

// Projects prints the projects of the account.
func Projects(w *term.Env, rows cleanup.ProjectsJSON) {
	switch {
	case w.JSON:
		w.PrintJSON(rows)
		return
	case len(rows) == 0:
		fmt.Fprintln(w.Stdout, "no projects: no pass has run yet as this account")
		return
	}
	t := term.Table{Head: []string{"WORKFLOW", "SCHEDULE", "RUNNING", "WAITING", "HELD", "LAST PASS", "STATE"}}
	for _, r := range rows {
		name, schedule, last := cmp.Or(r.WorkflowPath, "unknown"), "none", "-"
		switch {
		case r.Error != nil:
			name = r.Error.Code
		case r.WorkflowPath != "" && !r.WorkflowExists:
			name += " (missing)"
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
	for _, r := range rows {
		if len(r.SharedWith) > 0 {
			fmt.Fprintf(w.Stderr, "%s has the same project of the tracker as %s\n", text.Visible(r.WorkflowPath), text.Visible(strings.Join(r.SharedWith, ", ")))
		}
	}
}

// Moved prints where a project is now.
func Moved(w *term.Env, m cleanup.MovedJSON) {
	out := *w
	if w.JSON {
		w.PrintJSON(m)
		out.Stdout = w.Stderr
	} else {
		fmt.Fprintln(w.Stdout, text.Visible("the project of "+m.From+" is now that of "+m.WorkflowPath))
		fmt.Fprintln(w.Stdout, text.Visible("its state is in "+m.StateDir+", its environment file is "+m.EnvironmentFile))
	}
	ScheduleChanges(&out, m.Schedule)
	if m.Named != "" {
		w.Note(slog.LevelWarn, m.Named)
	}
}
