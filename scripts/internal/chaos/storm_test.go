//go:build linux

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// storm runs all actors for the time that the flag -seconds gives.
func (s *scene) storm(ctx context.Context, c *checker) error {
	// The first pass creates the database that the operator and the checker read. It asks the forge
	// what its token may do.
	s.forge.setCalm(true)
	if a := c.command(ctx, "tick", "--trigger", "cron", "--json"); a.exit != 0 {
		return fmt.Errorf("the first pass: exit %d: %s", a.exit, a.output)
	}
	s.forge.setCalm(false)
	if err := c.write(ctx, logWatches); err != nil {
		return err
	}
	if *merges {
		c.fill(ctx)
	}
	c.killing.Store(true)
	defer c.killing.Store(false)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*seconds)*time.Second)
	defer cancel()
	fmt.Fprintf(os.Stderr, "chaos: %d seconds in %s\n", *seconds, s.Dir)
	var all sync.WaitGroup
	actors := []func(context.Context) error{c.killer, c.striker, s.sabotage, c.watch}
	if *merges {
		actors = append(actors, c.reviewers, c.mergeStriker)
	} else {
		actors = append(actors, c.people)
		all.Go(func() { c.operate(ctx) })
	}
	if *hosts {
		actors = append(actors, c.cutter)
	}
	errs := make([]error, len(actors))
	for n, actor := range actors {
		all.Go(func() {
			errs[n] = actor(ctx)
			if errs[n] != nil {
				cancel() // the storm needs all of them
			}
		})
	}
	all.Go(func() { c.loops(ctx) })
	all.Go(func() { c.remote.others(ctx, c.random("others")) })
	for _, trigger := range []string{"cron", "manual", "timer"} {
		all.Go(func() { c.ticks(ctx, trigger) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// pause waits; it returns false if ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// lull reports whether nothing is killed for a while, so that issues are handed over.
func lull() bool {
	now := time.Now().Unix()
	if *merges {
		return now%10 >= 7
	}
	return now%20 >= 11
}

// killer hits one process after another. Before it returns it continues every process that it
// has stopped.
func (c *checker) killer(ctx context.Context) error {
	random := c.random("killer")
	var stopped sync.WaitGroup
	defer stopped.Wait()
	most := 700
	if *merges {
		most = 1500
	}
	for pause(ctx, time.Duration(50+random.IntN(most))*time.Millisecond) {
		if lull() {
			continue
		}
		list, err := c.processes()
		if err != nil {
			return err
		}
		byKind := map[string][]process{}
		for _, p := range list {
			if kind := p.kind(); kind != "" {
				byKind[kind] = append(byKind[kind], p)
			}
		}
		choice := random.IntN(1 << 30)
		way := random.IntN(100)
		frozen := time.Duration(50+random.IntN(3000)) * time.Millisecond
		if random.IntN(25) == 0 {
			frozen = 25 * time.Second // longer than heartbeats may be late
		}
		if len(byKind) == 0 {
			continue
		}
		kinds := slices.Sorted(maps.Keys(byKind))
		of := byKind[kinds[choice%len(kinds)]]
		sig := syscall.SIGKILL
		switch {
		case way >= 75:
			sig = syscall.SIGSTOP
		case way >= 55:
			sig = syscall.SIGTERM
		}
		if err := c.hit(ctx, of[choice/len(kinds)%len(of)], sig, frozen, &stopped); err != nil {
			return fmt.Errorf("killer: %w", err)
		}
	}
	return nil
}

// striker kills a worker, a pass or a git command just after the remote or the forge has
// answered, when references change and deliveries are recorded.
func (c *checker) striker(ctx context.Context) error {
	random := c.random("striker")
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.remote.ended:
		}
		if random.IntN(6) > 0 || lull() {
			continue
		}
		pause(ctx, time.Duration(random.IntN(40))*time.Millisecond)
		list, err := c.processes()
		list = slices.DeleteFunc(
			list,
			func(p process) bool { return !slices.Contains([]string{"git", "worker", "pass", "loop"}, p.kind()) },
		)
		if len(list) > 0 {
			err = errors.Join(err, c.hit(ctx, list[random.IntN(len(list))], syscall.SIGKILL, 0, nil))
		}
		if err != nil {
			return fmt.Errorf("striker: %w", err)
		}
	}
}

func (c *checker) hit(
	ctx context.Context,
	p process,
	sig syscall.Signal,
	frozen time.Duration,
	stopped *sync.WaitGroup,
) error {
	handle, err := p.open()
	if handle == nil {
		return err
	}
	c.noteHit(p, sig) // before the signal, so that the checker knows the cause of the death
	if err := send(handle, sig); err != nil || sig != syscall.SIGSTOP {
		return errors.Join(err, handle.Release())
	}
	c.noteStop(frozen)
	stopped.Go(func() {
		pause(ctx, frozen)
		_ = errors.Join(send(handle, syscall.SIGCONT), handle.Release()) // it may have been killed
	})
	return nil
}

// doom hits every third of the scene's own commands, most of which are too short for the
// killer. The returned function waits until doom has finished with the command.
func (c *checker) doom(ctx context.Context, cmd *exec.Cmd, args []string) (wait func()) {
	// This choice does not use the seed, because the order of the commands depends on the
	// scheduling.
	if !c.killing.Load() || rand.IntN(3) > 0 || lull() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var hit sync.WaitGroup
	hit.Go(func() {
		if !pause(ctx, time.Duration(rand.IntN(60_000))*time.Microsecond) {
			return
		}
		sig := syscall.SIGKILL
		if n := rand.IntN(10); n < 2 {
			sig = syscall.SIGTERM
		} else if n < 4 {
			sig = syscall.SIGSTOP
		}
		c.noteHit(process{stage.Process{
			PID:  cmd.Process.Pid,
			Args: append([]string{"symphony"}, args...),
		}}, sig)
		if cmd.Process.Signal(sig) == nil && sig == syscall.SIGSTOP {
			frozen := time.Duration(rand.IntN(3000)) * time.Millisecond
			c.noteStop(frozen)
			pause(ctx, frozen)
			_ = cmd.Process.Signal(syscall.SIGCONT) // it may have been killed
		}
	})
	return func() { cancel(); hit.Wait() }
}

// answer is how a command ended.
type answer struct {
	output string
	began  time.Time
	exit   int  // -1: by a signal
	hit    bool // by the killer
}

// command runs a command to its end, even after the storm, and checks how it ended.
func (c *checker) command(ctx context.Context, args ...string) answer {
	// longer than all limits of the program
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 100*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limit, c.symphony, args...)
	a := c.await(ctx, cmd, args)
	if limit.Err() != nil {
		c.fault("unexpected ends", "%s did not end", strings.Join(args, " "))
	}
	return a
}

