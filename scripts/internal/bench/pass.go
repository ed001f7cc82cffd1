//go:build linux

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/state/statetest"
)

// idle compares a pass with nothing to do with a program that opens the same database and makes the same request. It also
// looks for what is left of a pass when it has ended.
func idle(s *suite) []row {
	p := s.project(10)
	s.setIssues(load{})
	for range 3 { // the first passes create the database and verify the configuration
		p.quietTick()
	}
	s.takeRequests()
	p.quietTick()
	bodies := s.takeRequests()
	s.pause(time.Second)
	left := len(get(stage.Processes(p.Dir, ""))) + len(s.takeRequests())
	file, database := p.writeRequests(bodies), p.copyDatabase()
	pairs := 60
	if s.quick {
		pairs = 20
	}
	var passes, others []sample
	for n := range 2 * pairs {
		// In turns, each first every other time, so that the load of the machine meets both alike.
		if (n%2 == 0) == (n/2%2 == 0) {
			passes = append(passes, p.quietTick())
		} else {
			others = append(others, p.baseline("requests", database, s.endpoint(), file))
		}
	}
	return []row{
		{measure: "a pass with nothing to do: wall time", value: ratio(passes, others, wall), budget: 1.5, unit: "×", note: times(passes, others, wall)},
		{measure: "  memory", value: peak(passes), budget: 18, unit: " MB"},
		{measure: "  requests", value: float64(len(bodies)), budget: 1},
		{measure: "  processes and requests after it", value: float64(left)},
	}
}

// addClaims writes a claim for each issue into the database of the project.
func (p *project) addClaims(count int) {
	db := get(sql.Open("sqlite", "file:"+p.Database()+"?mode=rw&_pragma=busy_timeout(5000)"))
	// As passes would have left them: half of them wait for their next try, half are held by the operator.
	now := time.Now()
	_, err := db.ExecContext(p.s.ctx, `
		WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO claims (issue_id, identifier, status, version, attempt, kind, due_at, error_code, error_message,
			hold_reason, hold_message, held_at, failures, issue, project, claimed_at, updated_at)
		SELECT printf('00000000-0000-4000-8000-%012d', n), 'ABC-' || n, iif(n % 2, 'retry', 'held'), 1, 1, 'backoff', ?, 'turn_failed',
			'the model said no', iif(n % 2, '', 'operator'), iif(n % 2, '', 'held by the operator'), iif(n % 2, NULL, ?), 1,
			json_object('ID', printf('00000000-0000-4000-8000-%012d', n)), ?, ?, ? FROM numbers`,
		count, now.Add(time.Hour).UnixMilli(), now.UnixMilli(), p.s.endpoint()+" demo", now.UnixMilli(), now.UnixMilli())
	must(errors.Join(err, db.Close()))
}

// measureClaims measures passes over so many claims and as many candidates, all of which have changed.
func (s *suite) measureClaims(count, repeats int) (passes, others []sample) {
	p := s.project(10)
	s.setIssues(load{})
	p.quietTick() // creates the database
	p.addClaims(count)
	database := p.copyDatabase()
	for version := range repeats {
		s.setIssues(load{Issues: count, Version: version})
		s.takeRequests()
		passes = append(passes, p.quietTick())
		bodies := s.takeRequests()
		const pageSize = 50
		if len(bodies) < 2*count/pageSize {
			must(fmt.Errorf("%d requests: the pass did not read %d candidates and %d claims", len(bodies), count, count))
		}
		others = append(others, p.baseline("requests", database, s.endpoint(), p.writeRequests(bodies)))
	}
	return passes, others
}

// manyClaims compares a pass over claims with a program that fetches the same pages, decodes them with encoding/json and writes
// as many rows.
func manyClaims(s *suite) []row {
	few, many := 1000, 10_000
	if s.quick {
		few, many = 500, 2000
	}
	small, _ := s.measureClaims(few, 5)
	large, others := s.measureClaims(many, 3)
	exponent := math.Log(ratio(large, small, cpu)) / math.Log(float64(many)/float64(few))
	return []row{
		{measure: fmt.Sprintf("a pass over %d claims and candidates: CPU", many), value: ratio(large, others, cpu), budget: 2.5, unit: "×", note: times(large, others, cpu)},
		{measure: "  memory", value: peak(large), budget: 150, unit: " MB"},
		{measure: "  growth of CPU, exponent", value: exponent, budget: 1.05, note: fmt.Sprintf("from %d to %d claims", few, many)},
	}
}

// desk compares commands on a large state with a program that reads as many rows of it.
func desk(s *suite) (rows []row) {
	p := s.project(10)
	must(statetest.Large(s.ctx, p.StateDir, time.Now(), statetest.Large500))
	since := time.Now().Add(-30 * 24 * time.Hour).UnixMilli()
	for _, c := range []struct {
		command string
		queries []string
	}{
		{"ps", []string{`SELECT * FROM claims`, `SELECT * FROM runs WHERE settled = 0`}},
		{"show ABC-50", []string{`SELECT * FROM claims WHERE identifier = 'ABC-50'`, `SELECT * FROM runs WHERE identifier = 'ABC-50' COLLATE NOCASE`}},
		{"report --since 30d", []string{fmt.Sprintf(`SELECT * FROM runs WHERE ended_at >= %d`, since), `SELECT * FROM claims`}},
	} {
		var commands, others []sample
		for range 9 {
			commands = append(commands, p.symphony(strings.Fields(c.command)...))
			others = append(others, p.baseline(append([]string{"rows", p.Database()}, c.queries...)...))
		}
		rows = append(rows, row{
			measure: c.command + " on 500 claims and 5,000 runs: wall time", value: ratio(commands, others, wall), budget: 3, unit: "×",
			note: times(commands, others, wall),
		})
	}
	return rows
}
