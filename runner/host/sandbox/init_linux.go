//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init is the first process of a sandbox. It closes the last ways out, starts the command and
// returns the exit code of it. The kernel then ends whatever is left in the sandbox.
func Init(o InitOptions) (code int, err error) {
	if os.Getpid() != 1 {
		return ExitInitFailed, errors.New(InitCommand + " is started by symphony in a sandbox")
	}
	return initWith(o, walls(o))
}

// wall is something that Init does to itself and to what it starts.
type wall struct {
	name  string
	build func() error
}

// walls returns the walls of a sandbox in the order in which they are built.
func walls(o InitOptions) []wall {
	return []wall{
		{"victim", becomeVictim}, // the next one closes the file that says so
		{"dumpable", becomeNonDumpable},
		{"keyring", joinNewKeyring},
		{"descriptors", keepDescriptors},
		{"cores", forbidCores},
		{"processes", func() error { return limitProcesses(o.Processes) }},
		{"sockets", func() error { return keepSocketsIn(o.Own) }},
		{"filter", func() error { return obey(newFilter(refusedCalls())) }},
	}
}

// initWith is Init with some walls. The command inherits them from the thread that starts it.
func initWith(o InitOptions, walls []wall) (code int, err error) {
	runtime.LockOSThread()
	for _, w := range walls {
		if err := w.build(); err != nil {
			return ExitInitFailed, fmt.Errorf("wall of the sandbox (%s): %w", w.name, err)
		}
	}
	if o.Proxy != "" {
		if err := forward(o.Proxy); err != nil {
			return ExitInitFailed, err
		}
	}
	// A handler for each signal, which does nothing. A command can send this process any, at some of
	// which Go would end it, with a trace of its goroutines. And without a handler the command itself
	// would ignore what a terminal sends to it, as bubblewrap does.
	signal.Notify(make(chan os.Signal, 1))
	passed := make(chan os.Signal, 1)
	signal.Notify(passed, unix.SIGTERM, unix.SIGHUP)
	if !o.Terminal {
		signal.Notify(passed, unix.SIGINT)
	}
	pid, code, err := start(o.Command)
	if err != nil {
		return code, err
	}
	go passOn(passed, pid)
	return reap(pid, o.Terminal)
}

// victimScore is added to what the kernel computes from 0 to 1000 for the memory of a process.
const victimScore = 500

// becomeVictim lets the kernel end what is in the sandbox before the worker and the programs
// of the operator if the machine runs out of memory. Only root keeps an agent from undoing it.
func becomeVictim() error {
	const file = "/proc/self/oom_score_adj"
	written, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("set the score for want of memory: %w", err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(written)))
	if err != nil {
		return fmt.Errorf("set the score for want of memory: %w", err)
	}
	if score >= victimScore {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(victimScore)), 0)
}

// becomeNonDumpable keeps other processes of the account from attaching to this process. A
// process that is stopped by another one would not end, and the sandbox with it.
func becomeNonDumpable() error {
	return os.NewSyscallError("become non-dumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// joinNewKeyring leaves the session keyring of the worker, which may contain keys of the
// operator.
func joinNewKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0) // without a name
	if errors.Is(err, unix.ENOSYS) {
		return nil // a kernel without keys
	}
	return os.NewSyscallError("join a new session keyring", err)
}

// keepDescriptors keeps the command from inheriting files that this process has: files mark the
// processes of a run and lock its workspace, and a directory would lead out of the sandbox.
func keepDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			return fmt.Errorf("list the open files: %w", err)
		}
		if fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// forbidCores keeps the kernel from starting the machine's program for crashes, such as
// systemd-coredump: it would run as root, outside, on what an agent has prepared. A limit of 1
// byte is the kernel's own mark for programs that must not start it, and 0 is not.
func forbidCores() error {
	err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if errors.Is(err, unix.EPERM) {
		return nil // the limit is 0, and only root can raise it
	}
	return os.NewSyscallError("forbid cores", err)
}

// limitProcesses limits the number of processes, unless the account is already limited to fewer.
func limitProcesses(most int) error {
	if most == 0 {
		return nil
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		return os.NewSyscallError("read the limit of processes", err)
	}
	least := min(uint64(most), now.Max)
	limit := &unix.Rlimit{Cur: least, Max: least}
	return os.NewSyscallError("limit the number of processes", unix.Setrlimit(unix.RLIMIT_NPROC, limit))
}

// start starts the command. If that fails, code is the exit code.
func start(command []string) (pid, code int, err error) {
	path, err := exec.LookPath(command[0])
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return 0, ExitNotFound, fmt.Errorf("there is no program %s in the sandbox", command[0])
	}
	if lookErr, is := errors.AsType[*exec.Error](err); is {
		return 0, ExitNotRun, fmt.Errorf("start %s in the sandbox: %w", command[0], lookErr.Err)
	}
	if err != nil {
		return 0, ExitNotRun, fmt.Errorf("start %s in the sandbox: %w", command[0], err)
	}
	pid, err = syscall.ForkExec(path, command, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, ExitNotRun, fmt.Errorf("start %s in the sandbox: %w", path, err)
	}
	return pid, 0, nil
}

// passOn passes signals on to the command.
func passOn(signals <-chan os.Signal, pid int) {
	for s := range signals {
		_ = unix.Kill(pid, s.(unix.Signal)) // it may have ended
	}
}

// exitOther stands for ExitInitFailed if the command itself ends with that: a command must not
// be able to say that this machine has no sandbox, which stops the project.
const exitOther = 1

// reap reaps all that ends in the sandbox until the command does, and returns its exit code. If
// the command stops at a terminal, bubblewrap stops with it: otherwise no shell would learn of it.
func reap(command int, atTerminal bool) (code int, err error) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WUNTRACED, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return ExitInitFailed, fmt.Errorf("wait for the command: %w", err)
		}
		if pid != command {
			continue
		}
		if status.Stopped() {
			if atTerminal {
				_ = unix.Kill(0, unix.SIGSTOP) // the first process of a namespace does not stop
			}
			continue
		}
		if status.Signaled() {
			return 128 + int(status.Signal()), nil
		}
		if status.ExitStatus() == ExitInitFailed {
			return exitOther, nil
		}
		return status.ExitStatus(), nil
	}
}
