//go:build linux

package chaos

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// columns are the figures that must be zero.
var columns = []string{
	"agents ever two in a workspace", "leftovers met by an agent", "workers two for a run or issue", "runs settled twice",
	"runs never settled", "runs forgotten", "outcomes changed", "claims lost", "attempts lost", "tokens lost", "commands lost",
	"healthy runs killed", "processes left", "paths left", "unexpected ends", "commits lost", "commits delivered twice",
	"commits on a wrong branch", "handed over without delivery", "issues not handed over", "leftovers in the mirror",
	"turns lost by a link", "handed over unverified", "handed over twice", "two pull requests of a " +
		"branch", "causes handled twice",
	"causes lost", "merged but not moved on", "comments doubled", "merged unproven", "merged twice", "merges lost",
}

// checker checks the program with SQL, /proc and the gate's journal, and does not rely on the
// program's own reports.
type checker struct {
	*scene
	killing atomic.Bool

	frozen sync.WaitGroup // links that go on later

	mu         sync.Mutex
	faults     map[string][]string // by column
	kills      map[string]int      // by kind and signal
	hitPIDs    map[int]bool
	hitWorkers map[string]bool // by run: its worker, or its daemon on a host
	exits      map[string]int
	settled    map[string]int // how often a pass said that it settled the run
	thawed     time.Time      // when the last process that was stopped went on, or will

	// Written by the operator during the storm, read after it.
	commands int
	wanted   map[string]string         // the last acknowledged verb of an owned issue
	retries  map[string][][2]time.Time // begin and end of the retry commands of an issue

	// Written by the samples, which follow one another.
	seen            map[string]runRow
	claimedAt       map[string]string // of the claim that a run was seen to belong to
	released        int               // the last release that was checked
	samples, unread int

	passes                    string
	agents, attempts, threads int
	handedOver                int // after the storm
	judgedAtEnd               int // pull requests after the storm
	stormMerges               int // by symphony, or by the forge for it
	merged, byForge           int // the same, until the end; those that the forge made later
	foreignMerges             int // by the forge, after somebody else has pushed
	returns, answered         int // of issues whose pull requests asked for it
	commits, delivered        int
	outcomes                  map[string]int
}

// runRow is what the checker remembers of a run.
type runRow struct {
	issue   string
	outcome string
	settled bool
}

func newChecker(s *scene) *checker {
	return &checker{
		scene:      s,
		faults:     map[string][]string{},
		kills:      map[string]int{},
		hitPIDs:    map[int]bool{},
		hitWorkers: map[string]bool{},
		exits:      map[string]int{},
		settled:    map[string]int{},
		wanted:     map[string]string{},
		retries:    map[string][][2]time.Time{},
		seen:       map[string]runRow{},
		claimedAt:  map[string]string{},
		outcomes:   map[string]int{},
	}
}

// fault notes a fault once.
func (c *checker) fault(column, format string, args ...any) {
	if !slices.Contains(columns, column) {
		panic("no column " + column)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.faults[column], text) {
		c.faults[column] = append(c.faults[column], text)
	}
}

func (c *checker) noteHit(p process, sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills[p.kind()+" "+unix.SignalName(sig)]++
	c.hitPIDs[p.PID] = true
	if kind := p.kind(); kind == "worker" || kind == kindDaemon {
		c.hitWorkers[p.run()] = true
	}
}

// noteStop notes that a process is stopped for a time.
func (c *checker) noteStop(frozen time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Now().Add(frozen)
	if until.After(c.thawed) {
		c.thawed = until
	}
}

func (c *checker) wasHit(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hitPIDs[pid]
}

