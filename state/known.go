package state

import (
	"context"
	"sync"

	"github.com/symphony-cron/symphony/reconcile"
)

// knownClaims are the claims of a database as a view of this process read them last, by the ids of their issues.
type knownClaims struct {
	mu     sync.Mutex
	claims map[string]knownClaim
}

type knownClaim struct {
	stamp string // changes with the claim
	reconcile.Claim
}

var known sync.Map // *knownClaims by directory

// View is State for readers that change nothing of it. A server reads thousands of claims again and again, few of which have changed: it
// reads only those.
func (s Store) View(ctx context.Context) (all reconcile.State, err error) {
	entry, _ := known.LoadOrStore(s.dir, &knownClaims{})
	cache := entry.(*knownClaims)
	cache.mu.Lock()
	defer cache.mu.Unlock()
	err = s.view(ctx, "read the state", func(t tx) error {
		stamps, err := rows(t, func(s *[2]string) []any { return []any{&s[0], &s[1]} }, `SELECT issue_id,
			concat_ws(' ', version, updated_at, claimed_at, hold_comment_at, project) FROM claims ORDER BY issue_id`)
		if err != nil {
			return err
		}
		changed := []string{}
		for _, s := range stamps {
			if cache.claims[s[0]].stamp != s[1] {
				changed = append(changed, s[0])
			}
		}
		read, err := rows(t, claimFields, `SELECT `+claimColumns+` FROM claims WHERE issue_id IN (SELECT value FROM json_each(?))`, jsonOf(changed))
		if err != nil {
			return err
		}
		fresh := make(map[string]reconcile.Claim, len(read))
		for _, c := range read {
			fresh[c.IssueID] = c
		}
		next := make(map[string]knownClaim, len(stamps))
		all.Claims = make([]reconcile.Claim, 0, len(stamps))
		for _, s := range stamps {
			c, is := fresh[s[0]]
			if !is {
				c = cache.claims[s[0]].Claim
			}
			next[s[0]] = knownClaim{s[1], c}
			all.Claims = append(all.Claims, c)
		}
		cache.claims = next
		return readRecords(t, s.dir, &all)
	})
	return all, err
}
