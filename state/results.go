package state

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// The outcomes of results. A merged result is handed over, too.
const (
	ResultHandedOver  = "handed_over"
	ResultMerged      = "merged"
	ResultNeedsHelp   = "needs_help" // its agent needs a person
	ResultHeld        = "held"
	ResultUndelivered = "undelivered"
	ResultReleased    = "released" // for another reason than a handover
)

// ResultOutcomes are the outcomes of results in the order in which views name them.
var ResultOutcomes = []string{
	ResultHandedOver,
	ResultMerged,
	ResultNeedsHelp,
	ResultHeld,
	ResultUndelivered,
	ResultReleased,
}

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
	var c likes
	c.add(found, s.Texts)
	for _, word := range s.Words {
		c.add(found, []string{word})
	}
	c.add(labels, text.Map(s.Labels, func(label string) string {
		return jsonString(strings.ToLower(label)) // as adapters store labels; LIKE folds only ASCII
	}))
	return c.sql, c.args
}

// likes are conditions in SQL that all have to hold.
type likes struct {
	sql  string
	args []any
}

// likeEscaper escapes the characters that a pattern of LIKE does not take literally.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// add adds the condition that a column contains any of some texts, unless there is none.
func (l *likes) add(column string, texts []string) {
	if len(texts) == 0 {
		return
	}
	like := column + ` LIKE ? ESCAPE '\'`
	l.sql += ` AND (` + like + strings.Repeat(` OR `+like, len(texts)-1) + `)`
	for _, one := range texts {
		l.args = append(l.args, "%"+likeEscaper.Replace(one)+"%")
	}
}

// jsonString returns a label as the column of labels stores it: as a string of JSON.
func jsonString(label string) string {
	encoded, _ := json.Marshal(label) // a string is valid JSON
	return string(encoded)
}

// ResultFilter chooses results.
type ResultFilter struct {
	Search
	Since, Until time.Time // Until is not part of it; zero for no limit
	Outcomes     []string
	// From is the number of the first result to read, and Limit how many are read at most.
	From, Limit int
}

// Result is the result of the work on an issue: a release, or a claim that is held or whose
// commits could not be pushed.
type Result struct {
	Outcome string `json:"outcome"`
	Release
	// why the issue is held or not delivered; the words of an agent that needs a person
	Message string `json:"message"`
	// PullRequest belongs to the issue's branch, as it was read last; null if none is known.
	PullRequest *PullRequest `json:"pull_request"`
}

// FoundResults are some of the results that match a filter, the latest first.
type FoundResults struct {
	List   []Result
	Total  int            // how many match
	Counts map[string]int // how many of each outcome there are without Outcomes of the filter
	Uses   []ResultUse    // of all that match
}

// ResultUse is what the work on a result used, for sums of many.
type ResultUse struct {
	IssueID string
	At      time.Time
	Agent   reconcile.Agent // of its last run; empty if that run was pruned
	Runtime time.Duration
	Models  []reconcile.ModelUse
}

// resultsQuery finds the results without reading them, each with the agent of the last run that
// began before it. Only the last release of an issue is merged: before it, the pull request brought
// the issue back.
const resultsQuery = `SELECT result.id, result.issue_id, at, result.outcome, result.runtime_ms, result.usage,
	coalesce(last.agent, ''), coalesce(last.agent_home, '') FROM (
	SELECT id, r.issue_id, r.identifier, released_at AS at,
		CASE WHEN NOT ` + handedOver + ` THEN 'released'
		WHEN 'merged' IN (coalesce(watch ->> '$.pull.state', ''), coalesce(request ->> '$.state', ''))
			AND NOT EXISTS (SELECT 1 FROM releases AS later WHERE later.issue_id = r.issue_id AND later.id > r.id)
			THEN 'merged'
		ELSE 'handed_over' END AS outcome,
		r.identifier || char(10) || title || char(10) || words AS found, labels, runtime_ms, usage
	FROM releases AS r LEFT JOIN watches USING (issue_id) LEFT JOIN pull_requests USING (issue_id)
	UNION ALL
	SELECT 0, c.issue_id, c.identifier,
		coalesce(held_at, unixepoch(nullif(delivery, '') ->> '$.failed_at') * 1000, updated_at),
		CASE WHEN status <> 'held' THEN 'undelivered'
			WHEN hold_reason = '` + reconcile.HoldNeedsHelp + `' THEN 'needs_help' ELSE 'held' END,
		c.identifier || char(10) || (issue ->> '$.title') || char(10) ||
			hold_reason || ': ' || hold_message || char(10) || error_code || ': ' || error_message || char(10) ||
			coalesce(nullif(delivery, '') ->> '$.message', '') || char(10) ||
			coalesce((SELECT words FROM runs WHERE runs.issue_id = c.issue_id AND kind = 'agent'
				ORDER BY id DESC LIMIT 1), ''),
		coalesce(issue ->> '$.labels', '[]'), 0, '[]'
	FROM claims AS c
	WHERE status = 'held' OR status <> 'running' AND coalesce(nullif(delivery, '') ->> '$.code', '') <> '') AS result
	LEFT JOIN runs AS last ON last.id = (SELECT id FROM runs WHERE runs.issue_id = result.issue_id
		AND kind = 'agent' AND started_at <= result.at ORDER BY id DESC LIMIT 1)
	WHERE at >= ? AND at < ?`

