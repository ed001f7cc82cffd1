package codex

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// mostNames bounds the files of the program that name codex, besides its packages. An agent is
// a row and a session, so a file that has to do with agents asks the agent.Kind.
const mostNames = 29

func TestFilesThatNameCodex(t *testing.T) {
	found := test.FilesWith(t, filepath.Join("..", ".."), "codex", []string{"runner/codex/"}, nil)
	if len(found) > mostNames {
		t.Errorf("%d files name codex, at most %d may:\n%s", len(found), mostNames, strings.Join(found, "\n"))
	}
}
