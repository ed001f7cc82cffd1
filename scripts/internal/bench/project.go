//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

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
  max_concurrent_agents: %d
codex:
  command: "'%s' demo-agent app-server --home '%s'"
---
You work on {{ issue.identifier }}: {{ issue.title }}

{{ issue.description }}
`

// project is a project of symphony that is measured.
type project struct {
	stage.Project
	s *suite
}

func (s *suite) project(agents int) (*project, error) {
	dir, err := os.MkdirTemp(s.dir, "project-")
	if err != nil {
		return nil, err
	}
	made, err := stage.NewProject(dir)
	if err != nil {
		return nil, err
	}
	p := &project{made, s}
	s.projects = append(s.projects, p)
	return p, p.WriteWorkflow(workflowText, s.tracker.Endpoint(), agents, s.agent, p.AgentHome)
}

// symphony runs a command of the program to its end and measures it.
func (p *project) symphony(ctx context.Context, args ...string) (sample, error) {
	return measureCommand(ctx, p, append([]string{p.s.symphony}, args...))
}

// baseline runs and measures the comparison program.
func (p *project) baseline(ctx context.Context, args ...string) (sample, error) {
	return measureCommand(ctx, p, append([]string{p.s.baseline}, args...))
}

// quietTick is a pass that must succeed and do nothing.
func (p *project) quietTick(ctx context.Context) (sample, error) {
	got, err := p.symphony(ctx, "tick", "--json")
	if err != nil {
		return got, err
	}
	var report struct{ Actions, Errors []json.RawMessage }
	if err := json.Unmarshal([]byte(got.Output), &report); err != nil || len(report.Actions)+len(report.Errors) > 0 {
		return got, errors.Join(err, fmt.Errorf("the pass was to do nothing: %s", got.Output))
	}
	return got, nil
}

// copyDatabase copies the state for the comparison program, so that neither reads what the other left in the WAL.
func (p *project) copyDatabase() (string, error) {
	copied := filepath.Join(p.Dir, "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(p.Database() + suffix)
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(copied+suffix, data, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	return copied, nil
}

// writeRequests writes request bodies to a file that the comparison program sends.
func (p *project) writeRequests(bodies []json.RawMessage) (string, error) {
	var text bytes.Buffer
	for _, body := range bodies {
		if err := json.Compact(&text, body); err != nil {
			return "", err
		}
		text.WriteByte('\n')
	}
	file := filepath.Join(p.Dir, "requests")
	return file, os.WriteFile(file, text.Bytes(), 0o600)
}

// stop ends all workers and waits until no process of the project is left.
func (p *project) stop(ctx context.Context) error {
	list, err := stage.Processes(p.Dir, "")
	if err != nil || len(list) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err = p.symphony(ctx, "stop", "--all")
	if err == nil {
		err = until(ctx, func() (bool, error) {
			list, err = stage.Processes(p.Dir, "")
			return len(list) == 0, err
		})
	}
	for _, left := range list {
		if err != nil {
			err = errors.Join(err, fmt.Errorf("killed: %s", left), syscall.Kill(left.PID, syscall.SIGKILL))
		}
	}
	return err
}

// until calls done every few milliseconds until it is true.
func until(ctx context.Context, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// sample is what a command took, with the processes that it waited for.
type sample struct {
	Began     time.Time
	Wall, CPU time.Duration
	PeakMB    float64
	Output    string `json:"-"`
}

const stopwatchCommand = "stopwatch"

// measureCommand runs a command, which must succeed, by a small process of its own: Linux counts the memory of the
// parent at its peak as that of a new process.
func measureCommand(ctx context.Context, p *project, argv []string) (s sample, err error) {
	exe, err := os.Executable()
	if err != nil {
		return s, err
	}
	// A file: with a pipe the end of the output would be waited for and measured.
	output, err := os.CreateTemp(p.Tmp, "output-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, output.Close(), os.Remove(output.Name())) }()
	var result bytes.Buffer
	cmd := exec.CommandContext(ctx, exe, append([]string{stopwatchCommand, output.Name()}, argv...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, &result, os.Stderr
	err = cmd.Run()
	text, readErr := os.ReadFile(output.Name())
	if err = errors.Join(err, readErr); err != nil {
		return s, fmt.Errorf("%q: %w\n%s", argv[1:], err, text)
	}
	s.Output = string(text)
	return s, json.Unmarshal(result.Bytes(), &s)
}

// stopwatch runs a program and prints what it took as JSON: OUTPUT-FILE PROGRAM ARGUMENT...
func stopwatch(args []string) error {
	output, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stdout, cmd.Stderr = output, output
	s := sample{Began: time.Now()}
	if err := cmd.Run(); err != nil {
		return err
	}
	s.Wall = time.Since(s.Began)
	s.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.PeakMB = float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024 / 1e6
	return json.NewEncoder(os.Stdout).Encode(s)
}

func wall(s sample) float64 { return s.Wall.Seconds() }
func cpu(s sample) float64  { return s.CPU.Seconds() }

// ratio is the median of the values of the one divided by that of the others.
func ratio(ours, theirs []sample, value func(sample) float64) float64 {
	return median(each(ours, value)) / median(each(theirs, value))
}

func each(list []sample, value func(sample) float64) (values []float64) {
	for _, s := range list {
		values = append(values, value(s))
	}
	return values
}

func peak(list []sample) float64 {
	return slices.Max(each(list, func(s sample) float64 { return s.PeakMB }))
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// times formats the medians for a note.
func times(ours, theirs []sample, value func(sample) float64) string {
	return fmt.Sprintf("%.1f ms against %.1f ms", 1000*median(each(ours, value)), 1000*median(each(theirs, value)))
}
