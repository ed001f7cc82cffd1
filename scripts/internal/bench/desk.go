//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/state/statetest"
)

// desk compares commands on a large state with a program that reads as many rows of it.
func desk(ctx context.Context, s *suite) (rows []row, err error) {
	p, err := s.project(10)
	if err != nil {
		return nil, err
	}
	if err := statetest.Large(ctx, p.StateDir, time.Now(), statetest.Large500); err != nil {
		return nil, err
	}
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
			command, err := p.symphony(ctx, strings.Fields(c.command)...)
			if err != nil {
				return nil, err
			}
			other, err := p.baseline(ctx, append([]string{"rows", p.Database()}, c.queries...)...)
			if err != nil {
				return nil, err
			}
			commands, others = append(commands, command), append(others, other)
		}
		rows = append(rows, row{
			measure: c.command + " on 500 claims and 5,000 runs: wall time", value: ratio(commands, others, wall), budget: 3, unit: "×",
			note: times(commands, others, wall),
		})
	}
	return rows, nil
}
