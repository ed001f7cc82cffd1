package state

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ClaimCache keeps the claims that a process read from each database. The zero value is empty.
// It is safe for concurrent use.
type ClaimCache struct {
	// of holds a map[string]reconcile.Claim for each state directory: claims by the ids of
	// their issues. A map is never changed once it is stored.
	of sync.Map
}

// State returns the same as Store.State, but reads only claims that are missing or changed in
// the cache. Without a cache it reads all. Readers share the slices and maps in claims, and
// must not change them.
func (v Views) State(ctx context.Context, cache *ClaimCache) (all reconcile.State, err error) {
	if cache == nil {
		return Store(v).State(ctx)
	}
	stored, _ := cache.of.Load(v.dir)
	before, _ := stored.(map[string]reconcile.Claim)
	err = v.view(ctx, "read the state", func(t tx) error {
		all.Claims, err = readClaims(t, before)
		if err != nil {
			return err
		}
		return readRecords(t, v.dir, &all)
	})
	if err != nil {
		return all, err
	}
	now := make(map[string]reconcile.Claim, len(all.Claims))
	for _, c := range all.Claims {
		now[c.IssueID] = c
	}
	cache.of.Store(v.dir, now)
	return all, nil
}

// readClaims returns all claims. It takes unchanged claims from the cache.
func readClaims(t tx, cached map[string]reconcile.Claim) ([]reconcile.Claim, error) {
	list, err := rows(t, claimVersionFields, `SELECT issue_id, version, updated_at, hold_comment_at,
		project, workspace_root FROM claims ORDER BY issue_id`)
	if err != nil {
		return nil, err
	}
	changed := []string{}
	at := map[string]int{} // in list, by the ids of the issues
	for i, c := range list {
		known, is := cached[c.IssueID]
		if is && sameVersion(known, c) {
			list[i] = known
			continue
		}
		changed = append(changed, c.IssueID)
		at[c.IssueID] = i
	}
	read, err := rows(t, claimFields, `SELECT `+claimColumns+` FROM claims
		WHERE issue_id IN (SELECT value FROM json_each(?))`, jsonOf(changed))
	if err != nil {
		return nil, err
	}
	for _, c := range read {
		list[at[c.IssueID]] = c
	}
	return list, nil
}

// claimVersionFields are the columns by which a claim is compared with the cached claim. Some
// changes of a claim give it no new version, so that these columns are compared, too.
func claimVersionFields(c *reconcile.Claim) []any {
	return []any{
		&c.IssueID, &c.Version, stampOf(&c.UpdatedAt), stampOf(&c.HoldCommentAt), &c.Project, &c.WorkspaceRoot,
	}
}

func sameVersion(a, b reconcile.Claim) bool {
	return a.Version == b.Version && a.UpdatedAt.Equal(b.UpdatedAt) &&
		a.HoldCommentAt.Equal(b.HoldCommentAt) && a.Project == b.Project && a.WorkspaceRoot == b.WorkspaceRoot
}

// StateOf returns the part of State on which a plan for a single issue depends: all of it
// except the claims of other issues without a slot.
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
	return readOne(ctx, v.conn, "read the claim", claimFields,
		`SELECT `+claimColumns+` FROM claims WHERE issue_id = ?`, issueID)
}

// issueName is an issue with the two names under which users know it, and its web address.
type issueName struct{ id, identifier, url string }

func issueNameFields(n *issueName) []any { return []any{&n.id, &n.identifier, &n.url} }

const lookForIssue = "look for the issue"

// FindIssue looks for an issue by its id, its web address, or its identifier in any case: in
// the claims, then the runs (newest first), then the skips. A number finds the only identifier
// that ends with it: 7 finds ABC-7.
func (v Views) FindIssue(ctx context.Context, ref string) (id, identifier string, ok bool, err error) {
	name, ok, err := v.findName(ctx, ref)
	return name.id, name.identifier, ok, err
}

