package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// move changes the paths in a record that rename knows as moved: those of the project, and of the repository if it is the same one.
func (rec *Record) move(rename func(string) string) (changed bool) {
	before, origin := rec.Project, rec.Origin
	rec.Project = rename(before)
	_, url, _ := strings.Cut(rename("git "+origin.URL), " ")
	if url != origin.URL && git.Has(context.Background(), url, origin.Commit) {
		rec.Origin.URL = url
	}
	return rec.Project != before || rec.Origin != origin
}

// OriginOf returns the address of the repository that the workspace at a path was cloned from; empty if it is not known.
func OriginOf(path string) string {
	root, ok, err := FindRoot(filepath.Dir(path))
	if err != nil || !ok {
		return ""
	}
	rec, _, _ := root.Record(filepath.Base(path)) // without it git's own address counts
	return rec.Origin.URL
}

// EndsDir is symphony's directory with what the workspace at a path contained at the ends of its runs.
func EndsDir(path string) string {
	root := Root{Path: filepath.Dir(path)}
	return filepath.Join(root.work(filepath.Base(path)), "ends")
}

// MoveProjects gives projects the name that rename returns, in the records of workspaces, in the trash, and in the claims of the
// state directory, which was moved from the path from to the path to. No worker of theirs may run. Repeated, it changes nothing.
func (r *Root) MoveProjects(from, to string, rename func(project string) string) error {
	recs, err := r.List()
	for _, rec := range recs {
		if rec.move(rename) {
			err = errors.Join(err, r.writeRecord(rec))
		}
	}
	removed, trashErr := r.listTrash()
	err = errors.Join(err, trashErr)
	for _, t := range removed {
		moved, name := t.Workspace != nil && t.Workspace.move(rename), rename(t.Project)
		if moved || name != t.Project {
			t.Project = name
			writeNote(t.path, t.note)
		}
	}
	projects := r.Projects()
	for path, c := range projects.all() {
		name := rename(c.Project)
		if name == c.Project || c.StateDir != from && !paths.SameDir(c.StateDir, to) {
			continue
		}
		b, encodeErr := json.Marshal(projectClaim{name, to})
		claimErr := errors.Join(encodeErr, durable.WriteFile(projects.path(name), append(b, '\n'), 0o600))
		if claimErr == nil {
			_ = os.Remove(path + ".lock")
			claimErr = os.Remove(path)
		}
		err = errors.Join(err, claimErr)
	}
	return files.Failed(err, "move the project in %s", r.Path)
}
