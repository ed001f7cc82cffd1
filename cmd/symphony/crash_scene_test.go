//go:build linux

package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

const (
	crashStep = 120 * time.Millisecond // between two polls or passes
	crashIdle = 600 * time.Millisecond // between two passes while a worker is alive
	crashSlow = 200 * time.Millisecond // the duration of after_create, long enough to die in it
)

// crashScene is one project in which one process dies at one point.
type crashScene struct {
	crashScenario
	t       *testing.T
	dir     string
	mark    string
	program string
	env     []string
	linear  *lineartest.Server
	github  *githubtest.Server // of the scenarios with a delivery
	// where to die: ROLE:NAME[#N]; empty: nowhere, but log the points that are reached
	point  string
	armed  bool // passes may die, too
	orders int  // the operator's commands that were stored
	// how often the workflow was changed: a pass then stores a command, and again if it dies
	// at once
	edits int
}

func newCrashScene(t *testing.T, program string, s crashScenario, point string) *crashScene {
	t.Helper()
	c := &crashScene{
		crashScenario: s,
		t:             t,
		program:       program,
		point:         point,
		mark:          fmt.Sprintf("crash-%d-%d", os.Getpid(), time.Now().UnixNano()),
	}
	// t.TempDir would make a path that is too long for sockets.
	c.dir = test.Must(filepath.EvalSymlinks(test.Must(os.MkdirTemp("", "crash-"))))
	t.Cleanup(func() { c.must(os.RemoveAll(c.dir)) })
	for _, name := range []string{"home", "codex-home", "tmp", "ledger"} {
		c.must(os.Mkdir(c.path(name), 0o700))
	}
	c.linear = lineartest.New(lineartest.Config{
		Validate: linearschema.Validate,
		Key:      "lin_api_" + strings.Repeat("secret", 3),
	})
	c.linear.Start()
	t.Cleanup(c.linear.Close)
	t.Cleanup(c.sweep)
	c.env = []string{
		"PATH=" + os.Getenv(
			"PATH",
		), "HOME=" + c.path("home"), "TMPDIR=" + c.path("tmp"), markName + "=" + c.mark,
		"SYMPHONY_STATE_DIR=" + c.path("state"), "LINEAR_API_KEY=" + c.linear.Key(),
		"SYMPHONY_MAX_AGENTS=1", // a slot that is not freed would block everything that follows
	}
	c.write("witness", fmt.Sprintf(made("witness.sh"), c.dir, crashSlow.Seconds()), 0o700)
	c.write(
		"WORKFLOW.md",
		fmt.Sprintf(made("crash.md"), c.linear.Endpoint(), c.dir, test.Must(exec.LookPath("fake-codex"))),
		0o600,
	)
	test.Must(c.linear.AddIssue(lineartest.Issue{
		Identifier:  "ABC-1",
		Title:       "Issue ABC-1",
		State:       "Todo",
		Description: c.agent(s.issue),
	}))
	return c
}

// sweep kills the processes that a failed scenario has left.
func (c *crashScene) sweep() {
	test.Until(c.t, "the end of all processes", func() bool {
		left := c.processes()
		for pid, cmdline := range left {
			c.t.Errorf("left behind: %d %s", pid, cmdline)
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
		return len(left) == 0
	})
}

func (c *crashScene) must(err error) {
	c.t.Helper()
	test.OK(c.t, err)
}

func (c *crashScene) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *crashScene) glob(elem ...string) []string { return test.Must(filepath.Glob(c.path(elem...))) }

func (c *crashScene) write(name, text string, mode os.FileMode) {
	c.t.Helper()
	c.must(os.WriteFile(c.path(name), []byte(text), mode))
}

func (c *crashScene) exists(elem ...string) bool {
	_, err := os.Lstat(c.path(elem...))
	return err == nil
}

// useHost makes agents work on a host, whose workspaces are where this machine's would be.
func (c *crashScene) useHost() {
	c.t.Helper()
	c.write("hosts.sh", made("hosts.sh"), 0o600)
	setup := exec.Command("sh", "-e", "hosts.sh")
	setup.Dir = c.dir
	setup.Env = append(c.env, "WORK="+c.dir)
	test.Run(c.t, setup)
	c.env = append(c.env, "PATH="+c.path("bin")+":"+os.Getenv("PATH"))
	text := string(test.Must(os.ReadFile(c.path("WORKFLOW.md"))))
	text = strings.Replace(text, "  min_free_bytes: 0\n", "", 1) // it has no effect
	c.write(
		"WORKFLOW.md",
		strings.Replace(
			text,
			"hooks:\n",
			"worker:\n  ssh_hosts: [near]\n  root: "+c.path("ws")+"\nhooks:\n",
			1,
		),
		0o600,
	)
}

