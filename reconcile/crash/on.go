//go:build crashpoints

package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

const (
	// pointVar names where to die: [ROLE:]NAME[#N], at the Nth visit of the process (1 without). ROLE is "worker" or
	// "pass", which is everything else; without one either dies.
	pointVar = "SYMPHONY_CRASH_AT"
	// logVar names a file. Where pointVar is set too, the process that dies there makes it first, and one that finds
	// it lives on: of all who inherit the variables only one dies. Where it stands alone, every visit is added to the
	// file as a line "ROLE:NAME PID".
	logVar = "SYMPHONY_CRASH_LOG"
	// stopVar is set where the process shall stand still instead (SIGSTOP).
	stopVar = "SYMPHONY_CRASH_STOP"
)

// Variables are those that steer At. A worker and its own pass inherit them; hooks and agent must not, for a command of
// theirs that happens to be this program would die in the place of the one that is meant.
func Variables() []string { return []string{pointVar, logVar, stopVar} }

var state = struct {
	sync.Mutex
	visits map[string]int
}{visits: map[string]int{}}

// At is a place to die at: with SIGKILL, so that nothing is cleaned up.
func At(name string) {
	wanted, log := os.Getenv(pointVar), os.Getenv(logVar)
	if wanted == "" && log == "" {
		return
	}
	role := "pass"
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		role = "worker"
	}
	if wanted == "" {
		note(log, os.O_APPEND, fmt.Sprintf("%s:%s %d", role, name, os.Getpid()))
		return
	}
	at, visit, _ := strings.Cut(wanted, "#")
	if at != name && at != role+":"+name {
		return
	}
	n := 1
	if visit != "" {
		var err error
		if n, err = strconv.Atoi(visit); err != nil {
			fail(fmt.Errorf("%s=%s: %w", pointVar, wanted, err))
		}
	}
	state.Lock()
	defer state.Unlock() // never, for the one that dies: nobody else gets past this place meanwhile
	if state.visits[name]++; state.visits[name] != n || log != "" && !note(log, os.O_EXCL, wanted) {
		return
	}
	how := syscall.SIGKILL
	if os.Getenv(stopVar) != "" {
		how = syscall.SIGSTOP
	}
	if err := syscall.Kill(os.Getpid(), how); err != nil {
		fail(err)
	}
	select {} // it ends here, though perhaps not in this very instant
}

// note adds a line to the log, and reports whether it could.
func note(path string, how int, line string) bool {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false
	}
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fail(err)
	}
	return true
}

// fail ends a test binary that can't do what it is for.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "crash point:", err)
	os.Exit(125)
}
