//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// attack is a way out of a sandbox.
type attack struct {
	name string
	// program is one of attackPrograms, which gets what prepare returns.
	program string
	prepare func(s *scene) (arg string)
	// What stops the attack: arguments of bubblewrap, and parts of Init as in withoutVar. With
	// all of it changed the attack succeeds.
	arguments []change
	init      string
	who       who
	// lets reports whether this machine allows the attack outside of a sandbox.
	lets func() bool
}

// who is the account whose agents could do the harm.
type who int

const (
	everyone who = iota
	onlyRoot     // an ordinary account may not do it anyway
	onlyUser     // the kernel does not keep root from it
)

// allCapabilities are the changes that give an agent the capabilities of its namespaces. For
// the terminals of a new /dev bubblewrap gives an ordinary account a second user namespace.
var allCapabilities = []change{
	{"--cap-drop ALL", "--cap-add ALL"},
	{"--disable-userns", ""},
	{"--dev /dev", "--dev-bind /dev /dev"},
}

var ownProcesses = []change{{"--unshare-pid", ""}, {"--as-pid-1", ""}}

var attacks = []attack{
	{
		name: "signal a process outside", program: "signal", prepare: ownPID,
		arguments: ownProcesses,
	},
	{
		name: "leave a process behind", program: "stay", prepare: lockFile,
		arguments: ownProcesses,
	},
	{
		// Another run could be passed an open directory of this one.
		name: "make a socket in the home of several runs", program: "listen", prepare: homeOf,
		init: "wall:sockets",
	},
	{
		// Landlock refuses this and the next one, too, if Init is not on the first thread of its process.
		name: "attach to the first process", program: "attach",
		init: "wall:dumpable,call:ptrace,wall:sockets",
	},
	{
		name: "read the environment of the first process", program: "read", prepare: textArg("/proc/1/environ"),
		init: "wall:dumpable,wall:sockets",
	},
	{
		name: "mount", program: "mount",
		arguments: allCapabilities, init: "call:mount,wall:sockets",
	},
	{
		name: "make a user namespace by unshare", program: "unshare",
		arguments: []change{{"--disable-userns", ""}}, init: "call:unshare",
	},
	{
		name: "make a user namespace by clone", program: "clone",
		arguments: []change{{"--disable-userns", ""}},
	},
	{
		// Only whether it could be written: the kernel runs what is in it, outside.
		name: "write kernel.core_pattern", program: "writable", prepare: textArg("/proc/sys/kernel/core_pattern"),
		arguments: []change{{"--ro-bind /proc/sys /proc/sys", ""}}, who: onlyRoot,
	},
	{
		name: "write /proc/mtrr", program: "writable", prepare: textArg("/proc/mtrr"),
		arguments: []change{{"--ro-bind-try /proc/mtrr /proc/mtrr", ""}}, who: onlyRoot, lets: has("/proc/mtrr"),
	},
	{
		name: "write /proc/pressure", program: "writable", prepare: textArg("/proc/pressure/cpu"),
		arguments: []change{{"--ro-bind-try /proc/pressure /proc/pressure", ""}}, lets: has("/proc/pressure/cpu"),
	},
	{
		name: "see the machine's devices", program: "see", prepare: textArg("/dev/kmsg"),
		arguments: []change{{"--dev /dev", "--dev-bind /dev /dev"}}, lets: has("/dev/kmsg"),
	},
	{
		name: "read /etc/shadow", program: "read", prepare: textArg("/etc/shadow"),
		arguments: []change{{"--proc /proc", "--ro-bind /etc/shadow /etc/shadow --proc /proc"}}, who: onlyRoot,
	},
	{
		name: "follow a link of the workspace to a file outside", program: "read", prepare: linkToSecret,
		arguments: []change{{"--chdir", "--ro-bind DIR DIR --chdir"}},
	},
	{
		name: "open a raw socket", program: "raw",
		arguments: allCapabilities,
	},
	{
		name: "open a socket of another family", program: "family",
		init: "wall:filter", lets: func() bool { return openFamily() == nil },
	},
	{
		name: "connect to a port of the machine", program: "connect", prepare: listenOn("tcp4", "127.0.0.1:0"),
		arguments: []change{{"--unshare-net", ""}},
	},
	{
		name: "connect to a port of the machine by IPv6", program: "connect", prepare: listenOn("tcp6", "[::1]:0"),
		arguments: []change{{"--unshare-net", ""}}, lets: has("/proc/net/if_inet6"),
	},
	{
		// The address belongs to documentation, and connect sends nothing.
		name: "have a route to the internet", program: "connect", prepare: textArg("udp4 192.0.2.1:53"),
		arguments: []change{{"--unshare-net", ""}},
		lets:      func() bool { return connect("udp4 192.0.2.1:53") == nil },
	},
	{
		name: "connect to an abstract socket", program: "connect", prepare: listenOn("unix", "@symphony-sandbox-"),
		arguments: []change{{"--unshare-net", ""}}, init: "wall:sockets",
	},
	{
		name: "connect to a socket outside", program: "connect", prepare: listenOn("unix", "socket"),
		arguments: []change{{"--chdir", "--ro-bind DIR DIR --chdir"}},
	},
	{
		name: "use io_uring", program: "io_uring",
		init: "call:io_uring_setup", lets: func() bool { return setUpRing("") == nil },
	},
	{
		name: "use userfaultfd", program: "userfaultfd",
		init: "call:userfaultfd", lets: func() bool { return handleFaults("") == nil },
	},
	{
		name: "use perf", program: "perf",
		init: "call:perf_event_open", lets: func() bool { return countEvents("") == nil },
	},
	{
		name: "use calls of x32", program: "x32",
		init: "wall:filter", lets: func() bool { return runtime.GOARCH == "amd64" },
	},
	{
		name: "find a key of the worker", program: "key", prepare: startWithKey,
		init: "wall:keyring,call:keyctl",
	},
	{
		name: "type into the operator's terminal", program: "type", prepare: onTerminal,
		arguments: []change{{"--new-session", ""}}, init: "wall:filter",
		lets: func() bool { return sysctl("/proc/sys/dev/tty/legacy_tiocsti") != "0" },
	},
	{
		name: "open the operator's terminal", program: "open", prepare: onTerminalAt("/dev/tty"),
		arguments: []change{{"--new-session", ""}},
	},
	{
		name: "use System V memory of the machine", program: "memory", prepare: sharedMemory,
		arguments: []change{{"--unshare-ipc", ""}},
	},
	{
		name: "leave by a directory that bubblewrap has open", program: "descriptor", prepare: openDirectory,
		init: "wall:descriptors",
	},
	{
		// Where the kernel starts a program for crashes, that runs outside, as root.
		name: "crash with a core", program: "core",
		init: "wall:cores",
		lets: func() bool { return sysctl("/proc/sys/kernel/core_pattern") == "core" && crash("") == nil },
	},
	{
		name: "start any number of processes", program: "fork", prepare: fewProcesses,
		init: "wall:processes", who: onlyUser,
	},
	{
		name: "outlive the worker when memory is short", program: "score",
		init: "wall:victim", lets: func() bool { return oomScore() < victimScore },
	},
}

