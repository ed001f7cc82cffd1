package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/runner/proc"
)

const (
	killGrace = 2 * time.Second // between SIGTERM and SIGKILL
	killBound = 4 * time.Second // for the processes of a run
)

func (r *run) Start(ctx context.Context, q host.StartRequest) (host.Process, error) {
	var lease *os.File
	if r.space != nil {
		lease = r.space.Lease()
	}
	if q.Box != nil {
		return r.startBoxed(ctx, q, lease)
	}
	return startCommand(q, lease, r.tree)
}

func startCommand(q host.StartRequest, lease, marker *os.File) (host.Process, error) {
	child, err := tree.Start(q, lease, marker)
	if err != nil {
		return nil, err
	}
	return process{child}, nil
}

func (Machine) StartMarked(_ context.Context, mark string, q host.StartRequest) (host.Process, error) {
	marker, err := tree.OpenTree(mark)
	if err != nil {
		return nil, err
	}
	defer marker.Close()
	return startCommand(q, nil, marker)
}

func (Machine) KillMarked(ctx context.Context, mark string) (host.LeftAnswer, error) {
	return kill(ctx, mark, tree.Owner{Tree: mark}, 0)
}

// process is a started command. It implements host.Process.
type process struct{ *tree.Child }

var _ host.Process = process{}

func (p process) Descendants(context.Context) ([]reconcile.Process, error) {
	return proc.Descendants(p.Process().PID)
}

func (p process) Environ(ctx context.Context) ([]string, error) {
	below, err := p.Descendants(ctx)
	merged, mergeErr := mergeEnviron(nil, append([]reconcile.Process{p.Process()}, below...))
	return merged, errors.Join(err, mergeErr)
}

// mergeEnviron adds the variables of processes to an environment. Those of the youngest win.
func mergeEnviron(env []string, processes []reconcile.Process) ([]string, error) {
	vars := map[string]string{}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		vars[name] = entry
	}
	slices.SortStableFunc(processes, func(a, b reconcile.Process) int { return cmp.Compare(a.Start, b.Start) })
	var errs []error
	for _, q := range processes {
		own, err := proc.Environ(q)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		for _, entry := range own {
			name, _, _ := strings.Cut(entry, "=")
			vars[name] = entry
		}
	}
	return slices.Sorted(maps.Values(vars)), errors.Join(errs...)
}

func (p process) KillThread(ctx context.Context, threadID string) (host.LeftAnswer, error) {
	o := tree.Owner{ThreadID: threadID, Spare: p.Process().PID}
	return kill(ctx, "thread "+threadID, o, killGrace)
}

// Observe implements host.Run. A run that is not open started nothing.
func (r *run) Observe(ctx context.Context) (answer host.ObserveAnswer, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.procs == nil {
		return answer, nil
	}
	list, err := proc.Descendants(os.Getpid())
	err = errors.Join(err, r.procs.Record(list))
	if err != nil {
		err = fmt.Errorf("processes not recorded: %w", err)
	}
	root := ""
	r.locks.Lease = nil
	r.locks.Own = nil
	if r.space != nil {
		root = r.space.Root
		r.locks.Lease = r.space.Lease()
		r.locks.Own = []string{r.space.Path, r.space.TmpDir, r.space.CacheDir}
	}
	r.locks.Files = func() map[string][]tree.Span { return r.machine.lockFiles(ctx, root) }
	holders, lockErr := r.locks.Holders(list)
	if len(holders) > 0 {
		boot, bootErr := proc.BootID()
		killErr := killAll(ctx, r.id, tree.Owner{Recorded: holders, Boot: boot})
		lockErr = errors.Join(lockErr, bootErr, killErr)
	}
	answer.LockHolders = holders
	return answer, errors.Join(err, lockErr)
}