// agent makes an issue description with a script for the agent.
func (c *crashScene) agent(script string) *string {
	text := test.Must(agentScript(linearTracker{c.linear}, "ABC-1", c.dir, script))
	return &text
}

// arm lets passes die from here on. Workers may die from the beginning, unless the scenario is
// late.
func (c *crashScene) arm() { c.armed = true }

// died reports whether the process has died at the point.
func (c *crashScene) died() bool { return c.point != "" && c.exists("died") }

// environ is the environment of the next command. After the death it no longer names the
// point.
func (c *crashScene) environ() []string {
	variables := []string{"SYMPHONY_CRASH_AT=" + c.point, "SYMPHONY_CRASH_LOG=" + c.path("died")}
	switch {
	case c.late && !c.armed:
		return c.env
	case c.point == "" && c.armed:
		variables = []string{"SYMPHONY_CRASH_LOG=" + c.path("visits")}
	case c.point == "":
		variables = []string{"SYMPHONY_CRASH_LOG=" + c.path("visits.before")}
	case c.died() || !c.armed && strings.HasPrefix(c.point, "pass:"):
		return c.env
	case c.stands:
		variables = append(variables, "SYMPHONY_CRASH_STOP=1")
	}
	return slices.Concat(c.env, variables)
}

// visited lists the points that the scenario reached: those of all workers, and those of
// passes once they were armed.
func (c *crashScene) visited() (list []crashPlace) {
	count := map[[3]string]int{}
	for _, file := range []string{"visits.before", "visits"} {
		data, err := os.ReadFile(c.path(file))
		if err != nil && (file == "visits" || !errors.Is(err, os.ErrNotExist)) {
			c.t.Error(err)
		}
		for line := range strings.Lines(string(data)) {
			point, pid, _ := strings.Cut(strings.TrimSpace(line), " ")
			role, name, _ := strings.Cut(point, ":")
			if role == "worker" || file == "visits" {
				count[[3]string{role, name, pid}]++
			}
		}
	}
	for key, n := range count {
		at := slices.IndexFunc(list, func(p crashPlace) bool { return p.role == key[0] && p.name == key[1] })
		if at < 0 {
			list = append(list, crashPlace{role: key[0], name: key[1]})
			at = len(list) - 1
		}
		list[at].visits = max(list[at].visits, n)
	}
	slices.SortFunc(list, func(a, b crashPlace) int { return strings.Compare(a.role+a.name, b.role+b.name) })
	return list
}

// symphony runs the program, which must exit with 0 or a code that the scenario allows, or die
// at the point. A command may fail if a worker dies during it.
func (c *crashScene) symphony(args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = c.environ()
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &out
	already := c.died()
	err := cmd.Run()
	code := cmd.ProcessState.ExitCode()
	diedNow := !already && c.died()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case err == nil || slices.Contains(c.exits, code):
	case diedNow && (code == 1 || status.Signaled() && status.Signal() == syscall.SIGKILL):
	default:
		c.t.Errorf("symphony %s: %v\n%s", strings.Join(args, " "), err, &out)
	}
	if strings.Contains(out.String(), c.linear.Key()) || strings.Contains(out.String(), "panic:") {
		c.t.Errorf("symphony %s prints a secret or a panic:\n%s", strings.Join(args, " "), &out)
	}
	return out.String()
}

func (c *crashScene) pass() string { return c.symphony("tick", "-v", "--lock-timeout", "10s") }

// passes runs passes until the condition is met.
func (c *crashScene) passes(what string, until func() bool) {
	c.t.Helper()
	out := ""
	last := time.Time{}
	c.waitFor(what, func() bool {
		// While a worker is alive most passes have nothing to do.
		if time.Since(last) > crashIdle || !c.working() {
			out += c.pass()
			last = time.Now()
		}
		return until()
	}, &out)
}

// working reports whether a worker is alive.
func (c *crashScene) working() bool {
	runs, _ := os.ReadDir(c.path("state", "runs")) // none yet
	return slices.ContainsFunc(
		runs,
		func(run os.DirEntry) bool { return wiring.Alive(c.path("state"), run.Name()) },
	)
}

func (c *crashScene) waitFor(what string, until func() bool, out *string) {
	c.t.Helper()
	for end := time.Now().Add(test.Patience()); !until(); time.Sleep(crashStep) {
		if c.t.Failed() || time.Now().After(end) {
			text := ""
			if out != nil {
				text = (*out)[max(0, len(*out)-1500):]
			}
			c.t.Fatalf(
				"given up waiting until: %s\n%s\nprocesses: %v\n%s",
				what,
				c.dump(),
				c.processes(),
				text,
			)
		}
	}
}

