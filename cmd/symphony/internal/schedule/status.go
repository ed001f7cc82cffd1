package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// Installed is what Install has written and is still there.
type Installed struct {
	Units []installedUnit
	Line  string // of the crontab
	// lineErr is why the crontab could not be read. Some accounts may have none.
	lineErr error
}

// installedUnit is a timer with its service.
type installedUnit struct {
	system         bool
	Service, timer string // paths
	timerText      string // empty if the file is gone
	program, runAs string
}

// FindInstalled looks for the units and the line of the crontab. It does not ask systemd.
func FindInstalled(ctx context.Context, p *project.Project) (in Installed, err error) {
	for _, system := range []bool{false, true} {
		for _, dir := range UnitDirs(p.Env, system, p.Env.Home) {
			base := filepath.Join(dir, nameOf(p))
			u := installedUnit{system: system, Service: base + ".service", timer: base + ".timer"}
			service, err := readFile(u.Service)
			if err != nil {
				return in, err
			}
			if u.timerText, err = readFile(u.timer); err != nil {
				return in, err
			}
			u.program, _ = strconv.Unquote(lineAfter(service, programLine))
			u.runAs = lineAfter(service, "User=")
			if strings.HasPrefix(service, UnitMark) || strings.HasPrefix(u.timerText, UnitMark) {
				in.Units = append(in.Units, u)
			}
		}
	}
	if HasCrontab(p.Env) {
		crontab, err := Crontab(ctx, p.Env)
		in.lineErr = err
		_, in.Line = withLine(crontab, "", cronMark(nameOf(p)))
	}
	return in, nil
}

// readFile returns the text of a unit, empty if it does not exist.
func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", unitError(path, err)
	}
	return string(data), nil
}

// lineAfter returns the rest of the line that begins with prefix; empty if there is none.
func lineAfter(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), prefix); ok {
			return rest
		}
	}
	return ""
}

// Carried is what an installed schedule passes on of the caller's environment.
type Carried struct {
	StateDir string   // empty if it passes no --state-dir
	Vars     []string // NAME=value of PathVars
}

// CarriedBy looks in the installed schedules for the state directory and the variables of the caller. It finds nothing in
// schedules that can't be read, which InstalledStatus reports.
func CarriedBy(ctx context.Context, p *project.Project) (c Carried) {
	found, err := FindInstalled(ctx, p)
	if err != nil {
		return c
	}
	texts := []string{found.Line}
	for _, u := range found.Units {
		if service, err := readFile(u.Service); err == nil {
			texts = append(texts, service)
		}
	}
	contains := func(forms ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool {
			return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
		})
	}
	cronWord := func(word string) string { return strings.ReplaceAll(term.ShellQuote(word), "%", `\%`) }
	if contains(" --state-dir "+cronWord(p.StateDir)+" ", " --state-dir "+strings.ReplaceAll(UnitWord(p.StateDir), "$", "$$")+" ") {
		c.StateDir = p.StateDir
	}
	for _, name := range PathVars {
		v := p.Env.Getenv(name)
		if v != "" && contains(" "+name+"="+cronWord(v)+" ", "\nEnvironment="+UnitWord(name+"="+v)+"\n") {
			c.Vars = append(c.Vars, name+"="+v)
		}
	}
	return c
}

// Status is the JSON of schedule status.
type Status struct {
	Alive    bool                 `json:"alive"`
	Loop     bool                 `json:"loop"`
	Timers   []timerJSON          `json:"timers"`
	Cron     *cronJSON            `json:"cron"`
	LastPass *project.LastPassRow `json:"last_pass"`
	LastRun  *scheduledPass       `json:"last_scheduled"`
	Problems []string             `json:"problems"`
	Project  scheduledProject     `json:"project"`
}

type scheduledProject struct {
	WorkflowPath string `json:"workflow_path"`
	StateDir     string `json:"state_dir"`
}

// scheduledPass is the last pass that a schedule has started.
type scheduledPass struct {
	Trigger   string    `json:"trigger"`
	StartedAt time.Time `json:"started_at"`
}