// lockFiles are the files of all projects whose locks coordinate symphony's processes. An
// agent can write none of them, but a process that can read a file can lock it: a command that
// holds the project lock blocks every pass. root is the workspace root of the run, empty for
// none.
func (m Machine) lockFiles(ctx context.Context, root string) map[string][]tree.Span {
	states := []string{m.StateDir}
	roots := []string{}
	if root != "" {
		roots = append(roots, root)
	}
	if m.Projects != nil {
		others, otherRoots := m.Projects(ctx)
		states = append(states, others...)
		roots = append(roots, otherRoots...)
	}
	files := map[string][]tree.Span{}
	// SQLite's writers lock these bytes of the database and of the file beside it; readers
	// lock other bytes.
	for _, dir := range text.Map(states, paths.Literal) {
		files[filepath.Join(dir, "state.db")] = []tree.Span{{First: 1 << 30, Last: 1<<30 + 1}}
		files[filepath.Join(dir, "state.db-shm")] = []tree.Span{{First: 120, Last: 122}}
		files[filepath.Join(dir, "lock*")] = nil
		files[filepath.Join(dir, "*.lock")] = nil
		files[filepath.Join(dir, "runs", "*", host.AliveFile)] = nil
	}
	for _, dir := range text.Map(roots, paths.Literal) {
		meta := filepath.Join(dir, ".symphony")
		files[filepath.Join(meta, "*.lock")] = nil
		files[filepath.Join(meta, "projects", "*.lock")] = nil
		files[filepath.Join(meta, "mirrors", "*.lock")] = nil
	}
	if m.AccountDir != "" {
		dir := paths.Literal(m.AccountDir)
		files[filepath.Join(dir, "*.lock")] = nil
		files[filepath.Join(dir, "slots", "*")] = nil
	}
	return files
}

// owner describes the processes of a run by its marks, its tree file, the processes recorded
// in its directory, and its worker.
func (m Machine) owner(q host.LeftRequest) (found tree.Owner, err error) {
	found = tree.Owner{RunID: q.RunID, ThreadID: q.ThreadID, Folder: q.Root}
	if m.StateDir == "" {
		return found, nil
	}
	dir := host.RunDir(m.StateDir, q.RunID)
	found.Tree = filepath.Join(dir, host.TreeFile)
	recorded, err := tree.ReadProcs(filepath.Join(dir, procsFile))
	if err != nil {
		return found, fmt.Errorf("processes of run %s: %w", q.RunID, err)
	}
	found.Boot = recorded.Boot
	found.Worker = recorded.Worker
	found.Recorded = recorded.Processes
	return found, nil
}

func (m Machine) Left(_ context.Context, q host.LeftRequest) (answer host.LeftAnswer, err error) {
	o, err := m.owner(q)
	if err != nil {
		return answer, err
	}
	answer.Processes, err = tree.Find(o)
	return answer, err
}

// End implements host.Machine. It takes at most killBound, even if ctx lasts longer.
func (m Machine) End(ctx context.Context, q host.LeftRequest) (answer host.LeftAnswer, err error) {
	o, err := m.owner(q)
	if err != nil {
		return answer, err
	}
	worker := reconcile.Handle{Boot: o.Boot, PID: o.Worker.PID, Start: o.Worker.Start}
	if q.Frozen && proc.SameProcess(worker) {
		// Its descendants are looked for before: afterwards they have another parent.
		o.Descendants = true
		answer.Processes, err = tree.Find(o)
		if err != nil {
			return answer, err
		}
		err = proc.Signal(o.Worker, unix.SIGKILL)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return answer, err
		}
		o.Recorded = append(o.Recorded, append(answer.Processes, o.Worker)...)
	}
	return kill(ctx, "run "+q.RunID, o, killGrace)
}

