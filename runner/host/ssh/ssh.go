// Package ssh starts and reaches the daemons of runs on other machines with the system's ssh.
// Its configuration decides how a host is reached and who logs in; symphony only forbids
// questions and forwarding.
package ssh

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/sshname"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/engine"
	"github.com/symphony-cron/symphony/runner/host/remote"
	"github.com/symphony-cron/symphony/runner/proc"
)

// Engine reaches the daemon of an incarnation of a run on a host. It is an engine.Engine.
type Engine struct {
	Host sshname.Host
	*engine.Run
}

var _ engine.Engine = Engine{}

const (
	connectBound = 20 * time.Second // for ssh to connect
	startBound   = 90 * time.Second // for the start of a daemon
	copyBound    = 10 * time.Minute // for the copy of the program

	// noProgram is the exit code of the script below if the host lacks the program. (255 means
	// that ssh itself failed.)
	noProgram = 97
	// NothingStarted is the exit code of symphony host serve if it started no daemon, and
	// there is none.
	NothingStarted = 96

	// The script says engine.Hello before it does anything. To change something there it needs
	// the answer, and says done at the end.
	answer = "go"
	done   = "symphony-done"
)

// Start makes sure that the daemon serves the run. The host gets the program first, if it does
// not have it. Its errors are as engine.Engine says. Dial then starts the program that Start
// used, which is another one on a host of another system.
func (e Engine) Start(ctx context.Context) error {
	program, err := e.serve(ctx)
	e.Program = program // of the run, which copies of e share
	exited, ok := errors.AsType[*exitError](err)
	if !ok || exited.code != noProgram {
		return err
	}
	if err := e.copyProgram(ctx, program); err != nil {
		return err
	}
	_, err = e.serve(ctx)
	return err
}

// serve starts the daemon, and returns the program for the system of the host.
func (e Engine) serve(ctx context.Context) (engine.Program, error) {
	words := []string{"serve", "--lost-after", e.LostAfter.String()}
	if e.Known {
		words = append(words, "--known")
	}
	program, _, err := e.onItsSystem(ctx, e.Incarnation.Secret, func(p engine.Program) string {
		return e.hostCommand(p, words...) + " && echo " + done
	})
	return program, err
}

// onItsSystem runs the script for a program on the host, and again with the program for the
// system of the host if that is another system. It returns the program it used last, and the
// lines that the script printed.
func (e Engine) onItsSystem(
	ctx context.Context,
	stdin string,
	script func(engine.Program) string,
) (program engine.Program, printed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	printed, err = e.run(ctx, e.Program, strings.NewReader(stdin), script(e.Program))
	other, isOther := errors.AsType[*systemError](err)
	if !isOther {
		return e.Program, printed, err
	}
	if !systemName().MatchString(other.system) {
		return e.Program, nil, reconcile.NewError(
			engine.CodeSystem,
			fmt.Sprintf("%s: its uname -sm printed %q", e.Host.Name, other.uname),
			"try "+e.Host.Command()+" uname -sm",
		)
	}
	program, err = e.ProgramFor(other.system)
	if err != nil {
		return e.Program, nil, reconcile.NewError(
			engine.CodeSystem,
			e.Host.Name+" is "+other.uname+": "+err.Error(),
			"put a symphony of the same version for that system there",
		)
	}
	printed, err = e.run(ctx, program, strings.NewReader(stdin), script(program))
	return program, printed, err
}

// Ask runs a shell script on the host that changes nothing, and returns the lines that it
// prints.
func (e Engine) Ask(ctx context.Context, script string) (lines []string, err error) {
	_, lines, err = e.onItsSystem(ctx, "", func(engine.Program) string { return script + "\necho " + done })
	return lines, err
}

// hostCommand returns the shell command that runs a subcommand of symphony host there.
func (e Engine) hostCommand(p engine.Program, words ...string) string {
	words = append(
		words,
		"--project",
		e.Project,
		"--run",
		e.Incarnation.RunID,
		"--incarnation",
		strconv.FormatInt(e.Incarnation.Number, 10),
	)
	return isProgram(p, "p") + ` || exit ` + strconv.Itoa(noProgram) +
		`; "$p" host ` + strings.Join(text.Map(words, text.ShellWord), " ")
}

// isProgram is a condition in the script: the file in a variable is the whole program.
func isProgram(p engine.Program, variable string) string {
	const test = `[ -x "$%[1]s" ] && [ "$(wc -c < "$%[1]s")" -eq %[2]d ]`
	return fmt.Sprintf(test, variable, p.Size)
}

// script returns a command for the login shell of the account there, whichever it is: sh runs
// a script in which p is the program. First it says which system that is, and hello.
func script(p engine.Program, s string) string {
	return "exec sh -c " + text.ShellWord(`echo; echo "`+systemLine+`$(uname -sm)"; echo `+engine.Hello+
		`; p=${XDG_CACHE_HOME:-$HOME/.cache}/symphony/programs/`+p.Sum+`/symphony; `+s)
}

const systemLine = "symphony-system " // begins the line with the output of uname

// systemError is that the program is not for the system of the host.
type systemError struct{ uname, system string }

func (e *systemError) Error() string { return "the host is " + e.uname }

// systemName matches texts that can be a part of the name of a file. The host chose it.
var systemName = text.Pattern(`^[a-z0-9_]+-[a-z0-9_]+$`)

