package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["insider"] = insider
	helpers["chain"] = chain
	helpers["weak"] = weak
}

// insider says which scope of the run it finds itself in, starts what a worker would and ends its tree as a worker does.
func insider(args []string) int {
	id := args[0]
	scope, ok := OwnScope(id)
	say("scope", ok, scope)
	cmd := exec.Command("setsid", "sleep", "1000")
	cmd.Env = []string{}
	if err := cmd.Start(); err != nil {
		say("error", err)
		return 1
	}
	go func() { _ = cmd.Wait() }()
	self, err := Self()
	if err != nil {
		say("error", err)
		return 1
	}
	roots := []reconcile.Process{{PID: self.PID, Start: self.Start}}
	left, err := KillTree(context.Background(), Owner{Scope: scope, Roots: roots, Boot: self.Boot}, bound)
	say("left", len(left), err)
	return 0
}

// newScope makes a cgroup below our own that is named like the scope of a run, as systemd would, and ends it after the
// test.
func newScope(t *testing.T, id string) (cgroup, dir string) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	cgroup = path.Join("/", unifiedCgroup(string(own)), ScopeUnit(id))
	dir = scopeDir(cgroup)
	if dir == "" {
		t.Skip("no unified cgroup hierarchy is mounted here")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() {
		_, err := killScope(cgroup)
		must(t, err)
		eventually(t, "the cgroup to be empty", func() bool {
			err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() && name != dir {
					err = unix.Rmdir(name)
				}
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			})
			return err == nil && unix.Rmdir(dir) == nil
		})
	})
	return cgroup, dir
}

// within starts the command inside a cgroup.
func within(t *testing.T, dir string) func(*exec.Cmd) {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	}
}

func TestFindByScope(t *testing.T) {
	id := mark(t)
	cgroup, dir := newScope(t, id)
	_, otherDir := newScope(t, id+"x") // its path begins alike
	below := filepath.Join(dir, "below")
	must(t, os.Mkdir(below, 0o755))
	member := startAs(t, nil, within(t, dir), "idle").up()
	deeper := startAs(t, nil, within(t, below), "idle").up()
	stranger := startAs(t, nil, within(t, otherDir), "idle").up()
	got := find(t, Owner{Scope: cgroup})
	if len(got) != 2 || !got[member.PID] || !got[deeper.PID] || got[stranger.PID] {
		t.Errorf("found %v, want %d and %d, not %d", got, member.PID, deeper.PID, stranger.PID)
	}
	if got := find(t, Owner{Scope: path.Join(path.Dir(cgroup), ScopeUnit(id+"-gone"))}); len(got) > 0 {
		t.Errorf("in a scope that is gone: %v", got)
	}
}

// A process whose threads are in cgroups below is listed in the cgroup of the whole process.
func TestFindByScopeOfThreads(t *testing.T) {
	cgroup, dir := newScope(t, mark(t))
	threads := filepath.Join(dir, "threads")
	must(t, os.Mkdir(threads, 0o755))
	must(t, os.WriteFile(filepath.Join(threads, "cgroup.type"), []byte("threaded"), 0))
	member := startAs(t, nil, within(t, dir), "idle").up()
	must(t, os.WriteFile(filepath.Join(threads, "cgroup.threads"), []byte(itoa(member.PID)), 0))
	if got := find(t, Owner{Scope: cgroup}); len(got) != 1 || !got[member.PID] {
		t.Errorf("found %v, want %d", got, member.PID)
	}
}