// Kill implements host.Run: it also ends the descendants of this process, if the run is open.
func (r *run) Kill(ctx context.Context, q host.KillRequest) (answer host.LeftAnswer, err error) {
	m := r.machine
	if r.tree == nil {
		m = Machine{} // the run left no files
	}
	o, err := m.owner(host.LeftRequest{RunID: r.id, ThreadID: q.ThreadID, Root: q.Root})
	if err != nil {
		return answer, err
	}
	o.Descendants = r.tree != nil
	answer, err = kill(ctx, "run "+r.id, o, killGrace)
	if err != nil {
		return answer, err
	}
	if len(answer.Processes) == 0 && r.space != nil {
		// RestoreGit tries again, and reports the error
		answer.Locks, _ = git.RemoveLocks(r.space.Path)
	}
	return answer, nil
}

func kill(
	ctx context.Context,
	whose string,
	o tree.Owner,
	grace time.Duration,
) (answer host.LeftAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, killBound)
	defer cancel()
	answer.Processes, err = tree.Kill(ctx, o, grace)
	if err != nil {
		return answer, fmt.Errorf("ending processes of %s: %w", whose, err)
	}
	return answer, nil
}

// killAll ends the processes of an owner, even if ctx ended, and fails if a process is left.
func killAll(ctx context.Context, runID string, o tree.Owner) error {
	answer, err := kill(context.WithoutCancel(ctx), "run "+runID, o, killGrace)
	return errors.Join(err, host.Leftover("run "+runID, answer.Processes))
}

func (r *run) RunHook(ctx context.Context, q host.HookRequest) (answer host.HookAnswer, err error) {
	if err := r.held(); err != nil {
		return answer, err
	}
	q.Env, answer.GitHooksOff, err = r.guard.HookEnv(q.Env)
	if err != nil {
		return answer, err
	}
	hook := workspace.Hook{HookRequest: q, Files: tree.ExtraFiles(r.tree, r.space.Lease())}
	answer.Log, err = workspace.RunHook(ctx, hook, r.space)
	return answer, err
}

// terminalGrace is the time between SIGTERM and SIGKILL for a command at the terminal.
const terminalGrace = 3 * time.Second

// deafToKeys lets bubblewrap live when Ctrl-C, Ctrl-\ and Ctrl-Z send signals to the agent. In
// the sandbox, Init undoes it for the agent.
const deafToKeys = `trap "" INT QUIT TSTP; exec "$@"`

// RunInTerminal implements host.Run. The files that mark the run's processes are inherited,
// too.
func (r *run) RunInTerminal(
	ctx context.Context,
	q host.StartRequest,
	io host.Stdio,
	observe func(context.Context),
) (code int, err error) {
	if err := r.Verify(ctx); err != nil {
		return 0, err
	}
	if q.Box != nil {
		q, err = r.boxedRequest(ctx, q)
		if err != nil {
			return 0, err
		}
		q.Argv = slices.Concat([]string{"bash", "-c", deafToKeys, "bash"}, q.Argv)
	}
	cmd := exec.CommandContext(ctx, q.Argv[0], q.Argv[1:]...) //nolint:gosec // the operator names it
	cmd.Dir = q.Dir
	cmd.Env = q.Env
	cmd.Stdin = io.In
	cmd.Stdout = io.Out
	cmd.Stderr = io.Err
	cmd.ExtraFiles = tree.ExtraFiles(r.tree, r.space.Lease())
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = terminalGrace
	front := newForeground(cmd, io.In)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", host.ErrNotStarted, err)
	}
	front.follow(cmd.Process.Pid)
	observing, stop := context.WithCancel(context.Background())
	var observed sync.WaitGroup
	observed.Go(func() { observe(observing) })
	err = cmd.Wait()
	front.close()
	stop()
	observed.Wait()
	if ctx.Err() != nil {
		return 0, nil //nolint:nilerr // it was ended because ctx was
	}
	if status, ok := errors.AsType[*exec.ExitError](err); ok {
		return exitCode(status), nil
	}
	return 0, err
}

// exitCode returns an exit code as a shell does: 137 for a command that signal 9 ended.
func exitCode(status *exec.ExitError) int {
	ended, ok := status.Sys().(syscall.WaitStatus)
	if ok && ended.Signaled() {
		return 128 + int(ended.Signal())
	}
	return status.ExitCode()
}
