package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/cleanup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/internal/test"
)

// The last line of a prune counts all that the lines above it name, and nothing else.
func TestPruneSum(t *testing.T) {
	const several = `{"dry_run": true, "workspaces": [{}], "runs": [{"runs": 2}, {"runs": 1}],
		"run_directories": ["/a/1", "/a/2"]}`
	for document, want := range map[string]string{
		`{"trash": [{"entries": 2, "bytes": 3221225472}]}`: "removed 2 workspaces from the trash, 3.0 GiB",
		`{"run_directories": ["/a/1"]}`:                    "removed 1 run directory",
		several:                                            "would remove 1 workspace, 3 runs, 2 run directories",
		`{}`:                                               "nothing to remove",
	} {
		var f cleanup.PruneJSON
		test.OK(t, json.Unmarshal([]byte(document), &f))
		page := &bytes.Buffer{}
		Pruned(&term.Env{Stdout: page}, &f)
		lines := strings.Split(strings.TrimSpace(page.String()), "\n")
		test.Equal(t, document, lines[len(lines)-1], want)
	}
}
