//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

const (
	// machineBound ends a machine that its test does not end; cron may use a minute of it until its first job.
	machineBound = 110 * time.Second
	// annHome is where a machine shows the home directory: a path that anybody may reach, wherever it really is.
	annHome    = "/run/ann"
	annProject = annHome + "/web-shop"
)

// A machine is a set of namespaces with its own processes, mounts and, perhaps, its own systemd. It has one user,
// ann, with the program, a scripted agent and a project, and shares the loopback with the test, where its Linear
// is. It ends with its standard input, so it can't outlive the test.
type machine struct {
	t      *testing.T
	uid    int
	home   string              // annHome as it is called outside
	as     func(string) string // the command line that runs a command as its user
	linear *lineartest.Server
	in     io.Writer
	out    *bufio.Reader
}

// serveCommands runs what it reads, each up to a zero byte, and closes each answer with a zero byte and the exit
// status.
const serveCommands = `while IFS= read -r -d '' cmd; do timeout 20 bash -c "$cmd" </dev/null 2>&1; printf '\0%d\n' $?; done`

// Each machine's ann has an id of her own, so that what she leaves is told from what the others' do now.
const (
	systemdUID = 20001 + iota
	systemUnitsUID
	cronUID
)

// bootMachine starts one with the program that makes the namespaces.
func bootMachine(t *testing.T, uid int, boot ...string) *machine {
	t.Helper()
	m := &machine{t: t, uid: uid, linear: lineartest.New(lineartest.Config{Key: "lin_api_" + strings.Repeat("secret", 3)})}
	m.as = m.asAnn
	m.must(m.linear.Start())
	t.Cleanup(func() { m.linear.Close() })
	m.furnish()

	ctx, cancel := context.WithTimeout(context.Background(), machineBound)
	cmd := exec.CommandContext(ctx, boot[0], append(boot[1:], "bash", "-c", serveCommands)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it has things to clean up
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = "/"
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	m.must(err)
	out, err := cmd.StdoutPipe()
	m.must(err)
	m.in, m.out = in, bufio.NewReader(out)
	m.must(cmd.Start())
	t.Cleanup(func() {
		defer cancel()
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", boot[0], err, complaints.String())
		}
		left := processesOf(t, uid)
		for end := time.Now().Add(10 * time.Second); len(left) > 0 && time.Now().Before(end); left = processesOf(t, uid) {
			time.Sleep(50 * time.Millisecond) // its first process was killed, and takes the others with it
		}
		if len(left) > 0 {
			t.Errorf("processes have outlived their machine: %q", left)
		}
	})

	// The user is known in here alone.
	m.mustSh(fmt.Sprintf(`set -e
		mkdir %[1]s; mount --bind '%[2]s' %[1]s
		{ cat /etc/passwd; echo 'ann:*:%[3]d:%[3]d::%[1]s:/bin/bash'; } > /run/passwd
		mount --bind /run/passwd /etc/passwd`, annHome, m.home, uid))
	return m
}

// furnish makes ann's home. A machine may hide /tmp, so it lies elsewhere.
func (m *machine) furnish() {
	m.t.Helper()
	cache, err := os.UserCacheDir()
	m.must(err)
	m.must(os.MkdirAll(cache, 0o700))
	m.home, err = os.MkdirTemp(cache, "symphony-machine-")
	m.must(err)
	m.t.Cleanup(func() {
		if err := os.RemoveAll(m.home); err != nil {
			m.t.Error(err)
		}
	})
	for _, dir := range []string{"bin", "codex-home"} {
		m.must(os.MkdirAll(filepath.Join(m.home, dir), 0o755))
	}
	program, err := buildProgram()
	m.must(err)
	m.must(os.WriteFile(filepath.Join(m.home, "bin", "symphony"), program, 0o755))
	agent, err := inPath(os.Getenv("PATH"), "fake-codex")
	m.must(err)
	program, err = os.ReadFile(agent)
	m.must(err)
	m.must(os.WriteFile(filepath.Join(m.home, "bin", "fake-codex"), program, 0o755))
	m.project("web-shop")
	m.own()
}

// buildProgram builds the program as users have it, once for all machines.
var buildProgram = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "symphony-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "symphony")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(path)
})

const machineWorkflow = `---
tracker:
  kind: linear
  endpoint: %s
  project_slug: demo
workspace:
  root: ./ws
  min_free_bytes: 0
codex:
  command: %s/bin/fake-codex app-server --home %[2]s/codex-home
---
{{ issue.description }}
Attempt: {{ attempt }}
`

