//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quietPasses is how many passes follow the storm before it is asked what became of everything; a run may be
// outlived by one pass.
const quietPasses = 3

// aftermath lets the tracker be well, runs a few passes, and asks what became of everything.
func (c *checker) aftermath(ctx context.Context) error {
	began := time.Now()
	if err := c.tracker.ClearFailures(ctx); err != nil {
		return err
	}
	for range quietPasses {
		if err := c.calmPass(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(c.claims(ctx), c.operated(ctx)); err != nil {
		return err
	}
	// Whatever still works is taken away.
	issues, err := c.tracker.issues(ctx)
	if err != nil {
		return err
	}
	for _, i := range issues {
		if err := c.tracker.move(ctx, i.Identifier, "Backlog"); err != nil {
			return err
		}
	}
	left, err := c.settle(ctx)
	c.calmTook = time.Since(began)
	for _, what := range left {
		c.fault("processes left", "%s", what)
	}
	return errors.Join(err, c.final(context.WithoutCancel(ctx)))
}

// calmPass is a pass that has the lock.
func (c *checker) calmPass(ctx context.Context) error {
	a := c.answer(ctx, c, "tick", "--trigger", "cron", "--json", "--lock-timeout", "30s")
	if err := c.sample(ctx); err != nil {
		return fmt.Errorf("read the state in calm: %w", err)
	}
	if a.exit != 0 {
		fmt.Fprintf(c.progress, "chaos: a pass in calm: exit %d: %.800s%.800s\n", a.exit, a.out, a.err)
	}
	if !pause(ctx, 300*time.Millisecond) {
		return ctx.Err()
	}
	return nil
}

// settle runs passes until nothing goes on, and tells which processes did not end.
func (c *checker) settle(ctx context.Context) (left []string, err error) {
	end := time.Now().Add(30 * time.Second)
	for {
		if err := c.calmPass(ctx); err != nil {
			return left, err
		}
		open, err := c.ask(ctx, `SELECT id FROM runs WHERE settled = 0
			UNION ALL SELECT issue_id FROM claims WHERE status <> 'held' UNION ALL SELECT verb FROM commands`)
		if err != nil {
			return left, err
		}
		list, err := c.processes()
		if err != nil {
			return left, err
		}
		left = left[:0]
		for _, p := range list {
			left = append(left, p.describe())
		}
		if len(open)+len(left) == 0 || time.Now().After(end) {
			return left, nil
		}
	}
}

// claims: what is active is claimed, or skipped for a reason.
func (c *checker) claims(ctx context.Context) error {
	known, err := c.ask(ctx, `SELECT identifier FROM claims UNION SELECT identifier FROM skips`)
	if err != nil {
		return err
	}
	issues, err := c.tracker.issues(ctx)
	if err != nil {
		return err
	}
	for _, i := range issues {
		if (i.State == "Todo" || i.State == "In Progress") && !slices.Contains(known, i.Identifier) {
			c.fault("claims lost", "%s is %s, neither claimed nor skipped", i.Identifier, i.State)
		}
	}
	return nil
}

// operated: no command waits any more, and those for owned issues have done what they say.
func (c *checker) operated(ctx context.Context) error {
	waiting, err := c.ask(ctx, `SELECT id || ' ' || verb || ' ' || identifier FROM commands`)
	if err != nil {
		return err
	}
	for _, what := range waiting {
		c.fault("commands lost", "still waiting after %d passes: %s", quietPasses, what)
	}
	for name, verb := range c.wanted {
		held, err := c.ask(ctx, `SELECT 1 FROM claims WHERE identifier = ? AND (status = 'held' AND hold_reason = 'operator' OR hold_next = 1)`, name)
		if err != nil {
			return err
		}
		if (verb != "retry") != (len(held) > 0) {
			got, err := c.ask(ctx, `SELECT status || ' ' || hold_reason || ' next=' || hold_next FROM claims WHERE identifier = ?`, name)
			c.fault("commands lost", "%s %s was acknowledged, the claim is %q (%v)", verb, name, got, err)
		}
	}
	return nil
}

// final looks at what remains when nothing goes on.
func (c *checker) final(ctx context.Context) error {
	open, err := c.ask(ctx, `SELECT id || ' of ' || identifier || ' ' || phase || ' ' || coalesce(outcome, '-') FROM runs WHERE settled = 0`)
	if err != nil {
		return err
	}
	for _, what := range open {
		c.fault("runs never settled", "%s", what)
	}
	stuck, err := c.ask(ctx, `SELECT identifier || ' ' || status || ' ' || kind || ' ' || error_code || ' ' || error_message FROM claims WHERE status <> 'held'`)
	if err != nil {
		return err
	}
	for _, what := range stuck {
		c.fault("claims lost", "never released: %s", what)
	}
	leftover, err := c.ask(ctx, `SELECT identifier || ' ' || hold_reason || ' ' || hold_message FROM claims WHERE status = 'held' AND hold_reason <> 'operator'`)
	if err != nil {
		return err
	}
	for _, what := range leftover {
		c.fault("processes left", "held: %s", what)
	}
	for run, n := range c.settled {
		if n > 1 {
			c.fault("runs settled twice", "%s, say %d passes", run, n)
		}
	}
	paths, err := c.leftPaths()
	if err != nil {
		return err
	}
	for _, path := range paths {
		c.fault("paths left", "%s", path)
	}
	return errors.Join(c.count(ctx), c.attempts(ctx), c.told(ctx), c.healthy(ctx), c.met())
}

// count compares sums with totals: a run settled twice adds twice, one that was forgotten not at all.
func (c *checker) count(ctx context.Context) error {
	number := func(query string) (int, error) {
		got, err := c.ask(ctx, query)
		if err != nil || len(got) != 1 {
			return 0, errors.Join(err, fmt.Errorf("%d rows of %s", len(got), query))
		}
		return strconv.Atoi(got[0])
	}
	var errs []error
	must := func(query string) int {
		n, err := number(query)
		errs = append(errs, err)
		return n
	}
	c.passes = must(`SELECT coalesce(max(id), 0) FROM passes`)
	c.runs = must(`SELECT count(*) FROM runs WHERE kind = 'agent'`)
	c.summed = must(`SELECT coalesce(sum(tokens_total), 0) FROM runs WHERE settled = 1`)
	c.tokens = must(`SELECT value FROM meta WHERE key = 'totals_total'`)
	for _, pair := range [][3]string{
		{"tokens", `SELECT value FROM meta WHERE key = 'totals_total'`, `SELECT coalesce(sum(tokens_total), 0) FROM runs WHERE settled = 1`},
		{"input tokens", `SELECT value FROM meta WHERE key = 'totals_input'`, `SELECT coalesce(sum(tokens_input), 0) FROM runs WHERE settled = 1`},
		{"output tokens", `SELECT value FROM meta WHERE key = 'totals_output'`, `SELECT coalesce(sum(tokens_output), 0) FROM runs WHERE settled = 1`},
		{"ms of runtime", `SELECT value FROM meta WHERE key = 'totals_runtime_ms'`, `SELECT coalesce(sum(runtime_ms), 0) FROM runs WHERE settled = 1 AND kind = 'agent'`},
		{"tokens of issues", `SELECT value FROM meta WHERE key = 'totals_total'`, `SELECT coalesce(sum(total), 0) FROM issue_totals`},
		{"tokens of threads", `SELECT value FROM meta WHERE key = 'totals_total'`, `SELECT coalesce(sum(total), 0) FROM threads`},
	} {
		if totals, sum := must(pair[1]), must(pair[2]); totals != sum {
			c.fault("tokens lost", "%s: the totals say %d, the sum is %d", pair[0], totals, sum)
		}
	}
	rows, err := c.ask(ctx, `SELECT coalesce(outcome, '-') || ' ' || count(*) FROM runs WHERE kind = 'agent' GROUP BY outcome`)
	for _, row := range rows {
		name, n, _ := strings.Cut(row, " ")
		c.outcomes[name], err = strconv.Atoi(n)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, err)...)
}

// healthy: a worker that nobody has hit and that no pass had to stop is not lost. One that never said its pid may
// have died with the pass that started it. An agent that nobody has hit ends only where it was told to.
func (c *checker) healthy(ctx context.Context) error {
	lost, err := c.ask(ctx, `SELECT id || ' of ' || identifier || ': ' || error_code || ' ' || error_text FROM runs
		WHERE outcome = 'lost' AND worker_pid > 0 AND stop_reason IS NULL`)
	if err != nil {
		return err
	}
	for _, row := range lost {
		if run, _, _ := strings.Cut(row, " "); !c.hits.worker(run) {
			c.fault("healthy runs killed", "worker of run %s", row)
		}
	}
	ended, err := c.ask(ctx, `SELECT id || ' ' || identifier || ' ' || attempt FROM runs WHERE outcome = 'failed' AND error_code = 'port_exit'`)
	if err != nil {
		return err
	}
	agents, err := journal(c.gateDir)
	if err != nil {
		return err
	}
	for _, row := range ended {
		w := strings.Fields(row)
		if !c.hits.worker(w[0]) && !c.hitAgent(agents, w[0]) && !c.crashes(w[1], number(w[2])) {
			c.fault("healthy runs killed", "agent of run %s", row)
		}
	}
	return nil
}

// met reads the gate's journal.
func (c *checker) met() error {
	list, err := journal(c.gateDir)
	if err != nil {
		return err
	}
	c.agents = len(list)
	for _, e := range list {
		for _, who := range e.Met {
			column := "leftovers met by an agent"
			if strings.Contains(who, "app-server") {
				column = "agents ever two in a workspace"
			}
			c.fault(column, "%s agent %d of run %s in %s met %s", e.At.Format("15:04:05.000"), e.PID, e.Run, e.Workspace, who)
		}
	}
	return nil
}
