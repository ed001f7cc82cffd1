package repository

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// countRequests makes each request of c to the remote write a word into a file. The returned function
// returns the words since the last call: upload-pack for a look, receive-pack for a push.
func (p *place) countRequests(c *Claims) (since func() string) {
	p.t.Helper()
	p.sh(`printf '#!/bin/sh\nshift; echo "$*" | sed "s/.*git-//; s/ .*//" >> ` + p.dir + `/requests; exec sh -c "$*"\n' > counted
		chmod +x counted; : > requests`)
	c.remote.URL = "host:" + p.remote
	c.env = append(c.env, "GIT_SSH_COMMAND="+filepath.Join(p.dir, "counted"), "GIT_SSH_VARIANT=simple")
	return func() string { return p.sh("paste -sd ' ' requests; : > requests") }
}

// Five thousand claims take a moment. A look at them is one request, and a renewal one push; on a branch
// also a look.
func TestManyClaims(t *testing.T) {
	test.Expensive(t)
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		const many = 5000
		c := p.claimsOn("a", branch)
		requests := p.countRequests(c)
		var all []team.Change
		for i := range many {
			all = append(all, team.Change{Key: team.Key(fmt.Sprint("p ", i)), New: claimOf("a", i).Content()})
		}
		// made on the remote, as by many machines
		p.manyClaims(branch, all)
		began := time.Now()
		seen := test.Must(c.Look(t.Context()))
		first := time.Since(began)
		test.Equal(t, "requests of the first look", requests(), "upload-pack upload-pack")
		test.Equal(t, "claims", len(seen), many)
		for _, e := range seen {
			test.Must(team.Parse(e.Content))
		}
		began = time.Now()
		test.Equal(t, "claims", len(test.Must(c.Look(t.Context()))), many)
		again := time.Since(began)
		test.Equal(t, "requests of another look", requests(), "upload-pack")
		began = time.Now()
		test.Equal(t, "renewed", change(t, c, team.Change{Key: seen[7].Key, Old: seen[7].Object, New: "x"}).Refused, "")
		renewal := time.Since(began)
		want := "receive-pack"
		if branch != "" {
			want = "upload-pack receive-pack"
		}
		test.Equal(t, "requests of a renewal", requests(), want)
		t.Logf("%d claims: the first look %v, another %v, a renewal %v", many, first, again, renewal)
	})
}

// A thousand claims are one push, and so are their ends.
func TestThousandClaimsAtOnce(t *testing.T) {
	test.Expensive(t)
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		const many = 1000
		c := p.claimsOn("a", branch)
		test.Equal(t, "at first", look(t, c), "")
		requests := p.countRequests(c)
		test.Equal(t, "at first", look(t, c), "")
		p.sh(": > requests")
		push := "receive-pack"
		if branch != "" {
			push = "upload-pack receive-pack"
		}
		objects := map[string]string{}
		for _, content := range []string{"made", ""} {
			var all []team.Change
			for i := range many {
				key := team.Key(fmt.Sprint("p ", i))
				one := team.Change{Key: key, Old: objects[key]}
				if content != "" {
					one.New = fmt.Sprintf("%s %d\n", content, i)
				}
				all = append(all, one)
			}
			began := time.Now()
			results := test.Must(c.Change(t.Context(), all))
			took := time.Since(began)
			test.Equal(t, "requests", requests(), push)
			for key, result := range results {
				test.Equal(t, content+" "+key, result.Refused, "")
				objects[key] = result.Object
			}
			test.Equal(t, "results", len(results), many)
			t.Logf("a push of %d claims, %q: %v", many, content, took)
		}
		test.Equal(t, "at last", look(t, c), "")
	})
}

// A remote may be a clone that lacks history, and so may what this machine has of it. A claim needs none;
// the work needs that of the remote.
func TestClaimsWithoutHistory(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		p.sh(`cd person; for i in 1 2 3; do git commit -q --allow-empty -m $i; done; git push -q ../remote.git main; cd ..
			git clone -q --bare --depth=1 file://$PWD/remote.git shallow; mv remote.git whole.git; mv shallow remote.git`)
		test.Equal(t, "history of the remote", p.sh("git -C remote.git rev-list --count main"), "1")
		c := p.claimsOn("mirrors", branch)
		held := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
		test.Equal(t, "made", held.Refused, "")
		_, err := p.clone("none", "")
		wantFault(t, err, host.CodeRepositoryUnavailable, "is a shallow clone")
		p.sh("git -C remote.git fetch -q --unshallow ../whole.git main")
		p.mustClone("one")
		first := p.commit("one", "first")
		answer := test.Must(p.deliverWith(branch, "", team.Change{
			Key: "WEB-1", Old: held.Object, New: claimOf("a", 2).Content(),
		}))
		test.Equal(t, "branch", p.at("work/one"), first)

		// somebody has made what is here a part of what is there: its history is cut off, and git is told
		// that the remote would complete it
		p.sh(`for repository in mirrors/*.git mirrors/*.claims; do
			cd $repository; git rev-parse --verify -q main > shallow || git for-each-ref --format='%(objectname)' | head -n 1 > shallow
			git config remote.origin.url ../../remote.git; git config remote.origin.promisor true
			git config remote.origin.partialclonefilter blob:none; cd ../..
		done`)
		renewed := change(t, c, team.Change{Key: "WEB-1", Old: answer.Claim, New: claimOf("a", 3).Content()})
		test.Equal(t, "renewed", renewed.Refused, "")
		test.Equal(t, "claims", look(t, c), "WEB-1 "+renewed.Object+" "+strings.TrimSpace(claimOf("a", 3).Content()))
		second := p.commit("one", "second")
		answer = test.Must(p.deliverWith(branch, first, team.Change{
			Key: "WEB-1", Old: renewed.Object, New: claimOf("a", 4).Content(),
		}))
		test.Equal(t, "branch", p.at("work/one"), second)
		test.Contains(t, "claims", look(t, c), "WEB-1 "+answer.Claim)
		test.OK(t, c.Try(t.Context()))
	})
}

