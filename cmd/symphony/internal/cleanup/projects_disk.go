package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/schedule"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// diskRow is one path that is there because of symphony.
type diskRow struct {
	Path string `json:"path"`
	// Kind is state, workspace, trash, root (all else of ours in a workspace root), env_file, account or schedule.
	Kind  string `json:"kind"`
	Bytes int64  `json:"bytes"`
	// Project is the state directory that it belongs to, empty where several may.
	Project string `json:"state_dir"`
}

// listDisk says what is on this disk because of symphony.
func listDisk(ctx context.Context, w *term.Env, projects []project.State) error {
	var rows []diskRow
	add := func(kind, project string, paths ...string) error {
		for _, path := range paths {
			size, there, err := sizeOf(ctx, path)
			if err != nil {
				return err
			}
			if there && !slices.ContainsFunc(rows, func(r diskRow) bool { return r.Path == path }) {
				rows = append(rows, diskRow{path, kind, size, project})
			}
		}
		return nil
	}
	var errs []error
	roots := map[string]bool{}
	for _, p := range projects {
		env := workflow.EnvFilePath(w.Getenv("XDG_CONFIG_HOME"), w.Home, filepath.Base(p.StateDir))
		errs = append(errs, add("state", p.StateDir, p.StateDir), add("env_file", p.StateDir, env))
		for _, path := range p.Roots {
			roots[path] = true
			errs = append(errs, addRoot(path, add))
		}
	}
	for path := range roots {
		meta := filepath.Join(path, ".symphony")
		errs = append(errs, add("trash", "", filepath.Join(meta, "trash")), add("root", "", meta))
	}
	home := project.StateHome(w)
	errs = append(errs, add("account", "", filepath.Join(home, "accounts"), filepath.Join(home, "elsewhere")))
	errs = append(errs, add("schedule", "", unitFiles(w)...))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return printDisk(ctx, w, rows)
}

// addRoot adds the workspaces in a root, whosever they are.
func addRoot(path string, add func(kind, project string, paths ...string) error) error {
	root, found, err := workspace.FindRoot(path)
	if err != nil || !found {
		return nil //nolint:nilerr // a root that can't be used any more holds nothing that could be told to be ours
	}
	records, err := root.List()
	for _, r := range records {
		err = errors.Join(err, add("workspace", r.StateDir, r.Path))
	}
	return err
}

// unitFiles are the units of systemd that symphony has written, the user's and the system's.
func unitFiles(w *term.Env) (files []string) {
	for _, dir := range append(schedule.UnitDirs(w, false, w.Home), schedule.UnitDirs(w, true, w.Home)...) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // none has been written there
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(text), schedule.UnitMark) {
				files = append(files, path)
			}
		}
	}
	return files
}

func printDisk(_ context.Context, w *term.Env, rows []diskRow) error {
	slices.SortFunc(rows, func(a, b diskRow) int { return strings.Compare(a.Path, b.Path) })
	var sum int64
	for i, r := range rows {
		// A trash within a root is counted with it.
		if i == 0 || !slices.ContainsFunc(rows, func(o diskRow) bool { return o.Path != r.Path && project.Within(r.Path, o.Path) }) {
			sum += r.Bytes
		}
	}
	if w.JSON {
		w.PrintJSON(struct {
			Bytes int64     `json:"bytes"`
			Paths []diskRow `json:"paths"`
		}{sum, append([]diskRow{}, rows...)})
		return nil
	}
	t := term.Table{Head: []string{"KIND", "SIZE", "PATH"}}
	for _, r := range rows {
		size := term.BytesText(r.Bytes)
		if w.Width == 0 {
			size = fmt.Sprint(r.Bytes)
		}
		t.Add(r.Kind, size, r.Path)
	}
	w.PrintTable("DISK", t)
	if w.Width > 0 {
		fmt.Fprintf(w.Stdout, "%s in all; threads of codex lie in its own home\n", term.BytesText(sum))
	}
	return nil
}

// sizeOf is what a path takes of its disk; there is false where it is gone. What vanishes meanwhile, or can't be read,
// counts as nothing.
func sizeOf(ctx context.Context, path string) (size int64, there bool, err error) {
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if at == path && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
		there = true
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		return size, there, fmt.Errorf("the size of %s: %w", path, err)
	}
	return size, there, nil
}
