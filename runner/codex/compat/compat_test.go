package compat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/runner/codex"
	"github.com/symphony-cron/symphony/runner/codex/schema"
)

// The schema that is printed for the scripted app-server is one that fits.
func TestPrintedFits(t *testing.T) {
	p := printedAnew(t)
	var r Report
	r.judge(p)
	if r.Err() != nil || len(r.Warnings) > 0 {
		t.Errorf("%v, %q", r.Err(), r.Warnings)
	}
}

func printedAnew(t *testing.T) printed {
	t.Helper()
	dir := t.TempDir()
	if err := Print(dir); err != nil {
		t.Fatal(err)
	}
	p, err := readPrinted(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Each example of the table is JSON, and each member that it calls spare stands in one.
func TestTable(t *testing.T) {
	for _, list := range [][]codex.Message{codex.Spoken().Requests, codex.Spoken().Served} {
		for _, m := range list {
			shape := schema.New(saidShape(m))
			for path := range m.Spare {
				if len(shape.Find(strings.ReplaceAll(path, "[0]", "[]"))) == 0 {
					t.Errorf("%s: no example has %s", m.Method, path)
				}
			}
		}
	}
}

// readAll reads the files of a printed schema, writeAll puts them back.
func readAll(t *testing.T, dir string) map[string]object {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]object{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := schema.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".json")] = v.(object)
	}
	return files
}

func writeAll(t *testing.T, dir string, files map[string]object) {
	t.Helper()
	for name, file := range files {
		data, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
