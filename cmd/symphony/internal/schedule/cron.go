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

// cronLine is the one line that is ours. What follows # is a comment for the shell, and the mark by which it is found.
func (s *scheduled) cronLine() (string, error) {
	var words []string
	for _, v := range s.carried {
		name, value, _ := strings.Cut(v, "=")
		words = append(words, name+"="+term.ShellQuote(value))
	}
	for _, arg := range s.command(project.TriggerCron) {
		words = append(words, term.ShellQuote(arg))
	}
	command := strings.Join(words, " ")
	for _, arg := range append(s.command(project.TriggerCron), s.carried...) {
		if strings.Contains(arg, `\`) {
			return "", &reconcile.Error{
				Code: "schedule_failed", Message: fmt.Sprintf("%q holds a backslash, which each cron takes for something else", arg),
				Hint: "rename it, or use a timer of systemd",
			}
		}
	}
	// For cron a % ends the command, in quotes too.
	return "* * * * * " + strings.ReplaceAll(command, "%", `\%`) + cronMark(s.name()), nil
}

// cronMark ends our line.
func cronMark(name string) string { return " # " + name }

// cronProgram is the program that a line of ours starts: the first path in it that stands behind no variable.
func cronProgram(line string) string {
	line = strings.ReplaceAll(strings.TrimPrefix(line, "* * * * * "), `\%`, "%")
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

// cronMissing says why cron can't run the passes.
func cronMissing(w *term.Env) error {
	if HasCrontab(w) {
		return nil
	}
	return &reconcile.Error{Code: "no_scheduler", Message: "there is no crontab here", Hint: "install cron, or keep symphony tick --loop running"}
}

func HasCrontab(w *term.Env) bool {
	_, err := findProgram(w, "crontab")
	return err == nil
}

// crontab reads the user's. What can't be read for sure is never written over.
func Crontab(ctx context.Context, w *term.Env) (string, error) {
	text, err := runOutside(ctx, w, "", nil, "crontab", "-l")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && text == "" && strings.Contains(err.Error(), "no crontab for") {
		return "", nil
	}
	return text, err
}

// setCrontab writes it. None at all is what there was before the first line.
func setCrontab(ctx context.Context, w *term.Env, text string) error {
	args := []string{"-"}
	if text == "" {
		args = []string{"-r"}
	}
	_, err := runOutside(ctx, w, text, nil, "crontab", args...)
	return err
}

// withLine gives the crontab with our line in the place of the one that was there, or at its end; an empty line takes
// it away. Every other byte stays.
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

func (s *scheduled) installLine(ctx context.Context) (changed bool, err error) {
	w := s.caller.Env
	line, err := s.cronLine()
	if err != nil {
		return false, err
	}
	crontab, err := Crontab(ctx, w)
	if err != nil {
		return false, err
	}
	text, was := withLine(crontab, line, cronMark(s.name()))
	if text != crontab {
		if err := setCrontab(ctx, w, text); err != nil {
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

// removeLine takes our line away; false where there is none.
func removeLine(ctx context.Context, p *project.Project) (bool, error) {
	crontab, err := Crontab(ctx, p.Env)
	if err != nil {
		return false, err
	}
	text, was := withLine(crontab, "", cronMark(scheduleName(p)))
	if was == "" {
		return false, nil
	}
	if err := setCrontab(ctx, p.Env, text); err != nil {
		return false, err
	}
	fmt.Fprintln(p.Env.Stdout, "removed from your crontab:", term.Visible(was))
	return true, nil
}

// cronRuns looks for the daemon; nil where this can't be seen.
func cronRuns() *bool {
	runs := false
	if _, err := os.Stat("/proc/1/comm"); err != nil {
		return nil // no /proc, or one that hides what is not ours
	}
	list, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil
	}
	for _, path := range list {
		name, err := os.ReadFile(path)
		switch strings.TrimSpace(string(name)) {
		case "cron", "crond", "fcron":
			runs = runs || err == nil
		}
	}
	return &runs
}
