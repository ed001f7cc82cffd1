package repository

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// claimLayouts are the ways to keep claims: as references, and on a branch.
var claimLayouts = map[string]string{"references": "", "branch": "symphony-claims"}

// eachLayout runs a test with each way to keep claims.
func eachLayout(t *testing.T, do func(t *testing.T, branch string)) {
	t.Helper()
	t.Parallel()
	for name, branch := range claimLayouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do(t, branch)
		})
	}
}

// claimsOn returns the claims of the remote as a machine sees them that has a directory of mirrors
// of its own.
func (p *place) claimsOn(machine, branch string) *Claims {
	p.t.Helper()
	inherit := func(files ...*os.File) []*os.File { return files }
	remote := host.Repository{URL: p.remote}
	return NewClaims(filepath.Join(p.dir, machine), remote, p.env, inherit, branch)
}

// claimOf is a claim of a machine.
func claimOf(machine string, renewed int) team.Claim {
	return team.Claim{
		Token:      fmt.Sprint("token ", renewed, " of ", machine),
		Machine:    machine,
		Account:    "ann",
		IssueID:    "id-1",
		Identifier: "WEB-1",
		Status:     team.Working,
		Renewed:    time.Unix(int64(renewed), 0).UTC(),
		TermMS:     60_000,
	}
}

// change carries a single change out.
func change(t *testing.T, c *Claims, one team.Change) team.Changed {
	t.Helper()
	return test.Must(c.Change(t.Context(), []team.Change{one}))[one.Key]
}

// look returns the claims of the remote as lines with the key, the object and the content.
func look(t *testing.T, c *Claims) string {
	t.Helper()
	var lines []string
	for _, e := range test.Must(c.Look(t.Context())) {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Key, e.Object, strings.TrimSpace(e.Content)))
	}
	return strings.Join(lines, "\n")
}

func TestClaims(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		a := p.claimsOn("a", branch)
		b := p.claimsOn("b", branch)
		test.Equal(t, "at first", look(t, a), "")
		first := claimOf("a", 1).Content()
		made := change(t, a, team.Change{Key: "WEB-1", New: first})
		test.Equal(t, "refused", made.Refused, "")
		test.Equal(t, "seen by b", look(t, b), "WEB-1 "+made.Object+" "+strings.TrimSpace(first))

		// b is late, once in vain and once beside a change that is carried out
		late := team.Change{Key: "WEB-1", New: claimOf("b", 2).Content()}
		test.Equal(t, "late", change(t, b, late), team.Changed{Refused: "stale info"})
		results := test.Must(b.Change(t.Context(), []team.Change{
			late, {Key: "WEB-2", New: claimOf("b", 3).Content()},
		}))
		test.Equal(t, "late again", results["WEB-1"], team.Changed{Refused: "stale info"})
		test.Equal(t, "another issue", results["WEB-2"].Refused, "")

		// the same content is refused, and another one replaces it
		again := team.Change{Key: "WEB-1", Old: made.Object, New: first}
		test.Equal(t, "the same", change(t, a, again), team.Changed{Refused: "the content is the same"})
		renewed := claimOf("a", 4).Content()
		second := change(t, a, team.Change{Key: "WEB-1", Old: made.Object, New: renewed})
		test.Equal(t, "renewed", second.Refused, "")
		test.Equal(t, "all", look(t, b),
			"WEB-1 "+second.Object+" "+strings.TrimSpace(renewed)+"\n"+
				"WEB-2 "+results["WEB-2"].Object+" "+strings.TrimSpace(claimOf("b", 3).Content()))

		// a claim is deleted once
		deletion := team.Change{Key: "WEB-1", Old: second.Object}
		test.Equal(t, "deleted", change(t, b, deletion), team.Changed{})
		test.Equal(t, "deleted again", change(t, a, deletion), team.Changed{Refused: "stale info"})
		test.Equal(t, "never there", change(t, a, team.Change{Key: "WEB-9", Old: second.Object}).Refused, "stale info")
		test.Contains(t, "the rest", look(t, a), "WEB-2 "+results["WEB-2"].Object)
		test.Lacks(t, "the rest", look(t, a), "WEB-1 ")

		test.OK(t, a.Try(t.Context()))
		test.Lacks(t, "after a trial", look(t, a), "try-")
		test.Equal(t, "main", p.sh("git -C remote.git rev-list --count main"), "1")
		test.Equal(t, "no mirror", p.sh("ls -d a/*.git 2>/dev/null || true"), "")
	})
}