// TestAttacks shows that each attack of an agent of this account fails, and that it succeeds
// without what stops it.
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.try(t) })
	}
}

// TestAttacksOfUser is TestAttacks for an ordinary account, if the tests run as root.
func TestAttacksOfUser(t *testing.T) {
	needBubblewrap(t)
	if os.Geteuid() == 0 && test.Unprivileged(t) {
		TestAttacks(t)
	}
	if os.Geteuid() != 0 {
		TestAttacks(t)
	}
}

func (a attack) try(t *testing.T) {
	says, refused := a.run(t, nil, "")
	if !refused {
		t.Errorf("the attack succeeds: %s", says)
	}
	root := os.Geteuid() == 0
	if a.who == onlyRoot && !root || a.who == onlyUser && root {
		return
	}
	if a.lets != nil && !a.lets() {
		t.Log("the kernel of this machine does not allow it outside, either")
		return
	}
	says, refused = a.run(t, a.arguments, a.init)
	if refused {
		t.Errorf("without %v %s it fails, too: %s", a.arguments, a.init, says)
	}
}

// run tries the attack in a sandbox without a part of its walls.
func (a attack) run(t *testing.T, without []change, withoutInit string) (says string, refused bool) {
	t.Helper()
	s := newScene(t)
	arg := ""
	if a.prepare != nil {
		arg = a.prepare(s)
	}
	if a.who == onlyUser && os.Geteuid() == 0 {
		return "", true
	}
	s.box.Command = []string{ProgramInside, "attack", a.program, arg}
	if len(without) > 0 || withoutInit != "" {
		s.env = append(s.env, withoutVar+"=,"+withoutInit)
	}
	names := strings.NewReplacer("TEMP", s.box.Temp, "DIR", filepath.Join(s.dir, "outside"))
	var changes []change
	for _, c := range without {
		changes = append(changes, change{names.Replace(c.from), names.Replace(c.to)})
	}
	cmd := s.command(changes...)
	var said strings.Builder
	cmd.Stdout = &said
	cmd.Stderr = &said
	err := cmd.Run()
	says = strings.TrimSpace(said.String())
	if a.program == "stay" && err == nil {
		pid := test.Must(strconv.Atoi(strings.TrimPrefix(says, "done: ")))
		if !held(t, arg) {
			return says, true
		}
		test.OK(t, unix.Kill(pid, unix.SIGKILL))
		return says, false
	}
	if err == nil && strings.HasPrefix(says, "done") {
		return says, false
	}
	if err == nil && strings.HasPrefix(says, "refused") {
		return says, true
	}
	t.Fatalf("%v: %s", err, says)
	return "", false
}

