package schedule

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/proc"
)

// timer is the schedule of a systemd timer. It consists of two files: the service and the
// timer.
type timer struct{ files }

func newTimer(s *plan, system bool) *timer {
	path := filepath.Join(s.caller.Env.Home, ".config", "systemd", "user", s.name())
	if system {
		path = filepath.Join("/etc/systemd/system", s.name())
	}
	return &timer{files{s, []file{{path: path + ".service"}, {path: path + ".timer"}}, system}}
}

func (t *timer) options() Options {
	return Options{System: t.system, RunAs: lineAfter(t.installed(), "User=")}
}

// lineAfter returns the rest of the line that begins with prefix; empty if there is none.
func lineAfter(text, prefix string) string {
	_, rest, _ := strings.Cut("\n"+text, "\n"+prefix)
	rest, _, _ = strings.Cut(rest, "\n")
	return rest
}

// timerLines uses a calendar if the interval divides a minute, an hour or a day: such a timer
// also makes up for passes missed during a suspend. Other intervals run from pass to pass.
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
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("/._-+=:@,%$", r) &&
			r <= 0x7f
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// argumentWord quotes an argument for ExecStart, where systemd expands variables.
func argumentWord(word string) string { return strings.ReplaceAll(unitWord(word), "$", "$$") }

// managerPatience is how long install waits for a user instance of systemd that loginctl
// enable-linger started just before.
const managerPatience = 10 * time.Second

func (t *timer) refuse(ctx context.Context, patience time.Duration) error {
	w := t.caller.Env
	name := t.account.name
	switch {
	case !proc.ReadHostUnit(w.Environ).Booted:
		return reconcile.NewError("schedule_failed", "this machine does not run systemd",
			"symphony schedule install --cron, or keep symphony tick --loop running")
	case t.system && os.Geteuid() == 0:
		return nil
	case t.system:
		line := "sudo "
		for _, v := range t.vars {
			if !strings.HasPrefix(v, "HOME=") { // --run-as implies it
				line += text.ShellQuote(v) + " "
			}
		}
		line += text.ShellQuote(t.program) + " schedule install --system --run-as " + text.ShellQuote(name)
		if t.stateDir != "" {
			line += " --state-dir " + text.ShellQuote(t.stateDir)
		}
		return rootOnly(line + " -w " + text.ShellQuote(t.p.Path))
	case !lingers(name):
		return reconcile.NewError("schedule_failed",
			fmt.Sprintf("%s does not linger: a timer would run only while you are logged in", name),
			"run loginctl enable-linger "+text.ShellQuote(name)+" and try again, or use --system or --cron")
	}
	for end := w.Now().Add(patience); !proc.ReadHostUnit(w.Environ).Manager; {
		if !w.Now().Before(end) || !wiring.Sleep(ctx, wiring.WaitStep) {
			return reconcile.NewError(
				"schedule_failed",
				fmt.Sprintf("the systemd user instance of %s does not answer", name),
				fmt.Sprintf(
					"run sudo systemctl start user@%d.service, or use --system or --cron",
					t.account.uid,
				),
			)
		}
	}
	return nil
}

func rootOnly(line string) error {
	return reconcile.NewError("needs_root", "only root can change system units", line)
}

// lingers reports whether the systemd of a user runs without a login.
func lingers(name string) bool { return wiring.Exists(filepath.Join("/var/lib/systemd/linger", name)) }

// install implements scheduler: it writes the units that differ, and lets systemd load and
// start them.
func (t *timer) install(ctx context.Context) error {
	if err := t.read(); err != nil {
		return err
	}
	if err := t.write(); err != nil {
		return err
	}
	// All steps each time: an earlier install may have been interrupted here. Without restart
	// the timer keeps its old interval.
	name := t.name() + ".timer"
	for _, args := range [][]string{{"daemon-reload"}, {"enable", "--quiet", name}, {"restart", name}} {
		if _, err := t.systemctl(ctx, args...); err != nil {
			return err
		}
	}
	t.changes.done(fmt.Sprintf("%s runs a pass every %s", name, text.Took(t.every.Milliseconds())))
	return nil
}

