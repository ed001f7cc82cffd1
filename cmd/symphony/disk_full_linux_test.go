package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestDiskFullAtEachWrite runs each script of testdata/disk on a disk with room for so many more pages: the writes before
// succeed, and the next one fails. The scripts show that nothing is lost, half written or counted against the issue.
func TestDiskFullAtEachWrite(t *testing.T) {
	if !canMount() {
		t.Skip("no file system can be mounted here")
	}
	t.Parallel()
	for name, most := range map[string]struct{ pages, step int }{
		"first_pass": {48, 12}, "dispatch": {18, 1}, "workspace": {4, 1}, "worker": {9, 3}, "command": {12, 3},
	} {
		for pages := 0; pages <= most.pages; pages += most.step {
			t.Run(fmt.Sprintf("%s_%d", name, pages), func(t *testing.T) {
				t.Parallel()
				p := params(t, "disk")
				p.Files, p.Dir = []string{filepath.Join(p.Dir, name+".txtar")}, ""
				p.Setup = func(env *testscript.Env) error {
					env.Setenv("PAGES", strconv.Itoa(pages))
					return setupScript(env)
				}
				testscript.Run(t, p)
			})
		}
	}
}

// fillCmd leaves so many pages of a disk free, until the file ballast there is removed: fill DIR PAGES
func fillCmd(ts *testscript.TestScript, neg bool, args []string) {
	pages, err := strconv.Atoi(args[1])
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	var st unix.Statfs_t
	ts.Check(unix.Statfs(dir, &st))
	take := int64(st.Bavail) - int64(pages)
	if take <= 0 {
		return
	}
	f, err := os.Create(filepath.Join(dir, "ballast"))
	ts.Check(err)
	defer f.Close()
	ts.Check(unix.Fallocate(int(f.Fd()), 0, 0, take*st.Bsize))
}

// nothingLostCmd demands that no run counts against its issue, nothing is left to be done or half written, and the database
// is whole. The outcomes given are allowed beside succeeded: nothing-lost [OUTCOME...]
func nothingLostCmd(ts *testscript.TestScript, neg bool, args []string) {
	allowed := ""
	for _, outcome := range append(args, "succeeded") {
		allowed += fmt.Sprintf(" AND outcome <> '%s'", outcome)
	}
	for text, want := range map[string]string{
		// A pass that could not read that the agent itself moved the issue stops its run as inactive.
		`SELECT * FROM runs WHERE attempt > 0 OR settled = 0 OR outcome IS NULL
			OR error_code NOT IN ('disk_full', 'inactive')` + allowed: "",
		"SELECT * FROM claims": "", "SELECT * FROM commands": "", "PRAGMA integrity_check": "ok\n",
	} {
		rows, err := query(ts.Getenv("STATE"), text)
		ts.Check(err)
		if rows != want {
			ts.Fatalf("%s: %s", text, rows)
		}
	}
	for _, pattern := range []string{"runs/*/.procs-*", "state.db.new*"} {
		half, err := filepath.Glob(filepath.Join(ts.Getenv("STATE"), pattern))
		ts.Check(err)
		if len(half) > 0 {
			ts.Fatalf("half written: %q", half)
		}
	}
}