// Preparations.

func textArg(text string) func(*scene) string { return func(*scene) string { return text } }

func ownPID(*scene) string { return strconv.Itoa(os.Getpid()) }

func has(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

func sysctl(path string) string {
	value, _ := os.ReadFile(path)
	return strings.TrimSpace(string(value))
}

func lockFile(s *scene) string {
	path := filepath.Join(s.box.Workspace, "lock")
	test.Write(s.t, path, "")
	return path
}

func linkToSecret(s *scene) string {
	link := filepath.Join(s.box.Workspace, "link")
	test.OK(s.t, os.Symlink(filepath.Join(s.dir, "outside", "secret"), link))
	return link
}

// listenOn listens at an address: a name of a file is in the directory outside.
func listenOn(network, address string) func(*scene) string {
	return func(s *scene) string {
		at := address
		if network == "unix" && at[0] == '@' {
			at += strconv.Itoa(os.Getpid()) + filepath.Base(s.dir)
		} else if network == "unix" {
			at = filepath.Join(s.dir, "outside", at)
			listener, err := Listen(at)
			test.OK(s.t, err)
			s.t.Cleanup(func() { listener.Close() })
			return network + " " + at
		}
		if network == "tcp6" && !has("/proc/net/if_inet6")() {
			return network + " " + at
		}
		listener, err := net.Listen(network, at)
		test.OK(s.t, err)
		s.t.Cleanup(func() { listener.Close() })
		return network + " " + listener.Addr().String()
	}
}

func startWithKey(s *scene) string {
	s.start = []string{s.box.Program, "with-key"}
	return keyName
}

// onTerminal makes a terminal the controlling one of the sandbox.
func onTerminal(s *scene) string {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	test.OK(s.t, err)
	s.t.Cleanup(func() { master.Close() })
	test.OK(s.t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n := test.Must(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))
	s.stdin, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	test.OK(s.t, err)
	s.t.Cleanup(func() { s.stdin.Close() })
	return "x"
}

func onTerminalAt(path string) func(*scene) string {
	return func(s *scene) string {
		onTerminal(s)
		return path
	}
}

func sharedMemory(s *scene) string {
	key := int(rand.Int32())
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
	test.OK(s.t, err)
	s.t.Cleanup(func() { test.Must(unix.SysvShmCtl(id, unix.IPC_RMID, nil)) })
	return strconv.Itoa(key)
}

func openDirectory(s *scene) string {
	dir, err := os.Open(filepath.Join(s.dir, "outside"))
	test.OK(s.t, err)
	s.t.Cleanup(func() { dir.Close() })
	s.files = []*os.File{dir}
	return "3"
}

func homeOf(s *scene) string { return s.box.Home }

func fewProcesses(s *scene) string {
	s.box.Processes = 60
	return "100"
}

func oomScore() int {
	score, err := strconv.Atoi(sysctl("/proc/self/oom_score_adj"))
	if err != nil {
		return victimScore
	}
	return score
}

// attackPrograms try one attack each. An error is a refusal.
var attackPrograms = map[string]func(arg string) error{
	"listen": func(dir string) error {
		test.OK(panics{}, os.Chdir(dir)) // the path of a socket may have 107 bytes
		listener, err := net.Listen("unix", "s")
		if err != nil {
			return err
		}
		return listener.Close()
	},
	"signal": func(arg string) error { return unix.Kill(test.Must(strconv.Atoi(arg)), 0) },
	"stay":   stay,
	"attach": func(string) error { return attach() },
	"read": func(path string) error {
		text, err := os.ReadFile(path)
		if err == nil && len(text) == 0 {
			return errors.New("it is empty")
		}
		return err
	},
	"writable": func(path string) error { return unix.Access(path, unix.W_OK) },
	"see": func(path string) error {
		_, err := os.Stat(path)
		return err
	},
	"open": func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		return err
	},
	"mount": func(string) error {
		test.OK(panics{}, os.Mkdir("/tmp/mounted", 0o700))
		return unix.Mount("none", "/tmp/mounted", "tmpfs", 0, "")
	},
	"unshare": func(string) error {
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	},
	"clone": func(string) error {
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	},
	"raw": func(string) error {
		return opened(unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP))
	},
	"family":      func(string) error { return openFamily() },
	"connect":     connect,
	"core":        crash,
	"io_uring":    setUpRing,
	"userfaultfd": handleFaults,
	"perf":        countEvents,
	"x32": func(string) error {
		// A kernel without x32 has no such call: it got past the filter.
		_, _, errno := unix.Syscall(1<<30|unix.SYS_GETPID, 0, 0, 0)
		if errno == unix.ENOSYS || errno == 0 {
			return nil
		}
		return errno
	},
	"key": func(name string) error {
		_, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", name, 0)
		return err
	},
	"type": func(text string) error {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(unsafe.StringData(text))))
		if errno != 0 {
			return errno
		}
		return nil
	},
	"memory": func(key string) error {
		_, err := unix.SysvShmGet(test.Must(strconv.Atoi(key)), 4096, 0)
		return err
	},
	"descriptor": func(fd string) error {
		return opened(unix.Openat(test.Must(strconv.Atoi(fd)), "secret", unix.O_RDONLY, 0))
	},
	"score": func(string) error {
		if oomScore() >= victimScore {
			return errors.New("the kernel ends it first")
		}
		return nil
	},
	"fork": func(count string) error {
		for range test.Must(strconv.Atoi(count)) {
			if err := exec.Command("sleep", "60").Start(); err != nil {
				return err
			}
		}
		return nil
	},
}

