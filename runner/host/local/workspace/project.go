package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// projectClaim says which state directory works on a tracker's project under this root.
type projectClaim struct {
	Project  string `json:"project"`
	StateDir string `json:"state_dir"`
}

// ClaimProject records that the state directory works on a project (endpoint and slug) under this root, or
// fails with project_conflict where another one does that still exists and has a state.db: the two would
// start workers for the same issues (design section 8). A repeated claim only reads.
func (r *Root) ClaimProject(endpointAndSlug, stateDir string) error {
	path := r.project(endpointAndSlug)
	if c, ok, err := readClaim(path); err != nil {
		return err
	} else if ok && c == (projectClaim{endpointAndSlug, stateDir}) {
		return nil
	}
	if err := files.OwnDir(filepath.Dir(path)); err != nil {
		return files.Failed(err, "make %s", filepath.Dir(path))
	}
	lock, err := lockFile(context.Background(), path+".lock", r.leaseWait)
	if errors.Is(err, errHeld) {
		return &reconcile.Error{
			Code: CodeFailed, Message: "claim the project " + endpointAndSlug + ": another pass is doing it",
			Hint: "the next pass tries again", Err: err,
		}
	}
	if err != nil {
		return files.Failed(err, "claim the project %s", endpointAndSlug)
	}
	err = claimLocked(path, projectClaim{endpointAndSlug, stateDir})
	return errors.Join(err, lock.Close())
}

func (r *Root) project(endpointAndSlug string) string {
	sum := sha256.Sum256([]byte(endpointAndSlug))
	return filepath.Join(r.meta(), "projects", hex.EncodeToString(sum[:8])+".json")
}

func claimLocked(path string, want projectClaim) error {
	if err := unclaimed(path, want.StateDir); err != nil {
		return err
	}
	b, err := json.Marshal(want)
	if err == nil {
		err = durable.WriteFile(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return files.Failed(err, "claim the project %s", want.Project)
	}
	return nil
}

// unclaimed fails with project_conflict where the claim at path is that of another state directory in use.
func unclaimed(path, stateDir string) error {
	have, ok, err := readClaim(path)
	if err != nil || !ok || sameDir(have.StateDir, stateDir) {
		return err
	}
	switch alive, err := hasState(have.StateDir); {
	case err != nil:
		return conflict(path, have, err)
	case alive:
		return conflict(path, have, nil)
	}
	return nil
}

func readClaim(path string) (c projectClaim, ok bool, err error) {
	b, err := files.ReadRegular(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return c, false, &reconcile.Error{
			Code: CodeFailed, Message: fmt.Sprintf("read the project claim %s: %v", path, err),
			Hint: "remove the file where only one state directory works on the project", Err: err,
		}
	}
	return c, true, nil
}

func conflict(path string, have projectClaim, err error) error {
	return &reconcile.Error{
		Code:    CodeProjectConflict,
		Message: fmt.Sprintf("the project %s is worked on from the state directory %s already", have.Project, have.StateDir),
		Hint: "use that state directory, give this workflow a workspace.root of its own, or remove " + path +
			" if the other one is no longer used",
		Err: err,
	}
}

func sameDir(a, b string) bool {
	if a == b {
		return true
	}
	ia, err := os.Stat(a)
	if err != nil {
		return false
	}
	ib, err := os.Stat(b)
	return err == nil && os.SameFile(ia, ib)
}

// hasState reports whether a state directory is in use. With an error it is unknown.
func hasState(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, "state.db"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}
