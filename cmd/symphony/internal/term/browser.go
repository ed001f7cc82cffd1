package term

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// OpenPage shows a page in the operator's web browser and waits for the program that opens it. It returns false where there is no
// display. The program is $BROWSER, which may have arguments, else that of the system.
func (w *Env) OpenPage(ctx context.Context, address string) (opened bool, err error) {
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
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.Dir, w.Environ, w.Stdin, w.Stdout, w.Stderr
	if err := cmd.Run(); err != nil {
		return false, &reconcile.Error{
			Code: "browser_failed", Message: fmt.Sprintf("the page could not be opened with %s: %v", program[0], err),
			Hint: "open the address yourself, or set BROWSER to an installed program", Err: err,
		}
	}
	return true, nil
}
