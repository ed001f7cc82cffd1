package team

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Listed is a claim of the remote, as this machine sees it.
type Listed struct {
	Entry
	// Claim is its content; Problem says why that is none.
	Claim   Claim
	Problem error
	// IsOurs: this machine has it.
	IsOurs bool
	// Until is when the claim ends unless its holder renews it, by the clock of this machine. A claim
	// that this machine sees for the first time is counted from now.
	Until time.Time
}

// Ended reports whether the claim has ended, so that another machine may take it.
func (l Listed) Ended(now time.Time) bool { return !now.Before(l.Until) }

// List looks at the remote once, and returns all its claims in the order of their keys, those of other
// projects of the tracker included. It stores nothing.
func (m *Member) List(ctx context.Context) ([]Listed, error) {
	b, err := m.openAll(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := m.Remote.Look(ctx)
	if err != nil {
		return nil, err
	}
	// a worker of this machine may have renewed a claim meanwhile
	if err := b.readOwn(ctx); err != nil {
		return nil, err
	}
	var list []Listed
	for _, e := range entries {
		list = append(list, b.listed(e))
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// Stored returns the claims of other machines as this one saw them last, in the order of their keys. It
// makes no request.
func (m *Member) Stored(ctx context.Context) ([]Listed, error) {
	b, err := m.openAll(ctx)
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, s := range b.seen {
		list = append(list, b.listed(s.Entry))
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// listed describes a claim of the remote.
func (b *book) listed(e Entry) Listed {
	l := Listed{Entry: e}
	l.Claim, l.Problem = e.Claim()
	for _, own := range b.own {
		if own.Key == e.Key && own.LostTo == "" && own.wrote(e.Content) {
			l.IsOurs = true
			l.Until = b.Now().Add(b.timeLeft(own))
			return l
		}
	}
	s := b.sighted(e, b.Clock())
	l.Until = s.FirstAt.Add(b.ends(s))
	return l
}

// CodeChanged is the code of an error if a claim is not any more what the operator saw.
const CodeChanged = "status_changed"

// Release lets any machine take a claim that List has returned, whoever has it, if it is still the same.
// The claim becomes free, and says still what was delivered, so that the next machine goes on from there.
// What is free already or no claim is deleted.
func (m *Member) Release(ctx context.Context, e Entry) error {
	m.busy.Lock()
	defer m.busy.Unlock()
	b, err := m.open(ctx)
	if err != nil {
		return err
	}
	results, err := m.Remote.Change(ctx, []Change{{Key: e.Key, Old: e.Object, New: m.released(e)}})
	if err != nil {
		return err
	}
	if why := results[e.Key].Refused; why != "" {
		return reconcile.NewError(
			CodeChanged,
			"the remote did not release the claim: "+why,
			"symphony machines shows who has it now",
		)
	}
	return b.look(ctx) // so that this machine no longer takes it for one that holds
}

// released is the content of a claim after its release; empty if it is deleted.
func (m *Member) released(e Entry) string {
	c, err := e.Claim()
	if err != nil || c.Status == Free {
		return ""
	}
	c.Released = c.Token
	c.Token = m.NewToken()
	c.Status = Free
	return c.Content()
}
