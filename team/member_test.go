package team

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	before := w.remote[w.keyOf(theIssue)].Object
	w.now += terms.Term
	err := m.Settle(t.Context(), []Keep{{Issue: theIssue, Status: Working}})
	test.Equal(t, "the deletion failed", err != nil, true)
	test.Equal(t, "the claim was renewed", w.remote[w.keyOf(theIssue)].Object != before, true)
}

// unrenewable is a remote that refuses to replace a claim.
type unrenewable struct{ *link }

func (u unrenewable) Change(ctx context.Context, changes []Change) (map[string]Changed, error) {
	refused := map[string]Changed{}
	for _, c := range changes {
		if c.New != "" {
			refused[c.Key] = Changed{Refused: "hook declined"}
			continue
		}
		results, err := u.link.Change(ctx, []Change{c})
		if err != nil {
			return nil, err
		}
		refused[c.Key] = results[c.Key]
	}
	return refused, nil
}

func TestDeletionBesideARefusedRenewal(t *testing.T) {
	w := newWorld(1)
	m := w.member(0, arrives)
	finished := Issue{ID: "id-2", Identifier: "WEB-2"}
	test.Must(m.Take(t.Context(), []Issue{theIssue, finished}))
	m.Remote = unrenewable{&link{w, 0, arrives}}
	w.now += terms.Term / 2
	err := m.Settle(t.Context(), []Keep{{Issue: theIssue, Status: Working}})
	test.Equal(t, "the renewal was refused", isCode(err, CodeRefused), true)
	_, isThere := w.remote[w.keyOf(finished)]
	test.Equal(t, "the claim of the finished issue is there", isThere, false)
}

// Somebody has copied a claim to another reference. The issue is free as soon as its own claim is.
func TestCopyOfAClaim(t *testing.T) {
	w := newWorld(2)
	holder := w.member(0, arrives)
	other := w.member(1, arrives)
	test.Must(holder.Take(t.Context(), []Issue{theIssue}))
	c := w.remote[w.keyOf(theIssue)]
	c.Key = "backup"
	w.remote[c.Key] = c
	test.OK(t, holder.Settle(t.Context(), nil))
	test.OK(t, other.Look(t.Context()))
	known := test.Must(other.Known(t.Context()))
	test.Equal(t, "issues of others", len(known.Others), 0)
	w.now += 2 * terms.Term
	ended := test.Must(other.Ended(t.Context()))
	test.Equal(t, "ended claims", len(ended), 0)
	listed := test.Must(other.List(t.Context()))
	test.Equal(t, "claims", len(listed), 1)
	test.Contains(t, "problem", listed[0].Problem.Error(), "it is a copy of the claim of WEB-1")
}

// readOnly is a remote that can be read, and at which every push breaks.
type readOnly struct{ *link }

func (readOnly) Change(context.Context, []Change) (map[string]Changed, error) { return nil, errLink }

// What was tried does not grow for ever, and the claim is renewed as soon as that is possible.
func TestRenewalsInVain(t *testing.T) {
	for name, vain := range map[string]func(*world, *Member){
		"a remote that can't be reached": func(w *world, m *Member) { m.Remote = &link{w, 0, cut} },
		"a remote that can be read":      func(w *world, m *Member) { m.Remote = readOnly{&link{w, 0, arrives}} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			test.Must(w.member(0, arrives).Take(t.Context(), []Issue{theIssue}))
			w.now += terms.Term / 2
			keep := Keep{Issue: theIssue, Status: Working}
			_, err := w.member(0, unheard).Renew(t.Context(), keep)
			test.Equal(t, "the first renewal fails", errors.Is(err, errLink), true)
			m := w.member(0, arrives)
			vain(w, m)
			w.now += terms.Term / 2
			for range 50 {
				_, err := m.Renew(t.Context(), keep)
				test.Equal(t, "a renewal fails", errors.Is(err, errLink), true)
			}
			tried := len(w.machines[0].own[theIssue.ID].Tried)
			test.Equal(t, "tries are bounded", tried <= maxTried, true)
			left, err := w.member(0, arrives).Renew(t.Context(), keep)
			test.OK(t, err)
			test.Equal(t, "left", left, terms.Term-Margin(terms.Term))
			test.Equal(t, "tried", len(w.machines[0].own[theIssue.ID].Tried), 0)
		})
	}
}

// overtaking is the database of a machine of which another process writes first.
type overtaking struct {
	*memory
	first func()
}

