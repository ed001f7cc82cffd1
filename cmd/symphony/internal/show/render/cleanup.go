package render

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
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
		size := either(w, text.BytesText(r.Bytes), fmt.Sprint(r.Bytes))
		deleted := deletedText(w, r.DeletedAt)
		work := "none"
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

// deletedText is when a removed workspace is deleted.
func deletedText(w *term.Env, at *time.Time) string {
	switch {
	case at == nil:
		return "kept"
	case w.Piped():
		return text.Rfc3339(*at)
	case !at.After(w.Now()):
		return "by the next pass that cleans up"
	}
	return "in " + text.Duration(at.Sub(w.Now()))
}

// Restored prints the path of a restored workspace.
func Restored(w *term.Env, r cleanup.RestoreJSON) {
	if w.JSON {
		w.PrintJSON(r)
		return
	}
	line := "restored " + r.Restored + "; passes do not remove it before a run has used it"
	fmt.Fprintln(w.Stdout, text.Visible(line))
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
	t := term.Table{
		Head: []string{
			"WORKFLOW", "SCHEDULE", "RUNNING", "WAITING", "NEED HELP", "HELD", "LAST PASS", "STATE",
		},
	}
	for _, r := range rows {
		name := cmp.Or(r.WorkflowPath, "unknown")
		schedule := "none"
		last := "-"
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
		running := strconv.Itoa(r.Running)
		waiting := strconv.Itoa(r.Retrying)
		help := strconv.Itoa(r.NeedsHelp)
		held := strconv.Itoa(r.Held)
		t.Add(name, schedule, running, waiting, help, held, last, r.StateDir)
	}
	w.PrintTable("PROJECTS", t)
}

// Moved prints where a project is now.
func Moved(w *term.Env, m cleanup.MovedJSON) {
	out := *w
	if w.JSON {
		w.PrintJSON(m)
		out.Stdout = w.Stderr
	} else {
		fmt.Fprintln(w.Stdout, text.Visible("the project of "+m.From+" now belongs to "+m.WorkflowPath))
		where := "its state is in " + m.StateDir + ", its environment file is " + m.EnvironmentFile
		fmt.Fprintln(w.Stdout, text.Visible(where))
	}
	ScheduleChanges(&out, m.Schedule)
	if m.Named != "" {
		w.Note(slog.LevelWarn, m.Named)
	}
}

// Pruned lists the things that were removed and kept, or in a dry run would be, and sums them
// up.
func Pruned(w *term.Env, f *cleanup.PruneJSON) {
	for _, warning := range f.Warnings {
		w.Note(slog.LevelWarn, warning)
	}
	if w.JSON {
		w.PrintJSON(f)
		return
	}
	verbs := doneVerbs
	if f.DryRun {
		verbs = plannedVerbs
	}
	printPrune(w, f, verbs)
	if f.Empty() {
		fmt.Fprintln(w.Stdout, "nothing to remove")
		return
	}
	fmt.Fprintln(w.Stdout, verbs.sum+" "+pruneSum(f))
}

// PrunePlan prints a line for each thing that would be removed or kept, before the operator is
// asked.
func PrunePlan(w *term.Env, f *cleanup.PruneJSON) {
	if !w.JSON {
		printPrune(w, f, plannedVerbs)
	}
}

// pruneSum counts what a prune removes, such as "1 workspace, 3 runs, 12.0 MiB".
func pruneSum(f *cleanup.PruneJSON) string {
	trash := 0
	runs := 0
	var size int64
	for _, t := range f.Trash {
		trash += t.Entries
		size += t.Bytes
	}
	for _, s := range f.Workspaces {
		size += s.Bytes
	}
	for _, r := range f.Runs {
		runs += r.Runs
	}
	var parts []string
	if n := len(f.Workspaces); n > 0 {
		parts = append(parts, text.Plural(n, "workspace"))
	}
	if trash > 0 {
		parts = append(parts, text.Plural(trash, "workspace")+" from the trash")
	}
	if runs > 0 {
		parts = append(parts, text.Plural(runs, "run"))
	}
	if n := len(f.RunDirs); n > 0 {
		parts = append(parts, runDirectories(n))
	}
	if size > 0 {
		parts = append(parts, text.BytesText(size))
	}
	return strings.Join(parts, ", ")
}

