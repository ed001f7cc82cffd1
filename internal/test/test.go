// Package test contains the checks that tests of all packages share.
package test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec" //nolint:depguard // only tests start it
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// OK ends the test if err is not nil. It also takes the T of a property test.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns v, and panics if err is not nil.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Err returns the error of a call alone.
func Err[T any](_ T, err error) error { return err }

// Map returns f of each element of list.
func Map[T, U any](list []T, f func(T) U) (of []U) {
	for _, v := range list {
		of = append(of, f(v))
	}
	return of
}

// Equal reports the differences between got and want as an error of the test.
func Equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Contains reports each of the parts that text does not contain as an error of the test.
func Contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}

// Lacks reports each of the parts that text contains as an error of the test.
func Lacks(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%s: %q is in\n%s", what, part, text)
		}
	}
}

// ErrorIs reports an error that does not wrap target as an error of the test.
func ErrorIs(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error is %v, want %v", what, err, target)
	}
}

// Run runs a command and returns what it printed, without the white space around it. If the command fails, it ends the test.
func Run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

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
