package wiring

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/state"
)

// ThisMachine returns this machine, for files that belong to no run: workspace roots and
// directories.
func ThisMachine() host.Local { return NewMachine("") }

// NewMachine returns this machine for passes and commands. Workers use NewWorkersMachine.
func NewMachine(stateDir string) host.Local {
	return local.Machine{StateDir: stateDir, PrepareHome: prepareHome}
}

// NewWorkersMachine returns the machine of a worker. accountDir contains the locks that all
// projects of the account share. The worker shares a login shell with the other workers that
// got logins; nil if there are none.
func NewWorkersMachine(w *environ.Env, stateDir, accountDir string, logins *os.File) host.Machine {
	return local.Machine{
		StateDir:    stateDir,
		AccountDir:  accountDir,
		Projects:    lockedPlaces(w),
		Logins:      logins,
		PrepareHome: prepareHome,
		Scopes:      &proc.ScopeManager{Env: w.Environ},
	}
}

// trialMachine returns this machine for a trial of doctor, which starts agents as workers do.
func trialMachine(w *environ.Env) host.Machine {
	return local.Machine{PrepareHome: prepareHome, Scopes: &proc.ScopeManager{Env: w.Environ}}
}

// NewServedMachine returns this machine for a run whose worker is on another machine.
func NewServedMachine(w *environ.Env, stateDir string) host.Local {
	return local.Machine{
		StateDir:    stateDir,
		AccountDir:  stateDir,
		Projects:    lockedPlaces(w),
		PrepareHome: prepareHome,
		Account:     host.Account{Home: w.Home, StateDir: stateDir, Env: host.Scrub(w.Environ)},
	}
}

// lockedPlaces returns a function that lists the state directories and workspace roots of all
// projects of the account. It leaves out the projects that can't be read.
func lockedPlaces(w *environ.Env) func(context.Context) (stateDirs, roots []string) {
	return func(ctx context.Context) (stateDirs, roots []string) {
		stateDirs, _ = StateDirs(w)
		stateDirs = append(stateDirs, AgentsDir(w))
		for _, dir := range stateDirs {
			known, _ := storedFiles(ctx, dir)
			roots = append(roots, known.roots...)
		}
		return stateDirs, roots
	}
}

// NewCommands returns the port by which commands of the operator are started on this machine.
func NewCommands() host.Commands { return local.Machine{} }

// NewMirrors returns the mirrors on this machine through which a run clones and delivers on
// another machine.
func NewMirrors(stateDir, runID string) host.Mirrors {
	return local.Mirrors{Dir: mirrorsDir(stateDir), RunID: host.HereID(runID)}
}

// WithMirror calls use with the mirror of the project's repository, as its workers use it, for a
// pass. The login profile of the account may name an ssh agent or a credential helper; what it
// leaves in the background ends with use.
func WithMirror(
	ctx context.Context,
	p *Project,
	cfg *workflow.Config,
	use func(host.Merges) error,
) (err error) {
	id := "pass-" + NewRunID(p.Env.Now())
	config := RunnerConfig(p, cfg)
	run := ThisMachine().Run(id) // marks the processes
	defer func() {
		_, killErr := run.Kill(context.WithoutCancel(ctx), host.KillRequest{})
		err = errors.Join(err, killErr)
	}()
	profile, err := run.Login(ctx, host.LoginRequest{
		Env:     append(config.HookEnv(p.Environ()), host.RunMark+"="+id),
		Timeout: loginTimeout,
	})
	if err != nil {
		return err
	}
	mirrors := local.Mirrors{Dir: mirrorsDir(p.StateDir), RunID: id}
	if len(cfg.Policy.Hosts) == 0 {
		mirrors.Dir, err = local.MirrorsOf(paths.Real(cfg.Workspace.Root))
		if err != nil {
			return err
		}
	}
	return use(mirrors.Mirror(config.Repository.Repository, config.GitEnv(p.Environ(), profile)))
}

// loginTimeout bounds a login shell for a pass.
const loginTimeout = 20 * time.Second

// mirrorsDir is the directory of the mirrors on this machine for runs on others.
func mirrorsDir(stateDir string) string { return filepath.Join(stateDir, "mirrors") }

// KeptHere returns the undelivered commits of an issue's work on other machines that this
// machine keeps. db is nil before the first pass.
func KeptHere(ctx context.Context, p *Project, db *state.DB, issueID string) ([]host.Kept, error) {
	var last reconcile.Delivered
	if db != nil {
		var err error
		last, _, err = db.Delivered(ctx, issueID)
		if err != nil {
			return nil, err
		}
	}
	mirrors := local.Mirrors{Dir: mirrorsDir(p.StateDir)}
	return mirrors.Unsaved(ctx, issueID, last.Commit, GitEnv(p))
}

// ForgetKept keeps the commits of an issue no longer.
func ForgetKept(ctx context.Context, p *Project, issueID string) error {
	return local.Mirrors{Dir: mirrorsDir(p.StateDir)}.Forget(ctx, issueID, GitEnv(p))
}

// GitEnv is the environment of git that reads a mirror on this machine, and no remote. It
// contains no secrets.
func GitEnv(p *Project) []string {
	return text.Filter(p.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "PATH=") || strings.HasPrefix(entry, "HOME=")
	})
}
