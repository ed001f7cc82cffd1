package schedule

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/state"
)

// installation is everything that Install wrote, as far as it still exists.
type installation struct {
	kinds []scheduler
	// unreadable is the reason why a unit can't be read, such as its permissions.
	unreadable error
	// noCrontab is the reason why the crontab can't be read. Some accounts are not allowed to
	// have a crontab.
	noCrontab error
	crontab   string
	changes   *Changes // lists the removed parts
}

// inFiles is a scheduler whose installation is in files of its own.
type inFiles interface {
	scheduler
	read() error
}

// findInstalled reads the units and the line of the crontab. It does not ask systemd or
// launchd.
func findInstalled(ctx context.Context, p *wiring.Project) (in installation) {
	in.changes = &Changes{}
	s := &plan{caller: p, p: p, changes: in.changes}
	units := []inFiles{
		newTimer(s, false), // of the user
		newTimer(s, true),  // of the system
		newLaunchd(s),
	}
	for _, kind := range units {
		err := kind.read()
		switch {
		case errors.Is(err, errForeign):
			// someone else wrote a file with this name
		case err != nil:
			in.unreadable = errors.Join(in.unreadable, err)
		case kind.installed() != "":
			in.kinds = append(in.kinds, kind)
		}
	}
	if _, err := exec.LookPath("crontab"); err == nil {
		in.crontab, in.noCrontab = readCrontab(ctx, p.Env)
		line := cron{plan: s, crontab: in.crontab}
		_, line.was = withLine(in.crontab, "", line.mark())
		if line.was != "" {
			in.kinds = append(in.kinds, line)
		}
	}
	return in
}

// Running returns the schedule that runs passes of a project, and how to remove it: the
// schedule of Install, an enabled timer of the package, or a line of the crontab that names
// the project. The first result is empty if there is none.
func Running(ctx context.Context, p *wiring.Project, flags string) (what, hint string) {
	found := findInstalled(ctx, p)
	if len(found.kinds) > 0 {
		return "an installed schedule", "symphony schedule remove " + flags
	}
	timer := packagedTimer(ctx, p)
	if timer != "" {
		return timer, "systemctl --user disable --now " + text.ShellQuote(timer)
	}
	line := found.lineByHand(p)
	if line != "" {
		return "a line in your crontab", "crontab -e, the line " + line
	}
	return "", ""
}

// packagedTimer returns the name of the timer of the deb and the rpm that the account enabled
// for the project, by any name of its folder; empty for none.
func packagedTimer(ctx context.Context, p *wiring.Project) string {
	dir := filepath.Join(p.Env.Home, ".config", "systemd", "user", "timers.target.wants")
	enabled, _ := os.ReadDir(dir) // systemd does not start units that this account can't read
	for _, link := range enabled {
		name := link.Name()
		// its package may be gone
		if !strings.HasPrefix(name, "symphony@") || !wiring.Exists(filepath.Join(dir, name)) {
			continue
		}
		unescape := []string{"--unescape", "--path", "--instance", name}
		said, err := runProgram(ctx, p.Env, "", nil, "systemd-escape", unescape...)
		if err != nil {
			continue
		}
		folder := strings.TrimSuffix(said, "\n")
		if paths.Real(filepath.Join(folder, "WORKFLOW.md")) == paths.Real(p.Path) {
			return name
		}
	}
	return ""
}

// lineByHand returns the line of the crontab that names the project, or goes to its folder; empty if
// there is none.
func (in installation) lineByHand(p *wiring.Project) string {
	marks := []string{p.StateDir}
	if p.Path != "" {
		dir := filepath.Dir(p.Path)
		marks = append(marks, p.Path, "cd "+dir+" ", "cd "+dir+";")
	}
	for line := range strings.Lines(in.crontab) {
		line = strings.TrimSpace(line)
		full := strings.NewReplacer("$HOME/", p.Env.Home+"/", " ~/", " "+p.Env.Home+"/").Replace(line)
		ours := slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(full, mark) })
		if ours && strings.Contains(line, "symphony") && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// AsScheduled returns the project as passes see it in cron's bare environment. An installed
// schedule names the workflow, and may pass on the caller's state directory and variables; a
// schedule yet to be installed does. stateFlag takes precedence.
func AsScheduled(ctx context.Context, p *wiring.Project, stateFlag string) *wiring.Project {
	found := findInstalled(ctx, p)
	isNone := len(found.kinds) == 0 && found.lineByHand(p) == ""
	if stateFlag == "" && (isNone || found.passesOnStateDir(p.StateDir)) {
		stateFlag = p.StateDir
	}
	var vars []string
	for _, name := range pathVars {
		value := p.Env.Getenv(name)
		if value != "" && (isNone || found.passesOnVariable(name, value)) {
			vars = append(vars, name+"="+value)
		}
	}
	return underSchedule(p, ownAccount(p.Env), stateFlag, vars)
}