type timerJSON struct {
	Unit     string     `json:"unit"`
	Manager  string     `json:"manager"` // user or system
	RunAs    string     `json:"run_as"`
	Enabled  bool       `json:"enabled"`
	Active   bool       `json:"active"`
	Next     *time.Time `json:"next_at"`
	Last     *time.Time `json:"last_at"`
	Result   string     `json:"last_result"` // of the last pass, in systemd's words
	KillMode string     `json:"kill_mode"`
	Lingers  bool       `json:"lingers"`
	Files    []string   `json:"files"`
}

type cronJSON struct {
	Line   string `json:"line"`
	Daemon *bool  `json:"daemon_runs"` // null if that can't be seen here
}

func (out *Status) addProblem(format string, args ...any) {
	out.Problems = append(out.Problems, fmt.Sprintf(format, args...))
}

// InstalledStatus returns what is installed and what is wrong with it. It does not look at the passes.
func InstalledStatus(ctx context.Context, p *project.Project) (Status, error) {
	out := Status{
		Timers: []timerJSON{}, Problems: []string{}, Loop: project.Looping(p.StateDir),
		Project: scheduledProject{p.Path, p.StateDir},
	}
	found, err := FindInstalled(ctx, p)
	if err != nil {
		return out, err
	}
	for _, u := range found.Units {
		if err := out.addTimer(ctx, p, u); err != nil {
			return out, err
		}
	}
	if found.Line != "" {
		out.Cron = &cronJSON{Line: found.Line, Daemon: cronRuns()}
		if runs := out.Cron.Daemon; runs != nil && !*runs {
			out.addProblem("no cron runs on this machine: systemctl enable --now cron")
		}
		if program := cronProgram(found.Line); program != "" && !project.Exists(program) {
			out.addProblem("%s, which the crontab starts, is gone: symphony schedule install --cron -w %s", program, term.ShellQuote(p.Path))
		}
	}
	if found.lineErr != nil && len(out.Timers) == 0 { // with a timer it does not matter
		out.addProblem("%s", found.lineErr)
	}
	return out, nil
}

// addTimer asks systemd about a timer, and compares it with what Install would write now.
func (out *Status) addTimer(ctx context.Context, p *project.Project, u installedUnit) error {
	timer, service := filepath.Base(u.timer), filepath.Base(u.Service)
	row := timerJSON{Unit: timer, Manager: "user", RunAs: u.runAs, Lingers: u.system, Files: []string{u.Service, u.timer}}
	if u.system {
		row.Manager = "system"
	} else {
		a, err := passAccount(p.Env, Options{})
		if err != nil {
			return err
		}
		row.RunAs, row.Lingers = a.name, lingers(a.name)
	}
	found, err := systemctl{p.Env, u.system}.properties(ctx,
		[]string{"ActiveState", "UnitFileState", "NextElapseUSecRealtime", "NextElapseUSecMonotonic", "LastTriggerUSec", "Result", "KillMode"}, timer, service)
	if err != nil {
		out.Timers = append(out.Timers, row)
		if row.Lingers {
			out.addProblem("its systemd does not answer: %s", exit.From(err).Message)
		} else { // systemd ended with the last login
			out.addProblem("the systemd of %s does not run, and so no timer: loginctl enable-linger %[1]s", row.RunAs)
		}
		return nil
	}
	t, s := found[timer], found[service]
	row.Enabled, row.Active = t["UnitFileState"] == "enabled", t["ActiveState"] == "active"
	row.Result, row.KillMode = s["Result"], s["KillMode"]
	if next := nextElapse(t, p.Env.Now()); row.Active && !next.IsZero() {
		row.Next = &next
	}
	if last := systemdTime(t["LastTriggerUSec"]); !last.IsZero() {
		row.Last = &last
	}
	out.Timers = append(out.Timers, row)
	out.addTimerProblems(p, u, row)
	return nil
}

