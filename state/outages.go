package state

import (
	"context"
	"database/sql"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Outage is a time in which a fault of the machine's kept everything waiting.
type Outage struct {
	Code, Message string
	Since         time.Time
	Until         time.Time // zero where it goes on
}

// noteOutages keeps since when and until when a block stood: what stands in meta is forgotten with its end.
func noteOutages(ctx context.Context, tx *sql.Tx, now time.Time, c reconcile.Change) error {
	for _, b := range []struct {
		source string
		block  *reconcile.Block
	}{
		{metaAgentBlock, c.AgentBlock},
		{metaTrackerBlock, c.TrackerBlock},
		{metaHostBlock, c.HostBlock},
	} {
		if b.block == nil {
			continue
		}
		if err := noteOutage(ctx, tx, now, b.source, *b.block); err != nil {
			return err
		}
	}
	return nil
}

// noteOutage ends what else was open, and begins this one where it is not open yet.
func noteOutage(ctx context.Context, tx *sql.Tx, now time.Time, source string, b reconcile.Block) error {
	if _, err := tx.ExecContext(ctx, `UPDATE outages SET until = max(?, since) WHERE source = ? AND until IS NULL AND code <> ?`,
		stamp(now), source, b.Code); err != nil || b.Code == "" {
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO outages (source, code, message, since) VALUES (?, ?, ?, ?)
		ON CONFLICT (source) WHERE until IS NULL DO UPDATE SET message = excluded.message`,
		source, b.Code, b.Message, stamp(now))
	return err
}

// readOutages returns those that have something of the time in it, the oldest first. One that a program ended which
// keeps no such record ends where it began: nobody knows better.
func readOutages(ctx context.Context, tx *sql.Tx, since, until time.Time) ([]Outage, error) {
	rows, err := tx.QueryContext(ctx, `SELECT code, message, since, over FROM (SELECT *, iif(until IS NULL
			AND NOT EXISTS (SELECT 1 FROM meta WHERE key = source), since, until) AS over FROM outages)
		WHERE since < ? AND (over IS NULL OR over >= ?) ORDER BY since, id`, stamp(until), stamp(since))
	return collect(rows, err, func(row scanner) (o Outage, err error) {
		err = row.Scan(&o.Code, &o.Message, stampOf{&o.Since}, stampOf{&o.Until})
		return o, err
	})
}
