package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// hostileMain is a tool for hostile agents. It tries one attack, prints "hostile VERB: done"
// or "hostile VERB: refused: REASON", and exits with 0 in both cases:
//
//	hostile ptrace PID | memory PID | signal PID
//	hostile connect SOCKET | send SOCKET   a stream or a datagram; @NAME is an abstract one
//	hostile type TEXT                      pushes TEXT into the input of the controlling terminal
//	hostile lock FILE                      takes the lock of a file that is open for reading, and keeps
//	                                       it until it is killed
//	hostile read-lock FILE                 the same with the locks that databases use
//	hostile lease FILE                     takes a lease of a file of its own account, so that nobody can open it
//	hostile outlive FILE                   leaves a process without environment, parent, session or descriptors that
//	                                       appends to FILE repeatedly
//	hostile fork N                         leaves N idle processes
//
// For the test, outside the sandbox:
//
//	hostile listen PATH   a stream at PATH, a datagram socket at PATH.d and an abstract stream @PATH, until it is
//	                      killed; it writes PATH.pid and PATH.ready, PATH.reached after a connection, and
//	                      PATH.sent after a datagram
func hostileMain() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hostile VERB ARG")
		os.Exit(2)
	}
	verb := os.Args[1]
	arg := os.Args[2]
	tries := map[string]func(string) error{
		"ptrace":  onProcess(unix.PtraceAttach),
		"memory":  onProcess(hostileMemory),
		"signal":  onProcess(func(pid int) error { return unix.Kill(pid, unix.SIGTERM) }),
		"connect": onSocket(unix.SOCK_STREAM, unix.Connect),
		"send": onSocket(
			unix.SOCK_DGRAM,
			func(fd int, to unix.Sockaddr) error { return unix.Sendmsg(fd, []byte("x"), nil, to, 0) },
		),
		"lock": onFile(func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }),
		"read-lock": onFile(func(f *os.File) error {
			return unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: unix.F_RDLCK})
		}),
		"lease": onFile(func(f *os.File) error {
			// others may read it just now
			for end := time.Now().Add(test.Patience()); ; time.Sleep(time.Millisecond) {
				_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
				if !errors.Is(err, unix.EAGAIN) || time.Now().After(end) {
					return err
				}
			}
		}),
		"outlive":        func(file string) error { return hostileChild("write-for-long", file) },
		"type":           hostileType,
		"fork":           hostileFork,
		"write-for-long": hostileWrite,
		"stay":           hostileStay,
		"listen":         hostileListen,
	}
	try := tries[verb]
	if try == nil {
		fmt.Fprintln(os.Stderr, "hostile: unknown verb", verb)
		os.Exit(2)
	}
	if err := try(arg); err != nil {
		fmt.Printf("hostile %s: refused: %v\n", verb, err)
		return
	}
	fmt.Printf("hostile %s: done\n", verb)
}

// onProcess returns an attack on a process, which is given by its pid.
func onProcess(attack func(pid int) error) func(string) error {
	return func(arg string) error { return attack(test.Must(strconv.Atoi(arg))) }
}

func hostileMemory(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err == nil {
		return f.Close()
	}
	buf := make([]byte, 16)
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(len(buf))}}
	_, second := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{
		Base: uintptr(unsafe.Pointer(&buf[0])),
		Len:  len(buf),
	}}, 0)
	if second == nil {
		return nil
	}
	return errors.Join(err, second)
}

// onSocket returns an attack on a socket of a type, which is given by its path.
func onSocket(kind int, attack func(fd int, to unix.Sockaddr) error) func(string) error {
	return func(path string) error {
		fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return attack(fd, &unix.SockaddrUnix{Name: path})
	}
}

func hostileType(text string) error {
	var refused unix.Errno
	for fd := range 3 {
		refused = 0
		for i := 0; i < len(text) && refused == 0; i++ {
			_, _, refused = unix.Syscall(
				unix.SYS_IOCTL,
				uintptr(fd),
				unix.TIOCSTI,
				uintptr(unsafe.Pointer(unsafe.StringData(text[i:]))),
			)
		}
		if refused == 0 {
			return nil
		}
	}
	return refused
}

// hostileBound limits the life of processes that a failed test leaves.
const hostileBound = time.Minute

// onFile returns an attack that takes a lock of a file and keeps it.
func onFile(lock func(f *os.File) error) func(string) error {
	return func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := lock(f); err != nil {
			return err
		}
		fmt.Println("hostile", os.Args[1]+": held")
		return hostileStay("")
	}
}

// hostileChild starts this program without an environment, session or descriptors that reveal
// its origin.
func hostileChild(args ...string) error {
	cmd := exec.Command(test.Must(os.Executable()), args...)
	cmd.Args[0] = "hostile"
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return cmd.Start() // its parent exits now
}

func hostileFork(arg string) (err error) {
	for range test.Must(strconv.Atoi(arg)) {
		err = errors.Join(err, hostileChild("stay", arg))
	}
	return err
}

func hostileStay(string) error {
	time.Sleep(hostileBound)
	return nil
}

func hostileWrite(path string) error {
	for end := time.Now().Add(hostileBound); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(strings.Repeat("x", 10))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// hostileListen ends this program at the first error.
func hostileListen(path string) error {
	note := func(what, text string) { test.OK(mainT{}, os.WriteFile(path+"."+what, []byte(text), 0o600)) }
	for _, name := range []string{path, "@" + path} {
		l := test.Must(net.Listen("unix", name))
		go func() {
			for {
				c := test.Must(l.Accept())
				note("reached", "x")
				c.Close()
			}
		}()
	}
	d := test.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{
		Name: path + ".d",
		Net:  "unixgram",
	}))
	go func() {
		for {
			_, _, err := d.ReadFromUnix(make([]byte, 16))
			test.OK(mainT{}, err)
			note("sent", "x")
		}
	}()
	note("pid", strconv.Itoa(os.Getpid()))
	note("ready", "x")
	return hostileStay("")
}
