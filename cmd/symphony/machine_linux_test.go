//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/linear/lineartest/linearschema"
)

const (
	// userHome is the home directory in a machine, at a path that every account can reach.
	userHome    = "/run/symtester"
	userProject = userHome + "/web-shop"
)

// machine is a set of namespaces with its own processes, mounts and, optionally, systemd. Its
// user symtester (a name that no real machine has) has the program, a scripted agent and a
// project. It shares the loopback interface with the test's Linear. It ends when its standard
// input is closed, so it can't outlive the test.
type machine struct {
	t      *testing.T
	uid    int
	home   string              // the path of userHome outside
	as     func(string) string // returns a command line that runs a command as the user
	linear *lineartest.Server
	in     io.Writer
	out    *bufio.Reader
}

// serveCommands runs the commands that it reads, each terminated by a zero byte. Each answer
// ends with a zero byte and the exit status.
const serveCommands = `while IFS= read -r -d '' cmd; do timeout 120 bash -c "$cmd" </dev/null 2>&1; printf '\0%d\n' $?; done`

// Each machine's user has a different id, so that a process that a machine leaves can be
// assigned to it.
const (
	systemdUID = 20001 + iota
	systemUnitsUID
	scheduleUserUID
	scheduleSystemUID
	scheduleCronUID
	limitsUID
)

// bootMachine starts a machine with a program that creates the namespaces.
func bootMachine(t *testing.T, uid int, boot ...string) *machine {
	t.Helper()
	m := &machine{
		t:   t,
		uid: uid,
		linear: lineartest.New(lineartest.Config{
			Validate: linearschema.Validate,
			Key:      "lin_api_" + strings.Repeat("secret", 3),
		}),
	}
	m.as = m.asUser
	m.linear.Start()
	t.Cleanup(m.linear.Close)
	m.furnish()

	cmd := exec.Command(boot[0], append(boot[1:], "bash", "-c", serveCommands)...)
	cmd.WaitDelay = test.Patience()
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "PATH="+pathBefore) // the machine has a /tmp of its own
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in := test.Must(cmd.StdinPipe())
	m.in = in
	m.out = bufio.NewReader(test.Must(cmd.StdoutPipe()))
	m.must(cmd.Start())
	t.Cleanup(func() {
		in.Close()
		// it cleans up on SIGTERM
		end := time.AfterFunc(test.Patience(), func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
		defer end.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", boot[0], err, stderr.String())
		}
		// The kernel ends them after the machine's first process.
		test.Until(t, "the end of the machine's processes", func() bool { return len(processesOf(uid)) == 0 })
	})

	// The user exists only in the machine.
	m.mustSh(fmt.Sprintf(`set -e
		mkdir %[1]s; mount --bind '%[2]s' %[1]s
		{ cat /etc/passwd; echo 'symtester:*:%[3]d:%[3]d::%[1]s:/bin/bash'; } > /run/passwd
		mount --bind /run/passwd /etc/passwd`, userHome, m.home, uid))
	return m
}

// furnish creates the user's home, outside /tmp and /var/tmp, which a machine may hide.
func (m *machine) furnish() {
	m.t.Helper()
	above := test.Must(os.UserCacheDir())
	if paths.Inside("/tmp", above) || paths.Inside("/var/tmp", above) {
		above = "/srv"
	}
	m.must(os.MkdirAll(above, 0o700))
	m.home = test.Must(os.MkdirTemp(above, "symphony-machine-"))
	m.t.Cleanup(func() { m.must(os.RemoveAll(m.home)) })
	m.write("codex-home/config.toml", "")
	m.write("bin/symphony", string(test.Must(os.ReadFile(builtProgram(m.t, "")))))
	m.write("bin/fake-codex", string(test.Must(os.ReadFile(test.Must(exec.LookPath("fake-codex"))))))
	m.project("web-shop")
}

// project writes a workflow.
func (m *machine) project(name string) {
	m.t.Helper()
	m.write(name+"/WORKFLOW.md", fmt.Sprintf(made("machine.md"), m.linear.Endpoint(), userHome))
}

// write writes a file of the user.
func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.home, name)
	m.must(os.MkdirAll(filepath.Dir(path), 0o755))
	m.must(os.WriteFile(path, []byte(text), modeOf(path)))
	for ; strings.HasPrefix(path, m.home); path = filepath.Dir(path) {
		m.must(os.Lchown(path, m.uid, m.uid))
	}
}

// key writes the key to the environment file that check names.
func (m *machine) key() {
	m.t.Helper()
	m.mustSh(
		m.as(
			fmt.Sprintf(
				"umask 077; mkdir -p ~/.config/symphony; echo LINEAR_API_KEY=%s > %s",
				m.linear.Key(),
				m.envFile("web-shop"),
			),
		),
	)
}

