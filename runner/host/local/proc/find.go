package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// The environment variables by which a process is known to belong to a run (design 8).
const (
	RunMark    = "SYMPHONY_RUN_ID" // forced into agents, hooks and agents' commands
	ThreadMark = "CODEX_THREAD_ID" // set by codex for each command of a thread
)

// Owner says which processes belong to a run (design 8). Any one of RunID, ThreadIDs, Tree, Scope, Recorded, Roots and
// Session is enough for a process to belong.
type Owner struct {
	// RunID is the value of RunMark, ThreadIDs are those of ThreadMark; empty ones match nothing.
	RunID     string
	ThreadIDs []string
	// Tree is the path of the run's tree file, which its processes inherit as TreeFD. The file may have been removed.
	Tree string
	// Scope is the cgroup of the run's own scope (ReadScope). Every process in it or below it belongs to the run.
	Scope string
	// Recorded processes belong. To end the worker as well, name it here.
	Recorded []reconcile.Process
	// Roots do not belong, but their descendants do: for a worker, itself.
	Roots []reconcile.Process
	// Session is that of the run's worker.
	Session Session
	// Since is the start time of the run's worker, 0 if unknown. Older processes are not asked for markers, which saves a
	// look at most processes of the machine.
	Since uint64
	// Boot is the BootID that Recorded, Roots, Session and Since were recorded in. In another boot they mean nothing. It
	// must be set if any of them is.
	Boot string
	// Exclude are pids that do not belong, nor do their descendants unless for a reason of their own.
	Exclude map[int]bool
}

// Session is the session that a worker leads. It is the only trace of a program that passes on neither environment nor
// descriptors (codex starts MCP servers so) if the worker dies before it could record the program.
type Session struct {
	// Leader is the worker. Its pid is not reused as long as the session has a member.
	Leader reconcile.Process
	// Folder is the workspace root, without symlinks. Members that work elsewhere do not belong: after the last member
	// has ended, the pid may come to lead an unrelated session.
	Folder string
}

// marker is what a process of the run shows to other processes of its user.
type marker struct {
	env  [][]byte // entries of the environment, between the zero bytes that separate them
	tree string   // the path under which the system shows the tree file
}

func (m marker) empty() bool { return len(m.env) == 0 && m.tree == "" }

func (o Owner) marker() marker {
	var m marker
	add := func(name, value string) {
		if value != "" {
			m.env = append(m.env, []byte("\x00"+name+"="+value+"\x00"))
		}
	}
	add(RunMark, o.RunID)
	for _, id := range o.ThreadIDs {
		add(ThreadMark, id)
	}
	if o.Tree != "" {
		m.tree = filepath.Clean(o.Tree)
		if dir, err := filepath.EvalSymlinks(filepath.Dir(o.Tree)); err == nil {
			m.tree = filepath.Join(dir, filepath.Base(o.Tree))
		}
	}
	return m
}

// containsEntry reports whether one of the entries stands in env, the environment of a process as the system shows it.
func containsEntry(env []byte, entries [][]byte) bool {
	// The first entry has no zero byte before it, and the last may lack the one after it.
	env = slices.Concat([]byte{0}, env, []byte{0})
	return slices.ContainsFunc(entries, func(e []byte) bool { return bytes.Contains(env, e) })
}

// forThisBoot checks o and drops what was recorded in another boot.
func (o Owner) forThisBoot() (Owner, error) {
	if o.Boot == "" && (o.Since > 0 || o.Session.Leader.PID != 0 || len(o.Recorded)+len(o.Roots) > 0) {
		return o, errors.New("find processes: recorded pids without the boot they were recorded in")
	}
	boot, err := BootID()
	if o.Boot != boot {
		o.Recorded, o.Roots, o.Session, o.Since = nil, nil, Session{}, 0
	}
	o.Boot = boot
	return o, err
}

// Find lists, by pid, the living processes that belong to the run. This process and its ancestors are never among them.
// An error means that some may be missing.
func Find(o Owner) ([]reconcile.Process, error) {
	o, err := o.forThisBoot()
	if err != nil {
		return nil, err
	}
	t, err := search(o)
	return t.list(), err
}

