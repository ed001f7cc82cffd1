package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func init() {
	// leaderless ends its first thread, on which only initializations are sure to run, and
	// continues with the others.
	if slices.Contains(os.Args, "leaderless") {
		runtime.LockOSThread()
	}
	proctest.Helpers["leaderless"] = func([]string) error {
		go func() { _, _ = os.Stdin.Read(make([]byte, 1)); os.Exit(0) }()
		err := proctest.SayUp()
		syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		return err
	}
	proctest.Helpers["hidden"] = func(args []string) error {
		return errors.Join(proc.NonDumpable(), proctest.Idle(args))
	}
	proctest.Helpers["stranger"] = func(args []string) error {
		return errors.Join(syscall.Setuid(65534), proctest.Idle(args))
	}
	// find prints which processes it finds of the run that it is marked with itself.
	proctest.Helpers["find"] = func([]string) error {
		procs, err := Find(Owner{RunID: os.Getenv(host.RunMark)})
		proctest.Say("found", pids(procs))
		return err
	}
	// hydra starts another of its kind as soon as it gets SIGTERM, and ends: as many
	// generations as it has arguments.
	proctest.Helpers["hydra"] = func(args []string) error {
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		if err := proctest.SayUp(); err != nil || len(args) == 0 {
			return err
		}
		<-term
		cmd := exec.Command(os.Args[0], append([]string{proctest.HelperArg, "hydra"}, args[1:]...)...)
		cmd.Stdout = os.Stdout
		return cmd.Start()
	}
	// kill as another user tries to end a recorded process of root.
	proctest.Helpers["kill as another user"] = func(args []string) error {
		if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			return err
		}
		var p reconcile.Process
		_, err := fmt.Sscan(strings.Join(args, " "), &p.PID, &p.Start)
		boot, bootErr := proc.BootID()
		left, killErr := Kill(context.Background(), Owner{
			Recorded: []reconcile.Process{p},
			Boot:     boot,
		}, time.Hour)
		proctest.Say("left", pids(left))
		return errors.Join(err, bootErr, killErr)
	}
}

func pids(procs []reconcile.Process) (list []int) {
	for _, p := range procs {
		list = append(list, p.PID)
	}
	return list
}

func find(t *testing.T, o Owner) []int {
	t.Helper()
	procs := test.Must(Find(o))
	return pids(procs)
}

// wantFound checks that exactly one process belongs to an owner, or none (0).
func wantFound(t *testing.T, what string, o Owner, want int) {
	t.Helper()
	if got := find(t, o); want == 0 && len(got) > 0 || want != 0 && !slices.Equal(got, []int{want}) {
		t.Errorf("%s: found %v, want %d", what, got, want)
	}
}

// orphan starts a process in a new session, and its parent ends.
func orphan(t *testing.T, env []string, flags string, change func(*exec.Cmd)) reconcile.Process {
	t.Helper()
	h := proctest.StartAs(t, env, change, "spawn", "setsid,exit,"+flags, "idle")
	h.Up()
	child := h.Up()
	test.OK(t, h.Cmd.Wait())
	return child
}

func TestFindOrphanByMark(t *testing.T) {
	id := proctest.RunID(t)
	child := orphan(t, []string{host.RunMark + "=" + id}, "", func(*exec.Cmd) {})
	wantFound(t, "its run", Owner{RunID: id}, child.PID)
	wantFound(t, "another run", Owner{RunID: id + "x"}, 0)
	child = orphan(t, []string{host.ThreadMark + "=" + id}, "", func(*exec.Cmd) {})
	wantFound(t, "its thread", Owner{RunID: "another", ThreadID: id}, child.PID)
	wantFound(t, "another thread", Owner{ThreadID: id[1:]}, 0)
}

func TestFindOrphanWithoutEnvironmentByRecord(t *testing.T) {
	child := orphan(t, nil, "clear", func(*exec.Cmd) {})
	wantFound(t, "recorded", Owner{
		RunID:    proctest.RunID(t),
		Recorded: []reconcile.Process{child},
		Boot:     boot(t),
	}, child.PID)
	wantFound(t, "before a reboot", Owner{
		Recorded: []reconcile.Process{child},
		Boot:     "another boot",
	}, 0)
	wantFound(t, "in an unknown boot", Owner{Recorded: []reconcile.Process{child}}, 0)
	child.Start++
	wantFound(t, "another start time", Owner{
		Recorded: []reconcile.Process{child},
		Boot:     boot(t),
	}, 0)
}

