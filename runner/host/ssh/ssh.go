// Package ssh starts and reaches the daemons of runs on other machines with the system's ssh. Its configuration decides how a host is
// reached and who logs in; symphony only forbids questions and forwarding.
package ssh

import (
	"bufio"
	"bytes"
	"cmp"
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
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/sshname"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/remote"
)

// Link reaches the daemon of one incarnation of a run on a host.
type Link struct {
	Host    sshname.Host
	Program Program
	// Env is the environment in which ssh is found. It gets only what concerns its connection.
	Env     []string
	Project string // the name of the run's project there
	Of      remote.Incarnation
	// LostAfter is how long the daemon works without a link.
	LostAfter time.Duration
	// Known: there was a daemon of the run. A host that knows nothing of it is another machine, whatever it is called.
	Known bool
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
	codeMissing  = "ssh_missing"   // on this machine
	codeSystem   = "host_system"   // the program can't run there
	codeUnusable = "host_unusable" // the program can't be copied, or can't start a daemon
)

// NothingBegun reports whether the error of Start means that nothing has happened on the host.
func NothingBegun(err error) bool {
	var known *reconcile.Error
	return errors.As(err, &known) && slices.Contains([]string{CodeUnreachable, codeMissing, codeSystem, codeUnusable}, known.Code)
}

const (
	connectBound = 20 * time.Second // for ssh to connect
	startBound   = 90 * time.Second // for the start of a daemon
	copyBound    = 10 * time.Minute // for the copy of the program
	maxSaid      = 8 << 10          // bytes of ssh's stderr
	maxGreeting  = 64 << 10         // bytes that the shell of the account may print before the script begins

	// Exit codes of the script below. 255 is that of ssh itself.
	noProgram   = 97
	otherSystem = 98
	// NothingStarted is that of symphony host serve if it has started no daemon, and there is none.
	NothingStarted = 96

	// The script says hello before it does anything. To change something there it needs the answer, and says done at the end.
	hello  = "symphony-begins"
	answer = "go"
	done   = "symphony-done"
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
	words := []string{"serve", "--lost-after", l.LostAfter.String()}
	if l.Known {
		words = append(words, "--known")
	}
	_, err := l.run(ctx, strings.NewReader(l.Of.Secret), l.hostCommand(words...)+" && echo "+done)
	return err
}

// Ask runs a shell script on the host that changes nothing, and returns the lines that it prints.
func (l Link) Ask(ctx context.Context, script string) (lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	return l.run(ctx, strings.NewReader(""), script+"\necho "+done)
}

// hostCommand returns the shell command that runs a subcommand of symphony host there.
func (l Link) hostCommand(words ...string) string {
	words = append(words, "--project", l.Project, "--run", l.Of.RunID, "--incarnation", strconv.FormatInt(l.Of.Number, 10))
	return l.isProgram("p") + ` || exit ` + strconv.Itoa(noProgram) + `; "$p" host ` + strings.Join(text.Map(words, text.ShellWord), " ")
}

// isProgram is a condition in the script: the file in a variable is the whole program.
func (l Link) isProgram(variable string) string {
	return `[ -x "$` + variable + `" ] && [ "$(wc -c < "$` + variable + `")" -eq ` + strconv.FormatInt(l.Program.Size, 10) + ` ]`
}

// script returns a command for the login shell of the account there, whichever it is: sh runs a script in which p is the program. First it
// makes sure that the program can run there, and says hello.
func (l Link) script(s string) string {
	system := map[string]string{"linux": "Linux", "darwin": "Darwin"}[runtime.GOOS]
	machines := cmp.Or(map[string]string{"amd64": "x86_64|amd64", "arm64": "aarch64|arm64"}[runtime.GOARCH], runtime.GOARCH)
	return "exec sh -c " + text.ShellWord(`echo `+hello+`; [ "$(uname -s)" = `+system+` ] && case "$(uname -m)" in `+machines+
		`) ;; *) false ;; esac || { uname -sm >&2; exit `+strconv.Itoa(otherSystem)+
		`; }; p=${XDG_CACHE_HOME:-$HOME/.cache}/symphony/programs/`+l.Program.Sum+`/symphony; `+s)
}

// copyProgram copies the program to the host. A file there has its name only once it is complete.
func (l Link) copyProgram(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, copyBound)
	defer cancel()
	program, err := os.Open(l.Program.Path)
	if err != nil {
		return fmt.Errorf("own program: %w", err)
	}
	defer program.Close()
	_, err = l.run(ctx, program, `umask 077; new=$p.$$; mkdir -p "${p%/*}" && cat > "$new" && chmod 700 "$new" && `+l.isProgram("new")+
		` && sync && mv -f "$new" "$p"; rm -f "$new"; `+l.isProgram("p")+` && echo `+done)
	var exited *exitError
	if errors.As(err, &exited) {
		return l.unusable("symphony can't be copied there: " + exited.said)
	}
	return err
}