func runDirectories(n int) string {
	if n == 1 {
		return "1 run directory"
	}
	return fmt.Sprintf("%d run directories", n)
}

// pruneVerbs are the verbs in the lines about a prune.
type pruneVerbs struct {
	remove, keep string
	destroy      string // work that exists nowhere else
	discard      string // the same, which the trash keeps for a while
	sum          string // begins the last line
}

var (
	plannedVerbs = pruneVerbs{
		remove:  "remove",
		keep:    "keep",
		destroy: "DESTROY",
		discard: "DISCARD",
		sum:     "would remove",
	}
	doneVerbs = pruneVerbs{
		remove:  "removed",
		keep:    "kept",
		destroy: "DESTROYED",
		discard: "DISCARDED",
		sum:     "removed",
	}
)

// printPrune prints a line for each thing that is removed or kept.
func printPrune(w *term.Env, f *cleanup.PruneJSON, verbs pruneVerbs) {
	if f.KeptFor == 0 { // the trash keeps nothing
		verbs.discard = verbs.destroy
	}
	printRemovals(w, f, verbs)
	printKept(w, f, verbs)
	if n := len(f.RunDirs); n > 0 {
		pruneLine(w, verbs.remove, "%s in %s", runDirectories(n), filepath.Dir(f.RunDirs[0]))
	}
}

// pruneLine prints a line about a prune. Without a verb the line belongs to the one before.
func pruneLine(w *term.Env, verb, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	fmt.Fprintln(w.Stdout, text.Visible(fmt.Sprintf("%-7s %s", verb, what)))
}

// printRemovals prints the workspaces and runs that a prune removes, each with the work that is
// lost.
func printRemovals(w *term.Env, f *cleanup.PruneJSON, verbs pruneVerbs) {
	for _, t := range f.Trash {
		entries := text.Plural(t.Entries, "workspace")
		pruneLine(w, verbs.remove, "%s (%s) from the trash %s", entries, text.BytesText(t.Bytes), t.Path)
		for _, loss := range t.Discarded {
			fmt.Fprint(w.Stdout, loss.Lines(verbs.destroy))
		}
	}
	for _, s := range f.Workspaces {
		pruneLine(w, verbs.remove, "%s: %s is %s %s", s.Path, s.Identifier, s.Why, s.Remark())
		fmt.Fprint(w.Stdout, s.Lines(verbs.discard))
		if s.Unsaved != "" && f.KeptFor != 0 {
			restore := "symphony restore " + text.ShellQuote(s.Identifier)
			pruneLine(w, "", "the trash keeps it for %s: %s", text.Duration(f.KeptFor), restore)
		}
	}
	for _, r := range f.Runs {
		pruneLine(w, verbs.remove, "%s of %s, which is %s", text.Plural(r.Runs, "run"), r.Identifier, r.Why)
		for _, loss := range r.Commits {
			fmt.Fprint(w.Stdout, loss.Lines(verbs.destroy))
		}
	}
}

// printKept prints the runs and workspaces that a prune keeps, each with the reason.
func printKept(w *term.Env, f *cleanup.PruneJSON, verbs pruneVerbs) {
	for _, r := range f.KeptRuns {
		pruneLine(
			w,
			verbs.keep,
			"%s of %s, which is %s, because of its commits here",
			text.Plural(r.Runs, "run"),
			r.Identifier,
			r.Why,
		)
		for _, loss := range r.Commits {
			pruneLine(w, "", "%s in %s", loss.Unsaved, loss.Path)
		}
	}
	for _, loss := range f.KeptTrash {
		pruneLine(w, verbs.keep, "%s in the trash: it has %s", loss.Path, loss.Unsaved)
	}
	for _, s := range f.Kept {
		pruneLine(w, verbs.keep, "%s: %s is %s %s", s.Path, s.Identifier, s.Why, s.Remark())
	}
}

// Removed prints the rest of a removed project.
func Removed(w *term.Env, r *cleanup.RemovedJSON) {
	if w.JSON {
		w.PrintJSON(r)
		return
	}
	for _, name := range r.Left {
		line := "kept " + filepath.Join(r.Removed, name) + ", " + cleanup.WhyLeft(name)
		fmt.Fprintln(w.Stdout, text.Visible(line))
	}
	fmt.Fprintln(w.Stdout, text.Visible("removed "+r.Removed))
}
