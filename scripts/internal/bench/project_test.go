//go:build linux

package bench

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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// programs are built once, before the first benchmark. The agent is a copy of the program,
// because agents that run from the same file would share memory with the measured workers.
var programs struct {
	dir, symphony, agent, baseline string
	build                          sync.Once
}

func build() {
	programs.dir = get(os.MkdirTemp("", "symphony-bench-"))
	at := func(name string) string { return filepath.Join(programs.dir, name) }
	programs.symphony = at("symphony")
	programs.agent = at("agent")
	programs.baseline = at("baseline")
	must(stage.Build(ctx, programs.symphony))
	must(os.WriteFile(programs.agent, get(os.ReadFile(programs.symphony)), 0o700)) //nolint:gosec // a program
	cmd := exec.CommandContext(
		ctx,
		"go",
		"build",
		"-trimpath",
		"-ldflags",
		"-s -w",
		"-o",
		programs.baseline,
		"./scripts/internal/baseline",
	)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	must(cmd.Run())
}

const workflowText = `polling:
  interval_ms: %d
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

// project is the measured project with its tracker.
type project struct {
	stage.Project
	*tracker
	agents int
	loop   int // the pid of the loop
}

func newProject(b *testing.B, agents int) *project {
	programs.build.Do(build)
	p := &project{
		Project: get(stage.NewProject(b.TempDir())),
		tracker: newTracker(b),
		agents:  agents,
	}
	p.writeWorkflow(30 * time.Second)
	b.Cleanup(p.stop)
	return p
}

func (p *project) writeWorkflow(interval time.Duration) {
	must(
		p.WriteWorkflow(
			p.endpoint(),
			workflowText,
			interval.Milliseconds(),
			p.agents,
			programs.agent,
			p.AgentHome,
		),
	)
}

// startLoop starts a loop with that interval, which end ends.
func (p *project) startLoop(interval time.Duration) (end func()) {
	p.writeWorkflow(interval)
	cmd := exec.Command(programs.symphony, "tick", "--loop", "--quiet")
	cmd.Dir = p.Dir
	cmd.Env = p.Env
	cmd.Stderr = os.Stderr
	must(cmd.Start())
	p.loop = cmd.Process.Pid
	return func() { must(errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())) }
}

// awaitPasses waits for that many passes of the loop. Each makes one request.
func (p *project) awaitPasses(count int) {
	p.takeRequests()
	for end := time.Now().Add(2 * time.Minute); count > 0; pause(20 * time.Millisecond) {
		count -= len(p.takeRequests())
		if time.Now().After(end) {
			must(errors.New("the loop has no passes"))
		}
	}
}

// symphony runs a command of the program to its end and measures it.
func (p *project) symphony(args ...string) sample { return p.run(programs.symphony, args) }

// baseline runs and measures the comparison program.
func (p *project) baseline(args ...string) sample { return p.run(programs.baseline, args) }

// quietTick is a pass that must succeed and do nothing.
func (p *project) quietTick() sample {
	got := p.symphony("tick", "--json")
	var report struct{ Actions, Errors []json.RawMessage }
	must(json.Unmarshal([]byte(got.output), &report))
	if len(report.Actions)+len(report.Errors) > 0 {
		must(fmt.Errorf("the pass had actions or errors: %s", got.output))
	}
	return got
}

// copyDatabase copies the state for the comparison program, so that neither program reads the
// WAL of the other.
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
func (p *project) writeRequests(bodies [][]byte) string {
	var text bytes.Buffer
	for _, body := range bodies {
		must(json.Compact(&text, body))
		text.WriteByte('\n')
	}
	file := filepath.Join(p.Dir, "requests")
	must(os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

// stop ends all workers, even after Ctrl-C, and waits until no process of the project is left.
func (p *project) stop() {
	left := func() []stage.Process { return get(stage.Processes(p.Dir, "")) }
	if len(left()) == 0 {
		return
	}
	cmd := exec.Command(programs.symphony, "stop", "--all")
	cmd.Dir = p.Dir
	cmd.Env = p.Env
	err := cmd.Run()
	for end := time.Now().Add(20 * time.Second); len(left()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			for _, each := range left() {
				_ = syscall.Kill(each.PID, syscall.SIGKILL) // it may have ended
			}
			must(errors.Join(err, errors.New("stop --all left processes, which were killed")))
		}
	}
}

func pause(d time.Duration) {
	select {
	case <-ctx.Done():
		must(ctx.Err())
	case <-time.After(d):
	}
}

// sample is the cost of a command, including the processes that it waited for.
type sample struct {
	Began     time.Time
	Wall, CPU time.Duration
	PeakMB    float64
	output    string
}

type samples []sample

func (list samples) wall() []float64 {
	return list.each(func(s sample) float64 { return s.Wall.Seconds() })
}

func (list samples) cpu() []float64 {
	return list.each(func(s sample) float64 { return s.CPU.Seconds() })
}

func (list samples) peakMB() float64 {
	return slices.Max(list.each(func(s sample) float64 { return s.PeakMB }))
}

func (list samples) each(value func(sample) float64) (values []float64) {
	for _, s := range list {
		values = append(values, value(s))
	}
	return values
}

const stopwatchCommand = "stopwatch"

// run runs a command, which must succeed, from a small process, because the peak memory of a
// new process starts with that of its parent.
func (p *project) run(program string, args []string) (s sample) {
	// With a pipe instead of a file the wait for the end of the output would be measured, too.
	output := filepath.Join(p.Tmp, "output")
	var result bytes.Buffer
	cmd := exec.CommandContext(
		ctx,
		get(os.Executable()),
		append([]string{stopwatchCommand, output, program}, args...)...)
	cmd.Dir = p.Dir
	cmd.Env = p.Env
	cmd.Stdout = &result
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	s.output = string(get(os.ReadFile(output)))
	if err != nil {
		must(fmt.Errorf("%q: %w\n%s", args, err, s.output))
	}
	must(json.Unmarshal(result.Bytes(), &s))
	return s
}

// stopwatch runs a program with its output in a file, and prints its cost as JSON.
func stopwatch(output string, argv []string) error {
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = file
	cmd.Stderr = file
	s := sample{Began: time.Now()}
	if err := cmd.Run(); err != nil {
		return err
	}
	s.Wall = time.Since(s.Began)
	s.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	s.PeakMB = float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024 / 1e6
	return json.NewEncoder(os.Stdout).Encode(s)
}
