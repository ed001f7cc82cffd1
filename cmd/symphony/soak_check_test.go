package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/view"
	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
)

// contradictionBound is how long ps may say something else than the machine or the tracker.
const contradictionBound = 6 * time.Second

// checker compares, again and again, what ps says with /proc and the tracker.
type checker struct {
	*soak
	samples int
	since   map[string]time.Time     // contradictions that stand, by what they say
	longest map[string]time.Duration // the longest of each kind so far
	peak    memory                   // of the largest worker
	// finished: every issue is where it should be, and nothing runs or waits.
	finished bool
}

func newChecker(s *soak) *checker {
	return &checker{soak: s, since: map[string]time.Time{}, longest: map[string]time.Duration{}}
}

// memory is what a process has resident, and what of it is its own (kB).
type memory struct{ resident, own int }

// process is one of the soak's.
type process struct {
	pid   int
	ppid  int
	argv  []string
	cwd   string
	runID string // its mark
	memory
	key bool // the key is in its environment
}

// processes finds those of the soak by their environment, and, where that can't be read, by their arguments.
// Passes and ps itself are none.
func (s *soak) processes() []process {
	var list []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(cmdline) == 0 {
			continue // gone, or a zombie
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // not everybody's may be read
		p := process{argv: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		if !strings.Contains(string(environ), markName+"="+s.mark) && !strings.Contains(string(cmdline), s.dir+"/") {
			continue
		}
		if p.is("symphony", "tick") || p.is("symphony", "ps") || p.pid == os.Getpid() {
			continue
		}
		for kv := range strings.SplitSeq(string(environ), "\x00") {
			if id, ok := strings.CutPrefix(kv, "SYMPHONY_RUN_ID="); ok {
				p.runID = id
			}
		}
		p.key = strings.Contains(string(environ), s.linear.Key())
		p.cwd, _ = os.Readlink(filepath.Join(dir, "cwd"))
		p.memory = memory{statusField(filepath.Join(dir, "status"), "VmRSS:"), statusField(filepath.Join(dir, "status"), "RssAnon:")}
		p.ppid = statusField(filepath.Join(dir, "status"), "PPid:")
		list = append(list, p)
	}
	// A forked child bears its parent's name until it becomes what it was made for.
	argv := map[int][]string{}
	for _, p := range list {
		argv[p.pid] = p.argv
	}
	return slices.DeleteFunc(list, func(p process) bool { return slices.Equal(p.argv, argv[p.ppid]) })
}

// is reports whether the process is that command of that program.
func (p process) is(program, command string) bool {
	return len(p.argv) > 1 && filepath.Base(p.argv[0]) == program && p.argv[1] == command
}

func (p process) agent() bool { return p.is("codex", "app-server") || p.is("fake-codex", "app-server") }

// worker gives the run that a worker carries out.
func (p process) worker() (runID string, ok bool) {
	if !p.is("symphony", "worker") {
		return "", false
	}
	if at := slices.Index(p.argv, "--run"); at > 0 && at+1 < len(p.argv) {
		return p.argv[at+1], true
	}
	return "", true
}

func statusField(path, name string) int {
	data, _ := os.ReadFile(path) // gone: nothing is known of it
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// sample looks once.
func (c *checker) sample() {
	out, took := c.command("symphony", "ps", "--json")
	c.mu.Lock()
	c.looks = append(c.looks, took)
	c.mu.Unlock()
	var v view.View
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		c.t.Errorf("ps --json: %v\n%s", err, out)
		return
	}
	now := time.Now()
	processes, issues := c.processes(), c.linear.Issues()
	c.samples++
	found := map[string]bool{}
	say := func(kind, format string, args ...any) { found[kind+": "+fmt.Sprintf(format, args...)] = true }
	c.atOnce(v, processes)
	c.rows(v, processes, say)
	c.strays(v, processes, say)
	c.tracked(v, issues, say)
	c.age(now, found)
	c.finished = len(v.Running)+len(v.Retrying) == 0 && c.arrived(issues)
}

// atOnce are faults that no delay excuses.
func (c *checker) atOnce(v view.View, processes []process) {
	if v.Counts != (view.ViewCounts{Running: len(v.Running), Retrying: len(v.Retrying), Held: len(v.Held)}) || len(v.Running) > soakAgents {
		c.t.Errorf("counts %+v of %d running, %d retrying, %d held", v.Counts, len(v.Running), len(v.Retrying), len(v.Held))
	}
	cwds := map[string]int{}
	for _, p := range processes {
		if _, worker := p.worker(); worker {
			c.peak = memory{max(c.peak.resident, p.resident), max(c.peak.own, p.own)}
			continue
		}
		if p.key {
			c.t.Errorf("process %d %q has the key in its environment", p.pid, p.argv)
		}
		if p.agent() {
			if other := cwds[p.cwd]; other != 0 {
				c.t.Errorf("two agents in %s: %d and %d", p.cwd, other, p.pid)
			}
			cwds[p.cwd] = p.pid
		}
	}
	workers := map[string]int{}
	for _, p := range processes {
		if id, ok := p.worker(); ok && workers[id] != 0 {
			c.t.Errorf("two workers for run %s: %d and %d", id, workers[id], p.pid)
		} else if ok {
			workers[id] = p.pid
		}
	}
}

// rows: every running row has its worker, and its one agent in its workspace.
func (c *checker) rows(v view.View, processes []process, say func(kind, format string, args ...any)) {
	for _, r := range v.Running {
		var workers, agents []process
		for _, p := range processes {
			if id, ok := p.worker(); ok && id == r.RunID {
				workers = append(workers, p)
			}
			if p.agent() && p.runID == r.RunID {
				agents = append(agents, p)
			}
		}
		if len(workers) != 1 || r.PID == nil || workers[0].pid != *r.PID || !r.Alive {
			say("worker", "%s %s", r.Identifier, r.RunID)
		}
		most, least := 1, 0
		if r.Phase == string(reconcile.InitializingSession) || r.Phase == string(reconcile.StreamingTurn) {
			least = 1
		}
		if len(agents) < least || len(agents) > most {
			say("agents", "%s %s has %d in %s", r.Identifier, r.RunID, len(agents), r.Phase)
		}
		for _, a := range agents {
			if r.WorkspacePath == nil || a.cwd != *r.WorkspacePath || filepath.Base(a.cwd) != r.Identifier {
				say("cwd", "%s: agent %d is in %s", r.Identifier, a.pid, a.cwd)
			}
		}
	}
}

// strays: no worker, agent or command without a running row, but for workers that remove a workspace.
func (c *checker) strays(v view.View, processes []process, say func(kind, format string, args ...any)) {
	cleanups := c.query("SELECT id FROM runs WHERE kind = 'cleanup'")
	for _, p := range processes {
		id, ok := p.worker()
		if !ok {
			id = p.runID
		}
		row := slices.ContainsFunc(v.Running, func(r view.RunningRow) bool { return r.RunID == id })
		if !row && !slices.Contains(cleanups, id) {
			say("stray", "%d %.80q of run %s", p.pid, strings.Join(p.argv, " "), id)
		}
	}
}

// tracked: rows know the state of their issue, what nobody should work on is not worked on, and what could
// be worked on is somewhere.
func (c *checker) tracked(v view.View, issues []lineartest.Issue, say func(kind, format string, args ...any)) {
	states, known := map[string]string{}, map[string]bool{}
	for _, i := range issues {
		states[i.Identifier] = i.State
	}
	active := func(name string) bool { return states[name] == "Todo" || states[name] == "In Progress" }
	for _, r := range v.Running {
		known[r.Identifier] = true
		if !active(r.Identifier) {
			say("moved on", "%s runs in %s", r.Identifier, states[r.Identifier])
		} else if r.State != states[r.Identifier] {
			say("state", "%s is %s, the row says %s", r.Identifier, states[r.Identifier], r.State)
		}
	}
	for _, r := range v.Retrying {
		known[r.Identifier] = true
		if !active(r.Identifier) {
			say("moved on", "%s waits in %s", r.Identifier, states[r.Identifier])
		} else if len(v.Running) < soakAgents && r.DueAt.Before(v.GeneratedAt) {
			say("overdue", "%s with %d running", r.Identifier, len(v.Running))
		}
	}
	for _, r := range v.Held {
		known[r.Identifier] = true
	}
	for _, i := range issues {
		blocked := slices.ContainsFunc(i.BlockedBy, func(b string) bool { return states[b] != "Done" })
		if active(i.Identifier) && !blocked && !known[i.Identifier] && len(v.Running) < soakAgents {
			say("forgotten", "%s in %s with %d running", i.Identifier, i.State, len(v.Running))
		}
	}
}

// age notes how long each contradiction has stood.
func (c *checker) age(now time.Time, found map[string]bool) {
	for what := range found {
		if c.since[what].IsZero() {
			c.since[what] = now
		}
	}
	for what, since := range c.since {
		kind, _, _ := strings.Cut(what, ": ")
		c.longest[kind] = max(c.longest[kind], now.Sub(since))
		switch {
		case !found[what]:
			delete(c.since, what)
		case now.Sub(since) > contradictionBound:
			c.t.Errorf("for %v: %s", now.Sub(since).Round(time.Millisecond), what)
		}
	}
}

func (c *checker) arrived(issues []lineartest.Issue) bool {
	return !slices.ContainsFunc(issues, func(i lineartest.Issue) bool { return i.State != soakIssues[i.Identifier].state })
}

// report prints what was measured, and checks the tracker's log: every change that an agent made was made
// during a run of its issue.
func (c *checker) report() {
	mutations := c.linear.Mutations()
	for _, e := range mutations {
		name, _ := e.Variables["issue"].(string)
		during := c.query("SELECT id FROM runs WHERE kind = 'agent' AND identifier = ? AND ? BETWEEN started_at AND ended_at", name, e.At.UnixMilli())
		if e.Status != 200 || len(e.Errors) > 0 || len(during) != 1 {
			c.t.Errorf("%s on %q at %v: status %d %v, during the runs %q", e.Operation, name, e.At, e.Status, e.Errors, during)
		}
	}
	if want := 11; len(mutations) != want {
		c.t.Errorf("%d changes by agents, want %d", len(mutations), want)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Logf("%.1f s, %d passes (median %v, longest %v), %d samples (ps median %v)", time.Since(c.began).Seconds(),
		len(c.ticks), middle(c.ticks), slices.Max(c.ticks).Round(time.Millisecond), c.samples, middle(c.looks))
	c.t.Logf("%d requests to the tracker, %d of them changes; largest worker: %.1f MB resident, %.1f of them its own", len(c.linear.Log()), len(mutations),
		float64(c.peak.resident)/1024, float64(c.peak.own)/1024)
	if c.peak.own == 0 || c.peak.own > soakMemory && !raceDetector() {
		c.t.Errorf("a worker has %d kB of its own, allowed are %d", c.peak.own, soakMemory)
	}
	c.t.Logf("longest contradiction of each kind: %v", c.longest)
}

// raceDetector reports whether the program keeps books about every access to its memory, which takes memory.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func middle(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2].Round(time.Millisecond)
}
