package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// databaseWrites counts the system calls of one worker that write to the database.
func (s *project) databaseWrites() error {
	const writes, syncs = "writes to state.db a second", "fsyncs of state.db a second"
	why := s.b.noStrace()
	if why == "" && os.Geteuid() != 0 {
		why = "only root may look into a worker"
	}
	if why != "" {
		s.b.table.unmeasured(figure{Name: writes + ", " + syncs}, why)
		return nil
	}
	list, err := s.processes()
	if err != nil {
		return err
	}
	for _, p := range list {
		if !p.worker() {
			continue
		}
		lasted, text, err := s.trace(p.PID, "fsync,fdatasync,write,pwrite64,pwritev")
		if err != nil {
			return fmt.Errorf("strace: %w", err)
		}
		var w, f float64
		for line := range strings.Lines(text) {
			switch {
			case !strings.Contains(line, "/state.db"):
			case strings.Contains(line, "sync("):
				f++
			default:
				w++
			}
		}
		note := fmt.Sprintf("of one worker, in %s", lasted.Round(time.Second))
		s.b.table.add(figure{Name: writes, Values: []float64{w / lasted.Seconds()}, Note: note})
		s.b.table.add(figure{Name: syncs, Values: []float64{f / lasted.Seconds()}, Note: note})
		return nil
	}
	return errors.New("no worker to look at")
}

// traceTime holds two heartbeats.
const traceTime = 10 * time.Second

// trace attaches strace to a process for a while.
func (s *project) trace(pid int, calls string) (lasted time.Duration, text string, err error) {
	file := filepath.Join(s.Dir, "trace")
	var complaint strings.Builder
	cmd := exec.Command("strace", "-f", "-y", "-e", "trace="+calls, "-o", file, "-p", fmt.Sprint(pid))
	cmd.Stderr, cmd.SysProcAttr = &complaint, stage.Apart()
	if err := cmd.Start(); err != nil {
		return 0, "", err
	}
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, stop := context.WithTimeout(s.b.ctx, traceTime)
	defer stop()
	select {
	case err := <-ended:
		return 0, "", fmt.Errorf("%w: %s", errors.Join(err, errors.New("it ended by itself")), strings.TrimSpace(complaint.String()))
	case <-ctx.Done():
	}
	lasted = time.Since(began)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		return 0, "", err
	}
	<-ended // ends by the signal, which is no failure
	data, err := os.ReadFile(file)
	return lasted, string(data), err
}
