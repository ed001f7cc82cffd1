package term

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"

	"github.com/symphony-cron/symphony/reconcile"
)

// Edit opens a file in the operator's editor and waits for its end: $VISUAL, $EDITOR, or else
// the first of editor, vi and nano that is installed.
func (w *Env) Edit(ctx context.Context, path string) error {
	named := cmp.Or(w.Getenv("VISUAL"), w.Getenv("EDITOR"))
	if named == "" && !w.OnTerminal() {
		return reconcile.NewError(
			"not_a_terminal",
			"the editor needs a terminal",
			"run it in one, set EDITOR to a program that needs none, or edit "+path+" yourself",
		)
	}
	editor := cmp.Or(named, installedEditor())
	failed := func(message string, err error) error {
		hint := "set EDITOR to an installed program, or edit " + path + " yourself"
		return &reconcile.Error{Code: "editor_failed", Message: message, Hint: hint, Err: err}
	}
	if editor == "" {
		return failed("there is no editor", nil)
	}
	// It may have arguments, and is not ended by a signal: Ctrl-C belongs to the editor.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", editor+` "$1"`, editor, path)
	cmd.Dir = w.Dir
	cmd.Env = w.Environ
	cmd.Stdin = w.Stdin
	cmd.Stdout = w.Stdout
	cmd.Stderr = w.Stderr
	if err := cmd.Run(); err != nil {
		return failed(fmt.Sprintf("the editor %q ended with an error: %v", editor, err), err)
	}
	return nil
}

// installedEditor returns the first usual editor that is installed; empty if there is none.
func installedEditor() string {
	for _, name := range []string{"editor", "vi", "nano"} {
		_, err := exec.LookPath(name)
		if err == nil {
			return name
		}
	}
	return ""
}
