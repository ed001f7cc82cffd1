package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// multiplexer is a real terminal for one script: a tmux server of its own, with one window in which a shell waits.
type multiplexer struct {
	socket string
	pid    int
	env    []string
}

// hasTmux is the condition [tmux].
func hasTmux() bool {
	_, err := exec.LookPath("tmux")
	return err == nil
}

// tmuxCmd steers a real terminal, in which an interactive bash waits for what is typed:
//
//	tmux start COLUMNS ROWS    its prompt is "$ "
//	tmux type TEXT             types a line
//	tmux key KEY...            presses keys by tmux's names: q, C-c, C-z
//	tmux size COLUMNS ROWS     resizes the window
//	tmux until PATTERN         waits until what is shown matches, (?m) set; stdout can then be asked about it
//	tmux colours PATTERN       the same, with the escape sequences of colours
//	tmux end                   at the end of the script, at the latest
func tmuxCmd(ts *testscript.TestScript, neg bool, args []string) {
	if args[0] == "start" && len(args) == 3 {
		m, err := startTmux(ts.Getenv("WORK"), append(scriptEnv(ts), "LC_ALL=C.UTF-8"), args[1], args[2])
		ts.Check(err)
		ts.Defer(func() { ts.Check(m.end()) })
		stageOf(ts).terminal = m
		m.wait(ts, regexp.MustCompile(`^\$`))
		return
	}
	m := stageOf(ts).terminal
	if m == nil {
		ts.Fatalf("tmux start comes first")
	}
	switch {
	case args[0] == "type" && len(args) == 2:
		ts.Check(m.do("send-keys", "-l", args[1]))
		ts.Check(m.do("send-keys", "Enter"))
	case args[0] == "key" && len(args) > 1:
		ts.Check(m.do(append([]string{"send-keys"}, args[1:]...)...))
	case args[0] == "size" && len(args) == 3:
		ts.Check(m.do("resize-window", "-x", args[1], "-y", args[2]))
	case args[0] == "until" && len(args) == 2:
		fmt.Fprint(ts.Stdout(), m.wait(ts, regexp.MustCompile("(?m)"+args[1])))
	case args[0] == "colours" && len(args) == 2:
		fmt.Fprint(ts.Stdout(), m.wait(ts, regexp.MustCompile("(?m)"+args[1]), "-e"))
	case args[0] == "end" && len(args) == 1:
		ts.Check(m.end())
	default:
		ts.Fatalf("tmux: unknown %q", strings.Join(args, " "))
	}
}

// startTmux starts a server on a socket of its own. The socket's path must be short, which a script's directory often is
// not.
func startTmux(dir string, env []string, columns, rows string) (*multiplexer, error) {
	short, err := os.MkdirTemp("", "tmux-")
	if err != nil {
		return nil, err
	}
	m := &multiplexer{socket: filepath.Join(short, "s"), env: append(env, "PS1=$ ", "HISTFILE=", "SHELL=/bin/sh")}
	out, err := m.run("-f", "/dev/null", "new-session", "-d", "-P", "-F", "#{pid}", "-c", dir, "-x", columns, "-y", rows,
		"bash --noprofile --norc -i")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(short))
	}
	m.pid, err = strconv.Atoi(strings.TrimSpace(out))
	return m, err
}

func (m *multiplexer) do(args ...string) error {
	_, err := m.run(args...)
	return err
}

func (m *multiplexer) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-u", "-S", m.socket}, args...)...)
	cmd.Env = m.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

// shown is what the window shows now, without the blanks at the ends of lines.
func (m *multiplexer) shown(options ...string) (string, error) {
	return m.run(append([]string{"capture-pane", "-p"}, options...)...)
}

func (m *multiplexer) wait(ts *testscript.TestScript, pattern *regexp.Regexp, options ...string) string {
	var text string
	waitFor(ts, "the terminal to show "+pattern.String(), func() (bool, string) {
		var err error
		text, err = m.shown(options...)
		ts.Check(err)
		return pattern.MatchString(text), text
	})
	return text
}

// end ends the server, and with it the shell and what it runs. A second end finds nothing to do.
func (m *multiplexer) end() error {
	if m.pid == 0 {
		return nil
	}
	if err := syscall.Kill(m.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("tmux: %w", err)
	}
	for end := time.Now().Add(bound); syscall.Kill(m.pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("tmux %d does not end", m.pid)
		}
	}
	m.pid = 0
	return os.RemoveAll(filepath.Dir(m.socket))
}

// pressCmd presses a key in the terminal of tmux repeatedly until the text shown matches, since a program that has just
// drawn a question may not read yet: press KEY PATTERN
func pressCmd(ts *testscript.TestScript, neg bool, args []string) {
	m := stageOf(ts).terminal
	pattern := regexp.MustCompile("(?m)" + args[1])
	waitFor(ts, "the terminal to show "+args[1], func() (bool, string) {
		text, err := m.shown("-S", "-")
		ts.Check(err)
		if pattern.MatchString(text) {
			fmt.Fprint(ts.Stdout(), text)
			return true, ""
		}
		ts.Check(m.do("send-keys", args[0]))
		return false, text
	})
}
