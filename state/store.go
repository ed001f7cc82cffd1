package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

var _ reconcile.Store = (*DB)(nil)

// State implements reconcile.Store. Tokens of an issue are those of its settled runs and of the unsettled ones.
func (db *DB) State(ctx context.Context) (reconcile.State, error) {
	if rec, nothing, err := db.nothingRecorded(ctx); nothing || err != nil {
		return rec, err
	}
	var rec reconcile.State
	err := db.view(ctx, "read the state", func(tx *sql.Tx) (err error) {
		if err := db.recordMeta(ctx, tx, &rec); err != nil {
			return err
		}
		return db.readRecords(ctx, tx, &rec)
	})
	if err != nil {
		return reconcile.State{}, err
	}
	return rec, nil
}

// nothingRecorded is State of a pass that knows meta already and finds nothing else: what one statement says is one
// consistent view without a transaction.
func (db *DB) nothingRecorded(ctx context.Context) (rec reconcile.State, nothing bool, err error) {
	found := db.kept.all()
	if found == nil {
		return rec, false, nil
	}
	t, err := db.whatIsThere(ctx, db.sql)
	if err != nil || t.claims || t.runs || t.commands {
		return rec, false, fault(db.dir, "read the state", err)
	}
	err = applyFound(db.dir, found, &rec)
	rec.Claims, rec.Runs, rec.Commands, rec.Tokens = []reconcile.Claim{}, []reconcile.Run{}, []reconcile.Command{}, map[string]int64{}
	return rec, true, fault(db.dir, "read the state", err)
}

// thereIs says which tables have anything for a plan.
type thereIs struct{ claims, runs, commands bool }

// whatIsThere is asked first: most of the time most projects have nothing claimed, and preparing the long statements
// takes longer than finding that out.
func (db *DB) whatIsThere(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (t thereIs, err error) {
	var skips, attentions bool
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM claims), EXISTS (SELECT 1 FROM runs WHERE settled = 0),
		EXISTS (SELECT 1 FROM commands), EXISTS (SELECT 1 FROM skips),
		EXISTS (SELECT 1 FROM attentions WHERE done_at IS NULL)`).Scan(&t.claims, &t.runs, &t.commands, &skips, &attentions)
	if err == nil {
		db.kept.skips(skips)
		db.kept.attentions(attentions)
	}
	return t, err
}

func (db *DB) readRecords(ctx context.Context, tx *sql.Tx, rec *reconcile.State) error {
	t, err := db.whatIsThere(ctx, tx)
	if err != nil {
		return err
	}
	rec.Claims, rec.Runs, rec.Commands = []reconcile.Claim{}, []reconcile.Run{}, []reconcile.Command{}
	if t.claims {
		if rec.Claims, err = readClaims(ctx, tx); err != nil {
			return err
		}
	}
	if t.runs {
		if rec.Runs, err = readUnsettled(ctx, tx); err != nil {
			return err
		}
	}
	if t.commands {
		if rec.Commands, err = readCommands(ctx, tx); err != nil {
			return err
		}
	}
	rec.Tokens, err = readTokens(ctx, tx, *rec)
	return err
}

// recordMeta reads nothing where a pass has read it at opening: only passes write it.
func (db *DB) recordMeta(ctx context.Context, tx *sql.Tx, rec *reconcile.State) error {
	if found := db.kept.all(); found != nil {
		return applyFound(db.dir, found, rec)
	}
	return readMeta(ctx, tx, db.dir, rec)
}

func applyFound(dir string, found map[string]string, rec *reconcile.State) error {
	for _, key := range recordedMeta {
		if value, there := found[key]; there {
			if err := applyMeta(dir, key, value, rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordedMeta is what of meta is part of what is recorded.
var recordedMeta = [...]string{metaSchema, metaOldestWriter, metaPaused, metaAgentBlock, metaTrackerBlock, metaHostBlock, metaSweep}

func readMeta(ctx context.Context, tx *sql.Tx, dir string, rec *reconcile.State) error {
	keys := make([]any, len(recordedMeta))
	for i, key := range recordedMeta {
		keys[i] = key
	}
	rows, err := tx.QueryContext(ctx, `SELECT key, value FROM meta WHERE key IN (?, ?, ?, ?, ?, ?, ?)`, keys...)
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

func applyMeta(dir, key, value string, rec *reconcile.State) error {
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

func readTokens(ctx context.Context, tx *sql.Tx, rec reconcile.State) (map[string]int64, error) {
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
func (db *DB) Commit(ctx context.Context, now time.Time, changes ...reconcile.Change) error {
	changes = slices.DeleteFunc(slices.Clone(changes), reconcile.Change.Empty)
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		if c.Delete && c.Claim == nil {
			return errors.New("commit: a deletion without the claim to delete")
		}
	}
	crash.At("state.commit.before")
	err := db.update(ctx, "store the change"+subject(changes), full, func(tx *sql.Tx) error {
		for _, c := range changes {
			if err := commit(ctx, tx, now, c); err != nil {
				return err
			}
		}
		return nil
	})
	crash.At("state.commit.after")
	return err
}

// subject names the issue or run that a change is about, for its errors.
func subject(changes []reconcile.Change) string {
	switch c := changes[0]; {
	case len(changes) > 1:
		return fmt.Sprintf("s of %d claims", len(changes))
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
