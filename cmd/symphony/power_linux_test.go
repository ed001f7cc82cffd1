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
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// powerSyncs is the number of cuts. It exceeds the number of syncs in the life of an issue, so that the last cuts come after the
// end. With SYMPHONY_TEST=each all are made, else every second.
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

// reported lists the rows that other processes may have acted on. Heartbeats and the record of a pass may be lost.
var reported = []string{
	`SELECT * FROM claims ORDER BY issue_id`,
	`SELECT id, outcome, error_code, stop_reason, settled, worker_pid, thread_id, turns_done FROM runs WHERE outcome IS NOT NULL OR phase <> '' ORDER BY id`,
	`SELECT * FROM commands ORDER BY id`,
	`SELECT * FROM issue_totals ORDER BY issue_id`,
}

// keptCmd fails if a row that could be read before the power failure is lost. A transaction in progress may be stored or not.
// Usage: kept
func keptCmd(ts *testscript.TestScript, neg bool, args []string) {
	now, seen, written := ts.Getenv("STATE"), ts.Getenv("STATE")+".seen", ts.Getenv("STATE")+".written"
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

// readableOnly truncates the WAL to its committed frames. The index, which tells readers how far to go, begins with its
// version, three words, the page size and the number of frames.
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
	info, err := os.Stat(wal)
	if err != nil {
		return err
	}
	return os.Truncate(wal, min(info.Size(), 32+frames*(24+page)))
}

// powerMain simulates a power failure, for tests of what is on the disk afterwards. It is a program:
//
//	power -cut N [-lazy] DIR COMMAND [ARG...]
//
// Before the Nth fsync of a file or folder below DIR it kills all processes of the command and restores DIR to what a disk
// would contain: each file as of its last sync, and no file that was never synced. Folders are as of the cut or, with -lazy, as
// of their last sync; real file systems are between the two. If all processes end before the Nth sync, the power fails then.
// Only syncs by symphony count. DIR.seen is the folder as programs saw it at the cut.
func powerMain() {
	cut := flag.Int("cut", 0, "the sync before which the power fails")
	lazy := flag.Bool("lazy", false, "restore folders as at their last sync")
	flag.Parse()
	runtime.LockOSThread() // a tracer is a single thread
	disk, err := newDisk(flag.Arg(0))
	t := &tracer{disk: disk, cut: *cut, in: map[int]string{}}
	where := ""
	if err == nil {
		where, err = t.run(flag.Args()[1:])
	}
	if err == nil {
		err = disk.restore(*lazy)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "power:", err)
		os.Exit(1)
	case where == "":
		fmt.Printf("cut at the end, after %d syncs\n", t.syncs)
	default:
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
	if err := stopAtSyncs(); err != nil {
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
	if err := unix.PtraceCont(first, 0); err != nil {
		return "", err
	}
	return t.follow()
}

// stopAtSyncs has the kernel stop all processes that this thread starts from now on for their tracer, when they sync. A stop at
// each system call would take most of the time of the test.
func stopAtSyncs() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 2},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
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
		delete(t.in, tid)
		return "", nil
	}
	deliver := 0
	switch sig := status.StopSignal(); {
	case sig == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		where, err := t.beginSync(tid)
		if where != "" || err != nil {
			return where, err
		}
		return "", unlessGone(unix.PtraceSyscall(tid, 0)) // stops at the end of the call
	case sig == unix.SIGTRAP|0x80:
		if err := t.endSync(tid); err != nil {
			return "", err
		}
	case sig == unix.SIGTRAP && status.TrapCause() > 0: // a fork
	case sig == unix.SIGSTOP && t.isNew(tid): // the kernel stops a new thread for its tracer
	default:
		deliver = int(sig)
	}
	return "", unlessGone(unix.PtraceCont(tid, deliver))
}

func (t *tracer) isNew(tid int) bool {
	_, known := t.in[tid]
	t.in[tid] = ""
	return !known
}

// Offsets in struct ptrace_syscall_info, the same on all architectures: the result of a call that ends, and the first argument of
// one that begins.
const (
	infoSize   = 88
	infoResult = 24
	infoFirst  = 32
)

