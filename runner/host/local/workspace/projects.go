package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// projectClaim names the state directory that works on a project of the tracker in this root.
type projectClaim struct {
	Project  string `json:"project"`
	StateDir string `json:"state_dir"`
}

// Projects are the claims of state directories to projects of the tracker. In a root, only one
// state directory works on a project.
type Projects struct {
	dir  string
	wait time.Duration // how long to try for a lock before it counts as taken
}

// Projects returns the claims in the root.
func (r *Root) Projects() Projects {
	return Projects{filepath.Join(r.meta(), "projects"), r.leaseWait}
}

// path returns the path of a claim.
func (p Projects) path(endpointAndSlug string) string {
	sum := sha256.Sum256([]byte(endpointAndSlug))
	return filepath.Join(p.dir, fmt.Sprintf("%x.json", sum[:8]))
}

// RefuseClaim is called with the claim of another project in the root before a first claim.
// Claim returns its error. It may be nil.
type RefuseClaim func(project, stateDir string) error

// Claim records that the state directory works on a project (endpoint and slug) in this root.
// If another state directory that still contains a state.db does, the error is
// project_conflict: both would start workers for the same issues. A repeated claim only reads.
func (p Projects) Claim(endpointAndSlug, stateDir string, refuse RefuseClaim) (err error) {
	path := p.path(endpointAndSlug)
	claim := projectClaim{endpointAndSlug, stateDir}
	have, err := readClaim(path)
	if err != nil || have == claim {
		return err
	}
	if err := files.OwnDir(filepath.Dir(path)); err != nil {
		return files.Failed(err, "create %s", filepath.Dir(path))
	}
	file, err := lockFile(path+".lock", p.wait)
	if errors.Is(err, lock.ErrHeld) {
		return reconcile.NewError(
			CodeFailed,
			"claim the project "+endpointAndSlug+": another pass is claiming it",
			"the next pass tries again",
		).WithCause(err)
	}
	if err != nil {
		return files.Failed(err, "claim the project %s", endpointAndSlug)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := p.unclaimed(path, claim, refuse); err != nil {
		return err
	}
	err = durable.WriteFile(path, append(text.JSON(claim), '\n'), 0o600)
	return files.Failed(err, "claim the project %s", endpointAndSlug)
}

// unclaimed returns project_conflict if the claim at path belongs to another state directory
// that is in use. If there is no claim at path, refuse decides.
func (p Projects) unclaimed(path string, claim projectClaim, refuse RefuseClaim) error {
	have, err := readClaim(path)
	if err != nil {
		return err
	}
	if have.StateDir == "" {
		return p.refused(refuse)
	}
	if paths.SameDir(have.StateDir, claim.StateDir) {
		return nil
	}
	_, err = os.Stat(filepath.Join(have.StateDir, "state.db"))
	if files.Absent(err) {
		return nil
	}
	return reconcile.NewError(CodeProjectConflict,
		fmt.Sprintf("another state directory works on the project %s: %s", have.Project, have.StateDir),
		"use that one, or another workspace.root, or remove "+path+" if that one is unused").WithCause(err)
}

// refused returns the first error of refuse, which may be nil, about the claims of others.
func (p Projects) refused(refuse RefuseClaim) error {
	if refuse == nil {
		return nil
	}
	all := p.all()
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if err := refuse(all[path].Project, all[path].StateDir); err != nil {
			return err
		}
	}
	return nil
}

