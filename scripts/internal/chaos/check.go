//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver
)

const (
	// sampleEvery is how exactly settlements are timed.
	sampleEvery = 100 * time.Millisecond
	// calmBound is for all that follows the storm.
	calmBound = 110 * time.Second
)

// checker knows nothing of the program but its tables, and believes nothing that it says of itself.
type checker struct {
	*scene
	hits hits

	mu      sync.Mutex
	faults  map[string][]string // by column
	started int                 // passes
	exits   map[string]int
	settled map[string]int // how often a pass said so

	// The operator's, who is one.
	commands int
	wanted   map[string]string      // the last acknowledged verb for an owned issue
	retried  map[string][]time.Time // when an issue's retry was begun and had ended

	// The watch's, and after it the aftermath's.
	seen     map[string]runRow
	settling map[string]time.Time // when a run was first seen settled
	claimed  map[string]string    // the claim that a run was seen to belong to, by the time when it was made
	compared int                  // attempts
	threads  int                  // whose tokens the agents told
	samples  int
	unread   int // samples that found the database busy or in the middle of something

	passes, runs   int
	tokens, summed int
	outcomes       map[string]int
	agents         int
	calmTook       time.Duration
}

func newChecker(s *scene) *checker {
	return &checker{
		scene: s, hits: hits{counts: map[string]int{}, hit: map[int]bool{}, workers: map[string]bool{}, deaths: map[string]time.Time{}},
		faults: map[string][]string{}, exits: map[string]int{}, settled: map[string]int{}, wanted: map[string]string{},
		seen: map[string]runRow{}, settling: map[string]time.Time{}, outcomes: map[string]int{},
		claimed: map[string]string{}, retried: map[string][]time.Time{},
	}
}

// columns are those that must be zero, in the order in which they are printed.
var columns = []string{
	"agents ever two in a workspace", "runs settled twice", "runs never settled", "claims lost", "attempts lost", "tokens lost",
	"commands lost", "healthy runs killed", "processes left",
	"leftovers met by an agent", "workers two for a run or issue", "outcomes changed", "runs forgotten", "unexpected ends", "paths left",
}

