package state

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ClaimCache keeps the claims that a process has read from each database. The zero value is
// empty. It is safe for concurrent use. by the directory: map[string]reconcile.Claim by the
// issue's id, never changed once stored
type ClaimCache struct{ of sync.Map }

// State returns what Store.State does, and reads only those claims that the cache does not
// have as they are. Without a cache it reads all. Readers share the slices and maps in claims,
// and must not change them.
func (v Views) State(ctx context.Context, cache *ClaimCache) (all reconcile.State, err error) {
	if cache == nil {
		return Store(v).State(ctx)
	}
	stored, _ := cache.of.Load(v.dir)
	before, _ := stored.(map[string]reconcile.Claim)
	now := make(map[string]reconcile.Claim, len(before))
	err = v.view(ctx, "read the state", func(t tx) error {
		if all.Claims, err = readClaims(t, before); err != nil {
			return err
		}
		for _, c := range all.Claims {
			now[c.IssueID] = c
		}
		return readRecords(t, v.dir, &all)
	})
	if err == nil {
		cache.of.Store(v.dir, now)
	}
	return all, err
}

// readClaims returns all claims. It takes those that are cached and have not changed since
// from the cache.
func readClaims(t tx, cached map[string]reconcile.Claim) ([]reconcile.Claim, error) {
	// Some changes of a claim give it no new version, so their columns are compared, too.
	list, err := rows(t, func(c *reconcile.Claim) []any {
		return []any{
			&c.IssueID,
			&c.Version,
			stampOf(&c.UpdatedAt),
			stampOf(&c.HoldCommentAt),
			&c.Project,
			&c.WorkspaceRoot,
		}
	}, `SELECT issue_id, version, updated_at, hold_comment_at, project, workspace_root FROM claims ORDER BY issue_id`)
	if err != nil {
		return nil, err
	}
	changed := []string{}
	at := map[string]int{}
	for i, c := range list {
		k, is := cached[c.IssueID]
		if is && k.Version == c.Version && k.UpdatedAt.Equal(c.UpdatedAt) &&
			k.HoldCommentAt.Equal(c.HoldCommentAt) &&
			k.Project == c.Project &&
			k.WorkspaceRoot == c.WorkspaceRoot {
			list[i] = k
			continue
		}
		changed = append(changed, c.IssueID)
		at[c.IssueID] = i
	}
	read, err := rows(
		t,
		claimFields,
		`SELECT `+claimColumns+` FROM claims WHERE issue_id IN (SELECT value FROM json_each(?))`,
		jsonOf(changed),
	)
	for _, c := range read {
		list[at[c.IssueID]] = c
	}
	return list, err
}

// StateOf returns the part of State on which a plan for one issue depends: all of it except
// the claims of other issues that have no slot.
func (v Views) StateOf(ctx context.Context, issueID string) (all reconcile.State, err error) {
	err = v.view(ctx, "read the state", func(t tx) error {
		all.Claims, err = rows(t, claimFields, `SELECT `+claimColumns+` FROM claims
			WHERE issue_id = ? OR status = 'running' ORDER BY issue_id`, issueID)
		if err != nil {
			return err
		}
		return readRecords(t, v.dir, &all)
	})
	return all, err
}

// Settings returns the part of State that applies to the project as a whole.
func (v Views) Settings(ctx context.Context) (all reconcile.State, err error) {
	err = v.view(ctx, "read the settings", func(t tx) error { return readSettings(t, v.dir, &all) })
	return all, err
}

// ClaimByIssue returns the claim of an issue by the issue's id; false if it is unclaimed.
func (v Views) ClaimByIssue(ctx context.Context, issueID string) (reconcile.Claim, bool, error) {
	return readOne(
		ctx,
		v.conn,
		"read the claim",
		claimFields,
		`SELECT `+claimColumns+` FROM claims WHERE issue_id = ?`,
		issueID,
	)
}

