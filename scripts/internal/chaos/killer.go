//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// hits is what the killer did.
type hits struct {
	mu      sync.Mutex
	counts  map[string]int  // by kind and signal
	hit     map[int]bool    // the pids
	workers map[string]bool // the workers, by their run
	deaths  map[string]time.Time
	calm    atomic.Bool // nobody is hit any more
}

func (h *hits) note(p process, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[p.kind()+" "+name]++
	h.hit[p.PID] = true
	if p.kind() == "worker" {
		h.workers[p.run()] = true
	}
	if run := p.run(); name == "SIGKILL" && p.kind() == "worker" && run != "" && h.deaths[run].IsZero() {
		h.deaths[run] = time.Now()
	}
}

func (h *hits) was(pid int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hit[pid]
}

func (h *hits) worker(run string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.workers[run]
}

// killer hits one process after the other until ctx is over. All that it has stopped goes on before it returns.
func (s *scene) killer(ctx context.Context, h *hits) (err error) {
	random := s.random("killer")
	var stopped sync.WaitGroup
	defer stopped.Wait()
	for pause(ctx, time.Duration(50+random.IntN(700))*time.Millisecond) {
		list, err := s.processes()
		if err != nil {
			return err
		}
		byKind := map[string][]process{}
		for _, p := range list {
			if p.kind() != "" {
				byKind[p.kind()] = append(byKind[p.kind()], p)
			}
		}
		choice, way := random.IntN(1<<30), random.IntN(100)
		stay := time.Duration(50+random.IntN(3000)) * time.Millisecond
		if random.IntN(25) == 0 {
			stay = 25 * time.Second // long enough to be taken for frozen
		}
		if len(byKind) == 0 {
			continue
		}
		kinds := slices.Sorted(maps.Keys(byKind))
		of := byKind[kinds[choice%len(kinds)]]
		victim := of[choice/len(kinds)%len(of)]
		if err := h.aim(ctx, victim, way, stay, &stopped); err != nil && !errors.Is(err, errGone) {
			return fmt.Errorf("killer: %s: %w", victim, err)
		}
	}
	return nil
}

// aim sends the signal that way (0 to 99) chooses.
func (h *hits) aim(ctx context.Context, p process, way int, d time.Duration, stopped *sync.WaitGroup) error {
	fd, err := p.hold()
	if err != nil {
		return err
	}
	name, sig := "SIGKILL", unix.SIGKILL
	switch {
	case way >= 75:
		name, sig = "SIGSTOP", unix.SIGSTOP
	case way >= 55:
		name, sig = "SIGTERM", unix.SIGTERM
	}
	// Noted first: who looks at the death must find its cause.
	h.note(p, name)
	if err := send(fd, sig); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if sig != unix.SIGSTOP {
		return unix.Close(fd)
	}
	stopped.Go(func() {
		pause(ctx, d)
		// It may have been killed meanwhile, which is no error.
		_ = errors.Join(send(fd, unix.SIGCONT), unix.Close(fd))
	})
	return nil
}

// doomed is the share of our own commands that are hit soon after their start: most live for too short a time to be met
// by chance.
const doomed = 3

// doom hits a command of ours within its usual life, now and then. end waits until that is past.
func (h *hits) doom(ctx context.Context, cmd *exec.Cmd, args []string) (end func()) {
	// Which of them is a matter of scheduling, so the seed has no say in it.
	if h.calm.Load() || rand.IntN(doomed) > 0 {
		return func() {}
	}
	p := process{stage.Process{PID: cmd.Process.Pid, Words: append([]string{"symphony"}, args...)}}
	var stopped sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	stopped.Go(func() {
		if !pause(ctx, time.Duration(rand.IntN(60_000))*time.Microsecond) {
			return
		}
		name, sig := "SIGKILL", unix.SIGKILL
		if n := rand.IntN(10); n < 2 {
			name, sig = "SIGTERM", unix.SIGTERM
		} else if n < 4 {
			name, sig = "SIGSTOP", unix.SIGSTOP
		}
		// Process has a handle and knows whether it has been waited for, so that no other can be meant.
		h.note(p, name)
		if cmd.Process.Signal(sig) == nil && sig == unix.SIGSTOP {
			pause(ctx, time.Duration(rand.IntN(3000))*time.Millisecond)
			_ = cmd.Process.Signal(unix.SIGCONT) // it may have been killed meanwhile
		}
	})
	return func() { cancel(); stopped.Wait() }
}

// pause waits for d; false when ctx is over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
