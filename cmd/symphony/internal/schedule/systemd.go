package schedule

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/runner/host/local/proc"
)

// unitMark begins every unit that install writes. Other units are never overwritten or removed.
const unitMark = "# Written by symphony schedule install"

// unit is a systemd unit: its path and its text, which is empty if the file does not exist.
type unit struct{ path, text string }

// units are a timer and its service.
type units struct {
	env            *term.Env
	system         bool // of the system instance of systemd, not of the user's
	name           string
	service, timer unit
}

func newUnits(w *term.Env, system bool, name string) *units {
	path := filepath.Join(w.Home, ".config", "systemd", "user", name)
	if system {
		path = filepath.Join("/etc/systemd/system", name)
	}
	return &units{env: w, system: system, name: name, service: unit{path: path + ".service"}, timer: unit{path: path + ".timer"}}
}

func (u *units) files() []*unit { return []*unit{&u.service, &u.timer} }

// read reads the files. It refuses units that install did not write.
func (u *units) read() error {
	for _, f := range u.files() {
		data, err := os.ReadFile(f.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unitError(err)
		}
		if f.text = string(data); err == nil && !strings.HasPrefix(f.text, unitMark) {
			return foreign(f.path)
		}
	}
	return nil
}

func foreign(path string) error {
	return exit.Fault("schedule_foreign", path+" was not written by symphony schedule install",
		"see what it is, move it away, and run the command again")
}

func unitError(err error) error { return failed("check the permissions of its directory", "%v", err) }

