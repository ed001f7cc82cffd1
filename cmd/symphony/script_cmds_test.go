package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// bound is how long a script waits for anything.
const bound = 30 * time.Second

// linearCmd steers the script's Linear:
//
//	linear add ABC-1 [state=Todo] [priority=2] [title=...] [blocked=ABC-2] [labels=a,b] [assignee=EMAIL] [FILE]
//	linear move ABC-1 STATE | linear comment ABC-1 TEXT | linear remove ABC-1 | linear edit ABC-1 FILE
//	linear is ABC-1 STATE          waits until it is so
//	linear fail JSON | linear ok   failures on demand
//	linear requests N              exactly N requests were made since the last clear
//	linear clear                   forgets the requests
//
// In a description {move STATE} stands for the tool call that moves the issue.
func linearCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(linearKey{}).(*lineartest.Server)
	if len(args) == 0 || neg {
		ts.Fatalf("usage: linear VERB ...")
	}
	switch verb, rest := args[0], args[1:]; verb {
	case "add":
		ts.Check(linearAdd(ts, s, rest))
	case "move":
		ts.Check(s.Move(rest[0], strings.Join(rest[1:], " ")))
	case "comment":
		_, err := s.Comment(rest[0], "kim@example.com", strings.Join(rest[1:], " "))
		ts.Check(err)
	case "remove":
		ts.Check(s.Remove(rest[0]))
	case "edit":
		text := describe(ts, s, rest[0], rest[1])
		ts.Check(s.Edit(rest[0], func(i *lineartest.Issue) { i.Description = &text }))
	case "is":
		want := strings.Join(rest[1:], " ")
		waitFor(ts, fmt.Sprintf("%s in %s", rest[0], want), func() (bool, string) {
			i, err := s.Issue(rest[0])
			ts.Check(err)
			return i.State == want, i.State
		})
	case "fail":
		var f lineartest.Failure
		ts.Check(json.Unmarshal([]byte(strings.Join(rest, " ")), &f))
		ts.Check(s.Fail(f))
	case "ok":
		s.ClearFailures()
	case "clear":
		s.ClearLog()
	case "requests":
		if got := len(s.Log()); strconv.Itoa(got) != rest[0] {
			ts.Fatalf("%d requests were made, not %s: %+v", got, rest[0], s.Log())
		}
	default:
		ts.Fatalf("linear: unknown verb %q", verb)
	}
}

func linearAdd(ts *testscript.TestScript, s *lineartest.Server, args []string) error {
	i := lineartest.Issue{Identifier: args[0], Title: "Issue " + args[0], State: "Todo"}
	for _, arg := range args[1:] {
		key, value, named := strings.Cut(arg, "=")
		switch {
		case !named:
			text := describe(ts, s, args[0], arg)
			i.Description = &text
		case key == "state":
			i.State = value
		case key == "title":
			i.Title = value
		case key == "priority":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			i.Priority = n
		case key == "blocked":
			i.BlockedBy = strings.Split(value, ",")
		case key == "labels":
			i.Labels = strings.Split(value, ",")
		case key == "assignee":
			i.Assignee = value
		default:
			return fmt.Errorf("linear add: unknown %q", arg)
		}
	}
	_, err := s.AddIssue(i)
	return err
}

// describe reads a description and puts the mutations in the places of {move STATE}.
func describe(ts *testscript.TestScript, s *lineartest.Server, identifier, file string) string {
	text := ts.ReadFile(file)
	return regexp.MustCompile(`\{move ([^}]*)\}`).ReplaceAllStringFunc(text, func(m string) string {
		id, err := s.StateID("ABC", m[len("{move "):len(m)-1])
		ts.Check(err)
		return fmt.Sprintf(`tool linear_graphql {"query":"mutation { issueUpdate(id: \"%s\", input: {stateId: \"%s\"}) { success } }"}`, identifier, id)
	})
}

func waitFor(ts *testscript.TestScript, what string, ok func() (bool, string)) {
	end := time.Now().Add(bound)
	for {
		done, last := ok()
		if done {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("waited %s in vain for: %s; last: %s", bound, what, last)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// untilCmd repeats a command until its output matches: until PATTERN COMMAND ARG...
func untilCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: until PATTERN COMMAND ARG...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	waitFor(ts, strings.Join(args, " "), func() (bool, string) {
		out := output(ts, args[1:]...)
		return pattern.MatchString(out), out
	})
}

// output runs a command in the script's directory and environment and gives all that it says.
func output(ts *testscript.TestScript, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if path, err := inPath(ts.Getenv("PATH"), args[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = scriptEnv(ts)
	out, _ := cmd.CombinedOutput() // a failing command has said why
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

var scriptVars = []string{
	"PATH", "HOME", "CODEX_HOME", "AGENT", "REAL_CODEX", "STATE", "TMPDIR", "SYMPHONY_STATE_DIR", "LINEAR_API_KEY", "LINEAR_ENDPOINT", "WORK", markName,
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "TESTSCRIPT_COMMAND",
}

func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range scriptVars {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// quietCmd runs passes until nothing is claimed, nothing runs and nothing is waited for: quiet [TICK-FLAG...]
func quietCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! quiet")
	}
	waitFor(ts, "nothing running or waiting", func() (bool, string) {
		out := output(ts, append([]string{"symphony", "tick"}, args...)...)
		still := strings.Contains(out, ": 0 running, 0 waiting")
		acted := strings.Count(strings.TrimSpace(out), "\n") > 0
		return still && !acted, out
	})
}

// signalCmd signals a process by its pid file or number: signal TERM FILE|PID
func signalCmd(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}
	if len(args) != 2 || neg || signals[args[0]] == 0 {
		ts.Fatalf("usage: signal TERM|INT|KILL|STOP|CONT FILE|PID")
	}
	text := args[1]
	if _, err := strconv.Atoi(text); err != nil {
		text = strings.TrimSpace(ts.ReadFile(args[1]))
	}
	pid, err := strconv.Atoi(text)
	ts.Check(err)
	if cmdline := marked(ts.Getenv(markName))[pid]; cmdline == "" {
		ts.Fatalf("process %d is none of this script", pid)
	}
	ts.Check(syscall.Kill(pid, signals[args[0]]))
}

// sqlCmd prints the rows of a query on the script's database, columns separated by tabs: sql QUERY
func sqlCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: sql QUERY")
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(ts.Getenv("STATE"), "state.db")+"?_pragma=busy_timeout(5000)")
	ts.Check(err)
	defer db.Close()
	rows, err := db.Query(args[0])
	ts.Check(err)
	defer rows.Close()
	columns, err := rows.Columns()
	ts.Check(err)
	var out bytes.Buffer
	for rows.Next() {
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(sql.NullString)
		}
		ts.Check(rows.Scan(cells...))
		for i, c := range cells {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(c.(*sql.NullString).String)
		}
		out.WriteByte('\n')
	}
	ts.Check(rows.Err())
	fmt.Fprint(ts.Stdout(), out.String())
}

// noSecretCmd fails where the tracker's key stands in a file below the script's directory: no-secret [EXCEPT...]
func noSecretCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! no-secret")
	}
	secret := []byte(ts.Getenv("LINEAR_API_KEY"))
	ts.Check(filepath.WalkDir(ts.Getenv("WORK"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what a worker has just removed
		}
		for _, except := range args {
			if path == ts.MkAbs(except) {
				return nil
			}
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, secret) {
			return fmt.Errorf("the tracker's key stands in %s", path)
		}
		return nil
	}))
}
