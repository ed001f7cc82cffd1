package proc

import (
	"bytes"
	"errors"
	"os"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
)

// The environment variables by which a process is known to belong to a run (design 8).
const (
	RunMark    = "SYMPHONY_RUN_ID" // forced into agents, hooks and agents' commands
	ThreadMark = "CODEX_THREAD_ID" // set by codex for each command of a thread
)

// entry is one process as the system lists it.
type entry struct {
	pid, ppid int
	session   int // 0 where the system does not say
	start     uint64
	name      string
	kernel    bool // a thread of the kernel
	dead      bool // a zombie, or about to be gone
}

func (e entry) process() reconcile.Process {
	return reconcile.Process{PID: e.pid, Start: e.start, Name: e.name}
}

// Owner says what makes a process belong to a run (design 8). Any one of RunID, ThreadIDs, Tree, Scope, Recorded, Roots
// and Session suffices.
type Owner struct {
	// RunID is the value of RunMark, ThreadIDs those of ThreadMark; empty ones match nothing.
	RunID     string
	ThreadIDs []string
	// Tree is the run's tree file, which it hands on as descriptor TreeFD; the file need not be there any more.
	Tree string
	// Scope is the cgroup of the run's own scope (ReadScope). Who is in there, or below, belongs to the run.
	Scope string
	// Recorded processes belong themselves. Name the worker here to end it too.
	Recorded []reconcile.Process
	// Roots do not belong, but all that descends from them does: for a worker, itself.
	Roots []reconcile.Process
	// Session is that of the run's worker.
	Session Session
	// Since is when the run's worker began (its start time; 0: unknown). Nothing older is asked for its mark or its
	// descriptors, which spares a look at most processes of the machine.
	Since uint64
	// Boot is the BootID that Recorded, Roots, Session and Since were written in; with another one they mean nothing. It
	// must be set where they are.
	Boot string
	// Exclude are pids that do not belong, nor does what descends from them unless it has a reason of its own.
	Exclude map[int]bool
}

// Find lists, by pid, the processes alive that belong to the run: those with its mark or thread in their environment
// or its tree file open (of this user only), those in its scope or at work in its session, those recorded with the same
// start time, and all that descends from them or from the roots. This process and its own ancestors are never among them, kernel threads and
// zombies neither.
//
// An error means that the list may lack some.
func Find(o Owner) ([]reconcile.Process, error) {
	f, err := search(o)
	if f == nil {
		return nil, err
	}
	return f.list(), err
}

// search is Find; there is no processTree where o names nothing.
func search(o Owner) (*processTree, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	o = o.in(boot)
	b := o.marker()
	if b.none() && o.Scope == "" && o.Session.Leader.PID == 0 && len(o.Recorded)+len(o.Roots) == 0 {
		return nil, nil
	}
	t, err := scan()
	if err != nil {
		return nil, err
	}
	defer t.close()
	f := newProcessTree(t.entries, o)
	var errs []error
	if o.Scope != "" {
		errs = append(errs, f.claimScope(func() ([]int, error) { return t.members(o.Scope) }))
	}
	errs = append(errs, f.claimSession(o.Session, t.worksBelow), f.claimMarked(b, o.Since, t.hasMarker))
	return f, errors.Join(errs...)
}

// Descendants lists, by pid, the processes alive below pid, which is not among them. With the worker being a
// subreaper these are all that it started, but for those that left by a service manager.
func Descendants(pid int) ([]reconcile.Process, error) {
	t, err := scan()
	if err != nil {
		return nil, err
	}
	defer t.close()
	f := newProcessTree(t.entries, Owner{})
	if i, ok := f.byPID[pid]; ok {
		f.spread(i)
	}
	return f.list(), nil
}

// check refuses pids of which nobody knows when they were true.
func (o Owner) check() error {
	if o.Boot == "" && (o.Since > 0 || o.Session.Leader.PID != 0 || len(o.Recorded)+len(o.Roots) > 0) {
		return errors.New("find processes: recorded pids without the boot they were recorded in")
	}
	return nil
}

// in is what o means in this boot.
func (o Owner) in(boot string) Owner {
	if o.Boot != boot {
		o.Recorded, o.Roots, o.Session, o.Since = nil, nil, Session{}, 0
	}
	o.Boot = boot
	return o
}

// marker is what a process of the run has for everybody of its user to see.
type marker struct {
	marks [][]byte
	tree  string // the path under which the system shows the tree file
}

func (b marker) none() bool { return len(b.marks) == 0 && b.tree == "" }

func (o Owner) marker() marker { return marker{marks: o.marks(), tree: shownPath(o.Tree)} }

// marks are the environment entries to look for, between the zero bytes that part them.
func (o Owner) marks() [][]byte {
	var m [][]byte
	if o.RunID != "" {
		m = append(m, []byte("\x00"+RunMark+"="+o.RunID+"\x00"))
	}
	for _, id := range o.ThreadIDs {
		if id != "" {
			m = append(m, []byte("\x00"+ThreadMark+"="+id+"\x00"))
		}
	}
	return m
}

// processTree works out who belongs, on one look at the process table.
type processTree struct {
	entries  []entry
	byPID    map[int]int   // pid to index
	children map[int][]int // pid to indexes
	owned    []bool
	members  []int        // pids in the run's scope
	excluded   map[int]bool // never listed: ourselves, our ancestors, the excluded
	cut      map[int]bool // descent ends here: the excluded
}

