package team

import (
	"context"
	"errors"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// undeletable is a remote that fails to delete, such as one with receive.denyDeletes.
type undeletable struct{ *link }

func (u undeletable) Change(ctx context.Context, changes []Change) (map[string]Changed, error) {
	for _, c := range changes {
		if c.New == "" {
			return nil, errors.New("deleting is not allowed")
		}
	}
	return u.link.Change(ctx, changes)
}

func TestRenewalBesideARefusedDeletion(t *testing.T) {
	w := newWorld(1)
	m := w.member(0, arrives)
	m.Remote = undeletable{&link{w, 0, arrives}}
	finished := Issue{ID: "id-2", Identifier: "WEB-2"}
	test.Must(m.Take(t.Context(), []Issue{theIssue, finished}))
	before := w.remote[m.key(theIssue)].Object
	w.now += terms.Term
	err := m.Settle(t.Context(), []Keep{{Issue: theIssue, Status: Working}})
	test.Equal(t, "the deletion failed", err != nil, true)
	test.Equal(t, "the claim was renewed", w.remote[m.key(theIssue)].Object != before, true)
}

// Somebody has copied a claim to another reference. The issue is free as soon as its own claim is.
func TestCopyOfAClaim(t *testing.T) {
	w := newWorld(2)
	holder := w.member(0, arrives)
	other := w.member(1, arrives)
	test.Must(holder.Take(t.Context(), []Issue{theIssue}))
	c := w.remote[holder.key(theIssue)]
	c.Key = "backup"
	w.remote[c.Key] = c
	test.OK(t, holder.Settle(t.Context(), nil))
	test.OK(t, other.Look(t.Context()))
	others, _, err := other.Known(t.Context())
	test.OK(t, err)
	test.Equal(t, "issues of others", len(others), 0)
	w.now += 2 * terms.Term
	ended := test.Must(other.Ended(t.Context()))
	test.Equal(t, "ended claims", len(ended), 0)
	listed := test.Must(other.List(t.Context()))
	test.Equal(t, "claims", len(listed), 1)
	test.Contains(t, "problem", listed[0].Problem.Error(), "it is a copy of the claim of WEB-1")
}
