package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
)

const everyMinute = "* * * * * "

// cronLine is our line of the crontab. What follows # is a comment for the shell, and the mark by which the line is found.
func (s *plan) cronLine() (string, error) {
	command := s.command(project.TriggerCron)
	var words []string
	for _, v := range s.vars {
		name, value, _ := strings.Cut(v, "=")
		words = append(words, name+"="+term.ShellQuote(value))
	}
	for _, arg := range command {
		words = append(words, term.ShellQuote(arg))
	}
	for _, arg := range append(command, s.vars...) {
		if strings.Contains(arg, `\`) {
			return "", &reconcile.Error{
				Code: "schedule_failed", Message: fmt.Sprintf("%q holds a backslash, which cron programs read in different ways", arg),
				Hint: "rename it, or use a timer of systemd",
			}
		}
	}
	// For cron a % ends the command, also between quotes.
	return everyMinute + strings.ReplaceAll(strings.Join(words, " "), "%", `\%`) + cronMark(nameOf(s.p)), nil
}

// cronMark is the end of our line.
func cronMark(name string) string { return " # " + name }

// cronProgram returns the program that our line starts: its first word that is an absolute path.
func cronProgram(line string) string {
	line = strings.ReplaceAll(strings.TrimPrefix(line, everyMinute), `\%`, "%")
	var word strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted = !quoted
		case c == '\\' && !quoted && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == ' ' && !quoted:
			if filepath.IsAbs(word.String()) {
				return word.String()
			}
			word.Reset()
		default:
			word.WriteByte(c)
		}
	}
	return ""
}

// HasCrontab reports whether there is a crontab program.
func HasCrontab(w *term.Env) bool {
	_, err := findProgram(w, "crontab")
	return err == nil
}

// Crontab reads the crontab of the user. One that can't be read must not be written.
func Crontab(ctx context.Context, w *term.Env) (string, error) {
	text, err := runProgram(ctx, w, "", nil, "crontab", "-l")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && text == "" && strings.Contains(err.Error(), "no crontab for") {
		return "", nil
	}
	return text, err
}

// writeCrontab writes the crontab. An empty one is removed, as it was before the first line.
func writeCrontab(ctx context.Context, w *term.Env, text string) error {
	args := []string{"-"}
	if text == "" {
		args = []string{"-r"}
	}
	_, err := runProgram(ctx, w, text, nil, "crontab", args...)
	return err
}

// withLine replaces the line with our mark by the given one, or appends it; an empty line removes ours. Every other byte stays.
// was is the line that ours was before.
func withLine(crontab, line, mark string) (text, was string) {
	var b strings.Builder
	placed := line == ""
	for l := range strings.Lines(crontab) {
		if !strings.HasSuffix(strings.TrimRight(l, "\n"), mark) || strings.HasPrefix(l, "#") {
			b.WriteString(l)
			continue
		}
		was = strings.TrimRight(l, "\n")
		if !placed {
			b.WriteString(line + "\n")
			placed = true
		}
	}
	if !placed {
		if crontab != "" && !strings.HasSuffix(crontab, "\n") {
			b.WriteString("\n")
		}
		b.WriteString(line + "\n")
	}
	return b.String(), was
}

func (s *plan) installLine(ctx context.Context) (changed bool, err error) {
	w := s.caller.Env
	line, err := s.cronLine()
	if err != nil {
		return false, err
	}
	crontab, err := Crontab(ctx, w)
	if err != nil {
		return false, err
	}
	text, was := withLine(crontab, line, cronMark(nameOf(s.p)))
	if text != crontab {
		if err := writeCrontab(ctx, w, text); err != nil {
			return false, err
		}
		if was != "" {
			fmt.Fprintln(w.Stdout, "rewrote the line of your crontab\n  -", term.Visible(was))
			fmt.Fprintln(w.Stdout, "  +", term.Visible(line))
		} else {
			fmt.Fprintln(w.Stdout, "added to your crontab:", term.Visible(line))
		}
	}
	if runs := cronRuns(); runs != nil && !*runs {
		fmt.Fprintln(w.Stderr, "symphony: warning: no cron runs on this machine: start it, systemctl enable --now cron for instance")
	}
	return text != crontab, nil
}

func removeLine(ctx context.Context, p *project.Project) error {
	crontab, err := Crontab(ctx, p.Env)
	if err != nil {
		return err
	}
	text, was := withLine(crontab, "", cronMark(nameOf(p)))
	if was == "" {
		return nil
	}
	if err := writeCrontab(ctx, p.Env, text); err != nil {
		return err
	}
	fmt.Fprintln(p.Env.Stdout, "removed from your crontab:", term.Visible(was))
	return nil
}

// cronRuns reports whether a cron daemon runs; nil if /proc does not show other processes.
func cronRuns() *bool {
	if _, err := os.Stat("/proc/1/comm"); err != nil {
		return nil
	}
	list, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil
	}
	runs := false
	for _, path := range list {
		name, _ := os.ReadFile(path) // the process may have ended
		switch strings.TrimSpace(string(name)) {
		case "cron", "crond", "fcron":
			runs = true
		}
	}
	return &runs
}
