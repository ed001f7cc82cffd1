// Package schedule shows, installs, inspects and removes the schedule that runs passes: a
// systemd timer, a job of launchd, or a line in the user's crontab.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Options are the flags of schedule.
type Options struct {
	System bool   // units of the whole machine, which need root
	Cron   bool   // a line in the crontab
	RunAs  string // with System: the account that passes run as
}

// Changes lists the changes by an operation, and warnings for the operator.
type Changes struct{ Done, Warnings []string }

func (c *Changes) done(line string) { c.Done = append(c.Done, line) }
func (c *Changes) warn(line string) { c.Warnings = append(c.Warnings, line) }

// Invalid is the error of a workflow that passes could not use. Report names its errors.
type Invalid struct {
	Project *wiring.Project // as the schedule sees it
	Report  wiring.CheckReport
}

func (e *Invalid) Error() string { return e.Project.Path + " is not valid" }

// scheduler is a kind of schedule.
type scheduler interface {
	// text is the text that install writes.
	text() (string, error)
	// refuse returns why this machine can't have such a schedule; nil if it can. It waits up
	// to patience for systemd to start.
	refuse(ctx context.Context, patience time.Duration) error
	install(ctx context.Context) error
	// installed is the text that install wrote, as far as it was read and still exists.
	installed() string
	// options are the options with which install wrote the schedule.
	options() Options
	addStatus(ctx context.Context, out *Status)
	remove(ctx context.Context) error
}

// plan is the command line of a schedule, and the account that runs it.
type plan struct {
	caller   *wiring.Project
	p        *wiring.Project // as the schedule sees it
	account  account
	program  string
	stateDir string   // for --state-dir, empty for the default directory
	vars     []string // NAME=value, passed on to the passes
	every    time.Duration
	changes  *Changes
}

// account is the account that passes run as.
type account struct {
	name, home string
	uid        int
}

// pathVars are the variables that locate symphony's files. A schedule passes on only these:
// any other may contain a secret and belongs in the environment file.
var pathVars = []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME"}

// passedOn are the variables that a schedule passes on.
func passedOn(p *wiring.Project) (vars []string) {
	for _, name := range pathVars {
		value := p.Env.Getenv(name)
		if filepath.IsAbs(value) {
			vars = append(vars, name+"="+value)
		}
	}
	return vars
}

// newPlan reads the workflow as the schedule will see it. The error of an invalid workflow is
// an *Invalid.
func newPlan(p *wiring.Project, o Options) (*plan, scheduler, error) {
	a, err := passAccount(p.Env, o)
	if err != nil {
		return nil, nil, err
	}
	s := &plan{caller: p, account: a, program: wiring.ProgramPath(), changes: &Changes{}}
	known, err := user.LookupId(strconv.Itoa(a.uid))
	if err != nil || known.HomeDir != a.home {
		// systemd and cron would set HOME by the password database, if it knows the account
		s.vars = append(s.vars, "HOME="+a.home)
	}
	s.vars = append(s.vars, passedOn(p)...)
	if p.StateDir != state.DefaultDir(p.Env.Getenv("XDG_STATE_HOME"), p.Env.Home, p.Path) {
		s.stateDir = p.StateDir
	}
	s.p = underSchedule(p, a, s.stateDir, s.vars)
	report, cfg := wiring.CheckResult(s.p)
	if !report.OK {
		return nil, nil, &Invalid{s.p, report}
	}
	s.every = max(cfg.Polling.Interval, time.Second)
	var kind scheduler = newTimer(s, o.System)
	switch {
	case o.Cron:
		kind = cron{plan: s}
		s.every = time.Minute
	case usesLaunchd && !o.System:
		s.every = max(s.every.Truncate(time.Second), shortestLaunchd)
		kind = newLaunchd(s)
	}
	for _, word := range append(s.command(wiring.TriggerCron), s.vars...) {
		if !utf8.ValidString(word) || strings.ContainsFunc(word, text.Control) {
			return nil, nil, failed(
				"rename it",
				"%q contains characters that a unit or a crontab can't contain",
				word,
			)
		}
	}
	return s, kind, nil
}

func failed(hint, format string, args ...any) error {
	return reconcile.NewError("schedule_failed", fmt.Sprintf(format, args...), hint)
}

