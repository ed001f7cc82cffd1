package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The answers of a worker, each one byte; a refusal is followed by its reason.
const (
	answerTaken   = '+'
	answerRefused = '-'
)

// readyFD is the descriptor that Detach gives to the worker.
const readyFD = 3

// ErrNoSocket: this process was not started by Detach.
var ErrNoSocket = errors.New("descriptor 3 is no socket: not started by a pass")

// Ready is a worker's end of the socket that Detach made.
type Ready struct {
	sock   *os.File
	secret []byte
}

// ReadySocket takes the socket over and reads the secret. It comes first in a worker, before anything else is
// opened or started; what the worker starts does not inherit the socket.
func ReadySocket() (*Ready, error) { return readyAt(readyFD) }

func readyAt(fd int) (*Ready, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, ErrNoSocket
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("ready socket: %w", err)
	}
	r := &Ready{sock: os.NewFile(uintptr(fd), "ready socket")}
	if err := r.read(); err != nil {
		r.sock.Close()
		return nil, fmt.Errorf("ready socket: %w", err)
	}
	return r, nil
}

// read takes the secret, which was written whole before this process began. A pass that is slow to say so, or stands
// still, is not waited for.
func (r *Ready) read() error {
	if err := r.sock.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	secret, err := io.ReadAll(io.LimitReader(r.sock, maxSecret))
	r.secret = secret
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// Secret is what the pass handed over, empty if nothing.
func (r *Ready) Secret() []byte { return r.secret }

// Taken tells the pass that this worker has its run, and closes the socket. An error means that nobody listens any
// more, which changes nothing about the run.
func (r *Ready) Taken() error {
	return r.reply([]byte{answerTaken})
}

// Refuse tells the pass why this worker ends without touching its run, and closes the socket. The message is one
// line; what exceeds 1 KiB is cut off.
func (r *Ready) Refuse(message string) error {
	line := strings.Join(strings.Fields(message), " ")
	if len(line) > maxAnswer {
		line = strings.ToValidUTF8(line[:maxAnswer], "")
	}
	return r.reply(append([]byte{answerRefused}, line...))
}

func (r *Ready) reply(b []byte) error {
	err := r.sock.SetWriteDeadline(time.Now().Add(time.Second))
	if err == nil {
		_, err = r.sock.Write(b)
	}
	if err = errors.Join(err, r.sock.Close()); err != nil {
		return fmt.Errorf("answer the pass: %w", err)
	}
	return nil
}

// handFD is the descriptor that Detach gives a worker as Spawn.Hand.
const handFD = 4

// Handed takes over the file that a pass has handed to this worker, which must be the one at path: holding it open is
// what it is for, and what the worker starts does not inherit it. It comes before anything else is opened.
func Handed(path string) (*os.File, error) {
	var got, named unix.Stat_t
	if err := unix.Fstat(handFD, &got); err != nil {
		return nil, fmt.Errorf("no %s was handed on: %w", path, err)
	}
	if err := unix.Stat(path, &named); err != nil {
		return nil, fmt.Errorf("%s, which was handed on: %w", path, err)
	}
	if got.Dev != named.Dev || got.Ino != named.Ino {
		return nil, fmt.Errorf("what was handed on is not %s", path)
	}
	unix.CloseOnExec(handFD)
	return os.NewFile(handFD, path), nil
}
