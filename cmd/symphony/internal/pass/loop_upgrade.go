package pass

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// A schedule runs whatever program lies on the disk at the time; a loop would go on with the one it was started with,
// and start nothing any more once a newer one has migrated the state. So between two passes it looks whether its
// program has been replaced, and becomes the new one: the same process, with the same arguments. Nothing is lost,
// because a loop keeps nothing in mind; the workers go on with the program that they run.

// programFile is the file that this process runs.
type programFile struct {
	path string
	file os.FileInfo
	// refused is the replacement that was found not to work.
	refused os.FileInfo
}

func thisProgram() programFile {
	p := programFile{path: project.ProgramPath()}
	there, err := os.Stat(p.path)
	if err == nil {
		p.file = there
	}
	// What runs may have been replaced already. That its inode is another is not enough to say so: a file system of
	// layers may give one file two, and the loop must not become itself for ever.
	runs, err := os.Stat("/proc/self/exe")
	if err == nil && (p.file == nil || runs.Size() != there.Size() || !runs.ModTime().Equal(there.ModTime())) {
		p.file = runs
	}
	return p
}

// replacement is the other program that lies where this one was started from, nil if there is none.
func (p programFile) replacement() os.FileInfo {
	now, err := os.Stat(p.path)
	if err != nil || p.file == nil || sameProgram(now, p.file) || p.refused != nil && sameProgram(now, p.refused) && now.Mode() == p.refused.Mode() {
		return nil
	}
	return now
}

func sameProgram(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// trialBound is how long a new program may take to say its version.
const trialBound = 10 * time.Second

// upgrade goes on as the program that has taken this one's place, if one has; else it returns. A program that can't
// even say its version is refused once, and so is every moment at which the new one would not begin: the first pass of a
// loop ends it where the workflow is invalid.
func (l *looper) upgrade(ctx context.Context, p *project.Project) {
	next := l.program.replacement()
	if next == nil || ctx.Err() != nil {
		return
	}
	if _, err := p.Config(); err != nil {
		return
	}
	err := tryProgram(ctx, l.program.path)
	if ctx.Err() != nil || errors.Is(err, syscall.ETXTBSY) { // it is still being written
		return
	}
	if err == nil {
		if !l.options.Quiet {
			l.w.Note(slog.LevelInfo, l.program.path+" has been replaced: the loop goes on with the new program")
		}
		// The lock of the loop falls with it, and the new program takes it again.
		err = syscall.Exec(l.program.path, os.Args, os.Environ())
	}
	l.program.refused = next
	l.w.Note(slog.LevelWarn, fmt.Sprintf("%s has been replaced by a program that can't be run (%v): the loop goes on with the old one", l.program.path, err))
}

func tryProgram(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, trialBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Stdout, cmd.Stderr = io.Discard, io.Discard
	cmd.WaitDelay = time.Second
	return cmd.Run()
}

const reapStep = 5 * time.Second

// reapForeign reaps the workers that this process started before it became the present program, when they end.
func reapForeign(ctx context.Context, log *slog.Logger) {
	reaper, err := proc.NewReaper()
	if err != nil {
		return // zombies then stay until the loop ends, which harms nobody
	}
	go reaper.Run(ctx, reapStep, func(err error) { log.Warn("reaping", slog.String("error", err.Error())) })
}