func (o *overtaking) SaveOwnClaims(ctx context.Context, claims []Own) ([]Own, error) {
	first := o.first
	o.first = func() {}
	first()
	return o.memory.SaveOwnClaims(ctx, claims)
}

// Another process of the machine renews or deletes a claim after this one has read it. What this one
// could not store, it does not push.
func TestTwoProcessesOfAMachine(t *testing.T) {
	keep := Keep{Issue: theIssue, Status: Working}
	for name, first := range map[string]func(*Member) error{
		"renews":  func(m *Member) error { return m.Settle(t.Context(), []Keep{keep}) },
		"deletes": func(m *Member) error { return m.Settle(t.Context(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1)
			test.Must(w.member(0, arrives).Take(t.Context(), []Issue{theIssue}))
			w.now += terms.Term / 2
			m := w.member(0, arrives)
			m.Journal = &overtaking{
				memory: &memory{&w.machines[0]},
				first:  func() { test.OK(t, first(w.member(0, arrives))) },
			}
			left, err := m.Renew(t.Context(), keep)
			if name == "deletes" {
				test.Equal(t, "lost", IsLost(err), true)
				test.Equal(t, "claims", len(w.remote), 0)
				return
			}
			test.OK(t, err)
			test.Equal(t, "left", left, terms.Term-Margin(terms.Term))
			test.Equal(t, "pushes", w.objects, 2)
		})
	}
}

// A laptop is on for eight hours a day, and looks each hour. It takes a review over that nobody has
// answered for the term and a tenth of it, in which it was on: on the fourth day.
func TestTakeoverOverBoots(t *testing.T) {
	w := newWorld(2)
	test.Must(w.member(0, arrives).TakeForReview(t.Context(), []Issue{theIssue}))
	var ended []string
	for day := range 5 {
		w.machines[1].boots++
		w.machines[1].booted = w.now
		for range 8 {
			test.OK(t, w.member(1, arrives).Look(t.Context()))
			w.now += time.Hour
		}
		if len(test.Must(w.member(1, arrives).Ended(t.Context()))) > 0 {
			ended = append(ended, fmt.Sprint(day+1))
		}
		w.now += 16 * time.Hour
	}
	test.Equal(t, "days on which it has ended", ended, []string{"4", "5"})
	not := test.Must(w.member(1, arrives).TakeForReview(t.Context(), []Issue{theIssue}))
	test.Equal(t, "not taken", not.Has(theIssue.ID), false)
	test.Equal(t, "the holder", w.holder(w.keyOf(theIssue)), nameOf(1))
}

// delivered is an issue for which commits were delivered.
func delivered(s Status) []Keep {
	return []Keep{{Issue: theIssue, Status: s, Branch: "symphony/WEB-1", Commit: "c0ffee"}}
}

// A machine has made its claim free. Another one takes it at once, with what was delivered, and the
// first one learns that.
func TestFreeClaim(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	second := w.member(1, arrives)
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	test.OK(t, first.Settle(t.Context(), delivered(Free)))
	w.now += 100 * terms.Watch // it never ends
	free := w.remote[w.keyOf(theIssue)]
	test.OK(t, first.Settle(t.Context(), delivered(Free)))
	test.Equal(t, "object", w.remote[w.keyOf(theIssue)].Object, free.Object)
	test.OK(t, second.Look(t.Context()))
	known := test.Must(second.Known(t.Context()))
	test.Equal(t, "issues of others", len(known.Others), 0)
	ended := test.Must(second.Ended(t.Context()))
	test.Equal(t, "claims to take", len(ended), 1)
	not := test.Must(second.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "not taken", not.Has(theIssue.ID), false)
	c, isHeld, err := second.Held(t.Context(), theIssue.ID)
	test.OK(t, err)
	test.Equal(t, "held", isHeld, true)
	test.Equal(t, "branch and commit", c.Branch+" "+c.Commit, "symphony/WEB-1 c0ffee")
	not = test.Must(first.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "holder", not.Elsewhere[theIssue.ID].Holder, "machine-1")
}

// A machine saw that another one waits for the review of an issue. The issue is sent back, and its claim is
// free: the machine asks the remote five minutes after its last look, not after a day.
func TestFreeClaimOfAReview(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	second := w.member(1, arrives)
	isElsewhere := func() bool {
		t.Helper()
		return !test.Must(second.Known(t.Context())).Others[theIssue.ID].MayBeFree
	}
	test.Must(first.TakeForReview(t.Context(), []Issue{theIssue}))
	test.OK(t, first.Settle(t.Context(), delivered(Watching)))
	test.OK(t, second.Look(t.Context()))
	test.OK(t, first.Settle(t.Context(), delivered(Free)))
	w.now += 4 * time.Minute
	test.Equal(t, "elsewhere after four minutes", isElsewhere(), true)
	w.now += time.Minute
	test.Equal(t, "elsewhere after five minutes", isElsewhere(), false)
	not := test.Must(second.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "not taken", not.Has(theIssue.ID), false)
}

