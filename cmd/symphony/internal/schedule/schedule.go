// Package schedule has passes run by a timer of systemd or by a line of the user's crontab: it shows, installs, inspects and
// removes them.
package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// Options are the flags of schedule.
type Options struct {
	System, Cron bool
	RunAs        string
}

// plan is what a schedule runs, and as which account.
type plan struct {
	caller   *project.Project
	p        *project.Project // as the schedule sees it
	account  account
	system   bool // a timer of the system's systemd, not of the user's
	program  string
	stateDir string   // for --state-dir, empty for the default one
	vars     []string // NAME=value, passed on to the passes
	unitDir  string
	interval time.Duration
}

// account is the account that passes run as.
type account struct {
	name, home string
	uid        int
}

// PathVars say where symphony's files are. A schedule passes on these variables alone: any other may hold a secret, and belongs
// into the environment file.
var PathVars = []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME"}

// newPlan reads the workflow as the schedule will see it. It fails if check refuses that.
func newPlan(p *project.Project, o Options) (*plan, error) {
	a, err := passAccount(p.Env, o)
	if err != nil {
		return nil, err
	}
	s := &plan{caller: p, account: a, system: o.System, program: project.ProgramPath(), unitDir: UnitDirs(p.Env, o.System, a.home)[0]}
	if u, err := user.LookupId(strconv.Itoa(a.uid)); err == nil && u.HomeDir != a.home {
		s.vars = append(s.vars, "HOME="+a.home) // systemd and cron would set the other
	}
	for _, name := range PathVars {
		if v := p.Env.Getenv(name); filepath.IsAbs(v) {
			s.vars = append(s.vars, name+"="+v)
		}
	}
	s.p = underSchedule(p, a, s.vars)
	if s.p.StateDir != state.DefaultDir(s.p.Env.Getenv("XDG_STATE_HOME"), s.p.Env.Home, p.Path) {
		s.stateDir = s.p.StateDir
	}
	report, cfg := project.CheckResult(s.p)
	if !report.OK {
		project.PrintCheck(s.p, report)
		return nil, exit.Only(exit.Workflow)
	}
	s.interval = cfg.Polling.Interval
	for _, word := range append(s.command(project.TriggerCron), s.vars...) {
		if !utf8.ValidString(word) || strings.ContainsFunc(word, term.Control) {
			return nil, &reconcile.Error{
				Code: "schedule_failed", Message: fmt.Sprintf("%q holds characters that can stand in no unit and no crontab", word), Hint: "rename it",
			}
		}
	}
	return s, nil
}

// passAccount returns the account of the passes: with --system under sudo that of the user who called sudo, not root.
func passAccount(w *term.Env, o Options) (account, error) {
	name := o.RunAs
	if name == "" && o.System && os.Geteuid() == 0 {
		name = w.Getenv("SUDO_USER")
	}
	if name == "" {
		u, err := user.Current()
		if err != nil {
			return account{}, fmt.Errorf("the present account: %w", err)
		}
		return account{u.Username, w.Home, os.Geteuid()}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, exit.Usage("schedule: there is no account %q", name)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return account{}, fmt.Errorf("the id of %s: %w", name, err)
	}
	return account{u.Username, u.HomeDir, uid}, nil
}

// underSchedule returns the project as a scheduled pass sees it.
func underSchedule(p *project.Project, a account, vars []string) *project.Project {
	w := *p.Env
	w.Home = a.home
	w.Environ = append([]string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name, "PATH=/usr/bin:/bin"}, vars...)
	dir := p.StateDir
	if dir == state.DefaultDir(p.Env.Getenv("XDG_STATE_HOME"), p.Env.Home, p.Path) {
		dir = "" // the default one of the account
	}
	in := project.New(&w, p.Path, dir)
	in.EnvFile, in.EnvErr = workflow.ReadEnvFile(in.EnvPath(), a.uid)
	return in
}

// nameOf is the name of the units of a workflow, and the mark of its line in a crontab.
func nameOf(p *project.Project) string {
	return "symphony-" + filepath.Base(state.DefaultDir("", p.Env.Home, p.Path))
}

