package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// bench is what all measurements have in common.
type bench struct {
	ctx      context.Context
	o        options
	dir      string
	symphony string
	// agent is a copy of the program: one file for both would let workers share its pages with agents.
	agent    string
	minimal  string
	bare     string
	tracker  tracker
	watch    *watch
	progress io.Writer
	projects []*project
	table    table
	// points are what the plot shows.
	points []point
}

// begin builds the programs and starts what the measurements need.
func begin(ctx context.Context, o options, progress io.Writer) (b *bench, err error) {
	dir, err := stage.TempDir("bench")
	if err != nil {
		return nil, err
	}
	b = &bench{ctx: ctx, o: o, dir: dir, progress: progress, table: table{quick: o.quick}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.end())
			b = nil
		}
	}()
	if err := b.build(); err != nil {
		return b, err
	}
	if b.tracker.Tracker, err = stage.StartTracker(30 * time.Second); err != nil {
		return b, err
	}
	b.watch, err = startWatch(filepath.Join(dir, "stopwatch"))
	return b, err
}

// end stops what was started and removes the folder.
func (b *bench) end() error {
	var errs []error
	for _, s := range b.projects {
		errs = append(errs, s.clear())
	}
	if b.watch != nil {
		errs = append(errs, b.watch.close())
	}
	if b.tracker.Tracker != nil {
		errs = append(errs, b.tracker.Close())
	}
	if b.o.keep {
		fmt.Fprintln(b.progress, "bench: kept", b.dir)
	} else {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// build makes the programs in the way of a release.
func (b *bench) build() error {
	b.symphony, b.minimal, b.bare = b.o.symphony, filepath.Join(b.dir, "minimal"), filepath.Join(b.dir, "bare")
	packages := map[string]string{
		b.minimal: "./scripts/internal/minimal", b.bare: "./scripts/internal/bare",
		filepath.Join(b.dir, "stopwatch"): "./scripts/internal/stopwatch",
	}
	if b.symphony == "" {
		b.symphony = filepath.Join(b.dir, "symphony")
		packages[b.symphony] = "./cmd/symphony"
	}
	var err error
	if b.symphony, err = filepath.Abs(b.symphony); err != nil {
		return err
	}
	for out, pkg := range packages {
		fmt.Fprintf(b.progress, "bench: building %s\n", pkg)
		if err := stage.Build(b.ctx, b.o.tags, out, pkg); err != nil {
			return err
		}
	}
	b.agent = filepath.Join(b.dir, "agent")
	return stage.Install(b.symphony, b.agent)
}

// copies makes some of a program. A file that was written at another moment lies in memory otherwise, and that alone may
// make a program of milliseconds slower by a quarter: one copy is no measurement.
func (b *bench) copies(program string) (list []string, err error) {
	dir, err := os.MkdirTemp(b.dir, "copies-")
	if err != nil {
		return nil, err
	}
	for n := range programCopies {
		to := filepath.Join(dir, fmt.Sprintf("%s-%d", filepath.Base(program), n))
		if err := stage.Install(program, to); err != nil {
			return nil, err
		}
		list = append(list, to)
	}
	return list, nil
}

const programCopies = 12

// project is one that is measured.
type project struct {
	stage.Project
	b *bench
	// program is the copy of symphony that its commands are measured with.
	program string
	// endLoop ends the loop that was started, if any.
	endLoop func() error
}

const workflowText = `---
tracker:
  kind: linear
  endpoint: %s
  api_key: $LINEAR_API_KEY
  project_slug: demo
workspace:
  root: ./workspaces
  min_free_bytes: 0
polling:
  interval_ms: %d
agent:
  max_concurrent_agents: %d
  max_turns: %d
  max_idle_runs: 0
  max_runs: 0
codex:
  command: "'%s' demo-agent app-server --home '%s'"
---
You work on {{ issue.identifier }}: {{ issue.title }}

{{ issue.description }}

Attempt: {{ attempt }}
`

// settings are what projects differ in.
type settings struct{ agents, pollingMS, turns int }

// project makes one of ten agents, as a user would have it.
func (b *bench) project(name string) (*project, error) {
	return b.projectOf(name, settings{agents: 10, pollingMS: 30_000, turns: 20})
}

func (b *bench) projectOf(name string, o settings) (*project, error) {
	dir, err := os.MkdirTemp(b.dir, name+"-") // a measurement may be made again
	if err != nil {
		return nil, err
	}
	made, err := stage.NewProject(dir)
	if err != nil {
		return nil, err
	}
	if err := made.WriteWorkflow(workflowText, b.tracker.Endpoint(), o.pollingMS, o.agents, o.turns, b.agent, made.AgentHome); err != nil {
		return nil, err
	}
	s := &project{Project: made, b: b, program: b.symphony}
	b.projects = append(b.projects, s)
	return s, nil
}

// symphony measures one command on the project.
func (s *project) symphony(command string, args ...string) (sample, error) {
	argv := append([]string{s.program, command, "--workflow", s.Workflow, "--state-dir", s.StateDir}, args...)
	return s.b.watch.time(s.b.ctx, job{Argv: argv, Env: s.Env, Dir: s.Dir})
}

// quietTick is a pass that must succeed and do nothing.
func (s *project) quietTick() (sample, error) {
	got, err := s.symphony("tick", "--json")
	if err != nil {
		return got, err
	}
	var report struct {
		Actions []json.RawMessage `json:"actions"`
		Errors  []json.RawMessage `json:"errors"`
	}
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
		return got, fmt.Errorf("tick --json: %w: %s", err, got.Stdout)
	}
	if len(report.Actions)+len(report.Errors) > 0 {
		return got, fmt.Errorf("the pass was to do nothing: %s", got.Stdout)
	}
	return got, nil
}

// clear ends what a project still runs.
func (s *project) clear() error {
	if end := s.endLoop; end != nil {
		s.endLoop = nil
		if err := end(); err != nil {
			return err
		}
	}
	running, err := s.processes()
	if err != nil || len(running) == 0 {
		return err
	}
	// Where the measurement was broken off its context is over; the clean-up has its own bound.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.b.ctx), 20*time.Second)
	defer cancel()
	argv := []string{s.b.symphony, "stop", "--all", "--workflow", s.Workflow, "--state-dir", s.StateDir}
	if _, err := s.b.watch.time(ctx, job{Argv: argv, Env: s.Env, Dir: s.Dir}); err != nil {
		return fmt.Errorf("stop --all: %w", err)
	}
	err = until(ctx, func() (bool, error) {
		running, err = s.processes()
		return len(running) == 0, err
	})
	for _, p := range running {
		err = errors.Join(err, fmt.Errorf("still running, now killed: %s", p), p.kill())
	}
	return err
}

// until waits for done, at most as long as ctx lives.
func until(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