func (c *checker) await(ctx context.Context, cmd *exec.Cmd, args []string) answer {
	var out, errw bytes.Buffer
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	cmd.Stdout = &out
	cmd.Stderr = &errw
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = time.Second
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		c.fault("unexpected ends", "%v", err)
		return answer{exit: -1}
	}
	wait := c.doom(ctx, cmd, args)
	_ = cmd.Wait() // the exit code is checked below
	wait()
	a := answer{
		output: out.String() + errw.String(),
		began:  began,
		exit:   cmd.ProcessState.ExitCode(),
		hit:    c.wasHit(cmd.Process.Pid),
	}
	// by the end of the storm
	a.hit = a.hit || slices.Contains(args, "--loop") && ctx.Err() != nil && a.exit < 0
	c.noteEnd(args, out.String(), a)
	return a
}

// ticks runs one pass after another, each in a new process, as a schedule or an operator
// would.
func (c *checker) ticks(ctx context.Context, trigger string) {
	random := c.random(trigger)
	most := 1800
	if *merges {
		most = 400
	}
	for pause(ctx, time.Duration(200+random.IntN(most))*time.Millisecond) {
		args := []string{"tick", "--trigger", trigger, "--json"}
		if random.IntN(3) == 0 {
			args = append(args, "--lock-timeout", "2s")
		}
		c.command(ctx, args...)
	}
}

