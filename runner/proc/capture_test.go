package proc

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// killNumber ends the process that a shell has started and named.
func killNumber(t *testing.T, said string) {
	t.Helper()
	pid := test.Must(strconv.Atoi(strings.TrimSpace(said)))
	test.OK(t, syscall.Kill(pid, syscall.SIGKILL))
}

// A process that a program leaves behind holds its streams open. What the program has written is returned
// at once.
func TestOutput(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $!; echo said >&2; exit 3")
	stdout, stderr, err := Output(cmd)
	test.Equal(t, "its exit code", cmd.ProcessState.ExitCode(), 3)
	test.Contains(t, "its error", err.Error(), "exit status 3")
	test.Equal(t, "what it said", stderr, "said\n")
	killNumber(t, stdout)
}

// The content of the pipe when the shell ends belongs to the output, even if it is read late.
func TestCaptureTakesUnreadOutput(t *testing.T) {
	out, in, err := os.Pipe()
	test.OK(t, err)
	defer in.Close()
	tail := &text.Tail{Limit: 10}
	c := &Capture{In: in, out: out, to: tail, done: make(chan struct{})}
	close(c.done) // the reader, stopped before it read anything
	test.OK(t, test.Err(in.WriteString("the first words\nthe last")))
	c.Finish()
	kept, lost := tail.Text()
	test.Equal(t, "the end, and the bytes before it", []any{string(kept), lost}, []any{"the last", int64(16)})
}

// All of an answer arrives, also where a process is left behind and nobody has read it in time.
func TestLateReader(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 600 & echo $! >&2; head -c 60000 /dev/zero")
	var answer, said bytes.Buffer
	cmd.Stdout = &answer
	cmd.Stderr = &said
	cmd.WaitDelay = time.Nanosecond
	test.OK(t, RunWithin(cmd, 0))
	test.Equal(t, "bytes of the answer", answer.Len(), 60000)
	killNumber(t, said.String())
}

// Where an answer is too long, the program ends.
func TestRefusedAnswer(t *testing.T) {
	out, in := io.Pipe()
	test.OK(t, out.Close())
	cmd := exec.Command("yes")
	cmd.Stdout = in
	test.Contains(t, "its error", RunWithin(cmd, 0).Error(), "signal: broken pipe")
}
