package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/runner/host"
)

// hiddenUID is a user that sees only its own processes in a /proc with hidepid.
const hiddenUID = 20790

func init() {
	// start many starts children as a worker does: from a process that may not be looked into.
	helpers["start many"] = func([]string) error {
		return errors.Join(NonDumpable(), sideBySide(30, func() error {
			c, err := Start(host.StartRequest{Argv: []string{"bash", "-c", ":"}}, nil, nil)
			if err == nil {
				_, err = c.Close()
			}
			return err
		}))
	}
	// detach many starts workers as a pass does.
	helpers["detach many"] = func([]string) error {
		return sideBySide(8, func() error {
			d, err := Detach(Spawn{Exe: os.Args[0], Argv: []string{"", helperArg, "worker", "hide"}, Env: os.Environ(), Wait: bound})
			if err == nil {
				err = d.Ready(context.Background())
			}
			return err
		})
	}
	helpers["workers"] = func(args []string) error {
		found, err := Workers(args[0])
		for run := range found {
			say(run)
		}
		return err
	}
}

// sideBySide calls do so many times in each of eight goroutines, to provoke a race.
func sideBySide(times int, do func() error) error {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			for range times {
				errs[i] = errors.Join(errs[i], do())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// amongHidden runs a helper as another user where /proc hides the processes of others, after the shell commands in before.
func amongHidden(t *testing.T, hidepid, before string, helper ...string) string {
	t.Helper()
	needsRoot(t)
	program := filepath.Join(t.TempDir(), "helper")
	must(t, exec.Command("cp", os.Args[0], program).Run())
	for dir := filepath.Dir(program); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	script := fmt.Sprintf(`mount -o remount,hidepid=%[1]s /proc || exit 77
as() { setpriv --reuid %[2]d --regid %[2]d --clear-groups "$@"; }
%[3]s
as "$@"`, hidepid, hiddenUID, before)
	cmd := exec.Command("unshare", append([]string{
		"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script, "-", program, helperArg,
	}, helper...)...)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 || strings.Contains(string(out), "unshare: ") {
		t.Skipf("no /proc of our own to be had: %v: %s", err, out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// With the mount option hidepid a child is hidden until its exec is over. It must not be taken for one that is gone.
func TestStartWithHiddenProcesses(t *testing.T) {
	for _, hidepid := range []string{"1", "2"} {
		for _, helper := range []string{"start many", "detach many"} {
			if out := amongHidden(t, hidepid, "", helper); out != "" {
				t.Errorf("hidepid=%s, %s: %s", hidepid, helper, out)
			}
		}
	}
}

// Hidden processes of other users are skipped, and a state directory may be named through a symlink.
func TestWorkersAmongHidden(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink(dir, filepath.Join(dir, "link")))
	must(t, os.WriteFile(filepath.Join(dir, "worker"), []byte("echo up; exec 1>&-; read -r end\n"), 0o755))
	const start = `cd %[1]s && coproc as sh worker --run run-1 --state-dir %[2]s
read -r up <&"${COPROC[0]}"`
	for _, called := range []string{dir, dir + "/link"} {
		if out := amongHidden(t, "1", fmt.Sprintf(start, dir, called), "workers", dir); out != "run-1" {
			t.Errorf("called %s: found %q", called, out)
		}
	}
	if out := amongHidden(t, "1", fmt.Sprintf(start, dir, dir), "workers", filepath.Dir(dir)); out != "" {
		t.Errorf("of another directory: found %q", out)
	}
}