// As long as the other machine waits for the review, one look in five minutes says so.
func TestLooksAtAReview(t *testing.T) {
	w := newWorld(2)
	test.Must(w.member(0, arrives).TakeForReview(t.Context(), []Issue{theIssue}))
	second := w.member(1, arrives)
	looks := &counting{link: &link{w, 1, arrives}}
	second.Remote = looks
	test.OK(t, second.Look(t.Context()))
	for range 20 {
		w.now += time.Minute
		if !test.Must(second.Known(t.Context())).Others[theIssue.ID].MayBeFree {
			continue
		}
		not := test.Must(second.Take(t.Context(), []Issue{theIssue}))
		test.Equal(t, "holder", not.Elsewhere[theIssue.ID].Holder, "machine-0")
	}
	test.Equal(t, "looks in twenty minutes", looks.n, 1+4)
	test.Equal(t, "pushes", w.objects, 1)
}

// counting is a remote whose looks are counted.
type counting struct {
	*link
	n int
}

func (c *counting) Look(ctx context.Context) ([]Entry, error) {
	c.n++
	return c.link.Look(ctx)
}

// A claim names the branch to which its machine delivered. An issue of another project must not be
// delivered there.
func TestBranchOfAnotherIssue(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	second := w.member(1, arrives)
	second.Project = "https://tracker.example ops"
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	isOthers := func(m *Member, branch string, i Issue) bool {
		t.Helper()
		test.OK(t, m.Look(t.Context()))
		_, isOthers, err := m.OtherIssueOn(t.Context(), branch, i)
		test.OK(t, err)
		return isOthers
	}
	test.Equal(t, "before the first delivery", isOthers(second, "symphony/WEB-1", anotherIssue), false)
	test.OK(t, first.Settle(t.Context(), delivered(Watching)))
	test.Equal(t, "afterwards", isOthers(second, "symphony/WEB-1", anotherIssue), true)
	test.Equal(t, "another branch", isOthers(second, "symphony/WEB-2", anotherIssue), false)
	test.Equal(t, "for the issue itself", isOthers(first, "symphony/WEB-1", theIssue), false)
}

// A machine that has never looked finds that another one has left an issue, and takes it at once.
func TestFirstLookFindsAFreeClaim(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	test.OK(t, first.Settle(t.Context(), delivered(Free)))
	second := w.member(1, arrives)
	not := test.Must(second.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "refused", not.Refused[theIssue.ID], nil)
	c, isHeld, err := second.Held(t.Context(), theIssue.ID)
	test.OK(t, err)
	test.Equal(t, "held", isHeld, true)
	test.Equal(t, "branch", c.Branch, "symphony/WEB-1")
}

// The settings of two machines name one project in two ways. The issue is the same, and so is its claim.
func TestProjectSpelledInTwoWays(t *testing.T) {
	w := newWorld(2)
	test.Must(w.member(0, arrives).Take(t.Context(), []Issue{theIssue}))
	second := w.member(1, arrives)
	second.Project = "https://10.0.0.7 web"
	there := Issue{ID: "acme/shop#1", Identifier: "shop-1", Origin: theIssue.Origin}
	not := test.Must(second.Take(t.Context(), []Issue{there}))
	test.Equal(t, "holder", not.Elsewhere[there.ID].Holder, "machine-0")
	known := test.Must(second.Known(t.Context()))
	test.Equal(t, "known without a request", known.Others[theIssue.Origin].Holder, "machine-0")
	test.Equal(t, "lost", IsLost(second.Check(t.Context(), there)), true)
}

// The machine that has made its claim free takes it again, as any other would.
func TestFreeClaimTakenAgain(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	test.OK(t, first.Settle(t.Context(), delivered(Free)))
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	second := w.member(1, arrives)
	not := test.Must(second.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "holder", not.Elsewhere[theIssue.ID].Holder, "machine-0")
	test.Equal(t, "status", not.Elsewhere[theIssue.ID].Status, Working)
}