// FindIssue looks for an issue by its id, its web address, or its identifier in any case: in
// the claims, then the runs (newest first), then the skips. A number finds the only identifier
// that ends with it: 7 finds ABC-7. Id and identifier have separate SELECTs, because SQLite
// reads the whole table for an OR over both.
func (v Views) FindIssue(ctx context.Context, ref string) (id, identifier string, ok bool, err error) {
	const doing = "look for the issue"
	fields := func(n *[2]string) []any { return []any{&n[0], &n[1]} }
	if address, ok := text.IssueAddress(ref); ok {
		return v.findAddress(ctx, address)
	}
	names, ok, err := readOne(ctx, v.conn, doing, fields, `
		SELECT issue_id, identifier FROM (
			SELECT issue_id, identifier, 1 AS place, '' AS run FROM claims WHERE identifier = ?1 COLLATE NOCASE
			UNION ALL SELECT issue_id, identifier, 1, '' FROM claims WHERE issue_id = ?1
			UNION ALL SELECT issue_id, identifier, 2, id FROM runs WHERE identifier = ?1 COLLATE NOCASE
			UNION ALL SELECT issue_id, identifier, 2, id FROM runs WHERE issue_id = ?1
			UNION ALL SELECT issue_id, identifier, 3, '' FROM skips WHERE identifier = ?1 COLLATE NOCASE OR issue_id = ?1)
		ORDER BY place, run DESC LIMIT 1`, ref)
	if err == nil && !ok && strings.Trim(ref, "0123456789") == "" {
		all, err := readAll(
			ctx,
			v.conn,
			doing,
			fields,
			`SELECT issue_id, identifier FROM claims WHERE identifier LIKE '%-' || ?1
			UNION SELECT issue_id, identifier FROM runs WHERE identifier LIKE '%-' || ?1
			UNION SELECT issue_id, identifier FROM skips WHERE identifier LIKE '%-' || ?1`,
			ref,
		)
		if err != nil || len(all) != 1 {
			return "", "", false, err
		}
		names = all[0]
		ok = true
	}
	return names[0], names[1], ok, err
}

// findAddress is FindIssue for an address of text.IssueAddress.
func (v Views) findAddress(ctx context.Context, address string) (id, identifier string, ok bool, err error) {
	type issue struct{ id, identifier, url string }
	all, err := readAll(
		ctx,
		v.conn,
		"look for the issue",
		func(i *issue) []any { return []any{&i.id, &i.identifier, &i.url} },
		`
		SELECT issue_id, identifier, coalesce(issue ->> '$.url', '') FROM claims
		UNION SELECT issue_id, identifier, url FROM skips
		UNION SELECT issue_id, identifier, coalesce(issue ->> '$.url', '') FROM runs`,
	)
	for _, i := range all {
		if known, is := text.IssueAddress(i.url); is && known == address {
			return i.id, i.identifier, true, err
		}
	}
	return "", "", false, err
}

// Identifiers returns the identifiers of all known issues, sorted.
func (v Views) Identifiers(ctx context.Context) ([]string, error) {
	return readAll(
		ctx,
		v.conn,
		"list the issues",
		itself[string],
		`SELECT identifier FROM claims UNION SELECT identifier FROM skips UNION SELECT identifier FROM runs ORDER BY 1`,
	)
}

// BlockedByIssue returns the identifiers of the claims, and of the issues that the last pass
// skipped, that an issue blocks.
func (v Views) BlockedByIssue(ctx context.Context, identifier string) ([]string, error) {
	return readAll(
		ctx,
		v.conn,
		"read which issues it blocks",
		itself[string],
		`SELECT identifier FROM claims WHERE instr(issue, ?1) > 0
		AND EXISTS (SELECT 1 FROM json_each(issue, '$.blocked_by') WHERE value ->> '$.identifier' = ?1)
		UNION SELECT identifier FROM skips WHERE reason = ?2 AND instr(' ' || replace(message, ',', ' ') || ' ', ' ' || ?1 || ' ') > 0
		ORDER BY 1`,
		identifier,
		reconcile.SkipBlockedBy,
	)
}

// Claims returns all claims.
func (v Views) Claims(ctx context.Context) ([]reconcile.Claim, error) {
	return readAll(
		ctx,
		v.conn,
		"list the claims",
		claimFields,
		`SELECT `+claimColumns+` FROM claims ORDER BY issue_id`,
	)
}