// passesOnStateDir reports whether an installed schedule passes on a state directory.
func (in installation) passesOnStateDir(dir string) bool {
	return in.contains(
		" --state-dir "+cronWord(dir)+" ",
		" --state-dir "+argumentWord(dir)+" ",
		"<string>--state-dir</string>\n\t\t<string>"+html.EscapeString(dir)+"</string>",
	)
}

// passesOnVariable reports whether an installed schedule passes on a variable with this value.
func (in installation) passesOnVariable(name, value string) bool {
	return in.contains(
		" "+name+"="+cronWord(value)+" ",
		"\nEnvironment="+unitWord(name+"="+value)+"\n",
		"<key>"+name+"</key>\n\t\t<string>"+html.EscapeString(value)+"</string>",
	)
}

// contains reports whether an installed schedule contains one of the texts: in a crontab, a unit or a
// property list the same setting is written differently.
func (in installation) contains(forms ...string) bool {
	return slices.ContainsFunc(in.kinds, func(kind scheduler) bool {
		installed := kind.installed()
		return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(installed, form) })
	})
}

// Status is the JSON of schedule status.
type Status struct {
	Alive    bool                `json:"alive"`
	Loop     bool                `json:"loop"`
	Timers   []TimerStatus       `json:"timers"`
	Launchd  *LaunchdStatus      `json:"launchd"`
	Cron     *CronStatus         `json:"cron"`
	LastPass *wiring.LastPassRow `json:"last_pass"`
	LastRun  *scheduledPass      `json:"last_scheduled"`
	// FirstPass is when the first pass of a schedule that was just installed comes at the
	// latest; null if it has come, or is late.
	FirstPass *time.Time `json:"first_pass_at"`
	Problems  []string   `json:"problems"` // each with the next step
	Project   struct {
		WorkflowPath string `json:"workflow_path"`
		StateDir     string `json:"state_dir"`
	} `json:"project"`
}

// scheduledPass is the last pass of the active schedule, or of any schedule if none is active.
type scheduledPass struct {
	Trigger   string    `json:"trigger"`
	StartedAt time.Time `json:"started_at"`
}

// TimerStatus is systemd's state of an installed timer.
type TimerStatus struct {
	Unit    string     `json:"unit"`
	Manager string     `json:"manager"` // user or system
	RunAs   string     `json:"run_as"`
	Enabled bool       `json:"enabled"`
	Active  bool       `json:"active"`
	Next    *time.Time `json:"next_at"` // null for a timer without a calendar
	Last    *time.Time `json:"last_at"`
	Result  string     `json:"last_result"` // of the last pass, in systemd's words
}

// CronStatus is the installed line of the crontab.
type CronStatus struct {
	Line   string `json:"line"`
	Daemon *bool  `json:"daemon_runs"` // null if /proc does not show it
}

func (out *Status) addProblem(format string, args ...any) {
	out.Problems = append(out.Problems, fmt.Sprintf(format, args...))
}

// ReadStatus returns the installed schedule, its faults, and the records of passes.
func ReadStatus(ctx context.Context, p *wiring.Project) (Status, error) {
	out := Status{Timers: []TimerStatus{}, Problems: []string{}, Loop: wiring.Looping(p.StateDir)}
	out.Project.WorkflowPath = p.Path
	out.Project.StateDir = p.StateDir
	found := findInstalled(ctx, p)
	for _, kind := range found.kinds {
		kind.addStatus(ctx, &out)
	}
	if found.unreadable != nil {
		out.addProblem("%s", found.unreadable)
	}
	// beside a timer or a launchd job, the crontab does not matter
	if found.noCrontab != nil && len(out.Timers) == 0 && out.Launchd == nil {
		out.addProblem("%s", found.noCrontab)
	}
	db, err := wiring.OpenForReading(ctx, p)
	if errors.Is(err, state.ErrNoState) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer db.Close()
	rhythm, err := wiring.ReadRhythm(ctx, db, p.Env.Now())
	if err != nil {
		return out, err
	}
	out.Alive = rhythm.Alive || out.Loop
	if rhythm.First != nil {
		out.FirstPass = new(rhythm.First.Due())
	}
	if rhythm.Last.ID > 0 {
		out.LastRun = &scheduledPass{rhythm.Last.Trigger, rhythm.Last.StartedAt.UTC()}
	}
	out.LastPass, err = wiring.LastPass(ctx, db)
	return out, err
}

