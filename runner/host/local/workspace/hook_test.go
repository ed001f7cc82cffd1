package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

func runHook(ctx context.Context, t *testing.T, w *Workspace, script string) (string, error) {
	t.Helper()
	request := host.HookRequest{
		Name:    "before_run",
		Where:   "WORKFLOW.md:7",
		Script:  script,
		Timeout: test.Patience(),
		Env:     []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GREETING=hello"},
	}
	return RunHook(ctx, Hook{HookRequest: request, Files: []*os.File{w.Lease()}}, w)
}

// A hook inherits the lease and no descriptors of the program that has started the pass.
func TestHookDescriptors(t *testing.T) {
	w := acquire(t, newRoot(t), owner("A", "r1"))
	const inherited = 100
	test.OK(t, unix.Dup2(2, inherited))
	defer syscall.Close(inherited)
	log, err := runHook(t.Context(), t, w, "test -e /proc/self/fd/3; ! test -e /proc/self/fd/100")
	if err != nil {
		t.Errorf("%v: %s", err, log)
	}
}

func TestHookRunsInTheWorkspace(t *testing.T) {
	t.Setenv("LINEAR_API_KEY", "lin_secret")
	w := acquire(t, newRoot(t), owner("A", "r1"))
	log, err := runHook(t.Context(), t, w, `
		echo "$GREETING from $(pwd -P)"; echo to stderr >&2
		test "$SYMPHONY_WORKSPACE" = "$(pwd -P)" && echo x >"$TMPDIR/t" && echo x >"$XDG_CACHE_HOME/c"
		echo "key:${LINEAR_API_KEY-none}"; test -e /proc/self/fd/3 && echo lease`)
	test.OK(t, err)
	test.Contains(
		t,
		"the log",
		log,
		"hello from "+w.Path+"\n",
		"to stderr\n",
		"key:none\n",
		"lease\n",
		"succeeded",
	)
	wantExist(t, true, filepath.Join(w.Hooks.Tmp, "t"), filepath.Join(w.Hooks.Cache, "c"))
}

func TestHookFailureTellsPlaceStatusAndReason(t *testing.T) {
	w := acquire(t, newRoot(t), owner("A", "r1"))
	for script, want := range map[string]string{
		"echo first; echo the reason >&2; echo; exit 3": "before_run (WORKFLOW.md:7): exit status 3: the reason",
		"echo fatal: the cause; echo and advice; exit 3": "before_run (WORKFLOW.md:7): exit status 3: " +
			"fatal: the cause",
		"exit 4":                         "before_run (WORKFLOW.md:7): exit status 4",
		"kill -9 $$":                     "before_run (WORKFLOW.md:7): signal: killed",
		"printf 'bad \\377 end'; exit 1": "before_run (WORKFLOW.md:7): exit status 1: bad \uFFFD end",
		"head -c 500 /dev/zero | tr '\\0' x; false": "before_run (WORKFLOW.md:7): exit " +
			"status 1: " + strings.Repeat("x", 200) + "…",
	} {
		log, err := runHook(t.Context(), t, w, script)
		wantCode(t, err, CodeHookFailed)
		test.Equal(t, script, strings.TrimPrefix(err.Error(), CodeHookFailed+": "), want)
		test.Contains(t, "the log", log, want)
	}
}

func TestHookEndsWithItsContext(t *testing.T) {
	w := acquire(t, newRoot(t), owner("A", "r1"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- test.Err(runHook(ctx, t, w, "sleep 1000 & echo $! >c; mv c child; wait"))
	}()
	test.Until(t, "the hook's child", func() bool { return test.Exists(t, filepath.Join(w.Path, "child")) })
	cancel()
	err := <-ended
	test.Equal(t, "the end of the hook", isCode(err, CodeHookFailed), false)
	test.ErrorIs(t, "the end of the hook", err, context.Canceled)
	waitGone(t, filepath.Join(w.Path, "child"))
}

// waitGone waits for the end of the process whose pid is in the file.
func waitGone(t *testing.T, file string) {
	t.Helper()
	pid := readPID(t, file)
	test.Until(t, "the end of a child", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) ||
			err == nil && strings.Contains(string(b), ") Z ") // not reaped by this machine's init yet
	})
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	b := test.Must(os.ReadFile(file))
	return test.Must(strconv.Atoi(strings.TrimSpace(string(b))))
}

// A child in the background keeps stdout open and continues to write. The hook ends anyway,
// and the child is neither blocked nor killed by SIGPIPE.
func TestHookIsOverWhenItsShellExits(t *testing.T) {
	w := acquire(t, newRoot(t), owner("A", "r1"))
	log, err := runHook(t.Context(), t, w, `
		{ echo $$; while test ! -e stop; do echo noise noise noise noise noise noise || exit; done; touch over; } &
		echo $! >child; echo last words`)
	test.OK(t, err)
	if !strings.Contains(log, "last words\n") && !strings.Contains(log, "left out") {
		t.Errorf("output lost:\n%.500s", log)
	}
	pid := readPID(t, filepath.Join(w.Path, "child"))
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	test.OK(t, syscall.Kill(pid, 0))
	test.Write(t, filepath.Join(w.Path, "stop"), "")
	test.Until(
		t,
		"the child to end by itself",
		func() bool { return test.Exists(t, filepath.Join(w.Path, "over")) },
	)
}

func TestHookOutputIsBounded(t *testing.T) {
	w := acquire(t, newRoot(t), owner("A", "r1"))
	log, err := runHook(t.Context(), t, w, "yes flood | head -c 50000000; echo the end; exit 7")
	wantCode(t, err, CodeHookFailed)
	if len(log) > hookOutput+500 || !strings.Contains(log, "the end\n--- before_run: ") {
		t.Errorf("%d bytes, ending %q", len(log), log[max(0, len(log)-200):])
	}
	if want := regexp.MustCompile(`--- the first \d{8} bytes of output are left out\nflood\n`); !want.MatchString(
		log,
	) {
		t.Errorf("no note %q: %.200s", want, log)
	}
}

func TestHookIsNotRunOutsideTheWorkspace(t *testing.T) {
	outside := t.TempDir()
	w := acquire(t, newRoot(t), owner("A", "r1"))
	test.OK(t, os.Remove(w.Path))
	test.OK(t, os.Symlink(outside, w.Path))
	wantCode(t, test.Err(runHook(t.Context(), t, w, "touch here")), CodeInvalidCwd)
	wantExist(t, false, filepath.Join(outside, "here"))
}
