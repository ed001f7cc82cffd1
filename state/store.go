package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Store is what a pass writes, under the project lock. It implements reconcile.Store.
type Store struct{ *conn }

var _ reconcile.Store = Store{}

// State implements reconcile.Store. The tokens of an issue are those of its settled and of its unsettled runs.
func (s Store) State(ctx context.Context) (rec reconcile.State, err error) {
	err = s.view(ctx, "read the state", func(t tx) (err error) {
		if rec.Claims, err = readClaims(t); err != nil {
			return err
		}
		return readRecords(t, s.dir, &rec)
	})
	return rec, err
}

// readRecords reads what a plan needs beside the claims.
func readRecords(t tx, dir string, rec *reconcile.State) (err error) {
	if err := readStateMeta(t, dir, rec); err != nil {
		return err
	}
	if rec.Runs, err = readUnsettled(t); err != nil {
		return err
	}
	if rec.Commands, err = readCommands(t); err != nil {
		return err
	}
	rec.Tokens, err = readTokens(t, *rec)
	return err
}

func readStateMeta(t tx, dir string, rec *reconcile.State) error {
	rows, err := t.query(`SELECT key, value FROM meta WHERE key IN (?, ?, ?, ?, ?, ?, ?)`, metaSchema, metaOldestWriter, metaPaused,
		metaAgentBlock, metaTrackerBlock, metaHostBlock, metaSweep)
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

func readTokens(t tx, rec reconcile.State) (map[string]int64, error) {
	tokens := make(map[string]int64, len(rec.Claims))
	rows, err := t.query(`SELECT c.issue_id, coalesce(t.total, 0) FROM claims c LEFT JOIN issue_totals t USING (issue_id)`)
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

// Commit implements reconcile.Store. Within a change the settled run comes before the claim, and the claim before the new
// run, so that one change may end one run of an issue and begin the next.
func (s Store) Commit(ctx context.Context, now time.Time, changes ...reconcile.Change) error {
	changes = slices.DeleteFunc(slices.Clone(changes), reconcile.Change.Empty)
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		if c.Delete && c.Claim == nil {
			return errors.New("commit: a deletion without the claim to delete")
		}
	}
	return s.update(ctx, "store the change"+subject(changes), full, func(t tx) error {
		for _, c := range changes {
			if err := commit(t, now, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// subject names the issue or run of a change for error messages.
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

func commit(t tx, now time.Time, c reconcile.Change) error {
	if c.Settle != "" {
		if err := settle(t, c.Settle); err != nil {
			return err
		}
	}
	if c.Claim != nil {
		if err := changeClaim(t, now, c); err != nil {
			return err
		}
	}
	if c.Insert != nil {
		if err := insertRun(t, now, *c.Insert); err != nil {
			return err
		}
	}
	for _, id := range c.Commands {
		// A command that is gone was consumed by an earlier change of the same pass.
		if err := t.run(`DELETE FROM commands WHERE id = ?`, id); err != nil {
			return err
		}
	}
	for key, block := range map[string]*reconcile.Block{
		metaAgentBlock: c.AgentBlock, metaTrackerBlock: c.TrackerBlock, metaHostBlock: c.HostBlock,
	} {
		if block == nil {
			continue
		}
		if err := saveBlock(t, now, key, *block); err != nil {
			return err
		}
	}
	switch {
	case c.Paused == nil:
		return nil
	case *c.Paused:
		return setMeta(t, metaPaused, "1")
	}
	return clearMeta(t, metaPaused)
}

func changeClaim(t tx, now time.Time, c reconcile.Change) error {
	if c.Delete {
		if err := noteRelease(t, now, c); err != nil {
			return err
		}
		return deleteClaim(t, *c.Claim)
	}
	if err := noteHold(t, now, *c.Claim); err != nil {
		return err
	}
	return saveClaim(t, now, *c.Claim)
}

// saveBlock stores or clears (no code) a block, together with the outage it begins or ends and the notification of it.
// That of the tracker comes later, if the block lasts: see OpenAttentions.
func saveBlock(t tx, now time.Time, key string, b reconcile.Block) error {
	if err := noteOutage(t, now, key, b); err != nil {
		return err
	}
	if b.Code == "" {
		return clearMeta(t, key)
	}
	text, err := toJSON(b)
	if err != nil {
		return err
	}
	if err := setMeta(t, key, text); err != nil || key == metaTrackerBlock {
		return err
	}
	return addAttention(t, now, reconcile.BlockAttention(b))
}

// SaveSweep implements reconcile.Store.
func (s Store) SaveSweep(ctx context.Context, now time.Time) error {
	return s.update(ctx, "remember the sweep", full, func(t tx) error {
		return setMeta(t, metaSweep, strconv.FormatInt(now.UnixMilli(), 10))
	})
}

// RequestStop implements reconcile.Store: the first reason stays, and a run with an outcome is left alone.
func (s Store) RequestStop(ctx context.Context, runID, reason string, at reconcile.Instant) error {
	return s.update(ctx, "ask run "+runID+" to stop", full, func(t tx) error {
		return t.run(`UPDATE runs SET stop_reason = ?, stop_mono = ?, stop_boot = ?
			WHERE id = ? AND outcome IS NULL AND stop_reason IS NULL`, nullText(reason), int64(at.Mono), at.Boot, runID)
	})
}

// ReapFailed implements reconcile.Store.
func (s Store) ReapFailed(ctx context.Context, runID string) error {
	return s.update(ctx, "count a try to end run "+runID, full, func(t tx) error {
		return t.run(`UPDATE runs SET reap_tries = reap_tries + 1 WHERE id = ? AND settled = 0`, runID)
	})
}

// EndDead implements reconcile.Store. The run's share of the runtime totals ends with its last sign of life, because its
// death may be found out days later.
func (s Store) EndDead(ctx context.Context, now time.Time, run reconcile.Run, outcome reconcile.Outcome, code, message string) error {
	if outcome == "" {
		return fmt.Errorf("end run %s: without an outcome", run.ID)
	}
	return s.update(ctx, "end run "+run.ID, full, func(t tx) error {
		found, err := t.changed(`UPDATE runs SET outcome = ?, error_code = ?, error_text = ?,
			ended_at = ?, runtime_ms = max(0, coalesce(heartbeat_at, started_at) - started_at)
			WHERE id = ? AND outcome IS NULL AND phase = ?`,
			string(outcome), code, message, stamp(now), run.ID, string(run.Phase))
		return runConflict(run.ID, found, err)
	})
}

// SaveSkips implements reconcile.Store. The first reason counts for an issue that is skipped twice. A reason that stays
// keeps its time, and skips that are stored already cost no write.
func (s Store) SaveSkips(ctx context.Context, now time.Time, skips []reconcile.Skip) error {
	var stored []StoredSkip
	err := s.view(ctx, "read the skips", func(t tx) (err error) {
		stored, err = readSkips(t)
		return err
	})
	if err != nil {
		return err
	}
	next, changed := mergeSkips(stored, skips, now)
	if !changed {
		return nil
	}
	return s.update(ctx, "save the skips", full, func(t tx) error {
		if err := t.run(`DELETE FROM skips`); err != nil {
			return err
		}
		insert, err := t.PrepareContext(t.ctx, `INSERT INTO skips (issue_id, identifier, reason, message, since) VALUES (?, ?, ?, ?, ?)`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for _, s := range next {
			if _, err := insert.ExecContext(t.ctx, s.IssueID, s.Identifier, s.Reason, s.Message, stamp(s.Since)); err != nil {
				return err
			}
		}
		return nil
	})
}

func mergeSkips(stored []StoredSkip, skips []reconcile.Skip, now time.Time) (next []StoredSkip, changed bool) {
	old := make(map[string]StoredSkip, len(stored))
	for _, s := range stored {
		old[s.IssueID] = s
	}
	seen := make(map[string]bool, len(skips))
	for _, s := range skips {
		if seen[s.IssueID] {
			continue
		}
		seen[s.IssueID] = true
		merged := StoredSkip{Skip: s, Since: now}
		was, known := old[s.IssueID]
		if known && was.Reason == s.Reason {
			merged.Since = was.Since
		}
		changed = changed || !known || was.Skip != s
		next = append(next, merged)
	}
	return next, changed || len(next) != len(stored)
}

// SavePass records a pass and returns its id; the one in p is ignored. A power failure may take the record of a pass that
// did nothing: nothing follows from it.
func (s Store) SavePass(ctx context.Context, p Pass) (id int64, err error) {
	faults := "[]"
	if len(p.Errors) > 0 {
		if faults, err = toJSON(p.Errors); err != nil {
			return 0, err
		}
	}
	level := full
	if p.Actions == 0 && len(p.Errors) == 0 {
		level = normal
	}
	err = s.update(ctx, "record the pass", level, func(t tx) error {
		return t.row(`INSERT INTO passes ("trigger", started_at, duration_ms, actions, skipped, errors, boot_id, mono_ns)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`, p.Trigger, stamp(p.StartedAt),
			p.Duration.Milliseconds(), p.Actions, p.Skipped, faults, p.BootID, int64(p.Mono)).Scan(&id)
	})
	return id, err
}
