package proc

import (
	"os"
	"os/exec"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// A process that a program leaves behind holds its streams open. What the program has written is returned
// at once.
func TestOutput(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; echo said >&2; exit 3")
	stdout, stderr, err := Output(cmd)
	test.Equal(t, "its exit code", cmd.ProcessState.ExitCode(), 3)
	test.Contains(t, "its error", err.Error(), "exit status 3")
	test.Equal(t, "what it said", stderr, "said\n")
	test.OK(t, exec.Command("kill", stdout[:len(stdout)-1]).Run())
}

// The content of the pipe when the shell ends belongs to the output, even if it is read late.
func TestCaptureTakesUnreadOutput(t *testing.T) {
	out, in, err := os.Pipe()
	test.OK(t, err)
	defer in.Close()
	c := &Capture{In: in, out: out, tail: text.Tail{Limit: 10}, done: make(chan struct{})}
	close(c.done) // the reader, stopped before it read anything
	test.OK(t, test.Err(in.WriteString("the first words\nthe last")))
	kept, lost := c.Finish()
	test.Equal(t, "the end, and the bytes before it", []any{string(kept), lost}, []any{"the last", int64(16)})
}
