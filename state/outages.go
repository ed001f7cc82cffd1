package state

import (
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Outage is a period in which a fault of the machine, the agent or the tracker blocked all
// issues.
type Outage struct {
	Code, Message string
	Since         time.Time
	Until         time.Time // zero if it did not end yet
}

func outageFields(o *Outage) []any {
	return []any{&o.Code, &o.Message, stampOf(&o.Since), stampOf(&o.Until)}
}

// readOutages returns the outages that overlap a period.
func readOutages(t tx, since, until time.Time) ([]Outage, error) {
	return rows(t, outageFields, `SELECT code, message, since, until FROM outages
		WHERE since < ? AND (until IS NULL OR until >= ?) ORDER BY since, id`, stamp(until), stamp(since))
}

// recordOutage ends an open outage of the same source with another code, and records the
// beginning of this outage unless it is open already. source is the key of the block in meta.
// A block is deleted when it ends; the record of its outage stays.
func recordOutage(t tx, now time.Time, source string, b reconcile.Block) error {
	err := t.run(
		`UPDATE outages SET until = max(?, since) WHERE source = ? AND until IS NULL AND code <> ?`,
		stamp(now), source, b.Code)
	if err != nil {
		return err
	}
	if b.Code == "" {
		return nil
	}
	return t.run(`INSERT INTO outages (source, code, message, since) VALUES (?, ?, ?, ?)
		ON CONFLICT (source) WHERE until IS NULL DO UPDATE SET message = excluded.message`,
		source, b.Code, b.Message, stamp(now))
}
