//go:build linux

package term

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/test"
)

// onPrompt calls a function before anything is printed, as the eyes and hands of a quick
// operator.
type onPrompt func()

// Write implements io.Writer.
func (see onPrompt) Write(p []byte) (int, error) {
	if strings.HasSuffix(string(p), ": ") {
		see()
	}
	return len(p), nil
}

// newTerminal opens a pseudo-terminal, if the machine has some.
func newTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("the machine has no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	test.OK(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n := test.Must(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))
	slave = test.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// Whatever an agent did with the terminal before a signal ended it, the end of the command puts it back.
func TestTerminalIsPutBack(t *testing.T) {
	_, slave := newTerminal(t)
	w := &Env{Stdin: slave}
	before := test.Must(unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS))
	restore := w.KeepTerminal()
	raw := *before
	raw.Lflag &^= unix.ECHO | unix.ICANON
	test.OK(t, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, &raw))
	restore()
	test.Equal(t, "the modes", *test.Must(unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)), *before)
	(&Env{Stdin: strings.NewReader("")}).KeepTerminal()()
}

// What is typed at the moment of the prompt is echoed only if it is no secret. Afterwards, and
// after an interrupt, there is an echo.
func TestSecretIsNotEchoed(t *testing.T) {
	master, slave := newTerminal(t)
	typed := func(text string) { test.Must(master.WriteString(text)) }
	lines := make(chan string, 100)
	go func() {
		for shown := bufio.NewScanner(master); shown.Scan(); {
			lines <- shown.Text()
		}
	}()
	shown := func() (line string) {
		select {
		case line = <-lines:
		case <-time.After(test.Patience()):
			t.Fatal("the terminal shows nothing more")
		}
		return line
	}

	w := &Env{Stdin: slave}
	for _, c := range []struct {
		typed, want string
		secret      bool
	}{
		{"an answer\n", "an answer", false},
		{"hunter2\n", "hunter2", true},
		{"wrogn\x7f\x7fng\n", "wrong", true}, // the line can be corrected
		{"\x04", "", true},                   // Ctrl-D
		{"another\n", "another", false},
	} {
		w.Stderr = onPrompt(func() {
			modes := test.Must(unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS))
			test.Equal(t, "no echo at the prompt", modes.Lflag&unix.ECHO == 0, c.secret)
			typed(c.typed)
		})
		ctx, cancel := context.WithTimeout(t.Context(), test.Patience())
		ask := AskLine
		if c.secret {
			ask = AskSecret
		}
		got, err := ask(ctx, w, "Key: ")
		cancel()
		test.OK(t, err)
		test.Equal(t, "the answer", got, c.want)
		test.Must(slave.WriteString("after it\n"))
		if !c.secret {
			test.Equal(t, "what the terminal shows of the answer", shown(), c.want)
		}
		test.Equal(t, "what the terminal shows next", shown(), "after it")
	}

	for range 20 {
		w = &Env{Stdin: slave}
		ctx, interrupt := context.WithCancel(t.Context())
		w.Stderr = onPrompt(interrupt)
		_, err := AskSecret(ctx, w, "Key: ")
		test.ErrorIs(t, "an interrupt", err, context.Canceled)
		typed("visible\n") // which ends the read
		test.Equal(t, "what the terminal shows after an interrupt", shown(), "visible")
	}
}
