package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// askLine reads one line; of a secret one nothing is echoed. A signal ends the wait.
func AskLine(ctx context.Context, w *Env, prompt string, secret bool) (string, error) {
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return "", errors.New("stdin is no terminal")
	}
	fmt.Fprint(w.Stderr, prompt)
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("terminal: %w", err)
	}
	type read struct {
		line string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		if secret {
			line, err := term.ReadPassword(fd)
			done <- read{string(line), err}
			return
		}
		line, err := w.Lines().ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil // an empty answer, or a last line without an end
		}
		done <- read{line, err}
	}()
	select {
	case r := <-done:
		if secret {
			fmt.Fprintln(w.Stderr)
		}
		return strings.TrimSuffix(r.line, "\n"), r.err
	case <-ctx.Done():
		fmt.Fprintln(w.Stderr)
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}