// holding passes the file to the child as descriptor fd.
func holding(f *os.File, fd int) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.ExtraFiles = append(make([]*os.File, fd-proc.FirstExtra), f) }
}

func newTree(t *testing.T) *os.File {
	t.Helper()
	f := test.Must(OpenTree(filepath.Join(t.TempDir(), "tree")))
	t.Cleanup(func() { f.Close() })
	return f
}

// A process that has cleared its environment, left its session and its parent, and was not
// recorded.
func TestFindOrphanByTree(t *testing.T) {
	tree := newTree(t)
	child := orphan(t, nil, "clear,keep", holding(tree, TreeFD)).PID
	wantFound(t, "by the tree file", Owner{Tree: tree.Name()}, child)
	wantFound(t, "beside a mark", Owner{RunID: proctest.RunID(t), Tree: tree.Name()}, child)
	wantFound(t, "another run's", Owner{Tree: newTree(t).Name()}, 0)
	wantFound(t, "one with a longer name", Owner{Tree: tree.Name()[:len(tree.Name())-1]}, 0)
	link := filepath.Join(t.TempDir(), "link")
	test.OK(t, os.Symlink(filepath.Dir(tree.Name()), link))
	wantFound(t, "by way of a link", Owner{Tree: filepath.Join(link, "tree")}, child)
	test.OK(t, os.Remove(tree.Name()))
	wantFound(t, "after the file was removed", Owner{Tree: tree.Name()}, child)
	other := test.Must(OpenTree(tree.Name()))
	defer other.Close()
	wantFound(t, "after it was replaced", Owner{Tree: tree.Name()}, child)
	wantAllEnded(t, Owner{Tree: tree.Name()}, test.Patience())
	proctest.StartAs(t, nil, holding(other, TreeFD-1), "idle").Up()
	wantFound(t, "at another descriptor", Owner{Tree: tree.Name()}, 0)
}

// The path of a descriptor belongs to the mount namespace in which it was opened, so the same
// path may be another file.
func TestSamePathIsNotSameFile(t *testing.T) {
	proctest.NeedsRoot(t)
	tree := newTree(t)
	script := `mount -t tmpfs tmpfs "$1" && : > "$1/tree" && exec ` + strconv.Itoa(
		TreeFD,
	) + `<"$1/tree" && echo ready && read wait`
	c := run(t, host.StartRequest{
		Argv: []string{"unshare", "--mount", "bash", "-c", script, "-", filepath.Dir(tree.Name())},
		Env:  os.Environ(),
	}, nil, nil)
	if _, err := io.ReadFull(c.Stdout(), make([]byte, 6)); err != nil {
		t.Skip("no mount namespace to be had here")
	}
	to, err := os.Readlink(proc.Path(c.Process().PID, "fd/"+strconv.Itoa(TreeFD)))
	test.Equal(t, "error and descriptor", []any{err, to}, []any{nil, tree.Name()})
	wantFound(t, "another file", Owner{Tree: tree.Name()}, 0)
}

// Shells keep the descriptors that they inherit, so each process in a tree of shells has the
// file open.
func TestTreeReachesGrandchildrenOfShells(t *testing.T) {
	tree := newTree(t)
	c := run(t, host.StartRequest{
		Argv: []string{
			"bash",
			"-lc",
			`env -i setsid sh -c 'exec 3>&- 4>&1; echo up; exec sleep 1000' & read wait`,
		},
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
	}, nil, tree)
	startsWith(t, c, "up\n")
	test.Until(t, "the sleep to be found", func() bool {
		procs := test.Must(Find(Owner{Tree: tree.Name()}))
		return slices.ContainsFunc(procs, func(p reconcile.Process) bool { return p.Name == "sleep" })
	})
	wantAllEnded(t, Owner{Tree: tree.Name()}, test.Patience())
}

// Any user can set a marker, and open a readable file.
func TestMarkerOfAnotherUser(t *testing.T) {
	proctest.NeedsRoot(t)
	tree := newTree(t)
	id := proctest.RunID(t)
	proctest.StartAs(t, []string{host.RunMark + "=" + id}, holding(tree, TreeFD), "stranger").Up()
	wantFound(t, "another user's", Owner{RunID: id, Tree: tree.Name()}, 0)
}

