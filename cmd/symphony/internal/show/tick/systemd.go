package tick

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/runner/proc"
)

// systemd tells systemd how the service is, which runs the loop (sd_notify(3)). Elsewhere its
// methods do nothing.
type systemd struct {
	socket   string        // empty elsewhere
	watchdog time.Duration // how long it waits for a sign of life; 0: for ever
	warn     func(string)
}

// newSystemd reads the variables that systemd gives a service.
func newSystemd(w *term.Env) systemd {
	given := environ.Env{Environ: w.Caller}
	s := systemd{
		socket: given.Getenv("NOTIFY_SOCKET"),
		warn:   func(text string) { w.Note(slog.LevelWarn, text) },
	}
	usec, _ := strconv.ParseInt(given.Getenv("WATCHDOG_USEC"), 10, 64) // 0 without a watchdog
	if pid := given.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		s.watchdog = time.Duration(usec) * time.Microsecond
	}
	return s
}

// tell sends lines such as READY=1. If that fails systemd acts as if nothing was sent, and its
// log reports it.
func (s systemd) tell(lines ...string) {
	if s.socket == "" {
		return
	}
	if err := s.send(strings.Join(lines, "\n")); err != nil {
		s.warn("could not notify systemd of " + lines[0] + ": " + err.Error())
	}
}

func (s systemd) send(text string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(text))
	return err
}

// keepAlive sends signs of life while passes proceed. Without them systemd ends the loop, and
// starts it again if the unit asks for it.
func (s systemd) keepAlive(ctx context.Context, inTime func() bool) {
	if s.socket == "" || s.watchdog == 0 {
		return
	}
	for goesOn := true; goesOn; goesOn = wiring.Sleep(ctx, s.watchdog/2) {
		if inTime() {
			s.tell("WATCHDOG=1")
		}
	}
}

// hangups receives each SIGHUP, but nothing in a terminal: there SIGHUP ends the loop, as it
// does any program.
func (l *looper) hangups() <-chan os.Signal {
	hangup := make(chan os.Signal, 1)
	if !l.w.FromTerminal() && !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	return hangup
}

// reloadOn starts a pass of each project at a signal.
func (l *looper) reloadOn(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-hangup:
			l.reloadAll(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reloadAll returns when, for each project, a pass ended that read its files after the call.
func (l *looper) reloadAll(ctx context.Context) {
	l.systemd.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", proc.Monotonic().Microseconds()))
	if !l.options.Quiet {
		l.w.Note(
			slog.LevelInfo,
			"SIGHUP: a pass of each project reads its workflow and environment files again",
		)
	}
	var all []chan struct{}
	for _, j := range l.jobs {
		done := make(chan struct{})
		select {
		case j.reload <- done: // between two passes
			all = append(all, done)
		case <-ctx.Done():
			return
		}
	}
	for _, done := range all {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
	l.systemd.tell("READY=1")
}
