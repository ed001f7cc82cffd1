package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// UnitMark begins every unit that Install wrote. Others are never rewritten or removed.
const UnitMark = "# Written by symphony schedule install"

type unit struct{ path, text string }

// UnitDirs returns the directories of units. Which of them the user's systemd reads depends on the XDG_CONFIG_HOME that it was
// started with, which may differ from the shell's.
func UnitDirs(w *term.Env, system bool, home string) []string {
	if system {
		return []string{"/etc/systemd/system"}
	}
	dirs := []string{filepath.Join(home, ".config", "systemd", "user")}
	if base := w.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) && filepath.Join(base, "systemd", "user") != dirs[0] {
		dirs = append(dirs, filepath.Join(base, "systemd", "user"))
	}
	return dirs
}

// units returns service and timer, the service first: systemd refuses a timer without one.
func (s *plan) units() []unit {
	base := filepath.Join(s.unitDir, nameOf(s.p))
	return []unit{{base + ".service", s.service()}, {base + ".timer", s.timer()}}
}

func (s *plan) header() string {
	return fmt.Sprintf("%s for %q;\n# the next one overwrites what is changed here: a drop-in stays (systemctl edit).\n", UnitMark, s.p.Path)
}

const programLine = "# Program: "

func (s *plan) service() string {
	var b strings.Builder
	fmt.Fprintf(&b, `%s%s%q

[Unit]
Description=A pass of %s
# A pass may be started as often as you like.
StartLimitIntervalSec=0

[Service]
Type=oneshot
# Workers get scopes of their own. Without them, they must outlive the pass.
KillMode=process
`, s.header(), programLine, s.program, nameOf(s.p))
	if s.system {
		fmt.Fprintf(&b, "User=%s\n", s.account.name)
	}
	for _, v := range s.vars {
		fmt.Fprintf(&b, "Environment=%s\n", UnitWord(v))
	}
	argv := s.command(project.TriggerTimer)
	words := []string{UnitWord(argv[0])} // systemd expands no variable in the path of the program
	for _, arg := range argv[1:] {
		words = append(words, strings.ReplaceAll(UnitWord(arg), "$", "$$"))
	}
	fmt.Fprintf(&b, "ExecStart=%s\n", strings.Join(words, " "))
	return b.String()
}

// timer is Persistent: systemd runs the pass that was missed while the machine was off.
func (s *plan) timer() string {
	every := timerInterval(s.interval)
	return fmt.Sprintf(`%s
[Unit]
Description=Passes of %s, every %s

[Timer]
%s
AccuracySec=1s
Persistent=true

[Install]
WantedBy=timers.target
`, s.header(), nameOf(s.p), every, timerLines(every))
}

// timerInterval is the interval of a timer, which can't be less than a second.
func timerInterval(polling time.Duration) time.Duration { return max(polling, time.Second) }

// timerLines uses the calendar if the interval divides a minute, hour or day: such a timer also knows what it missed during a
// suspend. Other intervals run from one pass to the next.
func timerLines(every time.Duration) string {
	const day = 24 * time.Hour
	step := func(whole, unit time.Duration) string {
		if every == whole {
			return "00"
		}
		return fmt.Sprintf("00/%d", every/unit)
	}
	switch {
	case every%time.Second != 0:
	case every == time.Second:
		return "OnCalendar=*-*-* *:*:*"
	case time.Minute%every == 0:
		return "OnCalendar=*-*-* *:*:" + step(time.Minute, time.Second)
	case every%time.Minute == 0 && time.Hour%every == 0:
		return "OnCalendar=*-*-* *:" + step(time.Hour, time.Minute) + ":00"
	case every%time.Hour == 0 && day%every == 0:
		return "OnCalendar=*-*-* " + step(day, time.Hour) + ":00:00"
	}
	return fmt.Sprintf("OnActiveSec=1s\nOnUnitActiveSec=%dms", every.Milliseconds())
}

