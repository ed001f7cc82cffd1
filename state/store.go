package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

var _ reconcile.Store = (*DB)(nil)

// Recorded implements reconcile.Store. Tokens of an issue are those of its settled runs and of the unsettled ones.
func (db *DB) Recorded(ctx context.Context) (reconcile.Recorded, error) {
	var rec reconcile.Recorded
	err := db.view(ctx, "read the state", func(tx *sql.Tx) (err error) {
		if err := readMeta(ctx, tx, db.dir, &rec); err != nil {
			return err
		}
		return db.readRecords(ctx, tx, &rec)
	})
	if err != nil {
		return reconcile.Recorded{}, err
	}
	return rec, nil
}

// readRecords first asks what there is: most of the time most projects have nothing claimed, and preparing the long
// statements takes longer than finding that out.
func (db *DB) readRecords(ctx context.Context, tx *sql.Tx, rec *reconcile.Recorded) error {
	var claims, runs, commands, skips bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM claims), EXISTS (SELECT 1 FROM runs WHERE settled = 0),
		EXISTS (SELECT 1 FROM commands), EXISTS (SELECT 1 FROM skips)`).Scan(&claims, &runs, &commands, &skips)
	if err != nil {
		return err
	}
	db.kept.skips(skips)
	rec.Claims, rec.Runs, rec.Commands = []reconcile.Claim{}, []reconcile.Run{}, []reconcile.Command{}
	if claims {
		if rec.Claims, err = readClaims(ctx, tx); err != nil {
			return err
		}
	}
	if runs {
		if rec.Runs, err = readUnsettled(ctx, tx); err != nil {
			return err
		}
	}
	if commands {
		if rec.Commands, err = readCommands(ctx, tx); err != nil {
			return err
		}
	}
	rec.Tokens, err = readTokens(ctx, tx, *rec)
	return err
}

func readMeta(ctx context.Context, tx *sql.Tx, dir string, rec *reconcile.Recorded) error {
	rows, err := tx.QueryContext(ctx, `SELECT key, value FROM meta WHERE key IN (?, ?, ?, ?, ?, ?, ?)`,
		metaSchema, metaOldestWriter, metaPaused, metaAgentBlock, metaTrackerBlock, metaHostBlock, metaSweep)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		if err := applyMeta(dir, key, value, rec); err != nil {
			return err
		}
	}
	return rows.Err()
}

func applyMeta(dir, key, value string, rec *reconcile.Recorded) error {
	switch key {
	case metaOldestWriter:
		return refuseNewer(dir, value)
	case metaPaused:
		rec.Paused = true
	case metaAgentBlock:
		rec.AgentBlock = new(reconcile.Block)
		return jsonOf{rec.AgentBlock}.Scan(value)
	case metaTrackerBlock:
		rec.TrackerBlock = new(reconcile.Block)
		return jsonOf{rec.TrackerBlock}.Scan(value)
	case metaHostBlock:
		rec.HostBlock = new(reconcile.Block)
		return jsonOf{rec.HostBlock}.Scan(value)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: meta %s", errStored, key)
	}
	switch key {
	case metaSchema:
		rec.ReadOnly = n > schemaVersion
	case metaSweep:
		rec.LastSweep = time.UnixMilli(n).UTC()
	}
	return nil
}

func readTokens(ctx context.Context, tx *sql.Tx, rec reconcile.Recorded) (map[string]int64, error) {
	tokens := make(map[string]int64, len(rec.Claims))
	if len(rec.Claims) == 0 {
		return tokens, nil
	}
	rows, err := tx.QueryContext(ctx, `SELECT c.issue_id, coalesce(t.total, 0)
		FROM claims c LEFT JOIN issue_totals t USING (issue_id)`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var total int64
		if err := rows.Scan(&id, &total); err != nil {
			return nil, err
		}
		tokens[id] = total
	}
	for _, run := range rec.Runs {
		if _, claimed := tokens[run.IssueID]; claimed {
			tokens[run.IssueID] += run.Tokens.Total
		}
	}
	return tokens, rows.Err()
}

// Commit implements reconcile.Store. The run that is settled comes before the claim that draws the consequence
// and the run that follows it, so that one change may end one run of an issue and begin the next.
func (db *DB) Commit(ctx context.Context, now time.Time, c reconcile.Change) error {
	if c.Delete && c.Claim == nil {
		return errors.New("commit: a deletion without the claim to delete")
	}
	if c.Claim == nil && c.Insert == nil && c.Settle == "" && len(c.Commands) == 0 && c.AgentBlock == nil &&
		c.TrackerBlock == nil && c.HostBlock == nil && c.Paused == nil {
		return nil
	}
	crash.At("state.commit.before")
	err := db.update(ctx, "store the change"+subject(c), full, func(tx *sql.Tx) error {
		return commit(ctx, tx, now, c)
	})
	crash.At("state.commit.after")
	return err
}

// subject names the issue or run that a change is about, for its errors.
func subject(c reconcile.Change) string {
	switch {
	case c.Claim != nil:
		return " of " + c.Claim.Identifier
	case c.Insert != nil:
		return " of " + c.Insert.Identifier
	case c.Settle != "":
		return " of run " + c.Settle
	}
	return ""
}

func commit(ctx context.Context, tx *sql.Tx, now time.Time, c reconcile.Change) error {
	if c.Settle != "" {
		if err := settle(ctx, tx, c.Settle); err != nil {
			return err
		}
	}
	if c.Claim != nil {
		if err := noteHold(ctx, tx, now, c); err != nil {
			return err
		}
		if err := changeClaim(ctx, tx, now, c); err != nil {
			return err
		}
	}
	crash.At("state.commit.half")
	if c.Insert != nil {
		if err := insertRun(ctx, tx, now, *c.Insert); err != nil {
			return err
		}
	}
	if err := consume(ctx, tx, c.Commands); err != nil {
		return err
	}
	if err := saveBlock(ctx, tx, metaAgentBlock, c.AgentBlock); err != nil {
		return err
	}
	if err := saveBlock(ctx, tx, metaTrackerBlock, c.TrackerBlock); err != nil {
		return err
	}
	if err := saveBlock(ctx, tx, metaHostBlock, c.HostBlock); err != nil {
		return err
	}
	if err := noteOutages(ctx, tx, now, c); err != nil {
		return err
	}
	if err := noteBlocks(ctx, tx, now, c.AgentBlock, c.HostBlock); err != nil {
		return err
	}
	if c.Paused == nil {
		return nil
	}
	if *c.Paused {
		return setMeta(ctx, tx, metaPaused, "1")
	}
	return clearMeta(ctx, tx, metaPaused)
}

func changeClaim(ctx context.Context, tx *sql.Tx, now time.Time, c reconcile.Change) error {
	if c.Delete {
		if err := noteRelease(ctx, tx, now, c); err != nil {
			return err
		}
		return deleteClaim(ctx, tx, *c.Claim)
	}
	return saveClaim(ctx, tx, now, *c.Claim)
}

// saveBlock stores a block; nil leaves it, one without a code clears it.
func saveBlock(ctx context.Context, tx *sql.Tx, key string, b *reconcile.Block) error {
	switch {
	case b == nil:
		return nil
	case b.Code == "":
		return clearMeta(ctx, tx, key)
	}
	text, err := toJSON(b)
	if err != nil {
		return err
	}
	return setMeta(ctx, tx, key, text)
}

// SaveSweep implements reconcile.Store.
func (db *DB) SaveSweep(ctx context.Context, now time.Time) error {
	crash.At("state.save_sweep.before")
	err := db.update(ctx, "remember the sweep", full, func(tx *sql.Tx) error {
		return setMeta(ctx, tx, metaSweep, strconv.FormatInt(now.UnixMilli(), 10))
	})
	crash.At("state.save_sweep.after")
	return err
}
