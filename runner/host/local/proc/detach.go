package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
)

// maxSecret bounds Spawn.Secret in bytes: it must fit into the socket at once, before anybody reads.
const maxSecret = 16 << 10

// maxAnswer bounds what a worker may say when it refuses, in bytes.
const maxAnswer = 1024

// statusWait is how long the exit status of a worker that closed its socket is waited for.
const statusWait = time.Second

// ErrNoAnswer: the worker neither took its run nor refused it nor ended in the time given. It may still do so.
var ErrNoAnswer = errors.New("no answer in time")

// RefusedError is a worker's own reason not to take its run.
type RefusedError struct{ Message string }

// Error implements error.
func (e *RefusedError) Error() string { return "refused: " + e.Message }

// DiedError: the worker ended before it answered.
type DiedError struct {
	// Status is how it ended ("exit status 2", "signal: killed").
	Status string
}

// Error implements error.
func (e *DiedError) Error() string { return "ended before it was ready: " + e.Status }

// Spawn is a worker to start (design 6).
type Spawn struct {
	// Exe is the program; Argv its whole argument list, Argv[0] being the name that is shown. No secret belongs
	// in there: everybody can read it.
	Exe  string
	Argv []string
	// Env is all of its environment; nil is an empty one.
	Env []string
	// Dir is its working directory, "/" if empty.
	Dir string
	// Log gets its stdout and stderr; nil discards them.
	Log *os.File
	// Secret goes to the worker through the socket, not through the environment; 16 KiB at most, may be empty.
	Secret []byte
	// Hand is a file that it gets as descriptor 4 (Handed), nil for none. The caller keeps its own.
	Hand *os.File
	// Scope is where systemd starts it, nil for no place of its own.
	Scope *Scope
	// Wait is how long Ready waits for the worker's answer, from Detach on.
	Wait time.Duration
}

// Detached is a worker that was started and does not need its starter to live on.
type Detached struct {
	process  reconcile.Process
	sock     *os.File
	deadline time.Time
	done     chan struct{} // closed once it has ended and been reaped
	status   string        // set before done is closed
}

// Detach starts a process in a session of its own, with stdin from /dev/null and no descriptor open but its log,
// as number 3 the socket that ReadySocket takes there, and what Hand says. Descriptors that this process inherited
// and never meant to pass on don't reach it either. Ready must be called once.
//
// If this process lives on, the worker is reaped when it ends; until then one goroutine watches it.
func Detach(s Spawn) (*Detached, error) {
	if len(s.Secret) > maxSecret {
		return nil, fmt.Errorf("start %s: a secret of %d bytes is too long", s.Exe, len(s.Secret))
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Exe, err)
	}
	defer theirs.Close()
	d, err := s.start(ours, theirs)
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start %s: %w", s.Exe, err)
	}
	return d, nil
}

func (s Spawn) start(ours, theirs *os.File) (*Detached, error) {
	// The whole secret lies in the socket before the worker exists; only its end comes later.
	if err := hand(ours, s.Secret); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	log := s.Log
	if log == nil {
		log = null
	}
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	exe, argv, env := s.Exe, s.Argv, s.Env
	if s.Scope != nil {
		if exe, argv, env, err = s.Scope.wrap(exe, argv, env); err != nil {
			return nil, err
		}
	}
	files := []*os.File{null, log, log, theirs}
	if s.Hand != nil {
		files = append(files, s.Hand)
	}
	_, watch, err := launch(exe, argv, &os.ProcAttr{
		Dir:   dir,
		Env:   notNil(env),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	// Only now that it has been seen may the worker hide itself: where /proc shows its user nothing else (hidepid) it could
	// not be told any more which process it is. Should this fail it does not wait for long.
	_ = control(ours, func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
	d := &Detached{process: watch.process, sock: ours, deadline: time.Now().Add(s.Wait), done: make(chan struct{})}
	go d.reap(watch)
	return d, nil
}

func hand(sock *os.File, secret []byte) error {
	if len(secret) == 0 {
		return nil
	}
	if err := sock.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err := sock.Write(secret)
	return err
}

func (d *Detached) reap(watch *exitWatch) {
	defer close(d.done)
	<-watch.done
	d.status = endOf(watch.reap())
}

// endOf puts how a process ended into words.
func endOf(state *os.ProcessState, err error) string {
	if err != nil {
		return "status unknown: " + err.Error()
	}
	return state.String()
}

// Process is the worker.
func (d *Detached) Process() reconcile.Process { return d.process }

// Done is closed when the worker has ended.
func (d *Detached) Done() <-chan struct{} { return d.done }

// Ready waits until the worker has taken its run. Otherwise the error is *RefusedError, *DiedError, ErrNoAnswer after
// Spawn.Wait, or that of ctx; the worker is left as it is.
func (d *Detached) Ready(ctx context.Context) error {
	defer d.sock.Close()
	if err := d.sock.SetReadDeadline(d.deadline); err != nil {
		return fmt.Errorf("wait for worker %d: %w", d.process.PID, err)
	}
	stop := context.AfterFunc(ctx, func() {
		// Fails only if the socket is closed already: then nobody waits.
		_ = d.sock.SetReadDeadline(time.Unix(1, 0))
	})
	defer stop()
	err := d.answer(ctx)
	if err != nil {
		return fmt.Errorf("worker %d: %w", d.process.PID, err)
	}
	return nil
}

func (d *Detached) answer(ctx context.Context) error {
	var first [1]byte
	_, err := io.ReadFull(d.sock, first[:])
	switch {
	case err == nil && first[0] == answerTaken:
		return nil
	case err == nil && first[0] == answerRefused:
		message, err := io.ReadAll(io.LimitReader(d.sock, maxAnswer))
		if err != nil {
			return d.silence(ctx, err)
		}
		return &RefusedError{Message: string(message)}
	case err == nil:
		return fmt.Errorf("answered %q, which is neither yes nor no", first[0])
	case isEOF(err), errors.Is(err, unix.ECONNRESET):
		return d.died(ctx)
	}
	return d.silence(ctx, err)
}

// silence tells why nothing came.
func (d *Detached) silence(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrNoAnswer
	}
	return err
}

// died waits a moment for the status of a worker whose socket is closed.
func (d *Detached) died(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	select {
	case <-d.done:
		return &DiedError{Status: d.status}
	case <-ctx.Done():
		return &DiedError{Status: "it closed its socket and lives on"}
	}
}