// noteEnd checks how a command ended. Unless it was hit, its exit code must be 0, 1 or 4. A
// process that is stopped may keep the database locked for longer than a command waits for it.
func (c *checker) noteEnd(args []string, stdout string, a answer) {
	c.mu.Lock()
	c.exits[fmt.Sprint(a.exit)]++
	for _, run := range settledRuns(stdout) {
		c.settled[run]++
	}
	wasStopped := c.thawed.After(a.began)
	c.mu.Unlock()
	if wasStopped && a.exit == 1 && strings.Contains(a.output, "symphony: state_busy: ") {
		return
	}
	bad := slices.ContainsFunc(
		[]string{"panic:", "SQLITE_", "database is locked", "state_"},
		func(text string) bool { return strings.Contains(a.output, text) },
	)
	if bad || !a.hit && a.exit != 0 && a.exit != 1 && a.exit != 4 {
		c.fault("unexpected ends", "%s: exit %d: %.1500s", strings.Join(args, " "), a.exit, a.output)
	}
}

// query returns the rows of a statement with one column.
func (c *checker) query(ctx context.Context, text string, args ...any) (list []string) {
	db := stage.Get(sql.Open("sqlite", "file:"+c.Database()+"?mode=ro&_pragma=busy_timeout(5000)"))
	defer db.Close()
	rows := stage.Get(db.QueryContext(ctx, text, args...))
	defer rows.Close()
	for rows.Next() {
		var v sql.NullString
		stage.Must(rows.Scan(&v))
		list = append(list, v.String)
	}
	stage.Must(rows.Err())
	return list
}

// rule is a statement that returns a row for each fault. A statement sees one snapshot of the
// database.
type rule struct{ column, query string }

func (c *checker) apply(ctx context.Context, rules ...rule) {
	for _, r := range rules {
		for _, text := range c.query(ctx, r.query) {
			c.fault(r.column, "%s", text)
		}
	}
}

// always lists the rules that hold at any time.
var always = []rule{
	{"claims lost", `SELECT 'run ' || id || ' of ' || identifier || ' continues without a claim' FROM runs
		WHERE kind = 'agent' AND outcome IS NULL AND issue_id NOT IN (SELECT issue_id FROM claims)`},
	{
		"claims lost",
		`SELECT 'claim ' || identifier || ' is running without an unsettled run ' || run_id FROM claims
		WHERE status = 'running' AND run_id NOT IN (SELECT id FROM runs WHERE settled = 0)`,
	},
	{"workers two for a run or issue", `SELECT identifier || ' has two live runs' FROM runs
		WHERE kind = 'agent' AND outcome IS NULL GROUP BY issue_id HAVING count(*) > 1`},
}

// watch samples the tables and /proc until ctx is done.
func (c *checker) watch(ctx context.Context) error {
	every := 100 * time.Millisecond
	if *merges {
		every = time.Second // it takes from passes the time to merge
	}
	for pause(ctx, every) {
		if err := stage.Catch(func() { c.sample(ctx) }); err != nil && ctx.Err() == nil {
			c.unread++ // a reader fails while a writer removes or creates the WAL
		}
	}
	if c.samples == 0 {
		return fmt.Errorf("the database could never be read (%d times)", c.unread)
	}
	return nil
}

func (c *checker) sample(ctx context.Context) {
	list := stage.Get(c.processes())
	workers := map[string]int{}
	for _, p := range list {
		// A forked child has the arguments of its parent until it executes its own program.
		forked := slices.ContainsFunc(
			list,
			func(of process) bool { return of.PID == p.Parent && slices.Equal(of.Args, p.Args) },
		)
		run := p.run()
		// Of workers that end a run on its host a second one may start. It does nothing,
		// because the first one has the run's file.
		if run == "" || p.kind() != "worker" || forked || slices.Contains(p.Args, "--end") {
			continue
		}
		if workers[run] != 0 {
			c.fault("workers two for a run or issue", "run %s has %d and %d", run, workers[run], p.PID)
		}
		workers[run] = p.PID
	}
	c.compareRuns(ctx)
	for _, row := range c.query(ctx, `SELECT run_id || ' ' || claimed_at FROM claims WHERE status = 'running'`) {
		run, at, _ := strings.Cut(row, " ")
		c.claimedAt[run] = at
	}
	c.apply(ctx, always...)
	c.checkReleases(ctx)
	c.samples++
}