// foundResult is a result found by resultsQuery.
type foundResult struct {
	release int64 // its id; 0 for a claim
	outcome string
	use     ResultUse // of a claim without what its runs used
}

func foundResultFields(r *foundResult) []any {
	return []any{
		&r.release, &r.use.IssueID, stampOf(&r.use.At), &r.outcome,
		millisOf(&r.use.Runtime), jsonOf(&r.use.Models), &r.use.Agent.Kind, &r.use.Agent.Home,
	}
}

// FindResults returns the results that match.
func (v Views) FindResults(ctx context.Context, f ResultFilter) (FoundResults, error) {
	var found FoundResults
	err := v.view(ctx, "find the results", func(t tx) error { return found.read(t, f) })
	return found, err
}

// ResultLabels returns the labels of all results and claims, in the order of the alphabet.
func (v Views) ResultLabels(ctx context.Context) ([]string, error) {
	return readAll(ctx, v.conn, "read the labels", itself[string],
		`SELECT DISTINCT value FROM (
			SELECT labels FROM releases UNION ALL SELECT coalesce(issue ->> '$.labels', '[]') FROM claims
		), json_each(labels) ORDER BY value`)
}

// endOfTime is later than any time in the database.
const endOfTime = int64(1) << 62

func (found *FoundResults) read(t tx, f ResultFilter) error {
	until := endOfTime
	if !f.Until.IsZero() {
		until = f.Until.UnixMilli()
	}
	condition, args := f.condition("result.found", "result.labels")
	all, err := rows(t, foundResultFields, resultsQuery+condition+` ORDER BY at DESC, result.identifier, result.id DESC`,
		append([]any{f.Since.UnixMilli(), until}, args...)...)
	if err != nil {
		return err
	}
	found.Counts = map[string]int{}
	for _, r := range all {
		found.Counts[r.outcome]++
		if r.outcome == ResultMerged {
			found.Counts[ResultHandedOver]++
		}
	}
	wanted := text.Filter(all, func(r foundResult) bool { return f.wants(r.outcome) })
	found.Total = len(wanted)
	for _, one := range wanted {
		if one.release == 0 {
			r, err := one.read(t)
			if err != nil {
				return err
			}
			one.use.Runtime = r.Runtime
			one.use.Models = r.Models
		}
		found.Uses = append(found.Uses, one.use)
	}
	wanted = wanted[min(f.From, len(wanted)):]
	for _, one := range wanted[:min(f.Limit, len(wanted))] {
		r, err := one.read(t)
		if err != nil {
			return err
		}
		found.List = append(found.List, r)
	}
	return nil
}

// wants reports whether the filter names an outcome, or none at all. A merged result is handed
// over, too.
func (f ResultFilter) wants(outcome string) bool {
	if len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, outcome) {
		return true
	}
	return outcome == ResultMerged && slices.Contains(f.Outcomes, ResultHandedOver)
}

// read reads the result.
func (found foundResult) read(t tx) (Result, error) {
	r := Result{Outcome: found.outcome}
	var err error
	if found.release > 0 {
		r.Release, err = row(t, releaseFields, `SELECT `+releaseColumns+` FROM releases WHERE id = ?`, found.release)
	} else {
		err = r.readClaim(t, found.use.IssueID, found.use.At)
	}
	if err != nil {
		return r, err
	}
	r.PullRequest, err = pullRequestOf(t, found.use.IssueID)
	return r, err
}

// readClaim reads the result of a claim that is held, or whose commits are not pushed, since a
// time.
func (r *Result) readClaim(t tx, issueID string, at time.Time) error {
	c, err := row(t, claimFields, `SELECT `+claimColumns+` FROM claims WHERE issue_id = ?`, issueID)
	if err != nil {
		return err
	}
	reason := c.HoldReason
	r.Message = c.HoldMessage
	if c.Status != reconcile.Held { // its commits are not pushed
		reason = c.Delivery.Code
		r.Message = c.Delivery.Message
	}
	r.Release, err = releaseOf(t, at, c, reconcile.Release{Reason: reason})
	return err
}

// pullRequestOf returns the pull request of an issue, which symphony watches or the tracker
// described; nil if there is none.
func pullRequestOf(t tx, issueID string) (*PullRequest, error) {
	watches, err := rows(t, func(w *reconcile.Watch) []any { return []any{jsonOf(w)} },
		`SELECT watch FROM watches WHERE issue_id = ?`, issueID)
	if err != nil {
		return nil, err
	}
	if len(watches) > 0 && watches[0].Pull.State != "" {
		return &PullRequest{IssueID: issueID, PullRequest: *watches[0].Summary()}, nil
	}
	described, err := rows(t, pullRequestFields,
		`SELECT `+pullRequestColumns+` FROM pull_requests WHERE issue_id = ?`, issueID)
	if err != nil || len(described) == 0 {
		return nil, err
	}
	return &described[0], nil
}
