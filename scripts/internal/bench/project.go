//go:build linux

package main

import (
	"bytes"
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

func (s *suite) project(agents int) *project {
	p := &project{get(stage.NewProject(get(os.MkdirTemp(s.dir, "project-")))), s}
	s.projects = append(s.projects, p)
	must(p.WriteWorkflow(workflowText, s.endpoint(), agents, s.agent, p.AgentHome))
	return p
}

// symphony runs a command of the program to its end and measures it.
func (p *project) symphony(args ...string) sample {
	return p.run(append([]string{p.s.symphony}, args...))
}

// baseline runs and measures the comparison program.
func (p *project) baseline(args ...string) sample {
	return p.run(append([]string{p.s.baseline}, args...))
}

// quietTick is a pass that must succeed and do nothing.
func (p *project) quietTick() sample {
	got := p.symphony("tick", "--json")
	var report struct{ Actions, Errors []json.RawMessage }
	must(json.Unmarshal([]byte(got.Output), &report))
	if len(report.Actions)+len(report.Errors) > 0 {
		must(fmt.Errorf("the pass was to do nothing: %s", got.Output))
	}
	return got
}

// copyDatabase copies the state for the comparison program, so that neither reads what the other left in the WAL.
func (p *project) copyDatabase() string {
	copied := filepath.Join(p.Dir, "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		if data, err := os.ReadFile(p.Database() + suffix); suffix == "" || !errors.Is(err, fs.ErrNotExist) {
			must(err)
			must(os.WriteFile(copied+suffix, data, 0o600))
		}
	}
	return copied
}

// writeRequests writes request bodies to a file that the comparison program sends.
func (p *project) writeRequests(bodies []json.RawMessage) string {
	var text bytes.Buffer
	for _, body := range bodies {
		must(json.Compact(&text, body))
		text.WriteByte('\n')
	}
	file := filepath.Join(p.Dir, "requests")
	must(os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

// stop ends all workers and waits until no process of the project is left.
func (p *project) stop() {
	if len(get(stage.Processes(p.Dir, ""))) == 0 {
		return
	}
	p.symphony("stop", "--all")
	for end := time.Now().Add(20 * time.Second); ; p.s.pause(10 * time.Millisecond) {
		left := get(stage.Processes(p.Dir, ""))
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, each := range left {
				_ = syscall.Kill(each.PID, syscall.SIGKILL) // it may have ended meanwhile
			}
			must(fmt.Errorf("stop --all left processes, which were killed: %v", left))
		}
	}
}

func (s *suite) pause(d time.Duration) {
	select {
	case <-s.ctx.Done():
		must(s.ctx.Err())
	case <-time.After(d):
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

// run runs a command, which must succeed, by a small process of its own: Linux counts the peak memory of the parent as that
// of a new process.
func (p *project) run(argv []string) (s sample) {
	// A file: with a pipe the end of the output would be waited for and measured.
	output := filepath.Join(p.Tmp, "output")
	var result bytes.Buffer
	cmd := exec.CommandContext(p.s.ctx, get(os.Executable()), append([]string{stopwatchCommand, output}, argv...)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.Dir, p.Env, &result, os.Stderr
	err := cmd.Run()
	s.Output = string(get(os.ReadFile(output)))
	if err != nil {
		must(fmt.Errorf("%q: %w\n%s", argv[1:], err, s.Output))
	}
	must(json.Unmarshal(result.Bytes(), &s))
	return s
}

// stopwatch runs a program and prints what it took as JSON: OUTPUT-FILE PROGRAM ARGUMENT...
func stopwatch(args []string) error {
	output, err := os.Create(args[0])
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
