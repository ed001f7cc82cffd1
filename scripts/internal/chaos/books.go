//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// endedRun is a run as its row has it at the end.
type endedRun struct {
	id, identifier, outcome, code string
	attempt                       int
	began                         time.Time
}

// attempts goes through the runs of each issue: which attempt follows which end is known without asking the program.
// Two runs are compared where both were seen under the same claim and no operator's retry lies between them.
func (c *checker) attempts(ctx context.Context) error {
	rows, err := c.ask(ctx, `SELECT id || '|' || identifier || '|' || coalesce(outcome, '-') || '|' || error_code || '|' || attempt || '|' || started_at
		FROM runs WHERE kind = 'agent' ORDER BY identifier, id`)
	if err != nil {
		return err
	}
	var last endedRun
	for _, row := range rows {
		w := strings.Split(row, "|")
		attempt, err := strconv.Atoi(w[4])
		began, err2 := strconv.ParseInt(w[5], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		r := endedRun{id: w[0], identifier: w[1], outcome: w[2], code: w[3], attempt: attempt, began: time.UnixMilli(began)}
		if r.identifier == last.identifier && c.sameClaim(last, r) {
			c.compared++
			if want := last.next(); !slices.Contains(want, r.attempt) {
				c.fault("attempts lost", "%s: %s was attempt %d and ended %s %s; %s is attempt %d, not one of %v",
					r.identifier, last.id, last.attempt, last.outcome, last.code, r.id, r.attempt, want)
			}
		}
		last = r
	}
	return nil
}

// sameClaim reports whether nothing but the end of one run decided the attempt of the other.
func (c *checker) sameClaim(one, other endedRun) bool {
	claim := c.claimed[one.id]
	if claim == "" || claim != c.claimed[other.id] {
		return false
	}
	for times := range slices.Chunk(c.retried[one.identifier], 2) {
		// A command that was cut off may be obeyed long after it, by the pass that finds it.
		if times[0].Before(other.began) && times[1].After(one.began.Add(-retryLingers)) {
			return false
		}
	}
	return true
}

// retryLingers is how long a command may wait for a pass that consumes it.
const retryLingers = 30 * time.Second

// next are the attempts that may follow.
func (r endedRun) next() []int {
	machine := slices.ContainsFunc([]string{"linear_", "tracker_", "state_", "agent_"}, func(s string) bool { return strings.HasPrefix(r.code, s) }) ||
		slices.Contains([]string{"workspace_busy", "network", "disk_full", "resource_limit", "codex_not_found", "codex_incompatible", "sandbox_unavailable"}, r.code)
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

// told compares what agents say that they have used with what is written down of it. Of a thread in whose last run
// nobody was hit nothing may be missing, whatever happened before: the totals of a thread go on.
func (c *checker) told(ctx context.Context) error {
	if c.model != nil {
		// codex keeps no such books; but more than the model has served nobody can have used.
		input, output := c.model.Tokens()
		if c.tokens > input+output {
			c.fault("tokens lost", "the totals say %d, the model has served %d", c.tokens, input+output)
		}
		return nil
	}
	files, err := filepath.Glob(filepath.Join(c.AgentHome, "threads", "*.json"))
	if err != nil {
		return err
	}
	agents, err := journal(c.gateDir)
	if err != nil {
		return err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var thread struct {
			ID    string
			Total struct{ Input, Output int }
		}
		if err := json.Unmarshal(data, &thread); err != nil {
			return err
		}
		last, err := c.ask(ctx, `SELECT id FROM runs WHERE thread_id = ? ORDER BY id DESC LIMIT 1`, thread.ID)
		if err != nil {
			return err
		}
		if len(last) == 0 || c.hits.worker(last[0]) || c.hitAgent(agents, last[0]) {
			continue
		}
		stored, err := c.ask(ctx, `SELECT total FROM threads WHERE thread_id = ?`, thread.ID)
		if err != nil {
			return err
		}
		c.threads++
		if used := thread.Total.Input + thread.Total.Output; len(stored) != 1 || number(stored[0]) < used {
			c.fault("tokens lost", "thread %s has used %d, stored are %v", thread.ID, used, stored)
		}
	}
	return nil
}

// hitAgent reports whether the killer has hit an agent of the run.
func (c *checker) hitAgent(agents []entry, run string) bool {
	return slices.ContainsFunc(agents, func(e entry) bool { return e.Run == run && c.hits.was(e.PID) })
}

// number is 0 for what is none.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
