package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/symphony-cron/symphony/reconcile"
)

// AskLine reads one line from the terminal. A secret is not echoed. The end of ctx ends the wait.
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
	type answer struct {
		line string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		if secret {
			line, err := term.ReadPassword(fd)
			done <- answer{string(line), err}
			return
		}
		line, err := w.Lines().ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil // an empty answer, or a last line without an end
		}
		done <- answer{line, err}
	}()
	select {
	case a := <-done:
		if secret {
			fmt.Fprintln(w.Stderr)
		}
		return strings.TrimSuffix(a.line, "\n"), a.err
	case <-ctx.Done():
		fmt.Fprintln(w.Stderr)
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// Confirm asks a yes or no question on the terminal. Without a terminal it is an error: the command then needs --yes.
func Confirm(ctx context.Context, w *Env, prompt string) (bool, error) {
	if !w.OnTerminal() {
		return false, &reconcile.Error{
			Code: "not_a_terminal", Message: "the command asks before it goes on, and stdin is no terminal", Hint: "give --yes to go on without the question",
		}
	}
	answer, err := AskLine(ctx, w, prompt, false)
	if err != nil {
		return false, err
	}
	if yes := strings.ToLower(strings.TrimSpace(answer)); yes != "y" && yes != "yes" {
		fmt.Fprintln(w.Stderr, "symphony: nothing was changed")
		return false, nil
	}
	return true, nil
}
