package proc

import (
	"cmp"
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
	maxSecret  = 16 << 10    // bytes of Spawn.Secret, which must fit into a pipe that nobody reads yet
	maxAnswer  = 1024        // bytes of a worker's reason to refuse
	statusWait = time.Second // for the exit status of a worker that closed its pipe

	// The descriptors that a worker gets from Detach. Its stdin is the secret.
	answerFD = FirstExtra
	extraFD  = FirstExtra + 1
	sharedFD = FirstExtra + 2

	// taken is the answer of a worker that took its run. Any other answer is its reason for
	// refusing the run; none means that the worker ended.
	taken = "+"
)

// The errors of Ready: the worker did not answer in time, or ended without an answer.
var (
	ErrNoAnswer = errors.New("no answer in time")
	ErrDied     = errors.New("ended before it was ready")
)

// Spawn is a worker to start, with "/" as its working directory.
type Spawn struct {
	Exe       string
	Argv, Env []string // Argv[0] is the displayed name; every user can read the arguments
	Log       *os.File // for its stdout and stderr; nil discards them
	// Secret is passed to the worker through a pipe, not through the environment: at most 16
	// KiB, may be empty.
	Secret []byte
	// Extra is a file that the worker gets as descriptor 4 (TakeExtra), nil for none. The
	// caller must close its own copy.
	Extra *os.File
	// Shared is a file in memory (SharedFile) that the worker gets as Handover.Shared, nil for
	// none.
	Shared *os.File
	// Scope is the systemd scope that the worker is started in, nil for none.
	Scope *Scope
	// Wait is how long Ready waits for the worker's answer, from Detach on.
	Wait time.Duration
}

// Detached is a started worker that survives the process that started it.
type Detached struct {
	process  reconcile.Process
	answer   *os.File
	deadline time.Time
	done     chan struct{} // closed when it ended and was reaped
	status   string        // set before done is closed
}

// Detach starts a worker in a new session. It inherits only its log and the files that
// TakeOver and TakeExtra read. The caller must call Ready once. As long as this process lives,
// a goroutine waits for the end of the worker and reaps it.
func Detach(s Spawn) (*Detached, error) {
	d, err := startDetached(s)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Exe, err)
	}
	return d, nil
}