// compareRuns compares the runs with those in the last sample.
func (c *checker) compareRuns(ctx context.Context) {
	present := map[string]bool{}
	for _, row := range c.query(ctx, `SELECT id || '|' || identifier || '|' || coalesce(outcome, '') || '|' || settled FROM runs`) {
		w := strings.Split(row, "|")
		now := runRow{w[1], w[2], w[3] == "1"}
		before := c.seen[w[0]]
		if before.settled && !now.settled {
			c.fault("runs settled twice", "%s was settled and no longer is", w[0])
		}
		if before.outcome != "" && before.outcome != now.outcome {
			c.fault("outcomes changed", "%s: %q became %q", w[0], before.outcome, now.outcome)
		}
		c.seen[w[0]] = now
		present[w[0]] = true
	}
	for id, r := range c.seen {
		if !present[id] && !r.settled {
			c.fault("runs forgotten", "%s of %s", id, r.issue)
		}
	}
}

// atEnd lists the rules that hold when nothing is left to do.
var atEnd = []rule{
	{
		"runs never settled",
		`SELECT id || ' of ' || identifier || ' ' || phase || ' ' || coalesce(outcome, '-') FROM runs WHERE settled = 0`,
	},
	{
		"claims lost",
		`SELECT identifier || ' was never released: ' || status || ' ' || kind || ' ' || error_code || ' ' || error_message
		FROM claims WHERE status <> 'held'`,
	},
	{"processes left", `SELECT identifier || ' is held: ' || hold_reason || ' ' || hold_message FROM claims
		WHERE status = 'held' AND hold_reason NOT IN ('operator', 'pull_request_closed', 'feedback_rounds')`},
	{"tokens lost", sumDiffers("total", "tokens_total", "runs WHERE settled = 1")},
	{"tokens lost", sumDiffers("input", "tokens_input", "runs WHERE settled = 1")},
	{"tokens lost", sumDiffers("output", "tokens_output", "runs WHERE settled = 1")},
	{"tokens lost", sumDiffers("runtime_ms", "runtime_ms", "runs WHERE settled = 1 AND kind = 'agent'")},
	{"tokens lost", sumDiffers("total", "total", "threads")},
}

// sumDiffers compares a total with a sum. A run that is settled twice is added twice, and a
// forgotten one not at all.
func sumDiffers(total, column, from string) string {
	return fmt.Sprintf(
		`WITH t AS (SELECT coalesce(sum(%[3]s), 0) AS total, (SELECT coalesce(sum(%[1]s), 0) FROM %[2]s) AS sum
		FROM issue_totals) SELECT 'the total %[3]s is ' || total || ', the sum of %[1]s is ' || sum FROM t WHERE total <> sum`,
		column,
		from,
		total,
	)
}

// judge lets the tracker and the remote answer again, runs a few passes, and checks the final
// state.
func (c *checker) judge(ctx context.Context) {
	c.tracker.ClearFailures()
	c.stormMerges = c.forge.merged()
	c.remote.calm()
	c.forge.endStorm()
	c.removeForeign()
	c.command(ctx, "resume")
	for range 3 { // a run may outlive one pass
		stage.Must(c.write(ctx, forget))
		c.calmPass(ctx)
	}
	if *merges {
		c.judgeMerges(ctx)
	}
	c.checkMerged(ctx)
	c.checkClaims(ctx)
	c.checkCommands(ctx)
	for _, i := range c.tracker.Issues() { // ends the remaining runs
		stage.Must(c.tracker.Move(i.Identifier, "Backlog"))
	}
	c.settle(ctx)
	if !*merges {
		c.handOver(ctx)
		c.checkFeedback(ctx)
	}
	c.checkPulls(ctx)
	c.checkHandovers()
	for run, n := range c.settled {
		if n > 1 {
			c.fault("runs settled twice", "%s, by %d passes", run, n)
		}
	}
	agents := stage.Get(journal(c.gateDir))
	c.checkMeetings(agents)
	c.apply(ctx, atEnd...)
	c.checkAttempts(ctx)
	c.checkTokens(ctx, agents)
	c.checkHealthy(ctx, agents)
	c.checkLinks(ctx)
	c.checkPaths()
	c.checkCommits()
	c.checkMirrors()
	c.passes = c.query(ctx, `SELECT max(id) FROM passes`)[0]
	for _, r := range c.seen {
		c.outcomes[r.outcome]++
	}
}