// A person releases the claim of a machine that has delivered. What was delivered is not forgotten, and
// the machine takes the claim again if it still lives.
func TestReleaseKeepsWhatWasDelivered(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	second := w.member(1, arrives)
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	test.OK(t, first.Settle(t.Context(), delivered(Working)))
	test.OK(t, second.Release(t.Context(), w.remote[w.keyOf(theIssue)]))
	c := test.Must(w.remote[w.keyOf(theIssue)].Claim())
	test.Equal(t, "claim", string(c.Status)+" "+c.Branch, "free symphony/WEB-1")
	alone := w.clone()
	test.OK(t, first.Confirm(t.Context(), delivered(Working)[0]))
	test.OK(t, first.Settle(t.Context(), delivered(Working)))
	c = test.Must(w.remote[w.keyOf(theIssue)].Claim())
	test.Equal(t, "status after the renewal", c.Status, Working)
	test.Equal(t, "holder", c.Machine, "machine-0")
	not := test.Must(alone.member(1, arrives).Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "not taken without the renewal", not.Has(theIssue.ID), false)
	err := alone.member(0, arrives).Confirm(t.Context(), delivered(Working)[0])
	test.Equal(t, "lost to the second machine", IsLost(err), true)
}

// The claims of a machine that was off for a week are gone. It creates the claim of a review again, on
// which no agent works. An issue that it worked on is lost: another machine may have finished it.
func TestClaimsGoneWhileOff(t *testing.T) {
	for _, row := range []struct {
		status Status
		lost   int
		claims int
	}{
		{Watching, 0, 1},
		{Working, 1, 0},
		{Free, 1, 0},
	} {
		w := newWorld(1)
		m := w.member(0, arrives)
		test.Must(m.Take(t.Context(), []Issue{theIssue}))
		test.OK(t, m.Settle(t.Context(), delivered(row.status)))
		clear(w.remote)
		w.now += 7 * terms.Watch
		test.OK(t, m.Look(t.Context()))
		lost := test.Must(m.Known(t.Context())).Lost
		test.Equal(t, string(row.status)+": lost", len(lost), row.lost)
		test.OK(t, m.Settle(t.Context(), delivered(row.status)))
		test.Equal(t, string(row.status)+": claims", len(w.remote), row.claims)
	}
}

