package workspace

import (
	"encoding/json"
	"errors"
	"os"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// MoveProjects gives projects the name that rename returns, in the records of workspaces, in the trash, and in the claims of the
// state directory, which was moved from the path from to the path to. No worker of theirs may run. Repeated, it changes nothing.
func (r *Root) MoveProjects(from, to string, rename func(project string) string) error {
	recs, err := r.List()
	for _, rec := range recs {
		if name := rename(rec.Project); name != rec.Project {
			rec.Project = name
			err = errors.Join(err, r.writeRecord(rec))
		}
	}
	removed, trashErr := r.listTrash()
	err = errors.Join(err, trashErr)
	for _, t := range removed {
		if name := rename(t.Project); name != t.Project {
			t.Project = name
			if t.Workspace != nil {
				t.Workspace.Project = name
			}
			writeNote(t.path, t.note)
		}
	}
	for path, c := range r.claims() {
		name := rename(c.Project)
		if name == c.Project || c.StateDir != from && !files.SameDir(c.StateDir, to) {
			continue
		}
		b, encodeErr := json.Marshal(projectClaim{name, to})
		claimErr := errors.Join(encodeErr, durable.WriteFile(r.project(name), append(b, '\n'), 0o600))
		if claimErr == nil {
			_ = os.Remove(path + ".lock")
			claimErr = os.Remove(path)
		}
		err = errors.Join(err, claimErr)
	}
	if err != nil {
		return files.Failed(err, "move the project in %s", r.Path)
	}
	return nil
}