func (out *Status) addTimerProblems(p *project.Project, u installedUnit, row timerJSON) {
	install := "symphony schedule install -w " + term.ShellQuote(p.Path)
	journal := "journalctl --user -u "
	if u.system {
		install = "sudo " + term.ShellQuote(project.ProgramPath()) + " schedule install --system --run-as " + term.ShellQuote(u.runAs) + " -w " + term.ShellQuote(p.Path)
		journal = "journalctl -u "
	}
	if !row.Enabled || !row.Active {
		out.addProblem("%s is not switched on: %s", row.Unit, install)
	}
	if !row.Lingers {
		out.addProblem("%s does not linger, and the timer stops at the last logout: loginctl enable-linger %[1]s", row.RunAs)
	}
	if u.program != "" && !project.Exists(u.program) {
		out.addProblem("%s, which the timer starts, is gone: %s", u.program, install)
	}
	if row.Result != "success" && row.Result != "" {
		out.addProblem("the last pass failed (%s): %s", row.Result, journal+strings.TrimSuffix(filepath.Base(u.Service), ".service"))
	}
	if _, cfg := project.CheckResult(p); cfg != nil {
		every := timerInterval(cfg.Polling.Interval)
		if !strings.Contains(u.timerText, "\n"+timerLines(every)+"\n") {
			out.addProblem("polling.interval_ms has changed since, a pass is wanted every %s: %s", every, install)
		}
	}
}

// firstPass is when the first pass of a newly installed timer comes; nil if there is no such timer.
func (out *Status) firstPass(now time.Time) *time.Time {
	for _, t := range out.Timers {
		if t.Enabled && t.Active && t.Last == nil && t.Next != nil && t.Next.After(now) {
			return t.Next
		}
	}
	return nil
}

// readStatus adds to the installed schedule what the passes have recorded.
func readStatus(ctx context.Context, p *project.Project) (Status, error) {
	out, err := InstalledStatus(ctx, p)
	if err != nil {
		return out, err
	}
	db, err := project.OpenForReading(ctx, p)
	if err == nil {
		defer db.Close()
		err = out.addPasses(ctx, db, p.Env.Now())
	}
	if err != nil && !errors.Is(err, state.ErrNoState) {
		return out, err
	}
	switch {
	case out.Alive || out.firstPass(p.Env.Now()) != nil:
	case len(out.Timers) == 0 && out.Cron == nil:
		out.addProblem("nothing runs passes: symphony schedule install -w %s", term.ShellQuote(p.Path))
	case out.LastRun == nil:
		out.addProblem("no pass of a schedule has run yet")
	default:
		out.addProblem("no pass of a schedule came when it should have: symphony doctor")
	}
	return out, nil
}

func (out *Status) addPasses(ctx context.Context, db *state.DB, now time.Time) error {
	alive, err := project.ScheduleAlive(ctx, db, now)
	if err != nil {
		return err
	}
	out.Alive = alive || out.Loop
	last, known, err := db.Views.LastPass(ctx)
	if err != nil {
		return err
	}
	if known {
		row := project.LastPassRow{ID: last.ID, Trigger: last.Trigger, StartedAt: last.StartedAt.UTC(), DurationMS: last.Duration.Milliseconds(), Errors: []term.ErrorJSON{}}
		for _, e := range last.Errors {
			row.Errors = append(row.Errors, term.ErrorJSON{Code: e.Code, Message: e.Message})
		}
		out.LastPass = &row
	}
	passes, err := db.Views.ScheduleGaps(ctx)
	if err == nil && len(passes) > 0 {
		out.LastRun = &scheduledPass{passes[0].Trigger, passes[0].StartedAt.UTC()}
	}
	return err
}

// PrintStatus prints the status, one fact a line.
func PrintStatus(ctx context.Context, p *project.Project) error {
	out, err := readStatus(ctx, p)
	if err != nil {
		return err
	}
	if p.Env.JSON {
		p.Env.PrintJSON(out)
		return nil
	}
	w, now := p.Env, p.Env.Now()
	printFact(w, "schedule", aliveText(w, out, now))
	if len(out.Timers) == 0 && out.Cron == nil {
		printFact(w, "installed", "nothing by symphony schedule install")
	}
	for _, t := range out.Timers {
		printTimer(w, t, now)
	}
	if c := out.Cron; c != nil {
		printFact(w, "cron", term.Visible(c.Line))
		if c.Daemon != nil {
			printFact(w, "daemon", choose(*c.Daemon, "runs", "does not run"))
		}
	}
	if out.Loop {
		printFact(w, "loop", "symphony tick --loop is running")
	}
	if last := out.LastPass; last == nil {
		printFact(w, "last pass", "none yet")
	} else {
		errs := "without an error"
		if len(last.Errors) > 0 {
			errs = w.Red(term.Visible(last.Errors[0].Code + ": " + last.Errors[0].Message))
		}
		printFact(w, "last pass", fmt.Sprintf("%s, by %s, %s, %s", term.AgoText(w, now, last.StartedAt), last.Trigger, term.Duration(time.Duration(last.DurationMS)*time.Millisecond), errs))
	}
	for _, text := range out.Problems {
		printFact(w, "problem", w.Yellow(term.Visible(text)))
	}
	return nil
}

