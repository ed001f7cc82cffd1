package runner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
)

// startHook hands the run's tree file on beside the lease, and has the hook's shell tell over a pipe what it has of
// variables before the script begins: the profile may export secrets that nobody else knows of, which the script may
// print. What a hook prints is written when it is over, and by then they are known.
func (a *attempt) startHook(ctx context.Context, c workspace.Command) (workspace.Process, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to the hook: %w", err)
	}
	c.Script = tellEnv(firstExtra+len(c.ExtraFiles)) + c.Script
	c.ExtraFiles = proc.WithTree(append(c.ExtraFiles, to), firstExtra, a.tree)
	p, err := a.Executor.Hook(ctx, c)
	if closeErr := to.Close(); closeErr != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "pipe to the hook", slog.String("error", closeErr.Error()))
	}
	if err != nil {
		return nil, errors.Join(err, from.Close())
	}
	h := &tellingHook{Process: p, from: from, told: make(chan struct{})}
	go func() {
		defer close(h.told)
		a.Redactor.Add(secretsAmong(readTold(from), a.Config.PassEnv))
	}()
	return h, nil
}

// lastTold ends what a hook's shell tells. No variable is called nothing.
const lastTold = "="

// tellEnv has a shell write its environment to a descriptor, and close that. It adds no line, so that those of the
// script keep their numbers. A shell that can't goes on without.
func tellEnv(fd int) string {
	n := strconv.Itoa(fd)
	return `{ command env -0 && printf '` + lastTold + `\0'; } 2>/dev/null >&` + n + `; exec ` + n + `>&-; `
}

// maxTold bounds what is read: no system lets an environment grow so large.
const maxTold = 8 << 20

// readTold reads to the end of what a shell tells; something that the profile left behind may hold the pipe for longer.
func readTold(from io.Reader) (env []string) {
	in := bufio.NewReader(io.LimitReader(from, maxTold))
	for {
		entry, err := in.ReadBytes(0)
		if err != nil {
			return env // cut off, or over
		}
		if entry = bytes.TrimSuffix(entry, []byte{0}); string(entry) == lastTold {
			return env
		}
		env = append(env, string(entry))
	}
}

// tellingHook is over when its shell is, and what that has told was read.
type tellingHook struct {
	workspace.Process
	from *os.File
	told chan struct{}
}

// toldBound is how long what a shell has told is read for when it has ended: all of it is there by then.
const toldBound = time.Second

// Wait implements workspace.Process.
func (h *tellingHook) Wait() error {
	err := h.Process.Wait()
	select {
	case <-h.told:
	case <-time.After(toldBound):
	}
	// The shell's own error keeps its type, by which how it ended is told.
	if closeErr := h.from.Close(); err == nil && closeErr != nil {
		return fmt.Errorf("pipe to the hook: %w", closeErr)
	}
	return err
}
