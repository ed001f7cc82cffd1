//go:build linux

package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// gateCommand is the argument with which this program runs as the gate: gate FOLDER PROGRAM
// ARGUMENT...
const gateCommand = "gate"

// entry is a line of the gate's journal: an agent that is about to start.
type entry struct {
	PID            int
	Run, Workspace string
	// Met lists the processes that still have the lock of the workspace.
	Met []string
}

// gate takes a lock of the workspace, writes an entry to the journal and executes the agent.
// The agent and its commands inherit the lock until they end, so two agents in one workspace
// are noticed however briefly they overlap.
func gate(dir string, argv []string) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	e := entry{PID: os.Getpid(), Run: os.Getenv("SYMPHONY_RUN_ID"), Workspace: cwd}
	lock := filepath.Join(dir, filepath.Base(cwd)+".lock")
	// without O_CLOEXEC: the agent inherits it
	fd, err := syscall.Open(lock, syscall.O_RDWR|syscall.O_CREAT, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		e.Met = holders(lock)
	} else if err != nil {
		return err
	}
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(data, '\n')); err != nil {
		return err
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// holders lists the other processes that have the file open.
func holders(path string) (list []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != path {
			continue // the process has ended, or belongs to another user
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		if err != nil || pid == os.Getpid() {
			continue
		}
		if cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
			list = append(list, stage.Process{PID: pid, Args: stage.Args(cmdline)}.String())
		}
	}
	if len(list) == 0 {
		return []string{"a process that has ended"}
	}
	return list
}

// journal reads what the gate wrote.
func journal(dir string) (list []entry, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "journal"))
	for line := range strings.Lines(string(data)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("the gate's journal: %w: %q", err, line)
		}
		list = append(list, e)
	}
	return list, err
}

// TestGate checks that the gate records the processes that are still in the workspace, and no
// others.
func TestGate(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "gate")
	for _, path := range []string{dir, filepath.Join(root, "A"), filepath.Join(root, "B")} {
		test.OK(t, os.Mkdir(path, 0o700))
	}
	begin := func(workspace string, argv ...string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command(test.Must(os.Executable()), append([]string{gateCommand, dir}, argv...)...)
		cmd.Dir = filepath.Join(root, workspace)
		cmd.Stderr = os.Stderr
		test.OK(t, cmd.Start())
		return cmd
	}
	first := begin("A", test.Must(exec.LookPath("sleep")), "600")
	t.Cleanup(func() {
		_ = first.Process.Kill()
		_ = first.Wait()
	})
	test.Until(
		t,
		"the first agent has started",
		func() bool { list, err := journal(dir); return err == nil && len(list) == 1 },
	)
	for _, workspace := range []string{"A", "B"} {
		test.OK(t, begin(workspace, test.Must(exec.LookPath("true"))).Wait())
	}
	test.OK(t, first.Process.Kill())
	_ = first.Wait() // killed
	test.OK(t, begin("A", test.Must(exec.LookPath("true"))).Wait())
	list := test.Must(journal(dir))
	if len(list) != 4 {
		t.Fatalf("journal: %+v", list)
	}
	if met := list[1].Met; len(met) != 1 || !strings.HasPrefix(met[0], strconv.Itoa(first.Process.Pid)+" ") {
		t.Errorf("the second agent in the workspace met %q, want process %d", met, first.Process.Pid)
	}
	for _, n := range []int{0, 2, 3} {
		test.Equal(t, fmt.Sprint("what entry ", n, " met"), len(list[n].Met), 0)
	}
}
