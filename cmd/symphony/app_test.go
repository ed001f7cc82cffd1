package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

func testWorld() *term.Env {
	return &term.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Dir: "/", Home: "/"}
}

// TestArrange checks that flags may stand anywhere. The library wants them before the arguments.
func TestArrange(t *testing.T) {
	app := newApp(testWorld())
	for _, c := range []struct{ line, want string }{
		{"symphony", "symphony"},
		{"symphony --help", "symphony --help"},
		{"symphony help tick", "symphony help tick"},
		{"symphony tick", "symphony tick --"},
		{"symphony tick W.md --json", "symphony tick --json -- W.md"},
		{"symphony -w W.md tick", "symphony tick -w W.md --"},
		{"symphony --workflow=W.md --json tick", "symphony tick --workflow=W.md --json --"},
		{"symphony tick --lock-timeout -5s W.md", "symphony tick --lock-timeout -5s -- W.md"},
		{"symphony logs -f ABC-1 --run R W.md", "symphony logs -f --run R -- ABC-1 W.md"},
		{"symphony logs -- -f", "symphony logs -- -f"},
		{"symphony logs ABC-1 -h --bogus", "symphony logs --help"},
		{"symphony demo-agent app-server --home X", "symphony demo-agent app-server --home X"},
	} {
		got, err := arrange(app, strings.Fields(c.line))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v; want %s", c.line, got, err, c.want)
		}
	}
	for _, line := range []string{"symphony bogus", "symphony -w W.md", "symphony serve A", "symphony tick --state-dir"} {
		_, err := arrange(app, strings.Fields(line))
		var known *reconcile.Error
		if !errors.As(err, &known) || known.Code != "usage" {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"symphony ps --json": true, "symphony --json ps": true, "symphony ps": false, "symphony logs -- --json": false,
	} {
		if got := wantsJSON(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