// Of several machines that claim an issue, renew a claim or take it from a dead machine at the same
// moment, one succeeds.
func TestClaimsAtOnce(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		old := ""
		for round := range 3 {
			var all sync.WaitGroup
			results := make([]team.Changed, 6)
			errs := make([]error, len(results))
			for i := range results {
				machine := fmt.Sprintf("m%d", i)
				c := p.claimsOn(machine, branch)
				next := team.Change{Key: "WEB-1", Old: old, New: claimOf(machine, round).Content()}
				all.Go(func() {
					made, err := c.Change(context.WithoutCancel(t.Context()), []team.Change{next})
					results[i] = made["WEB-1"]
					errs[i] = err
				})
			}
			all.Wait()
			var won []string
			for i, r := range results {
				test.OK(t, errs[i])
				if r.Refused == "" {
					won = append(won, r.Object)
				}
			}
			test.Equal(t, "winners", len(won), 1)
			old = won[0]
			test.Contains(t, "the claims", look(t, p.claimsOn("m0", branch)), "WEB-1 "+old)
		}
	})
}

// fenced is the answer of a delivery with a change of a claim.
type fenced struct {
	host.DeliverAnswer
	Claim string // the object of the claim that was pushed; empty if nothing was pushed
}

// deliverWith delivers the workspace one with a change of a claim.
func (p *place) deliverWith(branch, delivered string, claim team.Change) (answer fenced, err error) {
	p.t.Helper()
	answer.DeliverAnswer, err = p.deliverFenced(branch, delivered, func(_ context.Context, push host.PushFenced) error {
		object, err := push(claim)
		answer.Claim = object
		return err
	})
	return answer, err
}

// deliverFenced delivers the workspace one with a fence.
func (p *place) deliverFenced(
	branch, delivered string,
	fence func(context.Context, host.PushFenced) error,
) (host.DeliverAnswer, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), test.Patience())
	defer cancel()
	workspace := filepath.Join(p.dir, "one")
	return p.mirror().DeliverWorkspace(ctx, workspace, host.Origin{URL: p.remote}, host.DeliverRequest{
		Branch:       "work/one",
		Delivered:    delivered,
		Fence:        fence,
		ClaimsBranch: branch,
	})
}

// at returns the commit of a branch of the remote, empty if there is none.
func (p *place) at(branch string) string {
	return p.sh("git -C remote.git for-each-ref --format='%(objectname)' refs/heads/" + branch)
}

// A delivery pushes the branch and the claim, or nothing.
func TestFence(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		c := p.claimsOn("a", branch)
		other := p.claimsOn("b", branch)
		p.mustClone("one")
		held := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()}).Object

		// nothing to push
		next := team.Change{Key: "WEB-1", Old: held, New: claimOf("a", 2).Content()}
		answer := test.Must(p.deliverWith(branch, "", next))
		test.Equal(t, "commits, claim", fmt.Sprintf("%d %q", answer.Commits, answer.Claim), `0 ""`)
		test.Contains(t, "the claim", look(t, c), held)

		first := p.commit("one", "first")
		answer = test.Must(p.deliverWith(branch, "", next))
		test.Equal(t, "branch", p.at("work/one"), first)
		test.Equal(t, "claim", look(t, other), "WEB-1 "+answer.Claim+" "+strings.TrimSpace(next.New))

		// another claim changes in between
		change(t, other, team.Change{Key: "WEB-2", New: claimOf("b", 3).Content()})
		second := p.commit("one", "second")
		answer = test.Must(p.deliverWith(branch, first, team.Change{
			Key: "WEB-1", Old: answer.Claim, New: claimOf("a", 5).Content(),
		}))
		test.Equal(t, "branch", p.at("work/one"), second)
		test.Contains(t, "the claim", look(t, other), "WEB-1 "+answer.Claim)

		// a person has changed the branch: that is a conflict, and the claim stays
		p.sh("cd person; git fetch -q; git push -qf origin $(git commit-tree -m theirs main^{tree}):refs/heads/work/one")
		p.commit("one", "third")
		fourth := team.Change{Key: "WEB-1", Old: answer.Claim, New: claimOf("a", 6).Content()}
		before := p.sh("git -C remote.git for-each-ref")
		wantFault(t, test.Err(p.deliverWith(branch, second, fourth)), host.CodeDeliveryConflict)
		test.Equal(t, "remote", p.sh("git -C remote.git for-each-ref"), before)
		p.sh("git -C remote.git update-ref refs/heads/work/one " + second)

		// another machine takes the claim
		change(t, other, team.Change{Key: "WEB-1", Old: answer.Claim, New: claimOf("b", 7).Content()})
		before = p.sh("git -C remote.git for-each-ref")
		wantFault(t, test.Err(p.deliverWith(branch, second, fourth)), host.CodeClaimLost, "ann on b has it")
		test.Equal(t, "remote", p.sh("git -C remote.git for-each-ref"), before)
		change(t, other, team.Change{Key: "WEB-1", Old: p.claim("WEB-1", branch).Object})
		wantFault(t, test.Err(p.deliverWith(branch, second, fourth)), host.CodeClaimLost, "it was deleted")
		test.Equal(t, "branch", p.at("work/one"), second)
	})
}

