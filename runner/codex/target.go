package codex

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// approval is a request for approval with what it names, which was looked up once, when the
// request arrived.
type approval struct {
	agent.Request
	targets []target
}

// target is a file or directory that a request names. The agent may replace a part of its path
// by a link while an operator decides.
type target struct {
	access string // accessCwd, accessChange, or what a permission grants, such as write
	named  string // absolute; it keeps "..", which after a link is another directory
	place  paths.Place
	err    error // why the place is unknown, such as a path through /proc
}

const (
	accessCwd    = "cwd"    // a command starts there
	accessChange = "change" // a patch changes the file, or more files below it
)

func findTarget(access, path string) target {
	place, err := paths.Find(path)
	return target{access: access, named: path, place: place, err: err}
}

// cwdTargets returns the directory in which what is asked for starts, if the request names
// one.
func cwdTargets(p *params) []target {
	if p.Cwd == "" {
		return nil
	}
	return []target{findTarget(accessCwd, p.Cwd)}
}

// changeTargets returns the file of a change, and the one that it is moved to.
func changeTargets(dir string, c agent.FileChange) []target {
	var list []target
	for path := range strings.SplitSeq(c.Path, movedTo) {
		list = append(list, findTarget(accessChange, within(dir, path)))
	}
	return list
}

// permissionTargets returns the files that permissions name, in the order of
// permissions.files.
func permissionTargets(raw json.RawMessage, cwd string) []target {
	var list []target
	asked, _ := readPermissions(raw)
	asked.files(func(access, path string) {
		list = append(list, findTarget(access, within(cwd, path)))
	})
	return list
}

// within returns a path that may be relative to dir. It keeps "..", which after a link is
// another directory.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return dir + "/" + path
}

// leadsTo tells what a path is without symlinks, if it has some.
func (t target) leadsTo() string {
	if t.err != nil || t.place.Path == filepath.Clean(t.named) {
		return ""
	}
	return reconcile.LeadsTo + t.place.Path + ")"
}

// moved reports whether a target leads elsewhere now.
func (t target) moved() bool {
	now := findTarget(t.access, t.named)
	return now.err != nil || now.place.Path != t.place.Path
}

// readOnlyDirs are the directories that codex's sandbox keeps read-only below the directory of
// a turn.
var readOnlyDirs = []string{".git", ".codex", ".agents", ".aws"}

// staysInside reports whether all files of a patch are where the sandbox allows writes: below
// the directory of the turn, but not in the directories that codex's sandbox keeps read-only
// there.
func staysInside(root string, changes []target) bool {
	dir, err := paths.Find(root)
	if err != nil || len(changes) == 0 {
		return false
	}
	for _, name := range readOnlyDirs {
		protected, err := paths.Find(filepath.Join(root, name))
		if err != nil {
			return false
		}
		if slices.ContainsFunc(changes, func(t target) bool { return t.place.Inside(protected) }) {
			return false
		}
	}
	for _, t := range changes {
		if t.err != nil || !t.place.Inside(dir) || t.place.Same(dir) {
			return false
		}
	}
	return true
}

// replaceable returns a path of the request that may lead elsewhere after an approval: one
// through /proc, or, among the permissions, one in a directory that the agent can write, where
// it can make links. It returns "" if there is none.
func (a approval) replaceable(turn agent.TurnParams) string {
	var sandbox struct{ WritableRoots []string }
	unmarshal(turn.SandboxPolicy, &sandbox)
	var writable []paths.Place
	for _, root := range append(sandbox.WritableRoots, turn.Cwd, a.Cwd) {
		dir, err := paths.Find(root)
		if err == nil {
			writable = append(writable, dir)
		}
	}
	for _, t := range a.targets {
		if t.err != nil {
			return t.named
		}
		if t.access == accessCwd || t.access == accessChange {
			continue
		}
		for _, on := range append(t.place.Links, t.place) {
			if slices.ContainsFunc(writable, on.Inside) {
				return t.named
			}
		}
	}
	return ""
}
