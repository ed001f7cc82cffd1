package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
	"github.com/symphony-cron/symphony/state/statetest"
)

const (
	deskBudget = 100 // ms
	// deskCPU is the percentage of a core that ps --watch may take.
	deskCPU   = 3
	watchTime = 15 * time.Second
	// beatEvery is how often a worker's heartbeat changes the database meanwhile.
	beatEvery = 500 * time.Millisecond
)

// questions are what a person asks at the desk. Each must be answered within the budget on a large state.
func questions() []job {
	var list []job
	for _, line := range []string{
		"ps", "ps --all", "ps --json", "show ABC-1", "show ABC-10", "show ABC-50", "logs ABC-50", "logs ABC-500", "report", "report --json",
		"report --since 7d", "report --since 30d", "projects", "projects --disk", "logs ABC-50 --last command", "prune --dry-run",
		"tick --dry-run", "pause", "resume",
	} {
		list = append(list, job{Argv: strings.Fields(line)})
	}
	return list
}

// desk times commands that look, and some that order, on 500 claims and 5,000 finished runs, and what ps --watch takes of
// a core while the database changes under it.
func (b *bench) desk() error {
	s, err := b.project("desk")
	if err != nil {
		return err
	}
	s.StateDir = state.DefaultDir("", s.Home, s.Workflow) // where projects looks
	size := statetest.Large500
	if err := statetest.Large(b.ctx, s.StateDir, time.Now(), size); err != nil {
		return err
	}
	t := &b.table
	t.heading("answers on %d claims, %d finished runs and %d passes", size.Claims, size.Runs, size.Passes)
	for _, q := range questions() {
		var answers []sample
		for range deskRepeats(b.o.runs) {
			got, err := s.ask(q.Argv)
			if err != nil {
				return err // a command that is not there says so
			}
			if got.Stdout == "" {
				return fmt.Errorf("%s said nothing", strings.Join(q.Argv, " "))
			}
			answers = append(answers, got)
		}
		t.add(figure{Name: strings.Join(q.Argv, " "), Unit: "ms", Values: each(answers, wallMS), Budget: atMost(deskBudget)})
	}
	share, err := s.watchShare()
	if err != nil {
		return err
	}
	t.add(figure{Name: fmt.Sprintf("ps --watch for %s, part of a core", watchTime), Unit: "%", Values: []float64{100 * share}, Budget: atMost(deskCPU)})
	return nil
}

// ask runs a command of one project, or that of all.
func (s *project) ask(words []string) (sample, error) {
	if words[0] == "projects" {
		return s.b.watch.time(s.b.ctx, job{Argv: append([]string{s.b.symphony}, words...), Env: s.Env, Dir: s.Dir})
	}
	return s.symphony(words[0], words[1:]...)
}

// deskRepeats: each takes so little that more of them cost nothing.
func deskRepeats(runs int) int { return 3 * runs }

// watchShare is what ps --watch takes of a core on a terminal, while the heartbeat of a run changes.
func (s *project) watchShare() (float64, error) {
	ctx, stop := context.WithTimeout(s.b.ctx, watchTime)
	defer stop()
	beats := make(chan error, 1)
	go func() { beats <- s.beat(ctx) }()
	used, lasted, err := onTerminal(ctx, []string{s.b.symphony, "ps", "--watch", "--workflow", s.Workflow, "--state-dir", s.StateDir}, s.Env, s.Dir)
	stop()
	return float64(used) / float64(lasted), errors.Join(err, <-beats)
}

// beat is one worker's heartbeat until ctx ends.
func (s *project) beat(ctx context.Context) error {
	db, err := state.Open(ctx, s.StateDir)
	if err != nil {
		return err
	}
	defer db.Close()
	rec, err := db.State(ctx)
	if err != nil {
		return err
	}
	run := rec.Runs[0]
	if run.Outcome != "" || run.Phase != reconcile.StreamingTurn {
		return fmt.Errorf("no run is at work: %+v", run)
	}
	for tick := time.NewTicker(beatEvery); ; {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			run.Beats, run.HeartbeatAt, run.LastMessage = run.Beats+1, now, fmt.Sprintf("Beat %d.", run.Beats)
			if _, err := db.UpdateRun(context.WithoutCancel(ctx), now, run); err != nil {
				return err
			}
		}
	}
}
