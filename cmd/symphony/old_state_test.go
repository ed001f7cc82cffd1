package main

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestOldStates runs one script with each file in testdata/old: the state directory and the workspaces that an earlier program has left
// while its workers were at work, on another machine. CONTRIBUTING.md says how to add one.
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

// previousSchema is the last commit whose program has the schema before the present one.
const previousSchema = "2c286232"

// TestOldWorkers lets workers of an earlier program end their runs while passes and commands of this one have migrated the state. It builds
// the earlier program from the history; with SYMPHONY_TEST=each two much older ones, too.
func TestOldWorkers(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	commits := []string{previousSchema}
	if test.Each() {
		commits = append(commits, "ec2fe83", "12b3baa")
	}
	for _, commit := range commits {
		t.Run(commit, func(t *testing.T) {
			if exec.Command("git", "cat-file", "-e", commit+"^{tree}").Run() != nil {
				t.Skip("the history of this clone does not have that commit")
			}
			source, program := t.TempDir(), filepath.Join(t.TempDir(), "symphony")
			test.Run(t, exec.Command("sh", "-ec", `cd "$(git rev-parse --show-toplevel)"; git archive "$1" | tar -x -C "$2"`, "sh", commit, source))
			build := exec.Command("go", "build", "-o", program, "./cmd/symphony")
			build.Dir = source
			test.Run(t, build)
			p := params(t, "old")
			setup := p.Setup
			p.Setup = func(env *testscript.Env) error {
				env.Setenv("OLD", program)
				return setup(env)
			}
			runScripts(t, p, map[string]string{"old_worker": made("old_worker.txt")})
		})
	}
}

// oldStateCmd makes the state directory of a file in testdata/old, and fills in the paths of the script: old-state
func oldStateCmd(ts *testscript.TestScript, neg bool, args []string) {
	replacer := strings.NewReplacer("$WORK", ts.Getenv("WORK"), "$LINEAR_ENDPOINT", ts.Getenv("LINEAR_ENDPOINT"), "$LINEAR_URL", ts.Getenv("LINEAR_URL"))
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
