package state

import (
	"context"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// StateOf returns the part of State on which a plan for one issue depends: all of it except the claims of other issues that have no slot.
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

// ClaimByIssue returns the claim of an issue by the issue's id; false if it is unclaimed.
func (v Views) ClaimByIssue(ctx context.Context, issueID string) (reconcile.Claim, bool, error) {
	return readOne(ctx, v.conn, "read the claim", claimFields, `SELECT `+claimColumns+` FROM claims WHERE issue_id = ?`, issueID)
}

// FindIssue looks for an issue by its id, its web address, or its identifier in any case: in the claims, then the runs (newest first),
// then the skips. A number finds the only identifier that ends with it: 7 finds ABC-7. Id and identifier have separate SELECTs, because
// SQLite reads the whole table for an OR over both.
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
		all, err := readAll(ctx, v.conn, doing, fields, `SELECT issue_id, identifier FROM claims WHERE identifier LIKE '%-' || ?1
			UNION SELECT issue_id, identifier FROM runs WHERE identifier LIKE '%-' || ?1
			UNION SELECT issue_id, identifier FROM skips WHERE identifier LIKE '%-' || ?1`, ref)
		if err != nil || len(all) != 1 {
			return "", "", false, err
		}
		names, ok = all[0], true
	}
	return names[0], names[1], ok, err
}

// findAddress is FindIssue for an address of text.IssueAddress.
func (v Views) findAddress(ctx context.Context, address string) (id, identifier string, ok bool, err error) {
	type issue struct{ id, identifier, url string }
	all, err := readAll(ctx, v.conn, "look for the issue", func(i *issue) []any { return []any{&i.id, &i.identifier, &i.url} }, `
		SELECT issue_id, identifier, coalesce(issue ->> '$.url', '') FROM claims
		UNION SELECT issue_id, identifier, url FROM skips
		UNION SELECT issue_id, identifier, coalesce(issue ->> '$.url', '') FROM runs`)
	for _, i := range all {
		if known, is := text.IssueAddress(i.url); is && known == address {
			return i.id, i.identifier, true, err
		}
	}
	return "", "", false, err
}

// Identifiers returns the identifiers of all known issues, sorted.
func (v Views) Identifiers(ctx context.Context) ([]string, error) {
	return readAll(ctx, v.conn, "list the issues", itself[string],
		`SELECT identifier FROM claims UNION SELECT identifier FROM skips UNION SELECT identifier FROM runs ORDER BY 1`)
}

// BlockedByIssue returns the identifiers of the claims, and of the issues that the last pass skipped, that an issue blocks.
func (v Views) BlockedByIssue(ctx context.Context, identifier string) ([]string, error) {
	return readAll(ctx, v.conn, "read which issues it blocks", itself[string], `SELECT identifier FROM claims WHERE instr(issue, ?1) > 0
		AND EXISTS (SELECT 1 FROM json_each(issue, '$.blocked_by') WHERE value ->> '$.identifier' = ?1)
		UNION SELECT identifier FROM skips WHERE reason = ?2 AND instr(' ' || replace(message, ',', ' ') || ' ', ' ' || ?1 || ' ') > 0
		ORDER BY 1`, identifier, reconcile.SkipBlockedBy)
}

// Claims returns all claims.
func (v Views) Claims(ctx context.Context) ([]reconcile.Claim, error) {
	return readAll(ctx, v.conn, "list the claims", claimFields, `SELECT `+claimColumns+` FROM claims ORDER BY issue_id`)
}

// RateLimits returns the latest rate-limit record of an agent as JSON; nil if there is none yet.
func (v Views) RateLimits(ctx context.Context) ([]byte, error) {
	text, _, err := readOne(ctx, v.conn, "read the rate limits", itself[[]byte],
		`SELECT rate_limits FROM runs WHERE rate_limits IS NOT NULL ORDER BY rate_limits_at DESC LIMIT 1`)
	return text, err
}

// StoredSkip is a candidate, or a claim that waits for a slot, that the last pass that fetched candidates did not start, and since when
// for the same reason.
type StoredSkip struct {
	reconcile.Skip
	Since time.Time `json:"since"`
}

