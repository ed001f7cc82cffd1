package tick

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
)

// trialTime is how long a new program may take to print its version.
const trialTime = 10 * time.Second

// upgrader finds the program that replaces this one.
type upgrader struct {
	mu sync.Mutex
	// path is that of the program. version is the stamp of the file that this process runs or refused to run.
	path, version string
}

func newUpgrader() upgrader {
	path := project.ProgramPath()
	return upgrader{path: path, version: project.Stamp(path)}
}

// upgrade executes the program that has replaced this one between two passes, if there is one: in the same process, with the
// same arguments. With the old program a loop could start nothing once a newer one has migrated the state. upgrade returns if
// the new program can't print its version, or if the only workflow is invalid, which the first pass of the new loop would not survive.
func (l *looper) upgrade(ctx context.Context, p *project.Project) {
	u := &l.program
	u.mu.Lock()
	defer u.mu.Unlock()
	next := project.Stamp(u.path)
	if next == "" || next == u.version {
		return
	}
	if _, err := p.Config(); err != nil && l.alone() {
		return
	}
	trial, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	cmd := exec.CommandContext(trial, u.path, "version")
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = io.Discard, io.Discard, time.Second
	err := cmd.Run()
	if ctx.Err() != nil || errors.Is(err, syscall.ETXTBSY) { // it is still being written
		return
	}
	if err == nil {
		l.passes.Lock() // until those of other projects have ended
		defer l.passes.Unlock()
		if ctx.Err() != nil {
			return
		}
		if !l.options.Quiet {
			l.w.Note(slog.LevelInfo, u.path+" was replaced; the loop continues with the new one")
		}
		// Executing it unlocks the loop's locks, and the new program takes them again.
		err = syscall.Exec(u.path, os.Args, os.Environ())
	}
	u.version = next
	l.w.Note(slog.LevelWarn, fmt.Sprintf("%s was replaced by one that does not run (%v); the loop continues with the old one", u.path, err))
}