// UnitWord quotes a word for a line of a unit.
func UnitWord(word string) string {
	word = strings.ReplaceAll(word, "%", "%%")
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-+=:@,%$", r) && r <= 0x7f
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// managerPatience is for a systemd of the user that loginctl enable-linger has just started.
const managerPatience = 10 * time.Second

// refuseSystemd says why systemd can't run the passes.
func (s *plan) refuseSystemd(ctx context.Context, patience time.Duration) error {
	w, name := s.caller.Env, s.account.name
	switch {
	case !proc.ReadHostUnit(w.Environ).Booted:
		return &reconcile.Error{Code: "no_scheduler", Message: "no systemd runs this machine", Hint: "symphony schedule install --cron, or keep symphony tick --loop running"}
	case s.system && os.Geteuid() == 0:
		return nil
	case s.system:
		line := "sudo "
		for _, v := range s.vars {
			if !strings.HasPrefix(v, "HOME=") { // that of the account is used
				line += term.ShellQuote(v) + " "
			}
		}
		line += term.ShellQuote(s.program) + " schedule install --system --run-as " + term.ShellQuote(name)
		if s.stateDir != "" {
			line += " --state-dir " + term.ShellQuote(s.stateDir)
		}
		return needsRoot(line + " -w " + term.ShellQuote(s.p.Path))
	case !lingers(name):
		return &reconcile.Error{
			Code: "no_linger", Message: fmt.Sprintf("%s does not linger: a timer of yours would stop at your last logout, and begin at a login only", name),
			Hint: "loginctl enable-linger " + term.ShellQuote(name) + ", then again; or --system, or --cron",
		}
	}
	for end := w.Now().Add(patience); !proc.ReadHostUnit(w.Environ).Manager; {
		if !w.Now().Before(end) || !project.Sleep(ctx, project.WaitStep) {
			return &reconcile.Error{
				Code: "no_scheduler", Message: fmt.Sprintf("the systemd of %s does not answer at %s", name, runtimeDir(w)),
				Hint: fmt.Sprintf("sudo systemctl start user@%d.service; or --system, or --cron", s.account.uid),
			}
		}
	}
	return nil
}

func needsRoot(line string) error {
	return &reconcile.Error{Code: "needs_root", Message: "only root can change the units of the system", Hint: line}
}

// lingers reports whether the systemd of a user runs without a login.
func lingers(name string) bool { return project.Exists(filepath.Join("/var/lib/systemd/linger", name)) }

// installUnits writes the units that differ, and has systemd load and start them.
func (s *plan) installUnits(ctx context.Context) (changed bool, err error) {
	w, ctl := s.caller.Env, systemctl{s.caller.Env, s.system}
	if err := s.findUnitDir(ctx, ctl); err != nil {
		return false, err
	}
	units := s.units()
	for _, u := range units {
		was, err := readOwnUnit(u.path)
		if err != nil {
			return false, err
		}
		if was == u.text {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(u.path), 0o755); err != nil {
			return false, unitError(u.path, err)
		}
		if err := durable.WriteFile(u.path, []byte(u.text), 0o644); err != nil {
			return false, unitError(u.path, err)
		}
		changed = true
		printChange(w, u, was)
	}
	timer := filepath.Base(units[1].path)
	found, err := ctl.properties(ctx, []string{"ActiveState", "UnitFileState", "NeedDaemonReload", "LoadState"}, timer, filepath.Base(units[0].path))
	if err != nil {
		return changed, err
	}
	stale := changed
	for _, properties := range found {
		stale = stale || properties["NeedDaemonReload"] == "yes" || properties["LoadState"] == "not-found"
	}
	on := found[timer]["ActiveState"] == "active" && found[timer]["UnitFileState"] == "enabled"
	var calls [][]string
	if stale {
		calls = append(calls, []string{"daemon-reload"})
	}
	if !on {
		calls = append(calls, []string{"enable", "--quiet", timer})
	}
	if stale || !on { // a running timer would keep its old interval
		calls = append(calls, []string{"restart", timer})
	}
	for _, args := range calls {
		if _, err := ctl.run(ctx, args...); err != nil {
			return changed, err
		}
	}
	if len(calls) > 0 {
		fmt.Fprintf(w.Stdout, "%s runs a pass every %s\n", timer, timerInterval(s.interval))
	}
	return len(calls) > 0, nil
}

// findUnitDir asks systemd which of the directories it reads.
func (s *plan) findUnitDir(ctx context.Context, ctl systemctl) error {
	read, err := ctl.run(ctx, "show", "-p", "UnitPath", "--value")
	if err != nil {
		return err
	}
	dirs := UnitDirs(s.caller.Env, s.system, s.account.home)
	for _, dir := range dirs {
		if strings.Contains(" "+strings.TrimSpace(read)+" ", " "+dir+" ") {
			s.unitDir = dir
			return nil
		}
	}
	return &reconcile.Error{
		Code: "schedule_failed", Message: "systemd reads no units in " + strings.Join(dirs, " nor in "),
		Hint: "it has another XDG_CONFIG_HOME: set the same here; systemctl --user show -p UnitPath shows what it reads",
	}
}

// readOwnUnit reads a unit that is to be rewritten or removed; empty if there is none.
func readOwnUnit(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", unitError(path, err)
	}
	if !strings.HasPrefix(string(data), UnitMark) {
		return "", &reconcile.Error{
			Code: "schedule_foreign", Message: path + " was not written by symphony schedule install",
			Hint: "see what it is; move it away, and try again",
		}
	}
	return string(data), nil
}

