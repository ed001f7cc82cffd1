package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/proc"
)

// powerSyncs is the number of cuts. It exceeds the number of syncs in the life of an issue, so
// that the last cuts come after the end. With SYMPHONY_TEST=each all are made, else every
// second.
const powerSyncs = 54

func TestPowerFailure(t *testing.T) {
	test.Expensive(t)
	every := 2
	if test.Each() {
		every = 1
	}
	scripts := map[string]string{}
	for cut := 1; cut <= powerSyncs; cut++ {
		for name, flag := range map[string]string{"late": "", "early": " -lazy"} {
			if flag != "" && cut%3 > 0 || cut%every > 0 {
				continue
			}
			scripts[fmt.Sprintf("sync_%02d_%s", cut, name)] = fmt.Sprintf(made("power.txtar"), cut, flag)
		}
	}
	runScripts(t, params(t, "script"), scripts)
}

// reported lists the rows that other processes may have acted on. Heartbeats and the record of
// a pass may be lost.
var reported = []string{
	`SELECT * FROM claims ORDER BY issue_id`,
	`SELECT id, outcome, error_code, stop_reason, settled, worker_pid, thread_id, turns_done FROM runs WHERE outcome IS NOT NULL OR phase <> '' ORDER BY id`,
	`SELECT * FROM commands ORDER BY id`,
	`SELECT * FROM issue_totals ORDER BY issue_id`,
}

// keptCmd fails if a row that could be read before the power failure is lost. A transaction in
// progress may be stored or not. Usage: kept
func keptCmd(ts *testscript.TestScript, neg bool, args []string) {
	now := ts.Getenv("STATE")
	seen := ts.Getenv("STATE") + ".seen"
	written := ts.Getenv("STATE") + ".written"
	if _, err := os.Stat(filepath.Join(seen, "state.db")); err != nil {
		return // there was nothing to read
	}
	ts.Check(os.RemoveAll(written))
	ts.Check(os.CopyFS(written, os.DirFS(seen)))
	ts.Check(readableOnly(seen))
	for _, text := range reported {
		was, err := query(seen, text)
		ts.Check(err)
		may, err := query(written, text)
		ts.Check(err)
		is, err := query(now, text)
		if is != was && is != may || err != nil && was != "" {
			ts.Fatalf("%s: it was\n%s\nis now (%v)\n%s", text, was, err, is)
		}
	}
}

// readableOnly truncates the WAL to its committed frames. The index, which tells readers how
// far to go, begins with its version, three words, the page size and the number of frames.
func readableOnly(stateDir string) error {
	index, err := os.ReadFile(filepath.Join(stateDir, "state.db-shm"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the database was closed
	}
	if err != nil || len(index) < 20 || index[12] == 0 {
		return err
	}
	page := int64(binary.NativeEndian.Uint16(index[14:]))
	frames := int64(binary.NativeEndian.Uint32(index[16:]))
	wal := filepath.Join(stateDir, "state.db-wal")
	return os.Truncate(wal, min(test.Must(os.Stat(wal)).Size(), 32+frames*(24+page)))
}

// powerMain simulates a power failure, for tests of what is on the disk afterwards. It is a
// program:
//
//	power -cut N [-lazy] DIR COMMAND [ARG...]
//
// Before the Nth fsync of a file or folder below DIR it kills all processes of the command and
// restores DIR to what a disk would contain: each file as of its last sync, and no file that
// was never synced. Folders are as of the cut or, with -lazy, as of their last sync; real file
// systems are between the two. If all processes end before the Nth sync, the power fails then.
// Only syncs by symphony count. DIR.seen is the folder as programs saw it at the cut.
func powerMain() {
	cut := flag.Int("cut", 0, "the sync before which the power fails")
	lazy := flag.Bool("lazy", false, "restore folders as at their last sync")
	flag.Parse()
	runtime.LockOSThread() // a tracer is a single thread
	t := &tracer{disk: newDisk(flag.Arg(0)), cut: *cut, in: map[int]string{}}
	where := t.run(flag.Args()[1:])
	t.disk.restore(*lazy)
	if where == "" {
		fmt.Printf("cut at the end, after %d syncs\n", t.syncs)
	} else {
		fmt.Printf("cut before sync %d, of %s\n", *cut, where)
	}
}

// tracer follows the processes of one command, and stops them only at their syncs.
type tracer struct {
	disk  *disk
	cut   int
	syncs int
	in    map[int]string // by thread: the path that it syncs, "" for none
}

const traced = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC |
	unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// orDie ends this program if err is not nil, apart from the error of a thread that has ended.
func orDie(err error) {
	if !errors.Is(err, unix.ESRCH) {
		test.OK(mainT{}, err)
	}
}

// run returns the path whose sync was cut off, "" where the command ended before.
func (t *tracer) run(argv []string) string {
	// A process that outlives its parent becomes a child of this one, so that none escapes the
	// cut.
	orDie(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	path := test.Must(exec.LookPath(argv[0]))
	stopAtSyncs()
	first := test.Must(syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 2, 2}, Sys: &syscall.SysProcAttr{Ptrace: true},
	}))
	var status unix.WaitStatus
	test.Must(unix.Wait4(first, &status, unix.WALL, nil))
	orDie(unix.PtraceSetOptions(first, traced))
	orDie(unix.PtraceCont(first, 0))
	for {
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD):
			return ""
		default:
			orDie(err)
			if where := t.stopped(tid, status); where != "" {
				killAll()
				return where
			}
		}
	}
}