// command is the command line of a pass.
func (s *plan) command(trigger string) []string {
	argv := []string{s.program, "tick", "--quiet", "--trigger", trigger}
	if s.stateDir != "" {
		argv = append(argv, "--state-dir", s.stateDir)
	}
	return append(argv, "-w", s.p.Path)
}

// Show prints what Install would write, and why Install would refuse to.
func Show(ctx context.Context, p *project.Project, o Options) error {
	s, err := newPlan(p, o)
	if err != nil {
		return err
	}
	if o.Cron {
		line, err := s.cronLine()
		if err != nil {
			return err
		}
		fmt.Fprintln(p.Env.Stdout, line)
	} else {
		for i, u := range s.units() {
			if i > 0 {
				fmt.Fprintln(p.Env.Stdout)
			}
			fmt.Fprintf(p.Env.Stdout, "## %s\n%s", u.path, u.text)
		}
	}
	s.warnInterval(o)
	if err := s.refuse(ctx, o, 0); err != nil {
		known := exit.From(err)
		fmt.Fprintf(p.Env.Stderr, "symphony: warning: install would refuse: %s: %s\n  %s\n", known.Code, term.Visible(known.Message), term.Visible(known.Hint))
	}
	return nil
}

// Install writes and switches on a schedule. It may be repeated, also after an install that was interrupted: each step looks at
// what is there.
func Install(ctx context.Context, p *project.Project, o Options) error {
	s, err := newPlan(p, o)
	if err != nil {
		return err
	}
	if err := s.refuse(ctx, o, managerPatience); err != nil {
		return err
	}
	s.warnInterval(o)
	changed := false
	if o.Cron {
		changed, err = s.installLine(ctx)
	} else {
		changed, err = s.installUnits(ctx)
	}
	if err != nil {
		return err
	}
	if !changed {
		fmt.Fprintln(p.Env.Stdout, "nothing to do: it is installed already")
	}
	return s.warnOthers(ctx, o)
}

// warnInterval warns if the schedule can't keep to polling.interval_ms.
func (s *plan) warnInterval(o Options) {
	switch {
	case o.Cron && s.interval != time.Minute:
		fmt.Fprintf(s.caller.Env.Stderr, "symphony: warning: cron runs a pass every 60s; polling.interval_ms (%s) counts for timers and --loop only\n", s.interval)
	case !o.Cron && s.interval < time.Second:
		fmt.Fprintf(s.caller.Env.Stderr, "symphony: warning: the timer runs a pass every second; polling.interval_ms (%s) is less than it can do\n", s.interval)
	}
}

// warnOthers warns about a second schedule of the project. Two do no harm, but to stop one of them does not stop the other.
func (s *plan) warnOthers(ctx context.Context, o Options) error {
	found, err := FindInstalled(ctx, s.caller)
	if err != nil {
		return err
	}
	warn := func(what, remove string) {
		fmt.Fprintf(s.caller.Env.Stderr, "symphony: warning: %s runs passes of this project, too; symphony schedule remove -w %s%s\n", what, term.ShellQuote(s.p.Path), remove)
	}
	if found.Line != "" && !o.Cron {
		warn("a line of your crontab", " --cron takes it away")
	}
	for _, u := range found.Units {
		switch {
		case u.system && !o.System:
			warn("a timer of the system", " --system takes it away")
		case !u.system && (o.System || o.Cron):
			warn("a timer of your own", " takes away both")
		}
	}
	return nil
}

// refuse returns the first reason for which Install writes nothing.
func (s *plan) refuse(ctx context.Context, o Options, patience time.Duration) error {
	if err := errors.Join(s.caller.Nested(), s.refuseTemporary()); err != nil {
		return err
	}
	if !o.Cron {
		return s.refuseSystemd(ctx, patience)
	}
	if !HasCrontab(s.caller.Env) {
		return &reconcile.Error{Code: "no_scheduler", Message: "there is no crontab here", Hint: "install cron, or keep symphony tick --loop running"}
	}
	return nil
}

// goBuildPath matches the paths of programs that go run builds.
const goBuildPath = `(^|/)go-build[0-9]*/|/[0-9a-f]{2}/[0-9a-f]{64}-d/`

