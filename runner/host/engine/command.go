package engine

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Hello is printed by a script on the host before anything else happens. Its shell may print
// something before.
const Hello = "symphony-begins"

const (
	maxSaid     = 64 << 10 // bytes of a program's stderr
	maxGreeting = 64 << 10 // bytes that may come before a line that is waited for
	maxMessage  = 8 << 10  // bytes of an error
)

// Command returns a program that is found in the PATH of an environment. It gets only some
// variables of that.
func Command(env, passed []string, name string, args ...string) (*exec.Cmd, error) {
	path := proc.LookPath(name, env)
	if path == "" {
		return nil, reconcile.NewError(CodeMissing, name+" is not in PATH", "install it")
	}
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(passed, name)
	})
	return &exec.Cmd{Path: path, Args: append([]string{path}, args...), Env: env, Dir: "/"}, nil
}

// for a command of an engine, which itself waits while the engine is busy
const outputBound = time.Minute

// Output runs a program with a stdin and returns its output. The code of its error is
// CodeUnusable, or CodeUnreachable if it took too long.
func Output(ctx context.Context, cmd *exec.Cmd, stdin string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, outputBound)
	defer cancel()
	var out bytes.Buffer
	said := &text.Tail{Limit: maxSaid}
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout = &out
	cmd.Stderr = said
	if err := start(cmd); err != nil {
		return "", err
	}
	// it may have ended
	defer context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })()
	err := proc.IgnoreLeftover(cmd.Wait())
	if err == nil {
		return out.String(), nil
	}
	name := filepath.Base(cmd.Path)
	if ctx.Err() != nil {
		return "", reconcile.NewError(CodeUnreachable, name+" did not end in time: "+Said(said), "try it")
	}
	if errors.As(err, new(*exec.ExitError)) {
		return "", reconcile.NewError(
			CodeUnusable,
			cmp.Or(Said(said), name+": "+err.Error()),
			"correct that, then symphony resume",
		)
	}
	return "", err
}

// Explain returns an error of Output with the place before its message, and another hint.
func Explain(err error, place, hint string) error {
	if known, ok := errors.AsType[*reconcile.Error](err); ok {
		return reconcile.NewError(known.Code, place+known.Message, hint)
	}
	return err
}

// start starts a program as the leader of a process group.
func start(cmd *exec.Cmd) error {
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

// stream is the stdin and stdout of a program.
type stream struct {
	io.WriteCloser
	host    string
	cmd     *exec.Cmd
	stdout  *bufio.Reader
	greeted bool
	said    *text.Tail
	closing sync.Once
}

// Open starts a program as a stream to a host, where it prints Hello first.
func Open(host string, cmd *exec.Cmd) (io.ReadWriteCloser, error) {
	in, out, stderr, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	return &stream{WriteCloser: in, host: host, cmd: cmd, stdout: out, said: stderr}, nil
}

// Start starts a program with pipes.
func Start(cmd *exec.Cmd) (in io.WriteCloser, out *bufio.Reader, stderr *text.Tail, err error) {
	stderr = &text.Tail{Limit: maxSaid}
	cmd.Stderr = stderr
	in, err = cmd.StdinPipe()
	if err != nil {
		return nil, nil, stderr, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, stderr, err
	}
	return in, bufio.NewReader(stdout), stderr, start(cmd)
}

// Read reads the daemon's output. If the daemon can't be reached, the error says why.
func (s *stream) Read(b []byte) (int, error) {
	if !s.greeted {
		if _, err := ReadUntil(s.stdout, Hello); err != nil {
			_ = s.Close() // then stderr is complete
			return 0, fmt.Errorf("%s: %s: %w", s.host, Said(s.said), err)
		}
		s.greeted = true
	}
	return s.stdout.Read(b)
}

// Close ends the program. Its command on the host reaches the end of its stdin.
func (s *stream) Close() (err error) {
	s.closing.Do(func() {
		err = s.WriteCloser.Close()
		_ = s.cmd.Process.Kill() // it alone: the second process of srun ends the step
		_ = s.cmd.Wait()         // by that signal
	})
	return err
}

// ReadUntil reads up to a line, and returns the lines before it.
func ReadUntil(r *bufio.Reader, want string) (before []string, err error) {
	for limit := maxGreeting; limit > 0; {
		raw, err := r.ReadSlice('\n') // at most the size of the buffer
		line := strings.TrimSpace(string(raw))
		if line == want {
			return before, nil
		}
		if err != nil {
			return before, err
		}
		before = append(before, text.Visible(line))
		limit -= len(raw)
	}
	return before, errors.New("the shell of the account prints too much")
}

// Said returns the error that symphony printed there on stderr or, without such a line, the
// last line, which the engine's program printed.
func Said(stderr *text.Tail) string {
	end, _ := stderr.Text()
	said := ""
	for line := range strings.Lines(strings.TrimSpace(string(end))) {
		said = line
		ours, printed := strings.CutPrefix(line, "symphony: ")
		if printed {
			said = ours
			break
		}
	}
	return text.Visible(text.Within(strings.TrimSpace(said), maxMessage))
}
