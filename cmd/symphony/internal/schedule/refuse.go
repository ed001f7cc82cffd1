package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// refused says why install would write nothing, the first reason of them.
func (s *scheduled) refused(ctx context.Context, o Options, patience time.Duration) error {
	if err := errors.Join(s.caller.Nested(), s.temporary()); err != nil {
		return err
	}
	if o.Cron {
		return cronMissing(s.caller.Env)
	}
	return s.systemdMissing(ctx, patience)
}

// builtByGo finds the folders where `go run` puts its programs.
var builtByGo = `(^|/)go-build[0-9]*/|/[0-9a-f]{2}/[0-9a-f]{64}-d/`

// temporary refuses a program that will be gone.
func (s *scheduled) temporary() error {
	path, why := project.Resolve(s.program), ""
	for _, dir := range []string{cmp.Or(s.caller.Env.Getenv("TMPDIR"), "/tmp"), "/tmp", "/var/tmp", "/dev/shm"} {
		if text.PathInside(project.Resolve(dir), path) {
			why = "lies below " + dir
		}
	}
	if regexp.MustCompile(builtByGo).MatchString(path) {
		why = "was made by go run"
	}
	if s.program != "" && why == "" {
		return nil
	}
	if s.program == "" {
		path, why = "the program", "can't be found any more"
	}
	return &reconcile.Error{
		Code: "temporary_program", Message: fmt.Sprintf("%s %s: a schedule needs a program that stays", path, why),
		Hint: "copy it to its place, ~/bin/symphony for instance, and install the schedule with that",
	}
}

// systemdMissing says why systemd can't run the passes.
func (s *scheduled) systemdMissing(ctx context.Context, patience time.Duration) error {
	standing := proc.ReadHostUnit(s.caller.Env.Environ)
	switch {
	case !standing.Booted:
		return &reconcile.Error{Code: "no_scheduler", Message: "no systemd runs this machine", Hint: "symphony schedule install --cron, or keep symphony tick --loop running"}
	case s.system && os.Geteuid() != 0:
		return s.needsRoot("install --system --run-as " + term.ShellQuote(s.who.name))
	case s.system:
		return nil
	case !lingers(s.who.name):
		return &reconcile.Error{
			Code: "no_linger", Message: fmt.Sprintf("%s does not linger: a timer of yours would stop at your last logout, and begin at a login only", s.who.name),
			Hint: "loginctl enable-linger " + term.ShellQuote(s.who.name) + ", then again; or --system, or --cron",
		}
	case !s.managerComes(ctx, patience):
		return &reconcile.Error{
			Code: "no_scheduler", Message: fmt.Sprintf("no systemd of %s's is to be reached at %s", s.who.name, runtimeDir(s.caller.Env)),
			Hint: fmt.Sprintf("sudo systemctl start user@%d.service; or --system, or --cron", s.who.uid),
		}
	}
	return nil
}

// managerPatience is for a systemd of the user that enable-linger has only just started.
const managerPatience = 10 * time.Second

func (s *scheduled) managerComes(ctx context.Context, patience time.Duration) bool {
	w := s.caller.Env
	for end := w.Now().Add(patience); ; {
		if proc.ReadHostUnit(w.Environ).Manager {
			return true
		}
		if !w.Now().Before(end) || !project.Sleep(ctx, project.WaitStep) {
			return false
		}
	}
}

// lingerDir is where logind notes whose manager runs without a login.
const lingerDir = "/var/lib/systemd/linger"

func lingers(name string) bool { return project.Exists(filepath.Join(lingerDir, name)) }

// needsRoot names the same command with sudo.
func (s *scheduled) needsRoot(arguments string) error {
	line := "sudo "
	for _, v := range s.carried {
		if !strings.HasPrefix(v, "HOME=") { // that of the account is taken
			line += term.ShellQuote(v) + " "
		}
	}
	line += term.ShellQuote(s.program) + " schedule " + arguments
	if s.stateDir != "" {
		line += " --state-dir " + term.ShellQuote(s.stateDir)
	}
	return needsRoot(line + " -w " + term.ShellQuote(s.p.Path))
}

func needsRoot(line string) error {
	return &reconcile.Error{Code: "needs_root", Message: "only root can change the units of the system", Hint: line}
}