// A process without any marker is found by the session of its worker, even if the worker has
// ended, and by its working directory.
func TestFindBySession(t *testing.T) {
	root := test.Must(filepath.EvalSymlinks(t.TempDir()))
	for _, flags := range []string{"clear", "clear,exit"} {
		h := proctest.StartAs(t, nil, func(c *exec.Cmd) {
			c.Dir = root
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}, "spawn", flags, "idle")
		leader := h.Up()
		child := h.Up()
		if flags == "clear,exit" {
			test.OK(t, h.Cmd.Wait())
		}
		earlier := leader
		younger := leader
		earlier.Start--
		younger.Start = child.Start + 1
		for what, o := range map[string]Owner{
			"its folder":       {Worker: leader, Folder: root, Boot: boot(t)},
			"the folder above": {Worker: leader, Folder: filepath.Dir(root), Boot: boot(t)},
		} {
			wantFound(t, flags+": "+what, o, child.PID)
		}
		for what, o := range map[string]Owner{
			"a folder beside it": {Worker: leader, Folder: root + "x", Boot: boot(t)},
			"one that its name begins with": {
				Worker: leader,
				Folder: root[:len(root)-1],
				Boot:   boot(t),
			},
			"no folder": {Worker: leader, Boot: boot(t)},
			"another boot": {
				Worker: leader,
				Folder: root,
				Boot:   "another boot",
			},
			"another session":                  {Worker: child, Folder: root, Boot: boot(t)},
			"a worker younger than its member": {Worker: younger, Folder: root, Boot: boot(t)},
		} {
			wantFound(t, flags+": "+what, o, 0)
		}
		// the number alone tells them apart once the leader has ended; until then it is a
		// stranger's
		if flags == "clear" {
			wantFound(t, "a leader of another start time", Owner{
				Worker: earlier,
				Folder: root,
				Boot:   boot(t),
			}, 0)
		}
	}
}

func TestFindByDescent(t *testing.T) {
	h := proctest.Start(t, nil, "spawn", "setsid,clear", "idle")
	parent := h.Up()
	child := h.Up()
	wantFound(t, "below a worker", Owner{
		Worker:      parent,
		Descendants: true,
		Boot:        boot(t),
	}, child.PID)
	wantFound(t, "beside a worker", Owner{Worker: parent, Boot: boot(t)}, 0)
	if got := find(t, Owner{
		Recorded: []reconcile.Process{parent},
		Boot:     boot(t),
	}); len(got) != 2 || !slices.Contains(got, child.PID) {
		t.Errorf("below a recorded one: %v, want %d and %d", got, parent.PID, child.PID)
	}
	self := test.Must(proc.Self())
	ours := Owner{
		Worker:      reconcile.Process{PID: self.PID, Start: self.Start},
		Descendants: true,
		Boot:        self.Boot,
	}
	if got := find(t, ours); !slices.Contains(got, parent.PID) || !slices.Contains(got, child.PID) ||
		slices.Contains(got, os.Getpid()) {
		t.Errorf("below ourselves: %v", got)
	}
	ours.Spare = parent.PID
	got := find(t, ours)
	test.Equal(
		t,
		"Spare is found",
		[]bool{slices.Contains(got, parent.PID), slices.Contains(got, child.PID)},
		[]bool{false, false},
	)
	below := test.Must(proc.Descendants(parent.PID))
	child.Name = below[0].Name
	test.Equal(t, "descendants", below, []reconcile.Process{child})
}

func TestFindSparesItselfAndItsAncestors(t *testing.T) {
	env := []string{host.RunMark + "=" + proctest.RunID(t)}
	other := proctest.Start(t, env, "idle").Up()
	h := proctest.Start(t, env, "spawn", "setsid", "find")
	h.Up()
	test.Equal(t, "found", h.Line("found"), fmt.Sprint([]int{other.PID}))
}

func TestProcessTree(t *testing.T) {
	me := os.Getpid()
	entries := []proc.Entry{
		{PID: 1, Parent: 0, Start: 1, Name: "init"},
		{PID: 100, Parent: 1, Start: 10},
		{PID: 101, Parent: 100, Start: 11},
		{PID: 102, Parent: 101, Start: 12},
		{PID: 103, Parent: 100, Start: 5}, // older than its parent: the pid changed hands
		{PID: 300, Parent: 301, Start: 30},
		{PID: 301, Parent: 300, Start: 30}, // a circle, read while pids changed hands
		{PID: 400, Parent: 1, Start: 40},
		{PID: me, Parent: 400, Start: 41},
		{PID: 402, Parent: me, Start: 42},
	}
	for pid, want := range map[int][]int{
		100: {100, 101, 102}, 101: {101, 102}, 300: {300, 301}, 999: nil,
		400: {402},                // without this process and its ancestors
		1:   {100, 101, 102, 402}, // without init
	} {
		tree := newProcessTree(entries)
		tree.claim(pid)
		test.Equal(t, strconv.Itoa(pid), pids(tree.list()), want)
	}
}

