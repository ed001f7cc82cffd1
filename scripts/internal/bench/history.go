package main

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/symphony-cron/symphony/state/statetest"
)

const (
	historyRuns  = 100_000
	historyPairs = 15
	historyRatio = 1.25
)

// history compares a pass with nothing to do on a database that has seen 100,000 runs to one on a database that has
// seen none.
func (b *bench) history() error {
	if err := b.tracker.Seed(b.ctx, nil); err != nil {
		return err
	}
	old, err := b.project("history")
	if err != nil {
		return err
	}
	size := statetest.Size{Claims: 5000, Runs: historyRuns, Passes: 43_200, Events: 100}
	if err := statetest.Large(b.ctx, old.StateDir, time.Now(), size); err != nil {
		return err
	}
	if err := old.onlyHistory(); err != nil {
		return err
	}
	fresh, err := b.project("no-history")
	if err != nil {
		return err
	}
	for _, s := range []*project{old, fresh, old, fresh} { // the first ones have things to tidy up
		if _, err := s.quietTick(); err != nil {
			return err
		}
	}
	var olds, news []sample
	var ratios []float64
	for turn := range historyPairs {
		var o, n sample
		err := inTurns(turn,
			func() (err error) { o, err = old.idleTick(); return err },
			func() (err error) { n, err = fresh.idleTick(); return err },
		)
		if err != nil {
			return err
		}
		olds, news, ratios = append(olds, o), append(news, n), append(ratios, float64(o.WallNS)/float64(n.WallNS))
	}
	t := &b.table
	t.heading("a pass with nothing to do after %d finished runs, %d pairs with a fresh one", historyRuns, historyPairs)
	t.add(figure{Name: "wall", Unit: "ms", Values: each(olds, wallMS)})
	t.add(figure{Name: "wall without a history", Unit: "ms", Values: each(news, wallMS)})
	t.add(figure{Name: "wall, ratio pair by pair", Values: ratios, Budget: atMost(historyRatio).steady()})
	t.add(figure{Name: "CPU", Unit: "ms", Values: each(olds, cpuMS)})
	t.add(figure{Name: "peak resident", Unit: "MB", Values: each(olds, peakMB), Budget: atMost(idlePeak).worst()})
	return nil
}

// onlyHistory takes out what still is to be done: claims, and runs that have not ended.
func (s *project) onlyHistory() (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.StateDir, "state.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, statement := range []string{`DELETE FROM claims`, `DELETE FROM runs WHERE settled = 0`, `DELETE FROM requests`, `DELETE FROM commands`, `DELETE FROM skips`} {
		if _, err := db.ExecContext(s.b.ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	var left int
	if err := db.QueryRowContext(s.b.ctx, `SELECT count(*) FROM runs`).Scan(&left); err != nil {
		return err
	}
	if left < historyRuns {
		return fmt.Errorf("only %d finished runs are there", left)
	}
	return nil
}
