//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
)

// idle compares a pass with nothing to do with a program that opens the same database and makes the same request. It also
// looks for what is left of a pass when it has ended.
func idle(ctx context.Context, s *suite) ([]row, error) {
	p, err := s.project(10)
	if err != nil {
		return nil, err
	}
	if err := setIssues(ctx, s.tracker, load{}); err != nil {
		return nil, err
	}
	for range 3 { // the first passes create the database and verify the configuration
		if _, err := p.quietTick(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := takeRequests(ctx, s.tracker); err != nil {
		return nil, err
	}
	if _, err := p.quietTick(ctx); err != nil {
		return nil, err
	}
	bodies, err := takeRequests(ctx, s.tracker)
	if err != nil {
		return nil, err
	}
	file, err := p.writeRequests(bodies)
	if err != nil {
		return nil, err
	}
	database, err := p.copyDatabase()
	if err != nil {
		return nil, err
	}
	pairs := 60
	if s.quick {
		pairs = 20
	}
	var passes, others []sample
	for n := range 2 * pairs {
		// In turns, each first every other time, so that the load of the machine meets both alike.
		if (n%2 == 0) == (n/2%2 == 0) {
			got, err := p.quietTick(ctx)
			if err != nil {
				return nil, err
			}
			passes = append(passes, got)
			continue
		}
		got, err := p.baseline(ctx, "requests", database, s.tracker.Endpoint(), file)
		if err != nil {
			return nil, err
		}
		others = append(others, got)
	}
	left, err := afterPass(ctx, p)
	return []row{
		{measure: "a pass with nothing to do: wall time", value: ratio(passes, others, wall), budget: 1.5, unit: "×", note: times(passes, others, wall)},
		{measure: "  memory", value: peak(passes), budget: 18, unit: " MB"},
		{measure: "  requests", value: float64(len(bodies)), budget: 1},
		left,
	}, err
}

// afterPass looks for processes and requests of a project between two passes.
func afterPass(ctx context.Context, p *project) (row, error) {
	if _, err := takeRequests(ctx, p.s.tracker); err != nil {
		return row{}, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return row{}, err
	}
	list, err := stage.Processes(p.Dir, "")
	bodies, err2 := takeRequests(ctx, p.s.tracker)
	return row{measure: "  processes and requests after it", value: float64(len(list) + len(bodies))}, errors.Join(err, err2)
}

// claims writes a claim for each issue into the database of the project.
func (l load) claims(ctx context.Context, p *project) error {
	db, err := sql.Open("sqlite", "file:"+p.Database()+"?mode=rw&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	// As passes would have left them: half of them wait for their next try, half are held by the operator.
	now := time.Now()
	_, err = db.ExecContext(ctx, `
		WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO claims (issue_id, identifier, status, version, attempt, kind, due_at, error_code, error_message,
			hold_reason, hold_message, held_at, failures, issue, project, claimed_at, updated_at)
		SELECT printf('00000000-0000-4000-8000-%012d', n), 'ABC-' || n, iif(n % 2, 'retry', 'held'), 1, 1, 'backoff', ?, 'turn_failed',
			'the model said no', iif(n % 2, '', 'operator'), iif(n % 2, '', 'held by the operator'), iif(n % 2, NULL, ?), 1,
			json_object('ID', printf('00000000-0000-4000-8000-%012d', n)), ?, ?, ? FROM numbers`,
		l.Issues, now.Add(time.Hour).UnixMilli(), now.UnixMilli(), p.s.tracker.Endpoint()+" demo", now.UnixMilli(), now.UnixMilli())
	return errors.Join(err, db.Close())
}

// loadSamples measures passes over so many claims and as many candidates.
func loadSamples(ctx context.Context, s *suite, claims, repeats int) (passes, others []sample, err error) {
	p, err := s.project(10)
	if err != nil {
		return nil, nil, err
	}
	if err := setIssues(ctx, s.tracker, load{}); err != nil {
		return nil, nil, err
	}
	if _, err := p.quietTick(ctx); err != nil { // creates the database
		return nil, nil, err
	}
	l := load{Issues: claims}
	if err := l.claims(ctx, p); err != nil {
		return nil, nil, err
	}
	database, err := p.copyDatabase()
	if err != nil {
		return nil, nil, err
	}
	for range repeats {
		l.Version++
		if err := setIssues(ctx, s.tracker, l); err != nil {
			return nil, nil, err
		}
		if _, err := takeRequests(ctx, s.tracker); err != nil {
			return nil, nil, err
		}
		pass, err := p.quietTick(ctx)
		if err != nil {
			return nil, nil, err
		}
		bodies, err := takeRequests(ctx, s.tracker)
		if err != nil {
			return nil, nil, err
		}
		const pageSize = 50
		if len(bodies) < 2*claims/pageSize {
			return nil, nil, fmt.Errorf("%d requests: the pass did not read %d candidates and %d claims", len(bodies), claims, claims)
		}
		file, err := p.writeRequests(bodies)
		if err != nil {
			return nil, nil, err
		}
		other, err := p.baseline(ctx, "requests", database, s.tracker.Endpoint(), file)
		if err != nil {
			return nil, nil, err
		}
		passes, others = append(passes, pass), append(others, other)
	}
	return passes, others, nil
}

// manyClaims compares a pass over claims, all of which have changed, with a program that fetches the same pages, decodes them
// with encoding/json and writes as many rows.
func manyClaims(ctx context.Context, s *suite) ([]row, error) {
	few, many := 1000, 10_000
	if s.quick {
		few, many = 500, 2000
	}
	small, _, err := loadSamples(ctx, s, few, 5)
	if err != nil {
		return nil, err
	}
	large, others, err := loadSamples(ctx, s, many, 3)
	if err != nil {
		return nil, err
	}
	exponent := math.Log(ratio(large, small, cpu)) / math.Log(float64(many)/float64(few))
	return []row{
		{measure: fmt.Sprintf("a pass over %d claims and candidates: CPU", many), value: ratio(large, others, cpu), budget: 2.5, unit: "×", note: times(large, others, cpu)},
		{measure: "  memory", value: peak(large), budget: 150, unit: " MB"},
		{measure: "  growth of CPU, exponent", value: exponent, budget: 1.05, note: fmt.Sprintf("from %d to %d claims", few, many)},
	}, nil
}
