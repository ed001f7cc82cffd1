package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const ownDescriptors = "/proc/self/fd"

// firstPIDNamespace is the link of the initial pid namespace, the same on every Linux.
const firstPIDNamespace = "pid:[4026531836]"

// killedWithParent has a child killed when this process ends. Strictly it is when the thread that started the child ends; but Go ends
// only threads that a goroutine was locked to.
var killedWithParent = syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// BootID identifies the boot in which pids and start times are valid: the kernel's boot id and, in a container, the pid namespace
// ("<boot id>/pid:[4026532…]"). It contains no blanks.
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

// Monotonic reads CLOCK_MONOTONIC: the time since boot without the time spent suspended. Values of the same BootID can be compared.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("proc: no monotonic clock: " + err.Error()) // every Linux has one
	}
	return time.Duration(ts.Nano())
}

// checkNumbering returns an error unless /proc shows the same pids as kill and fork use. In a pid namespace without its own /proc,
// /proc shows the pids of the outer namespace, and a signal would hit an unrelated process.
var checkNumbering = sync.OnceValue(func() error {
	self, err := os.Readlink("/proc/self")
	if err == nil && self != strconv.Itoa(os.Getpid()) {
		err = fmt.Errorf("/proc belongs to another pid namespace (it calls this process %s, not %d)", self, os.Getpid())
	}
	return err
})

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// read reads a file of /proc. os.ReadFile makes three times as many system calls, to find out whether the file can be polled, and a
// worker reads some hundred files at each heartbeat.
func read(path string) (all []byte, err error) {
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

// statOf reads /proc/<pid>/stat; os.ErrProcessDone if there is no such process.
func statOf(pid int) (entry, error) {
	b, err := read(procPath(pid, "stat"))
	if gone(err) || err == nil && len(b) == 0 {
		return entry{}, os.ErrProcessDone
	}
	if err == nil {
		var e entry
		if e, err = parseStat(string(b)); err == nil {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("process %d: %w", pid, err)
}

// parseStat parses a line of /proc/<pid>/stat. The name is in parentheses and may itself contain parentheses, blanks and newlines,
// so the fields are counted from the last parenthesis.
func parseStat(line string) (e entry, err error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return e, errors.New("stat without a name")
	}
	e.name = line[open+1 : end]
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
	e.pid, e.ppid, e.group, e.session = number(line[:open]), number(fields[4-first]), number(fields[5-first]), number(fields[6-first])
	state, threads := fields[0], number(fields[20-first])
	e.start = uint64(number(fields[22-first]))
	e.session = max(e.session, 0) // -1 in a process that is ending
	// A process whose first thread has ended is shown as a zombie even if other threads are running.
	e.stopped = state == "T"
	e.bare = state == "S" && len(fields) > 51-first && fields[50-first] == fields[51-first]
	e.dead = state == "X" || state == "x" || state == "Z" && threads <= 1
	return e, err
}

// gone reports whether err, from /proc or a pidfd call, means that a process has ended.
func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) }

// forbidden reports whether err means that a process belongs to another user or may not be inspected.
func forbidden(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// Signal sends sig to p if it is still the same process, and returns os.ErrProcessDone if it has ended, is a zombie or another
// process. The caller must compare the boot (BootID) in which p was recorded.
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
	switch {
	case gone(err):
		return os.ErrProcessDone
	case err != nil:
		return fmt.Errorf("signal %v to process %d (%s): %w", sig, p.PID, p.Name, err)
	}
	return nil
}

func openPIDFD(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case gone(err), errors.Is(err, unix.EINVAL): // EINVAL: the number now belongs to a thread of another process
		return -1, os.ErrProcessDone
	case err != nil:
		return -1, fmt.Errorf("pidfd of process %d: %w", pid, err)
	}
	return fd, nil
}

// TempFile opens a file that has no name, in memory.
func TempFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("symphony", unix.MFD_CLOEXEC)
	return os.NewFile(uintptr(fd), "temporary file"), err
}

// CheckPidfds returns an error if pidfds cannot be used. Then no process could be ended safely, so none may be started: each run
// would fail, and the failure would count against its issue.
func CheckPidfds() error {
	fd, err := openPIDFD(os.Getpid())
	if err == nil {
		err = errors.Join(unix.PidfdSendSignal(fd, 0, nil, 0), unix.Close(fd))
	}
	if errors.Is(err, unix.ENOSYS) || forbidden(err) {
		return &reconcile.Error{
			Code: "system_unsupported", Message: err.Error(), Err: err,
			Hint: "symphony needs Linux 5.3 or later, and in a container rules (seccomp) that allow pidfd_open and pidfd_send_signal",
		}
	}
	return err
}

