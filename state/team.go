package state

import (
	"context"
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/team"
)

const ownColumns = `issue_id, identifier, key, version, content, object, tried,
	renewed_boot, renewed_at, lost_to`

func ownFields(o *team.Own) []any {
	return []any{
		&o.ID, &o.Identifier, &o.Key, &o.Version, &o.Content, &o.Object, jsonOf(&o.Tried),
		&o.Renewed.Boot, nanosOf(&o.Renewed.Since), &o.LostTo,
	}
}

// nanosOf stores a time in nanoseconds.
func nanosOf(d *time.Duration) field {
	return fieldOf(func(ns int64) { *d = time.Duration(ns) }, func() any { return int64(*d) })
}

// Work is what was done for an issue, as another machine has to know it to go on.
type Work struct {
	reconcile.Delivered
	// Handled and Rounds are what reconcile.Watch.Answered returns.
	Handled []string
	Rounds  int
}

// Work returns what was done for issues, by their ids. An issue for which nothing was delivered is not
// among them.
func (t Team) Work(ctx context.Context, issueIDs []string) (map[string]Work, error) {
	type found struct {
		reconcile.Delivered
		issueID string
		watch   reconcile.Watch
	}
	fields := func(f *found) []any {
		return append([]any{&f.issueID}, append(deliveredFields(&f.Delivered), jsonOf(&f.watch))...)
	}
	list, err := readAll(ctx, t.conn, "read what was delivered", fields,
		`SELECT issue_id, `+deliveredColumns+`,
			coalesce((SELECT watch FROM watches AS w WHERE w.issue_id = d.issue_id), '{}')
		FROM deliveries AS d WHERE issue_id IN (SELECT value FROM json_each(?))`,
		jsonOf(append([]string{}, issueIDs...)))
	if err != nil {
		return nil, err
	}
	all := map[string]Work{}
	for _, f := range list {
		work := Work{Delivered: f.Delivered}
		work.Handled, work.Rounds = f.watch.Answered()
		all[f.issueID] = work
	}
	return all, nil
}

// HasNews returns for which of the issues this machine has something to say to their next agents, which
// no other machine knows: why a pull request has brought the issue back, or a message of its operator.
func (t Team) HasNews(ctx context.Context, issueIDs []string) (map[string]bool, error) {
	list, err := readAll(ctx, t.conn, "read what waits for agents", itself[string],
		`SELECT value FROM json_each(?) AS i WHERE
			EXISTS (SELECT 1 FROM watches WHERE issue_id = i.value AND ended = 0 AND watch ->> '$.rework' IS NOT NULL)
			OR EXISTS (SELECT 1 FROM calls WHERE verb = 'tell' AND agent = i.value AND ended_at IS NULL)`,
		jsonOf(append([]string{}, issueIDs...)))
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, id := range list {
		all[id] = true
	}
	return all, nil
}

// Inherit stores what another machine has done for an issue.
func (t Team) Inherit(ctx context.Context, issueID string, w Work) error {
	return t.update(ctx, "store what another machine delivered", full, func(x tx) error {
		return inherit(x, issueID, w)
	})
}

// InheritReview stores that an issue waits for its review, with what another machine has done for it.
// What this machine has delivered itself stays as it is.
func (t Team) InheritReview(ctx context.Context, i reconcile.Issue, w Work, now time.Time) error {
	return t.update(ctx, "store a review that another machine waited for", full, func(x tx) error {
		n, err := row(x, itself[int], `SELECT count(*) FROM deliveries WHERE issue_id = ?`, i.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			err = inherit(x, i.ID, w)
		} else {
			err = endReview(x, i.ID)
		}
		if err != nil {
			return err
		}
		r := Release{
			IssueID:    i.ID,
			Identifier: i.Identifier,
			Title:      i.Title,
			URL:        i.URL,
			Branch:     i.BranchName,
			Reason:     reconcile.StopInactive,
			From:       i.State,
			To:         &i.State,
			ClaimedAt:  now,
			At:         now,
			Links:      []reconcile.Link{},
			Created:    map[string]int{},
			Labels:     append([]string{}, i.Labels...),
			InReview:   true,
		}
		return x.run(
			`INSERT INTO releases (`+releaseColumns+`) VALUES (`+marks(releaseColumns)+`)`,
			releaseFields(&r)...)
	})
}

