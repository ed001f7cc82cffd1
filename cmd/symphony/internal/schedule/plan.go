package schedule

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// scheduled is what a schedule runs, and as whom.
type scheduled struct {
	caller   *project.Project
	p        *project.Project // as the schedule sees it
	who      person
	system   bool
	program  string
	stateDir string   // for --state-dir; empty where it is the usual one
	carried  []string // NAME=value
	dir      string   // of the units
	interval time.Duration
}

// person is the account that passes run as.
type person struct {
	name, home string
	uid        int
}

// pathVars decide where symphony looks for its files. Of all variables these alone come along into a schedule: any other
// may hold a secret, and belongs into the environment file.
var PathVars = []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME"}

// planSchedule works out what is to be scheduled, from a workflow that check accepts in the schedule's environment.
func planSchedule(p *project.Project, o Options) (*scheduled, error) {
	who, err := operatorOf(p.Env, o)
	if err != nil {
		return nil, err
	}
	s := &scheduled{caller: p, who: who, system: o.System, program: project.ProgramPath(), carried: carried(p.Env, who)}
	s.p = inSchedule(p, who, s.carried)
	s.dir = UnitDirs(p.Env, o.System, who.home)[0]
	if s.p.StateDir != state.DefaultDir(s.p.Env.Getenv("XDG_STATE_HOME"), s.p.Env.Home, p.Path) {
		s.stateDir = s.p.StateDir
	}
	out, cfg := project.CheckResult(s.p)
	if !out.OK {
		project.PrintCheck(s.p, out)
		return nil, exit.Only(exit.Workflow)
	}
	s.interval = cfg.Polling.Interval
	return s, s.writable()
}

// person is who the passes run as: for the system's systemd the one who became root, not root.
func operatorOf(w *term.Env, o Options) (person, error) {
	name := o.RunAs
	if name == "" && o.System && os.Geteuid() == 0 {
		name = w.Getenv("SUDO_USER")
	}
	if name == "" {
		u, err := user.Current()
		if err != nil {
			return person{}, fmt.Errorf("who you are: %w", err)
		}
		return person{u.Username, w.Home, os.Geteuid()}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return person{}, exit.Usage("schedule: there is no account %q", name)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return person{}, fmt.Errorf("the id of %s: %w", name, err)
	}
	return person{u.Username, u.HomeDir, uid}, nil
}

// carried are the variables that a schedule needs to find the same files.
func carried(w *term.Env, who person) (list []string) {
	if u, err := user.LookupId(strconv.Itoa(who.uid)); err == nil && u.HomeDir != who.home {
		list = append(list, "HOME="+who.home) // systemd and cron would take the other
	}
	for _, name := range PathVars {
		if v := w.Getenv(name); filepath.IsAbs(v) {
			list = append(list, name+"="+v)
		}
	}
	return list
}

// inSchedule is the project as a scheduled pass sees it.
func inSchedule(p *project.Project, who person, carried []string) *project.Project {
	w := *p.Env
	w.Home = who.home
	w.Environ = append([]string{"HOME=" + who.home, "USER=" + who.name, "LOGNAME=" + who.name, "PATH=/usr/bin:/bin"}, carried...)
	dir := p.StateDir
	if dir == state.DefaultDir(p.Env.Getenv("XDG_STATE_HOME"), p.Env.Home, p.Path) {
		dir = "" // the usual place, which is another where the account is another
	}
	in := project.New(&w, p.Path, dir)
	in.EnvFile, in.EnvErr = workflow.ReadEnvFile(in.EnvPath(), who.uid)
	return in
}

// name is that of the units, and marks the line of a crontab: one per workflow, for a person to recognize.
func (s *scheduled) name() string { return scheduleName(s.p) }

func scheduleName(p *project.Project) string {
	return "symphony-" + filepath.Base(state.DefaultDir("", p.Env.Home, p.Path))
}

// command is what is run.
func (s *scheduled) command(trigger string) []string {
	argv := []string{s.program, "tick", "--quiet", "--trigger", trigger}
	if s.stateDir != "" {
		argv = append(argv, "--state-dir", s.stateDir)
	}
	return append(argv, "-w", s.p.Path)
}

// writable refuses what can stand neither in a unit nor in a crontab.
func (s *scheduled) writable() error {
	for _, text := range append(s.command(project.TriggerCron), s.carried...) {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, term.Control) {
			return &reconcile.Error{
				Code: "schedule_failed", Message: fmt.Sprintf("%q holds characters that can stand in no unit and no crontab", text),
				Hint: "rename it",
			}
		}
	}
	return nil
}

// warnInterval says where a schedule can't keep to polling.interval_ms.
func (s *scheduled) warnInterval(o Options) {
	text := ""
	switch {
	case o.Cron && s.interval != time.Minute:
		text = fmt.Sprintf("cron runs a pass every 60s; polling.interval_ms (%s) counts for timers and --loop only", s.interval)
	case !o.Cron && s.interval < time.Second:
		text = fmt.Sprintf("the timer runs a pass every second; polling.interval_ms (%s) is less than it can do", s.interval)
	}
	if text != "" {
		fmt.Fprintln(s.caller.Env.Stderr, "symphony: warning:", text)
	}
}