// aliveText says whether passes run by themselves.
func aliveText(w *term.Env, out Status, now time.Time) string {
	first := out.firstPass(now)
	switch {
	case out.Alive:
		return w.Green("alive")
	case first != nil && w.Width > 0:
		return w.Green("its first pass comes in " + term.Duration(first.Sub(now)))
	case first != nil:
		return "its first pass comes at " + term.Rfc3339(*first)
	}
	return w.Yellow("not alive: nothing new is started until you run symphony tick")
}

func printTimer(w *term.Env, t timerJSON, now time.Time) {
	printFact(w, "timer", fmt.Sprintf("%s (%s, as %s): %s, %s", t.Unit, t.Manager, t.RunAs,
		choose(t.Enabled, "enabled", "not enabled"), choose(t.Active, "active", "not active")))
	switch {
	case t.Next != nil && w.Width > 0:
		printFact(w, "next", "in "+term.Duration(t.Next.Sub(now)))
	case t.Next != nil:
		printFact(w, "next", term.Rfc3339(*t.Next))
	case t.Active:
		printFact(w, "next", "after the pass that is running")
	}
	if t.Last != nil {
		printFact(w, "last", term.AgoText(w, now, *t.Last)+", "+t.Result)
	}
	if t.KillMode != "" {
		printFact(w, "workers", choose(t.KillMode == "process", "live on", "would end with their pass, unless they get scopes")+" (KillMode="+t.KillMode+")")
	}
	if t.Manager == "user" {
		printFact(w, "linger", choose(t.Lingers, "yes", "no"))
	}
}

func choose(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

func printFact(w *term.Env, name, text string) {
	if w.Width == 0 {
		fmt.Fprintf(w.Stdout, "%s\t%s\n", name, text)
		return
	}
	fmt.Fprintf(w.Stdout, "%-10s %s\n", name, text)
}

// nextElapse is the next time of a timer. systemd gives that of a timer from pass to pass on the monotonic clock.
func nextElapse(timer map[string]string, now time.Time) time.Time {
	if next := systemdTime(timer["NextElapseUSecRealtime"]); !next.IsZero() {
		return next
	}
	span, ok := systemdSpan(timer["NextElapseUSecMonotonic"])
	if !ok {
		return time.Time{}
	}
	return now.Add(span - proc.Monotonic()).UTC().Truncate(time.Second)
}

// systemdTime parses a time as systemctl prints it with TZ=UTC; zero if there is none.
func systemdTime(text string) time.Time {
	t, err := time.Parse("Mon 2006-01-02 15:04:05 MST", text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// systemdSpan parses a span such as "1d 2h 26.488399s".
func systemdSpan(text string) (sum time.Duration, ok bool) {
	units := map[string]time.Duration{
		"y": 365*24*time.Hour + 6*time.Hour, "month": 730*time.Hour + 30*time.Minute, "w": 7 * 24 * time.Hour, "d": 24 * time.Hour,
		"h": time.Hour, "min": time.Minute, "s": time.Second, "ms": time.Millisecond, "us": time.Microsecond,
	}
	fields := strings.Fields(text)
	for _, f := range fields {
		number := strings.TrimRight(f, "abcdefghijklmnopqrstuvwxyz")
		unit, known := units[f[len(number):]]
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !known {
			return 0, false
		}
		sum += time.Duration(n * float64(unit))
	}
	return sum, len(fields) > 0
}
