package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/reconcile"
)

// typedLine is a line that was typed at the terminal.
type typedLine struct {
	line  string
	ended bool // the input ended
	err   error
}

var errNoTerminal = errors.New("stdin is not a terminal")

// AskSecret is AskLine for a secret, which is not echoed, from before the prompt is shown.
func AskSecret(ctx context.Context, w *Env, prompt string) (line string, err error) {
	in, ok := w.Stdin.(*os.File)
	if !ok {
		return "", errNoTerminal
	}
	restore, err := hideTyped(int(in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, restore()) }()
	line, err = AskLine(ctx, w, prompt)
	if err == nil && !w.InputEnded {
		fmt.Fprintln(w.Stderr) // the end of the line was not echoed, either
	}
	return line, err
}

// AskLine reads a line from the terminal. The end of ctx ends the wait.
func AskLine(ctx context.Context, w *Env, prompt string) (string, error) {
	if _, ok := w.Stdin.(*os.File); !ok {
		return "", errNoTerminal
	}
	fmt.Fprint(w.Stderr, prompt)
	if w.input == nil { // all questions share a reader, so that no line is lost between two
		w.input = bufio.NewReader(w.Stdin)
	}
	if w.typed == nil { // otherwise the question before was given up, and its line is still to come
		w.typed = make(chan typedLine, 1)
		go func(typed chan<- typedLine) {
			line, err := w.input.ReadString('\n')
			ended := errors.Is(err, io.EOF)
			if ended {
				err = nil // an empty answer, or a last line without an end
			}
			typed <- typedLine{line, ended, err}
		}(w.typed)
	}
	select {
	case r := <-w.typed:
		w.typed = nil
		w.InputEnded = r.ended
		if r.ended {
			fmt.Fprintln(w.Stderr)
		}
		return strings.TrimSuffix(r.line, "\n"), r.err
	case <-ctx.Done():
		fmt.Fprintln(w.Stderr)
		return "", ctx.Err()
	}
}

// Confirm asks a yes or no question on the terminal, and returns nil after a yes. After
// anything else the command ends with exit code 1, so that "symphony prune && next" does not go
// on. Without a terminal the command needs --yes.
func Confirm(ctx context.Context, w *Env, prompt string) error {
	if !w.OnTerminal() {
		stream := "stdin"
		if w.FromTerminal() {
			stream = "stdout"
		}
		return reconcile.NewError(
			"not_a_terminal",
			"the command asks for confirmation, and "+stream+" is not a terminal",
			"give --yes to continue without the question",
		)
	}
	answer, err := AskLine(ctx, w, prompt)
	if err != nil {
		return err
	}
	given := strings.ToLower(strings.TrimSpace(answer))
	if given != "y" && given != "yes" {
		fmt.Fprintln(w.Stderr, "symphony: nothing was changed")
		return exit.Only(exit.Failed)
	}
	return nil
}
