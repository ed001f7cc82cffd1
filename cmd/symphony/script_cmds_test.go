package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/state"
)

// exitsCmd runs a command that must exit with this code. Its output must not contain the
// tracker's key: exits CODE COMMAND ARG...
func exitsCmd(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if _, _, code := execute(ts, args[1:]); code != want {
		ts.Fatalf("%s ended with %d, not %d", strings.Join(args[1:], " "), code, want)
	}
}

// printsCmd runs a command, or the script command sql, that must succeed, and whose stdout
// must match: prints PATTERN COMMAND ARG...
func printsCmd(ts *testscript.TestScript, neg bool, args []string) {
	pattern := multiline(ts, args[0])
	if stdout, _, code := execute(ts, args[1:]); code != 0 || !pattern.MatchString(stdout) {
		ts.Fatalf(
			"%s ended with %d, its stdout must match %s:\n%s",
			strings.Join(args[1:], " "),
			code,
			args[0],
			stdout,
		)
	}
}

// failsCmd runs a command that must exit with this code, and whose stderr must match: fails
// CODE PATTERN COMMAND ARG...
func failsCmd(ts *testscript.TestScript, neg bool, args []string) {
	pattern := multiline(ts, args[1])
	if _, stderr, code := execute(ts, args[2:]); strconv.Itoa(code) != args[0] ||
		!pattern.MatchString(stderr) {
		ts.Fatalf(
			"%s ended with %d, not %s; its stderr must match %s:\n%s",
			strings.Join(args[2:], " "),
			code,
			args[0],
			args[1],
			stderr,
		)
	}
}

// multiline compiles a pattern as testscript's command stdout does.
func multiline(ts *testscript.TestScript, pattern string) *regexp.Regexp {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	return re
}

// execute runs a command and returns its output and exit code. The output is then that of the
// script's command.
func execute(ts *testscript.TestScript, args []string) (stdout, stderr string, code int) {
	secret := ts.Getenv("LINEAR_API_KEY")
	if args[0] == "sql" {
		rows, err := query(ts.Getenv("STATE"), args[1])
		ts.Check(err)
		fmt.Fprint(ts.Stdout(), rows)
		return rows, "", 0
	}
	if args[0] == "symphony" && isReading(args[1:]) {
		var out, errOut []byte
		out, errOut, code = runInProcess(ts, args[1:])
		stdout = string(out)
		stderr = string(errOut)
		fmt.Fprint(ts.Stdout(), stdout)
		fmt.Fprint(ts.Stderr(), stderr)
	} else {
		err := ts.Exec(args[0], args[1:]...)
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		if exit != nil {
			code = exit.ExitCode()
		}
		stdout = ts.ReadFile("stdout")
		stderr = ts.ReadFile("stderr")
	}
	if secret != "" && strings.Contains(stdout+stderr, secret) {
		ts.Fatalf("the output contains the tracker's key")
	}
	return stdout, stderr, code
}

// waitFor repeats a check until it succeeds. It waits four times as long as the check took,
// because most checks start a program, and many scripts wait at once.
func waitFor(ts *testscript.TestScript, what string, ok func() (bool, string)) {
	end := time.Now().Add(test.Patience())
	for {
		began := time.Now()
		done, last := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			_ = ts.Exec("symphony", "ps", "--all") // for the log
			ts.Fatalf("waited %s for %s; last: %s", test.Patience(), what, last)
		}
		time.Sleep(min(max(50*time.Millisecond, 4*time.Since(began)), 500*time.Millisecond))
	}
}

// untilCmd repeats a command until its output matches. The output is then in stdout: until
// PATTERN COMMAND ARG...
func untilCmd(ts *testscript.TestScript, neg bool, args []string) {
	pattern := multiline(ts, args[0])
	var out string
	waitFor(ts, strings.Join(args, " "), func() (bool, string) {
		out = output(ts, args[1:]...)
		return pattern.MatchString(out), out
	})
	fmt.Fprint(ts.Stdout(), out)
}

