package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// bench is what all measurements have in common.
type bench struct {
	ctx      context.Context
	o        options
	dir      string
	symphony string
	minimal  string
	tracker  tracker
	watch    *watch
	progress io.Writer
	projects []*project
	table    table
}

// begin builds the programs and starts what the measurements need.
func begin(ctx context.Context, o options, progress io.Writer) (b *bench, err error) {
	dir, err := stage.TempDir("bench")
	if err != nil {
		return nil, err
	}
	b = &bench{ctx: ctx, o: o, dir: dir, progress: progress}
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
	b.symphony, b.minimal = b.o.symphony, filepath.Join(b.dir, "minimal")
	packages := map[string]string{b.minimal: "./scripts/internal/minimal", filepath.Join(b.dir, "stopwatch"): "./scripts/internal/stopwatch"}
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
	return nil
}

// project is one that is measured.
type project struct {
	stage.Project
	b *bench
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
agent:
  max_concurrent_agents: 10
codex:
  command: "'%s' demo-agent app-server --home '%s'"
---
You work on {{ issue.identifier }}: {{ issue.title }}

{{ issue.description }}

Attempt: {{ attempt }}
`

func (b *bench) project(name string) (*project, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	made, err := stage.NewProject(dir)
	if err != nil {
		return nil, err
	}
	if err := made.WriteWorkflow(workflowText, b.tracker.Endpoint(), b.symphony, made.AgentHome); err != nil {
		return nil, err
	}
	s := &project{Project: made, b: b}
	b.projects = append(b.projects, s)
	return s, nil
}

// symphony measures one command on the project.
func (s *project) symphony(command string, args ...string) (sample, error) {
	argv := append([]string{s.b.symphony, command, "--workflow", s.Workflow, "--state-dir", s.StateDir}, args...)
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

// job and sample are those of the program stopwatch.
type job struct {
	Argv, Env []string
	Dir       string
}

type sample struct {
	WallNS, CPUNS int64
	PeakKiB       int64
	Exit          int
	Stdout        string
	Stderr        string
	Err           string
	// began is when the job was handed out.
	began time.Time
}

func (s sample) wall() time.Duration { return time.Duration(s.WallNS) }
func (s sample) cpu() time.Duration  { return time.Duration(s.CPUNS) }

// watch is the other side of stopwatch.
type watch struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startWatch(exe string) (*watch, error) {
	cmd := exec.Command(exe)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = stage.Apart()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("stopwatch: %w", err)
	}
	w := &watch{cmd: cmd, in: in, out: bufio.NewScanner(out)}
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
	if !w.out.Scan() {
		return s, fmt.Errorf("stopwatch ended: %w", errors.Join(w.out.Err(), io.ErrUnexpectedEOF))
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

func (w *watch) close() error { return errors.Join(w.in.Close(), w.cmd.Wait()) }