// loops restarts a loop whenever it has ended.
func (c *checker) loops(ctx context.Context) {
	for pause(ctx, time.Second) {
		args := []string{"tick", "--loop"}
		cmd := exec.CommandContext(ctx, c.symphony, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
		cmd.WaitDelay = 70 * time.Second // its pass may wait for the tracker
		c.await(ctx, cmd, args)
	}
}

// sabotage moves issues and makes the tracker fail.
func (s *scene) sabotage(ctx context.Context) error {
	random := s.random("tracker")
	most := 2500
	if *merges {
		most = 800
	}
	for pause(ctx, time.Duration(200+random.IntN(most))*time.Millisecond) {
		act := s.sabotageOnce
		if *merges && random.IntN(12) > 0 {
			act = s.supply
		}
		if err := act(random); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) sabotageOnce(random *rand.Rand) error {
	times := 1 + random.IntN(3)
	switch random.IntN(12) {
	case 0:
		return s.tracker.Fail(lineartest.Failure{
			Kind:   lineartest.FailStatus,
			Times:  times,
			Status: 503,
		})
	case 1:
		return s.tracker.Fail(lineartest.Failure{
			Kind:    lineartest.FailRateLimit,
			Times:   1,
			ResetMS: 1500,
		})
	case 2:
		return s.tracker.Fail(lineartest.Failure{
			Kind:    lineartest.FailSlow,
			Times:   times,
			DelayMS: int64(500 + random.IntN(3000)),
		})
	case 3:
		kinds := []string{
			lineartest.FailClose,
			lineartest.FailGarbage,
			lineartest.FailGraphQL,
			lineartest.FailCursor,
			lineartest.FailMalformed,
		}
		return s.tracker.Fail(lineartest.Failure{
			Kind:  kinds[random.IntN(len(kinds))],
			Times: times,
		})
	case 4:
		if random.IntN(4) > 0 {
			return nil // rarely, because a client waits long for the answer
		}
		return s.tracker.Fail(lineartest.Failure{Kind: lineartest.FailHang, Times: 1})
	}
	states := []string{"Todo", "In Progress", "Todo", "In Progress", "Human Review", "Backlog", "Done"}
	return s.tracker.Move(otherIssue(random), states[random.IntN(len(states))])
}

// otherIssue chooses an issue that is not one of the operator's.
func otherIssue(random *rand.Rand) string {
	return fmt.Sprintf("ABC-%d", ownedIssues+1+random.IntN(allIssues-ownedIssues))
}

// operate runs commands of the operator. For the owned issues it records their expected
// effect.
func (c *checker) operate(ctx context.Context) {
	random := c.random("operator")
	for pause(ctx, time.Duration(300+random.IntN(1500))*time.Millisecond) {
		verbs := []string{"retry", "hold", "retry", "stop"}
		verb := verbs[random.IntN(len(verbs))]
		name := fmt.Sprintf("ABC-%d", 1+random.IntN(ownedIssues))
		owned := true
		switch random.IntN(10) {
		case 0, 1, 2, 3:
			name = otherIssue(random)
			owned = false
			if random.IntN(6) > 0 {
				verb = "retry"
			}
		case 4:
			c.command(ctx, "pause")
			pause(ctx, time.Second)
			c.resume(ctx)
			continue
		case 5:
			// otherwise clones that failed would keep everything waiting for minutes
			c.command(ctx, "resume")
			continue
		case 6, 7:
			if *hosts { // and hosts that were not reached
				c.command(ctx, "resume")
				continue
			}
		}
		began := time.Now()
		args := []string{verb, name}
		if verb == "hold" {
			args = []string{"stop", name, "--after-run"}
		}
		a := c.command(ctx, args...)
		if verb == "retry" {
			c.retries[name] = append(c.retries[name], [2]time.Time{began, time.Now()})
		}
		if !owned {
			continue
		}
		c.commands++
		// After exit code 4 the command is stored for the next pass. After any other error it
		// may or may not be stored.
		if a.exit == 0 || a.exit == 4 {
			c.wanted[name] = verb
		} else {
			delete(c.wanted, name)
		}
	}
}

func (c *checker) resume(ctx context.Context) {
	for range 20 {
		if a := c.command(ctx, "resume"); a.exit == 0 || a.exit == 4 {
			return
		}
	}
	c.fault("unexpected ends", "resume failed 20 times")
}

// settledRuns lists the runs that a pass reports as settled. A truncated report contains none.
func settledRuns(out string) (runs []string) {
	var report struct {
		Actions []struct {
			Action string `json:"action"`
			RunID  string `json:"run_id"`
		}
	}
	if json.Unmarshal([]byte(out), &report) != nil {
		return nil
	}
	for _, a := range report.Actions {
		if a.Action == "settle" && a.RunID != "" {
			runs = append(runs, a.RunID)
		}
	}
	return runs
}
