package proc

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
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

func init() {
	// leaderless ends its first thread and continues with the others.
	helpers["leaderless"] = func([]string) error {
		runtime.LockOSThread() // main still runs on the first thread
		go func() { _, _ = os.Stdin.Read(make([]byte, 1)); os.Exit(0) }()
		err := sayUp()
		syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
		return err
	}
	helpers["hidden"] = func(args []string) error { return errors.Join(NonDumpable(), idle(args)) }
	helpers["stranger"] = func(args []string) error { return errors.Join(syscall.Setuid(65534), idle(args)) }
	// find prints which processes it finds of the run that it is marked with itself.
	helpers["find"] = func([]string) error {
		procs, err := Find(Owner{RunID: os.Getenv(host.RunMark)})
		say("found", pids(procs))
		return err
	}
	// hydra starts another of its kind as soon as it gets SIGTERM, and ends: as many generations as it has arguments.
	helpers["hydra"] = func(args []string) error {
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		if err := sayUp(); err != nil || len(args) == 0 {
			return err
		}
		<-term
		cmd := exec.Command(os.Args[0], append([]string{helperArg, "hydra"}, args[1:]...)...)
		cmd.Stdout = os.Stdout
		return cmd.Start()
	}
	// kill as another user tries to end a recorded process of root.
	helpers["kill as another user"] = func(args []string) error {
		if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			return err
		}
		var p reconcile.Process
		_, err := fmt.Sscan(strings.Join(args, " "), &p.PID, &p.Start)
		boot, bootErr := BootID()
		left, killErr := KillTree(context.Background(), Owner{Recorded: []reconcile.Process{p}, Boot: boot}, time.Hour)
		say("left", pids(left))
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
	h := startAs(t, env, change, "spawn", "setsid,exit,"+flags, "idle")
	h.up()
	child := h.up()
	test.OK(t, h.cmd.Wait())
	return child
}

func TestFindOrphanByMark(t *testing.T) {
	id := runID(t)
	child := orphan(t, []string{host.RunMark + "=" + id}, "", func(*exec.Cmd) {})
	wantFound(t, "its run", Owner{RunID: id}, child.PID)
	wantFound(t, "another run", Owner{RunID: id + "x"}, 0)
	child = orphan(t, []string{host.ThreadMark + "=" + id}, "", func(*exec.Cmd) {})
	wantFound(t, "its thread", Owner{RunID: "another", ThreadID: id}, child.PID)
	wantFound(t, "another thread", Owner{ThreadID: id[1:]}, 0)
}

func TestFindOrphanWithoutEnvironmentByRecord(t *testing.T) {
	child := orphan(t, nil, "clear", func(*exec.Cmd) {})
	wantFound(t, "recorded", Owner{RunID: runID(t), Recorded: []reconcile.Process{child}, Boot: boot(t)}, child.PID)
	wantFound(t, "before a reboot", Owner{Recorded: []reconcile.Process{child}, Boot: "another boot"}, 0)
	wantFound(t, "in an unknown boot", Owner{Recorded: []reconcile.Process{child}}, 0)
	child.Start++
	wantFound(t, "another start time", Owner{Recorded: []reconcile.Process{child}, Boot: boot(t)}, 0)
}

// holding passes the file to the child as descriptor fd.
func holding(f *os.File, fd int) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.ExtraFiles = append(make([]*os.File, fd-FirstExtra), f) }
}

func newTree(t *testing.T) *os.File {
	t.Helper()
	f := test.Must(OpenTree(filepath.Join(t.TempDir(), "tree")))
	t.Cleanup(func() { f.Close() })
	return f
}

// A process that has cleared its environment, left its session and its parent, and was not recorded.
func TestFindOrphanByTree(t *testing.T) {
	tree := newTree(t)
	child := orphan(t, nil, "clear,keep", holding(tree, TreeFD)).PID
	wantFound(t, "by the tree file", Owner{Tree: tree.Name()}, child)
	wantFound(t, "beside a mark", Owner{RunID: runID(t), Tree: tree.Name()}, child)
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
	startAs(t, nil, holding(other, TreeFD-1), "idle").up()
	wantFound(t, "at another descriptor", Owner{Tree: tree.Name()}, 0)
}

