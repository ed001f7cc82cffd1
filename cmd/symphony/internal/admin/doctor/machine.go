package doctor

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/obstacle"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/runner/workers"
	"golang.org/x/sys/unix"
)

// checkProgram finds a program and its version. missing is the consequence if there is none.
func (e *environment) checkProgram(ctx context.Context, name, missing string) []finding {
	path, err := e.program(ctx, name)
	if err != nil {
		return failWith(err)
	}
	if path == "" {
		return warn("not found: "+missing, e.hintForProgram(ctx, name))
	}
	const failed = "failed: "
	version, err := e.shell(
		ctx,
		"said=$("+name+" --version) || said='"+failed+"'$("+name+" --version 2>&1 | tail -n 1); head -n 1 <<< \"$said\"",
	)
	if err != nil {
		return failWith(err)
	}
	said, isFailed := strings.CutPrefix(version, failed)
	switch {
	case isFailed && said != "": // such as git, whose settings are damaged
		return warn(path+" does not work: "+text.Visible(said), "correct what it names, and try "+path+" --version")
	case isFailed, version == "":
		return warn(path+" does not print its version", "run it yourself: "+path+" --version")
	}
	return ok("%s, %s", path, version)
}

// checkRoot checks the workspace root.
func checkRoot(ctx context.Context, e *environment) (list []finding) {
	root := paths.Real(e.config.Workspace.Root)
	if err := wiring.CheckRoot(ctx, e.p, e.config); err != nil {
		return failWith(err)
	}
	machine := wiring.ThisMachine()
	if wiring.Exists(root) && unix.Access(root, unix.W_OK|unix.X_OK) != nil {
		return fail(root+" can't be written by this account", "chmod u+rwx "+text.ShellQuote(root)+
			", if it belongs to this account, or set workspace.root to another directory")
	}
	free, err := machine.FreeBytes(ctx, root)
	if err != nil {
		return warn("the free space of "+root+" can't be read", "see what df says about it")
	}
	least := e.config.Policy.MinFreeBytes
	if free < least {
		low := obstacle.NewDiskLow(reconcile.DiskLowText(root, free, least)).Words(e.p.Env.Now())
		list = append(list, fail(low.Text, low.PlainStep())...)
	}
	temporary := wiring.TemporaryAbove(root, e.p.Env)
	if temporary != "" {
		list = append(list, warn(
			root+" is below "+temporary+", which the system may clear: work that is not pushed would be lost",
			"set workspace.root to a directory on a local disk, such as ~/symphony",
		)...)
	}
	if list != nil {
		return list
	}
	if !wiring.Exists(root) {
		return ok("%s, which the first pass creates; %s free", root, text.BytesText(free))
	}
	return ok("%s, %s free", root, text.BytesText(free))
}

// checkLoginShell reports how long a login shell takes.
func checkLoginShell(_ context.Context, e *environment) []finding {
	login := e.login()
	if login.err != nil {
		return failWith(login.err)
	}
	if login.took > patience(slowLogin) {
		return warn(
			fmt.Sprintf("bash -lc true takes %.1f s, and each run waits for it", login.took.Seconds()),
			"see which command of the login profile is slow with bash -xlc true",
		)
	}
	if login.took > slowLogin {
		return ok("ends after %.1f s, on a busy machine", login.took.Seconds())
	}
	return ok("ends within two seconds")
}

// checkWorkers checks whether a worker that is started here outlives its pass.
func checkWorkers(ctx context.Context, e *environment) []finding {
	runners := &workers.Local{
		StateDir: e.p.StateDir,
		Scopes:   &proc.ScopeManager{Env: e.p.Env.Environ},
	}
	if err := runners.Shelter(ctx); err != nil {
		return failWith(err)
	}
	unit := proc.ReadHostUnit(e.p.Env.Environ)
	if unit.Booted && unit.Manager && !unit.Root && !unit.Lingers {
		return warn(
			"your user does not linger: your timers and the workers that they start end with your last logout",
			"loginctl enable-linger",
		)
	}
	return ok("outlive their pass")
}

// checkAccount warns about root, whose agents can read every file of the machine.
func checkAccount(_ context.Context, e *environment) []finding {
	if os.Geteuid() != 0 || e.as != asCalled {
		return nil
	}
	return warn(
		"symphony runs as root: its agents can read the files of all accounts, and what leaves the "+
			"sandbox can change them",
		"run symphony under an account of its own",
	)
}
