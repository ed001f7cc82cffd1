package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func TestParseStat(t *testing.T) {
	tail := " 5 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3\n"
	threads := strings.Replace(tail, " 20 0 1 0 ", " 20 0 2 0 ", 1)
	for line, want := range map[string]Entry{
		"7 (sh) S 3 1" + tail: {
			PID:     7,
			Group:   1,
			Session: 5,
			Parent:  3,
			Start:   4711,
			Name:    "sh",
		},
		"7 (a) b (c)) R 3 1" + tail: {
			PID:     7,
			Group:   1,
			Session: 5,
			Parent:  3,
			Start:   4711,
			Name:    "a) b (c)",
		},
		"7 (a\nb) Z 9 9) Z 3 1" + tail: {
			PID:     7,
			Group:   1,
			Session: 5,
			Parent:  3,
			Start:   4711,
			Name:    "a\nb) Z 9 9",
			Dead:    true,
		},
		"7 () X 3 1" + tail: {
			PID:     7,
			Group:   1,
			Session: 5,
			Parent:  3,
			Start:   4711,
			Dead:    true,
		},
		"7 (t) Z 3 1" + threads: {
			PID:     7,
			Group:   1,
			Session: 5,
			Parent:  3,
			Start:   4711,
			Name:    "t",
		},
		"7 (ending) R 3 1" + strings.Replace(tail, " 5 ", " -1 ", 1): {
			PID:    7,
			Group:  1,
			Parent: 3,
			Start:  4711,
			Name:   "ending",
		},
	} {
		if got, err := parseStat(line); err != nil || got != want {
			t.Errorf("%q:\n got %+v, %v\nwant %+v", line, got, err, want)
		}
	}
	for _, line := range []string{
		"",
		"7",
		"7 sh S 3",
		"7 (sh",
		"x (sh) S 3 1" + tail,
		"7 (sh) S 3 1 1",
		") (",
		"7 (sh) S x 1" + tail,
	} {
		if e, err := parseStat(line); err == nil {
			t.Errorf("%q: %+v and no error", line, e)
		}
	}
}

func TestSignalNeverReachesAnother(t *testing.T) {
	h := proctest.Start(t, []string{"IDLE_EOF=1"}, "idle")
	p := h.Up()
	self := test.Must(Self())
	test.Equal(t, "self is the same process", SameProcess(self), true)
	for name, q := range map[string]reconcile.Process{
		"another start":  {PID: p.PID, Start: p.Start + 1},
		"no start":       {PID: p.PID},
		"init":           {PID: 1, Start: 1},
		"pid 0":          {PID: 0, Start: 1},
		"a group":        {PID: -p.PID, Start: p.Start},
		"ourselves":      {PID: os.Getpid(), Start: self.Start},
		"beyond the end": {PID: 1 << 30, Start: 5},
	} {
		test.Equal(t, name+": an error is returned", Signal(q, unix.SIGKILL) != nil, true)
	}
	for _, other := range []reconcile.Handle{{
		Boot:  "x",
		PID:   p.PID,
		Start: p.Start,
	}, {
		Boot:  self.Boot,
		PID:   p.PID,
		Start: p.Start + 1,
	}, {
		Boot: self.Boot,
		PID:  p.PID,
	}, {}} {
		test.Equal(t, fmt.Sprintf("%+v is the same", other), SameProcess(other), false)
	}
	h.Stdin.Close() // it ends by itself, which it could not if any of these had hit it
	if err := h.Cmd.Wait(); err != nil {
		t.Errorf("another process was signalled: %v", err)
	}
}

func TestEnviron(t *testing.T) {
	up := proctest.Start(t, []string{"ONE=1", "TWO=a b\nc=d", "NONE="}, "idle").Up()
	test.Equal(
		t,
		"environment",
		test.Must(Environ(up)),
		[]string{"PATH=" + os.Getenv("PATH"), "ONE=1", "TWO=a b\nc=d", "NONE="},
	)
	up.Start++ // another that has its number since is not meant
	test.ErrorIs(t, "of another process", test.Err(Environ(up)), os.ErrProcessDone)
}

func init() {
	// detach many starts workers as a pass does.
	proctest.Helpers["detach many"] = func([]string) error {
		return proctest.SideBySide(8, func() error {
			d, err := Detach(Spawn{
				Exe:  os.Args[0],
				Argv: []string{"", proctest.HelperArg, "worker", "hide"},
				Env:  os.Environ(),
				Wait: test.Patience(),
			})
			if err == nil {
				err = d.Ready(context.Background())
			}
			return err
		})
	}
	proctest.Helpers["workers"] = func(args []string) error {
		found, err := Workers(args[0])
		for run := range found {
			proctest.Say(run)
		}
		return err
	}
}

// With the mount option hidepid, a child is hidden until its exec is over. It must not count
// as ended.
func TestDetachWithHiddenProcesses(t *testing.T) {
	for _, hidepid := range []string{"1", "2"} {
		test.Equal(t, hidepid, proctest.AmongHidden(t, hidepid, "", "detach many"), "")
	}
}

// Hidden processes of other users are skipped, and a state directory may be named through a
// symlink.
func TestWorkersAmongHidden(t *testing.T) {
	dir := t.TempDir()
	test.OK(t, os.Symlink(dir, filepath.Join(dir, "link")))
	test.OK(t, os.WriteFile(filepath.Join(dir, "worker"), []byte("echo up; exec 1>&-; read -r end\n"), 0o755))
	const start = `cd %[1]s && coproc as sh worker --run run-1 --state-dir %[2]s
read -r up <&"${COPROC[0]}"`
	for _, called := range []string{dir, dir + "/link"} {
		test.Equal(
			t,
			called,
			proctest.AmongHidden(t, "1", fmt.Sprintf(start, dir, called), "workers", dir),
			"run-1",
		)
	}
	test.Equal(
		t,
		"of another directory",
		proctest.AmongHidden(t, "1", fmt.Sprintf(start, dir, dir), "workers", filepath.Dir(dir)),
		"",
	)
}
