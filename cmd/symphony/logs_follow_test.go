package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log is followed over the turn of its file, and no line is shown twice or in pieces.
func TestFollowOverTheTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f := follower{path: path}
	defer f.close()
	var seen []string
	read := func(want string) {
		t.Helper()
		if err := f.read(func(line []byte) { seen = append(seen, string(line)) }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(seen, " "); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
		}
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read("")
	write("one\ntw")
	read("one")
	write("o\n")
	read("one two")
	write("three\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	read("one two three")
	write("four\nfi")
	read("one two three four")
	f.showRest(func(line []byte) { seen = append(seen, string(line)) })
	read("one two three four fi")
}
