package project

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// MovedFrom returns the path that the workflow probably had before it was moved: that of the one project of the account whose
// workflow is gone and had the same file name or folder. It is empty if there is none, or more than one.
func MovedFrom(p *Project) (old string) {
	dirs, _ := StateDirs(p.Env) // without them nothing is suggested
	for _, dir := range dirs {
		path := ownerOf(dir)
		same := filepath.Base(path) == filepath.Base(p.Path) || filepath.Dir(path) == filepath.Dir(p.Path)
		if path == "" || dir == p.StateDir || !same || Exists(path) {
			continue
		}
		if old != "" {
			return ""
		}
		old = path
	}
	return old
}

// ownerOf returns the workflow that a state directory belongs to, empty if that can't be read.
func ownerOf(dir string) string {
	db, err := state.OpenReadOnly(context.Background(), dir)
	if err != nil {
		return ""
	}
	defer db.Close()
	path, _, _ := db.Meta(context.Background(), OwnerKey) // see above
	return path
}

// hintMoved gives an error that a moved workflow may cause the command that moves its project as the next step.
func hintMoved(p *Project, e *reconcile.Error) {
	if old := MovedFrom(p); old != "" {
		e.Hint = MoveHint(old, p.Path)
	}
}

// MoveHint is the next step after a workflow was moved.
func MoveHint(old, path string) string {
	return "if this WORKFLOW.md was moved from " + old + ": symphony projects move " + term.ShellQuote(old) + " " + term.ShellQuote(path)
}

// hintGone adds to the error of a missing workflow what to do if it was moved.
func (p *Project) hintGone() {
	var known *reconcile.Error
	if errors.Is(p.SourceErr, fs.ErrNotExist) && errors.As(p.SourceErr, &known) && p.HasState() {
		known.Hint = "if it was moved: symphony projects move " + term.ShellQuote(p.Path) + " NEW, with its new path; otherwise restore it"
	}
}
