package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/symphony-cron/symphony/reconcile/crash"
)

// Pass is the record of one reconciliation.
type Pass struct {
	ID int64
	// Trigger is what started it: cron, timer, loop, manual, command or worker.
	Trigger   string
	StartedAt time.Time
	Duration  time.Duration // stored to the millisecond
	Actions   int           // how many were done
	Skipped   int           // how many candidates got none
	Errors    []PassError
	// BootID and Mono, CLOCK_MONOTONIC at the start, tell the age of a pass where the wall clock can't.
	BootID string
	Mono   time.Duration
}

// PassError is an error that a pass reported.
type PassError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

const passColumns = `id, "trigger", started_at, duration_ms, actions, skipped, errors, boot_id, mono_ns`

func scanPass(row scanner) (Pass, error) {
	var p Pass
	var ms, mono int64
	err := row.Scan(&p.ID, &p.Trigger, stampOf{&p.StartedAt}, &ms, &p.Actions, &p.Skipped, jsonOf{&p.Errors},
		&p.BootID, &mono)
	p.Duration, p.Mono = time.Duration(ms)*time.Millisecond, time.Duration(mono)
	return p, err
}

// SavePass records a pass and returns its id; the one in p is ignored.
func (db *DB) SavePass(ctx context.Context, p Pass) (int64, error) {
	faults, err := "[]", error(nil)
	if len(p.Errors) > 0 {
		faults, err = toJSON(p.Errors)
	}
	if err != nil {
		return 0, err
	}
	// A power failure may take the record of a pass that had nothing to do: nothing follows from it. Waiting for the
	// disk would be a fifth of such a pass.
	level := full
	if p.Actions == 0 && len(p.Errors) == 0 {
		level = normal
	}
	var id int64
	crash.At("state.save_pass.before")
	err = db.update(ctx, "record the pass", level, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO passes ("trigger", started_at, duration_ms, actions, skipped,
			errors, boot_id, mono_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, p.Trigger, stamp(p.StartedAt),
			p.Duration.Milliseconds(), p.Actions, p.Skipped, faults, p.BootID, int64(p.Mono))
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	crash.At("state.save_pass.after")
	return id, err
}

// LastPass returns the newest pass; false where there was none.
func (db *DB) LastPass(ctx context.Context) (Pass, bool, error) {
	p, err := scanPass(db.sql.QueryRowContext(ctx, `SELECT `+passColumns+` FROM passes ORDER BY id DESC LIMIT 1`))
	if errors.Is(err, sql.ErrNoRows) {
		return Pass{}, false, nil
	}
	if err != nil {
		return Pass{}, false, fault(db.dir, "read the last pass", err)
	}
	return p, true, nil
}

// RecentPasses returns the newest passes, the newest first, at most n of them.
func (db *DB) RecentPasses(ctx context.Context, n int) ([]Pass, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT `+passColumns+` FROM passes ORDER BY id DESC LIMIT ?`, n)
	passes, err := collect(rows, err, scanPass)
	return passes, fault(db.dir, "read the passes", err)
}

// scheduledKept is how many passes of a schedule tell its rhythm: five gaps lie between six.
const scheduledKept = 6

// ScheduleGaps returns the last six passes that a schedule started (cron, timer, loop), the newest first: the
// gaps between them say whether the schedule is alive (design 4).
func (db *DB) ScheduleGaps(ctx context.Context) ([]Pass, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT `+passColumns+` FROM passes
		WHERE "trigger" IN ('cron', 'timer', 'loop') ORDER BY id DESC LIMIT ?`, scheduledKept)
	passes, err := collect(rows, err, scanPass)
	return passes, fault(db.dir, "read the schedule's passes", err)
}
