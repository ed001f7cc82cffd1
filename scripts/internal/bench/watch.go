package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// job and sample are those of the program stopwatch.
type job struct {
	Argv, Env []string
	Dir       string
}

type sample struct {
	WallNS, CPUNS int64
	PeakKiB       int64
	Faults, Disk  int64
	Exit          int
	Stdout        string
	Stderr        string
	Err           string
	// began is when the job was handed out.
	began time.Time
}

// watch is the other side of stopwatch.
type watch struct {
	exe string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startWatch(exe string) (*watch, error) {
	cmd, in, out, err := stage.StartHelper(exe)
	if err != nil {
		return nil, fmt.Errorf("stopwatch: %w", err)
	}
	w := &watch{exe: exe, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	w.out.Buffer(nil, 64<<20)
	return w, nil
}

// time runs a job, which must succeed.
func (w *watch) time(ctx context.Context, j job) (s sample, err error) {
	if err := ctx.Err(); err != nil {
		return s, err
	}
	data, err := json.Marshal(j)
	if err != nil {
		return s, err
	}
	began := time.Now()
	if _, err := w.in.Write(append(data, '\n')); err != nil {
		return s, fmt.Errorf("stopwatch: %w", err)
	}
	answered := make(chan bool, 1)
	go func() { answered <- w.out.Scan() }()
	select {
	case <-ctx.Done():
		return s, errors.Join(ctx.Err(), w.again(answered))
	case ok := <-answered:
		if !ok {
			return s, fmt.Errorf("stopwatch ended: %w", errors.Join(w.out.Err(), io.ErrUnexpectedEOF))
		}
	}
	if err := json.Unmarshal(w.out.Bytes(), &s); err != nil {
		return s, fmt.Errorf("stopwatch: %w", err)
	}
	s.began = began
	if s.Err != "" || s.Exit != 0 {
		return s, fmt.Errorf("%s: exit %d %s\n%s%s", strings.Join(j.Argv[:2], " "), s.Exit, s.Err, s.Stdout, s.Stderr)
	}
	return s, nil
}

// again ends the stopwatch with the job that it is at, and starts another: what is left is to be cleaned up by jobs, too.
func (w *watch) again(answered <-chan bool) error {
	if err := syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("stopwatch: %w", err)
	}
	<-answered
	_ = w.cmd.Wait() // it was killed
	next, err := startWatch(w.exe)
	if err == nil {
		*w = *next
	}
	return err
}

func (w *watch) close() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }
