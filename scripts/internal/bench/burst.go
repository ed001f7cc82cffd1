package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/runner"
)

const (
	burstIssues = 10
	burstTime   = 600 * time.Millisecond
	burstWait   = 30 * time.Second
)

// burst times ten issues at once: from the start of the pass to the last agent's answer to `initialize`. Every
// repetition is a project's very first pass, which has the most to do.
func (b *bench) burst() error {
	var last, first, passes []time.Duration
	for n := range b.o.runs {
		s, err := b.project(fmt.Sprintf("burst-%d", n+1))
		if err != nil {
			return err
		}
		if err := b.tracker.Seed(b.ctx, burstIssueList()); err != nil {
			return err
		}
		pass, err := s.symphony("tick", "--json")
		if err != nil {
			return err
		}
		times, err := s.initialized(pass.began)
		if err != nil {
			return err
		}
		passes, first, last = append(passes, pass.wall()), append(first, times[0]), append(last, times[1])
		if err := s.clear(); err != nil {
			return err
		}
	}
	t := &b.table
	t.heading(fmt.Sprintf("%d issues at once, in a project's first pass, %d times", burstIssues, b.o.runs))
	figure, spread := milliseconds(passes)
	t.note("wall of the pass", figure, spread)
	figure, spread = milliseconds(first)
	t.note("start of the pass to the first initialize", figure, spread)
	figure, spread = milliseconds(last)
	t.judge("start of the pass to the last initialize", figure, spread, fmt.Sprintf("under %d ms", burstTime.Milliseconds()), median(last) < burstTime)
	return nil
}

// burstIssueList makes issues whose agents do nothing until they are stopped.
func burstIssueList() []lineartest.Issue {
	script := "```agent\nhang\n```"
	list := make([]lineartest.Issue, burstIssues)
	for n := range list {
		list[n] = lineartest.Issue{Identifier: fmt.Sprintf("ABC-%d", n+1), Title: fmt.Sprintf("One of %d", burstIssues), Description: &script, State: "Todo"}
	}
	return list
}

// initialized waits until every agent has answered `initialize` and returns the first and the last time of it. The
// scripted agent's answer is followed at once by a notification, which is the first event of a run.
func (s *project) initialized(began time.Time) (times [2]time.Duration, err error) {
	ctx, cancel := context.WithTimeout(s.b.ctx, burstWait)
	defer cancel()
	var all []time.Time
	err = until(ctx, func() (bool, error) {
		all, err = s.firstEvents()
		return len(all) == burstIssues, err
	})
	if err != nil {
		return times, fmt.Errorf("%d of %d agents were initialized: %w", len(all), burstIssues, err)
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
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var line runner.EventLine
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				break // not all of it is written yet
			}
			if line.Method == initializedMethod {
				times = append(times, line.At)
				break
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	return times, nil
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
