package pass

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/monitor/checktest"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// Equal errors are kept once, a full disk once for all steps that it stops.
func TestDropRepeatedErrors(t *testing.T) {
	var r Result
	for _, e := range []reconcile.Error{
		{Code: "disk_full", Message: "a"},
		{Code: "tracker_error", Message: "a"},
		{Code: "disk_full", Message: "b"},
		{Code: "tracker_error", Message: "b"},
		{Code: "tracker_error", Message: "a"},
	} {
		r.addError(&e)
	}
	r.addError(errors.New("other"))
	r.dropRepeatedErrors()
	var got []string
	for _, e := range r.Errors {
		got = append(got, e.Error())
	}
	test.Equal(t, "the errors", got, []string{"disk_full: a", "tracker_error: a", "tracker_error: b", "internal: other"})
}

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
		{time.Minute, 1, now.Add(5 * time.Second), 5 * time.Second}, // the time of a retry has no jitter
		{time.Minute, 1, now.Round(0).Add(5 * time.Second), 5 * time.Second},
		{time.Minute, 1, now, 0},
		{time.Minute, 1, now.Add(-time.Hour), 0}, // the clock was set forward
		{time.Minute, 0.5, now.Add(1000 * time.Hour), time.Minute},
	} {
		test.Equal(t, fmt.Sprint(c), pauseFor(c.interval, c.random, now, c.due).Round(time.Millisecond), c.want)
	}
}

// A pass that could not be recorded, because the database was busy for instance, has no number.
func TestPassNotRecorded(t *testing.T) {
	var out strings.Builder
	w := &term.Env{Stdout: &out, Now: time.Now, Verbose: true}
	ReportActions(&project.Project{Env: w}, Result{})
	test.Equal(t, "the output", out.String(), "pass not recorded: 0 running, 0 waiting, 0 held, 0 skipped\n")
	test.Equal(t, "its id", (Result{}).JSON().Pass.ID, nil)
}

// A run that an operator has stopped did not fail, and its sentence needs no code.
func TestStoppedRunSentence(t *testing.T) {
	for reason, want := range map[string]string{
		reconcile.StopAll:      "the run of WEB-1 was stopped by symphony stop --all",
		reconcile.StopOperator: "the run of WEB-1 was stopped by an operator",
	} {
		a := reconcile.Applied{Action: reconcile.Action{Reason: string(reconcile.Canceled), Message: "stopped: " + reason, Change: &reconcile.Change{}}}
		test.Equal(t, "it", (narrator{w: &term.Env{}}).settled(a, "WEB-1"), want)
	}
}

// A loop keeps its database open, until a backup has replaced it or a newer program has migrated it.
func TestLoopKeepsItsDatabase(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "state")
	var kept keptDB
	defer kept.close()
	open := func() *state.DB { return test.Must(kept.open(ctx, dir, time.Now())) }
	first := open()
	test.Equal(t, "the second pass opens the database again", open() != first, false)
	file := filepath.Join(dir, "state.db")
	copied := test.Must(os.ReadFile(file))
	test.OK(t, errors.Join(os.Remove(file+"-wal"), os.Remove(file), os.WriteFile(file, copied, 0o600)))
	second := open()
	test.Equal(t, "a pass writes to a database that was replaced", second == first, false)
	test.OK(t, second.SetMeta(ctx, "after", "the backup"))
	pool := test.Must(sql.Open("sqlite", file))
	test.Must(pool.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", second.Schema()+1)))
	test.OK(t, pool.Close())
	test.OK(t, second.Newer())
	test.Equal(t, "a pass notices that a newer program has migrated the database", open().Newer() != nil, true)
}

// A signal during the start of a loop ends it without an error, as one between two passes does.
func TestLoopEndsDuringItsStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "WORKFLOW.md")
	text := "---\ntracker: {kind: file, provider: {path: issues}, active_states: [Todo], terminal_states: [Done]}\n---\nWork."
	test.OK(t, os.WriteFile(path, []byte(text), 0o600))
	var out bytes.Buffer
	w := &term.Env{Stdout: &out, Stderr: &out, Dir: dir, Home: dir, Now: time.Now}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Loop(ctx, w, []*project.Project{project.New(w, path, filepath.Join(dir, "state"))}, TickOptions{})
	test.OK(t, err)
	test.Equal(t, "the output", out.String(), "")
}

// A service tells systemd its state, and that it lives only while its passes proceed. Its workers do not inherit the variables.
func TestLoopTellsSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listener := test.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))
	defer listener.Close()
	received := func() string {
		t.Helper()
		buffer := make([]byte, 1000)
		_ = listener.SetReadDeadline(time.Now().Add(test.Patience()))
		n := test.Must(listener.Read(buffer))
		return string(buffer[:n])
	}
	w := &term.Env{Environ: []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=1000", "A=b"}, Stderr: &bytes.Buffer{}}
	s := newSystemd(w)
	test.Equal(t, "the variables", w.Environ, []string{"A=b"})
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

	l := &looper{w: w, systemd: s, options: TickOptions{Quiet: true}}
	one := &job{looper: l, name: "one", reload: make(chan chan struct{})}
	l.jobs = []*job{one, {looper: l, name: "two", reload: one.reload}}
	one.say("1 running\n0 held")
	l.jobs[1].say("locked")
	go func() {
		first, second := <-one.reload, <-one.reload
		close(second)
		close(first)
	}()
	l.reloadAll(t.Context())
	for _, want := range []string{"STATUS=one: 1 running 0 held", "STATUS=one: 1 running 0 held; two: locked", "RELOADING=1\nMONOTONIC_USEC=", "READY=1"} {
		if got := received(); !strings.HasPrefix(got, want) {
			t.Errorf("systemd gets %q, want %q", got, want)
		}
	}

	for deadline, want := range map[time.Duration]bool{time.Hour: true, -time.Second: false} {
		one.allow(time.Hour)
		l.jobs[1].allow(deadline)
		test.Equal(t, fmt.Sprintf("passes proceed, with %s more for a wait", deadline), l.proceeds(), want)
	}
}

// A loop reports each failure, and a success unless it has just reported one.
func TestLoopReportsInMeasure(t *testing.T) {
	s := checktest.New(time.Minute, time.Minute, time.Now)
	defer s.Close()
	now := time.Now()
	p := &project.Project{Env: &term.Env{Now: func() time.Time { return now }, Stderr: &bytes.Buffer{}}}
	cfg := &workflow.Config{Monitor: workflow.Monitor{PingURL: workflow.Secret(s.URL), PingVar: "PING"}}
	o := Options{Trigger: project.TriggerLoop, reported: new(time.Time)}
	canceled, stop := context.WithCancel(t.Context())
	stop()
	for _, pass := range []struct {
		after time.Duration
		ctx   context.Context
		err   error
		pings string
	}{
		{0, t.Context(), nil, "start success"},
		{time.Second, t.Context(), nil, ""},
		{time.Second, t.Context(), errors.New("disk full"), "start fail"},
		{time.Second, t.Context(), nil, "start success"},
		{time.Second, t.Context(), nil, ""},
		{reportPause, canceled, context.Canceled, "start success"}, // the operator ends the loop
	} {
		now = now.Add(pass.after)
		before := len(s.Pings())
		m := &monitored{p: p, o: o}
		m.begin(cfg)
		m.end(pass.ctx, Result{Config: cfg}, pass.err)
		var kinds []string
		for _, ping := range s.Pings()[before:] {
			kinds = append(kinds, ping.Kind)
		}
		test.Equal(t, fmt.Sprint(pass.err), strings.Join(kinds, " "), pass.pings)
	}
}