// passAccount returns the account that passes run as. With --system under sudo it is the account
// of the user who called sudo, not root.
func passAccount(w *environ.Env, o Options) (account, error) {
	name := o.RunAs
	if name == "" && o.System && os.Geteuid() == 0 {
		name = w.Getenv("SUDO_USER")
	}
	if name == "" {
		return ownAccount(w), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, exit.Usage("schedule: there is no account %q", name)
	}
	uid, err := strconv.Atoi(u.Uid)
	return account{u.Username, u.HomeDir, uid}, err
}

func ownAccount(w *environ.Env) account {
	name := w.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return account{name, w.Home, os.Geteuid()}
}

// underSchedule returns the project as a scheduled pass of an account sees it.
func underSchedule(p *wiring.Project, a account, stateDir string, vars []string) *wiring.Project {
	w := *p.Env
	w.Home = a.home
	w.Environ = append(
		[]string{
			"HOME=" + a.home,
			"USER=" + a.name,
			"LOGNAME=" + a.name,
			"SHELL=/bin/sh",
			"PATH=/usr/bin:/bin",
		},
		vars...)
	in := wiring.NewProject(&w, p.Path, stateDir)
	in.ReadEnvFiles(a.uid)
	return in
}

// name is the name of the units of a workflow, and the mark of its line in a crontab.
func (s *plan) name() string {
	return "symphony-" + filepath.Base(state.DefaultDir("", s.caller.Env.Home, s.caller.Path))
}

// command is the command line of a pass.
func (s *plan) command(trigger string) []string {
	argv := []string{s.program, "tick", "--quiet", "--trigger", trigger}
	if s.stateDir != "" {
		argv = append(argv, "--state-dir", s.stateDir)
	}
	return append(argv, "-w", s.p.Path)
}

// Text returns the text that Install would write. If Install would refuse, a warning gives the
// reason.
func Text(ctx context.Context, p *wiring.Project, o Options) (string, Changes, error) {
	s, kind, err := newPlan(p, o)
	if err != nil {
		return "", Changes{}, err
	}
	written, err := kind.text()
	if err != nil {
		return "", *s.changes, err
	}
	if err := s.installable(ctx, kind, 0); err != nil {
		known := exit.From(err)
		s.changes.warn("install would refuse: " + known.Code + ": " + known.Message)
	}
	return written, *s.changes, nil
}

// Supported returns the kinds of schedule that this account can install on this machine. err
// is the reason why the usual kind is not among them.
func Supported(ctx context.Context, p *wiring.Project) (kinds []string, err error) {
	s := &plan{caller: p, p: p, account: ownAccount(p.Env), changes: &Changes{}}
	usual := scheduler(newTimer(s, false))
	name := "a timer of systemd"
	if usesLaunchd {
		usual = newLaunchd(s)
		name = "launchd"
	}
	err = usual.refuse(ctx, 0)
	if err == nil {
		kinds = append(kinds, name)
	}
	if (cron{plan: s}).refuse(ctx, 0) == nil {
		kinds = append(kinds, "cron")
	}
	return kinds, err
}

// Install writes a schedule and switches it on. It is idempotent and completes an interrupted
// install. Changes made before an error come with the error.
func Install(ctx context.Context, p *wiring.Project, o Options) (Changes, error) {
	s, kind, err := newPlan(p, o)
	if err != nil {
		return Changes{}, err
	}
	if err := s.installable(ctx, kind, managerPatience); err != nil {
		return *s.changes, err
	}
	if err := kind.install(ctx); err != nil {
		return *s.changes, err
	}
	if s.account.uid != os.Geteuid() { // this account must not write another account's state
		return *s.changes, nil
	}
	installed := wiring.InstalledSchedule{Trigger: wiring.TriggerTimer, Every: s.every}
	if o.Cron {
		installed.Trigger = wiring.TriggerCron
	}
	return *s.changes, wiring.RecordInstalled(ctx, p, installed)
}

