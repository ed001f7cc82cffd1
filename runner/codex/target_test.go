package codex

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/agent"
)

// A patch is judged by the files that it changes, not by their names.
func TestPatchStaysInside(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	test.OK(t, os.MkdirAll(filepath.Join(dir, "ws", "src"), 0o700))
	test.OK(t, os.MkdirAll(filepath.Join(dir, "ws", "data"), 0o700))
	for name, to := range map[string]string{"ws/.git": "data", "ws/out": "..", "second": "ws"} {
		test.OK(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for path, want := range map[string]bool{
		"src/a":                     true,
		"new/b":                     true,
		dir + "/second/src/a":       true,
		"src/../c":                  true,
		"out/a":                     false,
		"../a":                      false,
		dir + "/a":                  false,
		".git/config":               false,
		"data/config":               false,
		".codex/config.toml":        false,
		"src/a" + movedTo + "src/b": true,
		"src/a" + movedTo + "../b":  false,
	} {
		for _, root := range []string{"ws", "second"} {
			root = filepath.Join(dir, root)
			place := newWorkplace(agent.TurnParams{Cwd: root, ApprovalPolicy: json.RawMessage(`"untrusted"`)})
			asked := patchRequest(&patchAsked{}, []agent.FileChange{{Path: path}}, place)
			test.Equal(t, path+" stays inside "+root, !asked.OutsideSandbox, want)
		}
	}
	test.Equal(t, "no file stays inside", staysInside(findTarget("cwd", dir), nil), false)
}