func TestContainsEntry(t *testing.T) {
	entries, _ := Owner{RunID: "run-1", ThreadID: "t-1"}.marker()
	for env, want := range map[string]bool{
		"":                                    false,
		"SYMPHONY_RUN_ID=run-1\x00":           true,
		"A=b\x00SYMPHONY_RUN_ID=run-1":        true,
		"A=b\x00SYMPHONY_RUN_ID=run-1\x00C=d": true,
		"SYMPHONY_RUN_ID=run-12\x00":          false,
		"XSYMPHONY_RUN_ID=run-1\x00":          false,
		"A=SYMPHONY_RUN_ID=run-1\x00":         false,
		"SYMPHONY_RUN_ID=\x00":                false,
		"CODEX_THREAD_ID=\x00":                false,
		"CODEX_THREAD_ID=t-1\x00X=y\x00":      true,
		"CODEX_SESSION_ID=t-1\x00":            false,
	} {
		test.Equal(t, env, containsEntry(env, entries), want)
	}
	env, tree := (Owner{}).marker()
	test.Equal(t, "the marker of an owner without ids", []any{len(env), tree}, []any{0, ""})
}

func TestZombieIsDead(t *testing.T) {
	id := proctest.RunID(t)
	cmd := exec.Command("true")
	cmd.Env = []string{host.RunMark + "=" + id}
	test.OK(t, cmd.Start())
	e := test.Must(proc.Stat(cmd.Process.Pid))
	p := e.Process()
	proc.AwaitExit(p.PID)
	test.Equal(t, "a zombie counts as alive", proctest.Living(p) || proc.SameProcess(reconcile.Handle{
		Boot:  boot(t),
		PID:   p.PID,
		Start: p.Start,
	}), false)
	test.ErrorIs(t, "signal", proc.Signal(p, unix.SIGTERM), os.ErrProcessDone)
	wantFound(t, "a zombie", Owner{RunID: id, Recorded: []reconcile.Process{p}, Boot: boot(t)}, 0)
	test.OK(t, cmd.Wait())
}

// A zombie does not delay the end of its group.
func TestEndGroupOfZombies(t *testing.T) {
	leader := exec.Command("true")
	member := exec.Command("true")
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.OK(t, leader.Start())
	proc.AwaitExit(leader.Process.Pid)
	member.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader.Process.Pid}
	test.OK(t, member.Start())
	proc.AwaitExit(member.Process.Pid)
	test.OK(t, leader.Wait())
	ended := make(chan struct{})
	go func() { defer close(ended); endGroup(leader.Process.Pid, time.Hour) }()
	select {
	case <-ended:
	case <-time.After(test.Patience()):
		t.Error("it waits for a zombie")
	}
	test.OK(t, member.Wait())
}

func TestProcessWhoseFirstThreadEndedIsAlive(t *testing.T) {
	h := proctest.Start(t, nil, "leaderless")
	p := h.Up()
	test.Until(t, "the first thread to end", func() bool {
		b := test.Must(os.ReadFile(proc.Path(p.PID, "stat")))
		return strings.Contains(string(b), ") Z ")
	})
	wantFound(t, "without its first thread", Owner{
		Recorded: []reconcile.Process{p},
		Boot:     boot(t),
	}, p.PID)
	test.OK(t, proc.Signal(p, unix.SIGKILL))
	_ = h.Cmd.Wait()
	test.Equal(t, "it survived", proctest.Living(p), false)
}

func TestHiddenWorkerIsFoundByItsRecord(t *testing.T) {
	p := proctest.Start(t, nil, "hidden").Up()
	wantFound(t, "by its record", Owner{Recorded: []reconcile.Process{p}, Boot: boot(t)}, p.PID)
	test.OK(t, proc.Signal(p, unix.SIGTERM))
}

