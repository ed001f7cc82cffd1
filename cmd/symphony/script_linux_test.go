package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/symphony-cron/symphony/internal/test"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal and its output.
type terminal struct {
	master, slave *os.File
	done          chan struct{} // closed when no process has the terminal open
	mu            sync.Mutex
	text          strings.Builder
}

// newTerminal opens a pseudo-terminal that does not change its output.
func newTerminal(columns int) (*terminal, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	n := test.Must(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t := &terminal{master: master, slave: slave, done: make(chan struct{})}
	modes := test.Must(t.modes())
	modes.Oflag &^= unix.OPOST
	go func() {
		defer close(t.done)
		_, _ = io.Copy(t, master) // ends with EIO when the last writer has closed the terminal
	}()
	return t, errors.Join(unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, modes),
		unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{
			Row: 40,
			Col: uint16(columns),
		}))
}

func (t *terminal) modes() (*unix.Termios, error) {
	return unix.IoctlGetTermios(int(t.slave.Fd()), unix.TCGETS)
}

// Write implements io.Writer for the output of the terminal.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *terminal) shown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// prompts reports whether a prompt follows the first n bytes of output. The prompt for a
// secret counts once echo is off.
func (t *terminal) prompts(n int) bool {
	text := t.shown()
	if len(text) <= n || !strings.HasSuffix(text, ": ") {
		return false
	}
	modes, err := t.modes()
	return err == nil && (modes.Lflag&unix.ECHO == 0 || !strings.Contains(text[n:], "it is not shown"))
}

// command returns a command of the script whose output goes to the terminal.
func (t *terminal) command(ctx context.Context, ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	if path, err := inPath(ts.Getenv("PATH"), args[0]); err == nil {
		cmd.Path = path
		cmd.Err = nil
	}
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = scriptEnv(ts)
	cmd.Stdout = t.slave
	cmd.Stderr = t.slave
	return cmd
}

// close waits until no process has the terminal open and returns what it has shown.
func (t *terminal) close() (string, error) {
	defer t.master.Close()
	if err := t.slave.Close(); err != nil {
		return "", err
	}
	select {
	case <-t.done:
		return t.shown(), nil
	case <-time.After(test.Patience()):
		return "", errors.New("a process still has the terminal open")
	}
}

// terminalCmd runs a command whose stdout and stderr are a terminal with that many columns.
// The output is then in stdout. The exit code is ignored: terminal COLUMNS COMMAND ARG...
func terminalCmd(ts *testscript.TestScript, neg bool, args []string) {
	columns, err := strconv.Atoi(args[0])
	ts.Check(err)
	t, err := newTerminal(columns)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	_ = t.command(ctx, ts, args[1:]).Run()
	text, err := t.close()
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), text)
}

// typedCmd runs a command on a terminal and types a line at each of its prompts, which end in
// ": ". For the line ^C it sends SIGINT, ^D ends the input. The exit code is ignored; the
// command must restore the modes of the terminal: typed LINE/LINE... COMMAND ARG...
func typedCmd(ts *testscript.TestScript, neg bool, args []string) {
	t, err := newTerminal(100)
	ts.Check(err)
	before, err := t.modes()
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	cmd := t.command(ctx, ts, args[1:])
	cmd.Stdin = t.slave
	ts.Check(cmd.Start())
	over := make(chan struct{})
	go func() { defer close(over); _ = cmd.Wait() }()
	typed := 0
	for _, line := range strings.Split(args[0], "/") {
		waitFor(ts, "a prompt", func() (bool, string) {
			select {
			case <-over:
				return true, ""
			default:
				return t.prompts(typed), t.shown()
			}
		})
		typed = len(t.shown())
		if line == "^C" {
			ts.Check(cmd.Process.Signal(syscall.SIGINT))
			continue
		}
		text := line + "\n"
		if line == "^D" {
			text = "\x04"
		}
		_, err := t.master.WriteString(text)
		ts.Check(err)
	}
	<-over
	if after, err := t.modes(); err != nil || *after != *before {
		ts.Fatalf("the terminal was %+v and is %+v, %v", before, after, err)
	}
	text, err := t.close()
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), strings.ReplaceAll(text, "\r", ""))
}