func (m *machine) envFile(project string) string {
	m.t.Helper()
	return between(
		m.t,
		m.mustSh(m.as("bin/symphony check -w "+project+"/WORKFLOW.md"))+"\n",
		"its environment file is ",
		"\n",
	)
}

func (m *machine) must(err error) {
	m.t.Helper()
	test.OK(m.t, err)
}

// sh runs a command as root.
func (m *machine) sh(command string) (string, int) {
	m.t.Helper()
	if _, err := io.WriteString(m.in, command+"\x00"); err != nil {
		m.t.Fatalf("send a command to the machine: %v", err)
	}
	said, err := m.out.ReadString(0)
	if err != nil {
		m.t.Fatalf("the machine ended during %q: %v\n%s", command, err, said)
	}
	code := test.Must(strconv.Atoi(strings.TrimSpace(test.Must(m.out.ReadString('\n')))))
	return strings.TrimSpace(strings.TrimSuffix(said, "\x00")), code
}

func (m *machine) mustSh(command string) string {
	m.t.Helper()
	said, code := m.sh(command)
	if code != 0 {
		m.t.Fatalf("%s\nexit status %d\n%s", command, code, said)
	}
	return said
}

// asUser returns a command line that runs a command as the user, in the home directory and
// without root's environment.
func (m *machine) asUser(command string) string {
	return fmt.Sprintf(
		"cd %s && exec setpriv --reuid %[2]d --regid %[2]d --clear-groups env -i HOME=%[1]s "+
			"LOGNAME=symtester PATH=/usr/bin:/bin XDG_RUNTIME_DIR=/run/user/%[2]d bash -c '%[3]s'",
		userHome,
		m.uid,
		strings.ReplaceAll(command, "'", `'\''`),
	)
}

// until waits for a condition. If it is not met, the test fails with the last state that ok
// returned.
func (m *machine) until(what string, ok func() (bool, string)) {
	m.t.Helper()
	for end := time.Now().Add(test.Patience()); ; time.Sleep(50 * time.Millisecond) {
		good, seen := ok()
		if good {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf(
				"after %[2]v still not: %[1]s; last:\n%[3]s\n%[4]s",
				what,
				test.Patience(),
				seen,
				m.story(),
			)
		}
	}
}

// story describes the state of the machine for the message of a failed test.
func (m *machine) story() string {
	said, _ := m.sh(
		m.as(
			"bin/symphony ps --all -w web-shop/WORKFLOW.md; tail -n 20 cron.log " +
				".local/state/symphony/*/runs/*/worker.log; cd /; ps -ef | tail -n 30",
		),
	)
	return said
}

// ps returns the output of ps; false before the first pass.
func (m *machine) ps() (v view.Overview, ok bool) {
	m.t.Helper()
	said, code := m.sh(m.as("bin/symphony ps --all --json -w web-shop/WORKFLOW.md"))
	if code != 0 {
		return v, false
	}
	m.must(json.Unmarshal([]byte(said), &v))
	return v, v.LastPass != nil
}

// outcomes lists the outcomes of an issue's runs, newest first.
func outcomes(v view.Overview, identifier string) string {
	var list []string
	for _, run := range v.Ended {
		if run.Identifier == identifier {
			list = append(list, string(*run.Outcome))
		}
	}
	return strings.Join(list, " ")
}

// add creates an issue. Its agent waits for the gate, unless that is empty, and hands the
// issue over.
func (m *machine) add(identifier, gate string) {
	m.t.Helper()
	work := "sh echo " + identifier + " > work.txt"
	if gate != "" {
		work = "{gate " + gate + "}"
	}
	text := test.Must(
		agentScript(linearTracker{m.linear}, identifier, userHome, work+"\n{move Human Review}"),
	)
	test.Must(m.linear.AddIssue(lineartest.Issue{
		Identifier:  identifier,
		Title:       "Issue " + identifier,
		State:       "Todo",
		Description: &text,
	}))
}

func (m *machine) handedOver(identifier string) {
	m.t.Helper()
	m.until(identifier+" is handed over", func() (bool, string) {
		state := test.Must(m.linear.Issue(identifier)).State
		return state == "Human Review", state
	})
}

// finish lets the agent that waits for the gate hand its issue over.
func (m *machine) finish(identifier, gate string) {
	m.t.Helper()
	m.must(os.WriteFile(filepath.Join(m.home, gate), nil, 0o644))
	m.handedOver(identifier)
}

// machineWorker is a worker whose agent runs a command that waits for a gate.
type machineWorker struct {
	run, thread string
	attempt     int
	pid         int
	startTime   string
	command     int // the pid of the command that waits for the gate
}