// refuseTemporary refuses a program that will not stay where it is.
func (s *plan) refuseTemporary() error {
	path, why := project.Resolve(s.program), ""
	for _, dir := range []string{cmp.Or(s.caller.Env.Getenv("TMPDIR"), "/tmp"), "/tmp", "/var/tmp", "/dev/shm"} {
		if text.PathInside(project.Resolve(dir), path) {
			why = "lies below " + dir
		}
	}
	if regexp.MustCompile(goBuildPath).MatchString(path) {
		why = "was made by go run"
	}
	if s.program == "" {
		path, why = "the program", "can't be found any more"
	}
	if why == "" {
		return nil
	}
	return &reconcile.Error{
		Code: "temporary_program", Message: fmt.Sprintf("%s %s: a schedule needs a program that stays", path, why),
		Hint: "copy it to its place, ~/bin/symphony for instance, and install the schedule with that",
	}
}

// Remove removes what Install wrote. The workflow need not be readable, nor exist.
func Remove(ctx context.Context, p *project.Project, o Options) error {
	if err := p.Nested(); err != nil {
		return err
	}
	found, err := FindInstalled(ctx, p)
	if err != nil {
		return err
	}
	removed, stateDirs := 0, []string{p.StateDir}
	var rest error
	stopAs := "" // the account that can stop the workers, if it is another
	for _, u := range found.Units {
		if o.Cron || o.System && !u.system {
			continue
		}
		if u.system && os.Geteuid() != 0 {
			rest = needsRoot("sudo " + term.ShellQuote(project.ProgramPath()) + " schedule remove --system -w " + term.ShellQuote(p.Path))
			continue
		}
		if err := removeUnits(ctx, p, u); err != nil {
			return err
		}
		removed++
		if owner, err := user.Lookup(u.runAs); u.system && err == nil {
			if dir := state.DefaultDir("", owner.HomeDir, p.Path); !slices.Contains(stateDirs, dir) {
				stateDirs, stopAs = append(stateDirs, dir), ", as "+u.runAs+","
			}
		}
	}
	if !o.System {
		if o.Cron && found.lineErr != nil {
			return found.lineErr
		}
		if found.Line != "" {
			if err := removeLine(ctx, p); err != nil {
				return err
			}
			removed++
		}
	}
	if removed == 0 && rest == nil {
		fmt.Fprintf(p.Env.Stdout, "nothing is installed for %s\n", term.Visible(p.Path))
	}
	return errors.Join(printWorkers(ctx, p, stateDirs, stopAs), rest)
}

// printWorkers names the workers, which no schedule ends. Their own passes go on for a while, too.
func printWorkers(ctx context.Context, p *project.Project, stateDirs []string, stopAs string) error {
	names, err := liveWorkers(ctx, p, stateDirs)
	if err != nil || len(names) == 0 {
		return err
	}
	fmt.Fprintf(p.Env.Stdout, "still running: %s\n  they may end by themselves; symphony stop --all -w %s%s ends them\n", term.Visible(strings.Join(names, ", ")), term.ShellQuote(p.Path), stopAs)
	db, err := project.OpenForReading(ctx, p)
	if errors.Is(err, state.ErrNoState) || p.SourceErr != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	alive, err := project.ScheduleAlive(ctx, db, p.Env.Now())
	if err == nil && alive {
		fmt.Fprintln(p.Env.Stdout, "  until the last pass of the schedule is three of its gaps old, three minutes at least, a run that ends still starts the next; symphony pause prevents it")
	}
	return err
}

// liveWorkers finds workers by their alive files and command lines. Root must not open the database of another account, whose
// files would then belong to root.
func liveWorkers(ctx context.Context, p *project.Project, stateDirs []string) (names []string, err error) {
	issues := map[string]string{} // by run; without the database a worker is named by its run
	if db, err := project.OpenForReading(ctx, p); err == nil {
		defer db.Close()
		if rec, err := db.Store.State(ctx); err == nil {
			for _, run := range rec.Runs {
				issues[run.ID] = run.Identifier
			}
		}
	}
	for _, dir := range stateDirs {
		workers, err := proc.Workers(dir)
		if err != nil {
			return nil, err
		}
		for _, id := range slices.Sorted(maps.Keys(workers)) {
			if runner.Alive(dir, id) {
				names = append(names, fmt.Sprintf("%s (pid %d)", cmp.Or(issues[id], "run "+id), workers[id].PID))
			}
		}
	}
	return names, nil
}
