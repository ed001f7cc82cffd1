package state

import (
	"context"
	"time"

	"github.com/symphony-cron/symphony/team"
)

const ownColumns = `issue_id, identifier, key, version, content, object, tried,
	renewed_boot, renewed_at, tried_boot, tried_at, lost_to`

func ownFields(o *team.Own) []any {
	return []any{
		&o.ID, &o.Identifier, &o.Key, &o.Version, &o.Content, &o.Object, jsonOf(&o.Tried),
		&o.Renewed.Boot, nanosOf(&o.Renewed.Since), &o.TriedAt.Boot, nanosOf(&o.TriedAt.Since), &o.LostTo,
	}
}

// nanosOf stores a time in nanoseconds.
func nanosOf(d *time.Duration) field {
	return fieldOf(func(ns int64) { *d = time.Duration(ns) }, func() any { return int64(*d) })
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

const seenColumns = `key, object, content, first_boot, first_at, seen_at`

func seenFields(s *team.Seen) []any {
	return []any{
		&s.Key, &s.Object, &s.Content, &s.First.Boot, nanosOf(&s.First.Since), stampOf(&s.FirstAt),
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
