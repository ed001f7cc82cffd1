package state

import (
	"context"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// endedColumns are what is shown of a run that is over: not the issue as it was, which is most of a row.
const endedColumns = `id, kind, issue_id, identifier, outcome, error_code, error_text, turns, tokens_input, tokens_cached,
	tokens_output, tokens_reasoning, tokens_total, started_at, ended_at`

func scanEnded(row scanner) (reconcile.Run, error) {
	r := reconcile.Run{Settled: true}
	err := row.Scan(&r.ID, &r.Kind, &r.IssueID, &r.Identifier, &r.Outcome, &r.ErrorCode, &r.ErrorText, &r.Turns,
		&r.Tokens.Input, &r.Tokens.Cached, &r.Tokens.Output, &r.Tokens.Reasoning, &r.Tokens.Total,
		stampOf{&r.StartedAt}, stampOf{&r.EndedAt})
	return r, err
}

// EndedRuns returns the newest settled runs, the newest first, at most limit of them: of all issues, or of those that are
// named by id. Of a run it tells what endedColumns says.
func (db *DB) EndedRuns(ctx context.Context, issueIDs []string, limit int) ([]reconcile.Run, error) {
	where, args := "", []any{}
	if len(issueIDs) > 0 {
		where = ` AND issue_id IN (?` + strings.Repeat(`, ?`, len(issueIDs)-1) + `)`
		for _, id := range issueIDs {
			args = append(args, id)
		}
	}
	rows, err := db.sql.QueryContext(ctx, `SELECT `+endedColumns+` FROM runs WHERE settled = 1`+where+` ORDER BY id DESC LIMIT ?`,
		append(args, limit)...)
	runs, err := collect(rows, err, scanEnded)
	return runs, fault(db.dir, "read the last runs", err)
}