// slurmClusterCmd starts a Slurm cluster, which ends with the script.
func slurmClusterCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(startSlurm(ts.MkAbs("."), scriptEnv(ts), ts.Defer))
}

// gridEngineCmd starts a cell of Grid Engine, which ends with the script, and makes the
// workflow use it as docs/hosts.md says.
func gridEngineCmd(ts *testscript.TestScript, neg bool, args []string) {
	ports := freePorts(2)
	for name, value := range map[string]string{
		"SGE_ROOT":         ts.MkAbs("sge"),
		"SGE_CELL":         "cell",
		"SGE_QMASTER_PORT": ports[0],
		"SGE_EXECD_PORT":   ports[1],
	} {
		setVar(ts, name, value)
	}
	run := func(script string) {
		ts.Check(runFile(ts.MkAbs("."), append(scriptEnv(ts), "PORTS="+strings.Join(ports, " ")), script))
	}
	run("hosts.sh")
	ts.Defer(func() { run("sge/down") })
	run("sge.sh")
	useWorkerKeys(ts, "worker:\n  engine:\n    kind: command\n"+documentedEngine(ts, "\nGrid Engine "))
}

// documentedEngine returns the first example in docs/hosts.md after some words.
func documentedEngine(ts *testscript.TestScript, after string) string {
	text, err := os.ReadFile(filepath.Join(moduleRoot, "docs", "hosts.md"))
	ts.Check(err)
	_, shown, found := strings.Cut(string(text), after)
	_, shown, _ = strings.Cut(shown, "```yaml\n")
	shown, _, closed := strings.Cut(shown, "```\n")
	if !found || !closed {
		ts.Fatalf("docs/hosts.md has no example after %q", after)
	}
	return shown
}

// useWorkerKeys adds the section worker to the workflow of a script.
func useWorkerKeys(ts *testscript.TestScript, keys string) {
	path := ts.MkAbs("WORKFLOW.md")
	text := strings.Replace(ts.ReadFile(path), "workspace:\n", keys+"workspace:\n", 1)
	ts.Check(os.WriteFile(path, []byte(text), 0o600))
}

// containerEngineCmd starts a real engine of containers, which ends with the script, and makes
// the workflow use it as docs/hosts.md says: container-engine docker|podman
func containerEngineCmd(ts *testscript.TestScript, neg bool, args []string) {
	run := func(script string) {
		ts.Check(runFile(ts.MkAbs("."), append(scriptEnv(ts), "ENGINE="+args[0]), script))
	}
	ts.Defer(func() {
		if _, err := os.Stat(ts.MkAbs("containers/down")); err == nil {
			run("containers/down")
		}
	})
	run("containers.sh")
	setVar(ts, "PATH", ts.MkAbs("bin")+":"+ts.Getenv("PATH"))
	useWorkerKeys(ts, strings.ReplaceAll(documentedEngine(ts, "\n## Any other engine"), "docker", args[0]))
}

// systemCommands returns the commands that need linux.
func systemCommands() map[string]scriptCommand {
	return map[string]scriptCommand{
		"container-engine docker|podman":      containerEngineCmd,
		"fill DIR PAGES":                      fillCmd,
		"freeze PATTERN":                      freezeCmd,
		"grid-engine":                         gridEngineCmd,
		"kept":                                keptCmd,
		"nothing-lost [OUTCOME...]":           nothingLostCmd,
		"slurm-cluster":                       slurmClusterCmd,
		"small-disk DIR KILOBYTES":            smallDiskCmd,
		"terminal COLUMNS COMMAND [ARG...]":   terminalCmd,
		"thaw":                                thawCmd,
		"typed LINE/LINE... COMMAND [ARG...]": typedCmd,
	}
}

// systemPrograms returns the programs that need linux.
func systemPrograms() map[string]func() {
	return map[string]func(){
		"hostile":            hostileMain,
		"power":              powerMain,
		"without-namespaces": withoutNamespaces,
		"without-pidfds":     withoutPidfds,
	}
}

// canMount reports whether this process may mount file systems: root in a container often may
// not.
func canMount() bool {
	dir, err := os.MkdirTemp("", "symphony-mount-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		return false
	}
	return syscall.Unmount(dir, 0) == nil
}

