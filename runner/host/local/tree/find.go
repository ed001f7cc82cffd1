package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Owner describes which processes belong to a run. Each criterion alone is enough, and the
// descendants of a process belong, too.
type Owner struct {
	// RunID is the value of host.RunMark, and ThreadID of host.ThreadMark. An empty value
	// matches no process.
	RunID, ThreadID string
	// Tree is the path of the run's tree file, which its processes inherit as TreeFD. The file
	// may have been removed.
	Tree string
	// Recorded processes belong. To end the worker as well, name it here.
	Recorded []reconcile.Process
	// Worker is the run's worker, which does not belong itself. Its descendants do if
	// Descendants is set.
	Worker      reconcile.Process
	Descendants bool
	// Folder is the workspace root, without symlinks. Members of the worker's session whose
	// working directory is inside belong. That finds MCP servers, to which an agent passes
	// neither environment nor descriptors, if the worker died before it could record them. The
	// folder distinguishes the session from a later session whose leader got the same pid.
	Folder string
	// Boot is the BootID in which Recorded and Worker were recorded. In another boot they are
	// ignored.
	Boot string
	// Spare is the pid of a process that, with its descendants, does not belong.
	Spare int
}

// marker returns the signs of a process of the run: entries of its environment, any of which
// is enough, or the tree file, with its links resolved as in /proc.
func (o Owner) marker() (env []string, tree string) {
	for name, value := range map[string]string{host.RunMark: o.RunID, host.ThreadMark: o.ThreadID} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	if o.Tree == "" {
		return env, ""
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(o.Tree))
	if err != nil {
		return env, filepath.Clean(o.Tree)
	}
	return env, filepath.Join(dir, filepath.Base(o.Tree))
}

// containsEntry reports whether an environment, separated by zero bytes, contains any of the
// entries.
func containsEntry(environ string, entries []string) bool {
	isOne := func(entry string) bool { return slices.Contains(entries, entry) }
	return slices.ContainsFunc(strings.Split(environ, "\x00"), isOne)
}

// Find lists the living processes that belong to the run, sorted by pid. This process and its
// ancestors are never among them. If it returns an error, some may be missing.
func Find(o Owner) ([]reconcile.Process, error) {
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	if o.Boot != boot {
		o.Recorded = nil
		o.Worker = reconcile.Process{}
	}
	entries, err := proc.Scan()
	if err != nil {
		return nil, err
	}
	t := newProcessTree(entries)
	if o.Spare != 0 {
		t.claim(o.Spare)
		t.spared = t.claimed
		t.claimed = map[int]bool{}
	}
	for _, p := range o.Recorded {
		if t.has(p) {
			t.claim(p.PID)
		}
	}
	if o.Descendants && t.has(o.Worker) {
		t.claimDescendants(o.Worker.PID)
	}
	err = t.claimSession(o.Worker, o.Folder)
	err = errors.Join(err, t.claimMarked(o.marker()))
	return t.list(), err
}

// processTree decides which processes belong to a run, from a single scan of all processes.
type processTree struct {
	byPID    map[int]proc.Entry
	children map[int][]int
	claimed  map[int]bool
	spared   map[int]bool // never claimed
}

func newProcessTree(entries []proc.Entry) *processTree {
	t := &processTree{
		byPID:    map[int]proc.Entry{},
		children: map[int][]int{},
		claimed:  map[int]bool{},
	}
	for _, e := range entries {
		t.byPID[e.PID] = e
		t.children[e.Parent] = append(t.children[e.Parent], e.PID)
	}
	return t
}

func (t *processTree) has(p reconcile.Process) bool {
	e, known := t.byPID[p.PID]
	return known && e.Start == p.Start
}

// claim claims a process and its descendants.
func (t *processTree) claim(pid int) {
	if !t.claimed[pid] && !t.spared[pid] {
		t.claimed[pid] = true
		t.claimDescendants(pid)
	}
}

// claimDescendants claims the descendants of a process. A child that is older than its parent
// is not its child: the parent's pid was reused during the scan.
func (t *processTree) claimDescendants(pid int) {
	for _, child := range t.children[pid] {
		if t.byPID[child].Start >= t.byPID[pid].Start {
			t.claim(child)
		}
	}
}

// claimSession claims the members of a worker's session whose working directory is inside
// folder. The leader is looked up after the scan: if its pid belongs to another process then,
// the run's session had no member left.
func (t *processTree) claimSession(worker reconcile.Process, folder string) error {
	if worker.PID == 0 || folder == "" {
		return nil
	}
	leader, err := proc.Stat(worker.PID)
	isGone := errors.Is(err, os.ErrProcessDone)
	if err != nil && !isGone {
		return err
	}
	if !isGone && leader.Start != worker.Start {
		return nil
	}
	return t.claimAll(func(e proc.Entry) (bool, error) {
		if e.Session != worker.PID || e.PID == worker.PID || e.Start < worker.Start {
			return false, nil
		}
		return worksBelow(e.PID, folder)
	})
}

// claimMarked claims the processes with a marker: see Owner.marker.
func (t *processTree) claimMarked(env []string, tree string) error {
	if len(env) == 0 && tree == "" {
		return nil
	}
	return t.claimAll(func(e proc.Entry) (bool, error) { return hasMarker(e.PID, env, tree) })
}