// syscallInfo returns the word at an offset; false if the thread has ended.
func syscallInfo(tid, offset int) (uint64, bool, error) {
	info := make([]byte, infoSize)
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), infoSize, uintptr(unsafe.Pointer(&info[0])), 0, 0)
	if errno != 0 {
		return 0, false, unlessGone(errno)
	}
	return binary.NativeEndian.Uint64(info[offset:]), true, nil
}

// beginSync handles a thread that is about to sync. It returns the path if the power fails now.
func (t *tracer) beginSync(tid int) (string, error) {
	t.in[tid] = ""
	fd, found, err := syscallInfo(tid, infoFirst)
	if !found || !isSymphony(tid) {
		return "", err
	}
	path := t.path(tid, fd)
	if path == "" {
		return "", nil
	}
	t.in[tid] = path
	if t.syncs++; t.syncs == t.cut {
		return path, nil
	}
	return "", nil
}

// endSync handles a thread whose sync has ended.
func (t *tracer) endSync(tid int) error {
	path := t.in[tid]
	t.in[tid] = ""
	result, found, err := syscallInfo(tid, infoResult)
	if path == "" || !found || result != 0 {
		return err
	}
	return t.disk.synced(path)
}

// path returns the synced path relative to the disk; "" if it is outside.
func (t *tracer) path(tid int, fd uint64) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, fd))
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

// killAll ends all processes of the command. Each becomes a child of this process when its parent is dead.
func killAll() error {
	for end := time.Now().Add(test.Patience()); time.Now().Before(end); {
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

// file identifies a file. File systems reuse inode numbers, so the time of birth belongs to it.
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
func newDisk(dir string) (*disk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	d := &disk{dir: dir, content: map[file][]byte{}, entries: map[string]map[string]file{}}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	return d, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		return errors.Join(err, d.synced(rel))
	})
}

// synced records that a file or folder is on the disk, and with it its name and those of its parents.
func (d *disk) synced(rel string) error {
	path := filepath.Join(d.dir, rel)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has been removed
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		names, err := d.names(rel)
		d.entries[rel] = names
		return errors.Join(err, d.linked(rel))
	}
	if info.Mode().IsRegular() {
		id, err := identify(path)
		if err != nil {
			return err
		}
		if d.content[id], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	return d.linked(rel)
}

// linked records that a name and those of its parents are on the disk.
func (d *disk) linked(rel string) error {
	for ; rel != "."; rel = filepath.Dir(rel) {
		id, err := identify(filepath.Join(d.dir, rel))
		if err != nil {
			return err
		}
		dir := filepath.Dir(rel)
		if d.entries[dir] == nil {
			d.entries[dir] = map[string]file{}
		}
		d.entries[dir][filepath.Base(rel)] = id
	}
	return nil
}

// names lists the present content of a folder.
func (d *disk) names(rel string) (map[string]file, error) {
	list, err := os.ReadDir(filepath.Join(d.dir, rel))
	if err != nil {
		return nil, err
	}
	names := map[string]file{}
	for _, entry := range list {
		id, err := identify(filepath.Join(d.dir, rel, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names[entry.Name()] = id
	}
	return names, nil
}

// seen is the suffix of the folder as programs saw it at the cut.
const seen = ".seen"

// restore replaces the folder by the content of the disk. With lazy, names in folders are as of the last sync, too.
func (d *disk) restore(lazy bool) error {
	if _, err := os.Lstat(d.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	folders := map[file]bool{}
	err := filepath.WalkDir(d.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		id, err := identify(path)
		if err != nil {
			return err
		}
		folders[id] = true
		rel, err := filepath.Rel(d.dir, path)
		if err == nil && !lazy {
			d.entries[rel], err = d.names(rel)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(d.dir+seen), os.Rename(d.dir, d.dir+seen)); err != nil {
		return err
	}
	if len(d.entries) == 0 {
		return nil
	}
	return d.write(".", folders)
}

func (d *disk) write(rel string, folders map[file]bool) error {
	dir := filepath.Join(d.dir, rel)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, id := range d.entries[rel] {
		var err error
		if folders[id] {
			err = d.write(filepath.Join(rel, name), folders)
		} else {
			err = os.WriteFile(filepath.Join(dir, name), d.content[id], 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