const skipColumns = `issue_id, identifier, reason, message, since, title, url, place, labels`

func skipFields(s *StoredSkip) []any {
	return []any{&s.IssueID, &s.Identifier, &s.Reason, &s.Message, stampOf(&s.Since), &s.Title, &s.URL, &s.Place, jsonOf(&s.Labels)}
}

// Skips returns the skips of the last pass that fetched candidates, sorted by identifier.
func (v Views) Skips(ctx context.Context) ([]StoredSkip, error) {
	return readAll(ctx, v.conn, "read the skips", skipFields, `SELECT `+skipColumns+` FROM skips ORDER BY identifier, issue_id`)
}

// SkipOf returns the skip of an issue; false if the last pass that fetched candidates did not skip it.
func (v Views) SkipOf(ctx context.Context, issueID string) (StoredSkip, bool, error) {
	return readOne(ctx, v.conn, "read why the issue was skipped", skipFields, `SELECT `+skipColumns+` FROM skips WHERE issue_id = ?`, issueID)
}

// Pass is the record of one reconciliation.
type Pass struct {
	ID int64
	// Trigger is what started it: cron, timer, loop, manual, command or worker.
	Trigger   string
	StartedAt time.Time
	Duration  time.Duration // stored to the millisecond
	Actions   int           // the number of applied actions
	Skipped   int           // the number of skipped candidates
	Errors    []reconcile.Error
	// BootID and Mono, which is CLOCK_MONOTONIC at the start, give the age of a pass even if the wall clock was set.
	BootID string
	Mono   time.Duration
}

const passColumns = `"trigger", started_at, duration_ms, actions, skipped, errors, boot_id, mono_ns`

func passFields(p *Pass) []any {
	return []any{
		&p.ID, &p.Trigger, stampOf(&p.StartedAt), millisOf(&p.Duration), &p.Actions, &p.Skipped, jsonOf(&p.Errors), &p.BootID,
		&p.Mono,
	}
}

// passes returns the passes that match, where being the end of the statement.
func (c *conn) passes(ctx context.Context, where string, args ...any) ([]Pass, error) {
	return readAll(ctx, c, "read the passes", passFields, `SELECT id, `+passColumns+` FROM passes `+where, args...)
}

// LastPass returns the newest pass; false if there was none.
func (v Views) LastPass(ctx context.Context) (Pass, bool, error) {
	return readOne(ctx, v.conn, "read the last pass", passFields, `SELECT id, `+passColumns+` FROM passes ORDER BY id DESC LIMIT 1`)
}

// LastPasses returns the newest passes, at most limit of them.
func (v Views) LastPasses(ctx context.Context, limit int) ([]Pass, error) {
	return v.passes(ctx, `ORDER BY id DESC LIMIT ?`, limit)
}

// scheduledKept is how many scheduled passes ScheduledPasses returns. Six passes give five gaps.
const scheduledKept = 6

// ScheduledPasses returns the last scheduledKept passes that a schedule started (cron, timer, loop). The gaps between them show
// whether the schedule is alive.
func (v Views) ScheduledPasses(ctx context.Context) ([]Pass, error) {
	return v.passes(ctx, `WHERE "trigger" IN ('cron', 'timer', 'loop') ORDER BY id DESC LIMIT ?`, scheduledKept)
}

// Place is the machine and the directory of a run's workspace. Host is empty for this machine.
type Place struct{ IssueID, Host, Path string }

// LastPlaces returns where the last runs of waiting claims worked, by the ids of the issues.
func (v Views) LastPlaces(ctx context.Context) (map[string]Place, error) {
	list, err := readAll(ctx, v.conn, "read the last workspaces", func(p *Place) []any { return []any{&p.IssueID, &p.Host, &p.Path} },
		`SELECT c.issue_id, r.host, r.workspace_path FROM claims AS c JOIN runs AS r ON r.id = c.run_id WHERE c.status = ?`, reconcile.Waiting)
	places := make(map[string]Place, len(list))
	for _, p := range list {
		places[p.IssueID] = p
	}
	return places, err
}
