package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/reconcile"
)

const ownDescriptors = "/proc/self/fd"

// firstPIDNamespace is the link of the initial pid namespace, the same on every Linux.
const firstPIDNamespace = "pid:[4026531836]"

// BootID identifies the boot in which pids and start times are valid: the kernel's boot id
// and, in a container, the pid namespace ("<boot id>/pid:[4026532…]"). It contains no blanks.
func BootID() (string, error) { return bootID() }

var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", fmt.Errorf("pid namespace: %w", err)
	}
	boot := strings.TrimSpace(string(b))
	if namespace != firstPIDNamespace {
		boot += "/" + namespace
	}
	return boot, nil
})

// Monotonic reads CLOCK_MONOTONIC: the time since boot without the time spent suspended.
// Values of the same BootID can be compared.
func Monotonic() time.Duration { return readClock(unix.CLOCK_MONOTONIC) }

// SinceBoot reads CLOCK_BOOTTIME: the time since boot with the time spent suspended. Values of the same
// BootID can be compared.
func SinceBoot() time.Duration { return readClock(unix.CLOCK_BOOTTIME) }

// checkNumbering returns an error unless /proc shows the same pids as kill and fork use. In a
// pid namespace without its own /proc, /proc shows the pids of the outer namespace, and a
// signal would hit an unrelated process.
var checkNumbering = sync.OnceValue(func() error {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return err
	}
	own := os.Getpid()
	if self != strconv.Itoa(own) {
		return fmt.Errorf("/proc belongs to another pid namespace (it calls this process %s, not %d)", self, own)
	}
	return nil
})

// Path returns the path of a file of a process: Path(7, "stat") is /proc/7/stat.
func Path(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// Read reads a file of /proc. os.ReadFile makes three times as many system calls, to find out
// whether the file can be polled, and a worker reads some hundred files at each heartbeat.
func Read(path string) (all []byte, err error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for part := make([]byte, 4096); ; {
		n, err := unix.Read(fd, part)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			return all, err
		}
		all = append(all, part[:n]...)
	}
}

// Stat reads /proc/<pid>/stat; os.ErrProcessDone if there is no such process.
func Stat(pid int) (Entry, error) {
	b, err := Read(Path(pid, "stat"))
	if Gone(err) || err == nil && len(b) == 0 {
		return Entry{}, os.ErrProcessDone
	}
	if err != nil {
		return Entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	e, err := parseStat(string(b))
	if err != nil {
		return Entry{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return e, nil
}

// parseStat parses a line of /proc/<pid>/stat. The name is in parentheses and may itself
// contain parentheses, blanks and newlines, so the fields are counted from the last
// parenthesis.
func parseStat(line string) (e Entry, err error) {
	open := strings.IndexByte(line, '(')
	end := strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return e, errors.New("stat without a name")
	}
	e.Name = line[open+1 : end]
	fields := strings.Fields(line[end+1:])
	const first = 3 // the number of fields[0] in proc(5)
	if len(fields) <= 22-first {
		return e, errors.New("stat is truncated")
	}
	number := func(text string) int {
		n, numberErr := strconv.Atoi(strings.TrimSpace(text))
		err = errors.Join(err, numberErr)
		return n
	}
	e.PID = number(line[:open])
	e.Parent = number(fields[4-first])
	e.Group = number(fields[5-first])
	e.Session = number(fields[6-first])
	state := fields[0]
	threads := number(fields[20-first])
	e.Start = uint64(number(fields[22-first]))
	e.Session = max(e.Session, 0) // -1 in a process that is ending
	// A process whose first thread ended is shown as a zombie even if other threads are
	// running.
	e.stopped = state == "T"
	e.bare = state == "S" && len(fields) > 51-first && fields[50-first] == fields[51-first]
	e.Dead = state == "X" || state == "x" || state == "Z" && threads <= 1
	return e, err
}

// Gone reports whether err, from /proc or a pidfd call, means that a process ended.
func Gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) }

// Forbidden reports whether err means that a process belongs to another user or may not be
// inspected.
func Forbidden(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// Signal sends sig to p if it is still the same process, and returns os.ErrProcessDone if it
// ended, is a zombie or another process. The caller must compare the boot (BootID) in which p
// was recorded.
func Signal(p reconcile.Process, sig unix.Signal) error {
	if err := checkTarget(p); err != nil {
		return err
	}
	fd, err := openPIDFD(p.PID)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Compared while the descriptor is open, so that the pid cannot be reused in between.
	if err := checkSame(p); err != nil {
		return err
	}
	err = unix.PidfdSendSignal(fd, sig, nil, 0)
	if Gone(err) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("signal %v to process %d (%s): %w", sig, p.PID, p.Name, err)
	}
	return nil
}

func openPIDFD(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if Gone(err) || errors.Is(err, unix.EINVAL) {
		// EINVAL: the number now belongs to a thread of another process
		return -1, os.ErrProcessDone
	}
	if err != nil {
		return -1, fmt.Errorf("pidfd of process %d: %w", pid, err)
	}
	return fd, nil
}

const tempName = "symphony"

// TempFile opens a file without a name, in memory.
func TempFile() (*os.File, error) {
	fd, err := unix.MemfdCreate(tempName, unix.MFD_CLOEXEC)
	return os.NewFile(uintptr(fd), "temporary file"), err
}