func unitError(path string, err error) error {
	return &reconcile.Error{Code: "schedule_failed", Message: path + ": " + err.Error(), Hint: "look at the permissions of its folder", Err: err}
}

// printChange prints the path of a written unit, and the lines that have changed.
func printChange(w *term.Env, u unit, was string) {
	if was == "" {
		fmt.Fprintln(w.Stdout, "wrote", term.Visible(u.path))
		return
	}
	fmt.Fprintln(w.Stdout, "rewrote", term.Visible(u.path))
	printMissing := func(mark string, lines, other []string) {
		for _, line := range lines {
			if !slices.Contains(other, line) && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "Description=") {
				fmt.Fprintln(w.Stdout, "  "+mark, term.Visible(line))
			}
		}
	}
	before, after := strings.Split(was, "\n"), strings.Split(u.text, "\n")
	printMissing("-", before, after)
	printMissing("+", after, before)
}

// removeUnits stops a timer and removes its files and the stamp of Persistent. A pass that is running ends by itself.
func removeUnits(ctx context.Context, p *project.Project, u installedUnit) error {
	for _, path := range []string{u.Service, u.timer} {
		if _, err := readOwnUnit(path); err != nil {
			return err
		}
	}
	ctl, timer, service := systemctl{p.Env, u.system}, filepath.Base(u.timer), filepath.Base(u.Service)
	stamp := "/var/lib/systemd/timers/stamp-" + timer
	if !u.system {
		stamp = filepath.Join(p.Env.Home, ".local", "share", "systemd", "timers", "stamp-"+timer)
	}
	if host := proc.ReadHostUnit(p.Env.Environ); host.Booted && (u.system || host.Manager) {
		if err := ctl.stop(ctx, timer, service); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(p.Env.Stderr, "symphony: warning: your systemd does not answer: the files of %s are removed, and nothing is stopped\n", timer)
	}
	wanted := filepath.Join(filepath.Dir(u.timer), "timers.target.wants", timer)
	for _, path := range []string{wanted, stamp, u.timer, u.Service} { // the service last: while it exists, remove can be repeated
		if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return unitError(path, err)
		}
		fmt.Fprintln(p.Env.Stdout, "removed", term.Visible(path))
	}
	for _, path := range []string{u.timer + ".d", u.Service + ".d"} {
		if project.Exists(path) {
			fmt.Fprintf(p.Env.Stderr, "symphony: warning: %s is yours, and stays\n", term.Visible(path))
		}
	}
	return nil
}

