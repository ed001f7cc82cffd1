package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state/statetest"
)

// clockVar names a file with the offset of the wall clock. The monotonic clock is unchanged,
// as when the clock is set or the machine was suspended.
const clockVar = "SYMPHONY_TEST_CLOCK"

// stepped returns the wall clock whose offset, or time at which it stands, is in a file.
// Without the file it is the real one.
func stepped(path string) func() time.Time {
	return func() time.Time {
		now := time.Now()
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return now
		}
		if err != nil {
			panic(err)
		}
		if fixed, err := time.Parse(time.RFC3339, string(text)); err == nil {
			return fixed
		}
		return now.Add(test.Must(time.ParseDuration(string(text))))
	}
}

// uptimeVar names a file that changes the clock which goes on while a machine is suspended: a factor such
// as 4 makes it faster, and a duration such as 27h is added. With "4 1h" both happen.
const uptimeVar = "SYMPHONY_TEST_UPTIME"

// sinceBoot returns the time since the boot with the change in a file, even while the program runs.
func sinceBoot(path string) func() time.Duration {
	return func() time.Duration {
		text, err := os.ReadFile(path)
		if err != nil {
			return proc.SinceBoot()
		}
		since := proc.SinceBoot()
		for _, word := range strings.Fields(string(text)) {
			if factor, err := strconv.Atoi(word); err == nil {
				since *= time.Duration(factor)
			} else {
				since += test.Must(time.ParseDuration(word))
			}
		}
		return since
	}
}

// machineCmd goes on with the script on another machine, which has a state directory, a login and a
// clone of the workflow of its own, in the folder of its name. With a duration, so much time has passed
// there since the script began: machine NAME [DURATION]
func machineCmd(ts *testscript.TestScript, neg bool, args []string) {
	dir := filepath.Join(ts.Getenv("WORK"), args[0])
	workflow := filepath.Join(dir, "WORKFLOW.md")
	if _, err := os.Stat(workflow); errors.Is(err, fs.ErrNotExist) {
		text := ts.ReadFile("WORKFLOW.md")
		ts.Check(os.MkdirAll(dir, 0o700))
		ts.Check(os.WriteFile(workflow, []byte(text), 0o600))
	}
	ts.Check(ts.Chdir(dir))
	setVar(ts, "SYMPHONY_MACHINE", args[0])
	setVar(ts, "SYMPHONY_STATE_DIR", filepath.Join(dir, "state"))
	setVar(ts, "STATE", filepath.Join(dir, "state"))
	setVar(ts, "XDG_STATE_HOME", filepath.Join(dir, "home"))
	uptime := filepath.Join(dir, "uptime")
	setVar(ts, uptimeVar, uptime)
	if len(args) > 1 {
		ts.Check(os.WriteFile(uptime, []byte(args[1]), 0o600))
	}
}

// clockCmd sets the offset of the wall clock from the real one, or stops it at a time: clock
// DURATION|TIME
func clockCmd(ts *testscript.TestScript, neg bool, args []string) {
	stop, err := time.Parse(time.RFC3339, args[0])
	if err != nil {
		_, err = time.ParseDuration(args[0])
		ts.Check(err)
	}
	stageOf(ts).linear.StopClock(stop)
	path := ts.Getenv(clockVar)
	ts.Check(os.WriteFile(path+".new", []byte(args[0]), 0o600))
	ts.Check(os.Rename(path+".new", path))
}

// otherLinearCmd switches the command linear between the first and a second Linear workspace,
// which is at $OTHER_ENDPOINT with the key $OTHER_KEY: other-linear
func otherLinearCmd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	if s.other == nil {
		s.other = lineartest.New(lineartest.Config{
			Validate: linearschema.Validate,
			Key:      "lin_api_" + strings.Repeat("stranger", 3),
		})
		s.other.Start()
		ts.Defer(s.other.Close)
		setVar(ts, "OTHER_ENDPOINT", s.other.Endpoint())
		setVar(ts, "OTHER_KEY", s.other.Key())
	}
	s.linear, s.other = s.other, s.linear
}

// pidofCmd sets NAME and NAME_START to the pid and start time of the script's only process
// whose command line matches: pidof NAME PATTERN
func pidofCmd(ts *testscript.TestScript, neg bool, args []string) {
	pids, cmdlines := matching(ts, args[1])
	pids = withoutForks(pids, cmdlines)
	if len(pids) != 1 {
		ts.Fatalf("not exactly one process matches %s: %v %q", args[1], pids, cmdlines)
	}
	setVar(ts, args[0], strconv.Itoa(pids[0]))
	stat := ts.ReadFile("/proc/" + strconv.Itoa(pids[0]) + "/stat")
	setVar(ts, args[0]+"_START", strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])[22-3])
}

// recordedCmd records a process as the worker, and as a child, of the oldest run without an
// outcome, as if the kernel had reused the worker's pid: recorded PID START, or recorded FILE,
// which contains both
func recordedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 1 {
		args = strings.Fields(ts.ReadFile(args[0]))
	}
	db, err := sql.Open(
		"sqlite",
		"file:"+filepath.Join(ts.Getenv("STATE"), "state.db")+"?_pragma=busy_timeout(5000)",
	)
	ts.Check(err)
	defer db.Close()
	var id string
	ts.Check(
		db.QueryRow("UPDATE runs SET worker_pid = ?, worker_start = ? WHERE id = (SELECT min(id) FROM "+
			"runs WHERE outcome IS NULL) RETURNING id",
			args[0], args[1]).
			Scan(&id),
	)
	procs := filepath.Join(host.RunDir(ts.Getenv("STATE"), id), "procs")
	text := ts.ReadFile(procs)
	ts.Check(os.WriteFile(procs, []byte(text+args[0]+" "+args[1]+" \"stranger\"\n"), 0o600))
}

// canUnshare reports whether this process may create namespaces: a container or an ordinary
// user often may not.
func canUnshare() bool {
	return exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").Run() == nil
}

// largeStateCmd creates a state of 500 claims, 5,000 ended runs and a month of passes:
// large-state
func largeStateCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(statetest.Large(context.Background(), ts.Getenv("STATE"), time.Now(), statetest.Large500))
}

// typedLine matches a command in a console block of a document.
var typedLine = regexp.MustCompile(`(?m)^\$ (.+)$`)

// questionCommands returns the headings of docs/questions.md and the commands below each.
func questionCommands() (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(moduleRoot, "docs", "questions.md"))
	commands := map[string]string{}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		heading, rest, _ := strings.Cut(section, "\n")
		for _, m := range typedLine.FindAllStringSubmatch(rest, -1) {
			commands[heading] += m[1] + "\n"
		}
	}
	return commands, err
}

// shownCmd writes the code blocks below a heading of a document, each into its file: shown
// DOCUMENT HEADING FILE [FILE...]
func shownCmd(ts *testscript.TestScript, neg bool, args []string) {
	text, err := os.ReadFile(filepath.Join(moduleRoot, args[0]))
	ts.Check(err)
	_, section, _ := strings.Cut(string(text), "\n## "+args[1]+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := fencedBlocks(section)
	if len(blocks) != len(args)-2 {
		ts.Fatalf("%s has %d blocks below %q, not %d", args[0], len(blocks), args[1], len(args)-2)
	}
	for i, name := range args[2:] {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(blocks[i]), 0o600))
	}
}

// freePortCmd sets a variable to a port at which nothing listens: free-port NAME
func freePortCmd(ts *testscript.TestScript, neg bool, args []string) {
	setVar(ts, args[0], freePorts(1)[0])
}

// questionCmd runs the commands below a heading of docs/questions.md in $PASTED_INTO, bash or
// zsh; each must exit with 0. With later it only writes them to question.sh. `question all` fails unless the script has
// used every heading.
//
//	question HEADING [later] | question all
func questionCmd(ts *testscript.TestScript, neg bool, args []string) {
	commands, err := questionCommands()
	ts.Check(err)
	s := stageOf(ts)
	if args[0] == "all" {
		for heading := range commands {
			if !slices.Contains(s.asked, heading) {
				ts.Fatalf("the script does not run the command of %q", heading)
			}
		}
		return
	}
	if commands[args[0]] == "" {
		ts.Fatalf("docs/questions.md has no command for %q", args[0])
	}
	s.asked = append(s.asked, args[0])
	ts.Check(os.WriteFile(ts.MkAbs("question.sh"), []byte(commands[args[0]]), 0o600))
	if len(args) == 1 {
		exitsCmd(ts, false, []string{"0", ts.Getenv("PASTED_INTO"), "-e", "question.sh"})
	}
}

// multiplexer is a real terminal for one script: a tmux server with one window, in which a
// shell runs.
type multiplexer struct {
	socket string
	pid    int
	env    []string
}

// hasTmux is the condition [tmux].
func hasTmux() bool {
	_, err := exec.LookPath("tmux")
	return err == nil
}

