package state

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

const claimColumns = `issue_id, identifier, status, version, run_id, attempt, kind, due_at, error_code,
	error_message, hold_reason, hold_message, held_at, hold_comment_at, hold_next, failures, idle_runs, runs,
	interruptions, token_base, issue, project, workspace_root, claimed_at, updated_at`

func scanClaim(row scanner) (reconcile.Claim, error) {
	var c reconcile.Claim
	err := row.Scan(&c.IssueID, &c.Identifier, &c.Status, &c.Version, &c.RunID, &c.Attempt, &c.Kind,
		stampOf{&c.DueAt}, &c.ErrorCode, &c.ErrorMessage, &c.HoldReason, &c.HoldMessage, stampOf{&c.HeldAt},
		stampOf{&c.HoldCommentAt}, &c.HoldNext, &c.Failures, &c.IdleRuns, &c.Runs, &c.Interruptions,
		&c.TokenBase, jsonOf{&c.Issue}, &c.Project, &c.WorkspaceRoot, stampOf{&c.ClaimedAt}, stampOf{&c.UpdatedAt})
	return c, err
}

func readClaims(t tx) ([]reconcile.Claim, error) {
	rows, err := t.query(`SELECT ` + claimColumns + ` FROM claims ORDER BY issue_id`)
	return collect(rows, err, scanClaim)
}

// saveClaim inserts a claim of version 0, and otherwise replaces the version that the pass has read by the next one.
func saveClaim(t tx, now time.Time, c reconcile.Claim) error {
	issue, err := toJSON(c.Issue)
	if err != nil {
		return err
	}
	if c.ClaimedAt.IsZero() {
		c.ClaimedAt = now
	}
	if c.Version == 0 {
		// A new claim counts the tokens that its issue uses from here on, so moving the issue to another state and back
		// ends a hold by agent.max_tokens.
		used, err := readIssueTokens(t, c.IssueID)
		if err != nil {
			return err
		}
		c.TokenBase = max(c.TokenBase, used)
	}
	values := []any{
		c.Identifier, string(c.Status), c.RunID, c.Attempt, string(c.Kind), stamp(c.DueAt),
		c.ErrorCode, c.ErrorMessage, c.HoldReason, c.HoldMessage, stamp(c.HeldAt), stamp(c.HoldCommentAt),
		c.HoldNext, c.Failures, c.IdleRuns, c.Runs, c.Interruptions, c.TokenBase, issue, c.Project, c.WorkspaceRoot,
		stamp(c.ClaimedAt), stamp(now), c.IssueID,
	}
	if c.Version == 0 {
		found, err := t.changed(`INSERT INTO claims (identifier, status, run_id, attempt, kind,
			due_at, error_code, error_message, hold_reason, hold_message, held_at, hold_comment_at, hold_next,
			failures, idle_runs, runs, interruptions, token_base, issue, project, workspace_root, claimed_at,
			updated_at, issue_id, version)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
			ON CONFLICT (issue_id) DO NOTHING`, values...)
		return claimConflict(c, found, err)
	}
	found, err := t.changed(`UPDATE claims SET identifier = ?, status = ?, run_id = ?,
		attempt = ?, kind = ?, due_at = ?, error_code = ?, error_message = ?, hold_reason = ?, hold_message = ?,
		held_at = ?, hold_comment_at = ?, hold_next = ?, failures = ?, idle_runs = ?, runs = ?,
		interruptions = ?, token_base = ?, issue = ?, project = ?, workspace_root = ?, claimed_at = ?, updated_at = ?,
		version = version + 1 WHERE issue_id = ? AND version = ?`, append(values, c.Version)...)
	return claimConflict(c, found, err)
}

func readIssueTokens(t tx, issueID string) (total int64, err error) {
	err = t.row(`SELECT total FROM issue_totals WHERE issue_id = ?`, issueID).Scan(&total)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return total, err
}

func deleteClaim(t tx, c reconcile.Claim) error {
	found, err := t.changed(`DELETE FROM claims WHERE issue_id = ? AND version = ?`, c.IssueID, c.Version)
	return claimConflict(c, found, err)
}

func claimConflict(c reconcile.Claim, found bool, err error) error {
	if err == nil && !found {
		return fmt.Errorf("claim of %s, version %d: %w", c.Identifier, c.Version, reconcile.ErrConflict)
	}
	return err
}
