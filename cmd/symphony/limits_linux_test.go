package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Users of their own, so that a limit on processes counts nothing but what a test starts.
const (
	limitUID = 20011 + iota
	crowdedUID
)

// Limits that are too low for anything are told before anything is begun.
func TestLimitsTooLow(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take on a user without other processes")
	}
	t.Parallel()
	r := newRig(t, "state", "ws", 0)
	r.belongTo(limitUID)
	r.add("ABC-1", "{gate go}\n{move Human Review}")
	r.pass()
	r.atWork("ABC-1")
	for _, limit := range []string{"-n 16", "-n 32", "-u 32"} {
		r.limit(limit)
		a := r.want(r.run("tick"), 1, "resource_limit")
		if flag, _, _ := strings.Cut(limit, " "); !strings.Contains(a.stderr, "(ulimit "+flag+")") || !strings.Contains(a.stderr, "\n  raise the limits") {
			t.Errorf("with ulimit %s:\n%v", limit, a)
		}
		r.want(r.run("stop", "ABC-1"), 1, "resource_limit") // and is kept
		r.limit("")
		r.want(r.run("retry", "ABC-1"), 0) // which takes it back
	}
	r.open("go")
	r.quiet()
	r.nothingLost("canceled")
}

// A machine without further processes, and without further files for a worker only: the machine's fault. Nothing is
// counted against the issue, nothing is left behind, and all goes on once there is room.
func TestLimitsReached(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take on a user without other processes")
	}
	t.Parallel()
	r := newRig(t, "state", "ws", 0)
	r.belongTo(crowdedUID)
	r.pass()
	r.add("ABC-1", "sh true\n{move Human Review}")
	// A crowd of the same user leaves so few processes that a pass gets its threads, and a worker does not.
	crowd := exec.Command("bash", "-c", "for i in $(seq 60); do sleep 600 & done; echo ready; read; kill $(jobs -p)")
	crowd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: crowdedUID, Gid: crowdedUID}}
	crowd.Dir = "/"
	in, err := crowd.StdinPipe()
	r.must(err)
	out, err := crowd.StdoutPipe()
	r.must(err)
	r.must(crowd.Start())
	leave := func() { in.Close(); crowd.Wait() }
	defer leave()
	ready := make([]byte, 1)
	_, err = out.Read(ready)
	r.must(err)

	r.limit("-u 73")
	a := r.run("tick")
	// The runtime of a pass that gets no thread ends it at once, which a pass can bear at any line.
	// Codex may be the one that gets none, when it is asked for its schema: a warning.
	codes := slices.DeleteFunc(a.codes(), func(code string) bool { return code == "warning" })
	if a.code == 1 && !slices.Equal(codes, []string{"resource_limit"}) || a.code > 1 && !strings.Contains(a.stderr, "thread") {
		t.Errorf("a pass without further processes:\n%.2000v", a)
	}
	r.limit("")
	leave()
	r.hurry = true
	r.quiet()
	counted := r.sql("SELECT coalesce(outcome, '-'), attempt, settled, error_code FROM runs")
	for _, run := range counted {
		f := strings.Split(run, " ")
		// A pass that was ended between writing the run down and starting it leaves one that nobody knows the reason of.
		if f[0] != "succeeded" && f[3] != "resource_limit" && a.code < 2 {
			t.Errorf("a run (outcome, attempt, settled, code): %s\n%s", run, r.story())
		}
	}
	r.is("ABC-1", "Human Review")
	t.Logf("the pass ended with %d %q, the runs: %q", a.code, a.codes(), counted)
}

// A worker that gets no further descriptor ends its run for the machine's fault, be it for a hook or for the agent.
func TestLimitOfFilesInAWorker(t *testing.T) {
	for name, hooks := range map[string]string{
		"agent": "  before_run: echo there > ../../there; until [ -e ../../go ]; do sleep 0.02; done\n",
		"hook":  "  after_create: echo there > ../../there; until [ -e ../../go ]; do sleep 0.02; done\n  before_run: echo hook\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "state", "ws", 0)
			r.hooks(hooks)
			r.add("ABC-1", "{move Human Review}")
			r.pass()
			r.until("the first hook is at work", func() (bool, string) {
				_, err := os.Stat(filepath.Join(r.dir, "there"))
				return err == nil, ""
			})
			workers := r.processes("symphony worker")
			if len(workers) != 1 {
				t.Fatalf("workers: %v", workers)
			}
			few := unix.Rlimit{Cur: 10, Max: 10} // it has more than that open: each further one is refused
			r.must(unix.Prlimit(workers[0], unix.RLIMIT_NOFILE, &few, nil))
			r.open("go")
			r.gone("symphony worker")
			r.pass()
			if rows := r.sql("SELECT error_code, attempt FROM runs"); len(rows) == 0 || rows[0] != "resource_limit 0" {
				t.Errorf("the run (code, attempt): %q\n%s", rows, r.story())
			}
			if a := r.run("ps"); !strings.Contains(a.stdout, "BLOCKED  resource_limit: ") {
				t.Errorf("ps does not say what is wrong:\n%v", a)
			}
			r.hurry = true
			r.quiet()
			r.is("ABC-1", "Human Review")
			r.counted("resource_limit")
		})
	}
}
