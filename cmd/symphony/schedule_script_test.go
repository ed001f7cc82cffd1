package main

import (
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// installProgramCmd puts the program where one may be scheduled, and its folder into INSTALLED: a script's own directory
// is a temporary one, from which nothing is scheduled: install-program
func installProgramCmd(ts *testscript.TestScript, neg bool, args []string) {
	cache, err := os.UserCacheDir()
	ts.Check(err)
	ts.Check(os.MkdirAll(cache, 0o700))
	dir, err := os.MkdirTemp(cache, "symphony-installed-")
	ts.Check(err)
	ts.Defer(func() { ts.Check(os.RemoveAll(dir)) })
	// Not by this process: a program that another test starts meanwhile would inherit the file open for writing, and the copy
	// could not be run.
	ts.Check(ts.Exec("cp", ts.Getenv("PROGRAM"), filepath.Join(dir, "symphony")))
	ts.Setenv("INSTALLED", dir)
}