// claimAll claims the processes for which belongs returns true.
func (t *processTree) claimAll(belongs func(proc.Entry) (bool, error)) error {
	var errs []error
	for pid, e := range t.byPID {
		if t.claimed[pid] || pid == 1 {
			continue
		}
		is, err := belongs(e)
		errs = append(errs, err)
		if is {
			t.claim(pid)
		}
	}
	return errors.Join(errs...)
}

// list returns the claimed processes by pid, without init, this process and its ancestors.
func (t *processTree) list() (procs []reconcile.Process) {
	excluded := map[int]bool{1: true}
	for pid := os.Getpid(); !excluded[pid]; pid = t.byPID[pid].Parent {
		excluded[pid] = true
	}
	for pid := range t.claimed {
		if e, known := t.byPID[pid]; known && !excluded[pid] {
			procs = append(procs, e.Process())
		}
	}
	slices.SortFunc(procs, func(a, b reconcile.Process) int { return a.PID - b.PID })
	return procs
}

// TreeFD is the descriptor as which hooks, agents and all their descendants have their run's
// tree file open. A change of the environment, the session or the parent does not remove this
// marker; only closing the descriptor does. The number collides with none of these: shell
// scripts use 3 to 9, shells 10 and up and 255, Node closes all from 3 up to the first gap
// after 16, and a strict limit on descriptors ends at 64.
const TreeFD = 63

// OpenTree opens the tree file of a run and creates it if necessary. It stays empty. Its
// descriptor is not TreeFD, which would make this process part of the run.
func OpenTree(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("tree file: %w", err)
	}
	if f.Fd() != TreeFD {
		return f, nil
	}
	defer f.Close()
	other, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, TreeFD+1)
	if err != nil {
		return nil, fmt.Errorf("tree file: %w", err)
	}
	return os.NewFile(uintptr(other), path), nil
}

// ExtraFiles returns files for exec.Cmd.ExtraFiles, extended so that tree becomes TreeFD. If
// tree is nil, or TreeFD too close to the limit on descriptors, it returns files unchanged.
func ExtraFiles(tree *os.File, files ...*os.File) []*os.File {
	const room = 16 // descriptors that a fork needs temporarily
	var limit unix.Rlimit
	if tree == nil || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur <= TreeFD+room {
		return files
	}
	return append(append(files, make([]*os.File, TreeFD-proc.FirstExtra-len(files))...), tree)
}

const (
	killRounds = 16                    // rounds of SIGKILL while new processes keep appearing
	killWait   = 2 * time.Second       // for the processes of a round to end
	killStep   = 10 * time.Millisecond // between two checks whether processes have ended
)

// Kill ends every process that Find finds, and returns the processes that are left. It sends
// SIGTERM (and SIGCONT, so that stopped processes handle it), waits for grace, but at most
// half of the time until the deadline of ctx, and then repeats SIGKILL until Find finds
// nothing or the same processes again. If ctx ends, it returns the error of ctx.
func Kill(ctx context.Context, o Owner, grace time.Duration) (left []reconcile.Process, err error) {
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	if o.Boot != boot {
		o.Boot = boot
		o.Recorded = nil
		o.Worker = reconcile.Process{}
	}
	o.Recorded = slices.Clone(o.Recorded)
	left, err = o.findAndRecord()
	if err != nil || len(left) == 0 {
		return left, err
	}
	if end, ok := ctx.Deadline(); ok {
		grace = min(grace, time.Until(end)/2)
	}
	if err := signalAndWait(ctx, left, grace, unix.SIGTERM, unix.SIGCONT); err != nil {
		return left, err
	}
	crash.At("proc.kill.asked")
	var last []reconcile.Process
	for range killRounds {
		left, err = o.findAndRecord()
		if err != nil || len(left) == 0 {
			return left, err
		}
		if ctx.Err() != nil {
			return left, fmt.Errorf("end processes: %w", context.Cause(ctx))
		}
		if slices.Equal(left, last) {
			return left, nil
		}
		last = left
		if err := signalAndWait(ctx, left, killWait, unix.SIGKILL); err != nil {
			return left, err
		}
	}
	return o.findAndRecord()
}

// findAndRecord is Find. A process that was found by its parent alone would be lost when the
// parent ends, and is recorded.
func (o *Owner) findAndRecord() ([]reconcile.Process, error) {
	left, err := Find(*o)
	o.Recorded = append(o.Recorded, left...)
	return left, err
}

// sendAll sends all signals to a process, also after a signal that failed.
func sendAll(p reconcile.Process, sigs []unix.Signal) error {
	var errs []error
	for _, sig := range sigs {
		errs = append(errs, proc.Signal(p, sig))
	}
	return errors.Join(errs...)
}

// signalAndWait sends the signals to each process and waits until all have ended, at most for
// wait or until ctx ends. It does not wait for a process that it may not signal: the caller
// finds it again.
func signalAndWait(
	ctx context.Context,
	procs []reconcile.Process,
	wait time.Duration,
	sigs ...unix.Signal,
) error {
	var signalled []reconcile.Process
	var errs []error
	for _, p := range procs {
		err := sendAll(p, sigs)
		if errors.Is(err, os.ErrProcessDone) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		signalled = append(signalled, p)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end processes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		signalled = slices.DeleteFunc(signalled, proc.Ended)
		if len(signalled) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(killStep):
		}
	}
}