// remove implements scheduler. It also removes the stamp of Persistent. A pass that is running
// ends by itself.
func (t *timer) remove(ctx context.Context) error {
	w := t.caller.Env
	name := t.name() + ".timer"
	service := t.list[0]
	unit := t.list[1]
	stamps := "/var/lib/systemd/timers"
	if !t.system {
		stamps = filepath.Join(w.Home, ".local", "share", "systemd", "timers")
	}
	host := proc.ReadHostUnit(w.Environ)
	if !host.Booted || !t.system && !host.Manager {
		t.changes.warn(
			"systemd does not answer: the files of " + name + " are removed, but the timer is not stopped",
		)
	} else if err := t.stop(ctx); err != nil {
		return err
	}
	wanted := filepath.Join(filepath.Dir(unit.path), "timers.target.wants", name)
	// The service last: while it exists, remove can be repeated.
	if err := t.removeFiles(wanted, filepath.Join(stamps, "stamp-"+name), unit.path, service.path); err != nil {
		return err
	}
	for _, path := range []string{unit.path + ".d", service.path + ".d"} {
		if wiring.Exists(path) {
			t.changes.warn("kept " + path + ", which symphony did not write")
		}
	}
	return nil
}

// stop stops the timer and lets systemd forget that its units failed, which it would list until
// the next boot.
func (t *timer) stop(ctx context.Context) error {
	name := t.name() + ".timer"
	if t.list[1].text != "" {
		if _, err := t.systemctl(ctx, "disable", "--quiet", "--now", name); err != nil {
			return err
		}
	}
	for _, unit := range []string{name, t.name() + ".service"} {
		_, _ = t.systemctl(ctx, "reset-failed", unit) // an error if it is not loaded
	}
	return nil
}

// systemctl calls systemctl for the system instance or the user instance of systemd.
func (t *timer) systemctl(ctx context.Context, args ...string) (string, error) {
	manager := "--user"
	runtime := cmp.Or(t.caller.Env.Getenv("XDG_RUNTIME_DIR"), "/run/user/"+strconv.Itoa(os.Geteuid()))
	if t.system {
		manager = "--system"
	}
	env := []string{"XDG_RUNTIME_DIR=" + runtime, "TZ=UTC"} // show prints local times
	return runProgram(
		ctx,
		t.caller.Env,
		"",
		env,
		"systemctl",
		append([]string{manager, "--no-pager", "--no-ask-password"}, args...)...)
}

// properties returns properties of both units, by the name of the unit.
func (t *timer) properties(ctx context.Context, names ...string) (map[string]map[string]string, error) {
	out, err := t.systemctl(
		ctx,
		"show",
		"-p",
		"Id,"+strings.Join(names, ","),
		t.name()+".timer",
		t.name()+".service",
	)
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

// programBound is how long a program may take.
const programBound = 20 * time.Second

// runProgram runs a program, such as systemctl, with PATH and the account as the only
// variables of our environment. The error contains the program's stderr.
func runProgram(
	ctx context.Context,
	w *environ.Env,
	stdin string,
	env []string,
	name string,
	args ...string,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = append(env, "LC_ALL=C", "HOME="+w.Home)
	for _, name := range []string{"PATH", "USER", "LOGNAME"} {
		if v, set := w.Lookup(name); set {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.Stdin = strings.NewReader(stdin)
	stdout, stderr, err := proc.Output(cmd)
	if err == nil {
		return stdout, nil
	}
	why := strings.Join(strings.Fields(stderr), " ")
	if ctx.Err() != nil {
		why = "no answer: " + ctx.Err().Error()
	}
	return stdout, failed(
		"run that command yourself to see more, then repeat yours",
		"%s %s: %v: %s",
		name,
		strings.Join(args, " "),
		err,
		why,
	)
}