// search builds the process tree with the processes of o claimed. It is empty if o names nothing.
func search(o Owner) (*processTree, error) {
	m := o.marker()
	if m.empty() && o.Scope == "" && o.Session.Leader.PID == 0 && len(o.Recorded)+len(o.Roots) == 0 {
		return &processTree{}, nil
	}
	entries, err := scan()
	if err != nil {
		return &processTree{}, err
	}
	t := newProcessTree(entries, o.Exclude)
	t.claimRecorded(o)
	return t, errors.Join(t.claimScope(o.Scope), t.claimSession(o.Session), t.claimMarked(m, o.Since))
}

// Descendants lists, by pid, the living processes below pid, which is not among them. If pid is a subreaper these are all
// that it started, except those started by a service manager.
func Descendants(pid int) ([]reconcile.Process, error) {
	below, ok, err := scanBelow(pid)
	if ok {
		list := make([]reconcile.Process, len(below))
		for i, e := range below {
			list[i] = e.process()
		}
		slices.SortFunc(list, func(a, b reconcile.Process) int { return a.PID - b.PID })
		return list, err
	}
	entries, err := scan()
	if err != nil {
		return nil, err
	}
	t := newProcessTree(entries, nil)
	if i, ok := t.byPID[pid]; ok {
		t.claimBelow(i)
	}
	return t.list(), nil
}

// processTree decides which processes belong to a run, from one scan of all processes.
type processTree struct {
	entries  []entry
	byPID    map[int]int   // from pid to index
	children map[int][]int // from pid to indexes
	claimed  []bool
	members  []int        // pids in the run's scope
	skip     map[int]bool // descent ends at these: Owner.Exclude
	excluded map[int]bool // never listed: those, init, this process and its ancestors
}

func newProcessTree(entries []entry, skip map[int]bool) *processTree {
	t := &processTree{
		entries: entries, byPID: map[int]int{}, children: map[int][]int{}, claimed: make([]bool, len(entries)),
		skip: skip, excluded: map[int]bool{1: true},
	}
	for i, e := range entries {
		t.byPID[e.pid] = i
		t.children[e.ppid] = append(t.children[e.ppid], i)
	}
	for pid, is := range skip {
		t.excluded[pid] = is
	}
	pid := os.Getpid()
	for range entries { // bounded, because pids may have changed hands during the scan
		t.excluded[pid] = true
		i, ok := t.byPID[pid]
		if !ok {
			break
		}
		pid = entries[i].ppid
	}
	return t
}

func (t *processTree) claimRecorded(o Owner) {
	each := func(list []reconcile.Process, claim func(int)) {
		for _, p := range list {
			if i, ok := t.byPID[p.PID]; ok && t.entries[i].start == p.Start {
				claim(i)
			}
		}
	}
	each(o.Recorded, t.claim)
	each(o.Roots, t.claimBelow)
}

// claim claims a process and its descendants.
func (t *processTree) claim(i int) {
	if !t.claimed[i] {
		t.claimed[i] = true
		t.claimBelow(i)
	}
}

// claimBelow claims the descendants of a process. A child that is older than its parent is none: its parent's pid changed
// hands during the scan.
func (t *processTree) claimBelow(i int) {
	parent := t.entries[i]
	if t.skip[parent.pid] {
		return
	}
	for _, child := range t.children[parent.pid] {
		if e := t.entries[child]; e.start >= parent.start && !t.skip[e.pid] {
			t.claim(child)
		}
	}
}

// scopeTries bounds the looks at a scope in which each process ends before it can be identified.
const scopeTries = 16