// calmPass runs a pass that waits for the lock.
func (c *checker) calmPass(ctx context.Context) {
	c.command(ctx, "tick", "--trigger", "cron", "--json", "--lock-timeout", "30s")
	c.sample(ctx)
	pause(ctx, 300*time.Millisecond)
	stage.Must(ctx.Err())
}

// settle runs passes until nothing is left to do. Processes that are alive after 30 s are
// faults.
func (c *checker) settle(ctx context.Context) {
	for end := time.Now().Add(30 * time.Second); ; {
		c.calmPass(ctx)
		open := c.query(ctx, `SELECT id FROM runs WHERE settled = 0
			UNION ALL SELECT issue_id FROM claims WHERE status <> 'held' UNION ALL SELECT verb FROM commands`)
		left := stage.Get(c.processes())
		if len(open)+len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, p := range left {
				c.fault("processes left", "%s (child of %d)", p, p.Parent)
			}
			return
		}
	}
}

// handOver lets agents finish each issue, one of them new, with a tracker and a remote that
// work, and counts what people get. With this clone and delivery, what git commands left in
// the mirror is removed. checkHandovers checks that each handover was announced once, and was
// about a commit that has passed verify.
func (c *checker) checkHandovers() {
	data, err := os.ReadFile(filepath.Join(c.Dir, "proven"))
	if !os.IsNotExist(err) {
		stage.Must(err)
	}
	about := regexp.MustCompile("Verified ([0-9a-f]{12}): ")
	seen := map[string]bool{}
	for _, i := range c.tracker.Issues() {
		for _, comment := range i.Comments {
			if !strings.HasPrefix(comment.Body, "**Handed over**") {
				continue
			}
			commit := about.FindStringSubmatch(comment.Body)
			if commit == nil || !strings.Contains(string(data), commit[1]) {
				c.fault("handed over unverified", "%s: %s", i.Identifier, comment.Body)
			}
			if mark := comment.Body[strings.LastIndex(comment.Body, "<!--"):]; seen[mark] {
				c.fault("handed over twice", "%s: %s", i.Identifier, mark)
			} else {
				seen[mark] = true
			}
		}
	}
}

func (c *checker) handOver(ctx context.Context) {
	c.beCalm()
	stage.Get(c.tracker.AddIssue(lineartest.Issue{
		Identifier: "ABC-99",
		Title:      "Issue ABC-99",
		State:      "Backlog",
	}))
	c.command(ctx, "resume")
	for _, i := range c.tracker.Issues() {
		text := "```agent\n" + c.expand("COMMIT\nMOVE", i.Identifier) + "\n```\n"
		stage.Must(c.tracker.Edit(i.Identifier, func(i *lineartest.Issue) { i.Description = &text }))
		stage.Must(c.tracker.Move(i.Identifier, "Todo"))
	}
	for _, held := range c.query(ctx, `SELECT identifier FROM claims WHERE status = 'held'`) {
		c.retries[held] = append(c.retries[held], [2]time.Time{time.Now(), time.Now().Add(time.Minute)})
		c.command(ctx, "retry", held)
	}
	isLeft := func(i lineartest.Issue) bool { return i.State != "Human Review" }
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && slices.ContainsFunc(c.tracker.Issues(), isLeft); {
		c.calmPass(ctx)
	}
	c.settle(ctx)
	c.checkHandovers()
	has := commits(c.remote.git, "--all")
	for _, i := range c.tracker.Issues() {
		made := c.made(i.Identifier)
		switch {
		case isLeft(i):
			c.fault("issues not handed over", "%s is %s", i.Identifier, i.State)
		case len(made) == 0 || !has[made[len(made)-1].id]:
			c.fault("handed over without delivery", "%s, with a remote that works: %v", i.Identifier, made)
		default:
			c.handedOver++
		}
	}
}