// output runs a command in the script's directory and environment and returns its stdout and
// stderr.
func output(ts *testscript.TestScript, args ...string) string {
	if args[0] == "symphony" && isReading(args[1:]) {
		out, errOut, _ := runInProcess(ts, args[1:])
		return string(out) + string(errOut)
	}
	if args[0] == "sql" {
		rows, _ := query(ts.Getenv("STATE"), args[1]) // until it succeeds
		return rows
	}
	if args[0] == "cat" && len(args) == 2 { // the most frequent one
		out, _ := os.ReadFile(ts.MkAbs(args[1]))
		return string(out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if path, err := inPath(ts.Getenv("PATH"), args[0]); err == nil {
		cmd.Path = path
		cmd.Err = nil
	}
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = scriptEnv(ts)
	out, _ := cmd.CombinedOutput() // the output shows why a command failed
	return string(out)
}

func inPath(list, name string) (string, error) {
	for _, dir := range filepath.SplitList(list) {
		if path := filepath.Join(dir, name); isExecutable(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0 && !info.IsDir()
}

// setVar sets a variable of the script.
func setVar(ts *testscript.TestScript, name, value string) {
	ts.Setenv(name, value)
	set := stageOf(ts)
	set.vars = append(set.vars, name)
}

// scriptEnv returns the environment of the script. testscript can't list it, so the names are
// those of the setup and of setVar, and of every line of a script that sets a variable.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	names := slices.Concat(scriptVars(), stageOf(ts).vars)
	for _, v := range stageOf(ts).env.Vars {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	for _, name := range names {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

var (
	setsVar    = regexp.MustCompile(`(?m)^(?:\[.*\] )?env ([A-Za-z_]+)=`)
	scriptVars = sync.OnceValue(func() (names []string) {
		files, err := filepath.Glob(filepath.Join(moduleRoot, "testdata", "*", "*.txtar"))
		if err != nil || len(files) == 0 {
			panic("there are no scripts")
		}
		for _, path := range files {
			for _, match := range setsVar.FindAllSubmatch(test.Must(os.ReadFile(path)), -1) {
				names = append(names, string(match[1]))
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
)

// passCmd runs a pass with -v, which must succeed. It waits for a running pass, such as that
// of a worker: pass [TICK-FLAG...]
func passCmd(ts *testscript.TestScript, neg bool, args []string) {
	exitsCmd(
		ts,
		false,
		append(
			[]string{"0", "symphony", "tick", "--lock-timeout", test.Patience().String()},
			withFields(args)...),
	)
}

// withFields adds -v to the flags of a pass, whose output scripts then read as fields.
func withFields(flags []string) []string {
	if slices.Contains(flags, "--json") || slices.Contains(flags, "--quiet") {
		return flags
	}
	return append([]string{"-v"}, flags...)
}

// quietStep is the time between two passes while a worker is alive: few of them have anything
// to do.
const quietStep = 5 * time.Second

// quietCmd runs passes until nothing is running or waiting and no worker or pass is left. Held
// issues stay held: quiet [TICK-FLAG...]
func quietCmd(ts *testscript.TestScript, neg bool, args []string) {
	last := time.Now()
	waitFor(ts, "nothing running or waiting", func() (bool, string) {
		// Before the pass, because a run that ends later has to be settled, and after it,
		// because the pass of a worker may have started another run.
		working, cmdlines := matching(ts, "symphony (worker|tick) ")
		if len(working) > 0 && time.Since(last) < quietStep {
			return false, fmt.Sprint(cmdlines)
		}
		last = time.Now()
		out := output(ts, append([]string{"symphony", "tick"}, withFields(args)...)...)
		acted := regexp.MustCompile(`(?m)^(dispatch|deliver|stop|reap|retry)\b`).MatchString(out)
		idle := idlePass.MatchString(out)
		if idle && !acted && len(working) == 0 {
			working, cmdlines = matching(ts, "symphony (worker|tick) ")
			return len(working) == 0, fmt.Sprint(out, cmdlines)
		}
		return false, fmt.Sprint(out, cmdlines)
	})
}

// settledCmd does the same, and the issue must then be in the state, by default Human Review:
// settled ISSUE [STATE]
func settledCmd(ts *testscript.TestScript, neg bool, args []string) {
	quietCmd(ts, false, nil)
	linearCmd(ts, false, []string{"is", args[0], cmp.Or(strings.Join(args[1:], " "), "Human Review")})
}

// workingCmd runs a pass and waits until the agent of an issue works: working ISSUE
func workingCmd(ts *testscript.TestScript, neg bool, args []string) {
	passCmd(ts, false, nil)
	untilCmd(ts, false, []string{`^running\t` + args[0] + `\tTodo\tstreaming_turn`, "symphony", "ps"})
}

// ours returns the command lines of the script's processes, by pid.
func ours(ts *testscript.TestScript) map[int]string {
	return marked(ts.Getenv(markName), stageOf(ts).dirs...)
}

func matching(ts *testscript.TestScript, pattern string) (pids []int, cmdlines []string) {
	re, err := regexp.Compile(pattern)
	ts.Check(err)
	found := ours(ts)
	for _, pid := range slices.Sorted(maps.Keys(found)) {
		if re.MatchString(found[pid]) {
			pids = append(pids, pid)
			cmdlines = append(cmdlines, found[pid])
		}
	}
	return pids, cmdlines
}

// withoutForks leaves out processes that one of the others has forked and that have not called
// exec yet: they still have the parent's command line. The parent waits for their exec, so it
// could not stop if they were stopped.
func withoutForks(pids []int, cmdlines []string) (rest []int) {
	for i, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		var parent int
		_, _ = fmt.Sscanf(state, "%1s %d", new(string), &parent) // 0 if the process has ended
		if j := slices.Index(pids, parent); j < 0 || cmdlines[j] != cmdlines[i] {
			rest = append(rest, pid)
		}
	}
	return rest
}

// aliveCmd waits for a process of the script whose command line matches. ! alive does not wait
// and fails if there is one: [!] alive PATTERN
func aliveCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		if pids, cmdlines := matching(ts, args[0]); len(pids) > 0 {
			ts.Fatalf("alive: %v %q", pids, cmdlines)
		}
		return
	}
	waitFor(ts, "a process "+args[0], func() (bool, string) {
		pids, _ := matching(ts, args[0])
		return len(pids) > 0, fmt.Sprint(ours(ts))
	})
}

// goneCmd waits until no process of the script matches: gone PATTERN
func goneCmd(ts *testscript.TestScript, neg bool, args []string) {
	waitFor(ts, "no process "+args[0], func() (bool, string) {
		pids, cmdlines := matching(ts, args[0])
		return len(pids) == 0, fmt.Sprint(pids, cmdlines)
	})
}

// signalCmd signals the processes of the script whose command line matches. After STOP and
// KILL it waits until they have stopped or ended: signal TERM PATTERN
func signalCmd(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM,
		"INT":  syscall.SIGINT,
		"HUP":  syscall.SIGHUP,
		"KILL": syscall.SIGKILL,
		"STOP": syscall.SIGSTOP,
		"CONT": syscall.SIGCONT,
	}
	pids, cmdlines := matching(ts, args[1])
	if args[0] != "KILL" {
		pids = withoutForks(pids, cmdlines)
	}
	if len(pids) == 0 {
		ts.Fatalf("no process matches %s; the script's processes: %v", args[1], ours(ts))
	}
	reached := 0
	for _, pid := range pids {
		err := syscall.Kill(pid, signals[args[0]])
		switch {
		case err == nil:
			reached++
		case !errors.Is(err, syscall.ESRCH):
			// it may have ended when the process before it was killed
			ts.Check(err)
		}
	}
	if reached == 0 {
		ts.Fatalf("all processes ended before they could be sent %s: %v", args[0], pids)
	}
	switch args[0] {
	case "STOP":
		waitFor(ts, "all threads to stop", func() (bool, string) {
			return !slices.ContainsFunc(pids, running), fmt.Sprint(pids)
		})
	case "KILL":
		waitFor(ts, "the killed processes to end", func() (bool, string) {
			return !slices.ContainsFunc(pids, ending), fmt.Sprint(pids)
		})
	}
}

// running reports whether a thread of the process has not stopped yet.
func running(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(threads, func(path string) bool {
		stat, err := os.ReadFile(path)
		_, state, _ := strings.Cut(string(stat), ") ")
		return err == nil && !strings.ContainsAny(state[:1], "TtZX")
	})
}

// ending reports whether a killed process may still have locks. The kernel removes its command
// line before it releases them, and the first thread may end before the others.
func ending(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil &&
		(len(threads) > 1 || !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X"))
}

// holdLockCmd takes the project lock like a pass of that trigger, until release-lock:
// hold-lock TRIGGER
func holdLockCmd(ts *testscript.TestScript, neg bool, args []string) {
	release, held, err := state.Acquire(context.Background(), ts.Getenv("STATE"), state.Holder{
		Trigger: args[0],
		Since:   time.Now(),
	}, test.Patience(), false)
	ts.Check(err)
	if held != nil {
		ts.Fatalf("the lock is held: %+v", held)
	}
	stageOf(ts).release = release
	ts.Defer(func() {
		if err := release(); err != nil { // does nothing after release-lock
			ts.Logf("release the lock: %v", err)
		}
	})
}

func releaseLockCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(stageOf(ts).release())
}

// setCmd sets a key of WORKFLOW.md, or without a value removes its line: set SECTION.KEY
// [VALUE]
func setCmd(ts *testscript.TestScript, neg bool, args []string) {
	section, key, _ := strings.Cut(args[0], ".")
	path := ts.MkAbs("WORKFLOW.md")
	lines := strings.Split(ts.ReadFile(path), "\n")
	end := 1 + slices.Index(lines[1:], "---")
	at := slices.Index(lines[:end], section+":")
	if at < 0 {
		lines = slices.Insert(lines, end, section+":")
		at = end
		end = end + 1
	}
	next := at + 1
	for ; next < end && strings.HasPrefix(lines[next], "  "); next++ {
		if strings.HasPrefix(lines[next], "  "+key+":") {
			lines = slices.Delete(lines, next, next+1)
			next--
			end--
		}
	}
	if len(args) > 1 {
		lines = slices.Insert(lines, at+1, "  "+key+": "+strings.Join(args[1:], " "))
	}
	ts.Check(os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
}

// jsonCmd fails unless a part of the JSON in a file, or in stdout of the last command, matches
// completely; without a PATTERN it prints the part. The last step of the path may be keys (the
// sorted keys of an object) or length (of a list): json stdout running.0.phase [PATTERN]
func jsonCmd(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	text, err := part(v, strings.Split(args[1], "."))
	ts.Check(err)
	if len(args) == 2 {
		fmt.Fprintln(ts.Stdout(), text)
		return
	}
	pattern, err := regexp.Compile("^(?:" + args[2] + ")$")
	ts.Check(err)
	if !pattern.MatchString(text) {
		ts.Fatalf("%s is %s", args[1], text)
	}
}

// keepCmd sets a variable to a part of the JSON in stdout of the last command.
func keepCmd(ts *testscript.TestScript, _ bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &v))
	text, err := part(v, strings.Split(args[1], "."))
	ts.Check(err)
	setVar(ts, args[0], text)
}

// part follows the steps into a decoded value and returns the part there as text.
func part(v any, steps []string) (string, error) {
	for _, step := range steps {
		switch x := v.(type) {
		case map[string]any:
			value, ok := x[step]
			switch {
			case ok:
				v = value
			case step == "keys":
				return strings.Join(slices.Sorted(maps.Keys(x)), " "), nil
			default:
				return "", fmt.Errorf("no key %q in %v", step, x)
			}
		case []any:
			if step == "length" {
				return strconv.Itoa(len(x)), nil
			}
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(x) {
				return "", fmt.Errorf("no element %q in %v", step, x)
			}
			v = x[i]
		default:
			return "", fmt.Errorf("%v has no %q", v, step)
		}
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// remoteCmd makes a bare repository with one commit on main, and the repository seed from
// which that was pushed: remote DIRECTORY
func remoteCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(ts.Exec("sh", "-ec", `git init -q --bare -b main "$1"; git init -q -b main seed
		cd seed; git commit -q --allow-empty -m Begin; git push -q "$1" main`, "sh", ts.MkAbs(args[0])))
}

// sqlCmd prints the rows of a query on the script's database, columns separated by tabs: sql
// QUERY
func sqlCmd(ts *testscript.TestScript, neg bool, args []string) {
	execute(ts, append([]string{"sql"}, args...))
}

// query returns the rows, columns separated by tabs.
func query(stateDir, text string) (string, error) {
	db, err := sql.Open(
		"sqlite",
		"file:"+filepath.Join(stateDir, "state.db")+"?mode=rw&_pragma=busy_timeout(10000)",
	)
	if err != nil {
		return "", err
	}
	defer db.Close()
	rows, err := db.Query(text)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for rows.Next() {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(sql.NullString)
		}
		if err := rows.Scan(cells...); err != nil {
			return "", err
		}
		for i, c := range cells {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(c.(*sql.NullString).String)
		}
		out.WriteByte('\n')
	}
	return out.String(), rows.Err()
}

// dueCmd makes the next try of every block and of every claim due now: due
func dueCmd(ts *testscript.TestScript, neg bool, args []string) {
	for _, text := range []string{
		`UPDATE meta SET value = json_set(value, '$.next_try', '2026-01-01T00:00:00Z') WHERE key LIKE 'blocked_%'`,
		"UPDATE claims SET due_at = 0 WHERE due_at > 0",
	} {
		_, err := query(ts.Getenv("STATE"), text)
		ts.Check(err)
	}
}

// noSecretCmd fails if a file below the script's directory contains the key of the tracker or of a
// model, except
// the named files and folders: no-secret [EXCEPT...]
func noSecretCmd(ts *testscript.TestScript, neg bool, args []string) {
	secret := regexp.MustCompile("lin_api_secret|key_of_the_model")
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // not a file, or a worker has just removed it
		}
		if filepath.Dir(path) == ts.Getenv("INSTALLED") {
			return nil // the program of the tests, which contains this text
		}
		for _, except := range args {
			if path == ts.MkAbs(except) || strings.HasPrefix(path, ts.MkAbs(except)+"/") {
				return nil
			}
		}
		if data, err := os.ReadFile(path); err == nil && secret.Match(data) {
			return fmt.Errorf("%s contains a key", path)
		}
		return nil
	}))
}

// installProgramCmd copies the program to a folder that is not temporary, because a schedule
// refuses programs in temporary ones, and sets INSTALLED to that folder: install-program
func installProgramCmd(ts *testscript.TestScript, neg bool, args []string) {
	dir := filepath.Join(ts.Getenv("HOME"), ".installed")
	ts.Check(os.MkdirAll(dir, 0o700))
	// If this process wrote the file, a program that another test starts at that moment would
	// inherit the open file, and the copy could not be executed.
	ts.Check(ts.Exec("cp", ts.Getenv("PROGRAM"), filepath.Join(dir, "symphony")))
	setVar(ts, "INSTALLED", dir)
}

// idlePass is the summary of a pass after which no run is under way or due.
var idlePass = regexp.MustCompile(`(?m): 0 running(, \d+ [a-z ]+)*(;.*)?$`)
