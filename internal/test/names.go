package test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FilesWith returns the program's Go files below root, without tests, that contain a word in any
// case. It leaves out files whose paths begin with one of own, such as "runner/acp/", and does
// not look at texts in apart, such as the addresses of modules.
func FilesWith(t *testing.T, root, word string, own, apart []string) []string {
	t.Helper()
	var found []string
	OK(t, fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if path == "vendor" {
			return fs.SkipDir // it holds the libraries where there is no network
		}
		isProgram := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		isOwn := slices.ContainsFunc(own, func(dir string) bool { return strings.HasPrefix(path, dir) })
		if err != nil || !isProgram || isOwn {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		for _, other := range apart {
			text = bytes.ReplaceAll(text, []byte(other), nil)
		}
		if bytes.Contains(bytes.ToLower(text), []byte(word)) {
			found = append(found, path)
		}
		return nil
	}))
	return found
}