func (t *timer) addStatus(ctx context.Context, out *Status) {
	row := TimerStatus{Unit: t.name() + ".timer", Manager: "user", RunAs: ownAccount(t.p.Env).name}
	lingering := lingers(row.RunAs)
	install := "symphony schedule install"
	journal := "journalctl --user -u "
	if t.system {
		row.Manager = "system"
		row.RunAs = t.options().RunAs
		lingering = true
		install = "symphony schedule install --system"
		journal = "journalctl -u "
	}
	found, err := t.properties(
		ctx,
		"ActiveState",
		"UnitFileState",
		"NextElapseUSecRealtime",
		"LastTriggerUSec",
		"Result",
	)
	if err == nil {
		timer := found[row.Unit]
		row.Enabled = timer["UnitFileState"] == "enabled"
		row.Active = timer["ActiveState"] == "active"
		row.Last = systemdTime(timer["LastTriggerUSec"])
		row.Result = found[t.name()+".service"]["Result"]
		if row.Active {
			row.Next = systemdTime(timer["NextElapseUSecRealtime"])
		}
	}
	out.Timers = append(out.Timers, row)
	switch {
	case !lingering: // the user's systemd ends with the last logout, or ended already
		out.addProblem(
			"%s does not linger, so the timer stops at the last logout: loginctl enable-linger %[1]s",
			row.RunAs,
		)
	case err != nil:
		out.addProblem("systemd does not answer: %s", exit.From(err).Message)
	case !row.Enabled || !row.Active:
		out.addProblem("%s is not switched on: %s -w %s", row.Unit, install, text.ShellQuote(t.p.Path))
	}
	if row.Result != "success" && row.Result != "" {
		out.addProblem("the last pass failed (%s): %s", row.Result, journal+t.name())
	}
}

// systemdTime parses a time as systemctl prints it with TZ=UTC; nil if there is none.
func systemdTime(text string) *time.Time {
	t, err := time.Parse("Mon 2006-01-02 15:04:05 MST", text)
	if err != nil {
		return nil
	}
	return &t
}

// Verdict is whether a schedule is active.
type Verdict struct {
	Text    string
	Next    *time.Time // of a timer that waits for its first pass
	Dead    bool       // nothing runs passes
	Problem string     // why nothing runs passes, with the next step; empty unless Dead
}

// OfYourOwn tells who may have a schedule of their own how its passes count as such, as the end of
// a sentence; empty if no pass has run by hand.
func (out *Status) OfYourOwn() string {
	if out.LastPass == nil || out.LastPass.Trigger != wiring.TriggerManual {
		return ""
	}
	return "; a crontab line or timer of your own needs symphony tick --trigger cron"
}

// Judge reports whether the schedule is active.
func (out *Status) Judge(now time.Time) Verdict {
	if out.Alive && out.FirstPass == nil {
		return Verdict{Text: "active"}
	}
	for _, t := range out.Timers { // the first pass of a timer that was just installed
		if t.Enabled && t.Active && t.Last == nil && t.Next != nil && t.Next.After(now) {
			return Verdict{Text: "installed, first pass", Next: t.Next}
		}
	}
	nothing := len(out.Timers) == 0 && out.Launchd == nil && out.Cron == nil
	if out.FirstPass != nil && (!nothing || len(out.Problems) > 0) { // a problem may hide what is installed
		return Verdict{Text: "installed, first pass at the latest", Next: out.FirstPass}
	}
	verdict := Verdict{
		Text: "not active: no new run starts until you run symphony tick",
		Dead: true,
	}
	switch {
	case nothing:
		verdict.Problem = "no schedule is installed: symphony schedule install -w " +
			text.ShellQuote(out.Project.WorkflowPath) + out.OfYourOwn()
	case out.LastRun == nil && out.Cron != nil: // whether the line is new is not known
		verdict.Text = "not active yet: no pass has come"
		verdict.Problem = "cron has not run a pass yet; if it does not within two minutes: symphony doctor"
	case out.LastRun == nil:
		verdict.Problem = "the schedule has not run a pass yet: symphony doctor"
	default:
		verdict.Problem = "the schedule has missed passes: symphony doctor; " +
			"if the program was moved, symphony schedule install"
	}
	return verdict
}