// The path of a descriptor belongs to the mount namespace in which it was opened, so the same path may be another file.
func TestSamePathIsNotSameFile(t *testing.T) {
	needsRoot(t)
	tree := newTree(t)
	script := `mount -t tmpfs tmpfs "$1" && : > "$1/tree" && exec ` + strconv.Itoa(TreeFD) + `<"$1/tree" && echo ready && read wait`
	c := run(t, host.StartRequest{Argv: []string{"unshare", "--mount", "bash", "-c", script, "-", filepath.Dir(tree.Name())}, Env: os.Environ()}, nil, nil)
	if _, err := io.ReadFull(c.Stdout(), make([]byte, 6)); err != nil {
		t.Skip("no mount namespace to be had here")
	}
	to, err := os.Readlink(procPath(c.Process().PID, "fd/"+strconv.Itoa(TreeFD)))
	test.Equal(t, "error and descriptor", []any{err, to}, []any{nil, tree.Name()})
	wantFound(t, "another file", Owner{Tree: tree.Name()}, 0)
}

// Shells keep the descriptors that they inherit, so each process in a tree of shells has the file open.
func TestTreeReachesGrandchildrenOfShells(t *testing.T) {
	tree := newTree(t)
	c := run(t, host.StartRequest{
		Argv: []string{"bash", "-lc", `env -i setsid sh -c 'exec 3>&- 4>&1; echo up; exec sleep 1000' & read wait`},
		Env:  []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
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
	needsRoot(t)
	tree, id := newTree(t), runID(t)
	startAs(t, []string{host.RunMark + "=" + id}, holding(tree, TreeFD), "stranger").up()
	wantFound(t, "another user's", Owner{RunID: id, Tree: tree.Name()}, 0)
}

// A process without any marker is found by the session of its worker, even if the worker has ended, and by its working directory.
func TestFindBySession(t *testing.T) {
	root := test.Must(filepath.EvalSymlinks(t.TempDir()))
	for _, flags := range []string{"clear", "clear,exit"} {
		h := startAs(t, nil, func(c *exec.Cmd) { c.Dir, c.SysProcAttr = root, &syscall.SysProcAttr{Setsid: true} }, "spawn", flags, "idle")
		leader, child := h.up(), h.up()
		if flags == "clear,exit" {
			test.OK(t, h.cmd.Wait())
		}
		earlier, younger := leader, leader
		earlier.Start--
		younger.Start = child.Start + 1
		for what, o := range map[string]Owner{
			"its folder": {Worker: leader, Folder: root, Boot: boot(t)}, "the folder above": {Worker: leader, Folder: filepath.Dir(root), Boot: boot(t)},
		} {
			wantFound(t, flags+": "+what, o, child.PID)
		}
		for what, o := range map[string]Owner{
			"a folder beside it":               {Worker: leader, Folder: root + "x", Boot: boot(t)},
			"one that its name begins with":    {Worker: leader, Folder: root[:len(root)-1], Boot: boot(t)},
			"no folder":                        {Worker: leader, Boot: boot(t)},
			"another boot":                     {Worker: leader, Folder: root, Boot: "another boot"},
			"another session":                  {Worker: child, Folder: root, Boot: boot(t)},
			"a worker younger than its member": {Worker: younger, Folder: root, Boot: boot(t)},
		} {
			wantFound(t, flags+": "+what, o, 0)
		}
		if flags == "clear" { // the number alone tells them apart once the leader has ended; until then it is a stranger's
			wantFound(t, "a leader of another start time", Owner{Worker: earlier, Folder: root, Boot: boot(t)}, 0)
		}
	}
}

func TestFindByDescent(t *testing.T) {
	h := start(t, nil, "spawn", "setsid,clear", "idle")
	parent, child := h.up(), h.up()
	wantFound(t, "below a worker", Owner{Worker: parent, Below: true, Boot: boot(t)}, child.PID)
	wantFound(t, "beside a worker", Owner{Worker: parent, Boot: boot(t)}, 0)
	if got := find(t, Owner{Recorded: []reconcile.Process{parent}, Boot: boot(t)}); len(got) != 2 || !slices.Contains(got, child.PID) {
		t.Errorf("below a recorded one: %v, want %d and %d", got, parent.PID, child.PID)
	}
	self := test.Must(Self())
	ours := Owner{Worker: reconcile.Process{PID: self.PID, Start: self.Start}, Below: true, Boot: self.Boot}
	if got := find(t, ours); !slices.Contains(got, parent.PID) || !slices.Contains(got, child.PID) || slices.Contains(got, os.Getpid()) {
		t.Errorf("below ourselves: %v", got)
	}
	ours.Spare = parent.PID
	got := find(t, ours)
	test.Equal(t, "Spare is found", []bool{slices.Contains(got, parent.PID), slices.Contains(got, child.PID)}, []bool{false, false})
	below := test.Must(Descendants(parent.PID))
	child.Name = below[0].Name
	test.Equal(t, "descendants", below, []reconcile.Process{child})
}

func TestFindSparesItselfAndItsAncestors(t *testing.T) {
	env := []string{host.RunMark + "=" + runID(t)}
	other := start(t, env, "idle").up()
	h := start(t, env, "spawn", "setsid", "find")
	h.up()
	test.Equal(t, "found", h.line("found"), fmt.Sprint([]int{other.PID}))
}

func TestProcessTree(t *testing.T) {
	me := os.Getpid()
	entries := []entry{
		{pid: 1, ppid: 0, start: 1, name: "init"},
		{pid: 100, ppid: 1, start: 10},
		{pid: 101, ppid: 100, start: 11},
		{pid: 102, ppid: 101, start: 12},
		{pid: 103, ppid: 100, start: 5}, // older than its parent: the pid changed hands
		{pid: 300, ppid: 301, start: 30},
		{pid: 301, ppid: 300, start: 30}, // a circle, read while pids changed hands
		{pid: 400, ppid: 1, start: 40},
		{pid: me, ppid: 400, start: 41},
		{pid: 402, ppid: me, start: 42},
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
		"": false, "SYMPHONY_RUN_ID=run-1\x00": true, "A=b\x00SYMPHONY_RUN_ID=run-1": true, "A=b\x00SYMPHONY_RUN_ID=run-1\x00C=d": true,
		"SYMPHONY_RUN_ID=run-12\x00": false, "XSYMPHONY_RUN_ID=run-1\x00": false, "A=SYMPHONY_RUN_ID=run-1\x00": false,
		"SYMPHONY_RUN_ID=\x00": false, "CODEX_THREAD_ID=\x00": false, "CODEX_THREAD_ID=t-1\x00X=y\x00": true, "CODEX_SESSION_ID=t-1\x00": false,
	} {
		test.Equal(t, env, containsEntry(env, entries), want)
	}
	env, tree := (Owner{}).marker()
	test.Equal(t, "the marker of an owner without ids", []any{len(env), tree}, []any{0, ""})
}

func TestParseStat(t *testing.T) {
	tail := " 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3\n"
	threads := strings.Replace(tail, " 20 0 1 0 ", " 20 0 2 0 ", 1)
	for line, want := range map[string]entry{
		"7 (sh) S 3 1" + tail:          {pid: 7, group: 1, session: 5, ppid: 3, start: 4711, name: "sh"},
		"7 (a) b (c)) R 3 1" + tail:    {pid: 7, group: 1, session: 5, ppid: 3, start: 4711, name: "a) b (c)"},
		"7 (a\nb) Z 9 9) Z 3 1" + tail: {pid: 7, group: 1, session: 5, ppid: 3, start: 4711, name: "a\nb) Z 9 9", dead: true},
		"7 () X 3 1" + tail:            {pid: 7, group: 1, session: 5, ppid: 3, start: 4711, dead: true},
		"7 (t) Z 3 1" + threads:        {pid: 7, group: 1, session: 5, ppid: 3, start: 4711, name: "t"},
		"7 (ending) R 3 1" + strings.Replace(tail, " 5 ", " -1 ", 1): {pid: 7, group: 1, ppid: 3, start: 4711, name: "ending"},
	} {
		if got, err := parseStat(line); err != nil || got != want {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "7", "7 sh S 3", "7 (sh", "x (sh) S 3 1" + tail, "7 (sh) S 3 1 1", ") (", "7 (sh) S x 1" + tail} {
		if e, err := parseStat(line); err == nil {
			t.Errorf("%q: %+v and no error", line, e)
		}
	}
}

func TestZombieIsDead(t *testing.T) {
	id := runID(t)
	cmd := exec.Command("true")
	cmd.Env = []string{host.RunMark + "=" + id}
	test.OK(t, cmd.Start())
	e := test.Must(statOf(cmd.Process.Pid))
	p := e.process()
	awaitExit(p.PID)
	test.Equal(t, "a zombie counts as alive", living(p) || SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}), false)
	test.ErrorIs(t, "signal", Signal(p, unix.SIGTERM), os.ErrProcessDone)
	wantFound(t, "a zombie", Owner{RunID: id, Recorded: []reconcile.Process{p}, Boot: boot(t)}, 0)
	test.OK(t, cmd.Wait())
}

// A zombie does not delay the end of its group.
func TestEndGroupOfZombies(t *testing.T) {
	leader, member := exec.Command("true"), exec.Command("true")
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	test.OK(t, leader.Start())
	awaitExit(leader.Process.Pid)
	member.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: leader.Process.Pid}
	test.OK(t, member.Start())
	awaitExit(member.Process.Pid)
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
	h := start(t, nil, "leaderless")
	p := h.up()
	test.Until(t, "the first thread to end", func() bool {
		b := test.Must(os.ReadFile(procPath(p.PID, "stat")))
		return strings.Contains(string(b), ") Z ")
	})
	wantFound(t, "without its first thread", Owner{Recorded: []reconcile.Process{p}, Boot: boot(t)}, p.PID)
	test.OK(t, Signal(p, unix.SIGKILL))
	_ = h.cmd.Wait()
	test.Equal(t, "it survived", living(p), false)
}

