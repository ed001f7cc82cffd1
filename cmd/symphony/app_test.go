package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/worker"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/admin/setup"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/lock"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

func testWorld() *term.Env {
	return &term.Env{
		Env:    environ.Env{Dir: "/", Home: "/"},
		Stdin:  strings.NewReader(""),
		Stdout: io.Discard,
		Stderr: io.Discard,
	}
}

// TestArrange checks that flags may be anywhere. The library accepts them only before the
// arguments.
func TestArrange(t *testing.T) {
	app := newApp(testWorld())
	for _, c := range []struct{ line, want string }{
		{"symphony", "symphony"},
		{"symphony --help", "symphony --help"},
		{"symphony help tick", "symphony help tick"},
		{"symphony tick", "symphony tick --"},
		{"symphony tick W.md --json", "symphony tick --json -- W.md"},
		{"symphony ps --json ABC-1", "symphony ps --json -- ABC-1"},
		{"symphony --json ps ABC-1", "symphony ps --json -- ABC-1"},
		{"symphony -w W.md tick", "symphony tick --workflow W.md --"},
		{"symphony --workflow=W.md --json tick", "symphony tick --json --workflow W.md --"},
		{"symphony ps -w W.md --json --workflow=V.md", "symphony ps --json --workflow W.md\x00V.md --"},
		{"symphony tick --lock-timeout -5s W.md", "symphony tick --lock-timeout -5s -- W.md"},
		{"symphony logs -f ABC-1 --run R W.md", "symphony logs -f --run R -- ABC-1 W.md"},
		{"symphony logs -- -f", "symphony logs -- -f"},
		{"symphony logs ABC-1 -h --bogus", "symphony logs --help"},
		{"symphony demo-agent app-server --home X", "symphony demo-agent app-server --home X"},
	} {
		test.Equal(t, c.line, strings.Join(test.Must(arrange(app, strings.Fields(c.line))), " "), c.want)
	}
	for _, line := range []string{"symphony bogus", "symphony -w W.md", "symphony tick --state-dir"} {
		_, err := arrange(app, strings.Fields(line))
		test.Equal(t, line, exit.From(err).Code, "usage")
	}
}

func TestWantsJSON(t *testing.T) {
	for line, want := range map[string]bool{
		"symphony ps --json":      true,
		"symphony --json ps":      true,
		"symphony ps":             false,
		"symphony logs -- --json": false,
	} {
		test.Equal(t, line, wantsJSON(strings.Fields(line)), want)
	}
}

// A command can be found by the name in its row before it is built.
func TestRowsHaveTheNamesOfCommands(t *testing.T) {
	rows := hiddenCommands()
	for _, group := range commandGroups() {
		rows = append(rows, group.rows...)
	}
	for _, row := range rows {
		test.Equal(t, "the command "+row.name, row.build(testWorld()).Name, row.name)
	}
}

// The words that many people type first are no commands of ours, and lead to one.
func TestFirstWords(t *testing.T) {
	app := newApp(testWorld())
	for word, meant := range firstWords {
		command, _, _ := strings.Cut(meant, " ")
		test.Equal(t, word+" is a command", app.Command(word) != nil, false)
		test.Equal(t, meant+" is a command", app.Command(command) != nil, true)
	}
	if len(firstWords) > 40 {
		t.Errorf("%d rows: what is near a command needs none", len(firstWords))
	}
}

// One word of each kind that symphony does not know, and what the answer to it is.
func TestUnknownWords(t *testing.T) {
	app := newApp(testWorld())
	for line, want := range map[string]string{
		"tikc":                `unknown command "tikc", did you mean "tick"?`,
		"List":                `unknown command "List", did you mean "ps"?`,
		"xyz":                 `unknown command "xyz"`,
		"tick --stat-dir=x":   "tick: unknown flag --stat-dir, did you mean --state-dir?",
		"logs --foll":         "logs: unknown flag --foll, did you mean --follow?",
		"top --zebra":         "top: unknown flag --zebra; known are --workflow, --state-dir",
		"ps -x":               "ps: unknown flag -x; known are --workflow, ",
		"--tracker file init": "unknown flag --tracker before the command: its flags come after it",
		"-f W.md ps":          "unknown flag -f before the command: its flags come after it",
		"W.md ps --all":       "the command comes first: symphony COMMAND -w W.md",
		"--bogus":             "unknown flag --bogus, and a command is missing: symphony help lists them",
		"--json":              "a command is missing",
	} {
		_, err := arrange(app, inFull(strings.Fields("symphony "+line)))
		e := exit.From(err)
		test.Equal(t, line, e.Code, "usage")
		test.Contains(t, line, e.Message, want)
	}
}

