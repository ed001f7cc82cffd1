package workspace

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// projectClaim says which state directory works on a tracker's project under this root.
type projectClaim struct {
	Project  string `json:"project"`
	StateDir string `json:"state_dir"`
}

// project is the file of a claim.
func (r *Root) project(endpointAndSlug string) string {
	sum := sha256.Sum256([]byte(endpointAndSlug))
	return filepath.Join(r.meta(), "projects", fmt.Sprintf("%x.json", sum[:8]))
}

// ClaimProject records that the state directory works on a project (endpoint and slug) under this root, or
// fails with project_conflict where another one does that still exists and has a state.db: the two would
// start workers for the same issues (design section 8). A repeated claim only reads.
func (r *Root) ClaimProject(endpointAndSlug, stateDir string) error {
	path, claim := r.project(endpointAndSlug), projectClaim{endpointAndSlug, stateDir}
	if have, err := readClaim(path); err != nil || have == claim {
		return err
	}
	if err := files.OwnDir(filepath.Dir(path)); err != nil {
		return files.Failed(err, "make %s", filepath.Dir(path))
	}
	lock, err := lockFile(path+".lock", r.leaseWait)
	if errors.Is(err, errHeld) {
		return &reconcile.Error{
			Code: CodeFailed, Message: "claim the project " + endpointAndSlug + ": another pass is doing it",
			Hint: "the next pass tries again", Err: err,
		}
	}
	if err != nil {
		return files.Failed(err, "claim the project %s", endpointAndSlug)
	}
	if err = unclaimed(path, stateDir); err == nil {
		b, encodeErr := json.Marshal(claim)
		if err = errors.Join(encodeErr, durable.WriteFile(path, append(b, '\n'), 0o600)); err != nil {
			err = files.Failed(err, "claim the project %s", endpointAndSlug)
		}
	}
	return errors.Join(err, lock.Close())
}

// unclaimed fails with project_conflict where the claim at path is that of another state directory in use.
func unclaimed(path, stateDir string) error {
	have, err := readClaim(path)
	if err != nil || have.StateDir == "" || sameDir(have.StateDir, stateDir) {
		return err
	}
	_, err = os.Stat(filepath.Join(have.StateDir, "state.db"))
	if files.Absent(err) {
		return nil
	}
	return &reconcile.Error{
		Code:    CodeProjectConflict,
		Message: fmt.Sprintf("the project %s is worked on from the state directory %s already", have.Project, have.StateDir),
		Hint: "use that state directory, give this workflow a workspace.root of its own, or remove " + path +
			" if the other one is no longer used",
		Err: err,
	}
}

// readClaim returns an empty claim where there is none.
func readClaim(path string) (c projectClaim, err error) {
	b, err := files.ReadRegular(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, &reconcile.Error{
			Code: CodeFailed, Message: fmt.Sprintf("read the project claim %s: %v", path, err),
			Hint: "remove the file where only one state directory works on the project", Err: err,
		}
	}
	return c, nil
}

func sameDir(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return a == b || err == nil && otherErr == nil && os.SameFile(one, other)
}

// UnclaimProjects takes back what ClaimProject has written for a state directory, and returns the projects.
func (r *Root) UnclaimProjects(stateDir string) (projects []string, err error) {
	names, err := fs.Glob(os.DirFS(r.meta()), "projects/*.json")
	for _, name := range names {
		path := filepath.Join(r.meta(), name)
		c, err := readClaim(path)
		if err != nil || !sameDir(c.StateDir, stateDir) {
			continue // another's, or one that a pass will complain about
		}
		_ = os.Remove(path + ".lock")
		if err := os.Remove(path); err != nil {
			return projects, files.Failed(err, "let go of the project in %s", path)
		}
		projects = append(projects, c.Project)
	}
	return projects, err
}
