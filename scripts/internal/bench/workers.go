//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// burst compares the time from the start of a pass to the last of ten answers to `initialize` with that of ten login shells
// that start the same agent at once.
func burst(s *suite) []row {
	const agents = 10
	var passes, shells []float64
	for range 5 {
		p := s.project(agents)
		s.setIssues(load{})
		p.quietTick() // creates the database
		passes = append(passes, 1000*p.startAgents(agents).Seconds())
		p.stop()
		shells = append(shells, 1000*p.startShells(agents).Seconds())
	}
	return []row{{
		measure: "ten issues at once: start of the pass to the last initialize", value: median(passes) / median(shells), budget: 2.5, unit: "×",
		note: fmt.Sprintf("%.0f ms against %.0f ms", median(passes), median(shells)),
	}}
}

// startAgents runs a pass over so many issues whose agents then wait. It returns the time to the last answer to `initialize`:
// a notification follows it at once, the agent's first event in each run.
func (p *project) startAgents(agents int) time.Duration {
	p.s.setIssues(load{Issues: agents, Script: "hang"})
	pass := p.symphony("tick", "--json")
	var last time.Time
	started := map[string]bool{}
	for end := time.Now().Add(time.Minute); len(started) < agents; p.s.pause(10 * time.Millisecond) {
		if time.Now().After(end) {
			must(fmt.Errorf("%d of %d agents answered initialize", len(started), agents))
		}
		for _, file := range get(filepath.Glob(filepath.Join(p.StateDir, "runs", "*", "events.jsonl"))) {
			if at, answered := firstOfAgent(string(get(os.ReadFile(file)))); answered && !started[file] {
				started[file] = true
				if at.After(last) {
					last = at
				}
			}
		}
	}
	return last.Sub(pass.Began)
}

// firstOfAgent returns the time of the first event that came from an agent.
func firstOfAgent(events string) (at time.Time, found bool) {
	for line := range strings.Lines(events) {
		var event struct {
			At  time.Time
			PID int `json:"codex_app_server_pid"`
		}
		if !strings.HasSuffix(line, "\n") {
			break // it is still being written
		}
		if must(json.Unmarshal([]byte(line), &event)); event.PID != 0 {
			return event.At, true
		}
	}
	return at, false
}

// startShells returns the time until so many login shells have started the agent and it has answered `initialize`.
func (p *project) startShells(agents int) time.Duration {
	const initialize = `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"bench","version":"1"}}}` + "\n"
	began := time.Now()
	var outputs []*bufio.Reader
	var end []func() error
	for range agents {
		cmd := exec.CommandContext(p.s.ctx, "bash", "-lc", fmt.Sprintf("exec '%s' demo-agent app-server --home '%s'", p.s.agent, p.AgentHome))
		cmd.Dir, cmd.Env = p.Dir, p.Env
		in, out := get(cmd.StdinPipe()), get(cmd.StdoutPipe())
		must(cmd.Start())
		get(io.WriteString(in, initialize)) // the pipe keeps it until the agent reads
		outputs = append(outputs, bufio.NewReader(out))
		end = append(end, func() error { return errors.Join(in.Close(), cmd.Wait()) })
	}
	for _, out := range outputs {
		get(out.ReadString('\n'))
	}
	took := time.Since(began)
	for _, f := range end {
		must(f())
	}
	return took
}

// crowd measures the memory of 50 workers with silent agents, and compares their CPU with that of programs that write the same
// heartbeats into the same database at the same time.
func crowd(s *suite) []row {
	const count = 50
	p := s.project(count)
	p.startAgents(count)
	s.pause(3 * time.Second) // the workers write the start of the turn
	workers, others := p.workers()
	if len(workers) != count {
		must(fmt.Errorf("%d workers, want %d", len(workers), count))
	}
	memory := workerMemory(workers)
	s.takeRequests()
	look := 30 * time.Second
	if s.quick {
		look = 10 * time.Second
	}
	ours, theirs := p.compareHeartbeats(workers, look)
	requests := s.takeRequests()
	p.stop()
	perMinute := func(d time.Duration) float64 {
		return 1000 * d.Seconds() / count * time.Minute.Seconds() / look.Seconds()
	}
	return []row{
		{
			measure: "a silent worker: CPU", value: ours.Seconds() / theirs.Seconds(), budget: 1.5, unit: "×",
			note: fmt.Sprintf("%.1f ms a minute against %.1f ms", perMinute(ours), perMinute(theirs)),
		},
		memory,
		{measure: "between passes: other processes and requests", value: float64(len(others) + len(requests))},
	}
}

// workers lists the workers, and the processes of the project that neither are workers nor descend from one.
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

// workerMemory is the mean of the proportional set sizes. A worker hides them from every user but root.
func workerMemory(workers []int) row {
	r := row{measure: "memory (PSS) of each of 50 workers", budget: 6, unit: " MB"}
	for _, pid := range workers {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if errors.Is(err, fs.ErrPermission) {
			r.skipped = "only root may read it"
			return r
		}
		must(err)
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); fields[0] == "Pss:" {
				r.value += get(strconv.ParseFloat(fields[1], 64)) * 1024 / 1e6 / float64(len(workers))
			}
		}
	}
	return r
}

// compareHeartbeats returns the CPU time of all workers and that of as many comparison programs.
func (p *project) compareHeartbeats(workers []int, look time.Duration) (ours, theirs time.Duration) {
	var writers []int
	for _, run := range get(filepath.Glob(filepath.Join(p.StateDir, "runs", "*"))) {
		cmd := exec.Command(p.s.baseline, "heartbeats", p.Database(), filepath.Base(run))
		cmd.Stderr = os.Stderr
		in := get(cmd.StdinPipe())
		must(cmd.Start())
		defer func() { must(errors.Join(in.Close(), cmd.Wait())) }()
		writers = append(writers, cmd.Process.Pid)
	}
	p.s.pause(2 * time.Second) // their start is not measured
	ours, theirs = -processorTime(workers), -processorTime(writers)
	p.s.pause(look)
	return ours + processorTime(workers), theirs + processorTime(writers)
}

// processorTime sums up what the threads of the processes have taken so far.
func processorTime(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		threads := get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)))
		if len(threads) == 0 {
			must(fmt.Errorf("process %d has ended", pid))
		}
		for _, path := range threads {
			sum += time.Duration(get(strconv.ParseInt(strings.Fields(string(get(os.ReadFile(path))))[0], 10, 64)))
		}
	}
	return sum
}
