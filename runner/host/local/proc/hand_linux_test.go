package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { helpers["handed"] = handedHelper }

// handedHelper takes over what it was handed, lists what a child of its own has open, and stays.
func handedHelper(args []string) int {
	r, err := ReadySocket()
	if err != nil {
		return 1
	}
	f, err := TakeExtra(args[0])
	if err != nil {
		if r.Refuse(err.Error()) != nil {
			return 1
		}
		return 0
	}
	defer f.Close()
	out, err := exec.Command("ls", "-l", "/proc/self/fd").Output()
	if err != nil {
		return 1
	}
	_, _ = os.Stdout.Write(out)
	if err := r.Taken(); err != nil {
		return 1
	}
	select {}
}

func lockedFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	return f
}

// free reports whether nobody holds the lock on the file.
func free(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// A lock that is handed to a worker is the worker's: held when the pass has closed its own, handed on to nobody, and
// free as soon as the worker is gone, however it went.
func TestHanded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slot")
	f := lockedFile(t, path)
	log, err := os.Create(filepath.Join(t.TempDir(), "worker.log"))
	must(t, err)
	defer log.Close()
	exe, err := os.Executable()
	must(t, err)
	d, err := Detach(Spawn{Exe: exe, Argv: []string{"symphony", helperArg, "handed", path}, Env: os.Environ(), Log: log, Extra: f, Wait: bound})
	must(t, err)
	t.Cleanup(func() { _ = Signal(d.Process(), unix.SIGKILL); <-d.Done() })
	must(t, d.Ready(t.Context()))
	must(t, f.Close())
	if free(t, path) {
		t.Error("the worker does not hold the lock")
	}
	b, err := os.ReadFile(log.Name())
	must(t, err)
	if text := string(b); !strings.Contains(text, "/dev/null") || strings.Contains(text, path) {
		t.Errorf("its child has open:\n%s", text)
	}
	must(t, Signal(d.Process(), unix.SIGKILL))
	<-d.Done()
	eventually(t, "the lock to be free", func() bool { return free(t, path) })
}

// A worker that gets something else than it was told of, or nothing, says so and leaves.
func TestHandedSomethingElse(t *testing.T) {
	dir := t.TempDir()
	for name, hand := range map[string]*os.File{"nothing": nil, "another file": lockedFile(t, filepath.Join(dir, "other"))} {
		t.Run(name, func(t *testing.T) {
			slot := filepath.Join(dir, "slot")
			lockedFile(t, slot)
			exe, err := os.Executable()
			must(t, err)
			d, err := Detach(Spawn{Exe: exe, Argv: []string{"symphony", helperArg, "handed", slot}, Env: os.Environ(), Extra: hand, Wait: bound})
			must(t, err)
			t.Cleanup(func() { <-d.Done() })
			err = d.Ready(t.Context())
			if err == nil || !strings.Contains(err.Error(), "refused: ") || !strings.Contains(err.Error(), slot) {
				t.Errorf("answered %v", err)
			}
		})
	}
}
