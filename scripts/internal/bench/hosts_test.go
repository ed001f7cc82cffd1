//go:build linux

package bench

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	port "github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// BenchmarkHosts measures a pass of a project with many hosts, issues and runs on the hosts,
// and compares it with a program that fetches the same pages, decodes them with encoding/json
// and writes as many rows.
func BenchmarkHosts(b *testing.B) {
	hosts := unlessShort(500, 50)
	issues := unlessShort(5000, 500)
	runs := unlessShort(2000, 200)
	report(b, func() []metric {
		p := newProject(b, runs+1) // a slot is free, but on no host
		var names []string
		for n := range hosts {
			names = append(names, fmt.Sprintf("gpu%d", n))
		}
		p.addKeys(
			"polling:",
			fmt.Sprintf(
				"worker:\n  ssh_hosts: [%s]\n  max_concurrent_agents_per_host: %d\n",
				strings.Join(names, ", "),
				runs/hosts,
			),
		)
		p.quietTick() // creates the database
		p.addRuns(b, runs, hosts)
		var passes, others samples
		for version := range unlessShort(5, 2) {
			p.setIssues(issues, version, "")
			p.takeRequests()
			passes = append(passes, p.quietTick())
			bodies := p.takeRequests()
			if len(bodies) < issues/pageSize {
				b.Fatalf("%d requests: the pass did not read %d candidates", len(bodies), issues)
			}
			others = append(
				others,
				p.baseline("requests", p.copyDatabase(), p.endpoint(), p.writeRequests(bodies)),
			)
		}
		return append(against(passes.cpu(), others.cpu(), "CPU", 4), metric{passes.peakMB(), "peak-MB", 150})
	})
}

// addRuns adds a running claim with a run on a host for each of the first issues. This process
// holds the files of their workers.
func (p *project) addRuns(b *testing.B, count, hosts int) {
	db := get(sql.Open("sqlite", "file:"+p.Database()+"?mode=rw&_pragma=busy_timeout(5000)"))
	self := get(proc.Self())
	now := time.Now().UnixMilli()
	_, err := db.ExecContext(
		ctx,
		`
		WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO runs (id, kind, issue_id, identifier, attempt, phase, issue, worker_boot,
			worker_pid, worker_start, host, remote, heard_at, started_at, heartbeat_at, workspace_root)
		SELECT printf('run-%d', n), 'agent', printf('00000000-0000-4000-8000-%012d', n), 'ABC-' || n, 1, 'streaming_turn',
			json_object('ID', printf('00000000-0000-4000-8000-%012d', n)), ?, ?, ?, 'gpu' || (n % ?), 'begun', ?, ?, ?, '/spaces' FROM numbers`,
		count,
		self.Boot,
		self.PID,
		int64(self.Start),
		hosts,
		now,
		now,
		now,
	) //nolint:gosec // as state stores it
	if err == nil {
		_, err = db.ExecContext(
			ctx,
			`INSERT INTO claims (issue_id, identifier, status, version, attempt, kind, run_id, issue, project, claimed_at,
			updated_at, workspace_root) SELECT issue_id, identifier, 'running', 1, 1, '', id, issue, ?, started_at, started_at, '/spaces' FROM runs`,
			p.endpoint()+" demo",
		)
	}
	must(errors.Join(err, db.Close()))
	for n := 1; n <= count; n++ {
		path := filepath.Join(port.RunDir(p.StateDir, fmt.Sprintf("run-%d", n)), port.AliveFile)
		must(os.MkdirAll(filepath.Dir(path), 0o700))
		must(proc.CreateAlive(path))
		alive := get(proc.HoldAlive(path, time.Minute))
		b.Cleanup(func() { must(alive.Close()) })
		must(alive.Beat(1, proc.Monotonic()))
	}
}