// scan lists the living processes of all users, kernel threads among them.
func scan() (entries []entry, err error) {
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
		e, err := statOf(pid)
		if e.dead || errors.Is(err, os.ErrProcessDone) || forbidden(err) { // forbidden: hidden by the mount option hidepid
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Descendants lists the living descendants of pid, sorted by pid. Its cost depends on their number. A process that changes its
// parent at this moment may be missing.
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
			switch e, err := statOf(child); {
			case err == nil && !e.dead:
				below, parents = append(below, e.process()), append(parents, child)
			case err != nil && !errors.Is(err, os.ErrProcessDone):
				errs = append(errs, err)
			}
		}
	}
	slices.SortFunc(below, byPID)
	return below, errors.Join(errs...)
}

// childrenOf lists the children of all threads of a process, including zombies; none if it has ended.
func childrenOf(pid int) (list []int) {
	threads, _ := os.ReadDir(procPath(pid, "task"))
	for _, thread := range threads {
		text, _ := read(procPath(pid, "task/") + thread.Name() + "/children")
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// hasMarker reports whether a process has the tree file open as TreeFD, or one of the entries in the environment that it was
// started with. It returns false for processes of other users, who can set any marker, and for those that may not be inspected.
func hasMarker(pid int, entries []string, tree string) (bool, error) {
	found := tree != "" && holdsTree(pid, tree)
	if !found && len(entries) > 0 {
		env, err := environ(pid)
		if err != nil {
			return false, fmt.Errorf("process %d: %w", pid, err)
		}
		found = containsEntry(env, entries)
	}
	if !found {
		return false, nil
	}
	// The directory in /proc belongs to the process's user even if the process is not dumpable.
	var dir unix.Stat_t
	err := unix.Stat(procPath(pid, ""), &dir)
	return err == nil && int(dir.Uid) == os.Geteuid(), nil
}

// holdsTree reports whether the process has the tree file at path open as TreeFD. The link is compared first, because another open
// file may be on a file system that hangs. In another mount namespace the same path is another file.
func holdsTree(pid int, path string) bool {
	link := procPath(pid, "fd/") + strconv.Itoa(TreeFD)
	target, err := os.Readlink(link)
	target, deleted := strings.CutSuffix(target, " (deleted)")
	if err != nil || target != path {
		return false
	}
	named, err := os.Stat(path)
	if deleted || err != nil {
		return true
	}
	open, err := os.Stat(link)
	return err == nil && os.SameFile(open, named)
}

// worksBelow reports whether the working directory of a process is folder or inside it. The path of folder must not contain
// symlinks. For a process that may not be inspected it returns false.
func worksBelow(pid int, folder string) (bool, error) {
	dir, err := os.Readlink(procPath(pid, "cwd"))
	if gone(err) || forbidden(err) {
		return false, nil
	}
	return strings.HasPrefix(dir+"/", folder+"/"), err
}

// execWait is how long an environment may be missing: while a program begins, Linux shows none.
const execWait = 500 * time.Millisecond

// environ returns the environment that a process was started with; empty if it has ended or may not be inspected.
func environ(pid int) (string, error) {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		raw, err := read(procPath(pid, "environ"))
		if gone(err) || forbidden(err) {
			return "", nil
		}
		if err != nil || len(raw) > 0 || withoutEnviron(pid) || time.Since(began) > execWait {
			return string(raw), err
		}
	}
}

// withoutEnviron reports whether a process has no program, as a thread of the kernel or a zombie, or sleeps with an empty
// environment. In an exec the environment is empty for a moment, too, but the process does not sleep.
func withoutEnviron(pid int) bool {
	_, noProgram := os.Readlink(procPath(pid, "exe"))
	e, err := statOf(pid)
	return noProgram != nil || err == nil && e.bare
}

// commands finds the processes with a subcommand of symphony and a state directory, and returns their arguments as a map from each
// argument to the next one.
func commands(subcommand, stateDir string) (map[reconcile.Process]map[string]string, error) {
	entries, err := scan()
	found := map[reconcile.Process]map[string]string{}
	for _, e := range entries {
		line, _ := read(procPath(e.pid, "cmdline"))
		args := strings.Split(string(line), "\x00")
		if len(args) < 2 || args[1] != subcommand {
			continue
		}
		flags := map[string]string{}
		for i := range len(args) - 1 {
			flags[args[i]] = args[i+1]
		}
		if files.SameDir(flags["--state-dir"], stateDir) {
			found[e.process()] = flags
		}
	}
	return found, err
}

// Workers finds the workers of a state directory by their command lines, and returns them by run id. It is used if the database
// cannot be read. The alive file shows whether a worker really has its run.
func Workers(stateDir string) (map[string]FoundWorker, error) {
	all, err := commands("worker", stateDir)
	found := map[string]FoundWorker{}
	for p, flags := range all {
		found[flags["--run"]] = FoundWorker{p, flags["--workflow"]}
	}
	return found, err
}

// OwnPasses finds the passes of a state directory that workers have started at the end of their runs.
func OwnPasses(stateDir string) (list []reconcile.Process, err error) {
	all, err := commands("tick", stateDir)
	for p, flags := range all {
		if flags["--trigger"] == "worker" {
			list = append(list, p)
		}
	}
	return list, err
}
