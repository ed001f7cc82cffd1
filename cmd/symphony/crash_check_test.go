//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/durable"
)

// check checks the invariants of what is left when there is nothing more to do, each found out without the program's help.
func (c *crashScene) check() {
	c.t.Helper()
	// Never two agents in one workspace, none in an incomplete one.
	if wrong, err := os.ReadFile(c.path("ledger", "wrong")); err == nil {
		c.t.Errorf("the witness saw:\n%s", wrong)
	}
	// Every run has one outcome and is settled, and only held claims remain.
	for what, text := range map[string]string{
		"runs without an end":   `SELECT id FROM runs WHERE outcome IS NULL OR settled = 0`,
		"claims that remain":    `SELECT identifier || ' ' || status FROM claims WHERE status <> 'held'`,
		"commands not consumed": `SELECT verb FROM commands`,
		"answers that no agent received": `SELECT q.number FROM requests q JOIN runs r ON r.id = q.run_id WHERE q.decision = 'answer' AND q.told_run = ''
			AND (coalesce(q.fate, '') <> 'answered' OR r.outcome = 'lost' AND q.ended_at >= r.heartbeat_at)`,
		"agents' runs unrecorded": `SELECT id FROM runs WHERE kind = 'agent' AND thread_id <> '' AND workspace_id = ''`,
	} {
		if left := c.query(text); len(left) > 0 {
			c.t.Errorf("%s: %q", what, left)
		}
	}
	if kept := c.number(`SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'commands'`); kept != c.orders {
		c.t.Errorf("%d commands were stored, %d were given", kept, c.orders)
	}
	if strings.HasPrefix(c.issue, links) && c.number(`SELECT count(*) FROM created WHERE kind = 'attachment'`) != 1 {
		c.t.Errorf("the objects that the agent created are stored as %q", c.query(`SELECT kind FROM created`))
	}
	c.checkAttempts()
	c.checkTokens()
	c.checkHealthy()
	c.checkAttentions()
	c.checkFiles()
	c.checkWorkspace()
}

// checkAttempts checks that every failed or lost run counts as an attempt.
func (c *crashScene) checkAttempts() {
	if c.recounted {
		return
	}
	rows := c.query(`SELECT attempt || ' ' || outcome FROM runs WHERE kind = 'agent' ORDER BY id`)
	for i := range rows[:max(0, len(rows)-1)] {
		attempt, outcome, _ := strings.Cut(rows[i], " ")
		next, _, _ := strings.Cut(rows[i+1], " ")
		failed := outcome != "succeeded" && outcome != "interrupted" && outcome != "canceled"
		if failed && len(next) == len(attempt) && next != string(attempt[0]+1) {
			c.t.Errorf("the run after one with attempt %s that ended %s has attempt %s", attempt, outcome, next)
		}
	}
}

// checkTokens checks that all sums of tokens agree, and that they miss of the agent's own count only what a dead worker
// had not received.
func (c *crashScene) checkTokens() {
	runs := c.number(`SELECT coalesce(sum(tokens_total), 0) FROM runs`)
	threads := c.number(`SELECT coalesce(sum(total), 0) FROM threads`)
	issues := c.number(`SELECT coalesce(sum(total), 0) FROM issue_totals`)
	totals := c.number(`SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'totals_total'`)
	days := c.number(`SELECT coalesce(sum(total), 0) FROM model_totals`)
	if runs != threads || totals != threads || issues != totals || days != threads {
		c.t.Errorf("tokens: %d of runs, %d of threads, %d of issues, %d of days, %d in all", runs, threads, issues, days, totals)
	}
	files, err := filepath.Glob(c.path("codex-home", "threads", "*.json"))
	c.must(err)
	told := 0
	for _, file := range files {
		var thread struct{ Total struct{ Input, Output int } }
		data, err := os.ReadFile(file)
		c.must(err)
		c.must(json.Unmarshal(data, &thread))
		told += thread.Total.Input + thread.Total.Output
	}
	workerDied := c.deaths > 0 || c.died() && strings.HasPrefix(c.point, "worker:")
	if threads > told || threads < told && !workerDied {
		c.t.Errorf("%d tokens are counted, the agent reported %d", threads, told)
	}
}

