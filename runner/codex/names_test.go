package codex

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// mostNames bounds the files of the program that name codex, besides its packages. An agent is
// a row and a session, so a file that has to do with agents asks the agent.Kind.
const mostNames = 29

func TestFilesThatNameCodex(t *testing.T) {
	root := filepath.Join("..", "..")
	var found []string
	test.OK(t, fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		isProgram := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		if err != nil || !isProgram || strings.HasPrefix(path, "runner/codex/") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if bytes.Contains(bytes.ToLower(text), []byte("codex")) {
			found = append(found, path)
		}
		return err
	}))
	if len(found) > mostNames {
		t.Errorf("%d files name codex, at most %d may:\n%s", len(found), mostNames, strings.Join(found, "\n"))
	}
}
