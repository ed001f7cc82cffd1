package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Whoever reads the document is ann, whose terminal has so many columns.
const (
	annsHome      = "/home/ann"
	askingColumns = 160
)

// askedCmd types what docs/questions.md has for a question at a terminal and demands the lines that stand there. "^C" in
// the document is pressed, and what stands behind a prompt is typed. With "all" it demands that every question has been
// asked: asked QUESTION | asked all
func askedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: asked QUESTION, asked all")
	}
	text, err := readQuestions()
	ts.Check(err)
	set := ts.Value(stageKey{}).(*stage)
	if args[0] == "all" {
		for _, q := range theQuestions {
			if !slices.Contains(set.asked, q) {
				ts.Fatalf("nobody has asked %q", q)
			}
		}
		return
	}
	set.asked = append(set.asked, args[0])
	list := answersIn(text)[args[0]]
	if len(list) == 0 {
		ts.Fatalf("the document has no answer to %q", args[0])
	}
	for _, d := range list {
		s, err := ask(ts, d.command)
		ts.Check(err)
		if err := errors.Join(s.holds(d.says), s.end()); err != nil {
			ts.Fatalf("%s\n$ %s: %v; it says:\n%s", args[0], d.command, err, s.said())
		}
	}
}

// asking is a command at a terminal.
type asking struct {
	cmd    *exec.Cmd
	master *os.File
	home   string
	ended  chan struct{} // closed when it has, and all that it said is there
	mu     sync.Mutex
	out    bytes.Buffer
}

func ask(ts *testscript.TestScript, command string) (*asking, error) {
	master, slave, err := openTerminal(askingColumns)
	if err != nil {
		return nil, err
	}
	s := &asking{master: master, home: ts.Getenv("HOME"), ended: make(chan struct{})}
	s.cmd = exec.CommandContext(context.Background(), "/bin/sh", "-c", command)
	s.cmd.Dir = ts.MkAbs(".")
	s.cmd.Env = append(scriptEnv(ts), "LC_ALL=C.UTF-8", "NO_COLOR=1", "PAGER=cat")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = s.cmd.Start()
	if err := errors.Join(err, slave.Close()); err != nil {
		return nil, errors.Join(err, master.Close())
	}
	go func() {
		_, _ = io.Copy(s, master) // ends with EIO when the last writer is gone
		_ = s.cmd.Wait()          // what it says is looked at, not its code
		close(s.ended)
	}()
	return s, nil
}

// Write implements io.Writer.
func (s *asking) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *asking) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.out.String(), s.home, annsHome)
}

var prompt = regexp.MustCompile(`^(.*\[[a-zA-Z]\].*: )(\w*)$`)

// holds waits for the lines, one after the other.
func (s *asking) holds(lines []string) error {
	from := 0
	for _, line := range lines {
		pattern, typed := likeLine(line), ""
		if line == "^C" {
			if _, err := s.master.WriteString("\x03"); err != nil {
				return err
			}
			continue
		}
		if m := prompt.FindStringSubmatch(line); m != nil {
			pattern, typed = regexp.MustCompile(regexp.QuoteMeta(m[1])), m[2]+"\n"
		}
		at := s.wait(pattern, from)
		if at < 0 {
			return errors.New("the line does not come: " + line)
		}
		from += at
		if _, err := s.master.WriteString(typed); err != nil {
			return err
		}
	}
	return nil
}

// wait gives the end of what matches, behind what was read so far; -1 if it does not come.
func (s *asking) wait(pattern *regexp.Regexp, from int) int {
	for end := time.Now().Add(bound); ; time.Sleep(20 * time.Millisecond) {
		over := time.Now().After(end)
		select {
		case <-s.ended:
			over = true
		default:
		}
		if at := pattern.FindStringIndex(s.said()[from:]); at != nil {
			return at[1]
		}
		if over {
			return -1
		}
	}
}

// end waits until the command is over, and makes it so where it does not end by itself.
func (s *asking) end() error {
	defer s.master.Close()
	select {
	case <-s.ended:
		return nil
	case <-time.After(bound):
		return errors.Join(errors.New("it does not end"), syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL))
	}
}
