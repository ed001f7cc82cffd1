//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// burst compares the time from the start of a pass to the last of ten answers to `initialize` with that of
// ten login shells that start the same agent at once.
func burst(ctx context.Context, s *suite) ([]row, error) {
	const agents = 10
	var passes, shells []float64
	for range 5 {
		p, err := s.project(agents)
		if err != nil {
			return nil, err
		}
		if err := setIssues(ctx, s.tracker, load{}); err != nil {
			return nil, err
		}
		if _, err := p.quietTick(ctx); err != nil { // creates the database
			return nil, err
		}
		pass, err := p.startAgents(ctx, agents)
		if err != nil {
			return nil, err
		}
		if err := p.stop(ctx); err != nil {
			return nil, err
		}
		shell, err := p.startShells(ctx, agents)
		if err != nil {
			return nil, err
		}
		passes, shells = append(passes, 1000*pass.Seconds()), append(shells, 1000*shell.Seconds())
	}
	return []row{{
		measure: "ten issues at once: start of the pass to the last initialize", value: median(passes) / median(shells), budget: 2.5, unit: "×",
		note: fmt.Sprintf("%.0f ms against %.0f ms", median(passes), median(shells)),
	}}, nil
}

// startAgents runs a pass over so many issues whose agents then wait. It returns the time to the last answer to `initialize`:
// a notification follows it at once, the first event of each run.
func (p *project) startAgents(ctx context.Context, agents int) (time.Duration, error) {
	if err := setIssues(ctx, p.s.tracker, load{Issues: agents, Script: "hang"}); err != nil {
		return 0, err
	}
	pass, err := p.symphony(ctx, "tick", "--json")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var last time.Time
	started := map[string]bool{}
	err = until(ctx, func() (bool, error) {
		files, err := filepath.Glob(filepath.Join(p.StateDir, "runs", "*", "events.jsonl"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return false, err
			}
			line, _, whole := strings.Cut(string(data), "\n")
			if started[file] || !whole {
				continue
			}
			var event struct{ At time.Time }
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				return false, err
			}
			started[file] = true
			if event.At.After(last) {
				last = event.At
			}
		}
		return len(started) == agents, err
	})
	if err != nil {
		return 0, fmt.Errorf("%d of %d agents answered initialize: %w", len(started), agents, err)
	}
	return last.Sub(pass.Began), nil
}

// startShells returns the time until so many login shells have started the agent and it has answered `initialize`.
func (p *project) startShells(ctx context.Context, agents int) (time.Duration, error) {
	const initialize = `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"bench","version":"1"}}}` + "\n"
	began := time.Now()
	errs := make([]error, agents)
	ends := make([]time.Duration, agents)
	var all sync.WaitGroup
	for n := range agents {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, "bash", "-lc", fmt.Sprintf("exec '%s' demo-agent app-server --home '%s'", p.s.agent, p.AgentHome))
			cmd.Dir, cmd.Env = p.Dir, p.Env
			errs[n] = converse(cmd, func(in io.Writer, out *bufio.Reader) error {
				if _, err := io.WriteString(in, initialize); err != nil {
					return err
				}
				_, err := out.ReadString('\n')
				ends[n] = time.Since(began)
				return err
			})
		})
	}
	all.Wait()
	return slices.Max(ends), errors.Join(errs...)
}

// converse runs a program that ends with its stdin.
func converse(cmd *exec.Cmd, talk func(in io.Writer, out *bufio.Reader) error) error {
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = talk(in, bufio.NewReader(out))
	return errors.Join(err, in.Close(), cmd.Wait())
}

// crowd measures the memory of 50 workers with silent agents, and compares their CPU with that of programs that write the same
// heartbeats into the same database at the same time.
func crowd(ctx context.Context, s *suite) ([]row, error) {
	const count = 50
	p, err := s.project(count)
	if err != nil {
		return nil, err
	}
	if _, err := p.startAgents(ctx, count); err != nil {
		return nil, err
	}
	if err := pause(ctx, 3*time.Second); err != nil { // the workers write the start of the turn
		return nil, err
	}
	workers, others, err := p.workers()
	if err != nil || len(workers) != count {
		return nil, errors.Join(err, fmt.Errorf("%d workers, want %d", len(workers), count))
	}
	memory := workerMemory(workers)
	runs, err := filepath.Glob(filepath.Join(p.StateDir, "runs", "*"))
	if err != nil {
		return nil, err
	}
	if _, err := takeRequests(ctx, s.tracker); err != nil {
		return nil, err
	}
	look := 30 * time.Second
	if s.quick {
		look = 10 * time.Second
	}
	ours, theirs, err := p.compareHeartbeats(ctx, workers, runs, look)
	if err != nil {
		return nil, err
	}
	bodies, err := takeRequests(ctx, s.tracker)
	if err != nil {
		return nil, err
	}
	return []row{
		{
			measure: "a silent worker: CPU", value: ours.Seconds() / theirs.Seconds(), budget: 1.5, unit: "×",
			note: fmt.Sprintf("%.1f ms a minute against %.1f ms", perMinute(ours, look, count), perMinute(theirs, look, count)),
		},
		memory,
		{measure: "between passes: other processes and requests", value: float64(len(others) + len(bodies))},
	}, p.stop(ctx)
}

func perMinute(d, look time.Duration, count int) float64 {
	return 1000 * d.Seconds() / float64(count) * time.Minute.Seconds() / look.Seconds()
}

// workers lists the workers, and the processes of the project that neither are workers nor descend from one.
func (p *project) workers() (workers []int, others []stage.Process, err error) {
	list, err := stage.Processes(p.Dir, "")
	byPID := map[int]stage.Process{}
	for _, each := range list {
		byPID[each.PID] = each
	}
	for _, each := range list {
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
	return workers, others, err
}

// workerMemory is the mean of the proportional set sizes. A worker hides them from every user but root.
func workerMemory(workers []int) row {
	r := row{measure: "memory (PSS) of each of 50 workers", budget: 6, unit: " MB"}
	for _, pid := range workers {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			r.skipped = err.Error()
			if errors.Is(err, fs.ErrPermission) {
				r.skipped = "only root may read it"
			}
			return r
		}
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); fields[0] == "Pss:" {
				kib, err := strconv.ParseFloat(fields[1], 64)
				if err != nil {
					r.skipped = err.Error()
				}
				r.value += kib * 1024 / 1e6 / float64(len(workers))
			}
		}
	}
	return r
}

// compareHeartbeats returns the CPU time of all workers and that of as many comparison programs.
func (p *project) compareHeartbeats(ctx context.Context, workers []int, runs []string, look time.Duration) (ours, theirs time.Duration, err error) {
	var writers []int
	var inputs []io.Closer
	var cmds []*exec.Cmd
	defer func() {
		for n, cmd := range cmds {
			err = errors.Join(err, inputs[n].Close(), cmd.Wait())
		}
	}()
	for _, run := range runs {
		cmd := exec.Command(p.s.baseline, "heartbeats", p.Database(), filepath.Base(run))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return 0, 0, err
		}
		if err := cmd.Start(); err != nil {
			return 0, 0, err
		}
		cmds, inputs, writers = append(cmds, cmd), append(inputs, in), append(writers, cmd.Process.Pid)
	}
	if err := pause(ctx, 2*time.Second); err != nil { // their start is not measured
		return 0, 0, err
	}
	before, err := processorTime(workers, writers)
	if err == nil {
		err = pause(ctx, look)
	}
	if err != nil {
		return 0, 0, err
	}
	after, err := processorTime(workers, writers)
	return after[0] - before[0], after[1] - before[1], err
}

// processorTime sums up what the threads of each group of processes have taken so far.
func processorTime(groups ...[]int) (sums []time.Duration, err error) {
	for _, pids := range groups {
		var sum time.Duration
		for _, pid := range pids {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
			if err != nil || len(threads) == 0 {
				return nil, errors.Join(err, fmt.Errorf("process %d has ended", pid))
			}
			for _, path := range threads {
				data, err := os.ReadFile(path)
				if err != nil {
					return nil, err
				}
				ns, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
				if err != nil {
					return nil, err
				}
				sum += time.Duration(ns)
			}
		}
		sums = append(sums, sum)
	}
	return sums, nil
}
