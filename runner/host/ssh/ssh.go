package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// Link reaches the daemon of one incarnation of a run on a host.
type Link struct {
	Host    Host
	Program Program
	// Env is the environment of ssh, in which it is found.
	Env            []string
	Project, RunID string
	Incarnation    int64
	// LostAfter is how long the daemon works without a link.
	LostAfter time.Duration
}

// Program is the program that a host gets, unless it has it: symphony itself.
type Program struct {
	Path string
	Sum  string // SHA-256 in hex digits
	Size int64
}

// CodeUnreachable: ssh could not connect to the host. Nothing has happened there.
const CodeUnreachable = "host_unreachable"

const (
	connectBound = 20 * time.Second // for ssh to connect
	startBound   = 90 * time.Second // for the start of a daemon
	copyBound    = 10 * time.Minute // for the copy of the program
	maxSaid      = 8 << 10          // bytes of ssh's stderr

	// Exit codes of the script below. 255 is always that of ssh itself.
	noProgram   = 97
	otherSystem = 98
)

// Start makes sure that the daemon serves the run. The host gets the program first, if it does not have it. Errors: CodeUnreachable, those
// of a client (remote.CodeRefused, CodeEnded, CodeDied), or others after which it is not known whether there is a daemon.
func (l Link) Start(ctx context.Context) error {
	err := l.serve(ctx)
	var exited *exitError
	if errors.As(err, &exited) && exited.code == noProgram {
		if err = l.copyProgram(ctx); err == nil {
			err = l.serve(ctx)
		}
	}
	return err
}

func (l Link) serve(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	return l.run(ctx, nil, l.command("serve", "--lost-after", l.LostAfter.String()))
}

// command returns the shell command that runs a subcommand of symphony host there.
func (l Link) command(verb string, more ...string) string {
	words := append([]string{verb, "--project", l.Project, "--run", l.RunID, "--incarnation", strconv.FormatInt(l.Incarnation, 10)}, more...)
	// The exit code for another system comes before that for a missing program, which would be copied.
	return l.script(`[ -x "$p" ] || exit ` + strconv.Itoa(noProgram) + `; exec "$p" host ` + strings.Join(words, " "))
}

// script returns a command for the login shell of the account there, whichever it is: sh runs a script in which p is the program.
func (l Link) script(s string) string {
	system := map[string]string{"linux": "Linux", "darwin": "Darwin"}[runtime.GOOS]
	machines := map[string]string{"amd64": "x86_64|amd64", "arm64": "aarch64|arm64"}[runtime.GOARCH]
	s = `[ "$(uname -s)" = ` + system + ` ] && case "$(uname -m)" in ` + machines + `) ;; *) false ;; esac || { uname -sm >&2; exit ` +
		strconv.Itoa(otherSystem) + `; }; p=${XDG_CACHE_HOME:-$HOME/.cache}/symphony/programs/` + l.Program.Sum + `/symphony; ` + s
	return "exec sh -c " + text.ShellWord(s)
}

// copyProgram copies the program to the host. A file there has the name of the checksum only once it is complete.
func (l Link) copyProgram(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, copyBound)
	defer cancel()
	program, err := os.Open(l.Program.Path)
	if err != nil {
		return fmt.Errorf("own program: %w", err)
	}
	defer program.Close()
	err = l.run(ctx, program, l.script(`umask 077; mkdir -p "${p%/*}" && cat > "$p.$$" && [ "$(wc -c < "$p.$$")" -eq `+
		strconv.FormatInt(l.Program.Size, 10)+` ] && chmod 700 "$p.$$" && mv -f "$p.$$" "$p" || { rm -f "$p.$$"; exit 1; }`))
	if err != nil {
		return fmt.Errorf("copy symphony to %s: %w", l.Host.Name, err)
	}
	return nil
}

// Dial opens a stream to the daemon. It is a remote.Dial.
func (l Link) Dial(context.Context) (io.ReadWriteCloser, error) {
	cmd, err := l.ssh(l.command("connect"))
	if err != nil {
		return nil, err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	return &stream{Reader: stdout, WriteCloser: stdin, cmd: cmd}, nil
}

var _ remote.Dial = Link{}.Dial

// stream is the stdin and stdout of ssh.
type stream struct {
	io.Reader
	io.WriteCloser
	cmd *exec.Cmd
}

// Close ends ssh. What it runs on the host sees the end of its stdin.
func (s *stream) Close() error {
	err := s.WriteCloser.Close()
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // by that signal
	return err
}

// ssh returns ssh with a command for the host.
func (l Link) ssh(command string) (*exec.Cmd, error) {
	path := find("ssh", l.Env)
	if path == "" {
		return nil, reconcile.NewError("ssh_missing", "ssh is not in PATH", "install OpenSSH's client")
	}
	args := []string{
		path, "-T", "-o", "BatchMode=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "ClearAllForwardings=yes",
		"-o", "ConnectTimeout=" + strconv.Itoa(int(connectBound.Seconds())), "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
	}
	if l.Host.port != "" {
		args = append(args, "-p", l.Host.port)
	}
	return &exec.Cmd{Path: path, Args: append(args, "--", l.Host.destination, command), Env: l.Env, Dir: "/"}, nil
}

// find looks a program up in the PATH of an environment, whose last value counts. It returns "" if there is none.
func find(name string, env []string) string {
	for _, entry := range slices.Backward(env) {
		if list, found := strings.CutPrefix(entry, "PATH="); found {
			for _, dir := range filepath.SplitList(list) {
				path := filepath.Join(dir, name)
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.IsAbs(path) {
					return path
				}
			}
		}
	}
	return ""
}

// exitError is the failure of a command on the host.
type exitError struct {
	code int
	said string
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d: %s", e.code, e.said) }

// run runs a command on the host and waits for its end.
func (l Link) run(ctx context.Context, stdin io.Reader, command string) error {
	cmd, err := l.ssh(command)
	if err != nil {
		return err
	}
	var said tail
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = stdin, &said, time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("ssh: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err = cmd.Wait()
	var exited *exec.ExitError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return reconcile.NewError(CodeUnreachable, l.Host.Name+" did not answer in time", "try ssh "+l.Host.Name)
	case !errors.As(err, &exited):
		return fmt.Errorf("ssh: %w", err)
	case exited.ExitCode() == 255:
		return reconcile.NewError(CodeUnreachable, l.Host.Name+": "+said.message(), "try ssh "+l.Host.Name)
	case exited.ExitCode() == otherSystem:
		return reconcile.NewError("host_system", l.Host.Name+" is "+said.message()+", for which this symphony is not built",
			"use hosts of the same system and processor as this machine")
	}
	if code, message, coded := strings.Cut(said.message(), ": "); coded && remote.Ends(reconcile.NewError(code, "", "")) {
		return reconcile.NewError(code, message, "the next pass starts the issue again")
	}
	return &exitError{exited.ExitCode(), said.message()}
}

// tail keeps the end of a program's stderr.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if t.Len()+n > maxSaid {
		t.Next(min(t.Len(), t.Len()+n-maxSaid))
		p = p[max(0, n-maxSaid):]
	}
	t.Buffer.Write(p)
	return n, nil
}

// message is the error that symphony has printed there; otherwise the last line, which is ssh's.
func (t *tail) message() (line string) {
	for line = range strings.Lines(strings.TrimSpace(t.String())) {
		if rest, printed := strings.CutPrefix(line, "symphony: "); printed {
			line = rest
			break
		}
	}
	return text.Visible(strings.TrimSpace(line))
}