// chain forks and ends, and so does each of its children, some ten thousand times: none lives for long enough to be
// found and then signalled.
func chain([]string) int {
	signal.Ignore(syscall.SIGTERM)
	runtime.LockOSThread()
	sayUp()
	for range 40_000 {
		// After the first fork there is one thread and no runtime left: nothing but plain system calls from here on.
		if pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0); pid != 0 {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	return 0
}

func TestKillTreeEndsAForkChain(t *testing.T) {
	id := mark(t)
	cgroup, dir := newScope(t, id)
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		t.Skip("this kernel can't kill a cgroup at once")
	}
	h := startAs(t, nil, within(t, dir), "chain")
	h.up()
	must(t, h.cmd.Wait())
	for range 10 {
		if got := find(t, Owner{Scope: cgroup}); len(got) == 0 {
			t.Error("no process is found")
		}
	}
	// With a mark to look for, as always: that takes longer than any of them lives.
	left, err := KillTree(t.Context(), Owner{RunID: id, Scope: cgroup}, 50*time.Millisecond)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if got := find(t, Owner{Scope: cgroup}); len(got) > 0 {
		t.Errorf("afterwards there are %v", got)
	}
}

// A process of another user, which may not be signalled, is ended with the scope if the files of the scope permit it.
func TestKillTreeOfAScopeEndsAnotherUsersProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user's")
	}
	id := mark(t)
	cgroup, dir := newScope(t, id)
	if err := os.Chown(filepath.Join(dir, "cgroup.kill"), 65534, 65534); err != nil {
		t.Skipf("this kernel can't kill a cgroup at once: %v", err)
	}
	member := startAs(t, nil, within(t, dir), "idle")
	p := member.up()
	h := start(t, nil, "weak", cgroup)
	if got := h.line("left"); got != "0 <nil>" {
		t.Errorf("left %s", got)
	}
	if living(p) {
		t.Error("it lives")
	}
}

// weak gives up its user and ends a scope.
func weak(args []string) int {
	if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
		say("error", err)
		return 1
	}
	left, err := KillTree(context.Background(), Owner{Scope: args[0]}, time.Millisecond)
	say("left", len(left), err)
	return 0
}

// A worker is in the run's scope itself, and must not end itself.
func TestKillTreeFromWithinTheScope(t *testing.T) {
	id := mark(t)
	cgroup, dir := newScope(t, id)
	h := startAs(t, nil, within(t, dir), "insider", id)
	if got := h.line("scope"); got != "true "+cgroup {
		t.Errorf("own scope: %s, want %s", got, cgroup)
	}
	if got := h.line("left"); got != "0 <nil>" {
		t.Errorf("left %s", got)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("it has killed itself: %v", err)
	}
	h = startAs(t, nil, within(t, dir), "insider", id+"x")
	if got := h.line("scope"); !strings.HasPrefix(got, "false") {
		t.Errorf("in the scope of another run: %s", got)
	}
}

func TestReadScope(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scope")
	if got, err := ReadScope(file, "r-1"); got != "" || err != nil {
		t.Errorf("no file: %q, %v", got, err)
	}
	good := "/user.slice/user-0.slice/symphony-r-1.scope"
	for text, want := range map[string]string{
		good + "\n":                            good,
		good:                                   good,
		"/symphony-r-1.scope\n":                "/symphony-r-1.scope",
		"":                                     "",
		"/\n":                                  "",
		"/user.slice\n":                        "",
		"symphony-r-1.scope\n":                 "",
		"/a/symphony-r-12.scope\n":             "",
		"/a/xsymphony-r-1.scope\n":             "",
		good + "/below\n":                      "",
		"/a/../symphony-r-1.scope\n":           "",
		"/a/symphony-r-1.scope\n/b\n":          "",
		"/a\n/b/symphony-r-1.scope\n":          "", // two lines
		"/../../user.slice/symphony-r-1.scope": "",
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if got, err := ReadScope(file, "r-1"); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	must(t, os.WriteFile(file, []byte("/a/symphony-.scope\n"), 0o600))
	if got, err := ReadScope(file, ""); got != "" || err != nil {
		t.Errorf("of no run: %q, %v", got, err)
	}
	if _, err := ReadScope(t.TempDir(), "r-1"); err == nil {
		t.Error("one that can't be read is no error")
	}
}