// checkClaims checks that every active issue is claimed, or skipped for a reason. Passes do
// not ask for other issues while all slots are taken, so it waits for the end of runs.
func (c *checker) checkClaims(ctx context.Context) {
	var lost []string
	for range 40 {
		lost = nil
		known := c.query(ctx, `SELECT identifier FROM claims UNION SELECT identifier FROM skips`)
		for _, i := range c.tracker.Issues() {
			if (i.State == "Todo" || i.State == "In Progress") && !slices.Contains(known, i.Identifier) {
				lost = append(lost, i.Identifier+" is "+i.State)
			}
		}
		if len(lost) == 0 {
			return
		}
		c.calmPass(ctx)
	}
	c.fault("claims lost", "neither claimed nor skipped: %s", strings.Join(lost, ", "))
}

// checkCommands checks that no command is waiting, and that the owned issues are as their last
// command left them.
func (c *checker) checkCommands(ctx context.Context) {
	c.apply(
		ctx,
		rule{
			"commands lost",
			`SELECT 'still waiting: ' || id || ' ' || verb || ' ' || identifier FROM commands`,
		},
	)
	for name, verb := range c.wanted {
		held := c.query(
			ctx,
			`SELECT 1 FROM claims WHERE identifier = ? AND (status = 'held' AND hold_reason = 'operator' OR hold_next = 1)`,
			name,
		)
		if (verb != "retry") != (len(held) > 0) {
			claim := c.query(
				ctx,
				`SELECT status || ' ' || hold_reason || ' next=' || hold_next FROM claims WHERE identifier = ?`,
				name,
			)
			c.fault("commands lost", "%s %s was acknowledged, the claim is %q", verb, name, claim)
		}
	}
}

// checkMeetings checks that no agent met another agent, or processes of another, in its
// workspace.
func (c *checker) checkMeetings(agents []entry) {
	c.agents = len(agents)
	for _, e := range agents {
		for _, met := range e.Met {
			column := "leftovers met by an agent"
			if strings.Contains(met, "app-server") {
				column = "agents ever two in a workspace"
			}
			c.fault(column, "agent %d of run %s in %s met %s", e.PID, e.Run, e.Workspace, met)
		}
	}
}

// endedRun is the final row of a run.
type endedRun struct {
	id, identifier, outcome, code string
	attempt                       int
	began                         time.Time
}

// checkAttempts checks that the attempt of each run follows from the outcome of the one
// before. It compares two runs that were seen with the same claim and without a retry of the
// operator between them.
func (c *checker) checkAttempts(ctx context.Context) {
	var last endedRun
	for _, row := range c.query(ctx, `SELECT id || '|' || identifier || '|' || coalesce(outcome, '-') || '|' || error_code || '|' || attempt || '|' || started_at
		FROM runs WHERE kind = 'agent' ORDER BY identifier, id`) {
		w := strings.Split(row, "|")
		r := endedRun{
			id:         w[0],
			identifier: w[1],
			outcome:    w[2],
			code:       w[3],
			attempt:    stage.Get(strconv.Atoi(w[4])),
			began:      time.UnixMilli(stage.Get(strconv.ParseInt(w[5], 10, 64))),
		}
		if r.identifier == last.identifier && c.comparable(last, r) {
			c.attempts++
			if want := last.nextAttempts(); !slices.Contains(want, r.attempt) {
				c.fault(
					"attempts lost",
					"%s: %s was attempt %d and ended %s %s; %s is attempt %d, not one of %v",
					r.identifier,
					last.id,
					last.attempt,
					last.outcome,
					last.code,
					r.id,
					r.attempt,
					want,
				)
			}
		}
		last = r
	}
}

func (c *checker) comparable(one, next endedRun) bool {
	claim := c.claimedAt[one.id]
	if claim == "" || claim != c.claimedAt[next.id] {
		return false
	}
	// A retry that was cut off may take effect up to half a minute later, by the pass that
	// finds it.
	return !slices.ContainsFunc(c.retries[one.identifier], func(retry [2]time.Time) bool {
		return retry[0].Before(next.began) && retry[1].After(one.began.Add(-30*time.Second))
	})
}

