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
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/tree"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/runner/proc"
)

const (
	killGrace = 2 * time.Second // between SIGTERM and SIGKILL
	killBound = 4 * time.Second // for the processes of one run
)

// Start implements host.Host.
func (h *Host) Start(_ context.Context, r host.StartRequest) (started host.Process, err error) {
	defer func() { err = host.WithCode(err) }()
	var lease, marker *os.File
	if known := h.known(r.Run); known != nil {
		marker = known.tree
		if known.space != nil {
			lease = known.space.Lease()
		}
	}
	if r.Tree != "" {
		if marker, err = tree.OpenTree(r.Tree); err != nil {
			return nil, err
		}
		defer marker.Close()
	}
	child, err := tree.Start(r, lease, marker)
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Observe implements host.Host. A run that is not open has started nothing.
func (h *Host) Observe(ctx context.Context, r host.ObserveRequest) (answer host.ObserveAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	known := h.known(r.Run)
	if known == nil {
		return answer, nil
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.procs == nil {
		return answer, nil // Finish was called
	}
	list, err := proc.Descendants(os.Getpid())
	if err = errors.Join(err, known.procs.Record(list)); err != nil {
		err = fmt.Errorf("processes not recorded: %w", err)
	}
	if known.space == nil {
		return answer, err
	}
	known.locks.Lease, known.locks.Files = known.space.Lease(), lockFiles(r, known.space.Root)
	holders, lockErr := known.locks.Holders(list)
	if len(holders) > 0 {
		boot, bootErr := proc.BootID()
		lockErr = errors.Join(lockErr, bootErr, killAll(ctx, r.Run.ID, tree.Owner{Recorded: holders, Boot: boot}))
	}
	answer.LockHolders = holders
	return answer, errors.Join(err, lockErr)
}

// lockFiles are the files whose locks coordinate symphony's processes. An agent can write none of them, but a process that can
// read a file can lock it: a command that holds the project lock blocks every pass. SQLite's writers lock these bytes of the
// database and of the file beside it; readers lock other bytes.
func lockFiles(r host.ObserveRequest, root string) map[string][]tree.Span {
	files := map[string][]tree.Span{
		filepath.Join(r.StateDir, "state.db"):     {{First: 1 << 30, Last: 1<<30 + 1}},
		filepath.Join(r.StateDir, "state.db-shm"): {{First: 120, Last: 122}},
	}
	meta := filepath.Join(root, ".symphony")
	for _, pattern := range []string{
		filepath.Join(r.StateDir, "lock*"), filepath.Join(r.StateDir, "*.lock"), filepath.Join(r.StateDir, "runs", "*", host.AliveFile),
		filepath.Join(meta, "*.lock"), filepath.Join(meta, "projects", "*.lock"), filepath.Join(meta, "mirrors", "*.lock"),
	} {
		files[pattern] = nil
	}
	if r.AccountDir != "" {
		files[filepath.Join(r.AccountDir, "*.lock")], files[filepath.Join(r.AccountDir, "slots", "*")] = nil, nil
	}
	return files
}

// owner describes the processes of a run by its marks, its tree file, the processes recorded in its directory, and its worker.
func owner(o host.Owned) (found tree.Owner, err error) {
	found = tree.Owner{RunID: o.Run.ID, ThreadID: o.ThreadID, Folder: o.Root, Below: o.Below}
	if o.Run.Dir == "" {
		return found, nil
	}
	found.Tree = filepath.Join(o.Run.Dir, host.TreeFile)
	if found.Recorded, found.Boot, err = tree.ReadProcs(filepath.Join(o.Run.Dir, host.ProcsFile)); err != nil {
		return found, fmt.Errorf("processes of run %s: %w", o.Run.ID, err)
	}
	worker := o.Worker
	if o.Below {
		if worker, err = proc.Self(); err != nil {
			return found, fmt.Errorf("own process: %w", err)
		}
	}
	if found.Boot != worker.Boot && worker.Boot != "" { // pids of another boot mean nothing
		found.Boot, found.Recorded = worker.Boot, nil
	}
	found.Worker = reconcile.Process{PID: worker.PID, Start: worker.Start}
	found.Recorded = append(found.Recorded, o.Also...)
	return found, nil
}

// List implements host.Host.
func (h *Host) List(_ context.Context, r host.ListRequest) (answer host.ListAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	if r.Below.PID == 0 {
		o, err := owner(r.Owned)
		if err == nil {
			answer.Processes, err = tree.Find(o)
		}
		return answer, err
	}
	if answer.Processes, err = proc.Descendants(r.Below.PID); !r.Environ {
		return answer, err
	}
	errs := []error{err}
	byStart := func(a, b reconcile.Process) int { return cmp.Compare(a.Start, b.Start) }
	below := slices.SortedStableFunc(slices.Values(answer.Processes), byStart)
	vars := map[string]string{}
	for _, p := range append([]reconcile.Process{r.Below}, below...) {
		env, err := proc.Environ(p)
		if !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		for _, entry := range env {
			name, _, _ := strings.Cut(entry, "=")
			vars[name] = entry
		}
	}
	answer.Environ = slices.Sorted(maps.Values(vars))
	return answer, errors.Join(errs...)
}

// Kill implements host.Host. It takes at most killBound, even if ctx lasts longer.
func (h *Host) Kill(ctx context.Context, r host.KillRequest) (answer host.KillAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	var o tree.Owner
	grace := killGrace
	switch {
	case r.Tree != "":
		o, grace = tree.Owner{Tree: r.Tree}, 0
	case r.ThreadOnly:
		o = tree.Owner{ThreadID: r.Owned.ThreadID, Spare: r.Spare.PID}
	default:
		if o, err = owner(r.Owned); err != nil {
			return answer, err
		}
	}
	answer.Left, err = kill(ctx, cmp.Or(r.Tree, "run "+r.Owned.Run.ID), o, grace)
	return answer, err
}

func kill(ctx context.Context, whose string, o tree.Owner, grace time.Duration) ([]reconcile.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, killBound)
	defer cancel()
	left, err := tree.Kill(ctx, o, grace)
	if err != nil {
		return left, fmt.Errorf("ending processes of %s: %w", whose, err)
	}
	return left, nil
}

// killAll ends the processes of an owner, even if ctx has ended, and fails if a process is left.
func killAll(ctx context.Context, runID string, o tree.Owner) error {
	left, err := kill(context.WithoutCancel(ctx), "run "+runID, o, killGrace)
	return errors.Join(err, host.Leftover("run "+runID, left))
}

// RunHook implements host.Host.
func (h *Host) RunHook(ctx context.Context, r host.HookRequest) (answer host.HookAnswer, err error) {
	defer func() { err = host.WithCode(err) }()
	known, err := h.held(r.Run)
	if err != nil {
		return answer, err
	}
	env, hooksOff, err := known.guard.HookEnv(r.Env)
	if err != nil {
		return answer, err
	}
	answer.GitHooksOff = hooksOff
	var log strings.Builder
	err = workspace.RunHook(ctx, workspace.Hook{
		Name: r.Name, Script: r.Script, Where: r.Where, Timeout: r.Timeout, Env: env, Files: tree.ExtraFiles(known.tree, known.space.Lease()),
	}, known.space, &log)
	answer.Log = log.String()
	return answer, err
}

// terminalGrace is the time between SIGTERM and SIGKILL for a command at the terminal.
const terminalGrace = 3 * time.Second

// RunInTerminal implements host.Terminal.
func (h *Host) RunInTerminal(ctx context.Context, r host.Run, argv, env []string, io host.Stdio, observe func(context.Context),
) (code int, err error) {
	defer func() { err = host.WithCode(err) }()
	known, err := h.held(r)
	if err != nil {
		return 0, err
	}
	if err := known.space.Verify(); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // codex.command is the operator's
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = "/", env, io.In, io.Out, io.Err
	cmd.ExtraFiles = tree.ExtraFiles(known.tree, known.space.Lease())
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = terminalGrace
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: %w", host.ErrNotStarted, err)
	}
	observing, stop := context.WithCancel(context.Background())
	var observed sync.WaitGroup
	observed.Go(func() { observe(observing) })
	err = cmd.Wait()
	stop()
	observed.Wait()
	var status *exec.ExitError
	if errors.As(err, &status) {
		return status.ExitCode(), nil
	}
	if ctx.Err() != nil {
		return 0, nil // it was ended because ctx was
	}
	return 0, err
}
