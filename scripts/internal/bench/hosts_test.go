//go:build linux

package bench

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	port "github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/proc"
)

// BenchmarkHosts measures a pass of a project with many hosts, issues and runs on the hosts, and compares it with a program that fetches
// the same pages, decodes them with encoding/json and writes as many rows.
func BenchmarkHosts(b *testing.B) {
	hosts, issues, runs := unlessShort(500, 50), unlessShort(5000, 500), unlessShort(2000, 200)
	report(b, func() []metric {
		p := newProject(b, runs+1) // a slot is free, but on no host
		var names []string
		for n := range hosts {
			names = append(names, fmt.Sprintf("gpu%d", n))
		}
		text := string(get(os.ReadFile(p.Workflow)))
		text = strings.Replace(text, "polling:", fmt.Sprintf("worker:\n  ssh_hosts: [%s]\n  max_concurrent_agents_per_host: %d\npolling:",
			strings.Join(names, ", "), runs/hosts), 1)
		must(os.WriteFile(p.Workflow, []byte(text), 0o600))
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
			others = append(others, p.baseline("requests", p.copyDatabase(), p.endpoint(), p.writeRequests(bodies)))
		}
		return append(against(passes.cpu(), others.cpu(), "CPU", 5),
			metric{median(passes.cpu()), "s-CPU", 2}, metric{passes.peakMB(), "peak-MB", 150})
	})
}

// addRuns adds a running claim with a run on a host for each of the first issues. This process holds the files of their workers.
func (p *project) addRuns(b *testing.B, count, hosts int) {
	db := get(sql.Open("sqlite", "file:"+p.Database()+"?mode=rw&_pragma=busy_timeout(5000)"))
	self, now := get(proc.Self()), time.Now().UnixMilli()
	_, err := db.ExecContext(ctx, `
		WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO runs (id, kind, issue_id, identifier, attempt, phase, issue, worker_boot, worker_pid, worker_start, host, remote, heard_at,
			started_at, heartbeat_at, workspace_root)
		SELECT printf('run-%d', n), 'agent', printf('00000000-0000-4000-8000-%012d', n), 'ABC-' || n, 1, 'streaming_turn',
			json_object('ID', printf('00000000-0000-4000-8000-%012d', n)), ?, ?, ?, 'gpu' || (n % ?), 'begun', ?, ?, ?, '/spaces' FROM numbers`,
		count, self.Boot, self.PID, int64(self.Start), hosts, now, now, now) //nolint:gosec // as state stores it
	if err == nil {
		_, err = db.ExecContext(ctx, `INSERT INTO claims (issue_id, identifier, status, version, attempt, kind, run_id, issue, project, claimed_at,
			updated_at, workspace_root) SELECT issue_id, identifier, 'running', 1, 1, '', id, issue, ?, started_at, started_at, '/spaces' FROM runs`,
			p.endpoint()+" demo")
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
