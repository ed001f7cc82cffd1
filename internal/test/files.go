package test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Read returns the content of a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	OK(t, err)
	return string(text)
}

// Write writes a file, and makes the directories above it.
func Write(t testing.TB, path, content string) {
	t.Helper()
	OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
	OK(t, os.WriteFile(path, []byte(content), 0o600))
}

// Exists reports whether there is something at the path, be it a link that leads nowhere.
func Exists(t testing.TB, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		OK(t, err)
	}
	return err == nil
}