func TestKillTree(t *testing.T) {
	id := proctest.RunID(t)
	env := []string{host.RunMark + "=" + id}
	polite := proctest.Start(t, env, "idle")
	stopped := proctest.Start(t, env, "idle")
	hydra := proctest.Start(t, env, "hydra", "1", "2", "3")
	ours := []reconcile.Process{polite.Up(), stopped.Up(), hydra.Up()}
	test.OK(t, proc.Signal(ours[1], unix.SIGSTOP))
	bystander := proctest.Start(t, nil, "idle").Up()
	proctest.KeepsDescriptors(t)
	wantAllEnded(t, Owner{RunID: id}, test.Patience())
	deaf := proctest.Start(t, env, "idle", "deaf")
	chain := proctest.Start(t, env, "spawn", "setsid,clear", "idle", "deaf")
	ours = append(ours, deaf.Up(), chain.Up(), chain.Up())
	wantAllEnded(t, Owner{RunID: id}, 50*time.Millisecond)
	wantFound(t, "afterwards", Owner{RunID: id, Recorded: ours, Boot: boot(t)}, 0)
	test.Equal(t, "the bystander lives", proctest.Living(bystander), true)
	for h, want := range map[*proctest.Helper]string{
		polite:  "signal: terminated",
		stopped: "signal: terminated",
		deaf:    "signal: killed",
	} {
		test.Equal(t, "end", fmt.Sprint(h.Cmd.Wait()), want)
	}
}

func TestKillTreeNamesWhatIsLeft(t *testing.T) {
	id := proctest.RunID(t)
	p := proctest.Start(t, []string{host.RunMark + "=" + id}, "idle", "deaf").Up()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left, err := Kill(ctx, Owner{RunID: id}, time.Hour)
	if !errors.Is(err, context.Canceled) || len(left) != 1 || left[0].PID != p.PID || left[0].Name == "" {
		t.Fatalf("left %+v, %v", left, err)
	}
	if os.Geteuid() == 0 {
		h := proctest.Start(
			t,
			nil,
			"kill as another user",
			strconv.Itoa(p.PID),
			strconv.FormatUint(p.Start, 10),
		)
		test.Equal(
			t,
			"processes left, and whether the process lives",
			[]any{h.Line("left"), proctest.Living(p)},
			[]any{fmt.Sprint([]int{p.PID}), true},
		)
	}
	// Grace leaves half of the time to SIGKILL, which a busy machine may need.
	for limit := 100 * time.Millisecond; err != nil && limit < test.Patience(); limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		left, err = Kill(ctx, Owner{RunID: id}, time.Hour)
		cancel()
	}
	test.OK(t, err)
	test.Equal(t, "left in time", pids(left), nil)
}

func init() {
	// start many starts children as a worker does: from a process that may not be looked into.
	proctest.Helpers["start many"] = func([]string) error {
		return errors.Join(proc.NonDumpable(), proctest.SideBySide(30, func() error {
			c, err := Start(host.StartRequest{Argv: []string{"bash", "-c", ":"}}, nil, nil)
			if err == nil {
				_, err = c.Close()
			}
			return err
		}))
	}
}

// With the mount option hidepid, a child is hidden until its exec is over. It must not count
// as ended.
func TestStartWithHiddenProcesses(t *testing.T) {
	for _, hidepid := range []string{"1", "2"} {
		test.Equal(t, hidepid, proctest.AmongHidden(t, hidepid, "", "start many"), "")
	}
}

// A process that opens the tree file of a run is not one of the run, however many descriptors
// it has open.
func TestOpenTreeDoesNotMarkThisProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree")
	for range TreeFD {
		f := test.Must(OpenTree(path))
		t.Cleanup(func() { f.Close() })
		test.Equal(t, "the tree file has another descriptor", f.Fd() != TreeFD, true)
		if f.Fd() > TreeFD {
			return
		}
	}
	t.Fatal("no descriptor reached TreeFD")
}

// A process is found while it begins another program, too, when the system shows no
// environment of it.
func TestFindDuringExec(t *testing.T) {
	const again = `exec sh -c "$0" "$0"`
	cmd := exec.Command("sh", "-c", again, again)
	id := fmt.Sprintf("execs-%d", os.Getpid()) // the same test may run elsewhere on this machine
	cmd.Env = append(os.Environ(), host.RunMark+"="+id)
	test.OK(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for range 500 {
		found, err := Find(Owner{RunID: id})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
	}
}
