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
const NoDisplay = "there is no display to open it on; set BROWSER to use a browser for terminals"

// OpenPage shows a page in the operator's web browser and waits for the program that opens it.
// It returns false where there is no display. The program is $BROWSER, which may have
// arguments, else the system's; with terminal it may use the terminal.
func (w *Env) OpenPage(ctx context.Context, address string, terminal bool) (opened bool, err error) {
	program := strings.Fields(w.Getenv("BROWSER"))
	switch {
	case len(program) > 0:
	case runtime.GOOS == "darwin":
		program = []string{"open"}
	case w.Getenv("DISPLAY") == "" && w.Getenv("WAYLAND_DISPLAY") == "":
		return false, nil
	default:
		program = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(ctx, program[0], append(program[1:], address)...)
	cmd.Dir = w.Dir
	cmd.Env = w.Environ
	if terminal {
		cmd.Stdin = w.Stdin
		cmd.Stdout = w.Stdout
		cmd.Stderr = w.Stderr
	} else { // Ctrl-C in the terminal is not meant for the browser
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	if err := cmd.Run(); err != nil {
		return false, reconcile.NewError(
			"browser_failed",
			fmt.Sprintf("the page could not be opened with %s: %v", program[0], err),
			"open the address yourself, or set BROWSER to an installed program",
		).WithCause(err)
	}
	return true, nil
}