func inherit(x tx, issueID string, w Work) error {
	if err := forgetWork(x, issueID); err != nil {
		return err
	}
	err := x.run(`INSERT INTO deliveries (issue_id, `+deliveredColumns+`) VALUES (?, `+marks(deliveredColumns)+`)`,
		append([]any{issueID}, deliveredFields(&w.Delivered)...)...)
	if err != nil || w.PullRequest == "" {
		return err
	}
	watch := reconcile.Watch{
		IssueID:   issueID,
		Delivered: w.Delivered,
	}
	watch.Inherit(w.Handled, w.Rounds)
	return saveWatch(x, watch)
}

// forgetWork removes what was delivered for an issue, and what its pull request waits for.
func forgetWork(x tx, issueID string) error {
	if err := endReview(x, issueID); err != nil {
		return err
	}
	if err := x.run(`DELETE FROM deliveries WHERE issue_id = ?`, issueID); err != nil {
		return err
	}
	return x.run(`DELETE FROM watches WHERE issue_id = ?`, issueID)
}

// OwnClaims implements team.Journal.
func (t Team) OwnClaims(ctx context.Context) ([]team.Own, error) {
	return readAll(ctx, t.conn, "read this machine's claims", ownFields,
		`SELECT `+ownColumns+` FROM team_claims ORDER BY issue_id`)
}

// SaveOwnClaims implements team.Journal.
func (t Team) SaveOwnClaims(ctx context.Context, claims []team.Own) (stored []team.Own, err error) {
	err = t.update(ctx, "store this machine's claims", full, func(x tx) error {
		stored = nil
		for _, own := range claims {
			if err := saveOwn(x, own); err != nil {
				return err
			}
			now, err := rows(x, ownFields,
				`SELECT `+ownColumns+` FROM team_claims WHERE issue_id = ?`, own.ID)
			if err != nil {
				return err
			}
			stored = append(stored, now...)
		}
		return nil
	})
	return stored, err
}

// saveOwn stores a claim, unless the stored row has another version than the claim.
func saveOwn(x tx, own team.Own) error {
	before := own.Version
	own.Version++
	if before == 0 {
		return x.run(`INSERT INTO team_claims (`+ownColumns+`) VALUES (`+marks(ownColumns)+`)
			ON CONFLICT (issue_id) DO NOTHING`, ownFields(&own)...)
	}
	return x.run(`UPDATE team_claims SET (`+ownColumns+`) = (`+marks(ownColumns)+`)
		WHERE issue_id = ? AND version = ?`, append(ownFields(&own), own.ID, before)...)
}

// DropOwnClaims implements team.Journal.
func (t Team) DropOwnClaims(ctx context.Context, issueIDs []string) error {
	return t.update(ctx, "forget this machine's claims", full, statement(
		`DELETE FROM team_claims WHERE issue_id IN (SELECT value FROM json_each(?))`,
		jsonOf(append([]string{}, issueIDs...)),
	))
}

const seenColumns = `key, object, content, looked_boot, looked_at, age, seen_at`

func seenFields(s *team.Seen) []any {
	return []any{
		&s.Key, &s.Object, &s.Content,
		&s.Looked.Boot, nanosOf(&s.Looked.Since), nanosOf(&s.Age), stampOf(&s.FirstAt),
	}
}

// SeenClaims implements team.Journal.
func (t Team) SeenClaims(ctx context.Context) ([]team.Seen, error) {
	return readAll(ctx, t.conn, "read the claims of other machines", seenFields,
		`SELECT `+seenColumns+` FROM team_seen ORDER BY key`)
}

// SaveSeenClaims implements team.Journal.
func (t Team) SaveSeenClaims(ctx context.Context, all []team.Seen) error {
	return t.update(ctx, "store the claims of other machines", full, func(x tx) error {
		if err := x.run(`DELETE FROM team_seen`); err != nil {
			return err
		}
		for _, s := range all {
			err := x.run(`INSERT INTO team_seen (`+seenColumns+`) VALUES (`+marks(seenColumns)+`)`,
				seenFields(&s)...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RefusalsKey is the key of the claims that the remote refused lately: JSON.
const RefusalsKey = "team_refusals"

// Refusals implements team.Journal.
func (t Team) Refusals(ctx context.Context) (all []team.Refusal, err error) {
	stored, isThere, err := t.Meta(ctx, RefusalsKey)
	if err != nil || !isThere {
		return nil, err
	}
	_ = json.Unmarshal([]byte(stored), &all) // what can't be read is forgotten
	return all, nil
}

// SaveRefusals implements team.Journal.
func (t Team) SaveRefusals(ctx context.Context, all []team.Refusal) error {
	stored, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return t.SetMeta(ctx, RefusalsKey, string(stored))
}
