package tick

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/pass"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/render"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// The wait of a loop is the interval, a tenth shorter or longer, and ends when a retry is due.
func TestPauseFor(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		interval time.Duration
		random   float64
		due      time.Time
		want     time.Duration
	}{
		{time.Minute, 0, time.Time{}, 54 * time.Second},
		{time.Minute, 0.5, time.Time{}, time.Minute},
		{time.Minute, 1, time.Time{}, 66 * time.Second},
		{time.Hour, 0.25, time.Time{}, 57 * time.Minute},
		{0, 1, time.Time{}, 0},
		{time.Minute, 0, now.Add(54 * time.Second), 54 * time.Second},
		{time.Minute, 0, now.Add(55 * time.Second), 54 * time.Second},
		// the time of a retry has no jitter
		{time.Minute, 1, now.Add(5 * time.Second), 5 * time.Second},
		{time.Minute, 1, now.Round(0).Add(5 * time.Second), 5 * time.Second},
		{time.Minute, 1, now, 0},
		{time.Minute, 1, now.Add(-time.Hour), 0}, // the clock was set forward
		{time.Minute, 0.5, now.Add(1000 * time.Hour), time.Minute},
	} {
		test.Equal(
			t,
			fmt.Sprint(c),
			pauseFor(c.interval, c.random, now, c.due).Round(time.Millisecond),
			c.want,
		)
	}
}

// A retry that is overdue does not hurry a loop that can't start: it would ask again and again
// without a pause.
func TestNothingIsDueBeforeTheStart(t *testing.T) {
	var last pass.Result
	last.NextWake = time.Now().Add(-time.Hour)
	j := &job{}
	test.Equal(t, "without a lock", j.due(last), time.Time{})
	j.lock = test.Must(wiring.TakeLoopLock(t.Context(), t.TempDir()))
	defer j.lock.Close()
	test.Equal(t, "with a lock", j.due(last), last.NextWake)
}

// The note about interrupted workers names none that is still alive.
func TestInterruptedNamesTheEnded(t *testing.T) {
	one := reconcile.Run{ID: "1", Identifier: "ABC-1"}
	two := reconcile.Run{ID: "2", Identifier: "ABC-2"}
	runs := []reconcile.Run{one, two}
	test.Equal(t, "one of two", interrupted(runs, []reconcile.Run{one}),
		"the loop interrupted 1 worker (ABC-2); the next pass starts the issues again")
	test.Equal(t, "none", interrupted(runs, runs), "")
}

// A pass that could not be recorded, because the database was busy for instance, has no
// number.
func TestPassNotRecorded(t *testing.T) {
	var out strings.Builder
	w := &term.Env{Env: environ.Env{Now: time.Now}, Stdout: &out, Verbose: true}
	render.Pass(w, pass.Result{}, nil, nil)
	test.Equal(t, "the output", out.String(), "pass not recorded: 0 running\n")
	test.Equal(t, "its id", (pass.Result{}).JSON().Pass.ID, nil)
}

// A quiet loop prints an error once, and that it is over, also while the database is refused.
func TestQuietLoopRemembersWhatItPrinted(t *testing.T) {
	ctx := t.Context()
	var out strings.Builder
	w := &term.Env{Env: environ.Env{Now: time.Now}, Stderr: &out}
	p := &wiring.Project{StateDir: filepath.Join(t.TempDir(), "state")}
	test.OK(t, test.Must(state.Create(ctx, p.StateDir, time.Now())).Close())
	loop := Options{Quiet: true, printed: new(printed)}
	for range 3 {
		_ = quietError(ctx, w, p, loop, reconcile.NewError("state_newer", "newer", ""))
	}
	report(ctx, w, p, loop, pass.Result{})
	report(ctx, w, p, loop, pass.Result{})
	test.Equal(t, "the output", out.String(), "symphony: state_newer: newer\nsymphony: over: state_newer\n")
}

// A signal during the start of a loop ends it without an error, as one between two passes
// does.
func TestLoopEndsDuringItsStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "WORKFLOW.md")
	text := "---\ntracker: {kind: file, provider: {path: issues}, active_states: [Todo], " +
		"terminal_states: [Done]}\n---\nWork."
	test.OK(t, os.WriteFile(path, []byte(text), 0o600))
	var out bytes.Buffer
	w := &term.Env{
		Env:    environ.Env{Environ: []string{"TMPDIR=" + dir}, Dir: dir, Home: dir, Now: time.Now},
		Stdout: &out,
		Stderr: &out,
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Loop(
		ctx,
		w,
		[]*wiring.Project{wiring.NewProject(w.Environment(), path, filepath.Join(dir, "state"))},
		Options{},
	)
	test.OK(t, err)
	test.Equal(t, "the output", out.String(), "")
}

// A service tells systemd its state, and that it lives only while its passes proceed. Its
// workers do not inherit the variables.
func TestLoopTellsSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listener := test.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{
		Name: path,
		Net:  "unixgram",
	}))
	defer listener.Close()
	received := func() string {
		t.Helper()
		buffer := make([]byte, 1000)
		_ = listener.SetReadDeadline(time.Now().Add(test.Patience()))
		n := test.Must(listener.Read(buffer))
		return string(buffer[:n])
	}
	w := &term.Env{
		Env:    environ.Env{Caller: []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=1000"}},
		Stderr: &bytes.Buffer{},
	}
	s := newSystemd(w)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan bool)
	var alive sync.WaitGroup
	alive.Go(func() { s.keepAlive(ctx, func() bool { return <-asked }) })
	asked <- false
	asked <- true
	test.Equal(t, "systemd gets", received(), "WATCHDOG=1")
	asked <- false
	asked <- false
	cancel()
	close(asked)
	alive.Wait()

	l := &looper{w: w, systemd: s}
	one := &job{looper: l}
	l.jobs = []*job{one, {looper: l}}
	for deadline, want := range map[time.Duration]bool{time.Hour: true, -time.Second: false} {
		one.setDeadline(time.Hour)
		l.jobs[1].setDeadline(deadline)
		test.Equal(t, fmt.Sprintf("passes proceed, with %s more for a wait", deadline), l.inTime(), want)
	}
}