func startDetached(s Spawn) (*Detached, error) {
	if len(s.Secret) > maxSecret {
		return nil, fmt.Errorf("a secret of %d bytes is too long", len(s.Secret))
	}
	stdin, secret, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	// After the end of the secret, the worker makes itself non-dumpable. If /proc hides
	// processes (hidepid), this process could not identify it any more. So the pipe is closed
	// last.
	defer secret.Close()
	if _, err := secret.Write(s.Secret); err != nil {
		return nil, err
	}
	answer, answering, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer answering.Close()
	cmd := &exec.Cmd{
		Path:        s.Exe,
		Args:        s.Argv,
		Env:         append([]string{}, s.Env...),
		Dir:         "/",
		Stdin:       stdin,
		ExtraFiles:  []*os.File{answering, s.Extra, s.Shared},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if s.Log != nil {
		cmd.Stdout = s.Log
		cmd.Stderr = s.Log
	}
	if s.Scope != nil {
		if err := s.Scope.wrap(cmd); err != nil {
			return nil, errors.Join(err, answer.Close())
		}
	}
	deadline := time.Now().Add(s.Wait)
	process, err := Launch(cmd)
	if err != nil {
		return nil, errors.Join(err, answer.Close())
	}
	d := &Detached{process: process, answer: answer, deadline: deadline, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		_ = cmd.Wait()
		d.status = cmd.ProcessState.String()
	}()
	return d, nil
}

// Ready waits until the worker takes its run. Otherwise it returns the worker's reason for
// refusing the run, ErrDied, ErrNoAnswer after Spawn.Wait, or the error of ctx. It does not
// end the worker.
func (d *Detached) Ready(ctx context.Context) error {
	defer d.answer.Close()
	answer, err := d.readAnswer(ctx)
	if err != nil {
		return fmt.Errorf("worker %d: %w", d.process.PID, err)
	}
	if answer == taken {
		return nil
	}
	if answer != "" {
		return fmt.Errorf("worker %d: refused: %s", d.process.PID, answer)
	}
	status := "it closed its pipe and is still running"
	select {
	case <-d.done:
		status = d.status
	case <-time.After(statusWait):
	}
	return fmt.Errorf("worker %d: %w: %s", d.process.PID, ErrDied, status)
}

// readAnswer reads until the worker closes its end of the pipe.
func (d *Detached) readAnswer(ctx context.Context) (string, error) {
	if err := d.answer.SetReadDeadline(d.deadline); err != nil {
		return "", err
	}
	// it fails only once the pipe is closed
	stop := context.AfterFunc(ctx, func() { _ = d.answer.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, err := io.ReadAll(io.LimitReader(d.answer, maxAnswer))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", cmp.Or(context.Cause(ctx), ErrNoAnswer)
	}
	return string(answer), err
}

// Handover is a worker's side of Detach.
type Handover struct {
	// Secret is Spawn.Secret.
	Secret []byte
	// Shared is Spawn.Shared, nil for none.
	Shared *os.File
	answer *os.File
}

// TakeOver reads the handover of a pass to this worker. A worker must call it before it opens
// or starts anything. Programs that the worker starts do not inherit it.
func TakeOver() (*Handover, error) {
	var st unix.Stat_t
	if err := unix.Fstat(answerFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, errors.New("descriptor 3 is not a pipe: only a pass can start a worker")
	}
	unix.CloseOnExec(answerFD)
	secret, err := io.ReadAll(io.LimitReader(os.Stdin, maxSecret))
	if err != nil {
		return nil, fmt.Errorf("secret of the pass: %w", err)
	}
	return &Handover{
		Secret: secret,
		Shared: inheritedMemory(sharedFD),
		answer: os.NewFile(answerFD, "answer"),
	}, nil
}

// Taken tells the pass that this worker took its run. An error means that the pass stopped
// waiting, which does not affect the run.
func (h *Handover) Taken() error { return h.reply(taken) }

// Refuse tells the pass why this worker ends without beginning its run. The message is
// shortened to a line of 1 KiB.
func (h *Handover) Refuse(message string) error {
	return h.reply(text.Within(strings.Join(strings.Fields(message), " "), maxAnswer))
}

func (h *Handover) reply(answer string) error {
	_, err := h.answer.WriteString(answer)
	err = errors.Join(err, h.answer.Close())
	if err != nil {
		return fmt.Errorf("answer the pass: %w", err)
	}
	return nil
}

// TakeExtra returns the file that a pass gave to this worker (Spawn.Extra), which must be the
// file at path. A worker must call it before it opens anything. Programs that the worker
// starts do not inherit the file.
func TakeExtra(path string) (*os.File, error) {
	var got, named unix.Stat_t
	if err := unix.Fstat(extraFD, &got); err != nil {
		return nil, fmt.Errorf("%s was not inherited: %w", path, err)
	}
	if err := unix.Stat(path, &named); err != nil {
		return nil, fmt.Errorf("%s, which was inherited: %w", path, err)
	}
	if got.Dev != named.Dev || got.Ino != named.Ino {
		return nil, fmt.Errorf("the inherited file is not %s", path)
	}
	unix.CloseOnExec(extraFD)
	return os.NewFile(extraFD, path), nil
}

// Launch starts a child that inherits no files except the files that cmd names.
func Launch(cmd *exec.Cmd) (reconcile.Process, error) {
	if err := SealDescriptors(); err != nil {
		return reconcile.Process{}, err
	}
	if err := cmd.Start(); err != nil {
		return reconcile.Process{}, err
	}
	e, err := statOfChild(cmd.Process.Pid)
	if err != nil { // a child without a start time could never be ended
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return e.Process(), err
}

// statOfChild reads the stat of a child that is not reaped yet. It retries if /proc does not
// show the child: with the mount option hidepid, the child of a non-dumpable process is hidden
// until a moment after os.StartProcess returns.
func statOfChild(pid int) (Entry, error) {
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		e, err := Stat(pid)
		hidden := errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrProcessDone)
		if !hidden || time.Now().After(end) {
			return e, err
		}
	}
}
