package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestSearch(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		want int
	}{
		"several values":          {"a, b := 1, 2", 1},
		"in a header of an if":    {"if a, b := 1, 2; a > b {}", 1},
		"a swap":                  {"a, b = b, a", 0},
		"a swap of elements":      {"l[i], l[j] = l[j], l[i]", 0},
		"the results of one call": {"a, b := f()", 0},
		"in a header of a for":    {"for i, j := 0, 1; i < j; i, j = i+1, j-1 {}", 0},
		"errors in cmp.Or":        {"err = cmp.Or(err, closeErr)", 1},
		"texts in cmp.Or":         {"s = cmp.Or(s, t)", 0},
		"an if changes a field":   {"if s.a = 1; b {}", 1},
		"an if counts":            {"if n++; n > 3 {}", 1},
		"an if calls":             {"if f(); b {}", 1},
		"an if adds":              {"if n += m; n > 3 {}", 1},
		"an else if does so":      {"if b {} else if s.a = 1; c {}", 1},
		"an if sets its error":    {"if _, err = f(); err != nil {}", 0},
		"an if has variables":     {"if a := 1; a > b {}", 0},
		"a switch has variables":  {"switch a := 1; { case a > b: }", 1},
		"a switch of a value":     {"switch f() { case 1: }", 0},
	} {
		dir := t.TempDir()
		code := "package p\n\nfunc f() {\n\t" + c.code + "\n}\n"
		test.OK(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(code), 0o600))
		found, err := search(dir)
		test.OK(t, err)
		if len(found) != c.want {
			t.Errorf("%s: found %q", name, found)
		}
	}
}
