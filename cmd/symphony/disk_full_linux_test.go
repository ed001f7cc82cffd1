package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/symphony-cron/symphony/internal/test"
	"golang.org/x/sys/unix"
)

// TestDiskFullAtEachWrite runs each script of testdata/disk on a disk with 0, 1, 2, ... free
// pages, so that a different write fails each time. The scripts show that nothing is lost or
// half written and that no failure is counted.
func TestDiskFullAtEachWrite(t *testing.T) {
	test.Expensive(t)
	if !canMount() {
		t.Skip("no file system can be mounted here")
	}
	t.Parallel()
	for name, most := range map[string]struct{ pages, step int }{
		"first_pass": {48, 12},
		"dispatch":   {18, 1},
		"workspace":  {4, 1},
		"worker":     {9, 3},
		"command":    {12, 3},
	} {
		for pages := 0; pages <= most.pages; pages += most.step {
			t.Run(fmt.Sprintf("%s_%d", name, pages), func(t *testing.T) {
				t.Parallel()
				p := params(t, "disk")
				p.Files = []string{filepath.Join(p.Dir, name+".txtar")}
				p.Dir = ""
				p.Setup = func(env *testscript.Env) error {
					env.Setenv("PAGES", strconv.Itoa(pages))
					return errors.Join(
						os.WriteFile(filepath.Join(env.WorkDir, "tick.sh"), []byte(made("tick.sh")), 0o600),
						setupScript(env),
					)
				}
				testscript.Run(t, p)
			})
		}
	}
}

// fillCmd leaves so many pages of a disk free, until the file ballast there is removed: fill
// DIR PAGES
func fillCmd(ts *testscript.TestScript, neg bool, args []string) {
	pages, err := strconv.Atoi(args[1])
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	f, err := os.Create(filepath.Join(dir, "ballast"))
	ts.Check(err)
	defer f.Close()
	// A worker may use some of the free pages after they are counted.
	for err = unix.ENOSPC; errors.Is(err, unix.ENOSPC); {
		var st unix.Statfs_t
		ts.Check(unix.Statfs(dir, &st))
		take := int64(st.Bavail) - int64(pages)
		if take <= 0 {
			return
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, take*st.Bsize)
	}
	ts.Check(err)
}

// nothingLostCmd fails if a run counts as a failure, if work is left to do, if a file is half
// written, or if the database is damaged. The given outcomes are allowed besides succeeded:
// nothing-lost [OUTCOME...]
func nothingLostCmd(ts *testscript.TestScript, neg bool, args []string) {
	allowed := ""
	for _, outcome := range append(args, "succeeded") {
		allowed += fmt.Sprintf(" AND outcome <> '%s'", outcome)
	}
	for text, want := range map[string]string{
		// A pass that could not read that the agent has moved the issue stops the run as
		// inactive.
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
