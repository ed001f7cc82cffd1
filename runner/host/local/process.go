package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// The files of a run's directory by which its processes are known.
const (
	AliveFile = "alive" // locked by the worker for as long as it lives
	ProcsFile = "procs" // every process that the run started
	TreeFile  = "tree"  // empty: a process that has it open belongs to the run
	ScopeFile = "scope" // the cgroup of the worker's scope, if it has one
)

const (
	killGrace = 2 * time.Second // between SIGTERM and SIGKILL
	killBound = 4 * time.Second // for the processes of one run
)

func runDir(stateDir, runID string) string { return filepath.Join(stateDir, "runs", runID) }

// process is a started command.
type process struct{ child *proc.Child }

// Start implements host.Host.
func (h *Host) Start(_ context.Context, r host.StartRequest) (host.Process, error) {
	x := proc.Exec{Argv: r.Argv, Env: r.Env, Dir: r.Dir, PipeStdin: true}
	if known := h.known(r.Run); known != nil {
		x.Tree = known.tree
		if space := known.held(); space != nil {
			x.Lease = space.Lease()
		}
	}
	if r.Tree != "" {
		tree, err := proc.OpenTree(r.Tree)
		if err != nil {
			return nil, asError(err)
		}
		defer tree.Close()
		x.Tree = tree
	}
	child, err := x.Start()
	if err != nil {
		return nil, asError(err)
	}
	return process{child}, nil
}

func (p process) Process() reconcile.Process        { return p.child.Process() }
func (p process) Stdin() io.WriteCloser             { return p.child.Stdin }
func (p process) Stdout() io.Reader                 { return p.child.Stdout }
func (p process) Stderr() io.Reader                 { return p.child.Stderr }
func (p process) Wait(ctx context.Context) error    { return p.child.Wait(ctx) }
func (p process) SignalGroup(sig unix.Signal) error { return p.child.KillGroup(sig) }

func (p process) Close() (host.Exit, error) {
	state, err := p.child.Close()
	if err != nil || state == nil {
		return host.Exit{Code: -1}, err
	}
	return host.Exit{Code: state.ExitCode(), Text: state.String()}, nil
}

// Observe implements host.Host. A run that holds no files has started nothing.
func (h *Host) Observe(ctx context.Context, r host.ObserveRequest) (answer host.ObserveAnswer, err error) {
	known := h.known(r.Run)
	if known == nil {
		return answer, nil
	}
	err = known.record()
	if r.StateDir != "" {
		var lockErr error
		answer.LockHolders, lockErr = known.endLockHolders(ctx, r)
		err = errors.Join(err, lockErr)
	}
	return answer, asError(err)
}

// record adds the processes below this one to the procs file.
func (r *run) record() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs == nil {
		return nil // finished meanwhile
	}
	list, err := proc.Descendants(os.Getpid())
	if err = errors.Join(err, r.procs.Record(list)); err != nil {
		return fmt.Errorf("processes not recorded: %w", err)
	}
	return nil
}

