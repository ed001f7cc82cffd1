package schedule

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// cron is the schedule of a line in the user's crontab.
type cron struct {
	*plan
	crontab, was string // the crontab and its line, where that is installed
}

func (cron) options() Options    { return Options{Cron: true} }
func (c cron) installed() string { return c.was }

func (c cron) remove(ctx context.Context) error {
	changed, line := withLine(c.crontab, "", c.mark())
	if err := writeCrontab(ctx, c.caller.Env, changed); err != nil {
		return err
	}
	c.changes.done("removed from your crontab: " + line)
	return nil
}

func (c cron) addStatus(_ context.Context, out *Status) {
	out.Cron = &CronStatus{c.was, cronRuns()}
	if runs := out.Cron.Daemon; runs != nil && !*runs {
		out.addProblem("no cron daemon is running on this machine: %s", startCron("/"))
	}
}

// text implements scheduler. For the shell the text after # is a comment; by it withLine finds
// our line.
func (c cron) text() (string, error) {
	command := c.command(wiring.TriggerCron)
	for _, arg := range append(command, c.vars...) {
		if strings.Contains(arg, `\`) {
			return "", failed(
				"rename it, or use a systemd timer",
				"%q contains a backslash, which cron programs interpret differently",
				arg,
			)
		}
	}
	var words []string
	for _, v := range c.vars {
		name, value, _ := strings.Cut(v, "=")
		words = append(words, name+"="+cronWord(value))
	}
	words = append(words, text.Map(command, cronWord)...)
	return "* * * * * " + strings.Join(words, " ") + c.mark() + "\n", nil
}

// cronWord quotes a word for a crontab, where a % ends the command, also between quotes.
func cronWord(word string) string { return strings.ReplaceAll(text.ShellQuote(word), "%", `\%`) }

// mark is the end of our line.
func (c cron) mark() string { return " # " + c.name() }

func (cron) refuse(context.Context, time.Duration) error {
	if _, err := exec.LookPath("crontab"); err != nil {
		return reconcile.NewError(
			"schedule_failed",
			"the program crontab was not found",
			"install cron, or keep symphony tick --loop running",
		)
	}
	return nil
}

// readCrontab reads the user's crontab. A crontab that can't be read must not be written.
func readCrontab(ctx context.Context, w *environ.Env) (string, error) {
	text, err := runProgram(ctx, w, "", nil, "crontab", "-l")
	if err != nil && text == "" && strings.Contains(err.Error(), "no crontab for") {
		return "", nil
	}
	return text, err
}

// writeCrontab writes the user's crontab, or removes it if it is empty.
func writeCrontab(ctx context.Context, w *environ.Env, text string) error {
	arg := "-"
	if text == "" {
		arg = "-r"
	}
	_, err := runProgram(ctx, w, text, nil, "crontab", arg)
	return err
}

// withLine replaces the line with our mark, or appends the line; an empty line removes ours.
// Every other byte is kept. was is our line before.
func withLine(crontab, line, mark string) (text, was string) {
	var b strings.Builder
	if line != "" {
		line += "\n"
	}
	for present := range strings.Lines(crontab) {
		bare := strings.TrimRight(present, "\n")
		if strings.HasSuffix(bare, mark) && !strings.HasPrefix(bare, "#") {
			was = bare
			b.WriteString(line)
			line = ""
			continue
		}
		b.WriteString(present)
	}
	if line != "" && crontab != "" && !strings.HasSuffix(crontab, "\n") {
		b.WriteString("\n")
	}
	b.WriteString(line)
	return b.String(), was
}

func (c cron) install(ctx context.Context) error {
	w := c.caller.Env
	line, err := c.text()
	if err != nil {
		return err
	}
	line = strings.TrimSuffix(line, "\n")
	crontab, err := readCrontab(ctx, w)
	if err != nil {
		return err
	}
	changed, was := withLine(crontab, line, c.mark())
	verb := "added to your crontab:"
	switch {
	case changed == crontab:
		verb = "already in your crontab:"
	case was != "":
		verb = "updated in your crontab:"
	}
	if changed != crontab {
		if err := writeCrontab(ctx, w, changed); err != nil {
			return err
		}
	}
	c.changes.done(verb + " " + line)
	if runs := cronRuns(); runs != nil && !*runs {
		c.changes.warn("no cron daemon is running on this machine: " + startCron("/"))
	}
	return nil
}

// startCron is how root starts a cron daemon, with the files of this machine below root.
func startCron(root string) string {
	name := text.First([]string{"cron", "crond", "fcron"}, func(name string) bool {
		return wiring.Exists(filepath.Join(root, "usr/sbin", name)) // often not in PATH
	})
	switch {
	case name == "":
		return "install one, such as cron or cronie"
	case wiring.Exists(filepath.Join(root, "run/systemd/system")): // as in sd_booted(3)
		return "systemctl enable --now " + name
	default:
		return "start it as root: service " + name + " start"
	}
}

// cronRuns reports whether a cron daemon runs; nil if /proc does not show other processes.
func cronRuns() *bool {
	if !wiring.Exists("/proc/1/comm") {
		return nil
	}
	list, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is well-formed
	return new(slices.ContainsFunc(list, func(path string) bool {
		name, _ := os.ReadFile(path) // the process may have ended
		return slices.Contains([]string{"cron", "crond", "fcron"}, strings.TrimSpace(string(name)))
	}))
}