// systemctl speaks to the systemd of the system or of the user.
type systemctl struct {
	w      *term.Env
	system bool
}

// run returns the output of systemctl.
func (s systemctl) run(ctx context.Context, args ...string) (string, error) {
	manager := "--user"
	if s.system {
		manager = "--system"
	}
	env := []string{"XDG_RUNTIME_DIR=" + runtimeDir(s.w), "TZ=UTC"} // show prints local times
	return runProgram(ctx, s.w, "", env, "systemctl", append([]string{manager, "--no-pager", "--no-ask-password"}, args...)...)
}

// stop disables a timer and makes systemd forget both units.
func (s systemctl) stop(ctx context.Context, timer, service string) error {
	found, err := s.properties(ctx, []string{"LoadState", "ActiveState"}, timer, service)
	if err != nil {
		return err
	}
	var calls [][]string
	if found[timer]["LoadState"] == "loaded" {
		calls = append(calls, []string{"disable", "--quiet", "--now", timer}, []string{"clean", "--what=state", timer})
	}
	for _, name := range []string{timer, service} { // a failed unit would be listed until the next boot
		if found[name]["ActiveState"] == "failed" {
			calls = append(calls, []string{"reset-failed", name})
		}
	}
	for _, args := range calls {
		if _, err := s.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// properties returns properties of units, by the unit's Id.
func (s systemctl) properties(ctx context.Context, names []string, units ...string) (map[string]map[string]string, error) {
	out, err := s.run(ctx, append([]string{"show", "-p", "Id," + strings.Join(names, ",")}, units...)...)
	if err != nil {
		return nil, err
	}
	found := map[string]map[string]string{}
	for block := range strings.SplitSeq(out, "\n\n") {
		values := map[string]string{}
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values[name] = value
		}
		found[values["Id"]] = values
	}
	return found, nil
}

// runtimeDir is where the user's systemd listens.
func runtimeDir(w *term.Env) string {
	if dir := w.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return dir
	}
	return "/run/user/" + strconv.Itoa(os.Geteuid())
}

// programBound is how long systemctl or crontab may take.
const programBound = 20 * time.Second

// runProgram runs systemctl or crontab with nothing of our environment but PATH and the account. The error holds what the
// program printed on stderr.
func runProgram(ctx context.Context, w *term.Env, stdin string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programBound)
	defer cancel()
	path, err := findProgram(w, name)
	if err != nil {
		return "", &reconcile.Error{Code: "no_scheduler", Message: name + " is not to be found", Hint: "see whether it is installed, and in PATH", Err: err}
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.Env = append([]string{"LC_ALL=C", "PATH=" + w.Getenv("PATH"), "HOME=" + w.Home}, env...)
	for _, name := range []string{"USER", "LOGNAME"} {
		if v, set := w.Lookup(name); set {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err = cmd.Run(); err == nil {
		return stdout.String(), nil
	}
	why := strings.Join(strings.Fields(stderr.String()), " ")
	if ctx.Err() != nil {
		why = "no answer: " + ctx.Err().Error()
	}
	return stdout.String(), &reconcile.Error{
		Code: "schedule_failed", Message: fmt.Sprintf("%s %s: %v: %s", name, strings.Join(args, " "), err, why),
		Hint: "run that command yourself to see more; what was written stays, and the same command goes on from there", Err: err,
	}
}

// findProgram looks through the PATH of the caller, where exec.LookPath would take that of this process.
func findProgram(w *term.Env, name string) (string, error) {
	for _, dir := range filepath.SplitList(w.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