// recordedOwner says what belongs to a run by its mark, its tree file and what its directory records.
func recordedOwner(r host.Run, threads ...string) (proc.Owner, error) {
	recorded, boot, err := proc.ReadProcs(filepath.Join(r.Dir, ProcsFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return proc.Owner{}, fmt.Errorf("processes of run %s: %w", r.ID, err)
	}
	scope, err := proc.ReadScope(filepath.Join(r.Dir, ScopeFile), r.ID)
	if err != nil {
		return proc.Owner{}, fmt.Errorf("scope of run %s: %w", r.ID, err)
	}
	threads = slices.DeleteFunc(threads, func(s string) bool { return s == "" })
	return proc.Owner{
		RunID: r.ID, Recorded: recorded, Boot: boot, ThreadIDs: threads, Tree: filepath.Join(r.Dir, TreeFile), Scope: scope,
	}, nil
}

// owner adds what is known by the run's worker: its session, and that nothing older needs a look. A process that an
// earlier run of the same thread left is found by the next holder of the workspace.
func owner(o host.Owned) (proc.Owner, error) {
	if o.Run.Dir == "" {
		return proc.Owner{RunID: o.Run.ID}, nil
	}
	found, err := recordedOwner(o.Run, o.ThreadID)
	if err != nil {
		return found, err
	}
	worker := o.Worker
	if worker == (reconcile.Handle{}) && o.Below {
		if worker, err = proc.Self(); err != nil {
			return found, fmt.Errorf("own process: %w", err)
		}
	}
	if len(o.Also) > 0 && found.Boot != worker.Boot { // what was recorded in another boot means nothing
		found.Boot, found.Recorded = worker.Boot, nil
	}
	if worker.Start != 0 && worker.PID != 0 && (found.Boot == "" || found.Boot == worker.Boot) {
		leader := reconcile.Process{PID: worker.PID, Start: worker.Start}
		found.Boot, found.Since = worker.Boot, worker.Start
		found.Session = proc.Session{Leader: leader, Folder: o.Root}
		if o.Below {
			found.Roots = []reconcile.Process{leader}
		}
	}
	found.Recorded = append(found.Recorded, o.Also...)
	// A worker that has given up its run may start its own pass before it ends. It still sits in the run's scope then.
	recorded := func(p reconcile.Process) bool { return p.PID == worker.PID }
	if o.SpareWorker && proc.SameProcess(worker) && !slices.ContainsFunc(found.Recorded, recorded) {
		found.Exclude = map[int]bool{worker.PID: true}
	}
	return found, nil
}

// List implements host.Host.
func (h *Host) List(_ context.Context, r host.ListRequest) (answer host.ListAnswer, err error) {
	if r.Below.PID == 0 {
		o, err := owner(r.Owned)
		if err == nil {
			answer.Processes, err = proc.Find(o)
		}
		return answer, asError(err)
	}
	answer.Processes, err = proc.Descendants(r.Below.PID)
	if !r.Environ {
		return answer, asError(err)
	}
	errs := []error{err}
	below := slices.Clone(answer.Processes)
	slices.SortStableFunc(below, func(a, b reconcile.Process) int { return cmp.Compare(a.Start, b.Start) })
	vars := map[string]string{}
	for _, p := range append([]reconcile.Process{r.Below}, below...) {
		env, err := proc.Environ(p)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		for _, entry := range env {
			name, value, _ := strings.Cut(entry, "=")
			vars[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		answer.Environ = append(answer.Environ, name+"="+vars[name])
	}
	return answer, asError(errors.Join(errs...))
}

// Kill implements host.Host. Its time is bounded by killBound, whatever ended the run.
func (h *Host) Kill(ctx context.Context, r host.KillRequest) (answer host.KillAnswer, err error) {
	o, err := owner(r.Owned)
	if r.ThreadOnly {
		o = proc.Owner{ThreadIDs: []string{r.Owned.ThreadID}, Exclude: map[int]bool{r.Spare.PID: true}}
		var below []reconcile.Process
		below, err = proc.Descendants(r.Spare.PID)
		for _, p := range below {
			o.Exclude[p.PID] = true
		}
	}
	grace := killGrace
	if r.Tree != "" {
		o, err, grace = proc.Owner{Tree: r.Tree}, nil, 0
	}
	if err != nil {
		return answer, asError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, killBound)
	defer cancel()
	answer.Left, err = proc.KillTree(ctx, o, grace)
	if err != nil {
		err = fmt.Errorf("ending processes of %s: %w", cmp.Or(r.Tree, "run "+r.Owned.Run.ID), err)
	}
	return answer, asError(err)
}

// killAll ends what belongs to an owner, and fails if something is left.
func killAll(ctx context.Context, o proc.Owner) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killBound)
	defer cancel()
	left, err := proc.KillTree(ctx, o, killGrace)
	if err != nil {
		return fmt.Errorf("ending processes of run %s: %w", o.RunID, err)
	}
	return host.Leftover(o.RunID, left)
}

// The bytes by which SQLite keeps writers apart: of the database, and of the file beside it that all its users share.
// Readers lock other bytes.
var (
	databaseBytes = []proc.Span{{First: 1 << 30, Last: 1<<30 + 1}}
	sharedBytes   = []proc.Span{{First: 120, Last: 122}}
)

// endLockHolders ends processes of the run that keep a lock of symphony. An agent can write none of these files, but a
// process that may read a file may lock it: a command that holds the project lock keeps every pass away.
func (r *run) endLockHolders(ctx context.Context, request host.ObserveRequest) ([]reconcile.Process, error) {
	space := r.held()
	if space == nil {
		return nil, nil
	}
	list, err := proc.Descendants(os.Getpid())
	if err != nil {
		return nil, err
	}
	holders, err := proc.LockHolders(list, r.lockFiles(request, space.Root, space.Path))
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	boot, err := proc.BootID()
	if err == nil {
		err = killAll(ctx, proc.Owner{Recorded: holders, Boot: boot})
	}
	return holders, err
}

// lockFiles are the files by whose locks symphony keeps its processes apart, without those of this run, which its
// processes inherit.
func (r *run) lockFiles(request host.ObserveRequest, root, path string) map[string][]proc.Span {
	files := map[string][]proc.Span{
		filepath.Join(request.StateDir, "state.db"):     databaseBytes,
		filepath.Join(request.StateDir, "state.db-shm"): sharedBytes,
	}
	meta := filepath.Join(root, ".symphony")
	own := []string{filepath.Join(r.Dir, AliveFile), filepath.Join(meta, filepath.Base(path)+".lock")}
	patterns := []string{
		filepath.Join(request.StateDir, "lock*"), filepath.Join(request.StateDir, "*.lock"), filepath.Join(request.StateDir, "runs", "*", AliveFile),
		filepath.Join(meta, "*.lock"), filepath.Join(meta, "projects", "*.lock"),
	}
	if request.AccountDir != "" {
		patterns = append(patterns, filepath.Join(request.AccountDir, "*.lock"), filepath.Join(request.AccountDir, "slots", "*"))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a malformed pattern
		}
		for _, path := range found {
			if !slices.Contains(own, path) {
				files[path] = nil
			}
		}
	}
	return files
}
