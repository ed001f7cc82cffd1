package local

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// foreground shares the terminal of the operator with a command, as a shell does with a job.
// The command is in a process group of its own: what it does to its group, such as
// kill -TERM 0, reaches neither this process nor what the operator's shell has started with it.
type foreground struct {
	terminal int // its descriptor
	own      int // the group of this process
	modes    *term.State
	given    bool // the command has the terminal
	followed sync.WaitGroup
}

// newForeground prepares a command that has not been started. A command does not get the
// terminal while this process itself is in the background, or if it is another session's.
func newForeground(cmd *exec.Cmd, in *os.File) *foreground {
	f := &foreground{terminal: int(in.Fd()), own: unix.Getpgrp()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group, err := f.group()
	if err != nil || group != f.own {
		return f
	}
	cmd.SysProcAttr.Foreground = true
	cmd.SysProcAttr.Ctty = f.terminal
	f.given = true
	f.modes, _ = term.GetState(f.terminal) // it is a terminal
	return f
}

// group returns the process group that has the terminal.
func (f *foreground) group() (int, error) { return unix.IoctlGetInt(f.terminal, unix.TIOCGPGRP) }

// give gives the terminal to a process group. This process may be in the background, where the
// kernel would stop it for that.
func (f *foreground) give(group int, modes *term.State) {
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	// The terminal may be gone: then its end is what all of them hear of.
	_ = unix.IoctlSetPointerInt(f.terminal, unix.TIOCSPGRP, group)
	if modes != nil {
		_ = term.Restore(f.terminal, modes)
	}
}

// follow follows the command until it ends.
func (f *foreground) follow(pid int) {
	f.followed.Go(func() {
		for stops(pid) {
			f.suspend(pid)
		}
	})
}

// stopped is the code of a child that a signal has stopped (CLD_STOPPED).
const stopped = 5

// stops waits until a child stops. It returns false if the child ends, for which another waits.
func stops(pid int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Code != stopped {
			return false
		}
		_ = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) // once is enough
		return true
	}
}

// stopStep is how long this process waits until it stops.
const stopStep = 100 * time.Millisecond

// suspend stops this process, too, because the command has stopped, such as by Ctrl-Z: the
// shell then takes the terminal. When the shell gives it back, the command goes on. Without a
// shell that could do so, the kernel stops nothing, and the command goes on at once.
func (f *foreground) suspend(group int) {
	modes, _ := term.GetState(f.terminal) // none if the terminal is gone
	f.takeBack()
	for {
		_ = unix.Kill(0, unix.SIGTSTP)
		time.Sleep(stopStep)
		at, err := f.group()
		if err != nil || at == f.own { // otherwise it goes on in the background
			break
		}
	}
	f.give(group, modes)
	f.given = true
	_ = unix.Kill(-group, unix.SIGCONT)
}

// takeBack takes the terminal from the command, with the modes that it had before.
func (f *foreground) takeBack() {
	if f.given {
		f.give(f.own, f.modes)
	}
	f.given = false
}

// close takes the terminal back when the command has ended.
func (f *foreground) close() {
	f.followed.Wait()
	f.takeBack()
}
