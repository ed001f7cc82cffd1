package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

func init() {
	helpers["find"] = findHelper
	helpers["leaderless"] = leaderless
	helpers["hidden"] = hidden
}

// findHelper says what it finds of the run that it is marked with itself.
func findHelper([]string) int {
	procs, err := Find(Owner{RunID: os.Getenv(RunMark)})
	say("found", len(procs), err)
	for _, p := range procs {
		say("process", p.PID)
	}
	return 0
}

// leaderless ends its first thread and goes on with the others.
func leaderless([]string) int {
	runtime.LockOSThread() // main still runs on the first thread
	if unix.Gettid() != os.Getpid() {
		say("error: not on the first thread")
		return 1
	}
	sayUp()
	go func() {
		eof := make([]byte, 1)
		_, _ = os.Stdin.Read(eof)
		os.Exit(0)
	}()
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	return 1
}

// hidden is not dumpable.
func hidden([]string) int {
	if err := NonDumpable(); err != nil {
		say("error", err)
		return 1
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); n != 0 || err != nil {
		say("error: dumpable", n, err)
		return 1
	}
	return idle(nil)
}

func find(t *testing.T, o Owner) map[int]bool {
	t.Helper()
	procs, err := Find(o)
	must(t, err)
	return pids(procs)
}

func TestFindOrphanInItsOwnSessionByMark(t *testing.T) {
	for _, name := range []string{RunMark, ThreadMark} {
		id := mark(t)
		h := start(t, []string{name + "=" + id}, "spawn", "setsid,exit", "idle")
		parent, child := h.up(), h.up()
		must(t, h.cmd.Wait())
		o := Owner{RunID: id}
		if name == ThreadMark {
			o = Owner{RunID: "another", ThreadIDs: []string{"x", id}}
		}
		for _, since := range []uint64{0, parent.Start} {
			o.Since, o.Boot = since, boot(t)
			if got := find(t, o); len(got) != 1 || !got[child.PID] {
				t.Errorf("%s since %d: found %v, want %d (its parent %d is gone)", name, since, got, child.PID, parent.PID)
			}
		}
		o.Since, o.Boot = child.Start+1, "another boot" // a start time of another boot excludes no process
		if got := find(t, o); len(got) != 1 {
			t.Errorf("%s after a reboot: found %v", name, got)
		}
		if got := find(t, Owner{RunID: id + "x", ThreadIDs: []string{id[1:]}}); len(got) != 0 {
			t.Errorf("%s: another run has %v", name, got)
		}
	}
}

func TestFindOrphanWithoutEnvironmentByRecord(t *testing.T) {
	h := start(t, nil, "spawn", "setsid,clear,exit", "idle")
	h.up()
	child := h.up()
	must(t, h.cmd.Wait())
	recorded := []reconcile.Process{child}
	if got := find(t, Owner{RunID: mark(t), Recorded: recorded, Boot: boot(t)}); len(got) != 1 || !got[child.PID] {
		t.Errorf("found %v, want %d", got, child.PID)
	}
	if got := find(t, Owner{Recorded: recorded, Boot: "another boot"}); len(got) != 0 {
		t.Errorf("recorded before a reboot: %v", got)
	}
	recorded[0].Start++
	if got := find(t, Owner{Recorded: recorded, Boot: boot(t)}); len(got) != 0 {
		t.Errorf("another start time: %v", got)
	}
}

func TestFindByDescent(t *testing.T) {
	h := start(t, nil, "spawn", "setsid,clear", "idle")
	parent, child := h.up(), h.up()
	if got := find(t, Owner{Recorded: []reconcile.Process{parent}, Boot: boot(t)}); len(got) != 2 || !got[child.PID] {
		t.Errorf("below a recorded one: %v, want %d and %d", got, parent.PID, child.PID)
	}
	if got := find(t, Owner{Roots: []reconcile.Process{parent}, Boot: boot(t)}); len(got) != 1 || !got[child.PID] {
		t.Errorf("below a root: %v, want %d", got, child.PID)
	}
	self, err := Self()
	must(t, err)
	me := []reconcile.Process{{PID: self.PID, Start: self.Start}}
	got := find(t, Owner{Roots: me, Recorded: me, Boot: self.Boot})
	if !got[parent.PID] || !got[child.PID] || got[os.Getpid()] {
		t.Errorf("below ourselves: %v", got)
	}
	got = find(t, Owner{Roots: me, Boot: self.Boot, Exclude: map[int]bool{parent.PID: true}})
	if got[parent.PID] || got[child.PID] {
		t.Errorf("excluded, and still among %v", got)
	}
	below, err := Descendants(parent.PID)
	must(t, err)
	if len(below) != 1 || below[0].PID != child.PID || below[0].Start != child.Start || below[0].Name == "" {
		t.Errorf("descendants: %+v, want %+v", below, child)
	}
}