// Somebody force-pushes the branch of the claims: to something unrelated, or back to what it was. A
// machine whose claim is not there any more delivers nothing, and claims are made on what is there.
func TestClaimsBranchForcePushed(t *testing.T) {
	t.Parallel()
	const branch = "symphony-claims"
	for name, push := range map[string]string{
		"unrelated": `git push -qf ../remote.git $(git commit-tree -m anew $(git hash-object -t tree /dev/null)):refs/heads/` + branch,
		"earlier":   `git fetch -q; git push -qf origin origin/` + branch + `~1:refs/heads/` + branch,
		"diverged": `git fetch -q; git push -qf origin $(git commit-tree -m theirs -p origin/` + branch + `~1 origin/` +
			branch + `~1^{tree}):refs/heads/` + branch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			c := p.claimsOn("a", branch)
			p.mustClone("one")
			first := change(t, c, team.Change{Key: "WEB-2", New: claimOf("a", 1).Content()})
			held := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
			p.commit("one", "first")
			p.sh("cd person; " + push)
			_, err := p.deliverWith(branch, "", team.Change{Key: "WEB-1", Old: held.Object, New: claimOf("a", 2).Content()})
			wantFault(t, err, host.CodeClaimLost, "it was deleted")
			test.Equal(t, "branch", p.at("work/one"), "")
			stale := team.Change{Key: "WEB-1", Old: held.Object, New: claimOf("a", 3).Content()}
			test.Equal(t, "renewed", change(t, c, stale), team.Changed{Refused: "stale info"})
			made := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 4).Content()})
			test.Equal(t, "made", made.Refused, "")
			test.Contains(t, "claims", look(t, c), "WEB-1 "+made.Object)
			test.Equal(t, "the other claim is there", p.claim("WEB-2", branch).Object == first.Object, name != "unrelated")
		})
	}
}

// manyClaims makes claims in the remote.
func (p *place) manyClaims(branch string, all []team.Change) {
	p.t.Helper()
	var script strings.Builder
	for i, one := range all {
		if branch != "" && i > 0 {
			fmt.Fprintf(&script, "M 100644 inline %s.json\ndata %d\n%s\n", one.Key, len(one.New), one.New)
			continue
		}
		ref := "refs/symphony/claims/" + one.Key
		message := one.New
		if branch != "" {
			ref = "refs/heads/" + branch
			message = "claims"
		}
		fmt.Fprintf(&script, "commit %s\ncommitter a <a@example.org> 0 +0000\ndata %d\n%s\n", ref, len(message), message)
		if branch != "" {
			fmt.Fprintf(&script, "M 100644 inline %s.json\ndata %d\n%s\n", one.Key, len(one.New), one.New)
		}
	}
	test.Write(p.t, filepath.Join(p.dir, "script"), script.String())
	p.sh("git -C remote.git fast-import --quiet < script")
}

// A branch that another machine of the team has made is continued by a machine that knows nothing of it,
// because somebody has deleted the claim.
func TestCloneBeginsAtTheBranchOfATeam(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	first := p.commit("one", "first")
	p.mustDeliver("one", "")
	p.sh("mv one away; rm -rf mirrors") // of another machine
	remote := host.Repository{URL: p.remote, Pushes: true}
	begin := func(name string) host.CloneAnswer {
		t.Helper()
		p.sh("mkdir " + name)
		return test.Must(p.mirrorOf(remote).Clone(t.Context(), filepath.Join(p.dir, name), "work/one", ""))
	}
	alone := begin("alone")
	test.Equal(t, "in the way", alone.InTheWay, first)
	test.Equal(t, "commit", alone.Commit, alone.BaseCommit)
	remote.Team = true
	found := begin("found")
	test.Equal(t, "found", *found.Found, host.FoundBranch{Commit: first, Origin: "a <a@example.org>"})
	test.Equal(t, "commit", found.Commit, first)
	test.Equal(t, "in the way", found.InTheWay, "")
}

// This machine has delivered to a branch, and nothing else is left of that: its claim, its workspace and
// its record are gone. Its next work goes on from there, and is not pushed over it.
func TestCloneFindsItsOwnBranch(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	first := p.commit("one", "first")
	p.mustDeliver("one", "")
	p.sh("rm -rf one")
	mirror := func() *Mirror {
		return p.mirrorOf(host.Repository{URL: p.remote, Pushes: true, Team: true})
	}
	begin := func(name string) host.CloneAnswer {
		t.Helper()
		p.sh("mkdir " + name)
		return test.Must(mirror().Clone(t.Context(), filepath.Join(p.dir, name), "work/one", ""))
	}
	found := begin("found")
	test.Equal(t, "found", *found.Found, host.FoundBranch{Commit: first})
	test.Equal(t, "commit", found.Commit, first)

	// A workspace that began at the base is told what it lacks.
	p.sh("git -C found checkout -q -B work/one origin/main")
	p.commit("found", "second")
	answer := test.Must(mirror().Fetch(t.Context(), filepath.Join(p.dir, "found"), "work/one", "", false))
	test.Equal(t, "found by the fetch", answer.Found.Commit, first)
	test.Equal(t, "pushed", answer.Pushed.Commit, first)
	test.Equal(t, "taken", answer.Pushed.Taken, false)
	ours, err := mirror().attempted(t.Context(), "work/one", first)
	test.OK(t, err)
	test.Equal(t, "a delivery may replace it", ours, false)
}
