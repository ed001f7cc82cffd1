//go:build linux

package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// BenchmarkBurst compares the time from the start of a pass to the last of ten answers to
// `initialize` with that of ten login shells that start a program which
// answers a line.
func BenchmarkBurst(b *testing.B) {
	const agents = 10
	report(b, func() []metric {
		var passes, shells []float64
		for range unlessShort(5, 2) {
			p := newProject(b, agents)
			p.quietTick() // creates the database
			passes = append(passes, p.startAgents(agents, "hang").Seconds())
			p.stop()
			shells = append(shells, p.startShells(agents).Seconds())
		}
		return against(passes, shells, "wall", 18)
	})
}

// BenchmarkSlowProfile counts the login shells that ten issues started at once wait for: by
// how much that time grows with a login shell that needs 240 ms of CPU, in units of what the
// shell needs.
func BenchmarkSlowProfile(b *testing.B) {
	const agents, cost = 10, 240 * time.Millisecond
	programs.build.Do(build)
	report(b, func() []metric {
		start := func(profile string) float64 {
			p := newProject(b, agents)
			must(os.WriteFile(filepath.Join(p.Home, ".profile"), []byte(profile), 0o600))
			p.quietTick() // creates the database
			defer p.stop()
			return p.startAgents(agents, "hang").Seconds()
		}
		var slow, empty []float64
		for range unlessShort(7, 2) {
			slow = append(slow, start(fmt.Sprintf("'%s' spin %s\n", programs.baseline, cost)))
			empty = append(empty, start(""))
		}
		return append(
			against(slow, empty, "wall", math.Inf(1)),
			metric{(median(slow) - median(empty)) / cost.Seconds(), "shells", 1.5},
		)
	})
}

// startAgents runs a pass over issues whose agents then wait. It returns the time to the last
// answer to `initialize`, which is that of the agent's first event in each run, because a
// notification follows the answer at once.
func (p *project) startAgents(agents int, script string) time.Duration {
	p.setIssues(agents, 0, script)
	pass := p.symphony("tick", "--json")
	var last time.Time
	started := map[string]bool{}
	for end := time.Now().Add(time.Minute); len(started) < agents; pause(10 * time.Millisecond) {
		if time.Now().After(end) {
			must(fmt.Errorf("%d of %d agents answered initialize", len(started), agents))
		}
		for _, file := range get(filepath.Glob(filepath.Join(p.StateDir, "runs", "*", "events.jsonl"))) {
			if at := firstOfAgent(file); !at.IsZero() {
				started[file] = true
				if at.After(last) {
					last = at
				}
			}
		}
	}
	return last.Sub(pass.Began)
}

// firstOfAgent returns the time of the first event of the agent, or the zero time if there is
// none yet.
func firstOfAgent(file string) (at time.Time) {
	for line := range strings.Lines(string(get(os.ReadFile(file)))) {
		var event struct {
			At  time.Time
			PID int `json:"codex_app_server_pid"`
		}
		if !strings.HasSuffix(line, "\n") {
			break // it is still being written
		}
		must(json.Unmarshal([]byte(line), &event))
		if event.PID != 0 {
			return event.At
		}
	}
	return at
}

// startShells returns the time until that many login shells have started the comparison
// program and each has answered a line.
func (p *project) startShells(agents int) time.Duration {
	began := time.Now()
	var outputs []*bufio.Reader
	for range agents {
		cmd := exec.CommandContext(ctx, "bash", "-lc", fmt.Sprintf("exec '%s' answer", programs.baseline))
		cmd.Dir = p.Dir
		cmd.Env = p.Env
		in := get(cmd.StdinPipe())
		out := get(cmd.StdoutPipe())
		must(cmd.Start())
		defer func() { must(errors.Join(in.Close(), cmd.Wait())) }()
		get(io.WriteString(in, "initialize\n")) // the pipe keeps it until the program reads
		outputs = append(outputs, bufio.NewReader(out))
	}
	for _, out := range outputs {
		get(out.ReadString('\n'))
	}
	return time.Since(began)
}

// BenchmarkWorkers measures the memory of 50 workers with silent agents, and compares their
// CPU with that of programs that write the same heartbeats to the same database at the same
// time.
func BenchmarkWorkers(b *testing.B) {
	const count = 50
	duration := time.Duration(unlessShort(30, 5)) * time.Second
	report(b, func() []metric {
		p := newProject(b, count)
		p.startAgents(count, "hang")
		pause(3 * time.Second) // the workers write the start of the turn
		workers, others := p.workers()
		if len(workers) != count {
			b.Fatalf("%d workers, want %d", len(workers), count)
		}
		memory := 0.0
		for _, pid := range workers {
			memory += proportionalSetMB(pid) / count
		}
		p.takeRequests()
		ours, theirs := p.compareHeartbeats(workers, duration)
		left := len(others) + len(p.takeRequests())
		p.stop()
		perMinute := time.Minute.Seconds() / duration.Seconds() / count
		return append(against([]float64{ours * perMinute}, []float64{theirs * perMinute}, "CPU", 2.7),
			metric{memory, "PSS-MB", 7.2}, metric{float64(left), "between-passes", 0})
	})
}

// workers lists the workers, and the processes of the project that neither are workers nor
// descend from one.
func (p *project) workers() (workers []int, others []stage.Process) {
	byPID := map[int]stage.Process{}
	for _, each := range get(stage.Processes(p.Dir, "")) {
		byPID[each.PID] = each
	}
	for _, each := range byPID {
		if each.IsWorker() {
			workers = append(workers, each.PID)
			continue
		}
		parent, known := byPID[each.Parent]
		for known && !parent.IsWorker() {
			parent, known = byPID[parent.Parent]
		}
		if !known {
			others = append(others, each)
			fmt.Fprintf(os.Stderr, "bench: runs between passes: %s\n", each)
		}
	}
	return workers, others
}

// proportionalSetMB returns the proportional set size of a worker, which only root can read.
func proportionalSetMB(pid int) float64 {
	text := string(get(os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))))
	_, after, _ := strings.Cut(text, "\nPss:")
	return get(strconv.ParseFloat(strings.Fields(after)[0], 64)) * 1024 / 1e6
}

// compareHeartbeats returns the CPU seconds of all workers and of as many comparison programs.
func (p *project) compareHeartbeats(workers []int, duration time.Duration) (ours, theirs float64) {
	var writers []int
	for _, run := range get(filepath.Glob(filepath.Join(p.StateDir, "runs", "*"))) {
		cmd := exec.Command(programs.baseline, "heartbeats", p.Database(), filepath.Base(run))
		cmd.Stderr = os.Stderr
		in := get(cmd.StdinPipe())
		must(cmd.Start())
		defer func() { must(errors.Join(in.Close(), cmd.Wait())) }()
		writers = append(writers, cmd.Process.Pid)
	}
	pause(2 * time.Second) // their start is not measured
	ours = -processorSeconds(workers)
	theirs = -processorSeconds(writers)
	pause(duration)
	return ours + processorSeconds(workers), theirs + processorSeconds(writers)
}

// processorSeconds returns the sum of the CPU time of the processes' threads.
func processorSeconds(pids []int) (sum float64) {
	for _, pid := range pids {
		threads := get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)))
		if len(threads) == 0 {
			must(fmt.Errorf("process %d has ended", pid))
		}
		for _, path := range threads {
			fields := strings.Fields(string(get(os.ReadFile(path))))
			sum += get(strconv.ParseFloat(fields[0], 64)) / 1e9
		}
	}
	return sum
}