func TestFindSparesItselfAndItsAncestors(t *testing.T) {
	id := mark(t)
	env := []string{RunMark + "=" + id}
	other := start(t, env, "idle").up()
	h := start(t, env, "spawn", "setsid", "find")
	h.up()
	if got := h.line("found"); got != "1 <nil>" {
		t.Fatalf("found %s, want the other one alone", got)
	}
	var pid int
	if pid = atoi(t, h.line("process")); pid != other.PID {
		t.Errorf("found %d, want %d", pid, other.PID)
	}
}

func TestZombieIsDead(t *testing.T) {
	id := mark(t)
	cmd := exec.Command("true")
	cmd.Env = []string{RunMark + "=" + id}
	must(t, cmd.Start())
	e, err := statOf(cmd.Process.Pid)
	must(t, err)
	p := e.process()
	eventually(t, "the child to end", func() bool {
		e, err := statOf(p.PID)
		must(t, err) // it stays until it is reaped
		return e.dead
	})
	if _, err := StartTime(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("start time: %v", err)
	}
	if SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}) {
		t.Error("a zombie is the same process")
	}
	if err := Signal(p, unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal: %v", err)
	}
	if got := find(t, Owner{RunID: id, Recorded: []reconcile.Process{p}, Boot: boot(t)}); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	must(t, cmd.Wait())
	if _, err := StartTime(p.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("start time after it was reaped: %v", err)
	}
}

func TestProcessWhoseFirstThreadEndedIsAlive(t *testing.T) {
	h := start(t, nil, "leaderless")
	p := h.up()
	eventually(t, "the first thread to end", func() bool {
		b, err := os.ReadFile("/proc/" + itoa(p.PID) + "/stat")
		must(t, err)
		return stateOf(string(b)) == 'Z'
	})
	if !living(p) || !SameProcess(reconcile.Handle{Boot: boot(t), PID: p.PID, Start: p.Start}) {
		t.Error("it counts as dead, while its other threads run")
	}
	if got := find(t, Owner{Recorded: []reconcile.Process{p}, Boot: boot(t)}); !got[p.PID] {
		t.Error("it is not found")
	}
	must(t, Signal(p, unix.SIGKILL))
	_ = h.cmd.Wait()
	if living(p) {
		t.Error("it survived")
	}
}