// installable returns the first reason why Install must not write anything; nil for none.
func (s *plan) installable(ctx context.Context, kind scheduler, patience time.Duration) error {
	if err := s.caller.Nested(); err != nil {
		return err
	}
	if err := s.programStays(); err != nil {
		return err
	}
	timer := packagedTimer(ctx, s.caller)
	if timer != "" {
		return reconcile.NewError(
			"schedule_failed",
			timer+" runs passes of this project already",
			"keep it, or run systemctl --user disable --now "+text.ShellQuote(timer)+" first",
		)
	}
	return kind.refuse(ctx, patience)
}

// programStays returns an error unless the program is where a schedule will find it later.
func (s *plan) programStays() error {
	path := paths.Real(s.program)
	temporary := wiring.TemporaryAbove(path, s.caller.Env)
	why := ""
	switch {
	case s.program == "":
		path = "the program"
		why = "no longer exists"
	case wiring.BuiltByGoRun(path):
		why = "was built by go run"
	case temporary != "":
		why = "is below " + temporary
	default:
		return nil
	}
	return reconcile.NewError(
		"schedule_failed",
		fmt.Sprintf("%s %s: a schedule needs a permanent program", path, why),
		"copy it to a permanent place, such as ~/bin/symphony, and install with that copy",
	)
}

// Remove removes everything that Install wrote. The workflow need not exist. Changes made
// before an error come with the error.
func Remove(ctx context.Context, p *wiring.Project, o Options) (Changes, error) {
	if err := p.Nested(); err != nil {
		return Changes{}, err
	}
	changes, removed, as, err := remove(ctx, p, o)
	if removed {
		if as == "" {
			err = errors.Join(err, wiring.RecordRemoved(ctx, p))
		}
		stop := "symphony stop --all -w " + text.ShellQuote(p.Path)
		changes.done("running workers continue; " + stop + " ends them" + as)
	} else if err == nil {
		changes.done("nothing is installed for " + p.Path)
	}
	return changes, err
}

// remove is Remove without its last line. It returns whether something was removed, and ", as
// NAME" if passes have run as another account.
func remove(
	ctx context.Context,
	p *wiring.Project,
	o Options,
) (changes Changes, removed bool, as string, needsRoot error) {
	found := findInstalled(ctx, p)
	if o.Cron && found.noCrontab != nil {
		return changes, false, "", found.noCrontab
	}
	if !o.Cron && found.unreadable != nil {
		return changes, false, "", found.unreadable
	}
	for _, kind := range found.kinds {
		has := kind.options()
		if o.Cron && !has.Cron || o.System && !has.System {
			continue
		}
		if has.System && os.Geteuid() != 0 {
			needsRoot = rootOnly(removeAsRoot(p))
			continue
		}
		if has.System {
			as = has.asOther(ownAccount(p.Env).name)
		}
		if err := kind.remove(ctx); err != nil {
			return *found.changes, removed, as, err
		}
		removed = true
	}
	return *found.changes, removed, as, needsRoot
}

// asOther is ", as NAME" if passes run as another account than own; empty otherwise.
func (o Options) asOther(own string) string {
	if !o.System || o.RunAs == own {
		return ""
	}
	return ", as " + o.RunAs
}

// removeAsRoot is the command that removes the units of the machine.
func removeAsRoot(p *wiring.Project) string {
	return "sudo " + text.ShellQuote(wiring.ProgramPath()) +
		" schedule remove --system -w " + text.ShellQuote(p.Path)
}

// Installed reports whether Install wrote a schedule for a project.
func Installed(ctx context.Context, p *wiring.Project) bool {
	return len(findInstalled(ctx, p).kinds) > 0
}

// Move installs for a workflow the schedule of its old path, and removes the old schedule. It
// can be repeated.
func Move(ctx context.Context, old, p *wiring.Project) (all Changes, err error) {
	add := func(c Changes) {
		all.Done = append(all.Done, c.Done...)
		all.Warnings = append(all.Warnings, c.Warnings...)
	}
	for _, kind := range findInstalled(ctx, old).kinds {
		o := kind.options()
		changes, err := Install(ctx, p, o)
		add(changes)
		known, ok := errors.AsType[*reconcile.Error](err)
		if ok && o.System && os.Geteuid() != 0 {
			known.Hint += " && " + removeAsRoot(old)
		}
		if err != nil {
			return all, err
		}
	}
	changes, _, _, err := remove(ctx, old, Options{})
	add(changes)
	return all, err
}