// smallDiskCmd creates a directory and mounts a file system with that many kilobytes there,
// until the end of the script: small-disk DIR KILOBYTES
func smallDiskCmd(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+args[1]+"k"))
	ts.Defer(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			ts.Logf("unmount %s: %v", dir, err)
		}
	})
}

// freezer is the folder of the freezer of control groups, version 1. A frozen process does not
// react to signals, like one that waits for a dead file system.
const freezer = "/sys/fs/cgroup/freezer"

func canFreeze() bool {
	dir, err := os.MkdirTemp(freezer, "symphony-")
	if err != nil {
		return false
	}
	return os.Remove(dir) == nil
}

// freezeCmd freezes the processes of the script whose command line matches, until thaw or the
// end of the script. Not even SIGKILL reaches them: freeze PATTERN
func freezeCmd(ts *testscript.TestScript, neg bool, args []string) {
	pids, _ := matching(ts, args[0])
	if len(pids) == 0 {
		ts.Fatalf("no process matches %s; the script's processes: %v", args[0], ours(ts))
	}
	wait := func(what string, holds func() bool) { waitFor(ts, what, func() (bool, string) { return holds(), "" }) }
	group := freeze(wait, pids...)
	setVar(ts, "FROZEN", group)
	ts.Defer(func() {
		setFreezer(group, "THAWED")
		wait("the end of the frozen processes", func() bool { return os.Remove(group) == nil })
	})
}

// thawCmd continues the frozen processes: thaw
func thawCmd(ts *testscript.TestScript, neg bool, args []string) {
	setFreezer(ts.Getenv("FROZEN"), "THAWED")
}

// freeze freezes processes and returns their group.
func freeze(wait func(what string, holds func() bool), pids ...int) (group string) {
	group = test.Must(os.MkdirTemp(freezer, "symphony-"))
	for _, pid := range pids {
		test.OK(mainT{}, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600))
	}
	setFreezer(group, "FROZEN")
	wait("the processes to freeze", func() bool {
		return strings.TrimSpace(
			string(test.Must(os.ReadFile(filepath.Join(group, "freezer.state")))),
		) == "FROZEN"
	})
	return group
}

func setFreezer(group, state string) {
	test.OK(mainT{}, os.WriteFile(filepath.Join(group, "freezer.state"), []byte(state), 0o600))
}

// Instructions of a seccomp filter.
var (
	// of the call
	loadNumber = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}
	// the lower half of its first argument
	loadFirst    = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}
	allow        = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	notPermitted = unix.SockFilter{
		Code: unix.BPF_RET | unix.BPF_K,
		K:    unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM),
	}
	notKnown = unix.SockFilter{
		Code: unix.BPF_RET | unix.BPF_K,
		K:    unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS),
	}
)

// unless skips instructions if the loaded value is not the number; withBits skips them if it
// has none of the bits.
func unless(number uint32, over uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: over}
}

func withBits(bits uint32, over uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: bits, Jf: over}
}

// withoutPidfds runs a program for which pidfd_open fails, as under the seccomp profiles of
// older containers.
func withoutPidfds() {
	becomeFiltered([]unix.SockFilter{loadNumber, unless(unix.SYS_PIDFD_OPEN, 1), notPermitted, allow})
}

// withoutNamespaces runs a program that cannot create a user namespace, and so no sandbox, as
// in containers with default settings. clone3 hides its flags in memory, so the filter answers
// that the kernel does not have it.
func withoutNamespaces() {
	becomeFiltered([]unix.SockFilter{
		loadNumber,
		unless(unix.SYS_UNSHARE, 1), notPermitted,
		unless(unix.SYS_CLONE3, 1), notKnown,
		unless(unix.SYS_CLONE, 3), loadFirst, withBits(unix.CLONE_NEWUSER, 1), notPermitted,
		allow,
	})
}

// becomeFiltered replaces this process by the program in the arguments, with a filter on the
// system calls of that program and of its children.
func becomeFiltered(program []unix.SockFilter) {
	runtime.LockOSThread() // the filter belongs to this thread, which becomes the program
	path, err := exec.LookPath(os.Args[1])
	if err == nil {
		err = filterCalls(program)
	}
	if err == nil {
		err = unix.Exec(path, os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(77)
}

// filterCalls sets a filter on the system calls of this thread and of what it starts.
func filterCalls(program []unix.SockFilter) error {
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}