// The page of the documentation that serve -d names has a unit, whose command line is right.
func TestServeUnit(t *testing.T) {
	unit := between(t, document(t, "docs/web.md"), "`~/.config/systemd/user/symphony-web.service`:\n\n```ini\n", "```")
	line := strings.Fields(between(t, unit, "ExecStart=%h/bin/", "\n"))
	if _, err := arrange(newApp(testWorld()), line); err != nil || line[1] != "serve" {
		t.Errorf("%v: %v", line, err)
	}
}

// On a terminal a command names the workflow that it has found above the working directory,
// unless its output is for a program.
func TestWorkflowAboveIsNamed(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	test.OK(t, os.Mkdir(below, 0o700))
	test.OK(t, os.WriteFile(filepath.Join(dir, "WORKFLOW.md"), []byte("no workflow"), 0o600))
	note := "symphony: using " + filepath.Join(dir, "WORKFLOW.md") + "\n"
	for _, c := range []struct {
		dir   string
		width int
		args  string
		want  bool
	}{
		{below, 80, "symphony check", true},
		{below, 0, "symphony check", false},
		{below, 80, "symphony check --json", false},
		{dir, 80, "symphony check", false},
	} {
		var stderr strings.Builder
		w := &term.Env{
			Env:   environ.Env{Dir: c.dir, Home: dir, Now: time.Now},
			Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &stderr, Width: c.width,
		}
		run(t.Context(), w, strings.Fields(c.args))
		test.Equal(
			t,
			c.args+" in "+c.dir+": the workflow is named",
			strings.Contains(stderr.String(), note),
			c.want,
		)
	}
}

// TestLoopLockWhileReadLocked checks that a process that only tests for a loop does not count
// as a loop.
func TestLoopLockWhileReadLocked(t *testing.T) {
	dir := t.TempDir()
	reader := test.Must(lock.Take(t.Context(), wiring.LoopLock(dir), lock.Shared, 0))
	time.AfterFunc(50*time.Millisecond, func() { _ = lock.Release(reader) })
	file := test.Must(wiring.TakeLoopLock(t.Context(), dir))
	test.ErrorIs(t, "the lock of a second loop", test.Err(wiring.TakeLoopLock(t.Context(), dir)), lock.ErrHeld)
	test.Equal(t, "looping", wiring.Looping(dir), true)
	test.OK(t, lock.Release(file))
	test.Equal(t, "looping afterwards", wiring.Looping(dir), false)
}

// TestFailedKeepsTheOutcome checks that a run whose outcome could not be stored does not count
// as failed.
func TestFailedKeepsTheOutcome(t *testing.T) {
	for name, c := range map[string]struct{ had, want reconcile.Outcome }{
		// the worker tried for ten minutes and wrote the outcome to alive
		"could not be stored":  {reconcile.Succeeded, ""},
		"could not be started": {"", reconcile.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			now := time.Now()
			db := test.Must(state.Create(ctx, t.TempDir()+"/state", now))
			defer db.Close()
			run := reconcile.Run{
				ID:         "run-1",
				Kind:       reconcile.AgentRun,
				Phase:      reconcile.Starting,
				IssueID:    "id-1",
				Identifier: "ABC-1",
				StartedAt:  now,
			}
			test.OK(t, db.Store.Commit(ctx, now, reconcile.Change{Insert: &run}))
			path := t.TempDir() + "/alive"
			test.OK(t, proc.CreateAlive(path))
			h := &worker.OwnRun{DB: db, Alive: test.Must(proc.HoldAlive(path, test.Patience()))}
			defer h.Close(slog.New(slog.DiscardHandler))
			h.Run = test.Must(db.Journal.TakeRun(ctx, run.ID, reconcile.Handle{
				Boot:  "b",
				PID:   2,
				Start: 3,
			}, now))
			h.Run.Outcome = c.had
			h.RecordFailure(
				ctx,
				&environ.Env{Now: time.Now},
				errors.New("no room"),
				slog.New(slog.DiscardHandler),
			)
			test.Equal(t, "the outcome", test.Must(db.Runs.Find(ctx, run.ID)).Outcome, c.want)
		})
	}
}

// The help of init explains each kind of tracker.
func TestInitHelp(t *testing.T) {
	for _, name := range setup.TrackerNames() {
		explained := strings.Contains(helpPart("init"), "--tracker "+name)
		test.Equal(t, "the help explains "+name, explained, true)
	}
}
