package main

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/state/statetest"
)

// clockVar names the file that says how far the wall clock is off. The monotonic clock is left as it is, as when the clock
// is set or the machine was suspended.
const clockVar = "SYMPHONY_TEST_CLOCK"

// steppedMain is the program with a wall clock that its script can set, also while the program runs.
func steppedMain() {
	term.WallClock = stepped
	main()
}

func stepped() time.Time {
	now := time.Now()
	text, err := os.ReadFile(os.Getenv(clockVar))
	if errors.Is(err, fs.ErrNotExist) {
		return now
	}
	if err != nil {
		panic(err)
	}
	off, err := time.ParseDuration(string(text))
	if err != nil {
		panic(err)
	}
	return now.Add(off)
}

// clockCmd sets how far the wall clock is off the real one: clock DURATION
func clockCmd(ts *testscript.TestScript, neg bool, args []string) {
	_, err := time.ParseDuration(args[0])
	ts.Check(err)
	path := ts.Getenv(clockVar)
	ts.Check(os.WriteFile(path+".new", []byte(args[0]), 0o600))
	ts.Check(os.Rename(path+".new", path))
}

// otherLinearCmd switches the command linear to a second workspace of Linear, at $OTHER_ENDPOINT with the key $OTHER_KEY, and
// back: other-linear
func otherLinearCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	if s.other == nil {
		s.other = lineartest.New(lineartest.Config{Validate: linearschema.Validate, Key: "lin_api_" + strings.Repeat("stranger", 3)})
		ts.Check(s.other.Start())
		other := s.other
		ts.Defer(func() { other.Close() })
		ts.Setenv("OTHER_ENDPOINT", s.other.Endpoint())
		ts.Setenv("OTHER_KEY", s.other.Key())
	}
	s.linear, s.other = s.other, s.linear
}

// pidofCmd sets NAME and NAME_START to the pid and start time of the one process of the script whose command line matches:
// pidof NAME PATTERN
func pidofCmd(ts *testscript.TestScript, neg bool, args []string) {
	pids, cmdlines := matching(ts, args[1])
	if len(pids) != 1 {
		ts.Fatalf("not one process %s: %v %q", args[1], pids, cmdlines)
	}
	ts.Setenv(args[0], strconv.Itoa(pids[0]))
	stat := ts.ReadFile("/proc/" + strconv.Itoa(pids[0]) + "/stat")
	ts.Setenv(args[0]+"_START", strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[22-3])
}

// recordedCmd records a process as the worker, and as a child, of the oldest run without an outcome, as if its pid had been
// used again since: recorded PID START, or recorded FILE that holds both
func recordedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 1 {
		args = strings.Fields(ts.ReadFile(args[0]))
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(ts.Getenv("STATE"), "state.db")+"?_pragma=busy_timeout(5000)")
	ts.Check(err)
	defer db.Close()
	var id string
	ts.Check(db.QueryRow("UPDATE runs SET worker_pid = ?, worker_start = ? WHERE id = (SELECT min(id) FROM runs WHERE outcome IS NULL) RETURNING id",
		args[0], args[1]).Scan(&id))
	procs := filepath.Join(runner.RunDir(ts.Getenv("STATE"), id), "procs")
	text := ts.ReadFile(procs)
	ts.Check(os.WriteFile(procs, []byte(text+args[0]+" "+args[1]+" \"stranger\"\n"), 0o600))
}

// canUnshare reports whether this process may create namespaces: a container or an ordinary user often may not.
func canUnshare() bool {
	return exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").Run() == nil
}

// largeStateCmd creates a state of 500 claims, 5,000 ended runs and a month of passes: large-state
func largeStateCmd(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	ts.Check(statetest.Large(ctx, ts.Getenv("STATE"), time.Now(), statetest.Large500))
}