// All claims are listed, with whose they are and until when they hold, as far as this machine has seen.
func TestList(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	second := w.member(1, arrives)
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	test.Must(second.TakeForReview(t.Context(), []Issue{anotherIssue}))
	w.remote["garbage"] = Entry{Key: "garbage", Object: "object", Content: "written by hand"}
	w.now += terms.Term / 4
	list := func(m *Member) string {
		t.Helper()
		var lines []string
		for _, l := range test.Must(m.List(t.Context())) {
			left := l.Until.Sub(m.Now())
			lines = append(lines, fmt.Sprint(l.Claim.Identifier, " ", l.Claim.Machine, " ", l.IsOurs, " ", left))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	// the margin is off for one's own, and the grace is added for others
	test.Equal(t, "the first machine", list(first),
		"  false 22m0s\nWEB-1 machine-0 true 13m0s\nWEB-2 machine-1 false 26h24m0s")
	test.OK(t, second.Look(t.Context()))
	w.now += terms.Term / 4
	test.Equal(t, "the second machine, which has looked", list(second),
		"  false 17m0s\nWEB-1 machine-0 false 12m0s\nWEB-2 machine-1 true 21h26m0s")
	test.Equal(t, "listing stores nothing", len(w.machines[0].seen), 0)
	second.Remote = &link{w, 1, cut}
	test.Equal(t, "without the remote", errors.Is(test.Err(second.List(t.Context())), errLink), true)
}

// A claim is released only if it is still what the operator saw.
func TestRelease(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	second := w.member(1, arrives)
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	seen := w.remote[w.keyOf(theIssue)]
	w.now += terms.Term / 2
	_, err := first.Renew(t.Context(), Keep{Issue: theIssue, Status: Working})
	test.OK(t, err)
	test.Equal(t, "renewed since", isCode(second.Release(t.Context(), seen), CodeChanged), true)
	test.Equal(t, "the holder", w.holder(seen.Key), nameOf(0))

	test.OK(t, second.Release(t.Context(), w.remote[seen.Key]))
	free := test.Must(w.remote[seen.Key].Claim())
	test.Equal(t, "status", free.Status, Free)
	not := test.Must(second.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "not taken", not.Has(theIssue.ID), false)
	_, err = first.Renew(t.Context(), Keep{Issue: theIssue, Status: Working})
	test.OK(t, err) // half its term is left, and it has not looked
	w.now += terms.Term / 2
	_, err = first.Renew(t.Context(), Keep{Issue: theIssue, Status: Working})
	test.Equal(t, "lost", IsLost(err), true)
}

// A person releases the claim of a machine that lives, and another one finishes the issue before the first
// one renews. The first one loses the claim. Nothing is left of it when its term is over.
func TestReleasedAndFinishedElsewhere(t *testing.T) {
	for _, looks := range []bool{false, true} {
		w := newWorld(2)
		first := w.member(0, arrives)
		second := w.member(1, arrives)
		test.Must(first.Take(t.Context(), []Issue{theIssue}))
		test.OK(t, second.Release(t.Context(), w.remote[w.keyOf(theIssue)]))
		if looks {
			test.OK(t, first.Look(t.Context()))
		}
		test.Must(second.Take(t.Context(), []Issue{theIssue}))
		test.OK(t, second.Settle(t.Context(), nil))
		w.now += terms.Term / 2
		_, err := first.Renew(t.Context(), Keep{Issue: theIssue, Status: Working})
		test.Equal(t, "lost", IsLost(err), true)
		test.OK(t, first.Settle(t.Context(), nil))

		test.Equal(t, "to end after half a term", len(test.Must(second.Ended(t.Context()))), 0)
		w.now += terms.Term
		test.OK(t, second.Look(t.Context()))
		test.Equal(t, "to end after a term", len(test.Must(second.Ended(t.Context()))), 1)
		not := test.Must(second.TakeForReview(t.Context(), []Issue{theIssue}))
		test.Equal(t, "not taken", not.Has(theIssue.ID), false)
		test.OK(t, second.Settle(t.Context(), nil))
		test.Equal(t, "claims", len(w.remote), 0)
	}
}

// An agent begins to work on what waited for its review, and the answer to that push is lost. The claim
// in the remote may have the shorter term already.
func TestShorterTermWithoutAnAnswer(t *testing.T) {
	w := newWorld(1)
	test.Must(w.member(0, arrives).TakeForReview(t.Context(), []Issue{theIssue}))
	left, err := w.member(0, unheard).Renew(t.Context(), Keep{Issue: theIssue, Status: Working})
	test.Equal(t, "the answer is lost", errors.Is(err, errLink), true)
	test.Equal(t, "left", left, terms.Term-Margin(terms.Term))
}

// What the remote refused is known for five minutes, and not tried again meanwhile.
func TestRefusalsAreRemembered(t *testing.T) {
	w := newWorld(1)
	m := w.member(0, arrives)
	m.Remote = unrenewable{&link{w, 0, arrives}}
	refused := func() string { return test.Must(m.Known(t.Context())).Refused[theIssue.ID] }
	not := test.Must(m.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "refused", not.Has(theIssue.ID), true)
	test.Contains(t, "why", refused(), "hook declined")
	w.now += 5 * time.Minute
	test.Equal(t, "after five minutes", refused(), "")
	test.Must(m.Take(t.Context(), []Issue{theIssue}))
	test.Contains(t, "why it is refused again", refused(), "hook declined")
	m.Remote = &link{w, 0, arrives}
	not = test.Must(m.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "not taken", not.Has(theIssue.ID), false)
	test.Equal(t, "once it is taken", refused(), "")
}

// A push hangs for longer than the term of its claim, which a person has deleted, and arrives then. The
// claim is this machine's again: it does not wait for itself.
func TestPushThatArrivesAfterItsTerm(t *testing.T) {
	w := newWorld(2)
	first := w.member(0, arrives)
	test.Must(first.Take(t.Context(), []Issue{theIssue}))
	clear(w.remote)
	test.OK(t, first.Look(t.Context()))
	_, err := w.member(0, hangs).Renew(t.Context(), Keep{Issue: theIssue, Status: Working})
	test.Equal(t, "the push hangs", errors.Is(err, errLink), true)
	w.now += terms.Term
	test.OK(t, first.Look(t.Context()))
	test.Equal(t, "lost", len(test.Must(first.Known(t.Context())).Lost), 1)
	land.do(w)
	test.OK(t, first.Look(t.Context()))
	known := test.Must(first.Known(t.Context()))
	test.Equal(t, "lost once it has arrived", len(known.Lost), 0)
	test.Equal(t, "claims of others", len(known.Others), 0)
	not := test.Must(first.Take(t.Context(), []Issue{theIssue}))
	test.Equal(t, "not taken", not.Has(theIssue.ID), false)
}
