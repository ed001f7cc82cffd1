package workspace

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// What is around a path below a workspace root. A record inside a workspace may be an agent's,
// so the outermost one counts.
func TestAround(t *testing.T) {
	top := test.Must(filepath.EvalSymlinks(t.TempDir()))
	write := func(path, content string) {
		path = filepath.Join(top, path)
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		test.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
	const record = `{"issue_id": "1", "identifier": "ABC-1", "id": "x", "state": "ready", "state_dir": "/state"}`
	const forged = `{"issue_id": "2", "identifier": "ABC-2", "id": "x", "state": "ready", "state_dir": "/forged"}`
	write("ws/.symphony/ABC-1.json", record)
	write("ws/ABC-1/sub/.symphony/app.json", forged)
	write("ws/.symphony/trash/ABC-1-20260101T000000.000000000Z.note", `{"workspace": `+record+`}`)
	write("ws/.symphony/broken.json", "{")
	for path, want := range map[string][]string{
		"ws/ABC-1":                      {"the workspace", "ws/ABC-1", "/state"},
		"ws/ABC-1/sub/app/WORKFLOW.md":  {"the workspace", "ws/ABC-1", "/state"},
		"ws/broken/WORKFLOW.md":         {"the workspace", "ws/broken", ""},
		"ws/.symphony/work/ABC-1/tmp/x": {"the temporary directory", "ws/.symphony/work/ABC-1", "/state"},
		"ws/.symphony/trash/ABC-1-20260101T000000.000000000Z/x": {
			"the removed workspace", "ws/.symphony/trash/ABC-1-20260101T000000.000000000Z", "/state",
		},
		"ws/.symphony/trash/ABC-1-20260101T000000.000000000Z.deleting/x": {
			"the removed workspace", "ws/.symphony/trash/ABC-1-20260101T000000.000000000Z.deleting", "/state",
		},
		"ws/WORKFLOW.md":            nil,
		"ws/other/WORKFLOW.md":      nil,
		"own/.symphony/WORKFLOW.md": nil,
	} {
		in, ok := Around(filepath.Join(top, path))
		var got []string
		if ok {
			got = []string{in.What, test.Must(filepath.Rel(top, in.Path)), in.Record.StateDir}
			test.Equal(t, "root of "+path, in.Root, filepath.Join(top, "ws"))
		}
		test.Equal(t, path, got, want)
	}
}
