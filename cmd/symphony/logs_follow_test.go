package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// A log is followed over the turn of its file, and no line is shown twice or in pieces.
func TestFollowOverTheTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	f := logs.Follower{Path: path}
	defer f.Close()
	var seen []string
	read := func(want string) {
		t.Helper()
		if err := f.Read(func(line []byte) { seen = append(seen, string(line)) }); err != nil {
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
	f.ShowRest(func(line []byte) { seen = append(seen, string(line)) })
	read("one two three four fi")
}

// A log that is turned over while its older part is read loses no line, and shows none twice.
func TestTurnOfALogThatIsRead(t *testing.T) {
	for _, early := range []bool{true, false} {
		dir := t.TempDir()
		path, previous := filepath.Join(dir, "events.jsonl"), filepath.Join(dir, "events.1.jsonl")
		write := func(path, text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		turn := func() {
			t.Helper()
			if err := os.Rename(path, previous); err != nil {
				t.Fatal(err)
			}
			write(path, "three\n")
		}
		write(previous, "one\n")
		write(path, "two\n")
		f := logs.Follower{Path: path}
		defer f.Close()
		var seen []string
		show := func(line []byte) {
			if len(seen) == 0 && !early {
				turn()
			}
			seen = append(seen, string(line))
		}
		want := "one two three"
		if early {
			if err := f.Open(); err != nil {
				t.Fatal(err)
			}
			turn()
			want = "two three" // the older one is gone
		}
		for range 2 {
			if err := f.ReadPrevious(previous, show); err != nil {
				t.Fatal(err)
			}
			if err := f.Read(show); err != nil {
				t.Fatal(err)
			}
			previous = "" // there is none any more
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is printed as it is stored is the same JSON, and moves no cursor.
func TestRawEventsOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := &project.Project{Env: &term.Env{Stdout: &out}}
	const stored = `{"message":"a ` + "\u009b31m\u202e\u007f" + ` é…\u001b"}`
	logs.ShowRaw(p, []byte(stored))
	logs.ShowRaw(p, []byte(`{"message":"plain é"}`))
	want := `{"message":"a \u009b31m\u202e\u007f é…\u001b"}` + "\n" + `{"message":"plain é"}` + "\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
