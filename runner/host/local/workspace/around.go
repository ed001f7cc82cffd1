package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Agents is a directory below a workspace root in which agents write, or have written.
type Agents struct {
	Root string // the workspace root
	Path string // such as <root>/ABC-1, or <root>/.symphony/trash/ABC-1-<time>
	What string // such as "the workspace"
	// Record describes the workspace. It is empty if it can't be read.
	Record Record
}

// Around returns the directory of agents in which path is, judged by the names of path alone,
// which should contain no links. If several are nested, it is the outermost: agents could have
// made the others.
func Around(path string) (in Agents, ok bool) {
	names := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	above := "/"
	for i, name := range names {
		r := Root{Path: above}
		info, err := os.Lstat(r.record(name))
		if err == nil && info.Mode().IsRegular() {
			rec, _, _ := r.Record(name) // empty if it can't be read
			return Agents{
				Root:   above,
				Path:   filepath.Join(above, name),
				What:   "the workspace",
				Record: rec,
			}, true
		}
		if name == metaDir && i+2 < len(names) {
			in, ok = r.leftover(names[i+1], names[i+2])
			if ok {
				return in, true
			}
		}
		above = filepath.Join(above, name)
	}
	return Agents{}, false
}

// BelowRoot reports whether a directory above path contains symphony's own directory, as each
// workspace root does after its first run. It may be true for a directory that is no root.
func BelowRoot(path string) bool {
	for dir := filepath.Dir(filepath.Clean(path)); ; dir = filepath.Dir(dir) {
		_, err := os.Lstat(filepath.Join(dir, metaDir))
		if !errors.Is(err, fs.ErrNotExist) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// leftover describes an entry of symphony's own directory in the root: <kind>/<name>, such as
// trash/ABC-1-<time>.
func (r *Root) leftover(kind, name string) (in Agents, ok bool) {
	in = Agents{Root: r.Path, Path: filepath.Join(r.meta(), kind, name)}
	switch in.Path {
	case r.work(name):
		in.What = "the temporary directory"
		in.Record, _, _ = r.Record(name)
		return in, true
	case filepath.Join(r.trash(), name):
		in.What = "the removed workspace"
		if rec := r.Trash.readNote(strings.TrimSuffix(in.Path, deletingSuffix)).Workspace; rec != nil {
			in.Record = *rec
		}
		return in, true
	}
	return Agents{}, false
}
