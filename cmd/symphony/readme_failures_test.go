package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scriptFolders are the folders whose files are the subtests of a test.
var scriptFolders = map[string]string{"TestScript": "script", "TestRealCodex": "codex"}

// Each row of the README's table of failures names the tests that show it, and they exist.
func TestReadmeFailures(t *testing.T) {
	exists := testNames(t)
	rows := 0
	for line := range strings.Lines(chapter(t, "What happens when")) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| … ") {
			continue
		}
		rows++
		if len(cells) != 3 {
			t.Errorf("%d cells in: %s", len(cells), line)
			continue
		}
		shown := codeSpans(cells[2])
		if len(shown) == 0 {
			t.Errorf("nothing shows: %s", cells[0])
		}
		for _, name := range shown {
			if !exists[name] {
				t.Errorf("there is no test %s, which is to show: %s", name, cells[0])
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows", rows)
	}
}

// testNames are the tests of the module and their scripts, as `go test -run` knows them.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	err := filepath.WalkDir(moduleRoot, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for test, folder := range scriptFolders {
		scripts, err := filepath.Glob(filepath.Join(moduleRoot, "testdata", folder, "*.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, script := range scripts {
			names[test+"/"+strings.TrimSuffix(filepath.Base(script), ".txtar")] = true
		}
	}
	return names
}
