package term

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/symphony-cron/symphony/reconcile"
)

// NoDisplay is the message of OpenPage without a display.
const NoDisplay = "there is no display; set BROWSER to use a browser for terminals"

// OpenPage shows a page in the operator's web browser, which may be one for terminals. It waits
// for the program that opens the page, and returns false where there is no display.
func (w *Env) OpenPage(ctx context.Context, address string) (opened bool, err error) {
	cmd := w.browser(ctx, address)
	if cmd == nil {
		return false, nil
	}
	cmd.Stdin = w.Stdin
	cmd.Stdout = w.Stdout
	cmd.Stderr = w.Stderr
	return showPage(cmd)
}

// OpenPageBeside is OpenPage for a program that uses the terminal itself. Ctrl-C there is not
// meant for the browser.
func (w *Env) OpenPageBeside(ctx context.Context, address string) (opened bool, err error) {
	cmd := w.browser(ctx, address)
	if cmd == nil {
		return false, nil
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return showPage(cmd)
}

// browser returns the command that opens a page: $BROWSER, which may have arguments, else the
// system's. It is nil where there is no display.
func (w *Env) browser(ctx context.Context, address string) *exec.Cmd {
	program := strings.Fields(w.Getenv("BROWSER"))
	switch {
	case len(program) > 0:
	case runtime.GOOS == "darwin":
		program = []string{"open"}
	case w.Getenv("DISPLAY") == "" && w.Getenv("WAYLAND_DISPLAY") == "":
		return nil
	default:
		program = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(ctx, program[0], append(program[1:], address)...)
	cmd.Dir = w.Dir
	cmd.Env = w.Environ
	return cmd
}

func showPage(cmd *exec.Cmd) (opened bool, err error) {
	if err := cmd.Run(); err != nil {
		return false, reconcile.NewError(
			"failed",
			fmt.Sprintf("the page could not be opened with %s: %v", cmd.Args[0], err),
			"open the address yourself, or set BROWSER to an installed program",
		).WithCause(err)
	}
	return true, nil
}