// panics ends an attack that can't be tried.
type panics struct{}

func (panics) Helper()           {}
func (panics) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// playAttack tries an attack in the sandbox.
func playAttack(args []string) int {
	err := attackPrograms[args[0]](args[1])
	if err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	if args[0] != "stay" { // it has said so itself
		fmt.Println("done")
	}
	return 0
}

// opened closes a descriptor that was opened.
func opened(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// crash has a program crash, and succeeds if the kernel wrote its memory to a file.
func crash(string) error {
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("sh", "-c", "ulimit -c unlimited; kill -SEGV $$")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	_ = cmd.Run() // ends by the signal
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		return errors.New("there is no core")
	}
	return err
}

// stay leaves a process that holds the lock of a file, in a session of its own.
func stay(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println("done:", cmd.Process.Pid)
	return nil
}

// attach stops the first process as a debugger, and lets it go.
func attach() error {
	runtime.LockOSThread() // a tracer is a single thread
	if err := unix.PtraceAttach(1); err != nil {
		return err
	}
	test.Must(unix.Wait4(1, nil, unix.WALL, nil))
	return unix.PtraceDetach(1)
}

// connect connects to a network and an address.
func connect(arg string) error {
	network, address, _ := strings.Cut(arg, " ")
	if filepath.IsAbs(address) { // and may be too long for a socket
		dir, err := os.Open(filepath.Dir(address))
		if err != nil {
			return err
		}
		defer dir.Close()
		address = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(address))
	}
	conn, err := net.Dial(network, address)
	if err == nil {
		conn.Close()
	}
	return err
}

// openFamily opens a socket that the network of a sandbox does not confine.
func openFamily() error {
	var errs []error
	for _, family := range []int{unix.AF_VSOCK, unix.AF_ALG, unix.AF_TIPC, unix.AF_KCM} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET, unix.SOCK_DGRAM} {
			err := opened(unix.Socket(family, kind, 0))
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func setUpRing(string) error {
	var parameters [120]byte
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
	return openedRaw(fd, errno)
}

func handleFaults(string) error {
	const userModeOnly = 1
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
	return openedRaw(fd, errno)
}

func openedRaw(fd uintptr, errno unix.Errno) error {
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func countEvents(string) error {
	attr := &unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config: unix.PERF_COUNT_SW_TASK_CLOCK,
		Bits:   unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	return opened(unix.PerfEventOpen(attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC))
}

// TestLinkInWorkspace: an agent made a directory that the workflow names a link to a secret. A
// bind would follow the link.
func TestLinkInWorkspace(t *testing.T) {
	s := newScene(t)
	secret := filepath.Join(s.dir, "outside")
	link := filepath.Join(s.box.Workspace, "tools")
	test.OK(t, os.Symlink(secret, link))
	s.box.Command = []string{"cat", "/tmp/tools/secret"}
	// Without a check: the source of the bind is the name.
	out := test.Run(t, s.command(change{"--chdir", "--ro-bind " + link + " /tmp/tools --chdir"}))
	test.Equal(t, "what the agent read", out, "the secret")

	for name, readable := range map[string]string{
		"a link":                  link,
		"a path through it":       filepath.Join(link, "secret"),
		"a link to the workspace": filepath.Join(s.dir, "shortcut"),
		"another workspace":       filepath.Join(s.dir, "workspaces", "ABC-2"),
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Symlink(s.box.Workspace, filepath.Join(s.dir, "shortcut"))
			test.OK(t, os.MkdirAll(filepath.Join(s.dir, "workspaces", "ABC-2"), 0o700))
			box := s.box
			box.Readable = []string{readable}
			_, err := Prepare(box)
			if err == nil {
				t.Fatal("it is shown")
			}
			test.Contains(t, "the error", err.Error(), "where an agent writes")
		})
	}
}

