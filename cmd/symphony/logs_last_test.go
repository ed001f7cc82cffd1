package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/logs"
)

// The last line is found whatever stands behind it: lines longer than one step, none at all, one without an end.
func TestLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	is := func(line []byte) bool { return bytes.HasPrefix(line, []byte("this")) }
	long := bytes.Repeat([]byte("x"), 12<<20)
	for _, c := range []struct{ name, before, want, behind string }{
		{"alone", "", "this", ""},
		{"the later", "this 1\n", "this 2", "\nother\n"},
		{"before a long one", "this 1\n", "this 2", "\n" + string(long) + "\nother"},
		{"a long one", "other\n", "this " + string(long), "\n" + string(long[:logs.TailStep-1]) + "\n"},
		{"at a step's edge", "", "this", "\n" + string(long[:logs.TailStep-1])},
		{"none", "other\n", "", string(long)},
	} {
		if err := os.WriteFile(path, []byte(c.before+c.want+c.behind), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := logs.LastLine(path, is)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %d bytes, %v, want %d", c.name, len(got), err, len(c.want))
		}
	}
}

// A line of 12 MB is not copied again for each step that is read of it.
func TestLastLineCopiesLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := logs.LastLine(path, func([]byte) bool { return false }); err != nil {
				b.Fatal(err)
			}
		}
	})
	if got.AllocedBytesPerOp() > 100<<20 {
		t.Errorf("%d MB were allocated for 12", got.AllocedBytesPerOp()>>20)
	}
}
