package state

import (
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/team"
)

func TestTeamClaims(t *testing.T) {
	db := newState(t)
	since := team.Instant{Boot: "boot-1", Since: time.Hour}
	own := team.Own{
		Issue:   team.Issue{ID: "id-1", Identifier: "ABC-1"},
		Renewed: since,
		Key:     "3f2a9c1b04de55aa10c7",
		Tried:   []team.Try{{Content: "one", At: since}, {Content: "two", At: since}},
	}
	stored := test.Must(db.Team.SaveOwnClaims(ctx, []team.Own{own}))
	own.Version = 1
	test.Equal(t, "a new claim", stored, []team.Own{own})

	changed := own
	changed.LostTo = "ann on buildhost"
	stored = test.Must(db.Team.SaveOwnClaims(ctx, []team.Own{changed}))
	changed.Version = 2
	test.Equal(t, "a changed claim", stored, []team.Own{changed})

	late := own // another process changed the row since this one was read
	late.Content = "content"
	stored = test.Must(db.Team.SaveOwnClaims(ctx, []team.Own{late}))
	test.Equal(t, "after a late change", stored, []team.Own{changed})

	test.OK(t, db.Team.DropOwnClaims(ctx, []string{"id-1", "id-2"}))
	stored = test.Must(db.Team.SaveOwnClaims(ctx, []team.Own{changed}))
	test.Equal(t, "a change of a claim that was dropped", len(stored), 0)
}
