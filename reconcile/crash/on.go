//go:build crashpoints

package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile"
)

const (
	// pointVar is the point at which the process dies: [ROLE:]NAME[#N], where N counts the
	// process's visits and is 1 by default. ROLE is "worker", or "pass" for every other
	// process; without a role any process dies.
	pointVar = "SYMPHONY_CRASH_AT"
	// logVar is a file. Together with pointVar, the process that dies creates it, and a
	// process that finds it does not die, so that a single process among those that inherit
	// the variables dies. Without pointVar, each visit is appended to the file as a line
	// "ROLE:NAME PID".
	logVar = "SYMPHONY_CRASH_LOG"
	// stopVar makes the process stop (SIGSTOP) instead of dying.
	stopVar = "SYMPHONY_CRASH_STOP"
)

// Variables returns the environment variables that control the points. A worker and the pass
// that it starts inherit them. Hooks and agents must not, because a symphony command that they
// run would die instead of the intended process.
func Variables() []string { return []string{pointVar, logVar, stopVar} }

var state = struct {
	sync.Mutex
	visits map[string]int
}{visits: map[string]int{}}

// Method is a point named after the package and the method that called the caller. when is
// "before" or "after".
func Method(when string) {
	pc := make([]uintptr, 4)
	frames := runtime.CallersFrames(pc[:runtime.Callers(3, pc)])
	frame, _ := frames.Next()
	pkg, name, _ := strings.Cut(filepath.Base(frame.Function), ".") // state.Store.Commit
	At(pkg + "." + name[strings.LastIndexByte(name, '.')+1:] + "." + when)
}

// At is a point. The process dies here by SIGKILL, so that nothing is cleaned up.
func At(name string) {
	wanted := os.Getenv(pointVar)
	log := os.Getenv(logVar)
	if wanted == "" && log == "" {
		return
	}
	role := "pass"
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		role = "worker"
	}
	if wanted == "" {
		appendLine(log, fmt.Sprintf("%s:%s %d", role, name, os.Getpid()))
		return
	}
	at, visit, _ := strings.Cut(wanted, "#")
	if at != name && at != role+":"+name {
		return
	}
	n, _ := strconv.Atoi(visit) // 0 if it is missing
	state.Lock()
	// a process that dies keeps the lock, so that no other goroutine passes the point until
	// then
	defer state.Unlock()
	state.visits[name]++
	if state.visits[name] != max(n, 1) {
		return
	}
	isFirst := log == "" || createOnce(log, wanted)
	if !isFirst {
		return
	}
	how := syscall.SIGKILL
	if os.Getenv(stopVar) != "" {
		how = syscall.SIGSTOP
	}
	if err := syscall.Kill(os.Getpid(), how); err != nil {
		fail(err)
	}
	select {} // until the signal takes effect
}

// appendLine appends a line to a file, which it creates if necessary.
func appendLine(path, line string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fail(err)
	}
	writeLine(f, line)
}

// createOnce creates a file with a line. It returns false if the file exists: another process
// was first.
func createOnce(path, line string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false
	}
	if err != nil {
		fail(err)
	}
	writeLine(f, line)
	return true
}

// writeLine writes a line to a file and closes it.
func writeLine(f *os.File, line string) {
	_, err := f.WriteString(line + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		fail(err)
	}
}

// fail reports an error of the crash point itself, and ends the process.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "crash point:", err)
	os.Exit(125)
}

// Deps puts points before and after each call of a pass that reads the tracker or changes a
// process or workspace. The store uses Method instead.
func Deps(d reconcile.Deps) reconcile.Deps {
	d.Runners = runners{d.Runners}
	if d.Tracker != nil {
		adapter := *d.Tracker
		adapter.Tracker = tracker{adapter.Tracker}
		post := adapter.Post
		edit := adapter.Edit
		if post != nil && edit != nil {
			adapter.Post = func(ctx context.Context, issueID, body string) (reconcile.Comment, error) {
				return Around(
					"tracker.Post",
					func() (reconcile.Comment, error) { return post(ctx, issueID, body) },
				)
			}
			adapter.Edit = func(ctx context.Context, issueID, commentID, body string) (string, error) {
				return Around(
					"tracker.Edit",
					func() (string, error) { return edit(ctx, issueID, commentID, body) },
				)
			}
		}
		d.Tracker = &adapter
	}
	return d
}

// Around makes a call between two points.
func Around[T any](name string, call func() (T, error)) (T, error) {
	At(name + ".before")
	v, err := call()
	At(name + ".after")
	return v, err
}

// AroundErr is Around for a call that returns only an error.
func AroundErr(name string, call func() error) error {
	_, err := Around(name, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

type tracker struct{ reconcile.Tracker }

func (t tracker) ByIDs(ctx context.Context, ids []string) (map[string]reconcile.Issue, error) {
	return Around(
		"tracker.ByIDs",
		func() (map[string]reconcile.Issue, error) { return t.Tracker.ByIDs(ctx, ids) },
	)
}

func (t tracker) Candidates(ctx context.Context, states []string) ([]reconcile.Issue, error) {
	return Around(
		"tracker.Candidates",
		func() ([]reconcile.Issue, error) { return t.Tracker.Candidates(ctx, states) },
	)
}

type runners struct{ reconcile.Runners }

func (r runners) Prepare(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Prepare", func() error { return r.Runners.Prepare(ctx, run) })
}

func (r runners) Start(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Start", func() error { return r.Runners.Start(ctx, run) })
}

func (r runners) Stop(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Stop", func() error { return r.Runners.Stop(ctx, run) })
}

func (r runners) Kill(ctx context.Context, run reconcile.Run) error {
	return AroundErr("runners.Kill", func() error { return r.Runners.Kill(ctx, run) })
}

func (r runners) Reap(
	ctx context.Context,
	run reconcile.Run,
	record func([]reconcile.Process) error,
) ([]reconcile.Process, error) {
	return Around(
		"runners.Reap",
		func() ([]reconcile.Process, error) { return r.Runners.Reap(ctx, run, record) },
	)
}
