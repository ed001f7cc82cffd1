package doctor

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"golang.org/x/sys/unix"
)

// checkRoot looks at the folder that workspaces are made in.
func checkRoot(_ context.Context, at *place) []finding {
	root := project.Resolve(at.cfg.Workspace.Root)
	if err := project.RootFits(at.p, at.cfg, true); err != nil {
		return failed(err)
	}
	free, err := workspace.FreeBytes(root)
	if err != nil {
		return failed(err)
	}
	var list []finding
	if least := at.cfg.Workspace.MinFreeBytes; free < least {
		list = append(list, bad(fmt.Sprintf("disk_low: %s has %s free, and workspace.min_free_bytes wants %s", root, term.BytesText(free), term.BytesText(least)),
			"free space there; until then nothing is started"))
	}
	list = append(list, at.rootDangers(root)...)
	if list != nil {
		return list
	}
	if !project.Exists(root) {
		return []finding{well("%s, which the first pass makes; %s free", root, term.BytesText(free))}
	}
	return []finding{well("%s, %s free", root, term.BytesText(free))}
}

// rootDangers are what may take the work away.
func (at *place) rootDangers(root string) []finding {
	var list []finding
	const elsewhere = "set workspace.root to a folder on a local disk, such as ~/symphony"
	if temporary := project.TemporaryAbove(root, at.p.Env.Getenv("TMPDIR")); temporary != "" {
		list = append(list, wary(root+" lies below "+temporary+", which the system may clear: work that is not pushed is lost then", elsewhere))
	}
	switch name, lasts := fileSystem(root); {
	case name == "":
	case lasts:
		list = append(list, wary(root+" is on "+name+", where the leases of workspaces can't be relied on", elsewhere))
	default:
		list = append(list, wary(root+" is on "+name+", which is empty after a reboot", elsewhere))
	}
	return list
}

// fileSystem names the file system of a path where it is one to be warned of; lasts is false where a reboot empties it.
func fileSystem(path string) (name string, lasts bool) {
	for !project.Exists(path) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", true
	}
	return riskyFileSystem(&st)
}
