package power

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// Main is the program. It returns the exit code: 0 after a cut, 1 after an error, 2 for wrong usage.
func Main(args []string) int {
	flags := flag.NewFlagSet("power", flag.ContinueOnError)
	cut := flags.Int("cut", 0, "the sync before which the power fails")
	lazy := flags.Bool("lazy", false, "restore folders as at their last sync")
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() < 2 || *cut < 1 {
		flags.Usage()
		return 2
	}
	runtime.LockOSThread() // a tracer is a single thread
	if err := fail(flags.Args(), *cut, *lazy); err != nil {
		fmt.Fprintln(os.Stderr, "power:", err)
		return 1
	}
	return 0
}

func fail(args []string, cut int, lazy bool) error {
	disk, err := newDisk(args[0])
	if err != nil {
		return err
	}
	t := &tracer{disk: disk, cut: cut, calls: map[int]call{}}
	where, err := t.run(args[1:])
	if err != nil {
		return err
	}
	if err := disk.restore(lazy); err != nil {
		return err
	}
	if where == "" {
		fmt.Printf("cut at the end, after %d syncs\n", t.syncs)
		return nil
	}
	fmt.Printf("cut before sync %d, of %s\n", cut, where)
	return nil
}

// call is the system call that a thread is in.
type call struct {
	sync bool
	fd   uint64
}

// tracer follows the symphony processes of one command.
type tracer struct {
	disk  *disk
	cut   int
	syncs int
	calls map[int]call // by thread
}

const traced = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC |
	unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// run returns the path whose sync was cut off, "" where the command ended before.
func (t *tracer) run(argv []string) (string, error) {
	// A process that outlives its parent becomes a child of this one, so that none escapes the cut.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return "", err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return "", err
	}
	first, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 2, 2}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return "", err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(first, &status, unix.WALL, nil); err != nil {
		return "", err
	}
	if err := unix.PtraceSetOptions(first, traced); err != nil {
		return "", err
	}
	if err := unix.PtraceSyscall(first, 0); err != nil {
		return "", err
	}
	return t.follow()
}

func (t *tracer) follow() (string, error) {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return "", nil
		case err != nil:
			return "", err
		}
		where, err := t.stopped(tid, status)
		if where != "" || err != nil {
			return where, errors.Join(err, killAll())
		}
	}
}

// stopped handles one stop of a thread, and lets it continue.
func (t *tracer) stopped(tid int, status unix.WaitStatus) (string, error) {
	if !status.Stopped() {
		delete(t.calls, tid)
		return "", nil
	}
	deliver := 0
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP|0x80:
		if where, err := t.syscall(tid); where != "" || err != nil {
			return where, err
		}
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
		if !isSymphony(tid) {
			return "", unlessGone(unix.PtraceDetach(tid))
		}
	case sig == unix.SIGTRAP && status.TrapCause() > 0: // a fork
	case sig == unix.SIGSTOP && t.isNew(tid): // the kernel stops a new thread for its tracer
	default:
		deliver = int(sig)
	}
	return "", unlessGone(unix.PtraceSyscall(tid, deliver))
}

func (t *tracer) isNew(tid int) bool {
	_, known := t.calls[tid]
	t.calls[tid] = call{}
	return !known
}

// Offsets in struct ptrace_syscall_info, the same on all architectures: the number or result of the call, and its first
// argument.
const (
	infoSize   = 88
	infoCall   = 24
	infoResult = 24
	infoFirst  = 32
)

// syscall handles a thread that enters or leaves a system call.
func (t *tracer) syscall(tid int) (string, error) {
	info := make([]byte, infoSize)
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), infoSize, uintptr(unsafe.Pointer(&info[0])), 0, 0)
	if errno != 0 {
		return "", unlessGone(errno)
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(info[at:]) }
	switch info[0] {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		c := call{sync: word(infoCall) == unix.SYS_FSYNC || word(infoCall) == unix.SYS_FDATASYNC, fd: word(infoFirst)}
		t.calls[tid] = c
		if path := t.path(tid, c); path != "" {
			t.syncs++
			if t.syncs == t.cut {
				return path, nil
			}
		}
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		c := t.calls[tid]
		t.calls[tid] = call{}
		if path := t.path(tid, c); path != "" && word(infoResult) == 0 {
			return "", t.disk.synced(path)
		}
	}
	return "", nil
}

// path is the synced path relative to the disk; "" if it lies outside.
func (t *tracer) path(tid int, c call) string {
	if !c.sync {
		return ""
	}
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, c.fd))
	if err != nil {
		return "" // the thread has ended
	}
	rel, err := filepath.Rel(t.disk.dir, target)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return rel
}

func isSymphony(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	return err == nil && filepath.Base(name) == "symphony"
}

// unlessGone ignores the error of a thread that has ended.
func unlessGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

const killBound = 20 * time.Second

// killAll ends all processes of the command. Each becomes a child of this process when its parent is dead.
func killAll() error {
	for end := time.Now().Add(killBound); time.Now().Before(end); {
		below, err := proc.Descendants(os.Getpid())
		if err != nil || len(below) == 0 {
			return err
		}
		for _, p := range below {
			_ = unix.Kill(p.PID, unix.SIGKILL) // it may be gone
		}
		var status unix.WaitStatus
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		}
		time.Sleep(time.Millisecond)
	}
	return errors.New("processes are left")
}
