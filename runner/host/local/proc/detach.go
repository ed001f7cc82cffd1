package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const (
	maxSecret = 16 << 10 // bytes of Spawn.Secret: it must fit into the socket before the worker reads
	maxAnswer = 1024     // bytes of a worker's reason to refuse

	statusWait = time.Second // for the exit status of a worker that closed its socket
	socketWait = time.Second // for one read or write of the socket
)

// The answers of a worker, each one byte; a refusal is followed by its reason.
const (
	answerTaken   = '+'
	answerRefused = '-'
)

// The descriptors that a worker gets from Detach.
const (
	readyFD = 3
	extraFD = 4
)

// ErrNoAnswer: in the time given the worker neither took its run nor refused it nor ended. It may still do so.
var ErrNoAnswer = errors.New("no answer in time")

// ErrNoSocket: this process was not started by Detach.
var ErrNoSocket = errors.New("descriptor 3 is no socket: not started by a pass")

// DiedError: the worker ended before it answered.
type DiedError struct {
	// Status is how it ended ("exit status 2", "signal: killed").
	Status string
}

// Error implements error.
func (e *DiedError) Error() string { return "ended before it was ready: " + e.Status }

// Spawn is a worker to start (design 6).
type Spawn struct {
	// Exe is the program; Argv its arguments, Argv[0] being the name that is shown. They must not contain a secret,
	// because every user can read them.
	Exe  string
	Argv []string
	// Env is its whole environment; nil is an empty one.
	Env []string
	// Dir is its working directory, "/" if empty.
	Dir string
	// Log gets its stdout and stderr; nil discards them.
	Log *os.File
	// Secret reaches the worker through the socket and not through the environment: 16 KiB at most, may be empty.
	Secret []byte
	// Extra is a file that it gets as descriptor 4 (TakeExtra), nil for none. The caller keeps its own.
	Extra *os.File
	// Scope is the systemd scope that it starts in, nil for none.
	Scope *Scope
	// Wait is how long Ready waits for the worker's answer, from Detach on.
	Wait time.Duration
}

// Detached is a started worker that survives the process that started it.
type Detached struct {
	process  reconcile.Process
	sock     *os.File
	deadline time.Time
	done     chan struct{} // closed when it has ended and been reaped
	status   string        // set before done is closed
}

// Detach starts a process in a session of its own. It inherits its log, the socket that ReadySocket takes, and Extra;
// descriptors that this process inherited itself do not reach it. Ready must be called once.
//
// As long as this process lives, one goroutine waits for the worker's end and reaps it.
func Detach(s Spawn) (*Detached, error) {
	d, err := s.start()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Exe, err)
	}
	return d, nil
}

func (s Spawn) start() (*Detached, error) {
	if len(s.Secret) > maxSecret {
		return nil, fmt.Errorf("a secret of %d bytes is too long", len(s.Secret))
	}
	if len(s.Argv) == 0 {
		return nil, errors.New("no arguments, not even a name")
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	watch, err := s.launch(ours, theirs)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	d := &Detached{process: watch.process, sock: ours, deadline: time.Now().Add(s.Wait), done: make(chan struct{})}
	go func() {
		defer close(d.done)
		<-watch.done
		state, err := watch.reap()
		if d.status = "status unknown"; err == nil {
			d.status = state.String()
		}
	}()
	return d, nil
}

func (s Spawn) launch(ours, theirs *os.File) (*exitWatch, error) {
	// The whole secret is in the socket before the worker exists. Only its end comes later.
	err := ours.SetWriteDeadline(time.Now().Add(socketWait))
	if err == nil && len(s.Secret) > 0 {
		_, err = ours.Write(s.Secret)
	}
	if err != nil {
		return nil, err
	}
	exe, argv, env := s.Exe, s.Argv, s.Env
	if s.Scope != nil {
		if exe, argv, env, err = s.Scope.wrap(exe, argv, env); err != nil {
			return nil, err
		}
	}
	cmd := &exec.Cmd{
		Path: exe, Args: argv, Env: append([]string{}, env...), Dir: s.Dir,
		ExtraFiles: []*os.File{theirs}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if s.Log != nil {
		cmd.Stdout, cmd.Stderr = s.Log, s.Log
	}
	if s.Extra != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.Extra)
	}
	watch, err := launch(cmd)
	if err != nil {
		return nil, err
	}
	// The end of the secret lets the worker make itself non-dumpable, and where /proc hides other users' processes
	// (hidepid) it could not have been identified after that. If this fails, the worker does not wait for long.
	if raw, err := ours.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
	return watch, nil
}