// fault notes something under a column, once.
func (c *checker) fault(column, format string, args ...any) {
	if !slices.Contains(columns, column) {
		panic("no column " + column)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if what := fmt.Sprintf(format, args...); !slices.Contains(c.faults[column], what) {
		c.faults[column] = append(c.faults[column], what)
	}
}

// heard notes how a command ended. One that nobody has hit ends by itself with a code that its manual names; that it
// could not do something because the tracker fails is not unexpected.
func (c *checker) heard(args []string, a answer, err error, late bool) {
	for _, action := range actions(a.out) {
		if action.Action == "settle" && action.RunID != nil {
			c.mu.Lock()
			c.settled[*action.RunID]++
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	if args[0] == "tick" {
		c.started++
	}
	c.exits[fmt.Sprint(a.exit)]++
	c.mu.Unlock()
	text := a.out + a.err
	bad := strings.Contains(text, "panic:") || strings.Contains(text, "SQLITE_") || strings.Contains(text, "database is locked") || strings.Contains(text, "state_")
	switch {
	case late:
		c.fault("unexpected ends", "%s did not end within %v", strings.Join(args, " "), commandBound)
	case bad, !a.hit && a.exit != 0 && a.exit != 1 && a.exit != 4:
		c.fault("unexpected ends", "%s: exit %d (%v): %.1500s", strings.Join(args, " "), a.exit, err, text)
	}
}

// runRow is what the checker remembers of a run.
type runRow struct {
	kind, issue string
	outcome     sql.NullString
	settled     bool
	workerPID   int
}

// open opens the database as a reader that knows nothing of the program.
func (c *checker) open() (*sql.DB, error) {
	return sql.Open("sqlite", "file:"+filepath.Join(c.StateDir, "state.db")+"?mode=ro&_pragma=busy_timeout(5000)")
}

// watch samples the tables and /proc until ctx is over.
func (c *checker) watch(ctx context.Context) error {
	for pause(ctx, sampleEvery) {
		if err := c.sample(ctx); err != nil && ctx.Err() == nil {
			// The reader alone must make the database's files where the last writer took them away; where a writer
			// does so at the same moment the reader fails, and looks again.
			c.unread++
		}
	}
	if c.samples == 0 {
		return fmt.Errorf("the database could never be read (%d times)", c.unread)
	}
	return nil
}

func (c *checker) sample(ctx context.Context) error {
	list, err := c.processes()
	if err != nil {
		return err
	}
	workers := map[string]int{}
	for _, p := range list {
		if run := p.run(); run != "" && p.kind() == "worker" {
			// A forked child bears its parent's name until it becomes what it was made for.
			if forked(list, p) {
				continue
			}
			if other := workers[run]; other != 0 && other != p.PID {
				c.fault("workers two for a run or issue", "run %s has %d and %d", run, other, p.PID)
			}
			workers[run] = p.PID
		}
	}
	db, err := c.open()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := c.look(ctx, db); err != nil {
		return err
	}
	// One statement is one moment. No agent's run is without its claim, none of them ended is still to be settled.
	lost, err := column(ctx, db, `SELECT id || ' of ' || identifier FROM runs WHERE kind = 'agent' AND outcome IS NULL
		AND issue_id NOT IN (SELECT issue_id FROM claims)`)
	if err != nil {
		return err
	}
	for _, what := range lost {
		c.fault("claims lost", "run %s goes on without a claim", what)
	}
	dangling, err := column(ctx, db, `SELECT identifier || ' ' || run_id FROM claims WHERE status = 'running'
		AND run_id NOT IN (SELECT id FROM runs WHERE settled = 0)`)
	if err != nil {
		return err
	}
	for _, what := range dangling {
		c.fault("claims lost", "claim %s is running without an unsettled run", what)
	}
	two, err := column(ctx, db, `SELECT identifier FROM runs WHERE kind = 'agent' AND outcome IS NULL GROUP BY issue_id HAVING count(*) > 1`)
	if err != nil {
		return err
	}
	for _, what := range two {
		c.fault("workers two for a run or issue", "%s has two runs that go on", what)
	}
	c.samples++
	return nil
}

// look compares the runs with what they were.
func (c *checker) look(ctx context.Context, db *sql.DB) error {
	rows, err := db.QueryContext(ctx, `SELECT id, kind, identifier, outcome, settled, worker_pid FROM runs`)
	if err != nil {
		return err
	}
	defer rows.Close()
	now, there := time.Now(), map[string]bool{}
	for rows.Next() {
		var id string
		var r runRow
		if err := rows.Scan(&id, &r.kind, &r.issue, &r.outcome, &r.settled, &r.workerPID); err != nil {
			return err
		}
		there[id] = true
		was := c.seen[id]
		if was.settled && !r.settled {
			c.fault("runs settled twice", "%s was settled and is no longer", id)
		}
		if was.outcome.Valid && was.outcome != r.outcome {
			c.fault("outcomes changed", "%s: %q became %q", id, was.outcome.String, r.outcome.String)
		}
		if r.settled && c.settling[id].IsZero() {
			c.settling[id] = now
		}
		c.seen[id] = r
	}
	if err := rows.Err(); err != nil {
		return err
	}
	claims, err := column(ctx, db, `SELECT run_id || ' ' || claimed_at FROM claims WHERE status = 'running'`)
	if err != nil {
		return err
	}
	for _, row := range claims {
		run, at, _ := strings.Cut(row, " ")
		c.claimed[run] = at
	}
	for id, r := range c.seen {
		if !there[id] && !r.settled {
			c.fault("runs forgotten", "%s of %s", id, r.issue)
		}
	}
	return nil
}

func column(ctx context.Context, db *sql.DB, query string, args ...any) (list []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v sql.NullString
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		list = append(list, v.String)
	}
	return list, rows.Err()
}

// ask is column on a database opened for it.
func (c *checker) ask(ctx context.Context, query string, args ...any) ([]string, error) {
	db, err := c.open()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return column(ctx, db, query, args...)
}
