//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
)

// storm lets everybody loose for as long as asked.
func (s *scene) storm(ctx context.Context, c *checker) error {
	c.hits.calm.Store(true)
	// The first pass makes the database that operator and checker read.
	if a := s.answer(ctx, c, "tick", "--trigger", "cron", "--json"); a.exit != 0 {
		return fmt.Errorf("the first pass: exit %d: %s%s", a.exit, a.out, a.err)
	}
	c.hits.calm.Store(false)
	defer c.hits.calm.Store(true)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.o.seconds)*time.Second)
	defer cancel()
	fmt.Fprintf(s.progress, "chaos: %d seconds of it in %s\n", s.o.seconds, s.Dir)
	var all sync.WaitGroup
	var errs [3]error // of those without which it is no storm: the first to fail ends it
	for n, actor := range []func() error{
		func() error { return s.killer(ctx, &c.hits) },
		func() error { return s.sabotage(ctx) },
		func() error { return c.watch(ctx) },
	} {
		all.Go(func() {
			if errs[n] = actor(); errs[n] != nil {
				cancel()
			}
		})
	}
	all.Go(func() { s.operate(ctx, c) })
	all.Go(func() { s.loops(ctx, c) })
	for _, trigger := range []string{"cron", "manual", "timer"} {
		all.Go(func() { s.pass(ctx, c, trigger) })
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// answer is how a command of ours ended.
type answer struct {
	out, err string
	exit     int  // -1: a signal ended it
	hit      bool // by the killer
}

// answer runs a command to its end, which comes also after the storm's.
func (s *scene) answer(ctx context.Context, c *checker, args ...string) answer {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandBound)
	defer cancel()
	cmd := exec.CommandContext(bound, s.symphony, args...)
	var out, errw bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.Dir, s.Env, &out, &errw
	cmd.WaitDelay = time.Second
	err := cmd.Start()
	if err == nil {
		end := c.hits.doom(ctx, cmd, args)
		err = cmd.Wait()
		end()
	}
	a := answer{out: out.String(), err: errw.String(), exit: cmd.ProcessState.ExitCode()}
	if cmd.Process != nil {
		a.hit = c.hits.was(cmd.Process.Pid)
	}
	c.heard(args, a, err, bound.Err() != nil)
	return a
}

// commandBound is beyond all bounds that a command has for itself.
const commandBound = 100 * time.Second

// pass runs one after the other, each a process of its own, as a schedule or a person would.
func (s *scene) pass(ctx context.Context, c *checker, trigger string) {
	random := s.random(trigger)
	for pause(ctx, time.Duration(200+random.IntN(1800))*time.Millisecond) {
		args := []string{"tick", "--trigger", trigger, "--json"}
		if random.IntN(3) == 0 {
			args = append(args, "--lock-timeout", "2s")
		}
		s.answer(ctx, c, args...)
	}
}

// loops keeps a loop going: one that was ended is followed by another.
func (s *scene) loops(ctx context.Context, c *checker) {
	for pause(ctx, time.Second) {
		cmd := exec.CommandContext(ctx, s.symphony, "tick", "--loop")
		var errw bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stderr = s.Dir, s.Env, &errw
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 70 * time.Second // its pass may wait for the tracker
		err := cmd.Run()
		if cmd.Process == nil {
			c.fault("unexpected ends", "tick --loop: %v", err)
			continue
		}
		exit := cmd.ProcessState.ExitCode()
		// The storm's end hits it too, maybe before it listens for signals.
		hit := c.hits.was(cmd.Process.Pid) || ctx.Err() != nil && exit < 0
		c.heard([]string{"tick", "--loop"}, answer{err: errw.String(), exit: exit, hit: hit}, err, false)
	}
}