func TestSignalNeverReachesAnother(t *testing.T) {
	h := start(t, []string{"IDLE_EOF=1"}, "idle")
	p := h.up()
	self := test.Must(Self())
	test.Equal(t, "self is the same process", SameProcess(self), true)
	for name, q := range map[string]reconcile.Process{
		"another start": {PID: p.PID, Start: p.Start + 1}, "no start": {PID: p.PID}, "init": {PID: 1, Start: 1}, "pid 0": {PID: 0, Start: 1},
		"a group": {PID: -p.PID, Start: p.Start}, "ourselves": {PID: os.Getpid(), Start: self.Start}, "beyond the end": {PID: 1 << 30, Start: 5},
	} {
		test.Equal(t, name+": an error is returned", Signal(q, unix.SIGKILL) != nil, true)
	}
	for _, other := range []reconcile.Handle{{Boot: "x", PID: p.PID, Start: p.Start}, {Boot: self.Boot, PID: p.PID, Start: p.Start + 1}, {Boot: self.Boot, PID: p.PID}, {}} {
		test.Equal(t, fmt.Sprintf("%+v is the same", other), SameProcess(other), false)
	}
	h.stdin.Close() // it ends by itself, which it could not if any of these had hit it
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("another process was signalled: %v", err)
	}
}