// RateLimits returns the latest rate-limit record of an agent as JSON; nil if there is none
// yet.
func (v Views) RateLimits(ctx context.Context) ([]byte, error) {
	text, _, err := readOne(ctx, v.conn, "read the rate limits", itself[[]byte],
		`SELECT rate_limits FROM runs WHERE rate_limits IS NOT NULL ORDER BY rate_limits_at DESC LIMIT 1`)
	return text, err
}

// Skips returns the skips of the last pass that fetched candidates, sorted by identifier.
func (v Views) Skips(ctx context.Context) ([]StoredSkip, error) {
	return readAll(
		ctx,
		v.conn,
		"read the skips",
		skipFields,
		`SELECT `+skipColumns+` FROM skips ORDER BY identifier, issue_id`,
	)
}

// SkipOf returns the skip of an issue; false if the last pass that fetched candidates did not
// skip it.
func (v Views) SkipOf(ctx context.Context, issueID string) (StoredSkip, bool, error) {
	return readOne(
		ctx,
		v.conn,
		"read why the issue was skipped",
		skipFields,
		`SELECT `+skipColumns+` FROM skips WHERE issue_id = ?`,
		issueID,
	)
}

// passes returns the passes that match, where being the end of the statement.
func (c *conn) passes(ctx context.Context, where string, args ...any) ([]Pass, error) {
	return readAll(
		ctx,
		c,
		"read the passes",
		passFields,
		`SELECT id, `+passColumns+` FROM passes `+where,
		args...)
}

// LastPass returns the newest pass; false if there was none.
func (v Views) LastPass(ctx context.Context) (Pass, bool, error) {
	return readOne(
		ctx,
		v.conn,
		"read the last pass",
		passFields,
		`SELECT id, `+passColumns+` FROM passes ORDER BY id DESC LIMIT 1`,
	)
}

// LastPasses returns the newest passes, at most limit of them.
func (v Views) LastPasses(ctx context.Context, limit int) ([]Pass, error) {
	return v.passes(ctx, `ORDER BY id DESC LIMIT ?`, limit)
}

// scheduledKept is how many scheduled passes ScheduledPasses returns. Six passes give five
// gaps.
const scheduledKept = 6

// ScheduledPasses returns the last scheduledKept passes that a schedule started (cron, timer,
// loop). The gaps between them show whether the schedule is alive.
func (v Views) ScheduledPasses(ctx context.Context) ([]Pass, error) {
	return v.passes(
		ctx,
		`WHERE "trigger" IN ('cron', 'timer', 'loop') ORDER BY id DESC LIMIT ?`,
		scheduledKept,
	)
}

// ScheduledPassesWithoutLoop returns as many passes that cron or a timer started.
func (v Views) ScheduledPassesWithoutLoop(ctx context.Context) ([]Pass, error) {
	// the first term selects the index
	const where = `WHERE "trigger" IN ('cron', 'timer', 'loop') AND "trigger" <> 'loop'`
	return v.passes(ctx, where+` ORDER BY id DESC LIMIT ?`, scheduledKept)
}

// Place is the machine and the directory of a run's workspace. Host is empty for this machine.
type Place struct{ IssueID, Host, Path string }

// LastPlaces returns where the last runs of waiting claims worked, by the ids of the issues.
func (v Views) LastPlaces(ctx context.Context) (map[string]Place, error) {
	list, err := readAll(
		ctx,
		v.conn,
		"read the last workspaces",
		func(p *Place) []any { return []any{&p.IssueID, &p.Host, &p.Path} },
		`SELECT c.issue_id, r.host, r.workspace_path FROM claims AS c JOIN runs AS r ON r.id = c.run_id WHERE c.status = ?`,
		reconcile.Waiting,
	)
	places := make(map[string]Place, len(list))
	for _, p := range list {
		places[p.IssueID] = p
	}
	return places, err
}

// list returns the runs that match, where being the end of the statement.
func (r Runs) list(ctx context.Context, where string, args ...any) ([]reconcile.Run, error) {
	return readAll(ctx, r.conn, "read the runs", runFields, `SELECT `+runColumns+` FROM runs `+where, args...)
}

// first is list for the first match; false if there is none.
func (r Runs) first(ctx context.Context, where string, args ...any) (reconcile.Run, bool, error) {
	return readOne(ctx, r.conn, "read a run", runFields, `SELECT `+runColumns+` FROM runs `+where, args...)
}