func (v Views) findName(ctx context.Context, ref string) (issueName, bool, error) {
	address, isAddress := text.IssueAddress(ref)
	if isAddress {
		return v.findAddress(ctx, address)
	}
	// Id and identifier have separate SELECTs, because SQLite reads the whole table for an OR
	// over both.
	name, ok, err := readOne(ctx, v.conn, lookForIssue, issueNameFields, `SELECT issue_id, identifier, '' FROM (
		SELECT issue_id, identifier, 1 AS place, '' AS run FROM claims WHERE identifier = ?1 COLLATE NOCASE
		UNION ALL SELECT issue_id, identifier, 1, '' FROM claims WHERE issue_id = ?1
		UNION ALL SELECT issue_id, identifier, 2, id FROM runs WHERE identifier = ?1 COLLATE NOCASE
		UNION ALL SELECT issue_id, identifier, 2, id FROM runs WHERE issue_id = ?1
		UNION ALL SELECT issue_id, identifier, 3, '' FROM skips WHERE identifier = ?1 COLLATE NOCASE OR issue_id = ?1)
		ORDER BY place, run DESC LIMIT 1`, ref)
	number := strings.TrimPrefix(ref, "#")
	if err != nil || ok || !text.IsNumber(number) {
		return name, ok, err
	}
	return v.findNumber(ctx, number)
}

// findNumber finds the only issue whose identifier ends with a number.
func (v Views) findNumber(ctx context.Context, number string) (issueName, bool, error) {
	all, err := readAll(ctx, v.conn, lookForIssue, issueNameFields,
		`SELECT issue_id, identifier, '' FROM claims WHERE identifier LIKE '%-' || ?1
		UNION SELECT issue_id, identifier, '' FROM runs WHERE identifier LIKE '%-' || ?1
		UNION SELECT issue_id, identifier, '' FROM skips WHERE identifier LIKE '%-' || ?1`, number)
	if err != nil || len(all) != 1 {
		return issueName{}, false, err
	}
	return all[0], true, nil
}

// findAddress finds an issue by an address of text.IssueAddress.
func (v Views) findAddress(ctx context.Context, address string) (issueName, bool, error) {
	all, err := readAll(ctx, v.conn, lookForIssue, issueNameFields,
		`SELECT issue_id, identifier, coalesce(issue ->> '$.url', '') FROM claims
		UNION SELECT issue_id, identifier, url FROM skips
		UNION SELECT issue_id, identifier, coalesce(issue ->> '$.url', '') FROM runs`)
	if err != nil {
		return issueName{}, false, err
	}
	for _, name := range all {
		known, is := text.IssueAddress(name.url)
		if is && known == address {
			return name, true, nil
		}
	}
	return issueName{}, false, nil
}

// Identifiers returns the identifiers of all known issues, sorted as people sort them.
func (v Views) Identifiers(ctx context.Context) ([]string, error) {
	names, err := readAll(ctx, v.conn, "list the issues", itself[string],
		`SELECT identifier FROM claims UNION SELECT identifier FROM skips UNION SELECT identifier FROM runs`)
	slices.SortFunc(names, text.CompareNatural)
	return names, err
}

// BlockedByIssue returns the identifiers of the claims, and of the issues that the last pass
// skipped, that an issue blocks, sorted as people sort them.
func (v Views) BlockedByIssue(ctx context.Context, identifier string) ([]string, error) {
	names, err := readAll(ctx, v.conn, "read which issues it blocks", itself[string],
		`SELECT identifier FROM claims WHERE instr(issue, ?1) > 0
		AND EXISTS (SELECT 1 FROM json_each(issue, '$.blocked_by') WHERE value ->> '$.identifier' = ?1)
		UNION SELECT identifier FROM skips WHERE reason = ?2
		AND instr(' ' || replace(message, ',', ' ') || ' ', ' ' || ?1 || ' ') > 0`, identifier, reconcile.SkipBlockedBy)
	slices.SortFunc(names, text.CompareNatural)
	return names, err
}