func TestHiddenWorkerIsFoundByItsRecord(t *testing.T) {
	p := start(t, nil, "hidden").up()
	wantFound(t, "by its record", Owner{Recorded: []reconcile.Process{p}, Boot: boot(t)}, p.PID)
	test.OK(t, Signal(p, unix.SIGTERM))
}

func TestEnviron(t *testing.T) {
	up := start(t, []string{"ONE=1", "TWO=a b\nc=d", "NONE="}, "idle").up()
	test.Equal(t, "environment", test.Must(Environ(up)), []string{"PATH=" + os.Getenv("PATH"), "ONE=1", "TWO=a b\nc=d", "NONE="})
	up.Start++ // another that has its number since is not meant
	test.ErrorIs(t, "of another process", test.Err(Environ(up)), os.ErrProcessDone)
}

func TestKillTree(t *testing.T) {
	id := runID(t)
	env := []string{host.RunMark + "=" + id}
	polite, stopped, hydra := start(t, env, "idle"), start(t, env, "idle"), start(t, env, "hydra", "1", "2", "3")
	ours := []reconcile.Process{polite.up(), stopped.up(), hydra.up()}
	test.OK(t, Signal(ours[1], unix.SIGSTOP))
	bystander := start(t, nil, "idle").up()
	keepsDescriptors(t)
	wantAllEnded(t, Owner{RunID: id}, test.Patience())
	deaf, chain := start(t, env, "idle", "deaf"), start(t, env, "spawn", "setsid,clear", "idle", "deaf")
	ours = append(ours, deaf.up(), chain.up(), chain.up())
	wantAllEnded(t, Owner{RunID: id}, 50*time.Millisecond)
	wantFound(t, "afterwards", Owner{RunID: id, Recorded: ours, Boot: boot(t)}, 0)
	test.Equal(t, "the bystander lives", living(bystander), true)
	for h, want := range map[*helper]string{polite: "signal: terminated", stopped: "signal: terminated", deaf: "signal: killed"} {
		test.Equal(t, "end", fmt.Sprint(h.cmd.Wait()), want)
	}
}

func TestKillTreeNamesWhatIsLeft(t *testing.T) {
	id := runID(t)
	p := start(t, []string{host.RunMark + "=" + id}, "idle", "deaf").up()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left, err := KillTree(ctx, Owner{RunID: id}, time.Hour)
	if !errors.Is(err, context.Canceled) || len(left) != 1 || left[0].PID != p.PID || left[0].Name == "" {
		t.Fatalf("left %+v, %v", left, err)
	}
	if os.Geteuid() == 0 {
		h := start(t, nil, "kill as another user", strconv.Itoa(p.PID), strconv.FormatUint(p.Start, 10))
		test.Equal(t, "processes left, and whether the process lives", []any{h.line("left"), living(p)}, []any{fmt.Sprint([]int{p.PID}), true})
	}
	// Grace leaves half of the time to SIGKILL, which a busy machine may need.
	for limit := 100 * time.Millisecond; err != nil && limit < test.Patience(); limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		left, err = KillTree(ctx, Owner{RunID: id}, time.Hour)
		cancel()
	}
	test.OK(t, err)
	test.Equal(t, "left in time", pids(left), nil)
}

