package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"golang.org/x/sys/unix"
)

// projectOf is the large project as a command of this process sees it.
func (l *large) projectOf(now func() time.Time) *project.Project {
	w := testWorld()
	w.Dir, w.Home, w.Now = l.dir, l.dir, now
	return project.New(w, filepath.Join(l.dir, "WORKFLOW.md"), l.state())
}

// A look reads only what has changed: by what others write, by a worker's death, by time for all the rest.
func TestLooker(t *testing.T) {
	l := newLarge(t)
	now := time.Now()
	p := l.projectOf(func() time.Time { return now })
	look := newLooker(p, viewOptions{})
	defer look.close()
	refresh := func() view {
		t.Helper()
		v, err := look.refresh(t.Context())
		l.must(err)
		return v
	}
	first := refresh()
	if len(first.Running) != largeRunning || !first.Running[0].Alive {
		t.Fatalf("it shows %d runs, the first of them alive: %v", len(first.Running), first.Running[0].Alive)
	}
	look.view.Counts.Held = -1 // stays until somebody reads
	if refresh().Counts.Held != -1 {
		t.Error("it read although nothing had changed")
	}
	l.exec(`UPDATE runs SET turns = 7 WHERE id = ?`, first.Running[0].RunID)
	if v := refresh(); v.Counts.Held == -1 || v.Running[0].TurnCount != 7 {
		t.Error("it did not see what was written")
	}
	last := first.Running[largeRunning-1].RunID
	l.must(l.workers[last].Close())
	if refresh().Running[largeRunning-1].Alive {
		t.Error("it did not see a worker's death")
	}
	look.view.Counts.Held = -1
	l.write(strings.Replace(standardWorkflow, "project_slug: demo", "project_slug: other", 1))
	now = now.Add(freshStep)
	if v := refresh(); v.Counts.Held == -1 || *v.Project.ProjectSlug != "other" {
		t.Errorf("it did not see the changed workflow: %s", *v.Project.ProjectSlug)
	}

	// What can't be read leaves the last view, and is tried again at once.
	l.must(os.Rename(l.state(), l.state()+".away"))
	now = now.Add(freshStep)
	v, err := look.refresh(t.Context())
	var known *reconcile.Error
	if !errors.As(err, &known) || known.Code != "no_state" || len(v.Running) != largeRunning {
		t.Errorf("without a state: %v, and %d runs", err, len(v.Running))
	}
	l.must(os.Rename(l.state()+".away", l.state()))
	refresh()
}

// A look that takes long is followed by a rest.
func TestLookerRests(t *testing.T) {
	l := newLarge(t)
	now, took := time.Now(), 25*time.Millisecond
	p := l.projectOf(func() time.Time { now = now.Add(took); return now })
	look := newLooker(p, viewOptions{})
	defer look.close()
	turns := func() int {
		t.Helper()
		v, err := look.refresh(t.Context())
		l.must(err)
		return v.Running[0].TurnCount
	}
	turns()
	l.exec(`UPDATE runs SET turns = 7 WHERE outcome IS NULL`)
	if turns() == 7 {
		t.Error("it did not rest")
	}
	now = now.Add(freshStep / 2)
	if turns() != 7 {
		t.Error("it rests for too long")
	}
}

// watchedTerminal is a watch of this process, on a terminal of its own.
type watchedTerminal struct {
	*large
	slave  *os.File
	frames <-chan string
	ended  chan any // what it panicked with, or the error that it returned
}

func (l *large) watch(ctx context.Context, now func() time.Time) *watchedTerminal {
	l.t.Helper()
	master, slave, err := openTerminal(80)
	l.must(err)
	l.t.Cleanup(func() { slave.Close(); master.Close() })
	p := l.projectOf(now)
	p.Env.Stdin, p.Env.Width = slave, 80
	wt := &watchedTerminal{l, slave, framesOf(master), make(chan any, 1)}
	go func() {
		defer func() {
			if broken := recover(); broken != nil {
				wt.ended <- broken
			}
		}()
		wt.ended <- watchScreen(ctx, p, viewOptions{}, slave)
	}()
	return wt
}

// frame waits for one that matches.
func (wt *watchedTerminal) frame(ok func(string) bool) {
	wt.t.Helper()
	for end := time.After(bound); ; {
		select {
		case f := <-wt.frames:
			if ok(f) {
				return
			}
		case got := <-wt.ended:
			wt.t.Fatalf("it ended: %v", got)
		case <-end:
			wt.t.Fatal("no such frame")
		}
	}
}

func (wt *watchedTerminal) end(want any) {
	wt.t.Helper()
	select {
	case got := <-wt.ended:
		if got != want {
			wt.t.Errorf("it ended with %v", got)
		}
	case <-time.After(bound):
		wt.t.Fatal("it does not end")
	}
}

func (wt *watchedTerminal) mode() unix.Termios {
	wt.t.Helper()
	mode, err := unix.IoctlGetTermios(int(wt.slave.Fd()), unix.TCGETS)
	wt.must(err)
	return *mode
}

func anyFrame(string) bool { return true }

// A panic leaves the terminal as it was, so that its report can be read.
func TestWatchPanic(t *testing.T) {
	var broken, begun atomic.Bool
	goOn := make(chan struct{})
	wt := newLarge(t).watch(t.Context(), func() time.Time {
		if begun.CompareAndSwap(false, true) {
			<-goOn
		}
		if broken.Load() {
			panic("broken clock")
		}
		return time.Now()
	})
	before := wt.mode()
	close(goOn)
	wt.frame(anyFrame)
	if wt.mode().Lflag&(unix.ECHO|unix.ICANON) != 0 {
		t.Error("the terminal is not in raw mode meanwhile")
	}
	broken.Store(true)
	wt.end("broken clock")
	if after := wt.mode(); after != before {
		t.Errorf("the terminal was %+v and is %+v", before, after)
	}
}

// A new size is followed at once, not at the next second.
func TestWatchResize(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wt := newLarge(t).watch(ctx, time.Now)
	wt.frame(anyFrame)
	start, sizes := time.Now(), 12
	for i := range sizes {
		columns := 60 + i
		wt.must(unix.IoctlSetWinsize(int(wt.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: uint16(columns)}))
		wt.must(syscall.Kill(os.Getpid(), syscall.SIGWINCH)) // as the system does for those whose terminal it is
		wt.frame(func(f string) bool {
			for line := range strings.SplitSeq(f, nextLine) {
				if strings.Contains(line, "ABC-1 ") || strings.Contains(line, "ABC-1"+term.PlainText) {
					return term.Cells(strings.NewReplacer(firstCell, "", eraseLine, "").Replace(line)) == columns
				}
			}
			return false
		})
	}
	if took := time.Since(start); took > time.Duration(sizes)*watchStep/2 {
		t.Errorf("%d sizes took %s", sizes, took)
	}
	stop()
	wt.end(nil)
}