// socketPair returns two connected sockets, ours with deadlines. Neither is inherited unless it is passed on.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // no fork before the descriptors are marked
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = unix.SetNonblock(fds[0], true)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "ready socket"), os.NewFile(uintptr(fds[1]), "worker's ready socket"), nil
}

// Process is the worker.
func (d *Detached) Process() reconcile.Process { return d.process }

// Done is closed when the worker has ended.
func (d *Detached) Done() <-chan struct{} { return d.done }

// Ready waits until the worker has taken its run. Otherwise the error is the worker's reason to refuse it, *DiedError,
// ErrNoAnswer after Spawn.Wait, or that of ctx; the worker is left as it is.
func (d *Detached) Ready(ctx context.Context) error {
	defer d.sock.Close()
	err := d.sock.SetReadDeadline(d.deadline)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = d.sock.SetReadDeadline(time.Unix(1, 0)) }) // fails only once the socket is closed
		defer stop()
		err = d.answer()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = ErrNoAnswer
	case isEOF(err), errors.Is(err, unix.ECONNRESET):
		err = d.died(ctx)
	}
	return fmt.Errorf("worker %d: %w", d.process.PID, err)
}

// answer reads the worker's answer from the socket.
func (d *Detached) answer() error {
	var first [1]byte
	if _, err := io.ReadFull(d.sock, first[:]); err != nil {
		return err
	}
	switch first[0] {
	case answerTaken:
		return nil
	case answerRefused:
		message, err := io.ReadAll(io.LimitReader(d.sock, maxAnswer))
		if err != nil {
			return err
		}
		return fmt.Errorf("refused: %s", message)
	}
	return fmt.Errorf("unknown answer %q", first[0])
}

// died waits for the exit status of a worker that closed its socket.
func (d *Detached) died(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	select {
	case <-d.done:
		return &DiedError{Status: d.status}
	case <-ctx.Done():
		return &DiedError{Status: "it closed its socket and runs on"}
	}
}

// Ready is a worker's end of the socket that Detach made.
type Ready struct {
	sock   *os.File
	secret []byte
}

// ReadySocket takes the socket over and reads the secret. A worker calls it before it opens or starts anything. Programs
// that the worker starts do not inherit the socket.
func ReadySocket() (*Ready, error) {
	var st unix.Stat_t
	if err := unix.Fstat(readyFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, ErrNoSocket
	}
	unix.CloseOnExec(readyFD)
	if err := unix.SetNonblock(readyFD, true); err != nil {
		return nil, fmt.Errorf("ready socket: %w", err)
	}
	r := &Ready{sock: os.NewFile(readyFD, "ready socket")}
	err := r.sock.SetDeadline(time.Now().Add(socketWait))
	if err == nil {
		r.secret, err = io.ReadAll(io.LimitReader(r.sock, maxSecret))
	}
	// The secret was written before this process began, so a late end of it (a stopped pass) is not waited for.
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("ready socket: %w", errors.Join(err, r.sock.Close()))
	}
	return r, nil
}

// Secret is what the pass handed over, empty if nothing.
func (r *Ready) Secret() []byte { return r.secret }

// Taken tells the pass that this worker has its run, and closes the socket. An error means that the pass does not listen
// any more, which changes nothing about the run.
func (r *Ready) Taken() error { return r.reply([]byte{answerTaken}) }

// Refuse tells the pass why this worker ends without touching its run, and closes the socket. The message becomes one line
// of at most 1 KiB.
func (r *Ready) Refuse(message string) error {
	line := strings.Join(strings.Fields(message), " ")
	return r.reply(append([]byte{answerRefused}, text.Within(line, maxAnswer)...))
}

func (r *Ready) reply(b []byte) error {
	err := r.sock.SetWriteDeadline(time.Now().Add(socketWait))
	if err == nil {
		_, err = r.sock.Write(b)
	}
	if err = errors.Join(err, r.sock.Close()); err != nil {
		return fmt.Errorf("answer the pass: %w", err)
	}
	return nil
}

// TakeExtra takes over the file that a pass has handed to this worker (Spawn.Extra), which must be the one at path.
// Programs that the worker starts do not inherit it. A worker calls it before it opens anything.
func TakeExtra(path string) (*os.File, error) {
	var got, named unix.Stat_t
	if err := unix.Fstat(extraFD, &got); err != nil {
		return nil, fmt.Errorf("%s was not handed over: %w", path, err)
	}
	if err := unix.Stat(path, &named); err != nil {
		return nil, fmt.Errorf("%s, which was handed over: %w", path, err)
	}
	if got.Dev != named.Dev || got.Ino != named.Ino {
		return nil, fmt.Errorf("the file that was handed over is not %s", path)
	}
	unix.CloseOnExec(extraFD)
	return os.NewFile(extraFD, path), nil
}
