package schedule

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
	"github.com/symphony-cron/symphony/state"
)

// Status answers "Is the schedule alive?".
type Status struct {
	Alive    bool                 `json:"alive"`
	Loop     bool                 `json:"loop"`
	Timers   []timerJSON          `json:"timers"`
	Cron     *cronJSON            `json:"cron"`
	LastPass *project.LastPassRow `json:"last_pass"`
	LastRun  *scheduledPass       `json:"last_scheduled"`
	Problems []string             `json:"problems"`
	Project  scheduledFor         `json:"project"`
}

type scheduledFor struct {
	WorkflowPath string `json:"workflow_path"`
	StateDir     string `json:"state_dir"`
}

// scheduledPass is the newest one that a schedule has started.
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
	Result   string     `json:"last_result"` // systemd's word for the last pass
	KillMode string     `json:"kill_mode"`
	Lingers  bool       `json:"lingers"`
	Files    []string   `json:"files"`
}

type cronJSON struct {
	Line   string `json:"line"`
	Daemon *bool  `json:"daemon_runs"` // null: this can't be seen here
}

// installedStatus looks at what is installed, and whether that is as it should be. What the passes have left is not read.
func InstalledStatus(ctx context.Context, p *project.Project) (Status, error) {
	out := Status{
		Timers: []timerJSON{}, Problems: []string{}, Loop: project.Looping(p.StateDir),
		Project: scheduledFor{p.Path, p.StateDir},
	}
	st, err := FindInstalled(ctx, p)
	if err != nil {
		return out, err
	}
	for _, u := range st.Units {
		if err := timerStatus(ctx, p, u, &out); err != nil {
			return out, err
		}
	}
	if st.Line != "" {
		out.Cron = &cronJSON{Line: st.Line, Daemon: cronRuns()}
		if runs := out.Cron.Daemon; runs != nil && !*runs {
			out.problem("no cron runs on this machine: systemctl enable --now cron")
		}
		if program := cronProgram(st.Line); program != "" && !project.Exists(program) {
			out.problem("%s, which the crontab starts, is gone: symphony schedule install --cron -w %s", program, term.ShellQuote(p.Path))
		}
	}
	if st.lineErr != nil && len(out.Timers) == 0 { // else it is of no interest here
		out.problem("%s", st.lineErr)
	}
	return out, nil
}

func readScheduleStatus(ctx context.Context, p *project.Project) (Status, error) {
	out, err := InstalledStatus(ctx, p)
	if err != nil {
		return out, err
	}
	if err := passStatus(ctx, p, &out); err != nil {
		return out, err
	}
	switch none := len(out.Timers) == 0 && out.Cron == nil; {
	case out.Alive || out.begins(p.Env.Now()) != nil:
	case none:
		out.problem("nothing runs passes: symphony schedule install -w %s", term.ShellQuote(p.Path))
	case out.LastRun == nil:
		out.problem("no pass of a schedule has run yet")
	default:
		out.problem("no pass of a schedule came when it should have: symphony doctor")
	}
	return out, nil
}

// begins is when the first pass of a timer comes that was installed just now, nil where there is none.
func (out *Status) begins(now time.Time) *time.Time {
	for _, t := range out.Timers {
		if t.Enabled && t.Active && t.Last == nil && t.Next != nil && t.Next.After(now) {
			return t.Next
		}
	}
	return nil
}

func (out *Status) problem(format string, args ...any) {
	out.Problems = append(out.Problems, fmt.Sprintf(format, args...))
}

// passStatus reads what the passes themselves have left.
func passStatus(ctx context.Context, p *project.Project, out *Status) error {
	db, err := project.OpenForReading(ctx, p)
	if errors.Is(err, state.ErrNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	defer db.Close()
	alive, err := project.ScheduleAlive(ctx, db, p.Env.Now())
	if err != nil {
		return err
	}
	out.Alive = alive || out.Loop
	last, known, err := db.LastPass(ctx)
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
	passes, err := db.ScheduleGaps(ctx)
	if err == nil && len(passes) > 0 {
		out.LastRun = &scheduledPass{passes[0].Trigger, passes[0].StartedAt.UTC()}
	}
	return err
}

// timerStatus asks systemd about a timer, and compares it with what install would write now.
func timerStatus(ctx context.Context, p *project.Project, u installedUnit, out *Status) error {
	timer, service := filepath.Base(u.timer), filepath.Base(u.Service)
	row := timerJSON{Unit: timer, Manager: "user", RunAs: u.runAs, Lingers: u.system, Files: []string{u.Service, u.timer}}
	if u.system {
		row.Manager = "system"
	} else {
		who, err := operatorOf(p.Env, Options{})
		if err != nil {
			return err
		}
		row.RunAs, row.Lingers = who.name, lingers(who.name)
	}
	found, err := serviceManager{p.Env, u.system}.properties(ctx,
		[]string{"ActiveState", "UnitFileState", "NextElapseUSecRealtime", "NextElapseUSecMonotonic", "LastTriggerUSec", "Result", "KillMode"}, timer, service)
	if err != nil {
		out.Timers = append(out.Timers, row)
		text := "its systemd does not answer: " + exit.From(err).Message
		if !row.Lingers { // then it ends with the last login
			text = fmt.Sprintf("no systemd of %s's runs, and so no timer: loginctl enable-linger %[1]s", row.RunAs)
		}
		out.problem("%s", text)
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
	timerProblems(p, u, row, out)
	return nil
}

// nextElapse: a timer that counts from pass to pass tells it as an instant of the monotonic clock.
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

func timerProblems(p *project.Project, u installedUnit, row timerJSON, out *Status) {
	again := "symphony schedule install -w " + term.ShellQuote(p.Path)
	if u.system {
		again = "sudo " + term.ShellQuote(project.ProgramPath()) + " schedule install --system --run-as " + term.ShellQuote(u.runAs) + " -w " + term.ShellQuote(p.Path)
	}
	if !row.Enabled || !row.Active {
		out.problem("%s is not switched on: %s", row.Unit, again)
	}
	if !row.Lingers {
		out.problem("%s does not linger, and the timer stops at the last logout: loginctl enable-linger %[1]s", row.RunAs)
	}
	if u.program != "" && !project.Exists(u.program) {
		out.problem("%s, which the timer starts, is gone: %s", u.program, again)
	}
	if row.Result != "success" && row.Result != "" {
		out.problem("the last pass failed (%s): %s", row.Result, journalCommand(u))
	}
	if _, cfg := project.CheckResult(p); cfg != nil {
		every := (&scheduled{interval: cfg.Polling.Interval}).every()
		if !strings.Contains(u.text, "\n"+timerLines(every)+"\n") {
			out.problem("polling.interval_ms has changed since, a pass is wanted every %s: %s", every, again)
		}
	}
}

func journalCommand(u installedUnit) string {
	unit := strings.TrimSuffix(filepath.Base(u.Service), ".service")
	if u.system {
		return "journalctl -u " + unit
	}
	return "journalctl --user -u " + unit
}
