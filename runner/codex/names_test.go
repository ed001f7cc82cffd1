package codex

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// mostNames bounds the files of the program that name codex, besides its packages. An agent is
// a row and a session, so a file that has to do with agents asks the agent.Kind. The tables of
// words and flags of other programs name codex in what they advise, and do not count.
const mostNames = 29

func TestFilesThatNameCodex(t *testing.T) {
	uncounted := []string{
		"runner/codex/",
		"cmd/symphony/other_flags.go",
		"cmd/symphony/other_words.go",
	}
	found := test.FilesWith(t, filepath.Join("..", ".."), "codex", uncounted, nil)
	if len(found) > mostNames {
		t.Errorf("%d files name codex, at most %d may:\n%s", len(found), mostNames, strings.Join(found, "\n"))
	}
}
