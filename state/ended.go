package state

import (
	"context"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// EndedRun is an ended run with only the fields that lists and sums show: of the issue, which is
// most of a row, title, state, labels and URL.
type EndedRun struct {
	reconcile.Run
	// Runtime is how long the run counts in totals. For a run ended by a pass, it stops at the
	// last sign of life.
	Runtime time.Duration
	// Undelivered is set if the run's commits could not be pushed, and no later run pushed
	// them.
	Undelivered bool
}

// FoundRun is an ended run with the text in which Search looks.
type FoundRun struct {
	EndedRun
	Found string
}

const endedColumns = `id, kind, issue_id, identifier,
	issue ->> '$.url', coalesce(issue ->> '$.title', ''), coalesce(issue ->> '$.state', ''), labels,
	outcome, error_code, error_text, only_stopped, after_run_error, delivery, turns, started_at, ended_at, runtime_ms,
	model, tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total, tokens_paid,
	agent, agent_home,
	coalesce(nullif(delivery, '') ->> '$.code', '') <> '' AND NOT EXISTS (
		SELECT 1 FROM runs AS later WHERE later.issue_id = runs.issue_id AND later.id > runs.id
		AND nullif(later.delivery, '') ->> '$.done')`

func endedFields(r *EndedRun) []any {
	return []any{
		&r.ID, &r.Kind, &r.IssueID, &r.Identifier,
		&r.Issue.URL, &r.Issue.Title, &r.Issue.State, jsonOf(&r.Issue.Labels),
		&r.Outcome, &r.ErrorCode, &r.ErrorText, &r.OnlyStopped, &r.AfterRunError, jsonOf(&r.Delivery), &r.Turns,
		stampOf(&r.StartedAt), stampOf(&r.EndedAt), millisOf(&r.Runtime),
		&r.Model, &r.Tokens.Input, &r.Tokens.Cached, &r.Tokens.Output, &r.Tokens.Reasoning, &r.Tokens.Total,
		&r.Tokens.Paid, &r.Agent.Kind, &r.Agent.Home,
		&r.Undelivered,
	}
}

func foundFields(r *FoundRun) []any { return append(endedFields(&r.EndedRun), &r.Found) }

// Ended returns the newest settled runs that match, at most limit of them, of the issues with
// these ids, or of all issues if there are no ids.
func (r Runs) Ended(ctx context.Context, issueIDs []string, search Search, limit int) ([]FoundRun, error) {
	condition, args := search.condition("found", "labels")
	args = slices.Concat([]any{jsonOf(append([]string{}, issueIDs...))}, args, []any{limit})
	// The inner SELECT reads an index alone.
	return readAll(ctx, r.conn, "read the last runs", foundFields, `SELECT `+endedColumns+`, found FROM runs WHERE id IN (
		SELECT id FROM runs WHERE settled = 1
		AND (json_array_length(?1) = 0 OR issue_id IN (SELECT value FROM json_each(?1)))`+condition+`
		ORDER BY id DESC LIMIT ?) ORDER BY id DESC`, args...)
}
