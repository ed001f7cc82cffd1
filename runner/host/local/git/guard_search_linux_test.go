package git

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// The data of a container, which belong to another account, are left out. A directory in which an agent
// can write, and one of this account, are not.
func TestDirectoryOfAnotherAccount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can work as another account")
	}
	const nobody = 65534
	top := t.TempDir()
	test.OK(t, os.Chmod(top, 0o711))
	test.OK(t, os.Chmod(filepath.Dir(top), 0o711))
	for name, c := range map[string]struct {
		mode  os.FileMode
		owner int
		fails bool
	}{
		"closed":           {0o700, 0, false},
		"entered":          {0o711, 0, false},
		"written":          {0o733, 0, true},
		"of this account":  {0o000, nobody, true},
		"of it, and empty": {0o700, nobody, false},
	} {
		dir := filepath.Join(top, name)
		test.OK(t, os.Mkdir(dir, 0o700))
		test.OK(t, os.Chown(dir, c.owner, c.owner))
		test.OK(t, os.Chmod(dir, c.mode))
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocks: the thread ends with the function
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
				done <- errno
				return
			}
			_, err := readDir(dir)
			done <- err
		}()
		err := <-done
		test.Equal(t, name+": an error", err != nil, c.fails)
		if err != nil {
			test.Contains(t, name, err.Error(), dir)
		}
	}
}