// lineAfter returns the rest of the line that begins with prefix; empty if there is none.
func lineAfter(text, prefix string) string {
	_, rest, _ := strings.Cut("\n"+text, "\n"+prefix)
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

// timer is the schedule of a systemd timer.
type timer struct {
	*plan
	*units
}

//go:embed symphony.service symphony.timer
var unitFiles embed.FS

var unitTexts = sync.OnceValue(func() *template.Template { return template.Must(template.ParseFS(unitFiles, "*")) })

// write sets the texts of the units.
func (t *timer) write() {
	argv, vars := t.command(project.TriggerTimer), []string{}
	command := unitWord(argv[0]) // systemd expands no variable in the path of the program
	for _, arg := range argv[1:] {
		command += " " + argumentWord(arg)
	}
	for _, v := range t.vars {
		vars = append(vars, unitWord(v))
	}
	values := map[string]any{
		"Mark": unitMark, "Workflow": t.p.Path, "Name": t.name, "Command": command, "Vars": vars,
		"Every": t.every, "Times": timerLines(t.every),
	}
	if t.system {
		values["User"] = t.account.name
	}
	for _, f := range t.files() {
		var b strings.Builder
		_ = unitTexts().ExecuteTemplate(&b, "symphony"+filepath.Ext(f.path), values) // it writes to memory
		f.text = b.String()
	}
}

// text implements scheduler.
func (t *timer) text() (string, error) {
	t.write()
	return fmt.Sprintf("## %s\n%s\n## %s\n%s", t.service.path, t.service.text, t.timer.path, t.timer.text), nil
}

// timerInterval is the interval of a timer, at least a second.
func timerInterval(polling time.Duration) time.Duration { return max(polling, time.Second) }

// timerLines uses a calendar if the interval divides a minute, an hour or a day: such a timer also makes up for what it missed
// during a suspend. Other intervals run from one pass to the next.
func timerLines(every time.Duration) string {
	if every == time.Second {
		return "OnCalendar=*-*-* *:*:*"
	}
	for _, part := range []struct {
		unit, whole time.Duration
		calendar    string
	}{
		{time.Second, time.Minute, "*:*:%s"},
		{time.Minute, time.Hour, "*:%s:00"},
		{time.Hour, 24 * time.Hour, "%s:00:00"},
	} {
		if every%part.unit == 0 && part.whole%every == 0 {
			step := "00"
			if every != part.whole {
				step = fmt.Sprintf("00/%d", every/part.unit)
			}
			return "OnCalendar=*-*-* " + fmt.Sprintf(part.calendar, step)
		}
	}
	return fmt.Sprintf("OnActiveSec=1s\nOnUnitActiveSec=%dms", every.Milliseconds())
}

// unitWord quotes a word for a line of a unit.
func unitWord(word string) string {
	word = strings.ReplaceAll(word, "%", "%%")
	special := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-+=:@,%$", r) && r <= 0x7f
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// argumentWord quotes an argument for ExecStart, where systemd expands variables.
func argumentWord(word string) string { return strings.ReplaceAll(unitWord(word), "$", "$$") }

// managerPatience is how long install waits for a user instance of systemd that loginctl enable-linger has just started.
const managerPatience = 10 * time.Second

// refuse implements scheduler.
func (t *timer) refuse(ctx context.Context, patience time.Duration) error {
	w, name := t.env, t.account.name
	switch {
	case !proc.ReadHostUnit(w.Environ).Booted:
		return exit.Fault("no_scheduler", "this machine does not run systemd", "symphony schedule install --cron, or keep symphony tick --loop running")
	case t.system && os.Geteuid() == 0:
		return nil
	case t.system:
		line := "sudo "
		for _, v := range t.vars {
			if !strings.HasPrefix(v, "HOME=") { // --run-as implies it
				line += term.ShellQuote(v) + " "
			}
		}
		line += term.ShellQuote(t.program) + " schedule install --system --run-as " + term.ShellQuote(name)
		if t.stateDir != "" {
			line += " --state-dir " + term.ShellQuote(t.stateDir)
		}
		return rootOnly(line + " -w " + term.ShellQuote(t.p.Path))
	case !lingers(name):
		return exit.Fault("no_linger",
			fmt.Sprintf("%s does not linger: a user timer would run only while you are logged in", name),
			"run loginctl enable-linger "+term.ShellQuote(name)+" and try again, or use --system or --cron")
	}
	for end := w.Now().Add(patience); !proc.ReadHostUnit(w.Environ).Manager; {
		if !w.Now().Before(end) || !project.Sleep(ctx, project.WaitStep) {
			return exit.Fault("no_scheduler", fmt.Sprintf("the systemd user instance of %s does not answer", name),
				fmt.Sprintf("run sudo systemctl start user@%d.service, or use --system or --cron", t.account.uid))
		}
	}
	return nil
}

func rootOnly(line string) error {
	return exit.Fault("needs_root", "only root can change system units", line)
}

// lingers reports whether the systemd of a user runs without a login.
func lingers(name string) bool { return project.Exists(filepath.Join("/var/lib/systemd/linger", name)) }

// install implements scheduler: it writes the units that differ, and lets systemd load and start them.
func (t *timer) install(ctx context.Context) error {
	installed := newUnits(t.env, t.system, t.name)
	if err := installed.read(); err != nil {
		return err
	}
	t.write()
	for i, f := range t.files() {
		if f.text == installed.files()[i].text {
			continue
		}
		err := os.MkdirAll(filepath.Dir(f.path), 0o755)
		if err == nil {
			err = durable.WriteFile(f.path, []byte(f.text), 0o644)
		}
		if err != nil {
			return unitError(err)
		}
		fmt.Fprintln(t.env.Stdout, "wrote", term.Visible(f.path))
	}
	// All steps each time: an earlier install may have been interrupted here.
	name := t.name + ".timer"
	for _, args := range [][]string{{"daemon-reload"}, {"enable", "--quiet", name}, {"restart", name}} { // without restart it keeps its old interval
		if _, err := t.systemctl(ctx, args...); err != nil {
			return err
		}
	}
	fmt.Fprintf(t.env.Stdout, "%s runs a pass every %s\n", name, t.every)
	return nil
}

// remove stops a timer and removes its files and the stamp of Persistent. A pass that is running ends by itself.
func (u *units) remove(ctx context.Context) error {
	timer, stamps := u.name+".timer", "/var/lib/systemd/timers"
	if !u.system {
		stamps = filepath.Join(u.env.Home, ".local", "share", "systemd", "timers")
	}
	if host := proc.ReadHostUnit(u.env.Environ); !host.Booted || !u.system && !host.Manager {
		fmt.Fprintf(u.env.Stderr, "symphony: warning: systemd does not answer: the files of %s are removed, but the timer is not stopped\n", timer)
	} else {
		if u.timer.text != "" {
			if _, err := u.systemctl(ctx, "disable", "--quiet", "--now", timer); err != nil {
				return err
			}
		}
		for _, name := range []string{timer, u.name + ".service"} { // a failed unit would be listed until the next boot
			_, _ = u.systemctl(ctx, "reset-failed", name) // an error if it is not loaded
		}
	}
	wanted := filepath.Join(filepath.Dir(u.timer.path), "timers.target.wants", timer)
	// The service last: while it exists, remove can be repeated.
	for _, path := range []string{wanted, filepath.Join(stamps, "stamp-"+timer), u.timer.path, u.service.path} {
		if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return unitError(err)
		}
		fmt.Fprintln(u.env.Stdout, "removed", term.Visible(path))
	}
	for _, path := range []string{u.timer.path + ".d", u.service.path + ".d"} {
		if project.Exists(path) {
			fmt.Fprintf(u.env.Stderr, "symphony: warning: kept %s, which symphony did not write\n", term.Visible(path))
		}
	}
	return nil
}

// systemctl calls systemctl for the system instance or the user instance of systemd.
func (u *units) systemctl(ctx context.Context, args ...string) (string, error) {
	manager, runtime := "--user", u.env.Getenv("XDG_RUNTIME_DIR")
	if u.system {
		manager = "--system"
	}
	if runtime == "" {
		runtime = "/run/user/" + strconv.Itoa(os.Geteuid())
	}
	env := []string{"XDG_RUNTIME_DIR=" + runtime, "TZ=UTC"} // show prints local times
	return runProgram(ctx, u.env, "", env, "systemctl", append([]string{manager, "--no-pager", "--no-ask-password"}, args...)...)
}

// properties returns properties of both units, by the name of the unit.
func (u *units) properties(ctx context.Context, names ...string) (map[string]map[string]string, error) {
	out, err := u.systemctl(ctx, "show", "-p", "Id,"+strings.Join(names, ","), u.name+".timer", u.name+".service")
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

// programBound is how long systemctl, launchctl or crontab may take.
const programBound = 20 * time.Second

// runProgram runs systemctl, launchctl or crontab with PATH and the account as the only variables of our environment. The error contains
// what the program printed on stderr.
func runProgram(ctx context.Context, w *term.Env, stdin string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.Env = append(env, "LC_ALL=C", "HOME="+w.Home)
	for _, name := range []string{"PATH", "USER", "LOGNAME"} {
		if v, set := w.Lookup(name); set {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	why := strings.Join(strings.Fields(stderr.String()), " ")
	if ctx.Err() != nil {
		why = "no answer: " + ctx.Err().Error()
	}
	return stdout.String(), failed("run that command yourself to see more; then repeat yours, which continues from there",
		"%s %s: %v: %s", name, strings.Join(args, " "), err, why)
}
