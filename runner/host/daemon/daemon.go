package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Launch makes sure that an incarnation of a run is served: it starts a daemon for it, unless there is or was one. If it returns nil, the
// daemon can be connected to. Otherwise the error is that of a client (remote.CodeRefused, CodeEnded, CodeDied), or nothing was started.
// It can be repeated.
func Launch(ctx context.Context, p Place, incarnation int64, s proc.Spawn, now time.Time) error {
	status, err := p.Status()
	if err != nil {
		return err
	}
	if status.Incarnation >= incarnation || status.Serving && status.Outcome == nil {
		return status.Err(incarnation)
	}
	if err := sweep(p.StateDir, now); err != nil {
		return fmt.Errorf("directories of ended runs: %w", err)
	}
	d, err := proc.Detach(s)
	if err == nil {
		err = d.Ready(ctx)
	}
	if err == nil {
		return nil
	}
	// Another call may have been faster.
	if status, statusErr := p.Status(); statusErr == nil && status.Incarnation >= incarnation {
		return status.Err(incarnation)
	}
	return err
}

// Options are for Serve.
type Options struct {
	Incarnation int64
	// LostAfter is how long the daemon works without a link. Then it ends the run.
	LostAfter time.Duration
	// Ready is called when clients can connect.
	Ready func() error
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	lostStep    = time.Second      // how often the daemon looks whether it has a link
	goodbye     = 5 * time.Second  // for the answer to the worker's last call
	finishBound = 30 * time.Second // for the end of a run without its worker
)

// Serve serves the run until it ends. It ends early, and ends the run, if ctx ends or if there was no link for too long.
func Serve(ctx context.Context, m host.Machine, p Place, o Options) error {
	status, err := p.Status()
	if err != nil {
		return err
	}
	wait := lostStep // for calls of Status
	if status.Outcome != nil {
		wait = 2 * goodbye // the daemon of an earlier incarnation may be ending
	}
	release, err := p.hold(wait)
	if err != nil {
		return fmt.Errorf("run %s is served already: %w", p.RunID, err)
	}
	defer release()
	if status, err = p.Status(); err == nil && status.Incarnation >= o.Incarnation {
		err = fmt.Errorf("run %s was served already, for incarnation %d", p.RunID, status.Incarnation)
	}
	if err == nil {
		err = p.begin(o.Incarnation)
	}
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", p.socket())
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	d := &daemon{Options: o, place: p, server: remote.NewServer(m, p.RunID, o.Incarnation, p.dir()), released: make(chan struct{})}
	d.server.Released = d.release
	if err := o.Ready(); err != nil {
		o.Log.Info("the program that has started this one has ended", "error", err)
	}
	go d.accept(listener)
	end := d.wait(ctx)
	o.Log.Info("the daemon ends", "end", end)
	if end == EndReleased {
		d.takeLeave()
		return d.server.Close()
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishBound)
	defer cancel()
	if err := d.server.EndRun(bounded); err != nil {
		return err // without an outcome another daemon ends what is left
	}
	return p.end(Outcome{o.Incarnation, end, o.Now()})
}

// daemon is a daemon that serves.
type daemon struct {
	Options
	place  Place
	server *remote.Server

	once     sync.Once
	released chan struct{}
	streams  sync.WaitGroup
}

func (d *daemon) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			d.Log.Warn("no connection", "error", err)
			time.Sleep(lostStep)
			continue
		}
		d.streams.Go(func() { d.Log.Info("stream ended", "error", d.server.Serve(conn)) })
	}
}

// release stores that the worker has ended the run.
func (d *daemon) release() error {
	err := d.place.end(Outcome{d.Incarnation, EndReleased, d.Now()})
	if err == nil {
		d.once.Do(func() { close(d.released) })
	}
	return err
}

// wait waits for the end of the daemon.
func (d *daemon) wait(ctx context.Context) (end string) {
	ticks := time.NewTicker(lostStep)
	defer ticks.Stop()
	for {
		select {
		case <-d.released:
			return EndReleased
		case <-ctx.Done():
			return EndTerminated
		case <-ticks.C:
			if d.server.Silent() > d.LostAfter {
				return EndLost
			}
		}
	}
}

// takeLeave waits until the worker has closed its stream after the last answer.
func (d *daemon) takeLeave() {
	gone := make(chan struct{})
	go func() { d.streams.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(goodbye):
	}
}

const dialPatience = 5 * time.Second // for a daemon that has taken the lock and not yet opened its socket

// Connect connects a pair of streams to the daemon of a run until either ends. Without a daemon it tells the client why.
func Connect(ctx context.Context, p Place, incarnation int64, in io.Reader, out io.Writer) error {
	for end := time.Now().Add(dialPatience); ; time.Sleep(100 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", p.socket())
		if err == nil {
			return join(ctx, conn, in, out)
		}
		status, statusErr := p.Status()
		if statusErr == nil {
			if refused := status.Err(incarnation); refused != nil {
				return errors.Join(refused, remote.Refuse(out, refused))
			}
		}
		if statusErr != nil || !status.Serving || time.Now().After(end) || ctx.Err() != nil {
			return errors.Join(fmt.Errorf("no daemon of run %s: %w", p.RunID, err), statusErr)
		}
	}
}

func join(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, in)
		_ = conn.Close() // the client has gone
	}()
	_, err := io.Copy(out, conn)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
