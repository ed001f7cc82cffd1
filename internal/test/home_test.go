package test

import (
	"path/filepath"
	"testing"
)

// A test's go command keeps the directories of go env -w, also where GOENV names the file of
// these settings.
func TestMissing(t *testing.T) {
	usual := filepath.Join(t.TempDir(), "usual")
	other := filepath.Join(t.TempDir(), "other")
	Write(t, usual, "GOFLAGS=-trimpath\nGOPATH=/usual\n")
	Write(t, other, "GOCACHE=/other\nGOPROXY=off,GOPATH=/x\n")
	directories := map[string]string{"GOENV": usual, "GOCACHE": "/home/cache", "GOPATH": "/home/go"}
	for _, c := range []struct {
		name string
		env  map[string]string
		want map[string]string
	}{
		{"settings", nil, map[string]string{"GOENV": usual, "GOCACHE": "/home/cache"}},
		{"settings elsewhere", map[string]string{"GOENV": other}, map[string]string{"GOPATH": "/home/go"}},
		{
			"no settings",
			map[string]string{"GOENV": "off"},
			map[string]string{"GOCACHE": "/home/cache", "GOPATH": "/home/go"},
		},
		{"a variable", map[string]string{"GOCACHE": "/mine"}, map[string]string{"GOENV": usual}},
	} {
		getenv := func(name string) string { return c.env[name] }
		Equal(t, c.name, missing(directories, getenv), c.want)
	}
}
