package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Launch makes sure that an incarnation of a run is served: it starts a daemon for it, unless
// there is or was a daemon. If it returns nil, there is a daemon, which can be connected to
// within moments. Otherwise the error carries the code of a client (remote.CodeRefused,
// CodeEnded, CodeDied), or it is not known whether there is a daemon. It can be repeated.
func Launch(ctx context.Context, p Place, incarnation int64, s proc.Spawn) error {
	status, err := p.Status()
	if err != nil {
		return err
	}
	// While an older daemon serves, its client must end it first.
	if status.Incarnation >= incarnation || status.Serving && status.Outcome == nil {
		return status.Err(incarnation)
	}
	failed := start(ctx, s)
	if failed == nil {
		return nil
	}
	// Another call may have been faster.
	status, err = p.Status()
	if err == nil && status.Incarnation >= incarnation {
		return status.Err(incarnation)
	}
	return failed
}

// start starts a daemon, and waits until it serves.
func start(ctx context.Context, s proc.Spawn) error {
	d, err := proc.Detach(s)
	if err != nil {
		return err
	}
	return d.Ready(ctx)
}

// Options are for Serve.
type Options struct {
	remote.Incarnation
	// LostAfter is how long the daemon works without a link. Then it ends the run.
	LostAfter time.Duration
	// Ready is called when clients can connect.
	Ready func() error
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	lostStep    = time.Second      // how often the daemon checks whether it is connected
	observeStep = 5 * time.Second  // how often it records the run's processes
	goodbye     = 5 * time.Second  // for the answer to the worker's last call
	finishBound = 30 * time.Second // for the end of a run without its worker
)

// Serve serves the run until it ends. It ends early, and ends the run, if ctx ends or if there
// was no link for too long.
func Serve(ctx context.Context, m host.Local, p Place, o Options) error {
	release, err := p.hold(2 * goodbye) // the daemon of an earlier incarnation may be ending
	if err != nil {
		return fmt.Errorf("run %s is served already: %w", p.RunID, err)
	}
	defer release()
	if err := takeOver(ctx, m, p, o.Number); err != nil {
		return err
	}
	if err := p.sweep(o.Now()); err != nil {
		o.Log.Warn("directories of ended runs", "error", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", p.socket())
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	d := &daemon{
		Options:  o,
		place:    p,
		server:   remote.NewServer(m, o.Incarnation),
		released: make(chan struct{}),
	}
	d.server.Released = d.release
	d.server.LostAfter = o.LostAfter
	if err := o.Ready(); err != nil {
		o.Log.Info("the starting program has ended", "error", err)
	}
	go d.accept(listener)
	end := d.wait(ctx)
	o.Log.Info("the daemon ends", "end", end)
	if end == EndReleased {
		d.awaitStreams()
		return d.server.Close()
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishBound)
	defer cancel()
	if err := d.server.EndRun(bounded); err != nil {
		return err // without an outcome another daemon ends the rest
	}
	return p.end(Outcome{o.Number, end, o.Now()})
}

// takeOver makes this process the daemon of an incarnation. It ends the processes that an
// earlier daemon left when it was killed.
func takeOver(ctx context.Context, m host.Local, p Place, incarnation int64) error {
	status, err := p.Status()
	if err != nil {
		return err
	}
	if status.Incarnation >= incarnation {
		return fmt.Errorf("run %s was served already, for incarnation %d", p.RunID, status.Incarnation)
	}
	if status.Incarnation > 0 && status.Outcome == nil {
		left, err := m.End(ctx, host.LeftRequest{RunID: p.RunID})
		err = errors.Join(err, host.Leftover("run "+p.RunID, left.Processes))
		if err != nil {
			return err
		}
	}
	return p.begin(incarnation)
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

// release stores that the worker ended the run, which must not have processes any more.
func (d *daemon) release() error {
	closeErr := d.server.CloseProcesses()
	below, listErr := proc.Descendants(os.Getpid())
	err := errors.Join(closeErr, listErr, host.Leftover("run "+d.place.RunID, below))
	if err != nil {
		return err
	}
	if err := d.place.end(Outcome{d.Number, EndReleased, d.Now()}); err != nil {
		return err
	}
	d.once.Do(func() { close(d.released) })
	return nil
}

// wait waits for the end of the daemon.
func (d *daemon) wait(ctx context.Context) (end string) {
	ticks := time.NewTicker(lostStep)
	observe := time.NewTicker(observeStep)
	defer ticks.Stop()
	defer observe.Stop()
	for {
		select {
		case <-d.released:
			return EndReleased
		case <-ctx.Done():
			return EndTerminated
		case <-observe.C:
			if _, err := d.server.Run.Observe(ctx); err != nil {
				d.Log.Warn("processes of the run", "error", err)
			}
		case <-ticks.C:
			if d.server.Silent() > d.LostAfter {
				return EndLost
			}
		}
	}
}

// awaitStreams waits until the worker closes its stream after the last answer.
func (d *daemon) awaitStreams() {
	gone := make(chan struct{})
	go func() {
		d.streams.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(goodbye):
	}
}

const (
	dialPatience = 5 * time.Second // for a daemon that begins
	dialPause    = 100 * time.Millisecond
)

// Connect connects a pair of streams to the daemon of a run until either ends. Without a
// daemon it tells the client why.
func Connect(ctx context.Context, p Place, incarnation int64, in io.Reader, out io.Writer) error {
	end := time.Now().Add(dialPatience)
	for {
		conn, dialErr := new(net.Dialer).DialContext(ctx, "unix", p.socket())
		status, statusErr := p.Status()
		if dialErr == nil && statusErr != nil {
			return errors.Join(statusErr, conn.Close())
		}
		if dialErr == nil {
			err := checkPeer(conn, status)
			if err != nil {
				return errors.Join(err, conn.Close())
			}
			return join(ctx, conn, in, out)
		}
		noDaemon := fmt.Errorf("no daemon of run %s: %w", p.RunID, dialErr)
		if statusErr != nil {
			return errors.Join(noDaemon, statusErr)
		}
		if refused := status.Err(incarnation); refused != nil {
			return errors.Join(refused, remote.Refuse(out, refused))
		}
		gone := !status.Serving && status.Incarnation > 0
		if gone || time.Now().After(end) || ctx.Err() != nil {
			return noDaemon
		}
		time.Sleep(dialPause)
	}
}

// checkPeer returns an error if the process at the other end of a socket is not the daemon: a
// program that can write where the socket is could take its place, and would be told the
// secret of the run.
func checkPeer(conn net.Conn, s Status) error {
	pid, err := proc.PeerPID(conn)
	if err != nil {
		return err
	}
	if pid != s.pid {
		return fmt.Errorf("process %d has taken the place of the daemon", pid)
	}
	return nil
}

// join copies both ways until either stream ends. The other copy may go on until the process
// ends.
func join(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	ended := make(chan error, 2)
	transfer := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		ended <- err
	}
	go transfer(conn, in)
	go transfer(out, conn)
	return errors.Join(<-ended, conn.Close())
}