// hiddenUID is a user that sees only its processes in a /proc with hidepid.
const hiddenUID = 20790

func init() {
	// start many starts children as a worker does: from a process that may not be looked into.
	helpers["start many"] = func([]string) error {
		return errors.Join(NonDumpable(), sideBySide(30, func() error {
			c, err := Start(host.StartRequest{Argv: []string{"bash", "-c", ":"}}, nil, nil)
			if err == nil {
				_, err = c.Close()
			}
			return err
		}))
	}
	// detach many starts workers as a pass does.
	helpers["detach many"] = func([]string) error {
		return sideBySide(8, func() error {
			d, err := Detach(Spawn{Exe: os.Args[0], Argv: []string{"", helperArg, "worker", "hide"}, Env: os.Environ(), Wait: test.Patience()})
			if err == nil {
				err = d.Ready(context.Background())
			}
			return err
		})
	}
	helpers["workers"] = func(args []string) error {
		found, err := Workers(args[0])
		for run := range found {
			say(run)
		}
		return err
	}
}

// sideBySide calls do so many times in each of eight goroutines, to provoke a race.
func sideBySide(times int, do func() error) error {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			for range times {
				errs[i] = errors.Join(errs[i], do())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// amongHidden runs a helper as another user where /proc hides the processes of others, after the shell commands in before.
func amongHidden(t *testing.T, hidepid, before string, helper ...string) string {
	t.Helper()
	needsRoot(t)
	program := filepath.Join(t.TempDir(), "helper")
	test.OK(t, exec.Command("cp", os.Args[0], program).Run())
	for dir := filepath.Dir(program); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		test.OK(t, os.Chmod(dir, 0o755))
	}
	script := fmt.Sprintf(`mount -o remount,hidepid=%[1]s /proc || exit 77
as() { setpriv --reuid %[2]d --regid %[2]d --clear-groups "$@"; }
%[3]s
as "$@"`, hidepid, hiddenUID, before)
	cmd := exec.Command("unshare", append([]string{
		"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script, "-", program, helperArg,
	}, helper...)...)
	var said strings.Builder
	cmd.Dir, cmd.Stderr = "/", &said // a test that measures its coverage adds to this
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 || strings.Contains(said.String(), "unshare: ") {
		t.Skipf("no /proc of our own to be had: %v: %s", err, said.String())
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, said.String())
	}
	return strings.TrimSpace(string(out))
}

// With the mount option hidepid, a child is hidden until its exec is over. It must not count as ended.
func TestStartWithHiddenProcesses(t *testing.T) {
	for _, hidepid := range []string{"1", "2"} {
		for _, helper := range []string{"start many", "detach many"} {
			test.Equal(t, hidepid+", "+helper, amongHidden(t, hidepid, "", helper), "")
		}
	}
}

// Hidden processes of other users are skipped, and a state directory may be named through a symlink.
func TestWorkersAmongHidden(t *testing.T) {
	dir := t.TempDir()
	test.OK(t, os.Symlink(dir, filepath.Join(dir, "link")))
	test.OK(t, os.WriteFile(filepath.Join(dir, "worker"), []byte("echo up; exec 1>&-; read -r end\n"), 0o755))
	const start = `cd %[1]s && coproc as sh worker --run run-1 --state-dir %[2]s
read -r up <&"${COPROC[0]}"`
	for _, called := range []string{dir, dir + "/link"} {
		test.Equal(t, called, amongHidden(t, "1", fmt.Sprintf(start, dir, called), "workers", dir), "run-1")
	}
	test.Equal(t, "of another directory", amongHidden(t, "1", fmt.Sprintf(start, dir, dir), "workers", filepath.Dir(dir)), "")
}

// A process that opens the tree file of a run is not one of the run, however many descriptors it has open.
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

// A process is found while it begins another program, too, when the system shows no environment of it.
func TestFindDuringExec(t *testing.T) {
	const again = `exec sh -c "$0" "$0"`
	cmd := exec.Command("sh", "-c", again, again)
	cmd.Env = append(os.Environ(), host.RunMark+"=execs")
	test.OK(t, cmd.Start())
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	for range 500 {
		found, err := Find(Owner{RunID: "execs"})
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
	}
}
