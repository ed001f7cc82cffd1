package main

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestOldStates runs one script with each file in testdata/old: the state directory and the
// workspaces that an earlier program has left while its workers were at work, on another
// machine. CONTRIBUTING.md says how to add one.
func TestOldStates(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := params(t, "old")
	scripts := map[string]string{}
	for _, path := range test.Must(filepath.Glob(filepath.Join(moduleRoot, "testdata", "old", "*.txtar"))) {
		scripts[strings.TrimSuffix(filepath.Base(path), ".txtar")] = made("old_state.txt") + string(test.Must(os.ReadFile(path)))
	}
	runScripts(t, p, scripts)
}

// oldStateCmd makes the state directory of a file in testdata/old, and fills in the paths of
// the script: old-state
func oldStateCmd(ts *testscript.TestScript, neg bool, args []string) {
	replacer := strings.NewReplacer(
		"$WORK",
		ts.Getenv("WORK"),
		"$LINEAR_ENDPOINT",
		ts.Getenv("LINEAR_ENDPOINT"),
		"$LINEAR_URL",
		ts.Getenv("LINEAR_URL"),
	)
	for _, dir := range []string{"state", "ws"} {
		ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return os.WriteFile(path, []byte(replacer.Replace(ts.ReadFile(path))), 0o600)
		}))
	}
	projects := ts.MkAbs("ws/.symphony/projects")
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(ts.Getenv("LINEAR_ENDPOINT")+" demo")))
	ts.Check(os.Rename(filepath.Join(projects, "PROJECT.json"), filepath.Join(projects, name[:16]+".json")))
	path := ts.MkAbs("state/state.db")
	ts.Check(os.WriteFile(path, nil, 0o600))
	db, err := sql.Open("sqlite", path)
	ts.Check(err)
	defer db.Close()
	schema, _, _ := strings.Cut(strings.SplitAfter(ts.Name(), "schema-")[1], ".")
	_, err = db.Exec(replacer.Replace(ts.ReadFile("state.sql")) + "PRAGMA user_version = " + schema)
	ts.Check(err)
}
