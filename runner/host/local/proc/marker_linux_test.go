package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	helpers["stranger"] = stranger
	helpers["limited"] = limited
}

// stranger becomes another user's process, and says so.
func stranger([]string) int {
	if err := syscall.Setuid(65534); err != nil {
		say("error", err)
		return 1
	}
	return idle(nil)
}

// limited may have no more than so many descriptors, fewer each time, and starts a child with a tree file all the same.
func limited(args []string) int {
	tree, err := OpenTree(args[0])
	for n := uint64(2 * TreeFD); err == nil && n >= 40; n-- {
		if err = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			break
		}
		var c *Child
		c, err = Exec{Argv: []string{"true"}, Env: []string{"PATH=" + os.Getenv("PATH")}, Lease: tree, Tree: tree}.Start()
		if err == nil {
			_, err = c.Close()
		}
		if err != nil {
			err = fmt.Errorf("with %d: %w", n, err)
		}
	}
	say("started", err)
	return 0
}

// tree makes a run's tree file.
func newTree(t *testing.T) *os.File {
	t.Helper()
	f, err := OpenTree(filepath.Join(t.TempDir(), "tree"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// holding hands the file on as descriptor fd.
func holding(f *os.File, fd int) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.ExtraFiles = make([]*os.File, fd-2)
		cmd.ExtraFiles[fd-3] = f
	}
}

// A process that has cleared its environment, left its session and its parent, and was not recorded.
func TestFindOrphanByTree(t *testing.T) {
	tree := newTree(t)
	h := startAs(t, nil, holding(tree, TreeFD), "spawn", "setsid,clear,keep,exit", "idle")
	parent, child := h.up(), h.up()
	must(t, h.cmd.Wait())
	is := func(what string, o Owner, want bool) {
		t.Helper()
		if got := find(t, o); got[child.PID] != want || len(got) > 1 {
			t.Errorf("%s: found %v, want %d: %v", what, got, child.PID, want)
		}
	}
	is("by the tree file", Owner{Tree: tree.Name()}, true)
	is("beside a mark", Owner{RunID: mark(t), Tree: tree.Name()}, true)
	is("younger than the worker", Owner{Tree: tree.Name(), Since: parent.Start, Boot: boot(t)}, true)
	is("older than the worker", Owner{Tree: tree.Name(), Since: child.Start + 1, Boot: boot(t)}, false)
	is("another run's", Owner{Tree: newTree(t).Name()}, false)
	is("one with a longer name", Owner{Tree: tree.Name()[:len(tree.Name())-1]}, false)
	is("without a marker", Owner{RunID: mark(t)}, false)

	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(filepath.Dir(tree.Name()), link))
	is("by way of a link", Owner{Tree: filepath.Join(link, "tree")}, true)

	must(t, os.Remove(tree.Name()))
	is("after the file was removed", Owner{Tree: tree.Name()}, true)
	other, err := OpenTree(tree.Name())
	must(t, err)
	defer other.Close()
	is("after it was replaced", Owner{Tree: tree.Name()}, true)
	must(t, os.RemoveAll(filepath.Dir(tree.Name())))
	is("after the directory was removed", Owner{Tree: tree.Name()}, true)

	left, err := KillTree(t.Context(), Owner{Tree: tree.Name()}, bound)
	if err != nil || len(left) > 0 || living(child) {
		t.Errorf("not ended: %v, %v", left, err)
	}
}

// The path of a descriptor is that of the mount namespace it was opened in, so the same path may be another file.
func TestSamePathIsNotSameFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a mount namespace with another file at the same path needs root")
	}
	tree := newTree(t)
	script := `mount -t tmpfs tmpfs "$1" && : > "$1/tree" && exec 9<"$1/tree" && echo ready && read wait`
	cmd := exec.Command("unshare", "--mount", "bash", "-c", strings.Replace(script, "9", itoa(TreeFD), 1), "-", filepath.Dir(tree.Name()))
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { in.Close(); _ = cmd.Wait() }()
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Skip("no mount namespace to be had here")
	}
	if to, err := os.Readlink("/proc/" + itoa(cmd.Process.Pid) + "/fd/" + itoa(TreeFD)); err != nil || to != tree.Name() {
		t.Fatalf("its descriptor is %s, %v: this tests nothing", to, err)
	}
	if got := find(t, Owner{Tree: tree.Name()}); len(got) > 0 {
		t.Errorf("found %v, which has another file", got)
	}
}

func TestTreeAtAnotherDescriptor(t *testing.T) {
	tree := newTree(t)
	elsewhere := startAs(t, nil, holding(tree, TreeFD-1), "idle").up()
	if got := find(t, Owner{Tree: tree.Name()}); len(got) > 0 {
		t.Errorf("found %v: %d has it elsewhere", got, elsewhere.PID)
	}
}

// Any user may write a marker, and open a file that is readable.
func TestMarkerOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user's")
	}
	tree, id := newTree(t), mark(t)
	p := startAs(t, []string{RunMark + "=" + id}, holding(tree, TreeFD), "stranger").up()
	if got := find(t, Owner{Tree: tree.Name()}); len(got) > 0 {
		t.Errorf("by the tree file: %v", got)
	}
	if got := find(t, Owner{RunID: id}); len(got) > 0 {
		t.Errorf("by the mark: %v", got)
	}
	if !living(p) {
		t.Error("it is gone: this tests nothing")
	}
}

func TestExecHandsTheTreeOn(t *testing.T) {
	tree, lease := newTree(t), newTree(t)
	c := run(t, Exec{Argv: sh(`ls -l /proc/$$/fd`), Lease: lease, Tree: tree})
	out, err := io.ReadAll(c.Stdout)
	must(t, err)
	for fd, file := range map[int]*os.File{3: lease, TreeFD: tree} {
		if !strings.Contains(string(out), " "+itoa(fd)+" -> "+file.Name()+"\n") {
			t.Errorf("descriptor %d is not %s:\n%s", fd, file.Name(), out)
		}
	}
	if n := strings.Count(string(out), " -> "); n != 5 {
		t.Errorf("%d descriptors:\n%s", n, out)
	}
	c = run(t, Exec{Argv: sh(`ls -l /proc/$$/fd; : 2>/dev/null >&` + itoa(TreeFD) + ` && echo written`), Tree: tree})
	out, err = io.ReadAll(c.Stdout)
	must(t, err)
	if n := strings.Count(string(out), " -> "); n != 4 || strings.Contains(string(out), "written") {
		t.Errorf("without a lease, %d descriptors:\n%s", n, out)
	}
}

func TestExecWithFewDescriptors(t *testing.T) {
	h := start(t, nil, "limited", filepath.Join(t.TempDir(), "tree"))
	if got := h.line("started"); got != "<nil>" {
		t.Errorf("started: %s", got)
	}
}

// Shells keep the descriptors that they inherit, so each process of a tree of shells holds the file.
func TestTreeReachesGrandchildrenOfShells(t *testing.T) {
	tree := newTree(t)
	c := run(t, Exec{
		Argv: []string{"bash", "-lc", `env -i setsid sh -c 'exec 3>&- 4>&1; echo up; exec sleep 1000' & read wait`},
		Env:  []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, PipeStdin: true, Tree: tree,
	})
	if _, err := io.ReadFull(c.Stdout, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sleep to be found", func() bool {
		procs, err := Find(Owner{Tree: tree.Name()})
		must(t, err)
		for _, p := range procs {
			if p.Name == "sleep" {
				return true
			}
		}
		return false
	})
	if left, err := KillTree(t.Context(), Owner{Tree: tree.Name()}, bound); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