// project writes a workflow; own must follow.
func (m *machine) project(name string) {
	m.t.Helper()
	m.must(os.MkdirAll(filepath.Join(m.home, name), 0o700))
	m.must(os.WriteFile(filepath.Join(m.home, name, "WORKFLOW.md"), fmt.Appendf(nil, machineWorkflow, m.linear.Endpoint(), annHome), 0o600))
}

// own gives ann what stands in her home.
func (m *machine) own() {
	m.t.Helper()
	m.must(filepath.WalkDir(m.home, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, m.uid, m.uid)
	}))
}

// key puts the key where check says that it belongs.
func (m *machine) key() {
	m.t.Helper()
	m.mustSh(m.as(fmt.Sprintf("umask 077; mkdir -p ~/.config/symphony; echo LINEAR_API_KEY=%s > %s", m.linear.Key(), m.envFile("web-shop"))))
}

func (m *machine) envFile(project string) string {
	m.t.Helper()
	said := m.mustSh(m.as("bin/symphony check -w " + project + "/WORKFLOW.md"))
	_, path, found := strings.Cut(said, "its environment file is ")
	if !found {
		m.t.Fatalf("check names no environment file:\n%s", said)
	}
	path, _, _ = strings.Cut(path, "\n")
	return path
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// sh runs a command as root.
func (m *machine) sh(command string) (string, int) {
	m.t.Helper()
	if _, err := io.WriteString(m.in, command+"\x00"); err != nil {
		m.t.Fatalf("the machine takes no commands: %v", err)
	}
	said, err := m.out.ReadString(0)
	if err != nil {
		m.t.Fatalf("the machine has ended during %q: %v\n%s", command, err, said)
	}
	status, err := m.out.ReadString('\n')
	m.must(err)
	code, err := strconv.Atoi(strings.TrimSpace(status))
	m.must(err)
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

// asAnn is the command line that runs a command as ann, in her home, with nothing of root's environment.
func (m *machine) asAnn(command string) string {
	return fmt.Sprintf("cd %s && exec setpriv --reuid %[2]d --regid %[2]d --clear-groups env -i HOME=%[1]s LOGNAME=ann PATH=/usr/bin:/bin XDG_RUNTIME_DIR=/run/user/%[2]d bash -c '%[3]s'",
		annHome, m.uid, strings.ReplaceAll(command, "'", `'\''`))
}

// until waits for something, and says what was seen last.
func (m *machine) until(what string, within time.Duration, ok func() (bool, string)) {
	m.t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		good, seen := ok()
		if good {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s: not within %v; the last seen:\n%s\n%s", what, within, seen, m.story())
		}
	}
}

// story is what helps when a wait was in vain.
func (m *machine) story() string {
	said, _ := m.sh(m.as("bin/symphony ps --all -w web-shop/WORKFLOW.md; tail -n 20 cron.log .local/state/symphony/*/runs/*/worker.log; cd /; ps -ef | tail -n 30"))
	return said
}

// machineView is the part of ps --json that is looked at here.
type machineView struct {
	Running []struct {
		Identifier  string `json:"issue_identifier"`
		RunID       string `json:"run_id"`
		PID         int    `json:"pid"`
		Phase       string `json:"phase"`
		ThreadID    string `json:"thread_id"`
		Attempt     *int   `json:"attempt"`
		WorkerAlive bool   `json:"worker_alive"`
	} `json:"running"`
	Retrying []json.RawMessage `json:"retrying"`
	Held     []json.RawMessage `json:"held"`
	LastPass *struct {
		ID      int    `json:"id"`
		Trigger string `json:"trigger"`
		Errors  []struct {
			Code string `json:"code"`
		} `json:"errors"`
	} `json:"last_pass"`
	Blocked *struct {
		Reason string `json:"reason"`
	} `json:"blocked"`
	Skipped []struct {
		Identifier string `json:"issue_identifier"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
	} `json:"skipped"`
	Ended []struct {
		RunID      string `json:"run_id"`
		Identifier string `json:"issue_identifier"`
		Outcome    string `json:"outcome"`
		Error      string `json:"error"`
	} `json:"ended"`
}

// ps is false before the first pass.
func (m *machine) ps() (v machineView, ok bool) {
	m.t.Helper()
	said, code := m.sh(m.as("bin/symphony ps --all --json -w web-shop/WORKFLOW.md"))
	if code != 0 {
		return v, false
	}
	if err := json.Unmarshal([]byte(said), &v); err != nil {
		m.t.Fatalf("ps --json: %v\n%s", err, said)
	}
	return v, v.LastPass != nil
}

// outcomes are those of an issue's runs.
func (v machineView) outcomes(identifier string) (list []string) {
	for _, run := range v.Ended {
		if run.Identifier == identifier {
			list = append(list, run.Outcome)
		}
	}
	return list
}

// add makes an issue whose agent runs commands first, waits for a gate, if it has one, and hands it over.
func (m *machine) add(identifier, gate string, first ...string) {
	m.t.Helper()
	state, err := m.linear.StateID("ABC", "Human Review")
	m.must(err)
	call, err := json.Marshal(map[string]any{
		"query":     "mutation($issue: String!, $state: String!) { issueUpdate(id: $issue, input: {stateId: $state}) { success } }",
		"variables": map[string]string{"issue": identifier, "state": state},
	})
	m.must(err)
	work := "sh echo " + identifier + " > work.txt"
	if gate != "" {
		work = "sh until [ -e " + annHome + "/" + gate + " ]; do sleep 0.05; done"
	}
	for _, command := range first {
		work = "sh " + command + "\n" + work
	}
	text := "```agent\n" + work + "\ntool linear_graphql " + string(call) + "\n```\n"
	_, err = m.linear.AddIssue(lineartest.Issue{Identifier: identifier, Title: "Issue " + identifier, State: "Todo", Description: &text})
	m.must(err)
}

func (m *machine) open(gate string) {
	m.t.Helper()
	m.must(os.WriteFile(filepath.Join(m.home, gate), nil, 0o644))
}

func (m *machine) handedOver(identifier string, within time.Duration) {
	m.t.Helper()
	m.until(identifier+" is handed over", within, func() (bool, string) {
		issue, err := m.linear.Issue(identifier)
		m.must(err)
		return issue.State == "Human Review", issue.State
	})
}

// worker is one whose agent has started its command, which waits for the gate.
type machineWorker struct {
	run, thread string
	attempt     *int
	pid         int
	born        string
	command     int // the pid of what waits for the gate
}

func (m *machine) atWork(identifier, gate string, within time.Duration) (w machineWorker) {
	m.t.Helper()
	m.until(identifier+"'s agent is at work", within, func() (bool, string) {
		v, _ := m.ps()
		for _, r := range v.Running {
			if r.Identifier == identifier && r.WorkerAlive && r.PID != 0 {
				w = machineWorker{run: r.RunID, attempt: r.Attempt, pid: r.PID}
			}
		}
		if w.run == "" {
			return false, fmt.Sprintf("%+v", v)
		}
		said, code := m.sh("pgrep -o -u " + strconv.Itoa(m.uid) + " -f -- '-e [^ ]*/" + gate + " '")
		w.command, _ = strconv.Atoi(said)
		return code == 0, "no command waits for " + gate
	})
	w.born = m.birth(w.pid)
	if w.born == "" {
		m.t.Fatalf("%s's worker %d is no process", identifier, w.pid)
	}
	return w
}

// birth is the start of a process: that a pid exists does not say that it is the same.
func (m *machine) birth(pid int) string {
	m.t.Helper()
	said, code := m.sh(fmt.Sprintf("cut -d' ' -f22 /proc/%d/stat", pid))
	if code != 0 {
		return ""
	}
	return said
}

// lives fails unless the very worker is there still, and ps says so.
func (m *machine) lives(w machineWorker, after string) {
	m.t.Helper()
	if got := m.birth(w.pid); got != w.born {
		m.t.Fatalf("after %s worker %d, born at %s, is gone (%q)\n%s", after, w.pid, w.born, got, m.story())
	}
	v, _ := m.ps()
	for _, r := range v.Running {
		if r.RunID == w.run && r.PID == w.pid && r.WorkerAlive {
			return
		}
	}
	m.t.Fatalf("after %s ps says %+v, not that run %s goes on", after, v.Running, w.run)
}

// cgroup is where systemd has put a process.
func (m *machine) cgroup(pid int) string {
	m.t.Helper()
	said, _ := m.sh(fmt.Sprintf("sed -n 's/^0:://p' /proc/%d/cgroup", pid))
	return said
}

// inScope fails unless worker, agent and command stand in the scope of the run, below the path given.
func (m *machine) inScope(w machineWorker, below string) {
	m.t.Helper()
	scope := below + "/symphony.slice/symphony-" + w.run + ".scope"
	agent := m.mustSh(fmt.Sprintf("pgrep -P %d -f app-server", w.pid))
	for _, pid := range []string{strconv.Itoa(w.pid), agent, strconv.Itoa(w.command)} {
		n, err := strconv.Atoi(pid)
		m.must(err)
		if got := m.cgroup(n); !strings.HasSuffix(got, scope) {
			m.t.Errorf("process %d stands in %q, want …%s\n%s", n, got, scope, m.mustSh("systemd-cgls --no-pager -u symphony.slice 2>&1; ps -fp "+pid))
		}
	}
	if said := m.mustSh(m.as("cat .local/state/symphony/*/runs/" + w.run + "/scope")); !strings.HasSuffix(said, scope) || strings.Contains(said, "\n") {
		m.t.Errorf("the run's scope file says %q, want …%s", said, scope)
	}
}

// released waits until nothing is claimed any more.
func (m *machine) released() {
	m.t.Helper()
	m.until("the claims are released", 20*time.Second, func() (bool, string) {
		v, ok := m.ps()
		return ok && len(v.Running)+len(v.Retrying)+len(v.Held) == 0, fmt.Sprintf("%+v", v)
	})
}

// calm waits until all work is over: claims, workers and passes.
func (m *machine) calm() {
	m.t.Helper()
	m.released()
	m.until("no process of symphony's is left", 10*time.Second, func() (bool, string) {
		said, code := m.sh(fmt.Sprintf("pgrep -u %d -a | grep -v -e ' /lib/systemd/systemd --user' -e ' (sd-pam)'", m.uid))
		return code != 0, said
	})
}

// processesOf is a look from outside, where the user has no name.
func processesOf(t *testing.T, uid int) (list []string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		var stat syscall.Stat_t
		if syscall.Stat(dir, &stat) != nil { // it has just ended
			continue
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err == nil && strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t", uid)) {
			name, _, _ := strings.Cut(string(status), "\n")
			list = append(list, filepath.Base(dir)+" "+name)
		}
	}
	return list
}

// unit is one from the README, with what the test has to change.
func readmeUnit(t *testing.T, file string, changes ...string) string {
	t.Helper()
	text := between(t, readme(t), "`~/.config/systemd/user/"+file+"`:\n\n```ini\n", "```")
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s in the README has no %q:\n%s", file, changes[i], text)
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return text
}

// userctl is systemctl --user of ann's.
func (m *machine) userctl(args string) string {
	m.t.Helper()
	return m.mustSh(m.userSystemctl(args))
}

// bootSystemd starts a machine with a systemd.
func bootSystemd(t *testing.T, uid int) *machine {
	t.Helper()
	boot := os.Getenv("SYMPHONY_WITH_SYSTEMD")
	if boot == "" {
		t.Skip("SYMPHONY_WITH_SYSTEMD names no program that boots a systemd; its tests are skipped")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can boot a systemd; its tests are skipped")
	}
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		t.Skip("there is no systemd here; its tests are skipped")
	}
	m := bootMachine(t, uid, boot, "-t", strconv.Itoa(int(machineBound.Seconds())))
	m.key()
	return m
}

// anyRate lets a service start as often as a test wants it.
var anyRate = []string{"[Unit]\n", "[Unit]\nStartLimitIntervalSec=0\n"}

// everySecond is the README's timer, faster.
func everySecond(t *testing.T) string {
	return readmeUnit(t, "symphony-web-shop.timer", "OnCalendar=minutely", "OnActiveSec=0\nOnUnitActiveSec=1s", "AccuracySec=5s", "AccuracySec=10ms")
}

// startUserManager does what logind does elsewhere for a user that lingers.
func (m *machine) startUserManager() {
	m.t.Helper()
	m.mustSh(fmt.Sprintf(`set -e
		install -d -m 700 -o %[1]d -g %[1]d /run/user/%[1]d
		mkdir -p /run/systemd/system/user@.service.d
		printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%%%i\n' > /run/systemd/system/user@.service.d/runtime.conf
		systemctl daemon-reload
		systemctl start user@%[1]d.service || { journalctl -n 40; exit 1; }`, m.uid))
}

// passes waits for that many more, all of the timer and without an error.
func (m *machine) passes(n int) {
	m.t.Helper()
	before, ok := m.ps()
	if !ok {
		m.t.Fatal("no pass has run yet")
	}
	m.until(fmt.Sprintf("%d more passes", n), 20*time.Second, func() (bool, string) {
		v, ok := m.ps()
		if !ok {
			return false, ""
		}
		if v.LastPass.Trigger != "timer" || len(v.LastPass.Errors) > 0 {
			m.t.Fatalf("a pass that is not the timer's, or failed: %+v", *v.LastPass)
		}
		return v.LastPass.ID >= before.LastPass.ID+n, fmt.Sprintf("%+v", *v.LastPass)
	})
}

// warnings are what systemd says of processes that are left in a unit.
func (m *machine) warnings() string {
	m.t.Helper()
	m.mustSh("journalctl --sync")
	said, _ := m.sh("journalctl --no-pager -o cat | grep -i -e 'left-over process' -e 'remains running'")
	return said
}

// TestSystemd shows the README's timer on a real systemd, in ann's own manager: it runs passes, and workers, each in a
// scope, outlive the service, a stop of the timer and systemd's own re-execution.
func TestSystemd(t *testing.T) {
	t.Parallel()
	m := bootSystemd(t, systemdUID)
	units := filepath.Join(m.home, ".config", "systemd", "user")
	m.must(os.MkdirAll(units, 0o755))
	m.must(os.WriteFile(filepath.Join(units, "symphony-web-shop.service"), []byte(readmeUnit(t, "symphony-web-shop.service", anyRate...)), 0o644))
	m.must(os.WriteFile(filepath.Join(units, "symphony-web-shop.timer"), []byte(everySecond(t)), 0o644))
	m.own()
	m.startUserManager()
	below := fmt.Sprintf("/user@%d.service", m.uid)

	m.add("ABC-1", "")
	m.userctl("enable --now symphony-web-shop.timer")
	m.handedOver("ABC-1", 20*time.Second)
	m.released()

	m.add("ABC-2", "gate-2")
	w := m.atWork("ABC-2", "gate-2", 20*time.Second)
	m.inScope(w, below)
	m.passes(3) // so the service has ended with the worker alive, more than once
	m.lives(w, "three passes more")
	m.userctl("stop symphony-web-shop.timer")
	m.userctl("stop symphony-web-shop.service")
	m.lives(w, "a stop of timer and service")
	m.mustSh("systemctl daemon-reexec")
	m.lives(w, "a daemon-reexec")
	m.userctl("daemon-reexec")
	m.until("ann's systemd is back", 10*time.Second, func() (bool, string) {
		said, code := m.sh(m.asAnn("systemctl --user is-active basic.target"))
		return code == 0, said
	})
	m.lives(w, "a daemon-reexec of ann's systemd")
	m.userctl("start symphony-web-shop.timer")
	m.passes(2)
	m.lives(w, "the timer's start")

	m.sliceStops(w)
	m.ownPass()
	m.daemonIsFound()
	m.calm()
	if said := m.warnings(); said != "" {
		t.Errorf("systemd has found processes that it did not expect:\n%s", said)
	}
	m.noScopes()
	m.calm()
	if result := m.userctl("show -P Result symphony-web-shop.service"); result != "success" {
		t.Errorf("the last pass's result for systemd: %s", result)
	}
}

// sliceStops: its workers end as interrupted, which counts nothing, and the next pass goes on with their threads.
func (m *machine) sliceStops(w machineWorker) {
	m.t.Helper()
	w.thread = m.threadOf(w.run)
	m.userctl("stop symphony.slice")
	next := m.atWork("ABC-2", "gate-2", 20*time.Second)
	v, _ := m.ps()
	if got := v.outcomes("ABC-2"); len(got) != 1 || got[0] != "interrupted" || !strings.HasPrefix(v.errorOf(w.run), "terminated: ") {
		m.t.Errorf("the run whose scope was stopped: %q %q, want interrupted, terminated\n%s", got, v.errorOf(w.run), m.story())
	}
	next.thread = m.threadOf(next.run)
	if next.run == w.run || next.thread != w.thread || next.attempt != nil {
		m.t.Errorf("the run after it: %+v; want the thread of %+v, and no failure counted\n%s", next, w, m.story())
	}
	m.inScope(next, fmt.Sprintf("/user@%d.service", m.uid))
}

// threadOf waits until a run's thread is known.
func (m *machine) threadOf(run string) (thread string) {
	m.t.Helper()
	m.until(run+" has a thread", 20*time.Second, func() (bool, string) {
		v, _ := m.ps()
		for _, r := range v.Running {
			if r.RunID == run {
				thread = r.ThreadID
			}
		}
		return thread != "", fmt.Sprintf("%+v", v)
	})
	return thread
}

// errorOf is what a run that has ended met.
func (v machineView) errorOf(run string) string {
	for _, r := range v.Ended {
		if r.RunID == run {
			return r.Error
		}
	}
	return ""
}

// ownPass: without the timer a worker's own pass, in a scope of its own, draws the consequence of the run.
func (m *machine) ownPass() {
	m.t.Helper()
	m.userctl("stop symphony-web-shop.timer")
	v, _ := m.ps()
	w := m.atWork("ABC-2", "gate-2", 20*time.Second)
	m.add("ABC-3", "gate-3")
	m.open("gate-2")
	m.handedOver("ABC-2", 20*time.Second)
	next := m.atWork("ABC-3", "gate-3", 20*time.Second) // the timer's schedule counts as alive for minutes
	m.inScope(next, fmt.Sprintf("/user@%d.service", m.uid))
	if after, _ := m.ps(); after.LastPass.Trigger != "worker" || after.LastPass.ID <= v.LastPass.ID {
		m.t.Errorf("the last pass, want a worker's: %+v", *after.LastPass)
	}
	m.mustSh("journalctl --sync; journalctl --no-pager -o cat | grep -F 'Started symphony-pass-" + w.run + ".scope'")
	m.open("gate-3")
	m.handedOver("ABC-3", 20*time.Second)
	m.calm()
	v, _ = m.ps()
	for issue, want := range map[string]string{"ABC-1": "succeeded", "ABC-2": "succeeded interrupted", "ABC-3": "succeeded"} {
		if got := strings.Join(v.outcomes(issue), " "); got != want {
			m.t.Errorf("runs of %s, the newest first: %s, want %s\n%s", issue, got, want, m.story())
		}
	}
}

// daemonIsFound: what an agent has made without mark, parent, descriptors or record still stands in the run's scope.
func (m *machine) daemonIsFound() {
	m.t.Helper()
	m.add("ABC-4", "gate-4", `env -i PATH=/usr/bin:/bin setsid bash -c 'cd /; for f in /proc/self/fd/*; do eval "exec ${f##*/}>&-"; done; (sleep 98765 &)'`)
	m.userctl("start symphony-web-shop.service")
	w := m.atWork("ABC-4", "gate-4", 20*time.Second)
	daemon := 0
	m.until("the daemon is there", 10*time.Second, func() (bool, string) {
		said, code := m.sh("pgrep -f '^sleep 98765'")
		daemon, _ = strconv.Atoi(said)
		return code == 0, m.mustSh("ps -ef")
	})
	env := m.mustSh(fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ", daemon))
	open, _ := m.sh(fmt.Sprintf("ls -l /proc/%d/fd | grep -e '->' | grep -v /dev/null", daemon))
	if strings.Contains(env, "SYMPHONY") || strings.Contains(env, "CODEX") || open != "" {
		m.t.Errorf("the daemon can be told by more than its cgroup:\n%s\n%s", env, open)
	}
	agent := m.mustSh(fmt.Sprintf("pgrep -P %d -f app-server", w.pid))
	m.mustSh(fmt.Sprintf("kill -KILL %d %s; rm %s/.local/state/symphony/*/runs/%s/procs", w.pid, agent, annHome, w.run))
	m.until("the worker has ended", 10*time.Second, func() (bool, string) { return m.birth(w.pid) == "", "" })
	if m.birth(daemon) == "" {
		m.t.Error("the daemon has ended by itself")
	}
	m.open("gate-4")
	m.userctl("start symphony-web-shop.service")
	if m.birth(daemon) != "" {
		m.t.Errorf("the next pass has left the daemon\n%s", m.story())
	}
	v, _ := m.ps()
	if got := v.outcomes("ABC-4"); len(got) != 1 || got[0] != "lost" {
		m.t.Errorf("the run: %q, want lost", got)
	}
	m.mustSh(m.as("bin/symphony retry ABC-4 -w web-shop/WORKFLOW.md"))
	m.handedOver("ABC-4", 20*time.Second)
}

// noScopes: where systemd-run fails there are none, so that a worker's pass stays away and the README's unit starts
// nothing, and KillMode=process makes do without. systemd then says of each worker what is looked for in vain else.
func (m *machine) noScopes() {
	m.t.Helper()
	m.add("ABC-6", "gate-6")
	m.userctl("start symphony-web-shop.service")
	last := m.atWork("ABC-6", "gate-6", 20*time.Second)
	run := m.mustSh("command -v systemd-run")
	m.mustSh("mount --bind /bin/false " + run)
	m.open("gate-6")
	m.until("the worker says that its pass has no scope", 20*time.Second, func() (bool, string) {
		said := m.mustSh(m.as("cat .local/state/symphony/*/runs/" + last.run + "/worker.log"))
		return strings.Contains(said, `msg="no pass of its own"`) && strings.Contains(said, "exit status 1"), said
	})
	m.userctl("start symphony-web-shop.service")

	m.add("ABC-5", "gate-5")
	m.refused(m.userSystemctl, "symphony-web-shop.service", "KillMode=control-group")
	dropIn := ".config/systemd/user/symphony-web-shop.service.d"
	m.mustSh(m.asAnn("mkdir " + dropIn + "; printf '[Service]\\nKillMode=process\\n' > " + dropIn + "/kill.conf; systemctl --user daemon-reload"))
	m.userctl("start symphony-web-shop.service")
	w := m.atWork("ABC-5", "gate-5", 20*time.Second)
	m.unblocked()
	if got := m.cgroup(w.pid); !strings.HasSuffix(got, "/symphony-web-shop.service") {
		m.t.Errorf("the worker stands in %q", got)
	}
	m.userctl("start symphony-web-shop.service")
	m.lives(w, "a pass more")
	if said := m.warnings(); !strings.Contains(said, "remains running after unit stopped") || !strings.Contains(said, "left-over process") {
		m.t.Errorf("the warnings of KillMode=process are not found where they must be: %q", said)
	}
	m.mustSh("umount " + run)
	m.open("gate-5")
	m.handedOver("ABC-5", 20*time.Second)
}

// TestSystemdSystemUnits shows the README's units in the system's manager: ann's passes start nothing where that would
// not outlive them, which KillMode=process or a manager of her own changes; root's get scopes at once.
func TestSystemdSystemUnits(t *testing.T) {
	t.Parallel()
	m := bootSystemd(t, systemUnitsUID)
	install := func(file, text string) {
		t.Helper()
		m.mustSh("cat > /run/systemd/system/" + file + " <<'EOF'\n" + text + "EOF\nsystemctl daemon-reload")
	}
	const service = "symphony-web-shop.service"
	unit := func(home string, lines ...string) string {
		return readmeUnit(t, service, append(anyRate, "%h", home, "[Service]\n", "[Service]\n"+strings.Join(append(lines, ""), "\n"))...)
	}
	install(service, unit(annHome, "User=ann"))

	// By hand a pass stands in no service.
	m.add("ABC-1", "gate-1")
	m.mustSh(m.asAnn("bin/symphony tick -w web-shop/WORKFLOW.md"))
	w := m.atWork("ABC-1", "gate-1", 20*time.Second)
	m.add("ABC-2", "gate-2")
	m.refused(systemctl, service, "KillMode=control-group")
	m.lives(w, "a pass that starts nothing")

	install(service, unit(annHome, "User=ann", "KillMode=process"))
	m.mustSh("systemctl start " + service)
	w2 := m.atWork("ABC-2", "gate-2", 20*time.Second)
	m.unblocked()
	m.mustSh("systemctl start " + service)
	m.lives(w2, "a pass more")
	if got := m.cgroup(w2.pid); !strings.HasSuffix(got, "/"+service) {
		t.Errorf("the worker stands in %q", got)
	}
	m.open("gate-2")
	m.handedOver("ABC-2", 20*time.Second)
	m.until("ABC-2's run has ended", 20*time.Second, func() (bool, string) { return m.birth(w2.pid) == "", "" })

	install(service, unit(annHome, "User=ann"))
	m.add("ABC-3", "gate-3")
	m.refused(systemctl, service, "KillMode=control-group")
	m.startUserManager()
	m.mustSh("systemctl start " + service)
	w3 := m.atWork("ABC-3", "gate-3", 20*time.Second)
	m.unblocked()
	below := fmt.Sprintf("/user@%d.service", m.uid)
	m.inScope(w3, below)
	if env := m.mustSh(fmt.Sprintf("tr '\\0' '\\n' < /proc/%d/environ", w3.command)); strings.Contains(env, "XDG_RUNTIME_DIR") {
		t.Errorf("what leads to ann's manager has come to the agent, too:\n%s", env)
	}

	// By hand a worker gets a scope where that is the safer place.
	m.add("ABC-4", "gate-4")
	m.mustSh(m.asAnn("bin/symphony tick -w web-shop/WORKFLOW.md"))
	m.inScope(m.atWork("ABC-4", "gate-4", 20*time.Second), below)
	m.mustSh(fmt.Sprintf("mkdir -p /run/systemd/users; echo NAME=ann > /run/systemd/users/%d", m.uid))
	m.add("ABC-6", "gate-6")
	m.mustSh(m.asAnn("bin/symphony tick -w web-shop/WORKFLOW.md"))
	if got := m.cgroup(m.atWork("ABC-6", "gate-6", 20*time.Second).pid); strings.Contains(got, "user@") {
		t.Errorf("the worker of a pass by hand stands in %s, which ends with ann's login", got)
	}
	for _, n := range []string{"1", "3", "4", "6"} {
		m.open("gate-" + n)
		m.handedOver("ABC-"+n, 20*time.Second)
	}
	m.until("ann has no more to do", 20*time.Second, func() (bool, string) {
		m.sh("systemctl start " + service)
		v, _ := m.ps()
		return len(v.Running)+len(v.Retrying)+len(v.Held) == 0, fmt.Sprintf("%+v", v)
	})

	const bossHome = "/run/boss"
	boss := *m
	boss.uid = 0
	boss.as = func(command string) string {
		return fmt.Sprintf("cd %s && exec env -i HOME=%[1]s PATH=/usr/bin:/bin bash -c '%s'", bossHome, strings.ReplaceAll(command, "'", `'\''`))
	}
	m.mustSh(fmt.Sprintf(`set -e; umask 077; mkdir -p %[1]s/codex-home; cp -r %[2]s/bin %[1]s; mkdir %[1]s/web-shop
		sed 's|--home %[2]s|--home %[1]s|' %[2]s/web-shop/WORKFLOW.md > %[1]s/web-shop/WORKFLOW.md; chown -R 0:0 %[1]s`, bossHome, annHome))
	boss.key()
	install(service, unit(bossHome, "Environment=HOME="+bossHome))
	install("symphony-web-shop.timer", everySecond(t))
	m.mustSh("systemctl start symphony-web-shop.timer")
	boss.add("ABC-5", "gate-5")
	w5 := boss.atWork("ABC-5", "gate-5", 20*time.Second)
	boss.inScope(w5, "")
	if got := boss.cgroup(w5.pid); strings.Contains(got, "/user") {
		t.Errorf("root's worker stands in %s", got)
	}
	boss.passes(2)
	boss.lives(w5, "two passes more")
	m.mustSh("systemctl stop symphony-web-shop.timer " + service + "; systemctl daemon-reexec")
	boss.lives(w5, "a stop of timer and service, and a daemon-reexec")
	boss.open("gate-5")
	boss.handedOver("ABC-5", 20*time.Second)
	boss.released()
	boss.until("root's processes have ended", 20*time.Second, func() (bool, string) {
		said, code := m.sh("pgrep -a -f ^" + bossHome)
		return code != 0, said
	})
	m.calm()
}

// systemctl and userSystemctl are the command lines that ask the system's manager and ann's.
func systemctl(args string) string { return "systemctl " + args }

func (m *machine) userSystemctl(args string) string { return m.asAnn("systemctl --user " + args) }

// refused starts the service, and wants it to start nothing and to say why.
func (m *machine) refused(ctl func(args string) string, service, why string) {
	m.t.Helper()
	before, _ := m.ps()
	if said, code := m.sh(ctl("start " + service)); code == 0 {
		m.t.Errorf("the pass was not refused: %s", said)
	}
	if status := m.mustSh(ctl("show -P ExecMainStatus " + service)); status != "1" {
		m.t.Errorf("exit status %s, want 1", status)
	}
	v, _ := m.ps()
	const code = "workers_would_die"
	if len(v.LastPass.Errors) != 1 || v.LastPass.Errors[0].Code != code || v.Blocked == nil || v.Blocked.Reason != code {
		m.t.Errorf("ps says %+v, blocked %+v; want %s\n%s", v.LastPass.Errors, v.Blocked, code, m.story())
	}
	if len(v.Skipped) != 1 || v.Skipped[0].Reason != "blocked" || !strings.HasPrefix(v.Skipped[0].Message, code+": ") || !strings.Contains(v.Skipped[0].Message, why) {
		m.t.Errorf("skipped: %+v", v.Skipped)
	}
	if len(v.Running) != len(before.Running) || len(v.Ended) != len(before.Ended) {
		m.t.Errorf("something was started, or has ended: %+v, before %+v", v, before)
	}
	if said := m.mustSh("journalctl --sync; journalctl --no-pager -o cat -n 40"); !strings.Contains(said, "symphony: "+code) || !strings.Contains(said, "write KillMode=process into") {
		m.t.Errorf("the journal has no error with a hint:\n%s", said)
	}
}

// unblocked fails if ps shows a block still.
func (m *machine) unblocked() {
	m.t.Helper()
	if v, _ := m.ps(); v.Blocked != nil || len(v.LastPass.Errors) > 0 {
		m.t.Errorf("blocked: %+v, errors %+v", v.Blocked, v.LastPass.Errors)
	}
}