func TestSignalNeverReachesAnother(t *testing.T) {
	h := start(t, []string{"IDLE_EOF=1"}, "idle")
	p := h.up()
	for name, q := range map[string]reconcile.Process{
		"another start":  {PID: p.PID, Start: p.Start + 1},
		"no start":       {PID: p.PID},
		"init":           {PID: 1, Start: 1},
		"pid 0":          {PID: 0, Start: 1},
		"a group":        {PID: -p.PID, Start: p.Start},
		"ourselves":      {PID: os.Getpid(), Start: ownStart(t)},
		"beyond the end": {PID: 1 << 30, Start: 5},
	} {
		if err := Signal(q, unix.SIGKILL); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	left, err := KillTree(t.Context(), Owner{Recorded: []reconcile.Process{{PID: p.PID, Start: p.Start + 1}}, Boot: boot(t)}, time.Second)
	if len(left) != 0 || err != nil {
		t.Errorf("kill: %v, %v", left, err)
	}
	h.stdin.Close() // it ends by itself, which it could not if any of these had hit it
	if err := h.cmd.Wait(); err != nil {
		t.Errorf("the stranger was hit: %v", err)
	}
}

func TestSelfAndSame(t *testing.T) {
	self, err := Self()
	must(t, err)
	if self.PID != os.Getpid() || self.Start == 0 || self.Boot == "" || !SameProcess(self) {
		t.Errorf("self is %+v", self)
	}
	for _, h := range []reconcile.Handle{
		{Boot: "x", PID: self.PID, Start: self.Start},
		{Boot: self.Boot, PID: self.PID, Start: self.Start + 1},
		{Boot: self.Boot, PID: self.PID},
		{Boot: self.Boot, PID: 0, Start: self.Start},
		{},
	} {
		if SameProcess(h) {
			t.Errorf("%+v is the same", h)
		}
	}
	if a, b := Monotonic(), Monotonic(); a <= 0 || b < a {
		t.Errorf("the clock said %v, then %v", a, b)
	}
}

func TestHiddenWorkerIsFoundByItsRecord(t *testing.T) {
	id := mark(t)
	h := start(t, []string{RunMark + "=" + id}, "hidden")
	p := h.up()
	if got := find(t, Owner{Recorded: []reconcile.Process{p}, Boot: boot(t)}); !got[p.PID] {
		t.Error("not found by its record")
	}
	found := find(t, Owner{RunID: id})[p.PID]
	if root := os.Geteuid() == 0; found != root {
		t.Errorf("found by its mark: %v (as root: %v)", found, root)
	}
	if _, err := os.ReadFile("/proc/" + itoa(p.PID) + "/environ"); os.Geteuid() != 0 && !errors.Is(err, os.ErrPermission) {
		t.Errorf("its environment can be read: %v", err)
	}
	must(t, Signal(p, unix.SIGTERM))
	_ = h.cmd.Wait()
}

// member is a process without any mark in the session of a leader, which stays or has ended. Both work in folder.
func member(t *testing.T, folder, flags string) (leader, child reconcile.Process) {
	t.Helper()
	h := startAs(t, nil, func(c *exec.Cmd) { c.Dir, c.SysProcAttr = folder, newSession() }, "spawn", flags, "idle")
	leader, child = h.up(), h.up()
	if flags == "clear,exit" {
		must(t, h.cmd.Wait())
	}
	return leader, child
}

func TestFindBySession(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, flags := range []string{"clear", "clear,exit"} {
		leader, child := member(t, root, flags)
		earlier, younger := leader, leader
		earlier.Start--
		younger.Start = child.Start + 1
		here := boot(t)
		for _, c := range []struct {
			what    string
			boot    string
			session Session
			found   bool
		}{
			{"its folder", here, Session{leader, root}, true},
			{"the folder above", here, Session{leader, filepath.Dir(root)}, true},
			{"a folder beside it", here, Session{leader, root + "x"}, false},
			{"one that its name begins with", here, Session{leader, root[:len(root)-1]}, false},
			{"no folder", here, Session{leader, ""}, false},
			{"another boot", "another boot", Session{leader, root}, false},
			{"another session", here, Session{child, root}, false},
			{"a leader younger than its member", here, Session{younger, root}, false},
			// The number alone tells them apart once the leader has ended; until then it is a stranger's.
			{"a leader of another start time", here, Session{earlier, root}, flags == "clear,exit"},
		} {
			if got := find(t, Owner{Session: c.session, Boot: c.boot}); got[child.PID] != c.found || got[leader.PID] {
				t.Errorf("%s: %s: found %v, want %d among them: %v", flags, c.what, got, child.PID, c.found)
			}
		}
		if got := find(t, Owner{RunID: mark(t), Since: leader.Start, Boot: here}); got[child.PID] {
			t.Errorf("%s: it is found for another reason", flags)
		}
	}
	if _, err := Find(Owner{Session: Session{reconcile.Process{PID: 1, Start: 1}, root}}); err == nil {
		t.Error("a leader of an unknown boot is believed")
	}
}

func TestProcessTree(t *testing.T) {
	me := os.Getpid()
	entries := []entry{
		{pid: 1, ppid: 0, start: 1, name: "init"},
		{pid: 100, ppid: 1, start: 10, name: "agent"},
		{pid: 101, ppid: 100, start: 11},
		{pid: 102, ppid: 101, start: 12},
		{pid: 103, ppid: 100, start: 5}, // older than its parent: the pid changed hands
		{pid: 200, ppid: 1, start: 20},
		{pid: 201, ppid: 200, start: 20},
		{pid: 202, ppid: 201, start: 21},
		{pid: 300, ppid: 301, start: 30}, // a circle, read while pids changed hands
		{pid: 301, ppid: 300, start: 30},
		{pid: 400, ppid: 1, start: 40},
		{pid: me, ppid: 400, start: 41},
		{pid: 402, ppid: me, start: 42},
	}
	for _, c := range []struct {
		name string
		o    Owner
		want []int
	}{
		{"nothing", Owner{}, nil},
		{"recorded and below", Owner{Recorded: []reconcile.Process{{PID: 100, Start: 10}}}, []int{100, 101, 102}},
		{"recorded, another start", Owner{Recorded: []reconcile.Process{{PID: 100, Start: 9}}}, nil},
		{"recorded, gone", Owner{Recorded: []reconcile.Process{{PID: 999, Start: 9}}}, nil},
		{"below a root", Owner{Roots: []reconcile.Process{{PID: 200, Start: 20}}}, []int{201, 202}},
		{"root, another start", Owner{Roots: []reconcile.Process{{PID: 200, Start: 19}}}, nil},
		{"excluded with all below", Owner{Roots: []reconcile.Process{{PID: 200, Start: 20}}, Exclude: map[int]bool{201: true}}, nil},
		{"below an excluded one, recorded", Owner{
			Roots:    []reconcile.Process{{PID: 200, Start: 20}},
			Recorded: []reconcile.Process{{PID: 202, Start: 21}},
			Exclude:  map[int]bool{201: true},
		}, []int{202}},
		{"excluded, but false", Owner{Roots: []reconcile.Process{{PID: 200, Start: 20}}, Exclude: map[int]bool{201: false}}, []int{201, 202}},
		{"recorded and excluded", Owner{Recorded: []reconcile.Process{{PID: 200, Start: 20}}, Exclude: map[int]bool{200: true}}, nil},
		{"a circle", Owner{Recorded: []reconcile.Process{{PID: 300, Start: 30}}}, []int{300, 301}},
		{"own ancestor", Owner{Recorded: []reconcile.Process{{PID: 400, Start: 40}}}, []int{402}},
		{"init", Owner{Recorded: []reconcile.Process{{PID: 1, Start: 1}}}, []int{100, 101, 102, 200, 201, 202, 402}},
	} {
		var got []int
		for _, p := range claimed(entries, c.o).list() {
			got = append(got, p.PID)
		}
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func claimed(entries []entry, o Owner) *processTree {
	t := newProcessTree(slices.Clone(entries), o.Exclude)
	t.claimRecorded(o)
	return t
}

func TestContainsEntry(t *testing.T) {
	entries := Owner{RunID: "run-1", ThreadIDs: []string{"", "t-1"}}.marker().env
	for env, want := range map[string]bool{
		"":                                    false,
		"SYMPHONY_RUN_ID=run-1\x00":           true,
		"SYMPHONY_RUN_ID=run-1":               true,
		"A=b\x00SYMPHONY_RUN_ID=run-1":        true,
		"A=b\x00SYMPHONY_RUN_ID=run-1\x00C=d": true,
		"SYMPHONY_RUN_ID=run-12\x00":          false,
		"XSYMPHONY_RUN_ID=run-1\x00":          false,
		"A=SYMPHONY_RUN_ID=run-1\x00":         false,
		"SYMPHONY_RUN_ID=\x00":                false,
		"CODEX_THREAD_ID=\x00":                false,
		"CODEX_THREAD_ID=t-1\x00X=y\x00":      true,
		"CODEX_THREAD_ID=t-10\x00":            false,
		"CODEX_SESSION_ID=t-1\x00":            false,
	} {
		if got := containsEntry([]byte(env), entries); got != want {
			t.Errorf("%q: %v", env, got)
		}
	}
	if m := (Owner{}).marker(); !m.empty() {
		t.Errorf("an owner without ids has the marker %q", m)
	}
}
