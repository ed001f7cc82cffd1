package state

import "context"

// IssueTokens is what an issue has used since its counters were last cleared: what agent.max_tokens bounds. The runs
// that are not settled count with what they have used so far.
func (db *DB) IssueTokens(ctx context.Context, issueID string) (int64, error) {
	var used int64
	err := db.sql.QueryRowContext(ctx, `SELECT
		coalesce((SELECT total FROM issue_totals WHERE issue_id = ?1), 0)
		+ coalesce((SELECT sum(tokens_total) FROM runs WHERE issue_id = ?1 AND settled = 0), 0)
		- coalesce((SELECT token_base FROM claims WHERE issue_id = ?1), 0)`, issueID).Scan(&used)
	return used, fault(db.dir, "read the tokens of the issue", err)
}