func newProcessTree(entries []entry, o Owner) *processTree {
	f := &processTree{
		entries:  entries,
		byPID:    make(map[int]int, len(entries)),
		children: make(map[int][]int, len(entries)),
		owned:    make([]bool, len(entries)),
		excluded:   map[int]bool{1: true},
		cut:      o.Exclude,
	}
	for i, e := range entries {
		f.byPID[e.pid] = i
		f.children[e.ppid] = append(f.children[e.ppid], i)
	}
	for pid := range o.Exclude {
		f.excluded[pid] = o.Exclude[pid]
	}
	f.excludeAncestors(os.Getpid())
	for _, r := range o.Recorded {
		if i, ok := f.index(r); ok {
			f.claim(i)
		}
	}
	for _, r := range o.Roots {
		if i, ok := f.index(r); ok {
			f.spread(i)
		}
	}
	return f
}

func (f *processTree) index(p reconcile.Process) (int, bool) {
	i, ok := f.byPID[p.PID]
	return i, ok && f.entries[i].start == p.Start
}

func (f *processTree) excludeAncestors(pid int) {
	for range f.entries { // a parent chain can't be longer, even if pids changed hands while they were read
		f.excluded[pid] = true
		i, ok := f.byPID[pid]
		if !ok {
			return
		}
		pid = f.entries[i].ppid
	}
}

// claim takes a process and all below it.
func (f *processTree) claim(i int) {
	if f.owned[i] {
		return
	}
	f.owned[i] = true
	f.spread(i)
}

// spread takes all below a process. A child older than its parent is none: the pid changed hands while the table
// was read.
func (f *processTree) spread(i int) {
	parent := f.entries[i]
	if f.cut[parent.pid] {
		return
	}
	for _, c := range f.children[parent.pid] {
		if f.entries[c].start >= parent.start && !f.cut[f.entries[c].pid] {
			f.claim(c)
		}
	}
}

// scopeLooks is how often a scope is looked at whose members are gone each time before it is known who they were.
const scopeLooks = 16

// claimScope claims those in the run's scope. It is asked after the table was read: of a number that changed hands
// between the two the table has the old start time, which nobody is signalled by. Who came after the table is added
// to it, so that a chain of short-lived processes does not look like nobody.
func (f *processTree) claimScope(members func() ([]int, error)) error {
	for range scopeLooks {
		pids, err := members()
		if err != nil {
			return err
		}
		f.members = pids
		claimed, gone := false, false
		for _, pid := range pids {
			if f.excluded[pid] {
				continue // what it has started is a member itself, or for another reason not to be touched
			}
			i, known := f.byPID[pid]
			if !known {
				e, err := statOf(pid)
				if errors.Is(err, os.ErrProcessDone) || err == nil && e.dead {
					gone = true
					continue
				}
				if err != nil {
					return err
				}
				i = f.add(e)
			}
			f.claim(i)
			claimed = true
		}
		if claimed || !gone {
			return nil
		}
	}
	return nil
}

// add takes one more process into the table.
func (f *processTree) add(e entry) int {
	i := len(f.entries)
	f.entries, f.owned = append(f.entries, e), append(f.owned, false)
	f.byPID[e.pid] = i
	f.children[e.ppid] = append(f.children[e.ppid], i)
	return i
}

// mixed reports whether somebody is in the run's scope who is to be excluded: ourselves, mostly.
func (f *processTree) mixed() bool {
	return slices.ContainsFunc(f.members, func(pid int) bool { return f.excluded[pid] })
}

// claimMarked claims those that wear the marker. It asks only for those that don't belong for another reason already
// and are no older than the run.
func (f *processTree) claimMarked(b marker, since uint64, hasMarker func(pids []int, b marker) ([]bool, error)) error {
	if b.none() {
		return nil
	}
	var open, pids []int
	for i, e := range f.entries {
		if !f.owned[i] && e.pid != 1 && e.start >= since {
			open, pids = append(open, i), append(pids, e.pid)
		}
	}
	marked, err := hasMarker(pids, b)
	for n, i := range open {
		if marked[n] {
			f.claim(i)
		}
	}
	return err
}

// carries reports whether one of the marks is an entry of env.
func carries(env []byte, marks [][]byte) bool {
	return slices.ContainsFunc(marks, func(m []byte) bool {
		// The first entry has no zero byte before it, and the last may lack the one after it.
		return bytes.HasPrefix(env, m[1:]) || bytes.Contains(env, m) || bytes.HasSuffix(env, m[:len(m)-1]) ||
			bytes.Equal(env, m[1:len(m)-1])
	})
}

func (f *processTree) list() []reconcile.Process {
	var procs []reconcile.Process
	for i, e := range f.entries {
		if f.owned[i] && !f.excluded[e.pid] {
			procs = append(procs, e.process())
		}
	}
	slices.SortFunc(procs, func(a, b reconcile.Process) int { return a.PID - b.PID })
	return procs
}

// Session is the session that a worker leads, and where those in it are at work for the run. It is the one trace of a
// program that gives what it starts neither environment nor descriptors (codex starts MCP servers so) if the worker
// dies before it could write that down.
type Session struct {
	// Leader is the worker. Its number stays taken as long as the session has a member.
	Leader reconcile.Process
	// Folder is the workspace root, without symlinks. Members that work elsewhere don't belong: once all of the run's
	// are gone, the leader's number may come to lead a stranger's session and end before it.
	Folder string
}

// claimSession claims those at work in the session. It is asked after the table was read: where somebody else has the
// leader's number by now, the run's session had no member left.
func (f *processTree) claimSession(s Session, worksBelow func(pid int, folder string) (bool, error)) error {
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
	for i, e := range f.entries {
		if f.owned[i] || e.session != s.Leader.PID || e.pid == s.Leader.PID || e.start < s.Leader.Start {
			continue
		}
		works, err := worksBelow(e.pid, s.Folder)
		errs = append(errs, err)
		if works {
			f.claim(i)
		}
	}
	return errors.Join(errs...)
}