// checkSystem compares the system of the program with the output of uname on the host.
func checkSystem(p engine.Program, printed []string) error {
	line := text.First(printed, func(line string) bool { return strings.HasPrefix(line, systemLine) })
	uname := strings.TrimPrefix(line, systemLine)
	kernel, machine, _ := strings.Cut(strings.ToLower(uname), " ")
	switch machine {
	case "x86_64":
		machine = "amd64"
	case "aarch64":
		machine = "arm64"
	}
	system := kernel + "-" + machine
	if system == cmp.Or(p.System, runtime.GOOS+"-"+runtime.GOARCH) {
		return nil
	}
	return &systemError{uname, system}
}

// copyProgram copies the program to the host. A file there gets its name only after it is
// complete.
func (e Engine) copyProgram(ctx context.Context, p engine.Program) error {
	ctx, cancel := context.WithTimeout(ctx, copyBound)
	defer cancel()
	file, err := os.Open(p.Path)
	if err != nil {
		return fmt.Errorf("own program: %w", err)
	}
	defer file.Close()
	_, err = e.run(
		ctx,
		p,
		file,
		`umask 077; new=$p.$$; mkdir -p "${p%/*}" && cat > "$new" && chmod 700 "$new" && `+isProgram(p, "new")+
			` && sync && mv -f "$new" "$p"; rm -f "$new"; `+isProgram(p, "p")+` && echo `+done,
	)
	if exited, ok := errors.AsType[*exitError](err); ok {
		return e.unusable("symphony can't be copied there: " + exited.said)
	}
	return err
}

func (e Engine) unusable(why string) error {
	return reconcile.NewError(
		engine.CodeUnusable,
		e.Host.Name+": "+why,
		"correct that there, then symphony resume",
	)
}

// Dial opens a stream to the daemon. It is a remote.Dial.
func (e Engine) Dial(context.Context) (io.ReadWriteCloser, error) {
	cmd, err := e.ssh(e.Program, e.hostCommand(e.Program, "connect"))
	if err != nil {
		return nil, err
	}
	return engine.Open(e.Host.Name, cmd)
}

// connects are the variables that concern a connection of ssh. No other variable can reach a
// host, whatever its configuration sends.
var connects = []string{"PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "KRB5CCNAME", "XDG_RUNTIME_DIR"}

// ssh returns ssh with a script for the host. Each script gets its own connection, which no
// other can break.
func (e Engine) ssh(p engine.Program, commands string) (*exec.Cmd, error) {
	args := []string{
		"-T",
		"-o", "BatchMode=yes",
		"-o", "ForwardAgent=no",
		"-o", "ForwardX11=no",
		"-o", "ClearAllForwardings=yes",
		"-o", "ControlMaster=no",
		"-o", "ControlPath=none",
		"-o", "ConnectTimeout=" + strconv.Itoa(int(connectBound.Seconds())),
		"-o", "ServerAliveInterval=15",
		"-o", "ServerAliveCountMax=3",
	}
	if e.Host.Port != "" {
		args = append(args, "-p", e.Host.Port)
	}
	return engine.Command(e.Env, connects, "ssh", append(args, "--", e.Host.Destination, script(p, commands))...)
}

// exitError is the failure of a command on the host.
type exitError struct {
	host string
	code int
	said string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s: exit code %d: %s", e.host, e.code, e.said)
}

// run runs a script on the host and waits until it is done. It returns the lines that the
// script prints.
func (e Engine) run(
	ctx context.Context,
	p engine.Program,
	stdin io.Reader,
	script string,
) (printed []string, err error) {
	cmd, err := e.ssh(p, "read -r begin || exit 1; "+script)
	if err != nil {
		return nil, err
	}
	in, out, stderr, err := engine.Start(cmd)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	connected, printed, linesErr := converse(p, out, in, stdin)
	err = proc.IgnoreLeftover(cmd.Wait())
	if other, isOther := errors.AsType[*systemError](linesErr); isOther {
		return nil, other
	}
	if err == nil && linesErr == nil {
		return printed, nil
	}
	exited := &exitError{e.Host.Name, cmd.ProcessState.ExitCode(), engine.Said(stderr)}
	return nil, e.explain(ctx, connected, exited)
}

// converse lets the script begin, passes stdin to it, and returns its output up to its last
// line. connected: it began.
func converse(
	p engine.Program,
	out *bufio.Reader,
	in io.WriteCloser,
	stdin io.Reader,
) (connected bool, printed []string, err error) {
	before, err := engine.ReadUntil(out, engine.Hello)
	if err != nil {
		return false, nil, err
	}
	if err := checkSystem(p, before); err != nil {
		return true, nil, errors.Join(err, in.Close()) // the script ends
	}
	go func() { // it ends at the latest with ssh
		_, _ = io.WriteString(in, answer+"\n")
		_, _ = io.Copy(in, stdin)
		_ = in.Close()
	}()
	printed, err = engine.ReadUntil(out, done)
	return true, printed, err
}

// explain returns the error for a script that failed.
func (e Engine) explain(ctx context.Context, connected bool, exited *exitError) error {
	if !connected {
		why := e.Host.Name + ": " + cmp.Or(exited.said, "ssh has ended without a word")
		if ctx.Err() != nil {
			why = e.Host.Name + " did not answer in time"
		}
		return reconcile.NewError(engine.CodeUnreachable, why, "try "+e.Host.Command())
	}
	if exited.code == NothingStarted {
		return e.unusable(exited.said)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s did not end in time: %w", e.Host.Name, context.Cause(ctx))
	}
	if code, message, coded := strings.Cut(exited.said, ": "); coded &&
		remote.Ends(reconcile.NewError(code, "", "")) {
		return reconcile.NewError(code, message, "")
	}
	return exited
}