// Claims returns all claims.
func (v Views) Claims(ctx context.Context) ([]reconcile.Claim, error) {
	return readAll(ctx, v.conn, "list the claims", claimFields,
		`SELECT `+claimColumns+` FROM claims ORDER BY issue_id`)
}

// RateLimits returns the latest rate-limit record of an agent as JSON; nil if there is none
// yet.
func (v Views) RateLimits(ctx context.Context) ([]byte, error) {
	limits, _, err := readOne(ctx, v.conn, "read the rate limits", itself[[]byte],
		`SELECT rate_limits FROM runs WHERE rate_limits IS NOT NULL ORDER BY rate_limits_at DESC LIMIT 1`)
	return limits, err
}

// Skips returns the skips of the last pass that fetched candidates, sorted by identifier.
func (v Views) Skips(ctx context.Context) ([]StoredSkip, error) {
	return readAll(ctx, v.conn, "read the skips", skipFields,
		`SELECT `+skipColumns+` FROM skips ORDER BY identifier, issue_id`)
}

// SkipOf returns the skip of an issue; false if the last pass that fetched candidates did not
// skip it.
func (v Views) SkipOf(ctx context.Context, issueID string) (StoredSkip, bool, error) {
	return readOne(ctx, v.conn, "read why the issue was skipped", skipFields,
		`SELECT `+skipColumns+` FROM skips WHERE issue_id = ?`, issueID)
}

// passes returns the passes that match, where being the end of the statement.
func (c *conn) passes(ctx context.Context, where string, args ...any) ([]Pass, error) {
	return readAll(ctx, c, "read the passes", passFields,
		`SELECT id, `+passColumns+` FROM passes `+where, args...)
}

// LastPass returns the newest pass; false if there was none.
func (v Views) LastPass(ctx context.Context) (Pass, bool, error) {
	return readOne(ctx, v.conn, "read the last pass", passFields,
		`SELECT id, `+passColumns+` FROM passes ORDER BY id DESC LIMIT 1`)
}

// LastPasses returns the newest passes, at most limit of them.
func (v Views) LastPasses(ctx context.Context, limit int) ([]Pass, error) {
	return v.passes(ctx, `ORDER BY id DESC LIMIT ?`, limit)
}

// scheduledKept is how many scheduled passes ScheduledPasses returns. Six passes give five
// gaps.
const scheduledKept = 6

// bySchedule is true for a pass that a schedule started. It selects the index of these passes.
const bySchedule = `"trigger" IN ('cron', 'timer', 'loop')`

// ScheduledPasses returns the last scheduledKept passes that a schedule started (cron, timer,
// loop). The gaps between them show whether the schedule is alive.
func (v Views) ScheduledPasses(ctx context.Context) ([]Pass, error) {
	return v.passes(ctx, `WHERE `+bySchedule+` ORDER BY id DESC LIMIT ?`, scheduledKept)
}

// ScheduledPassesWithoutLoop returns as many passes that cron or a timer started.
func (v Views) ScheduledPassesWithoutLoop(ctx context.Context) ([]Pass, error) {
	return v.passes(ctx, `WHERE `+bySchedule+` AND "trigger" <> 'loop' ORDER BY id DESC LIMIT ?`, scheduledKept)
}

// Place is the machine and the directory of a run's workspace. Host is empty for this machine.
type Place struct{ IssueID, Host, Path string }

func placeFields(p *Place) []any { return []any{&p.IssueID, &p.Host, &p.Path} }

// LastPlaces returns where the last runs of waiting claims worked, by the ids of the issues.
func (v Views) LastPlaces(ctx context.Context) (map[string]Place, error) {
	list, err := readAll(ctx, v.conn, "read the last workspaces", placeFields,
		`SELECT c.issue_id, r.host, r.workspace_path FROM claims AS c JOIN runs AS r ON r.id = c.run_id
		WHERE c.status = ?`, reconcile.Waiting)
	if err != nil {
		return nil, err
	}
	places := make(map[string]Place, len(list))
	for _, p := range list {
		places[p.IssueID] = p
	}
	return places, nil
}