// nextAttempts lists the attempts that may follow.
func (r endedRun) nextAttempts() []int {
	machine := slices.ContainsFunc(
		[]string{"linear_", "tracker_", "state_", "agent_"},
		func(s string) bool { return strings.HasPrefix(r.code, s) },
	) ||
		slices.Contains([]string{
			"workspace_busy", "network", "disk_full", "resource_limit", "repository_unavailable", "codex_not_found", "codex_incompatible",
			"sandbox_unavailable", "host_failed", "host_lost", "host_mismatch", "host_system", "host_unreachable", "host_unusable",
		}, r.code)
	switch {
	case r.outcome == "succeeded":
		return []int{1}
	case r.outcome == "canceled" || machine:
		return []int{r.attempt}
	case r.outcome == "interrupted":
		return []int{r.attempt, r.attempt + 1} // every second one in a row counts
	}
	return []int{r.attempt + 1}
}

// checkTokens compares the tokens that the agents used with the stored ones. If the last run
// of a thread was not hit, none are missing, even after earlier hits, because an agent reports
// the total of the thread.
func (c *checker) checkTokens(ctx context.Context, agents []entry) {
	if c.model != nil { // codex has no such files, but can't have used more than the model served
		input, output := c.model.Tokens()
		c.apply(
			ctx,
			rule{
				"tokens lost",
				fmt.Sprintf(`SELECT 'the total is ' || sum(total) || ', the model served %d' FROM issue_totals
			HAVING sum(total) > %[1]d`, input+output),
			},
		)
		return
	}
	for _, file := range stage.Get(filepath.Glob(filepath.Join(c.AgentHome, "threads", "*.json"))) {
		var thread struct {
			ID    string
			Total struct{ Input, Output int }
		}
		stage.Must(json.Unmarshal(stage.Get(os.ReadFile(file)), &thread))
		last := c.query(ctx, `SELECT id FROM runs WHERE thread_id = ? ORDER BY id DESC LIMIT 1`, thread.ID)
		if len(last) == 0 || c.hitRun(last[0], agents) {
			continue
		}
		c.threads++
		used := thread.Total.Input + thread.Total.Output
		if len(
			c.query(ctx, `SELECT total FROM threads WHERE thread_id = ? AND total >= ?`, thread.ID, used),
		) == 0 {
			c.fault("tokens lost", "thread %s used %d, fewer are stored", thread.ID, used)
		}
	}
}

// hitRun reports whether the killer hit the worker or an agent of the run.
func (c *checker) hitRun(run string, agents []entry) bool {
	return c.hitWorkers[run] ||
		slices.ContainsFunc(agents, func(e entry) bool { return e.Run == run && c.wasHit(e.PID) })
}

// checkHealthy checks that no worker was lost that was neither hit nor asked to stop (one
// without a pid may have died with the pass that started it), and that an agent that was not
// hit crashed only if its script asks for it.
func (c *checker) checkHealthy(ctx context.Context, agents []entry) {
	for _, row := range c.query(ctx, `SELECT id || ' of ' || identifier || ': ' || error_code || ' ' || error_text FROM runs
		WHERE outcome = 'lost' AND worker_pid > 0 AND stop_reason IS NULL`) {
		if run, _, _ := strings.Cut(row, " "); !c.hitWorkers[run] {
			c.fault("healthy runs killed", "worker of run %s", row)
		}
	}
	for _, row := range c.query(ctx, `SELECT id || ' ' || identifier || ' ' || attempt FROM runs WHERE outcome = 'failed' AND error_code = 'port_exit'`) {
		if w := strings.Fields(row); !c.hitRun(w[0], agents) && !c.scriptCrashes(w[1], w[2]) {
			c.fault("healthy runs killed", "agent of run %s", row)
		}
	}
}

// checkPaths checks that the workspace roots contain only workspaces.
func (c *checker) checkPaths() {
	for _, root := range c.spaces() {
		entries, err := os.ReadDir(root)
		if !os.IsNotExist(err) {
			stage.Must(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "ABC-") && e.Name() != ".symphony" {
				c.fault("paths left", "%s", filepath.Join(root, e.Name()))
			}
		}
	}
}