// tmuxCmd controls a real terminal, in which an interactive bash runs:
//
//	tmux start COLUMNS ROWS    its prompt is "$ "
//	tmux type TEXT             types a line
//	tmux key KEY...            presses keys by tmux's names: q, C-c, C-z
//	tmux size COLUMNS ROWS     resizes the window
//	tmux until PATTERN         waits until the screen matches, with (?m); the screen is then in stdout
//	tmux end                   ends it, otherwise the end of the script does
func tmuxCmd(ts *testscript.TestScript, neg bool, args []string) {
	if args[0] == "start" && len(args) == 3 {
		m, err := startTmux(ts.Getenv("WORK"), append(scriptEnv(ts), "LC_ALL=C.UTF-8"), args[1], args[2])
		ts.Check(err)
		ts.Defer(func() { m.end(ts) })
		stageOf(ts).terminal = m
		m.wait(ts, `\A\$`)
		return
	}
	m := stageOf(ts).terminal
	if m == nil {
		ts.Fatalf("tmux: use tmux start first")
	}
	verb := args[0]
	rest := args[1:]
	switch {
	case verb == "type" && len(rest) == 1:
		ts.Check(errors.Join(m.do("send-keys", "-l", rest[0]), m.do("send-keys", "Enter")))
	case verb == "key" && len(rest) > 0:
		ts.Check(m.do(append([]string{"send-keys"}, rest...)...))
	case verb == "size" && len(rest) == 2:
		ts.Check(m.do("resize-window", "-x", rest[0], "-y", rest[1]))
	case verb == "until" && len(rest) == 1:
		fmt.Fprint(ts.Stdout(), m.wait(ts, rest[0]))
	case verb == "end" && len(rest) == 0:
		m.end(ts)
	default:
		ts.Fatalf("tmux: unknown %q", strings.Join(args, " "))
	}
}

// startTmux starts a server. Its socket is in a new folder, because the path of a script's
// directory may be too long for a socket.
func startTmux(dir string, env []string, columns, rows string) (*multiplexer, error) {
	short, err := os.MkdirTemp("", "tmux-")
	if err != nil {
		return nil, err
	}
	m := &multiplexer{
		socket: filepath.Join(short, "s"),
		env:    append(env, "PS1=$ ", "HISTFILE=", "SHELL=/bin/sh"),
	}
	out, err := m.run(
		"-f",
		"/dev/null",
		"new-session",
		"-d",
		"-P",
		"-F",
		"#{pid}",
		"-c",
		dir,
		"-x",
		columns,
		"-y",
		rows,
		"bash --noprofile --norc -i",
	)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(short))
	}
	m.pid, err = strconv.Atoi(strings.TrimSpace(out))
	return m, err
}

func (m *multiplexer) do(args ...string) error {
	_, err := m.run(args...)
	return err
}

func (m *multiplexer) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", m.socket}, args...)...)
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

// shown returns the present content of the window, without trailing blanks.
func (m *multiplexer) shown(options ...string) (string, error) {
	return m.run(append([]string{"capture-pane", "-p"}, options...)...)
}

// wait waits until the text shown matches, and returns it.
func (m *multiplexer) wait(ts *testscript.TestScript, pattern string) (text string) {
	matches := regexp.MustCompile("(?m)" + pattern).MatchString
	waitFor(ts, "the terminal to show "+pattern, func() (bool, string) {
		var err error
		text, err = m.shown()
		ts.Check(err)
		return matches(text), text
	})
	return text
}

// end ends the server with its shell and the shell's processes. A second call does nothing.
func (m *multiplexer) end(ts *testscript.TestScript) {
	if m.pid == 0 {
		return
	}
	if err := syscall.Kill(m.pid, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
		ts.Check(err)
	}
	waitFor(ts, "the end of tmux", func() (bool, string) { return syscall.Kill(m.pid, 0) != nil, "" })
	m.pid = 0
	ts.Check(os.RemoveAll(filepath.Dir(m.socket)))
}

// pressCmd presses a key in the terminal of tmux repeatedly until the text shown matches,
// because a program that has just shown a question may not read its input yet: press KEY
// PATTERN
func pressCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := stageOf(ts).terminal
	pattern := regexp.MustCompile("(?m)" + args[1])
	waitFor(ts, "the terminal to show "+args[1], func() (bool, string) {
		text, err := m.shown("-S", "-")
		ts.Check(err)
		if pattern.MatchString(text) {
			fmt.Fprint(ts.Stdout(), text)
			return true, ""
		}
		ts.Check(m.do("send-keys", args[0]))
		return false, text
	})
}
