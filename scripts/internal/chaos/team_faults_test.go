//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// processesOf lists the processes of a machine that the killer may hit.
func (s *teamScene) processesOf(m *machine) (list []process) {
	for _, p := range stage.Get(stage.Processes(m.Dir, m.mark)) {
		if (process{p}).kind() != "" {
			list = append(list, process{p})
		}
	}
	return list
}

// killer kills or freezes processes, some of them for longer than a term.
func (s *teamScene) killer(ctx context.Context) error {
	random := s.random("killer")
	var frozen sync.WaitGroup
	defer frozen.Wait()
	for pause(ctx, time.Duration(100+random.IntN(500))*time.Millisecond) {
		m := s.machines[random.IntN(len(s.machines))]
		choice := random.IntN(1 << 30)
		way := random.IntN(100)
		sleep := time.Duration(50+random.IntN(3000)) * time.Millisecond
		if random.IntN(4) == 0 {
			sleep = s.term() + s.term()/3 // longer than a term and its grace
		}
		off := random.IntN(40) == 0
		if lull() || !m.awake.TryRLock() {
			continue
		}
		list := s.processesOf(m)
		if off {
			s.switchOff(m)
			list = nil
		}
		m.awake.RUnlock()
		if len(list) == 0 {
			continue
		}
		p := list[choice%len(list)]
		sig := syscall.SIGKILL
		switch {
		case way >= 60:
			sig = syscall.SIGSTOP
		case way >= 45:
			sig = syscall.SIGTERM
		}
		handle, err := p.open()
		if handle == nil {
			if err != nil {
				return fmt.Errorf("killer: %w", err)
			}
			continue
		}
		s.mu.Lock()
		s.kills[p.kind()+" "+unix.SignalName(sig)]++
		s.mu.Unlock()
		if err := send(handle, sig); err != nil {
			return fmt.Errorf("killer: %w", err)
		}
		frozen.Go(func() {
			if sig == syscall.SIGSTOP {
				pause(ctx, sleep)
				m.awake.RLock()
				_ = send(handle, syscall.SIGCONT) // it may have been killed
				m.awake.RUnlock()
			}
			_ = handle.Release()
		})
	}
	return nil
}

// switchOff kills everything of a machine.
func (s *teamScene) switchOff(m *machine) {
	s.mu.Lock()
	s.kills["machine"]++
	s.mu.Unlock()
	for range 20 { // a process may have started another before it died
		if s.signal(m, syscall.SIGKILL) == 0 {
			return
		}
	}
}

// signal sends a signal to all processes of a machine, and returns how many there are.
func (s *teamScene) signal(m *machine, sig syscall.Signal) int {
	list := stage.Get(stage.Processes(m.Dir, m.mark))
	for _, p := range list {
		handle, _ := (process{p}).open()
		if handle != nil {
			_ = errors.Join(send(handle, sig), handle.Release()) // it may have ended
		}
	}
	return len(list)
}

// sleeper lets machines sleep now and then: mostly one for up to three terms, while the others go on, and
// sometimes all of them for an hour.
func (s *teamScene) sleeper(ctx context.Context) error {
	random := s.random("sleeper")
	for pause(ctx, time.Duration(4+random.IntN(40))*time.Second) {
		m := s.machines[random.IntN(len(s.machines))]
		length := s.term()/2 + time.Duration(random.Int64N(int64(3*s.term())))
		s.count(&s.sleeps)
		if random.IntN(4) > 0 {
			s.fallAsleep(m)
			pause(ctx, length)
			s.wakeUp(m)
			continue
		}
		s.allSleep()
	}
	return nil
}

// jump is how long all machines sleep at once.
const jump = time.Hour

// allSleep lets all machines sleep for an hour, which takes no time.
func (s *teamScene) allSleep() {
	for _, m := range s.machines {
		s.fallAsleep(m)
	}
	s.mu.Lock()
	s.jumps = append(s.jumps, time.Now().UnixMilli())
	s.mu.Unlock()
	for _, m := range s.machines {
		m.slept += jump
		m.setClocks()
		s.wakeUp(m)
	}
}

// fallAsleep stops all processes of a machine. Nothing starts there, and nothing goes on, until it wakes
// up.
func (s *teamScene) fallAsleep(m *machine) {
	m.awake.Lock()
	for before := -1; ; { // a process may have started another before it was stopped
		now := s.signal(m, syscall.SIGSTOP)
		if now == before {
			return
		}
		before = now
	}
}

func (s *teamScene) wakeUp(m *machine) {
	s.signal(m, syscall.SIGCONT)
	m.awake.Unlock()
}

// repairer is an operator who does as the hints say: symphony resume.
func (s *teamScene) repairer(ctx context.Context, m *machine) {
	random := s.random("operator of " + m.name)
	for pause(ctx, time.Duration(3+random.IntN(10))*time.Second) {
		s.command(ctx, m, "resume")
	}
}
