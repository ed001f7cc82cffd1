//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/linear/lineartest"
)

// ps is false before the first pass.
func (m *machine) ps() (v view.Overview, ok bool) {
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

// outcomes are those of an issue's runs, the newest first.
func outcomes(v view.Overview, identifier string) string {
	var list []string
	for _, run := range v.Ended {
		if run.Identifier == identifier {
			list = append(list, string(*run.Outcome))
		}
	}
	return strings.Join(list, " ")
}

// add makes an issue whose agent waits for a gate, if it has one, and hands it over.
func (m *machine) add(identifier, gate string) {
	m.t.Helper()
	work := "sh echo " + identifier + " > work.txt"
	if gate != "" {
		work = "{gate " + gate + "}"
	}
	text, err := agentScript(m.linear, identifier, userHome, work+"\n{move Human Review}")
	m.must(err)
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
			if r.Identifier == identifier && r.Alive && r.PID != nil {
				w = machineWorker{run: r.RunID, attempt: r.Attempt, pid: *r.PID}
			}
		}
		if w.run == "" {
			return false, fmt.Sprintf("%+v", v)
		}
		said, code := m.sh("pgrep -o -u " + strconv.Itoa(m.uid) + " -f -- '-e [^ ]*/" + gate + ". '")
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
		if r.RunID == w.run && r.PID != nil && *r.PID == w.pid && r.Alive {
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