// Find returns the run with that id. If there is none the error wraps ErrNotFound.
func (r Runs) Find(ctx context.Context, id string) (reconcile.Run, error) {
	run, found, err := r.first(ctx, `WHERE id = ?`, id)
	if err == nil && !found {
		err = fmt.Errorf("run %s: %w", id, ErrNotFound)
	}
	return run, err
}

// OfIssue returns the newest runs of an issue, of either kind, at most limit of them.
func (r Runs) OfIssue(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return r.list(ctx, `WHERE issue_id = ? ORDER BY id DESC LIMIT ?`, issueID, limit)
}

// OfAgents returns the agent's newest runs of an issue, at most limit of them.
func (r Runs) OfAgents(ctx context.Context, issueID string, limit int) ([]reconcile.Run, error) {
	return r.list(
		ctx,
		`WHERE issue_id = ? AND kind IN ('agent', 'free') ORDER BY id DESC LIMIT ?`,
		issueID,
		limit,
	)
}

// Recent returns the newest runs of all issues, at most limit of them.
func (r Runs) Recent(ctx context.Context, limit int) ([]reconcile.Run, error) {
	return r.list(ctx, `ORDER BY id DESC LIMIT ?`, limit)
}

// Since returns the agent's runs of an issue that had not ended before a time, oldest first;
// all of them for the zero time.
func (r Runs) Since(ctx context.Context, issueID string, since time.Time) ([]reconcile.Run, error) {
	return r.list(
		ctx,
		`WHERE issue_id = ? AND kind IN ('agent', 'free') AND (ended_at IS NULL OR ended_at >= coalesce(?, 0)) ORDER BY id`,
		issueID,
		stamp(since),
	)
}

// ByPrefix returns the runs of an issue, of either kind, whose ids begin with prefix, at most
// limit of them.
func (r Runs) ByPrefix(ctx context.Context, issueID, prefix string, limit int) ([]reconcile.Run, error) {
	return r.list(
		ctx,
		`WHERE issue_id = ?1 AND substr(id, 1, length(?2)) = ?2 ORDER BY id DESC LIMIT ?3`,
		issueID,
		prefix,
		limit,
	)
}

// Next returns the agent's first run of an issue after the run with that id; false if there is
// none. With an empty id it is the oldest run that has not been pruned.
func (r Runs) Next(ctx context.Context, issueID, after string) (reconcile.Run, bool, error) {
	return r.first(
		ctx,
		`WHERE issue_id = ? AND id > ? AND kind IN ('agent', 'free') ORDER BY id LIMIT 1`,
		issueID,
		after,
	)
}

// Unsettled returns the runs that no pass has settled yet.
func (r Runs) Unsettled(ctx context.Context) ([]reconcile.Run, error) {
	return r.list(ctx, `WHERE settled = 0 ORDER BY id DESC`)
}

// Last returns the agent's newest run of an issue; false if there is none.
func (r Runs) Last(ctx context.Context, issueID string) (reconcile.Run, bool, error) {
	return r.first(ctx, `WHERE issue_id = ? AND kind = 'agent' ORDER BY id DESC LIMIT 1`, issueID)
}

// Count returns the number of stored runs of an issue, of either kind.
func (r Runs) Count(ctx context.Context, issueID string) (int, error) {
	n, _, err := readOne(
		ctx,
		r.conn,
		"count the runs",
		itself[int],
		`SELECT count(*) FROM runs WHERE issue_id = ?`,
		issueID,
	)
	return n, err
}

// CountOfAgents returns the number of stored runs of the agent for an issue that started at a
// time or later.
func (r Runs) CountOfAgents(ctx context.Context, issueID string, since time.Time) (int, error) {
	n, _, err := readOne(
		ctx,
		r.conn,
		"count the runs",
		itself[int],
		`SELECT count(*) FROM runs WHERE issue_id = ? AND kind = 'agent' AND started_at >= ?`,
		issueID,
		stamp(since),
	)
	return n, err
}

// IDs returns the ids of all runs.
func (r Runs) IDs(ctx context.Context) (map[string]bool, error) {
	list, err := readAll(ctx, r.conn, "list runs", itself[string], `SELECT id FROM runs`)
	return setOf(list), err
}