// stopAtSyncs has the kernel stop all processes that this thread starts from now on for their
// tracer, when they sync. A stop at each system call would take most of the time of the test.
func stopAtSyncs() {
	trace := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE}
	test.OK(
		mainT{},
		filterCalls(
			[]unix.SockFilter{
				loadNumber,
				unless(unix.SYS_FSYNC, 1),
				trace,
				unless(unix.SYS_FDATASYNC, 1),
				trace,
				allow,
			},
		),
	)
}

// stopped handles one stop of a thread, and lets it continue. It returns the path of the sync
// before which the power fails.
func (t *tracer) stopped(tid int, status unix.WaitStatus) string {
	if !status.Stopped() {
		delete(t.in, tid)
		return ""
	}
	deliver := 0
	sig := status.StopSignal()
	switch {
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		t.beginSync(tid)
		if t.in[tid] != "" && t.syncs == t.cut {
			return t.in[tid]
		}
		orDie(unix.PtraceSyscall(tid, 0)) // stops at the end of the call
		return ""
	case sig == unix.SIGTRAP|0x80:
		t.endSync(tid)
	case sig == unix.SIGTRAP && status.TrapCause() > 0: // a fork
	case sig == unix.SIGSTOP && t.isNew(tid): // the kernel stops a new thread for its tracer
	default:
		deliver = int(sig)
	}
	orDie(unix.PtraceCont(tid, deliver))
	return ""
}

func (t *tracer) isNew(tid int) bool {
	_, known := t.in[tid]
	t.in[tid] = ""
	return !known
}

// Offsets in struct ptrace_syscall_info, the same on all architectures: the result of a call
// that ends, and the first argument of one that begins.
const (
	infoSize   = 88
	infoResult = 24
	infoFirst  = 32
)

// syscallInfo returns the word at an offset; false if the thread has ended.
func syscallInfo(tid, offset int) (uint64, bool) {
	info := make([]byte, infoSize)
	_, _, errno := unix.Syscall6(
		unix.SYS_PTRACE,
		unix.PTRACE_GET_SYSCALL_INFO,
		uintptr(tid),
		infoSize,
		uintptr(unsafe.Pointer(&info[0])),
		0,
		0,
	)
	if errno != 0 {
		orDie(errno)
	}
	return binary.NativeEndian.Uint64(info[offset:]), errno == 0
}

// beginSync handles a thread that is about to sync.
func (t *tracer) beginSync(tid int) {
	t.in[tid] = ""
	if fd, found := syscallInfo(tid, infoFirst); found && isSymphony(tid) {
		t.in[tid] = t.path(tid, fd)
		if t.in[tid] != "" {
			t.syncs++
		}
	}
}

// endSync handles a thread whose sync has ended.
func (t *tracer) endSync(tid int) {
	path := t.in[tid]
	t.in[tid] = ""
	if result, found := syscallInfo(tid, infoResult); path != "" && found && result == 0 {
		t.disk.synced(path)
	}
}