// SharedFile opens a file in memory that the workers of a pass share (Spawn.Shared).
func SharedFile() (*os.File, error) { return TempFile() }

// inheritedMemory returns a SharedFile that this process inherited, nil if the descriptor is
// another file.
func inheritedMemory(fd int) *os.File {
	name, _ := os.Readlink(ownDescriptors + "/" + strconv.Itoa(fd))
	if name != "/memfd:"+tempName+" (deleted)" {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "shared file")
}

// CheckPidfds returns an error if pidfds cannot be used. Then no process could be ended
// safely, so none may be started: each run would fail, and the failure would count against its
// issue.
func CheckPidfds() error {
	err := tryPIDFD()
	if errors.Is(err, unix.ENOSYS) || Forbidden(err) {
		const hint = "symphony needs Linux 5.3 or later, and in a container rules (seccomp) that allow " +
			"pidfd_open and pidfd_send_signal"
		return reconcile.NewError("system_unsupported", err.Error(), hint).WithCause(err)
	}
	return err
}

// tryPIDFD sends no signal to this process, through a pidfd.
func tryPIDFD() error {
	fd, err := openPIDFD(os.Getpid())
	if err != nil {
		return err
	}
	return errors.Join(unix.PidfdSendSignal(fd, 0, nil, 0), unix.Close(fd))
}

// Scan lists the living processes of all users, kernel threads among them.
func Scan() (entries []Entry, err error) {
	if err := checkNumbering(); err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		e, err := Stat(pid)
		// forbidden: hidden by the mount option hidepid
		if e.Dead || errors.Is(err, os.ErrProcessDone) || Forbidden(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Descendants lists the living descendants of pid, sorted by pid. Its cost depends on their
// number. A process that changes its parent at this moment may be missing.
func Descendants(pid int) (below []reconcile.Process, err error) {
	if err := checkNumbering(); err != nil {
		return nil, err
	}
	seen := map[int]bool{pid: true}
	var errs []error
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, child := range childrenOf(parents[0]) {
			if seen[child] {
				continue
			}
			seen[child] = true
			e, err := Stat(child)
			if errors.Is(err, os.ErrProcessDone) || e.Dead {
				continue
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			below = append(below, e.Process())
			parents = append(parents, child)
		}
	}
	slices.SortFunc(below, byPID)
	return below, errors.Join(errs...)
}

// childrenOf lists the children of all threads of a process, including zombies; none if it
// ended.
func childrenOf(pid int) (list []int) {
	threads, _ := os.ReadDir(Path(pid, "task"))
	for _, thread := range threads {
		text, _ := Read(Path(pid, "task/") + thread.Name() + "/children")
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// execWait is how long an environment may be missing: while a program begins, Linux shows
// none.
const execWait = 500 * time.Millisecond

// EnvironOf returns the environment that a process was started with; empty if it ended or may
// not be inspected.
func EnvironOf(pid int) (string, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		raw, err := Read(Path(pid, "environ"))
		if Gone(err) || Forbidden(err) {
			return "", nil
		}
		if err != nil || len(raw) > 0 || withoutEnviron(pid) || time.Since(began) > execWait {
			return string(raw), err
		}
	}
}

// withoutEnviron reports whether a process runs no program, as a thread of the kernel or a
// zombie, or sleeps with an empty environment. In an exec the environment is empty for a
// moment, too, but the process does not sleep.
func withoutEnviron(pid int) bool {
	_, noProgram := os.Readlink(Path(pid, "exe"))
	e, err := Stat(pid)
	return noProgram != nil || err == nil && e.bare
}

// commands finds the processes with a subcommand of symphony and a state directory, and
// returns their arguments as a map from each argument to the next.
func commands(subcommand, stateDir string) (map[reconcile.Process]map[string]string, error) {
	entries, err := Scan()
	found := map[reconcile.Process]map[string]string{}
	for _, e := range entries {
		line, _ := Read(Path(e.PID, "cmdline"))
		args := strings.Split(string(line), "\x00")
		if len(args) < 2 || args[1] != subcommand {
			continue
		}
		flags := map[string]string{}
		for i := range len(args) - 1 {
			flags[args[i]] = args[i+1]
		}
		if paths.SameDir(flags["--state-dir"], stateDir) {
			found[e.Process()] = flags
		}
	}
	return found, err
}

// Workers finds the workers of a state directory by their command lines, and returns them by
// run id. It is used if the database cannot be read. The alive file shows whether a worker
// really took its run.
func Workers(stateDir string) (map[string]FoundWorker, error) {
	all, err := commands("worker", stateDir)
	found := map[string]FoundWorker{}
	for p, flags := range all {
		found[flags["--run"]] = FoundWorker{p, flags["--workflow"]}
	}
	return found, err
}

// OwnPasses finds the passes of a state directory that workers have started at the end of
// their runs.
func OwnPasses(stateDir string) (list []reconcile.Process, err error) {
	all, err := commands("tick", stateDir)
	for p, flags := range all {
		if flags["--trigger"] == "worker" {
			list = append(list, p)
		}
	}
	return list, err
}

func peerPID(socket int) (int, error) {
	peer, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(peer.Pid), nil
}