func (m *machine) atWork(identifier, gate string) (w machineWorker) {
	m.t.Helper()
	m.until(identifier+"'s agent is at work", func() (bool, string) {
		v, _ := m.ps()
		for _, r := range v.Running {
			if r.Identifier == identifier && r.Alive && r.PID != nil {
				w = machineWorker{run: r.RunID, attempt: r.Attempt, pid: *r.PID}
			}
		}
		if w.run == "" {
			return false, fmt.Sprintf("%+v", v)
		}
		said, code := m.sh("pgrep -o -u " + strconv.Itoa(m.uid) + " -f -- '-e [^ ]*/" + gate + ". '")
		w.command, _ = strconv.Atoi(said)
		return code == 0, "no command is waiting for " + gate
	})
	w.startTime = m.startTime(w.pid)
	if w.startTime == "" {
		m.t.Fatalf("%s's worker %d has ended", identifier, w.pid)
	}
	return w
}

// startTime returns the start time of a process, "" if it has ended. With the pid it
// identifies the process.
func (m *machine) startTime(pid int) string {
	m.t.Helper()
	said, code := m.sh(fmt.Sprintf("cut -d' ' -f22 /proc/%d/stat", pid))
	if code != 0 {
		return ""
	}
	return said
}

// ended waits for the end of a worker.
func (m *machine) ended(w machineWorker) {
	m.t.Helper()
	m.until(w.run+"'s worker has ended", func() (bool, string) { return m.startTime(w.pid) == "", "" })
}

// lives fails unless the same worker is still alive and ps shows it.
func (m *machine) lives(w machineWorker, after string) {
	m.t.Helper()
	if got := m.startTime(w.pid); got != w.startTime {
		m.t.Fatalf(
			"after %s worker %d, started at %s, has ended (%q)\n%s",
			after,
			w.pid,
			w.startTime,
			got,
			m.story(),
		)
	}
	v, _ := m.ps()
	if !slices.ContainsFunc(
		v.Running,
		func(r view.RunningRow) bool { return r.RunID == w.run && r.PID != nil && *r.PID == w.pid && r.Alive },
	) {
		m.t.Fatalf("after %s ps prints %+v; want run %s alive", after, v.Running, w.run)
	}
}

// cgroup returns the control group of a process.
func (m *machine) cgroup(pid int) string {
	m.t.Helper()
	said, _ := m.sh(fmt.Sprintf("sed -n 's/^0:://p' /proc/%d/cgroup", pid))
	return said
}

// userManager is the control group of the user's systemd.
func (m *machine) userManager() string { return fmt.Sprintf("/user@%d.service", m.uid) }

// inScope fails unless worker, agent and command are in the scope of the run, below the given
// path.
func (m *machine) inScope(w machineWorker, below string) {
	m.t.Helper()
	scope := below + "/symphony.slice/symphony-" + w.run + ".scope"
	agent := test.Must(strconv.Atoi(m.mustSh(fmt.Sprintf("pgrep -P %d -f app-server", w.pid))))
	for _, pid := range []int{w.pid, agent, w.command} {
		if got := m.cgroup(pid); !strings.HasSuffix(got, scope) {
			m.t.Errorf("process %d is in the control group %q, want …%s\n%s", pid, got, scope,
				m.mustSh(fmt.Sprint("systemd-cgls --no-pager -u symphony.slice 2>&1; ps -fp ", pid)))
		}
	}
}

// released waits until there are no claims.
func (m *machine) released() {
	m.t.Helper()
	m.until("the claims are released", func() (bool, string) {
		v, ok := m.ps()
		return ok && len(v.Running)+len(v.Retrying)+len(v.Held) == 0, fmt.Sprintf("%+v", v)
	})
}

// calm waits until there are no claims, workers and passes.
func (m *machine) calm() {
	m.t.Helper()
	m.released()
	m.until("no process of symphony is left", func() (bool, string) {
		said, code := m.sh(
			fmt.Sprintf("pgrep -u %d -a | grep -v -e ' /lib/systemd/systemd --user' -e ' (sd-pam)'", m.uid),
		)
		return code != 0, said
	})
}

// processesOf lists the processes of a user id, seen from outside the machines.
func processesOf(uid int) (list []string) {
	dirs := test.Must(filepath.Glob("/proc/[0-9]*"))
	for _, dir := range dirs {
		status, _ := os.ReadFile(filepath.Join(dir, "status")) // the process may have just ended
		if strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", uid)) {
			name, _, _ := strings.Cut(string(status), "\n")
			list = append(list, filepath.Base(dir)+" "+name)
		}
	}
	return list
}
