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
	home   string // annHome as it is called outside
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
	killModeUID
	cronUID
)

// bootMachine starts one with the program that makes the namespaces.
func bootMachine(t *testing.T, uid int, boot ...string) *machine {
	t.Helper()
	m := &machine{t: t, uid: uid, linear: lineartest.New(lineartest.Config{Key: "lin_api_" + strings.Repeat("secret", 3)})}
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
	m.mustSh(m.asAnn(fmt.Sprintf("umask 077; mkdir -p ~/.config/symphony; echo LINEAR_API_KEY=%s > %s", m.linear.Key(), m.envFile("web-shop"))))
}

func (m *machine) envFile(project string) string {
	m.t.Helper()
	said := m.mustSh(m.asAnn("bin/symphony check -w " + project + "/WORKFLOW.md"))
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
	said, _ := m.sh(m.asAnn("bin/symphony ps --all -w web-shop/WORKFLOW.md; tail -n 20 cron.log .local/state/symphony/*/runs/*/worker.log; cd /; ps -ef | tail -n 30"))
	return said
}

// machineView is the part of ps --json that is looked at here.
type machineView struct {
	Running []struct {
		Identifier  string `json:"issue_identifier"`
		RunID       string `json:"run_id"`
		PID         int    `json:"pid"`
		Phase       string `json:"phase"`
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
	Blocked json.RawMessage `json:"blocked"`
	Ended   []struct {
		RunID      string `json:"run_id"`
		Identifier string `json:"issue_identifier"`
		Outcome    string `json:"outcome"`
		Error      string `json:"error"`
	} `json:"ended"`
}

// ps is false before the first pass.
func (m *machine) ps() (v machineView, ok bool) {
	m.t.Helper()
	said, code := m.sh(m.asAnn("bin/symphony ps --all --json -w web-shop/WORKFLOW.md"))
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

// add makes an issue whose agent waits for a gate, if it has one, and hands it over.
func (m *machine) add(identifier, gate string) {
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
	run  string
	pid  int
	born string
}

func (m *machine) atWork(identifier, gate string, within time.Duration) (w machineWorker) {
	m.t.Helper()
	m.until(identifier+"'s agent is at work", within, func() (bool, string) {
		v, ok := m.ps()
		if !ok || len(v.Running) != 1 || v.Running[0].Identifier != identifier || !v.Running[0].WorkerAlive {
			return false, fmt.Sprintf("%+v", v)
		}
		w = machineWorker{run: v.Running[0].RunID, pid: v.Running[0].PID}
		_, code := m.sh("pgrep -u " + strconv.Itoa(m.uid) + " -f -- '-e [^ ]*/" + gate + " '")
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
	if len(v.Running) != 1 || v.Running[0].RunID != w.run || v.Running[0].PID != w.pid || !v.Running[0].WorkerAlive {
		m.t.Fatalf("after %s ps says %+v, not that run %s goes on", after, v.Running, w.run)
	}
}

// calm waits until all work is over: claims, workers and passes.
func (m *machine) calm() {
	m.t.Helper()
	m.until("no claim is left", 20*time.Second, func() (bool, string) {
		v, _ := m.ps()
		return len(v.Running)+len(v.Retrying)+len(v.Held) == 0, fmt.Sprintf("%+v", v)
	})
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
	return m.mustSh(m.asAnn("systemctl --user " + args))
}

// bootSystemd starts a machine with a systemd, and ann's manager in it with the README's units.
func bootSystemd(t *testing.T, uid int, service ...string) *machine {
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
	units := filepath.Join(m.home, ".config", "systemd", "user")
	m.must(os.MkdirAll(units, 0o755))
	for file, text := range map[string]string{
		"symphony-web-shop.service": readmeUnit(t, "symphony-web-shop.service", service...),
		"symphony-web-shop.timer": readmeUnit(t, "symphony-web-shop.timer",
			"OnCalendar=minutely", "OnActiveSec=0\nOnUnitActiveSec=1s", "AccuracySec=5s", "AccuracySec=10ms"),
	} {
		m.must(os.WriteFile(filepath.Join(units, file), []byte(text), 0o644))
	}
	m.own()
	// What logind does elsewhere for a user that lingers.
	m.mustSh(fmt.Sprintf(`set -e
		install -d -m 700 -o %[1]d -g %[1]d /run/user/%[1]d
		mkdir -p /run/systemd/system/user@.service.d
		printf '[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%%%%i\n' > /run/systemd/system/user@.service.d/runtime.conf
		systemctl daemon-reload
		systemctl start user@%[1]d.service || { journalctl -n 40; exit 1; }`, m.uid))
	m.userctl("daemon-reload")
	return m
}

// TestSystemd shows the README's timer on a real systemd: it runs passes, and workers outlive the service, a stop
// of the timer and systemd's own re-execution.
func TestSystemd(t *testing.T) {
	t.Parallel()
	m := bootSystemd(t, systemdUID)
	m.add("ABC-1", "")
	m.userctl("enable --now symphony-web-shop.timer")
	m.handedOver("ABC-1", 20*time.Second)
	m.until("the first claim is released", 20*time.Second, func() (bool, string) {
		v, _ := m.ps()
		return len(v.Running)+len(v.Retrying) == 0, fmt.Sprintf("%+v", v)
	})

	m.add("ABC-2", "gate-2")
	w := m.atWork("ABC-2", "gate-2", 20*time.Second)
	m.passes(3) // so the service has ended with the worker alive, more than once
	m.lives(w, "three passes more")
	cgroup := m.mustSh(fmt.Sprintf("cat /proc/%d/cgroup", w.pid))
	if !strings.Contains(cgroup, "/symphony-web-shop.service") {
		t.Errorf("the worker is not where the service was, so its end shows nothing:\n%s", cgroup)
	}

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
	m.open("gate-2")
	m.handedOver("ABC-2", 20*time.Second)
	m.until("ABC-2's claim is released", 20*time.Second, func() (bool, string) {
		v, _ := m.ps()
		return len(v.Running)+len(v.Retrying) == 0, fmt.Sprintf("%+v", v)
	})
	m.userctl("stop symphony-web-shop.timer")
	m.calm()
	v, _ := m.ps()
	for _, issue := range []string{"ABC-1", "ABC-2"} {
		if got := v.outcomes(issue); len(got) != 1 || got[0] != "succeeded" {
			t.Errorf("runs of %s: %q, want one that succeeded\n%s", issue, got, m.story())
		}
	}
	if result := m.userctl("show -P Result symphony-web-shop.service"); result != "success" {
		t.Errorf("the last pass's result for systemd: %s", result)
	}
	t.Logf("ann's journal:\n%s", m.mustSh(fmt.Sprintf("journalctl --no-pager -o cat _UID=%d | sort | uniq -c | sort -rn | head -n 15", m.uid)))
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

// TestSystemdKillMode shows what the README's KillMode is for: without it the service's end ends the worker, which
// says so, and a later pass takes the issue up again.
func TestSystemdKillMode(t *testing.T) {
	t.Parallel()
	m := bootSystemd(t, killModeUID, "KillMode=process\n", "")
	m.add("ABC-1", "gate-1")
	m.userctl("start --no-block symphony-web-shop.service")
	m.until("the service is over", 20*time.Second, func() (bool, string) {
		said, _ := m.sh(m.asAnn("systemctl --user is-active symphony-web-shop.service"))
		v, ok := m.ps()
		return (said == "inactive" || said == "failed") && ok && len(v.Ended) > 0, fmt.Sprintf("%s %+v", said, v)
	})
	v, _ := m.ps()
	first := v.Ended[len(v.Ended)-1] // the newest comes first
	if first.Outcome != "interrupted" || !strings.HasPrefix(first.Error, "terminated: ") {
		t.Errorf("the first run: %+v, want interrupted, terminated\n%s", first, m.story())
	}
	m.open("gate-1")
	m.until("ABC-1 is handed over by later passes", 30*time.Second, func() (bool, string) {
		said, _ := m.sh(m.asAnn("bin/symphony tick -w web-shop/WORKFLOW.md"))
		issue, err := m.linear.Issue("ABC-1")
		m.must(err)
		return issue.State == "Human Review", said
	})
	m.calm()
	v, _ = m.ps()
	if got := strings.Join(v.outcomes("ABC-1"), " "); got != "succeeded interrupted" {
		t.Errorf("runs, the newest first: %s, want one that was interrupted and one that succeeded\n%s", got, m.story())
	}
}
