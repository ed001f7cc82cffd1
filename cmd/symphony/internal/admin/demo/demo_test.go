package demo

import (
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A program that go run has built is gone when it ends, also if the go command has kept it in
// its cache.
func TestProgram(t *testing.T) {
	for path, want := range map[string]string{
		"/home/ann/my bin/symphony":                        "'/home/ann/my bin/symphony'",
		"/tmp/go-build123/b001/exe/symphony":               "go run ./cmd/symphony",
		"/x/4b/" + strings.Repeat("0", 64) + "-d/symphony": "go run ./cmd/symphony",
		"": "go run ./cmd/symphony",
	} {
		test.Equal(t, path, program(path), want)
	}
}

// The last lines of a demo work in another directory. A program that go run has built is built
// first.
func TestBegin(t *testing.T) {
	const own = "\nNow in your own repository, with codex installed and logged in:\n\n  "
	test.Equal(t, "a program", Options{}.begin("/home/ann/my bin/symphony"),
		own+"'/home/ann/my bin/symphony' init --tracker file\n")
	test.Equal(t, "built by go run", Options{}.begin("/tmp/go-build123/b001/exe/symphony"),
		"\nBuild the program:\n\n  scripts/build ~/.local/bin/symphony\n"+
			own+"~/.local/bin/symphony init --tracker file\n")
	test.Contains(t, "another agent", Options{Agent: "claude", Model: "opus"}.begin("/bin/symphony"),
		"with claude installed and logged in:\n\n  /bin/symphony init --tracker file --agent claude --model opus\n")
}
