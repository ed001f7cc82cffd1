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

func claimFields(c *reconcile.Claim) []any {
	return []any{
		&c.IssueID, &c.Identifier, &c.Status, &c.Version, &c.RunID, &c.Attempt, &c.Kind, stampOf(&c.DueAt), &c.ErrorCode,
		&c.ErrorMessage, &c.HoldReason, &c.HoldMessage, stampOf(&c.HeldAt), stampOf(&c.HoldCommentAt), &c.HoldNext, &c.Failures, &c.IdleRuns, &c.Runs,
		&c.Interruptions, &c.TokenBase, jsonOf(&c.Issue), &c.Project, &c.WorkspaceRoot, stampOf(&c.ClaimedAt), stampOf(&c.UpdatedAt),
	}
}

// saveClaim inserts a claim of version 0, and otherwise replaces the version that the pass has read by the next one.
func saveClaim(t tx, now time.Time, c reconcile.Claim) error {
	was := c.Version
	c.Version, c.UpdatedAt = was+1, now
	if c.ClaimedAt.IsZero() {
		c.ClaimedAt = now
	}
	if was > 0 {
		return t.must(claimVersion(c, was), `UPDATE claims SET (`+claimColumns+`) = (`+marks(claimColumns)+`)
			WHERE issue_id = ? AND version = ?`, append(claimFields(&c), c.IssueID, was)...)
	}
	// A new claim counts the tokens that its issue uses from here on, so moving the issue to another state and back ends a
	// hold by agent.max_tokens.
	used, err := row(t, itself[int64], `SELECT total FROM issue_totals WHERE issue_id = ?`, c.IssueID)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	c.TokenBase = max(c.TokenBase, used)
	return t.must(claimVersion(c, was), `INSERT INTO claims (`+claimColumns+`) VALUES (`+marks(claimColumns)+`)
		ON CONFLICT (issue_id) DO NOTHING`, claimFields(&c)...)
}

func deleteClaim(t tx, c reconcile.Claim) error {
	return t.must(claimVersion(c, c.Version), `DELETE FROM claims WHERE issue_id = ? AND version = ?`, c.IssueID, c.Version)
}

func claimVersion(c reconcile.Claim, version int64) string {
	return fmt.Sprintf("claim of %s, version %d", c.Identifier, version)
}