// checkHealthy checks that no worker but the one that died was lost.
func (c *crashScene) checkHealthy() {
	lost := c.query(`SELECT id || ' ' || error_code FROM runs WHERE outcome = 'lost' AND worker_pid <> 0`)
	allowed := c.deaths
	if strings.HasPrefix(c.point, "worker:") {
		allowed++
	}
	if len(lost) > allowed {
		c.t.Errorf("healthy runs were lost: %q", lost)
	}
}

// checkFiles checks that nothing was made outside the workspace root and the state directory, and nothing unfinished is
// left in them.
func (c *crashScene) checkFiles() {
	c.entries("", "WORKFLOW.md", "codex-home", "died", "gate", "go", "home", "ledger", "state", "tmp", "visits", "visits.before", "witness", "ws")
	c.entries("home", ".local") // what projects share of the account
	accounts, err := filepath.Glob(c.path("home", ".local", "state", "symphony", "accounts", "*"))
	c.must(err)
	for _, dir := range accounts {
		dir = strings.TrimPrefix(dir, c.dir+"/")
		c.entries(dir, "limits.json", "limits.lock", "slots", "slots.lock")
		c.entries(dir+"/slots", "1")
	}
	c.entries("tmp")
	c.entries("state", "lock", "lock.waiter", "runs", "state.db", "state.db-wal", "state.db-shm", "attention.log", "attention.tree")
	meta := []string{"projects", "trash", "work", "ABC-1.lock"}
	if c.keeps {
		meta = append(meta, "ABC-1.json")
	}
	c.entries("ws", ".symphony", "ABC-1")
	c.entries("ws/.symphony", meta...)
	c.entries("ws/.symphony/trash")
	known := c.query(`SELECT id FROM runs`)
	if dirs, err := os.ReadDir(c.path("state", "runs")); err == nil {
		for _, d := range dirs {
			// A pass that died between the directory and the row leaves a directory, which is removed after an hour.
			if !slices.Contains(known, d.Name()) {
				c.entries("state/runs/"+d.Name(), "workflow.md", "alive")
				continue
			}
			c.entries("state/runs/"+d.Name(), "workflow.md", "alive", "procs", "tree", "events.jsonl", "hooks.log", "agent.stderr", "worker.log")
		}
	}
}

// entries checks that a directory, if it exists, holds nothing but these names.
func (c *crashScene) entries(dir string, allowed ...string) {
	list, err := os.ReadDir(c.path(dir))
	if err != nil && !os.IsNotExist(err) {
		c.t.Error(err)
	}
	for _, e := range list {
		// A crash may leave an unfinished file of durable.WriteFile behind.
		if !slices.Contains(allowed, e.Name()) && !strings.HasSuffix(e.Name(), durable.TempSuffix) && !strings.HasPrefix(e.Name(), ".procs-") {
			c.t.Errorf("%s is left", filepath.Join(dir, e.Name()))
		}
	}
}

// checkWorkspace checks that the workspace is complete and recorded as such, or gone with everything that belonged to it.
func (c *crashScene) checkWorkspace() {
	if !c.keeps {
		for _, path := range []string{"ws/ABC-1", "ws/.symphony/ABC-1.json", "ws/.symphony/work/ABC-1"} {
			if c.exists(path) {
				c.t.Errorf("%s is left", path)
			}
		}
		return
	}
	record, err := os.ReadFile(c.path("ws", ".symphony", "ABC-1.json"))
	if err != nil || !strings.Contains(string(record), `"state": "ready"`) {
		c.t.Errorf("the workspace's record: %v\n%s", err, record)
	}
	for _, path := range []string{"ws/ABC-1/made/3", "ws/ABC-1/work.txt"} {
		if !c.exists(path) {
			c.t.Errorf("%s is missing", path)
		}
	}
}
