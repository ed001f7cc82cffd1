package tree

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func script(text string, args ...string) host.StartRequest {
	return host.StartRequest{
		Argv: append([]string{"sh", "-c", text, "sh"}, args...),
		Env:  os.Environ(),
		Dir:  "/",
	}
}

func TestRunReturnsWhatWasWritten(t *testing.T) {
	out, err := Run(t.Context(), script(`cat; pwd; echo "$1" >&2; exit 7`, "wrong"), []byte("asked "), 1<<10)
	test.Equal(
		t,
		"error, output and exit code",
		[]any{
			err,
			string(out.Stdout),
			string(out.Stderr),
			out.Exit.Code,
		},
		[]any{nil, "asked /\n", "wrong\n", 7},
	)
	// A program need not read its input, however much that is.
	out, err = Run(t.Context(), script("echo done"), make([]byte, 1<<20), 1<<10)
	test.Equal(t, "error and output", []any{err, string(out.Stdout)}, []any{nil, "done\n"})
	out, err = Run(t.Context(), script("kill -9 $$"), nil, 1<<10)
	if err != nil || out.Exit.Code >= 0 || out.Exit.Text != "signal: killed" {
		t.Errorf("%+v, %v", out.Exit, err)
	}
}

// wantEnded checks that the processes whose pids are in a file have ended.
func wantEnded(t *testing.T, file string) {
	t.Helper()
	pids := strings.Fields(string(test.Must(os.ReadFile(file))))
	test.Equal(t, "a process was started", len(pids) > 0, true)
	for _, pid := range pids {
		if e, err := proc.Stat(test.Must(strconv.Atoi(pid))); err == nil && !e.Dead {
			t.Errorf("process %s is left", pid)
		}
	}
}

// Neither a child that keeps the output open nor one in another session is left or waited for.
func TestRunLeavesNoProcess(t *testing.T) {
	for name, text := range map[string]string{
		"in the background": `sleep 1000 & echo $! > "$1"; echo out`,
		"in another session": `setsid sh -c 'echo $$ > "$1"; ` +
			`exec sleep 1000' sh "$1" & until [ -s "$1" ]; do :; done; echo out`,
		"deaf": `sh -c 'trap "" TERM; echo $$ > "$1"; while :; do sleep 1000; ` +
			`done' sh "$1" & until [ -s "$1" ]; do :; done; echo out`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			out, err := Run(t.Context(), script(text, file), nil, 1<<10)
			test.Equal(
				t,
				"error, output and exit code",
				[]any{err, string(out.Stdout), out.Exit.Code},
				[]any{nil, "out\n", 0},
			)
			wantEnded(t, file)
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		text := `trap "" TERM; sleep 1000 & echo $$ $! > "$1"; while :; do sleep 1000; done`
		ended <- test.Err(Run(ctx, script(text, file), nil, 1<<10))
	}()
	test.Until(t, "the processes to start", func() bool {
		info, err := os.Stat(file)
		return err == nil && info.Size() > 0
	})
	cancel()
	test.ErrorIs(t, "the end", <-ended, context.Canceled)
	wantEnded(t, file)
}

func TestRunBoundsTheOutput(t *testing.T) {
	out, err := Run(t.Context(), script("yes"), nil, 1<<10)
	test.Equal(t, "error and bytes of output", []any{err, len(out.Stdout)}, []any{nil, 1<<10 + 1})
}

func TestRunOfNoProgram(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	test.OK(t, os.WriteFile(plain, []byte("echo no"), 0o644))
	for program, want := range map[string]error{
		"no-such-program-here": exec.ErrNotFound,
		"/nowhere/at/all":      fs.ErrNotExist,
		plain:                  fs.ErrPermission,
	} {
		test.ErrorIs(t, program, test.Err(Run(t.Context(), host.StartRequest{
			Argv: []string{program},
			Env:  os.Environ(),
		}, nil, 1)), want)
	}
}

// runs is a helper that runs a program without end, which writes its pid to a file.
func runs(args []string) error {
	_, err := Run(context.Background(), script(`echo $$ > "$1"; exec sleep 1000`, args[0]), nil, 1<<10)
	return err
}

func TestRunEndsWithItsCaller(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	caller := exec.Command(test.Must(os.Executable()), proctest.HelperArg, "runs", file)
	test.OK(t, caller.Start())
	pid := 0
	test.Until(t, "the program to start", func() bool {
		data, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
		return pid != 0
	})
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	test.OK(t, caller.Process.Kill())
	_ = caller.Wait()
	test.Until(t, "the end of the program", func() bool {
		e, err := proc.Stat(pid)
		return err != nil || e.Dead
	})
}
