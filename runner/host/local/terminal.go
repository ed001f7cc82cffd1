package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// terminalGrace is how long a command at the terminal gets to end when it is asked to.
const terminalGrace = 3 * time.Second

// RunInTerminal implements host.Terminal.
func (h *Host) RunInTerminal(ctx context.Context, r host.Run, argv, env []string, io host.Stdio, observe func(context.Context)) (code int, err error) {
	defer func() { err = host.WithCode(err) }()
	known, err := h.held(r)
	if err != nil {
		return 0, err
	}
	if err := known.space.Verify(); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // codex.command is the operator's
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = known.space.Path, env, io.In, io.Out, io.Err
	cmd.ExtraFiles = proc.ExtraFiles(known.tree, known.space.Lease())
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
		return 0, nil // it was ended as asked
	}
	return 0, err
}