// EndedIDs returns the ids of the agent's runs that ended at a time or later, the first one to
// end first.
func (r Runs) EndedIDs(ctx context.Context, since time.Time) ([]string, error) {
	return readAll(ctx, r.conn, "list runs", itself[string],
		`SELECT id FROM runs WHERE kind = 'agent' AND ended_at >= ? ORDER BY ended_at, id`, stamp(since))
}

// EndedRun is a run with only the fields that a list shows: of the issue, which is most of a
// row, only title, state, labels and URL.
type EndedRun struct {
	reconcile.Run
	Found string // the text in which Search looks
}

// Ended returns the newest settled runs that match, at most limit of them, of the issues with
// these ids, or of all issues if there are no ids.
func (r Runs) Ended(ctx context.Context, issueIDs []string, search Search, limit int) ([]EndedRun, error) {
	condition, args := search.condition("found", "labels")
	return readAll(ctx, r.conn, "read the last runs", func(r *EndedRun) []any {
		r.Settled = true
		return append([]any{
			&r.ID, &r.Kind, &r.IssueID, &r.Identifier, &r.Issue.URL, &r.Issue.Title, &r.Issue.State, &r.Outcome,
			&r.ErrorCode, &r.ErrorText, &r.AfterRunError, jsonOf(&r.Delivery), &r.Turns, stampOf(&r.StartedAt), stampOf(&r.EndedAt),
			jsonOf(&r.Issue.Labels), &r.Found,
		}, tokenFields(&r.Tokens)...)
	}, `SELECT id, kind, issue_id, identifier, issue ->> '$.url', coalesce(issue ->> '$.title', ''), coalesce(issue ->> '$.state', ''),
		outcome, error_code, error_text, after_run_error, delivery, turns, started_at, ended_at, labels, found,
		tokens_input, tokens_cached, tokens_output, tokens_reasoning, tokens_total
		FROM runs WHERE id IN (SELECT id FROM runs WHERE settled = 1 AND (json_array_length(?1) = 0
			OR issue_id IN (SELECT value FROM json_each(?1)))`+condition+` ORDER BY id DESC LIMIT ?)
		ORDER BY id DESC`, slices.Concat([]any{jsonOf(append([]string{}, issueIDs...))}, args, []any{limit})...)
}

// Totals returns what all settled runs of the project have used.
func (r Runs) Totals(ctx context.Context) (Totals, error) {
	return r.totals(
		ctx,
		`SELECT sum(value) FILTER (WHERE key = 'totals_input'), sum(value) FILTER (WHERE key = 'totals_cached'),
		sum(value) FILTER (WHERE key = 'totals_output'), sum(value) FILTER (WHERE key = 'totals_reasoning'),
		sum(value) FILTER (WHERE key = 'totals_total'), sum(value) FILTER (WHERE key = 'totals_runtime_ms')
		FROM (SELECT key, CAST(value AS INTEGER) AS value FROM meta WHERE key LIKE 'totals_%')`,
	)
}

// TotalsOf returns what all settled runs of an issue have used.
func (r Runs) TotalsOf(ctx context.Context, issueID string) (Totals, error) {
	return r.totals(ctx, `SELECT `+totalColumns+` FROM issue_totals WHERE issue_id = ?`, issueID)
}

func (r Runs) totals(ctx context.Context, query string, args ...any) (Totals, error) {
	all, _, err := readOne(ctx, r.conn, "read the totals", totalFields, query, args...)
	return all, err
}

// UseOf returns what the agent's runs of an issue have used, by model. Runs that have been
// pruned are missing.
func (r Runs) UseOf(ctx context.Context, issueID string) ([]reconcile.ModelUse, error) {
	return readAll(ctx, r.conn, "read what the runs have used", func(u *reconcile.ModelUse) []any {
		return append([]any{&u.Model}, tokenFields(&u.Tokens)...)
	}, `SELECT model, sum(tokens_input), sum(tokens_cached), sum(tokens_output), sum(tokens_reasoning), sum(tokens_total)
		FROM runs WHERE issue_id = ? AND kind = 'agent' GROUP BY model ORDER BY min(id)`, issueID)
}