// claimScope claims the processes in a cgroup. Those that were started after the scan are added to the tree, so that a
// chain of short-lived processes does not look like an empty scope. A pid that has changed hands since the scan has the
// old start time, and so is never signalled.
func (t *processTree) claimScope(cgroup string) (err error) {
	for try := 0; cgroup != "" && try < scopeTries; try++ {
		if t.members, err = scopeMembers(cgroup); err != nil {
			return err
		}
		found, ended := false, false
		for _, pid := range t.members {
			if t.excluded[pid] {
				continue // its children are members themselves
			}
			i, known := t.byPID[pid]
			if !known {
				e, err := statOf(pid)
				if errors.Is(err, os.ErrProcessDone) || err == nil && e.dead {
					ended = true
					continue
				}
				if err != nil {
					return err
				}
				i = len(t.entries)
				t.entries, t.claimed = append(t.entries, e), append(t.claimed, false)
				t.byPID[pid] = i
				t.children[e.ppid] = append(t.children[e.ppid], i)
			}
			t.claim(i)
			found = true
		}
		if found || !ended {
			return nil
		}
	}
	return nil
}

// claimSession claims the members of the session that work in its folder. The leader is looked up after the scan: if its
// pid belongs to another process by now, the run's session had no member left.
func (t *processTree) claimSession(s Session) error {
	if s.Leader.PID == 0 || s.Folder == "" {
		return nil
	}
	leader, err := statOf(s.Leader.PID)
	switch {
	case err != nil && !errors.Is(err, os.ErrProcessDone):
		return err
	case err == nil && leader.start != s.Leader.Start:
		return nil
	}
	var errs []error
	for i, e := range t.entries {
		if t.claimed[i] || e.session != s.Leader.PID || e.pid == s.Leader.PID || e.start < s.Leader.Start {
			continue
		}
		works, err := worksBelow(e.pid, s.Folder)
		errs = append(errs, err)
		if works {
			t.claim(i)
		}
	}
	return errors.Join(errs...)
}

// claimMarked claims the processes with the marker that are no older than the run.
func (t *processTree) claimMarked(m marker, since uint64) error {
	if m.empty() {
		return nil
	}
	var errs []error
	for i, e := range t.entries {
		if t.claimed[i] || e.pid == 1 || e.start < since {
			continue
		}
		marked, err := hasMarker(e.pid, m)
		errs = append(errs, err)
		if marked {
			t.claim(i)
		}
	}
	return errors.Join(errs...)
}

// list returns the claimed processes by pid.
func (t *processTree) list() (procs []reconcile.Process) {
	for i, e := range t.entries {
		if t.claimed[i] && !t.excluded[e.pid] {
			procs = append(procs, e.process())
		}
	}
	slices.SortFunc(procs, func(a, b reconcile.Process) int { return a.PID - b.PID })
	return procs
}

// TreeFD is the descriptor at which hooks, agents and all that they start hold their run's tree file. A change of the
// environment, the session or the parent does not remove this marker; only closing the descriptor does.
//
// Shell scripts use low numbers (3 to 9), shells 10 and up and 255, and Node closes all from 3 up to the first gap after
// 16. A strict limit on descriptors ends at 64.
const TreeFD = 63

// treeRoom is how many descriptors beyond TreeFD a fork needs for a moment to arrange the child's files.
const treeRoom = 16

// OpenTree opens the tree file of a run and creates it if necessary. It stays empty.
func OpenTree(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("tree file: %w", err)
	}
	return f, nil
}

// WithTree appends tree to files, the first of which becomes descriptor first, so that tree becomes TreeFD. The child gets
// no descriptors in between. Without a tree, or if TreeFD is taken or too near the limit on descriptors, it returns files
// unchanged.
func WithTree(files []*os.File, first int, tree *os.File) []*os.File {
	var limit unix.Rlimit
	if tree == nil || len(files) > TreeFD-first || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur <= TreeFD+treeRoom {
		return files
	}
	out := make([]*os.File, TreeFD-first+1)
	copy(out, files)
	out[TreeFD-first] = tree
	return out
}

// Environ returns the environment ("NAME=value" entries) that a process was started with; empty where the system does not
// show it, os.ErrProcessDone if the process is gone.
func Environ(p reconcile.Process) ([]string, error) {
	raw, err := environ(p.PID)
	if err != nil {
		return nil, fmt.Errorf("environment of process %d: %w", p.PID, err)
	}
	if err := checkSame(p.PID, p.Start); err != nil { // compared after the read, so that it was this process's environment
		return nil, err
	}
	var env []string
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		}
	}
	return env, nil
}
