package codex

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// mostNames bounds the files of the program that name codex, besides its packages. An agent is
// a row and a session, so a file that has to do with agents asks the agent.Kind. The table of
// keys of other programs names codex in what it advises, and does not count.
const mostNames = 29

func TestFilesThatNameCodex(t *testing.T) {
	uncounted := []string{
		"runner/codex/",
		"reconcile/workflow/other_keys.go",
	}
	found := test.FilesWith(t, filepath.Join("..", ".."), "codex", uncounted, nil)
	if len(found) > mostNames {
		t.Errorf("%d files name codex, at most %d may:\n%s", len(found), mostNames, strings.Join(found, "\n"))
	}
}
