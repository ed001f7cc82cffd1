package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Most passes find nothing to do and live for a few milliseconds. What is here spares them what a Go program does for
// a long life and many processors; scripts/bench measures what is left.

// lean prepares the process for its command. A pass does one thing after the other, and a worker mostly waits: with one
// processor no goroutine wakes up another thread only to wait in its place, which takes a tenth of a pass. See
// oneproc.go.
func lean(command string) {
	if command != "tick" && command != "worker" {
		runtime.SetDefaultGOMAXPROCS()
	}
	growStack()
}

// sqliteStack is more than SQLite's parser needs, in bytes.
const sqliteStack = 40 << 10

// growStack makes the stack large while next to nothing is on it. Otherwise SQLite's deep calls make it grow step by
// step, and each step copies all frames by tables that first have to be read in: 0.3 ms of a pass.
func growStack() byte {
	var frame [sqliteStack]byte
	return last(&frame)
}

//go:noinline
func last(frame *[sqliteStack]byte) byte { return frame[sqliteStack-1] }

// signalGrace is how long a pass runs before it listens to signals. Until then one ends it at once, which a pass can
// bear at any line; the handler would take two more threads, 0.3 ms of a pass that lasts 6.
const signalGrace = 20 * time.Millisecond

// signals gives a context that SIGINT and SIGTERM end. listen begins to catch them where that has not begun yet; stop
// must be called.
func signals(command string) (ctx context.Context, listen, stop func()) {
	if command != "tick" {
		ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
		if command == "worker" || command == "takeover" {
			// At a logout systemd sends it right after SIGTERM, and it must not kill who is just ending. Of a takeover the terminal
			// went away, and the workspace is to be looked after all the same.
			ends = append(ends, syscall.SIGHUP)
		}
		ctx, stop := signal.NotifyContext(context.Background(), ends...)
		return ctx, func() {}, stop
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	later := time.AfterFunc(signalGrace, func() {
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM) // to the end: a second one is no news
		select {
		case s := <-caught:
			cancel(errors.New(s.String() + " signal received"))
		case <-ctx.Done():
		}
	})
	listen = func() { later.Reset(0) }
	return ctx, listen, func() { later.Stop(); cancel(nil) }
}
