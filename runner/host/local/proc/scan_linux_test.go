package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/symphony-cron/symphony/reconcile"
)

// stateOf is the letter after the name in a stat line.
func stateOf(stat string) byte { return stat[strings.LastIndexByte(stat, ')')+2] }

func TestParseStat(t *testing.T) {
	tail := " 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3\n"
	for _, c := range []struct {
		line string
		want entry
	}{
		{"7 (sh) S 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "sh"}},
		{"7 (a) b (c)) R 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "a) b (c)"}},
		{"7 (a\nb) Z 9 9) Z 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "a\nb) Z 9 9", dead: true}},
		{"7 () X 3 1" + tail, entry{pid: 7, session: 5, ppid: 3, start: 4711, dead: true}},
		{"7 (t) Z 3 1" + strings.Replace(tail, " 20 0 1 0 ", " 20 0 2 0 ", 1), entry{pid: 7, session: 5, ppid: 3, start: 4711, name: "t"}},
		{"7 (ending) R 3 1" + strings.Replace(tail, " 5 0 ", " -1 0 ", 1), entry{pid: 7, ppid: 3, start: 4711, name: "ending"}},
		{"2 (kthreadd) S 0 0" + strings.Replace(tail, "4194560", "2129984", 1), entry{pid: 2, session: 5, start: 4711, name: "kthreadd", kernel: true}},
		{"7 (z) S 3 1" + strings.Replace(tail, "4711", "18446744073709551615", 1), entry{pid: 7, session: 5, ppid: 3, start: 1<<64 - 1, name: "z"}},
	} {
		got, err := parseStat(c.line)
		if err != nil || got != c.want {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", c.line, got, err, c.want)
		}
	}
	for _, line := range []string{"", "7", "7 sh S 3", "7 (sh", "x (sh) S 3 1" + tail, "7 (sh) S 3 1 1", ") (", "7 (sh) S x 1" + tail, strings.Replace("7 (sh) S 3 1"+tail, " 5 ", " s ", 1)} {
		if e, err := parseStat(line); err == nil {
			t.Errorf("%q: %+v and no error", line, e)
		}
	}
}

// hiddenUID is a user that sees only its own processes in a /proc with hidepid.
const hiddenUID = 20790

func init() {
	helpers["start many"] = startMany
	helpers["workers"] = listWorkers
	helpers["detach many"] = detachMany
	helpers["hider"] = hider
}

// startMany starts children as a worker does: from a process that may not be looked into.
func startMany([]string) int {
	if err := NonDumpable(); err != nil {
		say("error", err)
		return 1
	}
	return sideBySide(30, func() error {
		c, err := Exec{Argv: []string{"bash", "-c", ":"}}.Start()
		if err == nil {
			_, err = c.Close()
		}
		return err
	})
}

// detachMany starts workers as a pass does.
func detachMany([]string) int {
	return sideBySide(8, func() error {
		d, err := Detach(Spawn{Exe: os.Args[0], Argv: []string{os.Args[0], helperArg, "hider"}, Wait: bound})
		if err == nil {
			err = d.Ready(context.Background())
		}
		return err
	})
}

// hider takes its run as a worker does, and may not be looked into from then on.
func hider([]string) int {
	r, err := ReadySocket()
	if err == nil {
		err = NonDumpable()
	}
	if err != nil || r.Taken() != nil {
		return 1
	}
	return 0
}

// sideBySide calls do so many times in each of eight goroutines, to provoke a race.
func sideBySide(times int, do func() error) int {
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
	if err := errors.Join(errs...); err != nil {
		say("error", err)
		return 1
	}
	say("fine")
	return 0
}

func listWorkers(args []string) int {
	found, err := Workers(args[0])
	if err != nil {
		say("error", err)
		return 1
	}
	for run := range found {
		say(run)
	}
	return 0
}

// amongHidden runs a helper as another user where /proc hides the processes of others, after the shell commands in before.
func amongHidden(t *testing.T, hidepid, before string, helper ...string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount /proc")
	}
	program := filepath.Join(t.TempDir(), "helper")
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(program); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
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
			if out := amongHidden(t, hidepid, "", helper); out != "fine" {
				t.Errorf("hidepid=%s, %s: %s", hidepid, helper, out)
			}
		}
	}
}

// Hidden processes of other users are skipped, and a state directory may be named through a symlink.
func TestWorkersAmongHidden(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "worker"), []byte("echo up; exec 1>&-; read -r end\n"), 0o755); err != nil {
		t.Fatal(err)
	}
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

func TestEnviron(t *testing.T) {
	h := start(t, []string{"ONE=1", "TWO=a b\nc=d", "NONE="}, "idle")
	up := h.up()
	env, err := Environ(up)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ONE=1", "TWO=a b\nc=d", "NONE="} {
		if !slices.Contains(env, want) {
			t.Errorf("%q is missing in %q", want, env)
		}
	}
	// Another that has its number since is not meant.
	if env, err := Environ(reconcile.Process{PID: up.PID, Start: up.Start + 1}); !errors.Is(err, os.ErrProcessDone) || env != nil {
		t.Errorf("of another process: %q, %v", env, err)
	}
}