// journal is the database of a machine in a team.
type journal struct {
	own  map[string]team.Own
	seen []team.Seen
}

func (j *journal) OwnClaims(context.Context) ([]team.Own, error) {
	return slices.Collect(maps.Values(j.own)), nil
}

func (j *journal) SaveOwnClaims(_ context.Context, claims []team.Own) ([]team.Own, error) {
	for _, o := range claims {
		j.own[o.ID] = o
	}
	return claims, nil
}

func (j *journal) DropOwnClaims(_ context.Context, issueIDs []string) error {
	for _, id := range issueIDs {
		delete(j.own, id)
	}
	return nil
}

func (j *journal) SeenClaims(context.Context) ([]team.Seen, error) { return j.seen, nil }

func (j *journal) SaveSeenClaims(_ context.Context, all []team.Seen) error {
	j.seen = all
	return nil
}

func (*journal) Refusals(context.Context) ([]team.Refusal, error) { return nil, nil }

func (*journal) SaveRefusals(context.Context, []team.Refusal) error { return nil }

// memberOn is a machine of a team whose claims have a term of a minute.
func (p *place) memberOn(machine, branch string, clock func() time.Duration) *team.Member {
	return &team.Member{
		Remote:   p.claimsOn(machine, branch),
		Journal:  &journal{own: map[string]team.Own{}},
		Terms:    team.Terms{Term: time.Minute, Watch: time.Hour},
		Machine:  machine,
		Now:      time.Now,
		Clock:    func() team.Instant { return team.Instant{Boot: "boot", Since: clock()} },
		NewToken: rand.Text,
	}
}

// A hook of the remote takes nine minutes, and the claim has a term of one. The machine that delivers
// keeps it all the same.
func TestDeliveryLongerThanItsTerm(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		var now atomic.Int64
		clock := func() time.Duration { return time.Duration(now.Load()) }
		issue := team.Issue{ID: "id-1", Identifier: "WEB-1"}
		a := p.memberOn("a", branch, clock)
		b := p.memberOn("b", branch, clock)
		not := test.Must(a.Take(t.Context(), []team.Issue{issue}))
		test.Equal(t, "a has it", not.Has("id-1"), false)
		p.mustClone("one")
		work := p.commit("one", "first")
		p.hook("pre-receive", `grep -q work/one || exit 0
			echo now > ../pushing; while [ ! -e ../go ]; do sleep 0.02; done`)
		now.Add(int64(50 * time.Second)) // the preparation
		ended := make(chan error)
		go func() {
			_, err := p.deliverFenced(branch, "", func(ctx context.Context, push host.PushFenced) error {
				return a.Fence(ctx, team.Keep{Issue: issue, Status: team.Working}, 10*time.Minute, push)
			})
			ended <- err
		}()
		p.await("pushing")
		for range 9 {
			not = test.Must(b.Take(t.Context(), []team.Issue{issue}))
			test.Equal(t, "who has it", not.Elsewhere["id-1"].Holder, "a")
			now.Add(int64(time.Minute))
		}
		p.sh("touch go")
		test.OK(t, <-ended)
		test.Equal(t, "branch", p.at("work/one"), work)
		left, err := a.Renew(t.Context(), team.Keep{Issue: issue, Status: team.Working})
		test.OK(t, err)
		test.Equal(t, "left", left, 54*time.Second)
	})
}

// Two processes of one machine write claims while the other one looks. Before, the one that looked
// removed the objects that the other was about to write, as leftovers of a git that was killed.
func TestTrialsAtOnce(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		c := p.claimsOn("a", branch)
		test.Equal(t, "a claim", change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()}).Refused, "")
		var trying sync.WaitGroup
		for range 2 {
			trying.Go(func() {
				for range 3 {
					if err := c.Try(t.Context()); err != nil {
						t.Error("try:", err)
					}
				}
			})
		}
		trying.Wait()
		test.Equal(t, "claims at the end", len(test.Must(c.Look(t.Context()))), 1)
	})
}
