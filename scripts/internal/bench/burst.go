package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/runner/agent"
)

const (
	burstBudget = 400 // ms, for ten
	burstWait   = 60 * time.Second
)

// burst times issues at once: from the start of the pass to the last agent's answer to `initialize`. Every repetition
// is a project's very first pass, which has the most to do.
func (b *bench) burst() error {
	for _, count := range []int{1, 10, 50} {
		if err := b.burstOf(count); err != nil {
			return fmt.Errorf("%d issues: %w", count, err)
		}
	}
	return nil
}

func (b *bench) burstOf(count int) error {
	var last, first []time.Duration
	var passes []sample
	for n := range b.o.runs {
		s, err := b.projectOf(fmt.Sprintf("burst-%d-%d", count, n+1), settings{agents: count, pollingMS: 30_000, turns: 20})
		if err != nil {
			return err
		}
		if err := b.tracker.Seed(b.ctx, agents(count, "hang")); err != nil {
			return err
		}
		pass, err := s.symphony("tick", "--json")
		if err != nil {
			return err
		}
		times, err := s.initialized(pass.began, count)
		if err != nil {
			return err
		}
		passes, first, last = append(passes, pass), append(first, times[0]), append(last, times[1])
		if err := s.clear(); err != nil {
			return err
		}
	}
	t := &b.table
	t.heading("%d at once, in a project's first pass", count)
	t.add(figure{Name: "wall of the pass", Unit: "ms", Values: each(passes, wallMS)})
	t.add(figure{Name: "CPU of the pass", Unit: "ms", Values: each(passes, cpuMS)})
	t.add(figure{Name: "start of the pass to the first initialize", Unit: "ms", Values: milliseconds(first)})
	f := figure{Name: "start of the pass to the last initialize", Unit: "ms", Values: milliseconds(last)}
	if count == 10 {
		f.Budget = atMost(burstBudget)
	}
	t.add(f)
	return nil
}

// agents makes issues whose agents do what the script says.
func agents(count int, script string) []lineartest.Issue {
	list := make([]lineartest.Issue, count)
	for n := range list {
		identifier := fmt.Sprintf("ABC-%d", n+1)
		text := "```agent\n" + strings.ReplaceAll(script, "{issue}", identifier) + "\n```"
		list[n] = lineartest.Issue{Identifier: identifier, Title: fmt.Sprintf("One of %d", count), Description: &text, State: "Todo"}
	}
	return list
}

// initialized waits until every agent has answered `initialize` and returns the first and the last time of it. The
// scripted agent's answer is followed at once by a notification, which is the first event of a run.
func (s *project) initialized(began time.Time, count int) (times [2]time.Duration, err error) {
	ctx, cancel := context.WithTimeout(s.b.ctx, burstWait)
	defer cancel()
	var all []time.Time
	err = until(ctx, func() (bool, error) {
		all, err = s.firstEvents()
		return len(all) == count, err
	})
	if err != nil {
		return times, fmt.Errorf("%d of %d agents were initialized: %w", len(all), count, err)
	}
	for _, at := range all {
		d := at.Sub(began)
		if times[0] == 0 || d < times[0] {
			times[0] = d
		}
		times[1] = max(times[1], d)
	}
	return times, nil
}

// initializedMethod is the notification.
const initializedMethod = "remoteControl/status/changed"

func (s *project) firstEvents() ([]time.Time, error) {
	files, err := s.eventFiles()
	if err != nil {
		return nil, err
	}
	var times []time.Time
	for _, path := range files {
		at, err := firstEvent(path)
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			times = append(times, at)
		}
	}
	return times, nil
}

// firstEvent is when the agent of a run had answered `initialize`, which it must have.
func (s *project) firstEvent(run string) (time.Time, error) {
	at, err := firstEvent(filepath.Join(s.StateDir, "runs", run, "events.jsonl"))
	if err == nil && at.IsZero() {
		err = fmt.Errorf("the agent of run %s was not initialized", run)
	}
	return at, err
}

// firstEvent is zero where it has not come yet.
func firstEvent(path string) (at time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return at, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line agent.EventLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return at, nil // not all of it is written yet
		}
		if line.Method == initializedMethod {
			return line.At, nil
		}
	}
	return at, lines.Err()
}

func (s *project) eventFiles() ([]string, error) {
	return filepath.Glob(filepath.Join(s.StateDir, "runs", "*", "events.jsonl"))
}

// happened reports whether the events of any run hold the text.
func (s *project) happened(text string) (bool, error) {
	files, err := s.eventFiles()
	if err != nil {
		return false, err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		if strings.Contains(string(data), text) {
			return true, nil
		}
	}
	return false, nil
}
