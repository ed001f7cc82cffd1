package workflow

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
)

var fileTracker = tracker{
	name:     "file",
	title:    "the folder",
	active:   []string{"To Do", "Todo", "In Progress"},
	terminal: []string{"Done", "Closed", "Canceled", "Cancelled", "Duplicate"},
	orders:   true,
	check:    trackerReader.protectFolder,
	keys:     fileKeys,
}

// fileKeys are the keys of this kind.
func fileKeys(c *Config) []Key {
	return []Key{
		key("tracker.provider.path", typePath, "", &c.Tracker.Folder,
			"the folder with the issues; required").
			naming(NamesPaths).thenTracker(trackerReader.folder),
		key(
			"tracker.provider.states",
			typeStrings,
			"[Human Review]",
			&c.Tracker.OtherStates,
			"more states to which agents may move their issues",
		),
	}
}

// folder checks provider.path.
func (r trackerReader) folder(f field) {
	dir := r.cfg.Tracker.Folder
	switch {
	case dir == "" && f.node != nil: // reported
	case dir == "":
		r.invalid(f, "missing", "write the path of a folder with Markdown files, such as backlog/tasks")
	case slices.Contains(strings.Split(dir, string(filepath.Separator)), ".git"):
		r.invalid(f, dir+" belongs to git", "name a folder of its own, such as issues")
	default:
		r.place(f, dir, "file "+dir)
	}
}

// protectFolder refuses settings that let agents write the folder of the issues: they could
// answer themselves.
func (r trackerReader) protectFolder() {
	dir := r.cfg.Tracker.Folder
	if dir == "" {
		return
	}
	f := r.field("tracker.provider.path")
	overlaps := func(root string) bool { return r.decides(f, root, dir) || r.decides(f, dir, root) }
	place := paths.Real(dir) // where a link leads, since only that shows why it overlaps
	const hint = "keep the issues where agents cannot write"
	if root := r.cfg.Workspace.Root; overlaps(root) {
		r.invalid(f, place+" overlaps workspace.root "+paths.Real(root)+", where agents write", hint)
	}
	for _, root := range r.agentRoots(dir) {
		if overlaps(root) {
			r.invalid(f, place+" overlaps "+paths.Real(root)+", which agents may write", hint)
		}
	}
}
