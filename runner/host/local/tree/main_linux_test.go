package tree

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/proc/proctest"
)

func TestMain(m *testing.M) { proctest.Main(m) }

func init() {
	proctest.Helpers["runs"] = runs
	proctest.Helpers["spawn"] = spawn
}

// spawn starts another helper as its child and continues to run, or ends. Its first argument
// lists flags: setsid, clear (an empty environment), keep (the tree descriptor), exit.
func spawn(args []string) error {
	flags := args[0]
	cmd := exec.Command(os.Args[0], append([]string{proctest.HelperArg}, args[1:]...)...)
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	if strings.Contains(flags, "clear") {
		cmd.Env = []string{}
	}
	if strings.Contains(flags, "keep") {
		cmd.ExtraFiles = ExtraFiles(os.NewFile(TreeFD, "tree"))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: strings.Contains(flags, "setsid")}
	if err := proctest.SayUp(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil || strings.Contains(flags, "exit") {
		return err
	}
	select {}
}

// startsWith checks the first bytes that a child writes, which it may do in several parts.
func startsWith(t *testing.T, c *Child, want string) {
	t.Helper()
	got := make([]byte, len(want))
	test.Must(io.ReadFull(c.Stdout(), got))
	test.Equal(t, "output", string(got), want)
}

// wantSaid checks that a text has parts, and that it has not others.
func wantSaid(t *testing.T, text string, parts []string, not ...string) {
	t.Helper()
	test.Contains(t, "the text", text, parts...)
	test.Lacks(t, "the text", text, not...)
}

// wantAllEnded ends the processes of an owner.
func wantAllEnded(t *testing.T, o Owner, grace time.Duration) {
	t.Helper()
	test.Equal(t, "left", pids(test.Must(Kill(t.Context(), o, grace))), nil)
}

func boot(t *testing.T) string {
	t.Helper()
	return test.Must(proc.BootID())
}
