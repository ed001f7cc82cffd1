package codex

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/runner/wire"
)

// approval is a request for approval with the directory and the files that it names. Each path
// was looked up once, when the request arrived. The results make the summary and decide
// whether a patch stays in the sandbox. When an operator approves, the paths are looked up
// again and compared with them.
type approval struct {
	agent.Request
	cwd   *target  // the directory in which the request wants to start, nil if it names none
	files []target // of a patch, or of permissions
	place workplace
}

// newApproval returns a request with the files that it names, and looks its directory up.
func newApproval(r agent.Request, place workplace, files []target) approval {
	a := approval{Request: r, files: files, place: place}
	if r.Cwd != "" {
		cwd := findTarget("cwd", r.Cwd)
		a.cwd = &cwd
	}
	return a
}

// targets returns all that a request names.
func (a approval) targets() []target {
	if a.cwd == nil {
		return a.files
	}
	return append([]target{*a.cwd}, a.files...)
}

// workplace is where a turn works, as it was when a request arrived.
type workplace struct {
	dir      target
	writable []string // other directories in which the sandbox lets the agent write
	asksAll  bool     // codex asks about every patch, not only about patches outside the sandbox
}

// newWorkplace looks the directory of a turn up.
func newWorkplace(turn agent.TurnParams) workplace {
	var sandbox struct{ WritableRoots []string }
	wire.Unmarshal(turn.SandboxPolicy, &sandbox)
	return workplace{
		dir:      findTarget("cwd", turn.Cwd),
		writable: sandbox.WritableRoots,
		asksAll:  string(turn.ApprovalPolicy) == `"untrusted"`,
	}
}

// target is a file or directory that a request names. The agent may replace a part of its path
// by a link while an operator decides.
type target struct {
	access string // cwd, change, or the access that a permission grants, such as write
	named  string // as codex gives it; of a file it may be relative
	path   string // absolute; it keeps "..", which after a link is another directory
	real   paths.Place
	err    error // why the place is unknown, such as a path through /proc
}

// findTarget looks up the file or directory at an absolute path.
func findTarget(access, path string) target {
	real, err := paths.Find(path)
	return target{access: access, named: path, path: path, real: real, err: err}
}

// findBelow looks up a file or directory by a name that may be relative to dir.
func findBelow(access, dir, name string) target {
	path := name
	if !filepath.IsAbs(name) {
		path = dir + "/" + name
	}
	t := findTarget(access, path)
	t.named = name
	return t
}

// leadsTo tells where the target is without links, if there are some on the way to it, as in
// " (leads to /srv/data)".
func (t target) leadsTo() string {
	if t.err != nil || t.real.Path == filepath.Clean(t.path) {
		return ""
	}
	return reconcile.LeadsTo + t.real.Path + ")"
}

// moved reports whether the path of a target leads elsewhere now. It compares the paths
// without links, and not device and inode: the inode of a file that was deleted meanwhile may
// belong to another file, which nobody approved.
func (t target) moved() bool {
	now := findTarget(t.access, t.path)
	return now.err != nil || now.real.Path != t.real.Path
}

// readOnlyDirs are the directories that codex's sandbox keeps read-only below the directory of
// a turn.
var readOnlyDirs = []string{".git", ".codex", ".agents", ".aws"}

// staysInside reports whether all files of a patch are where the sandbox allows writes: below
// the directory of the turn, but not in the directories that codex's sandbox keeps read-only
// there.
func staysInside(dir target, changes []target) bool {
	if dir.err != nil || len(changes) == 0 {
		return false
	}
	for _, name := range readOnlyDirs {
		protected, err := paths.Find(filepath.Join(dir.path, name))
		if err != nil {
			return false
		}
		if slices.ContainsFunc(changes, func(t target) bool { return t.real.Inside(protected) }) {
			return false
		}
	}
	for _, t := range changes {
		if t.err != nil || !t.real.Inside(dir.real) || t.real.Same(dir.real) {
			return false
		}
	}
	return true
}

// replaceable returns a path of the request that may lead elsewhere after an approval: a path
// through /proc, or, among the permissions, a path in a directory where the agent can make
// links. It returns "" if there is none.
func (a approval) replaceable() string {
	if a.cwd != nil && a.cwd.err != nil {
		return a.cwd.path
	}
	writable := a.writableDirs()
	for _, t := range a.files {
		if t.err != nil {
			return t.path
		}
		if a.Kind != agent.RequestFileChange && t.leadsThrough(writable) {
			return t.path
		}
	}
	return ""
}

// writableDirs returns the directories that the agent can write: where the turn works, where
// the command starts, and the other directories that the sandbox allows. It leaves out
// directories that can't be found.
func (a approval) writableDirs() []paths.Place {
	var list []paths.Place
	if a.place.dir.err == nil {
		list = append(list, a.place.dir.real)
	}
	if a.cwd != nil && a.cwd.err == nil {
		list = append(list, a.cwd.real)
	}
	for _, root := range a.place.writable {
		dir, err := paths.Find(root)
		if err == nil {
			list = append(list, dir)
		}
	}
	return list
}

// leadsThrough reports whether the target, or a link on the way to it, is in any of these
// directories.
func (t target) leadsThrough(dirs []paths.Place) bool {
	isThere := func(p paths.Place) bool { return slices.ContainsFunc(dirs, p.Inside) }
	return isThere(t.real) || slices.ContainsFunc(t.real.Links, isThere)
}

// grantKey identifies the scope of an approval for the session: the same command, or the same
// files, in the same places.
func (a approval) grantKey() string {
	key := []string{
		string(a.Kind), a.ThreadID, a.Summary, a.Command, string(a.Permissions),
		strconv.FormatBool(a.OutsideSandbox),
	}
	for _, t := range a.targets() {
		key = append(key, t.access, t.real.Path)
	}
	for _, c := range a.Changes {
		key = append(key, c.Kind, c.Path)
	}
	return fmt.Sprintf("%q", key)
}