// readClaim returns an empty claim if there is none.
func readClaim(path string) (c projectClaim, err error) {
	b, err := files.ReadRegular(path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, claimFailed(path, err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, claimFailed(path, err)
	}
	return c, nil
}

// claimFailed is the error of a claim that can't be read.
func claimFailed(path string, err error) error {
	return reconcile.NewError(
		CodeFailed,
		fmt.Sprintf("read the project claim %s: %v", path, err),
		"remove the file if one state directory works on the project",
	).WithCause(err)
}

// Unclaim removes the claims of a state directory.
func (p Projects) Unclaim(stateDir string) error {
	for path, project := range p.Of(stateDir) {
		_ = os.Remove(path + ".lock")
		if err := os.Remove(path); err != nil {
			return files.Failed(err, "remove the claim of the project %s", project)
		}
	}
	return nil
}

// Of maps the files of a state directory's claims to their projects. It skips files that can't
// be read: the next pass reports them.
func (p Projects) Of(stateDir string) map[string]string {
	claims := map[string]string{}
	for path, c := range p.all() {
		if paths.SameDir(c.StateDir, stateDir) {
			claims[path] = c.Project
		}
	}
	return claims
}

// Others maps the projects of other state directories to these directories.
func (p Projects) Others(stateDir string) map[string]string {
	others := map[string]string{}
	for _, c := range p.all() {
		if !paths.SameDir(c.StateDir, stateDir) {
			others[c.Project] = c.StateDir
		}
	}
	return others
}

// all returns all claims by their files, without claims that can't be read.
func (p Projects) all() map[string]projectClaim {
	claims := map[string]projectClaim{}
	names, _ := fs.Glob(os.DirFS(p.dir), "*.json") // the pattern is valid
	for _, name := range names {
		path := filepath.Join(p.dir, name)
		c, err := readClaim(path)
		if err != nil {
			continue
		}
		claims[path] = c
	}
	return claims
}

// move changes the paths in a record that rename knows as moved: the project's path, and the
// repository's path if it leads to the same repository.
func (rec *Record) move(rename func(string) string) (changed bool) {
	project := rec.Project
	origin := rec.Origin
	rec.Project = rename(project)
	_, url, _ := strings.Cut(rename("git "+origin.URL), " ")
	if url != origin.URL && git.Has(context.Background(), url, origin.Commit) {
		rec.Origin.URL = url
	}
	return rec.Project != project || rec.Origin != origin
}

// CloneOf returns symphony's knowledge of the clone in the workspace at a path, and the
// directory of the mirrors; both are empty if there is none.
func CloneOf(path string) (clone git.Clone, mirrors string) {
	root, ok, err := FindRoot(filepath.Dir(path))
	if err != nil || !ok {
		return clone, ""
	}
	// without it git's own address and references count
	rec, _, _ := root.Record(filepath.Base(path))
	return rec.clone(), root.MirrorsDir()
}

// EndsDir is symphony's directory with the contents of the workspace at a path at the ends of
// its runs.
func EndsDir(path string) string {
	root := Root{Path: filepath.Dir(path)}
	return filepath.Join(root.work(filepath.Base(path)), "ends")
}

// move replaces the claim at a path by another claim.
func (p Projects) move(path string, by projectClaim) error {
	err := durable.WriteFile(p.path(by.Project), append(text.JSON(by), '\n'), 0o600)
	if err != nil {
		return err
	}
	_ = os.Remove(path + ".lock")
	return os.Remove(path)
}

// MoveProjects gives projects the name that rename returns, in the records of workspaces, in
// the trash, and in the claims of the state directory, which was moved from oldDir to newDir.
// No worker of theirs may run. Repeated, it changes nothing.
func (r *Root) MoveProjects(oldDir, newDir string, rename func(project string) string) error {
	recs, err := r.List()
	for _, rec := range recs {
		if rec.move(rename) {
			err = errors.Join(err, r.writeRecord(rec))
		}
	}
	removed, trashErr := r.listTrash()
	err = errors.Join(err, trashErr)
	for _, t := range removed {
		moved := t.Workspace != nil && t.Workspace.move(rename)
		name := rename(t.Project)
		if moved || name != t.Project {
			t.Project = name
			writeNote(t.path, t.note)
		}
	}
	projects := r.Projects()
	for path, c := range projects.all() {
		name := rename(c.Project)
		if name == c.Project || c.StateDir != oldDir && !paths.SameDir(c.StateDir, newDir) {
			continue
		}
		err = errors.Join(err, projects.move(path, projectClaim{name, newDir}))
	}
	return files.Failed(err, "move the project in %s", r.Path)
}