// sabotage moves issues about and makes the tracker fail.
func (s *scene) sabotage(ctx context.Context) error {
	random := s.random("tracker")
	for pause(ctx, time.Duration(200+random.IntN(2500))*time.Millisecond) {
		if err := s.harm(ctx, random); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (s *scene) harm(ctx context.Context, random *rand.Rand) error {
	times := 1 + random.IntN(3)
	switch random.IntN(12) {
	case 0:
		return s.tracker.Fail(ctx, lineartest.Failure{Kind: lineartest.FailStatus, Times: times, Status: 503})
	case 1:
		return s.tracker.Fail(ctx, lineartest.Failure{Kind: lineartest.FailRateLimit, Times: 1, ResetMS: 1500})
	case 2:
		return s.tracker.Fail(ctx, lineartest.Failure{Kind: lineartest.FailSlow, Times: times, DelayMS: int64(500 + random.IntN(3000))})
	case 3:
		kinds := []string{lineartest.FailClose, lineartest.FailGarbage, lineartest.FailGraphQL, lineartest.FailCursor, lineartest.FailMalformed}
		return s.tracker.Fail(ctx, lineartest.Failure{Kind: kinds[random.IntN(len(kinds))], Times: times})
	case 4:
		if random.IntN(4) > 0 {
			return nil // a client waits long for an answer, so not often
		}
		return s.tracker.Fail(ctx, lineartest.Failure{Kind: lineartest.FailHang, Times: 1})
	}
	states := []string{"Todo", "In Progress", "Todo", "In Progress", "Human Review", "Backlog", "Done"}
	name := fmt.Sprintf("ABC-%d", ownedIssues+1+random.IntN(allIssues-ownedIssues))
	return s.tracker.move(ctx, name, states[random.IntN(len(states))])
}

// operate gives commands, one after the other, some for issues that nobody else touches: of those it is known what
// must have become of them.
func (s *scene) operate(ctx context.Context, c *checker) {
	random := s.random("operator")
	for pause(ctx, time.Duration(300+random.IntN(1500))*time.Millisecond) {
		verbs := []string{"retry", "hold", "retry", "stop"}
		verb, name := verbs[random.IntN(len(verbs))], fmt.Sprintf("ABC-%d", 1+random.IntN(ownedIssues))
		switch random.IntN(10) {
		case 0, 1, 2, 3:
			name = fmt.Sprintf("ABC-%d", ownedIssues+1+random.IntN(allIssues-ownedIssues))
			if random.IntN(3) > 0 {
				verb = "retry"
			}
		case 4:
			s.answer(ctx, c, "pause")
			pause(ctx, time.Second)
			s.resume(ctx, c)
			continue
		}
		began := time.Now()
		a := s.answer(ctx, c, verb, name)
		if verb == "retry" {
			c.retried[name] = append(c.retried[name], began, time.Now())
		}
		if !owned(name) {
			continue
		}
		c.commands++
		// 4: it is kept for the next pass. Anything else may or may not have been written down.
		if a.exit == 0 || a.exit == 4 {
			c.wanted[name] = verb
		} else {
			delete(c.wanted, name)
		}
	}
}

// resume is repeated until it is acknowledged.
func (s *scene) resume(ctx context.Context, c *checker) {
	for range 20 {
		if a := s.answer(ctx, c, "resume"); a.exit == 0 || a.exit == 4 {
			return
		}
	}
	c.fault("unexpected ends", "resume failed 20 times")
}

// done is an action that a pass says it has done.
type done struct {
	Action string  `json:"action"`
	RunID  *string `json:"run_id"`
}

// actions are those of a pass's report. What is no report, because it was cut, has none.
func actions(out string) (list []done) {
	var report struct {
		Actions json.RawMessage `json:"actions"`
	}
	if json.Unmarshal([]byte(out), &report) != nil || json.Unmarshal(report.Actions, &list) != nil {
		return nil
	}
	return list
}

// leftPaths are what stands in the workspace root that no issue can have put there.
func (s *scene) leftPaths() (list []string, err error) {
	entries, err := os.ReadDir(filepath.Join(s.Dir, "workspaces"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "ABC-") && e.Name() != ".symphony" {
			list = append(list, e.Name())
		}
	}
	return list, err
}
