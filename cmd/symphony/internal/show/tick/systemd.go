package tick

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
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

// tell sends a line such as READY=1. If that fails systemd acts as if nothing was sent, and its
// log reports it.
func (s systemd) tell(line string) {
	if s.socket == "" {
		return
	}
	if err := s.send(line); err != nil {
		s.warn("could not notify systemd of " + line + ": " + err.Error())
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