// TestLinksInTemp: an agent leaves links in its /tmp where bubblewrap makes the places of the
// next sandbox, so that the home covers all workspaces and the workspace is a link of the home.
func TestLinksInTemp(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	s := newScene(t)
	planted := filepath.Join(s.box.Temp, strings.TrimPrefix(s.box.Home, "/tmp"))
	test.OK(t, os.MkdirAll(filepath.Dir(planted), 0o700))
	test.OK(t, os.Symlink("/oldroot"+filepath.Dir(s.box.Workspace), planted))
	workspace := filepath.Join(s.box.Home, filepath.Base(s.box.Workspace))
	test.OK(t, os.Symlink("/oldroot"+filepath.Join(s.dir, "outside"), workspace))
	test.Write(t, filepath.Join(s.box.Workspace, "own"), "its own\n")
	s.box.Command = []string{"sh", "-c", "cat own && ! cat secret && touch /tmp/it-writes"}
	test.Contains(t, "what the agent read", test.Run(t, s.command()), "its own")
}

// TestReplacedSecret: a file of /etc that only its owner may read stays hidden when another one takes
// its place during a run.
func TestReplacedSecret(t *testing.T) {
	needBubblewrap(t)
	dir, err := os.MkdirTemp("/etc", "python-symphony-test-")
	if err != nil {
		t.Skip("this account can't write /etc: ", err)
	}
	t.Cleanup(func() { test.OK(t, os.RemoveAll(dir)) })
	test.OK(t, os.Chmod(dir, 0o755))
	secret := filepath.Join(dir, "secret")
	write := func(name string, mode os.FileMode) {
		test.Write(t, name, "in "+name+"\n")
		test.OK(t, os.Chmod(name, mode))
	}
	write(secret, 0o600)
	write(filepath.Join(dir, "open"), 0o644)
	s := newScene(t)
	s.box.Command = []string{"sh", "-c", "touch ready; until test -e go; do sleep 0.1; done; ls " + dir + "; cat " + dir + "/*"}
	cmd := s.command()
	var out strings.Builder
	cmd.Stdout = &out
	test.OK(t, cmd.Start())
	test.Until(t, "the box", func() bool {
		_, err := os.Stat(filepath.Join(s.box.Workspace, "ready"))
		return err == nil
	})
	write(secret+".new", 0o600)
	test.OK(t, os.Rename(secret+".new", secret))
	test.Write(t, filepath.Join(s.box.Workspace, "go"), "")
	test.OK(t, cmd.Wait())
	test.Equal(t, "what the agent sees", out.String(), "open\nin "+filepath.Join(dir, "open")+"\n")
}

// TestHomeInShown: the home of the account is hidden where a directory above it is shown.
func TestHomeInShown(t *testing.T) {
	needBubblewrap(t)
	home, err := os.MkdirTemp("/opt", "symphony-test-")
	if err != nil {
		t.Skip("this account can't write /opt: ", err)
	}
	t.Cleanup(func() { test.OK(t, os.RemoveAll(home)) })
	s := newScene(t)
	test.Write(t, filepath.Join(home, "secret"), "the secret\n")
	test.Write(t, filepath.Join(home, "bin", "tool"), "a tool\n")
	test.OK(t, os.Chmod(home, 0o755))
	s.box.Secret = []string{home, filepath.Join(home, "missing")}
	s.box.Readable = test.Must(ProgramDirs(filepath.Join(home, "bin"), home))
	s.box.Command = []string{"sh", "-c", "ls " + home + " && cat " + home + "/bin/tool && ! touch " + home + "/new"}
	test.Contains(t, "what the agent sees", test.Run(t, s.command()), "bin\na tool")
	s.box.Command = []string{"cat", filepath.Join(home, "secret")}
	out, err := s.command().CombinedOutput()
	if err == nil {
		t.Errorf("the agent read %s", out)
	}
}