// dump describes the state for the message of a failed test.
func (c *crashScene) dump() string {
	ledger, _ := os.ReadFile(c.path("ledger", "log"))
	runs := c.query(
		`SELECT id || ' ' || kind || ' ' || attempt || ' ' || phase || ' ' || coalesce(outcome, '-') || ' ' || error_code || ' ' || settled FROM runs`,
	)
	claims := c.query(
		`SELECT identifier || ' ' || status || ' ' || kind || ' ' || attempt || ' ' || error_code || ' ' || hold_reason FROM claims`,
	)
	issue, _ := c.linear.Issue("ABC-1")
	return fmt.Sprintf(
		"issue in %s\nruns:\n%s\nclaims:\n%s\nledger:\n%s",
		issue.State,
		strings.Join(runs, "\n"),
		strings.Join(claims, "\n"),
		ledger,
	)
}

// order runs an operator's command, and repeats it if the first was killed before the command
// was stored. A stored command must not need that.
func (c *crashScene) order(args ...string) {
	c.t.Helper()
	c.orders++
	kept := func() int {
		return c.number(`SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'commands'`)
	}
	before := kept()
	dead := c.died()
	c.symphony(args...)
	if kept() == before {
		if dead || !c.died() {
			c.t.Errorf("symphony %s was not stored", strings.Join(args, " "))
		}
		c.symphony(args...)
	}
}

// query returns the rows of a query with one column; none if there is no database yet.
func (c *crashScene) query(text string) []string {
	c.t.Helper()
	if !c.exists("state", "state.db") {
		return nil
	}
	out := test.Must(query(c.path("state"), text))
	return slices.DeleteFunc(strings.Split(out, "\n"), func(row string) bool { return row == "" })
}

func (c *crashScene) number(text string) (n int) {
	c.t.Helper()
	if list := c.query(text); len(list) > 0 {
		test.Must(fmt.Sscan(list[0], &n))
	}
	return n
}

func (c *crashScene) claim() string {
	return strings.Join(
		c.query(`SELECT trim(status || ' ' || hold_reason) FROM claims WHERE identifier = 'ABC-1'`),
		" ",
	)
}

func (c *crashScene) state() string {
	issue := test.Must(c.linear.Issue("ABC-1"))
	return issue.State
}

// streaming reports whether a run has an agent that is working.
func (c *crashScene) streaming() bool {
	return c.number(
		`SELECT count(*) FROM runs WHERE phase = 'streaming_turn' AND outcome IS NULL AND turns > 0`,
	) > 0
}

func (c *crashScene) move(state string) {
	c.t.Helper()
	c.must(c.linear.Move("ABC-1", state))
}

// processes lists the processes of this scene.
func (c *crashScene) processes() map[int]string { return marked(c.mark, c.dir) }

// kill signals the live worker; it returns false if there is none.
func (c *crashScene) kill(sig syscall.Signal) bool {
	for pid, cmdline := range c.processes() {
		if strings.HasPrefix(cmdline, "symphony worker ") {
			if err := syscall.Kill(pid, sig); err == nil {
				return true
			}
		}
	}
	return false
}

// stopWorker stops the worker while it does not write to the database. TestFrozenInAWrite
// covers the other case.
func (c *crashScene) stopWorker() bool {
	c.t.Helper()
	db := test.Must(
		sql.Open(
			"sqlite",
			"file:"+c.path("state", "state.db")+"?mode=rw&_txlock=immediate&_pragma=busy_timeout(10000)",
		),
	)
	defer db.Close()
	turn := test.Must(db.Begin())
	stopped := c.kill(syscall.SIGSTOP)
	c.must(turn.Rollback())
	return stopped
}

// quiet runs passes until nothing is left to do.
func (c *crashScene) quiet() {
	c.t.Helper()
	later := false
	c.passes("nothing is left to do and no process is alive", func() bool {
		if c.state() != c.ends || c.number(`SELECT (SELECT count(*) FROM runs WHERE settled = 0)
			+ (SELECT count(*) FROM commands) + (SELECT count(*) FROM claims)`) > 0 || len(c.processes()) > 0 {
			return false
		}
		if !later {
			// The next pass resumes interrupted removals.
			c.query(`UPDATE meta SET value = '0' WHERE key = 'last_sweep'`)
			later = true
			return false
		}
		return true
	})
}

// play plays the scenario to its end and checks what is left.
func (c *crashScene) play() {
	c.t.Helper()
	c.crashScenario.play(c)
	c.quiet()
	if out := c.pass(); c.died() == (c.point != "") &&
		(!idlePass.MatchString(out) || strings.Count(strings.TrimSpace(out), "\n") > 0) {
		c.t.Errorf("the pass after the end has actions:\n%s", out)
	}
	c.check()
	if c.t.Failed() || c.point == "" {
		c.t.Log(c.dump())
	}
}