// path returns the synced path relative to the disk; "" if it is outside.
func (t *tracer) path(tid int, fd uint64) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, fd))
	if err != nil {
		return "" // the thread has ended
	}
	if rel, err := filepath.Rel(t.disk.dir, target); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return ""
}

func isSymphony(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	return err == nil && filepath.Base(name) == "symphony"
}

// killAll ends all processes of the command. Each becomes a child of this process when its
// parent is dead.
func killAll() {
	for end := time.Now().Add(test.Patience()); time.Now().Before(end); time.Sleep(time.Millisecond) {
		below := test.Must(proc.Descendants(os.Getpid()))
		if len(below) == 0 {
			return
		}
		for _, p := range below {
			_ = unix.Kill(p.PID, unix.SIGKILL) // it may be gone
		}
		var status unix.WaitStatus
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		}
	}
	panic("processes are left")
}

// file identifies a file. File systems reuse inode numbers, so the time of birth belongs to
// it.
type file struct {
	inode uint64
	birth unix.StatxTimestamp
}

func identify(path string) (file, error) {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &stat)
	return file{stat.Ino, stat.Btime}, err
}

// disk is the content of a folder that would survive a power failure.
type disk struct {
	dir     string
	content map[file][]byte            // as of the last sync
	entries map[string]map[string]file // by folder: its names as of their last sync
}

// newDisk takes the present content of a folder as synced. The folder need not exist.
func newDisk(dir string) *disk {
	d := &disk{
		dir:     test.Must(filepath.Abs(dir)),
		content: map[file][]byte{},
		entries: map[string]map[string]file{},
	}
	d.walk(func(rel string, _ fs.DirEntry) { d.synced(rel) })
	return d
}

// walk calls f for each file and folder, none if the folder does not exist.
func (d *disk) walk(f func(rel string, entry fs.DirEntry)) {
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			f(test.Must(filepath.Rel(d.dir, path)), entry)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		orDie(err)
	}
}

// synced records that a file or folder is on the disk, and with it its name and those of its
// parents.
func (d *disk) synced(rel string) {
	path := filepath.Join(d.dir, rel)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return // it has been removed
	}
	orDie(err)
	if info.IsDir() {
		d.entries[rel] = d.names(rel)
	} else if info.Mode().IsRegular() {
		d.content[test.Must(identify(path))] = test.Must(os.ReadFile(path))
	}
	for ; rel != "."; rel = filepath.Dir(rel) {
		dir := filepath.Dir(rel)
		if d.entries[dir] == nil {
			d.entries[dir] = map[string]file{}
		}
		d.entries[dir][filepath.Base(rel)] = test.Must(identify(filepath.Join(d.dir, rel)))
	}
}

// names lists the present content of a folder.
func (d *disk) names(rel string) map[string]file {
	names := map[string]file{}
	for _, entry := range test.Must(os.ReadDir(filepath.Join(d.dir, rel))) {
		id, err := identify(filepath.Join(d.dir, rel, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		orDie(err)
		names[entry.Name()] = id
	}
	return names
}

// seen is the suffix of the folder as programs saw it at the cut.
const seen = ".seen"

// restore replaces the folder by the content of the disk. With lazy, names in folders are as
// of the last sync, too.
func (d *disk) restore(lazy bool) {
	folders := map[file]bool{}
	d.walk(func(rel string, entry fs.DirEntry) {
		if entry.IsDir() {
			folders[test.Must(identify(filepath.Join(d.dir, rel)))] = true
			if !lazy {
				d.entries[rel] = d.names(rel)
			}
		}
	})
	if len(folders) == 0 {
		return
	}
	orDie(errors.Join(os.RemoveAll(d.dir+seen), os.Rename(d.dir, d.dir+seen)))
	if len(d.entries) > 0 {
		d.write(".", folders)
	}
}

func (d *disk) write(rel string, folders map[file]bool) {
	dir := filepath.Join(d.dir, rel)
	orDie(os.Mkdir(dir, 0o700))
	for name, id := range d.entries[rel] {
		if folders[id] {
			d.write(filepath.Join(rel, name), folders)
		} else {
			orDie(os.WriteFile(filepath.Join(dir, name), d.content[id], 0o600))
		}
	}
}