// useHosts lets agents work on two hosts behind a real ssh server on this machine.
func (p *project) useHosts() {
	cmd := exec.CommandContext(ctx, "sh", "-e", get(filepath.Abs("testdata/made/hosts.sh")))
	cmd.Dir = p.Dir
	cmd.Env = append(slices.Clone(p.Env), "WORK="+p.Dir, "SYMPHONY_TEST_MARK=")
	cmd.Stderr = os.Stderr
	must(cmd.Run())
	p.Env[0] = "PATH=" + filepath.Join(p.Dir, "bin") + ":" + os.Getenv("PATH")
	p.addKeys("polling:", "worker:\n  ssh_hosts: [near, far]\n  root: ~/spaces\n")
}

// addKeys adds keys to the workflow, before one that it has.
func (p *project) addKeys(before, keys string) {
	text := string(get(os.ReadFile(p.Workflow)))
	must(os.WriteFile(p.Workflow, []byte(strings.Replace(text, before, keys+before, 1)), 0o600))
}

// BenchmarkTurn compares the time of a turn on a host with that of one here.
func BenchmarkTurn(b *testing.B) {
	turns := unlessShort(100, 10)
	report(b, func() []metric {
		there := newProject(b, 1)
		here := newProject(b, 1)
		there.useHosts()
		elsewhere := there.turns(turns)
		local := here.turns(turns)
		more := 1000 * (median(elsewhere) - median(local))
		return append(against(elsewhere, local, "wall", math.Inf(1)), metric{more, "ms-more", 20})
	})
}

// turns runs an issue for that many turns, and returns the seconds from the start of each to
// that of the next one.
func (p *project) turns(count int) (took []float64) {
	p.addKeys("  max_concurrent_agents:", fmt.Sprintf("  max_turns: %d\n", count+1))
	p.setIssues(1, 0, "tokens 1 1\nsh date +%N > f") // a turn without progress is the last one
	p.symphony("tick", "--wait")
	files := get(filepath.Glob(filepath.Join(p.StateDir, "runs", "*", "events.jsonl")))
	var last time.Time
	for line := range strings.Lines(string(get(os.ReadFile(files[0])))) {
		var e struct {
			At    time.Time
			Event string
		}
		must(json.Unmarshal([]byte(line), &e))
		if e.Event != "turn_prompt" {
			continue
		}
		if !last.IsZero() {
			took = append(took, e.At.Sub(last).Seconds())
		}
		last = e.At
	}
	if len(took) != count {
		must(fmt.Errorf("%d turns, want %d", len(took)+1, count+1))
	}
	return took
}

// BenchmarkRemoteWorkers measures the memory and the CPU of this side for each of many agents
// on hosts, ssh included: silent ones, and ones with 20 events a second.
func BenchmarkRemoteWorkers(b *testing.B) {
	b.Run("silent", func(b *testing.B) { measureRemote(b, unlessShort(200, 4), "hang") })
	b.Run("streaming", func(b *testing.B) { measureRemote(b, unlessShort(20, 2), "stream 100000 50ms") })
}

func measureRemote(b *testing.B, count int, script string) {
	b.Helper()
	duration := time.Duration(unlessShort(30, 5)) * time.Second
	report(b, func() []metric {
		p := newProject(b, count)
		p.useHosts()
		// all hosts are this machine, which could not start all at once in time
		for n := 0; n < count; {
			n = min(n+20, count)
			p.startAgents(n, script)
		}
		pause(3 * time.Second)
		var side []int
		for _, each := range get(stage.Processes(p.Dir, "")) {
			if each.IsWorker() || filepath.Base(each.Args[0]) == "ssh" {
				side = append(side, each.PID)
			}
		}
		if len(side) != 2*count {
			b.Fatalf("%d processes, want %d", len(side), 2*count)
		}
		memory := 0.0
		for _, pid := range side {
			memory += proportionalSetMB(pid) / float64(count)
		}
		used := -processorSeconds(side)
		pause(duration)
		used += processorSeconds(side)
		return []metric{
			{memory, "PSS-MB", 10},
			{1000 * used / float64(count) / duration.Seconds(), "ms-CPU-each-second", math.Inf(1)},
		}
	})
}