func (l Link) unusable(why string) error {
	return reconcile.NewError(codeUnusable, l.Host.Name+": "+why, "correct that there, then symphony unblock")
}

// Dial opens a stream to the daemon. It is a remote.Dial.
func (l Link) Dial(context.Context) (io.ReadWriteCloser, error) {
	cmd, err := l.ssh(l.hostCommand("connect"))
	if err != nil {
		return nil, err
	}
	s := &stream{host: l.Host, cmd: cmd}
	cmd.Stderr, cmd.WaitDelay = &s.said, time.Second
	if s.WriteCloser, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.stdout = bufio.NewReader(stdout)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	return s, nil
}

var _ remote.Dial = Link{}.Dial

// stream is the stdin and stdout of ssh.
type stream struct {
	io.WriteCloser
	host    sshname.Host
	cmd     *exec.Cmd
	stdout  *bufio.Reader
	greeted bool
	said    tail
	closing sync.Once
}

// Read reads what the daemon writes. If it can't be reached, the error says why.
func (s *stream) Read(b []byte) (int, error) {
	if !s.greeted {
		if _, err := readUntil(s.stdout, hello); err != nil {
			_ = s.Close() // then stderr is complete
			return 0, fmt.Errorf("%s: %s: %w", s.host.Name, s.said.message(), err)
		}
		s.greeted = true
	}
	return s.stdout.Read(b)
}

// readUntil reads up to a line, and returns those before it. The shell of the account may print something, too.
func readUntil(r *bufio.Reader, want string) (before []string, err error) {
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

// Close ends ssh. What it runs on the host sees the end of its stdin.
func (s *stream) Close() (err error) {
	s.closing.Do(func() {
		err = s.WriteCloser.Close()
		_ = s.cmd.Process.Kill() // it may have ended
		_ = s.cmd.Wait()         // by that signal
	})
	return err
}

// connects are the variables that concern a connection of ssh. No other one can reach a host, whatever its configuration sends.
var connects = []string{"PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "KRB5CCNAME", "XDG_RUNTIME_DIR"}

// ssh returns ssh with a script for the host. Each is a connection of its own, which no other one can break.
func (l Link) ssh(script string) (*exec.Cmd, error) {
	path := find("ssh", l.Env)
	if path == "" {
		return nil, reconcile.NewError(codeMissing, "ssh is not in PATH", "install OpenSSH's client")
	}
	args := []string{
		path, "-T", "-o", "BatchMode=yes", "-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "ClearAllForwardings=yes",
		"-o", "ControlMaster=no", "-o", "ControlPath=none",
		"-o", "ConnectTimeout=" + strconv.Itoa(int(connectBound.Seconds())), "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3",
	}
	if l.Host.Port != "" {
		args = append(args, "-p", l.Host.Port)
	}
	env := slices.DeleteFunc(slices.Clone(l.Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(connects, name)
	})
	return &exec.Cmd{Path: path, Args: append(args, "--", l.Host.Destination, l.script(script)), Env: env, Dir: "/"}, nil
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

// run runs a script on the host and waits until it is done. It returns the lines that the script prints.
func (l Link) run(ctx context.Context, stdin io.Reader, script string) (printed []string, err error) {
	cmd, err := l.ssh("read -r begin || exit 1; " + script)
	if err != nil {
		return nil, err
	}
	var said tail
	cmd.Stderr, cmd.WaitDelay = &said, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("ssh: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	lines := bufio.NewReader(out)
	_, helloErr := readUntil(lines, hello)
	connected, completed := helloErr == nil, false
	if connected {
		go func() { // it ends at the latest with ssh
			_, _ = io.WriteString(in, answer+"\n")
			_, _ = io.Copy(in, stdin)
			_ = in.Close()
		}()
		var doneErr error
		printed, doneErr = readUntil(lines, done)
		completed = doneErr == nil
	}
	err = cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // a process that ssh has left has its stderr open
	}
	code := cmd.ProcessState.ExitCode()
	switch {
	case err == nil && completed:
		return printed, nil
	case !connected && ctx.Err() != nil:
		return nil, reconcile.NewError(CodeUnreachable, l.Host.Name+" did not answer in time", "try ssh "+l.Host.Name)
	case !connected:
		why := cmp.Or(said.message(), "ssh has ended without a word")
		return nil, reconcile.NewError(CodeUnreachable, l.Host.Name+": "+why, "try ssh "+l.Host.Name)
	case code == NothingStarted:
		return nil, l.unusable(said.message())
	case code == otherSystem:
		return nil, reconcile.NewError(codeSystem, l.Host.Name+" is "+said.message()+", for which this symphony is not built",
			"use hosts of the same system and processor as this machine")
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s did not end in time: %w", l.Host.Name, context.Cause(ctx))
	}
	if code, message, coded := strings.Cut(said.message(), ": "); coded && remote.Ends(reconcile.NewError(code, "", "")) {
		return nil, reconcile.NewError(code, message, "the next pass starts the issue again")
	}
	return nil, &exitError{code, said.message()}
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
