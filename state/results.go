package state

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// The outcomes of results. A merged result is handed over, too.
const (
	ResultHandedOver  = "handed_over"
	ResultMerged      = "merged"
	ResultHeld        = "held"
	ResultUndelivered = "undelivered"
	ResultReleased    = "released" // for another reason than a handover
)

// ResultOutcomes are the outcomes of results in the order in which views name them.
var ResultOutcomes = []string{ResultHandedOver, ResultMerged, ResultHeld, ResultUndelivered, ResultReleased}

// Search finds recorded runs and results. The values of a list are alternatives; an empty list
// matches all.
type Search struct {
	Texts  []string // parts of the identifier, the title, the last words or the error
	Words  []string // parts as well, of which all have to be found
	Labels []string // without regard to case
}

// condition is the search as SQL over two columns, with its arguments. It begins with AND
// unless it is empty.
func (s Search) condition(found, labels string) (sql string, args []any) {
	escaped := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
	add := func(column string, patterns []string) {
		if len(patterns) == 0 {
			return
		}
		like := column + ` LIKE ? ESCAPE '\'`
		sql += ` AND (` + like + strings.Repeat(` OR `+like, len(patterns)-1) + `)`
		for _, p := range patterns {
			args = append(args, "%"+escaped.Replace(p)+"%")
		}
	}
	add(found, s.Texts)
	for _, word := range s.Words {
		add(found, []string{word})
	}
	quoted := make([]string, len(s.Labels))
	for i, label := range s.Labels {
		text, _ := jsonOf(label).Value() // a string is valid JSON
		quoted[i] = text.(string)
	}
	add(labels, quoted)
	return sql, args
}

// ResultFilter chooses results.
type ResultFilter struct {
	Search
	Since, Until time.Time // Until is not part of it; zero for no limit
	Outcomes     []string
	// From is the number of the first result to read, and Limit how many are read at most.
	From, Limit int
}

// Result is what the work on an issue came to: a release, or a claim that is held or whose
// commits could not be pushed.
type Result struct {
	Outcome string `json:"outcome"`
	Release
	Message string `json:"message"` // why the issue is held or not delivered
	// PullRequest is that of the issue's branch as it was read last; null if none is known.
	PullRequest *PullRequest `json:"pull_request"`
}

// FoundResults are some of the results that match a filter, the latest first.
type FoundResults struct {
	List   []Result
	Total  int            // how many match
	Counts map[string]int // how many of each outcome there are without Outcomes of the filter
}

// resultsQuery finds the results without reading them. Only the last release of an issue is
// merged: before it, the pull request has brought the issue back.
const resultsQuery = `SELECT id, issue_id, at, outcome FROM (
	SELECT id, r.issue_id, released_at AS at, CASE WHEN NOT ` + handedOver + ` THEN 'released'
		WHEN 'merged' IN (coalesce(watch ->> '$.pull.state', ''), coalesce(request ->> '$.state', ''))
			AND NOT EXISTS (SELECT 1 FROM releases AS later WHERE later.issue_id = r.issue_id AND later.id > r.id) THEN 'merged'
		ELSE 'handed_over' END AS outcome,
		r.identifier || char(10) || title || char(10) || words AS found, labels
	FROM releases AS r LEFT JOIN watches USING (issue_id) LEFT JOIN pull_requests USING (issue_id)
	UNION ALL
	SELECT 0, c.issue_id, coalesce(held_at, unixepoch(nullif(delivery, '') ->> '$.failed_at') * 1000, updated_at),
		iif(status = 'held', 'held', 'undelivered'),
		c.identifier || char(10) || (issue ->> '$.title') || char(10) || hold_reason || ': ' || hold_message || char(10) || error_code || ': '
			|| error_message || char(10) || coalesce(nullif(delivery, '') ->> '$.message', '') || char(10) ||
			coalesce((SELECT words FROM runs WHERE runs.issue_id = c.issue_id AND kind = 'agent'
				ORDER BY id DESC LIMIT 1), ''),
		coalesce(issue ->> '$.labels', '[]')
	FROM claims AS c WHERE status = 'held' OR status <> 'running' AND coalesce(nullif(delivery, '') ->> '$.code', '') <> '')
	WHERE at >= ? AND at < ?`

// FindResults returns the results that match.
func (v Views) FindResults(ctx context.Context, f ResultFilter) (found FoundResults, err error) {
	type key struct {
		id      int64 // of the release; 0 for a claim
		issueID string
		at      int64
		outcome string
	}
	until := stamp(f.Until)
	if until == nil {
		until = int64(1) << 62
	}
	condition, args := f.condition("found", "labels")
	args = append([]any{f.Since.UnixMilli(), until}, args...)
	err = v.view(ctx, "find the results", func(t tx) error {
		keys, err := rows(t, func(k *key) []any { return []any{&k.id, &k.issueID, &k.at, &k.outcome} },
			resultsQuery+condition+` ORDER BY at DESC, id DESC, issue_id`, args...)
		found.Counts = map[string]int{}
		for _, k := range keys {
			if found.Counts[k.outcome]++; k.outcome == ResultMerged {
				found.Counts[ResultHandedOver]++
			}
		}
		if len(f.Outcomes) > 0 {
			keys = slices.DeleteFunc(keys, func(k key) bool {
				return !slices.Contains(f.Outcomes, k.outcome) &&
					(k.outcome != ResultMerged || !slices.Contains(f.Outcomes, ResultHandedOver))
			})
		}
		found.Total = len(keys)
		keys = keys[min(f.From, len(keys)):]
		for _, k := range keys[:min(f.Limit, len(keys))] {
			r := Result{Outcome: k.outcome}
			if k.id > 0 {
				r.Release, err = row(
					t,
					releaseFields,
					`SELECT `+releaseColumns+` FROM releases WHERE id = ?`,
					k.id,
				)
			} else if err == nil {
				err = r.readClaim(t, k.issueID, time.UnixMilli(k.at).UTC())
			}
			if err == nil {
				r.PullRequest, err = pullRequestOf(t, k.issueID)
			}
			if err != nil {
				return err
			}
			found.List = append(found.List, r)
		}
		return err
	})
	return found, err
}

// readClaim reads the result of a claim that is held, or whose commits are not pushed, since a
// time.
func (r *Result) readClaim(t tx, issueID string, at time.Time) error {
	c, err := row(t, claimFields, `SELECT `+claimColumns+` FROM claims WHERE issue_id = ?`, issueID)
	if err != nil {
		return err
	}
	r.Release, err = releaseOf(t, at, c, reconcile.Release{Reason: c.HoldReason})
	if r.Message = c.HoldMessage; c.Status != reconcile.Held {
		r.Reason = c.Delivery.Code
		r.Message = c.Delivery.Message
	}
	return err
}

// pullRequestOf returns the pull request of an issue, which symphony watches or the tracker
// has described; nil if there is none.
func pullRequestOf(t tx, issueID string) (*PullRequest, error) {
	watches, err := rows(t, func(w *reconcile.Watch) []any { return []any{jsonOf(w)} },
		`SELECT watch FROM watches WHERE issue_id = ?`, issueID)
	if err == nil && len(watches) > 0 && watches[0].Pull.State != "" {
		return &PullRequest{IssueID: issueID, PullRequest: *watches[0].Pull.Summary()}, nil
	}
	described, err := rows(
		t,
		pullRequestFields,
		`SELECT `+pullRequestColumns+` FROM pull_requests WHERE issue_id = ?`,
		issueID,
	)
	if err != nil || len(described) == 0 {
		return nil, err
	}
	return &described[0], nil
}
