package repository

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/team"
)

// wantHint checks a part of the hint of an error.
func wantHint(t *testing.T, err error, part string) {
	t.Helper()
	known, _ := errors.AsType[*reconcile.Error](err)
	test.Contains(t, "the hint", known.Hint, part)
}

// claim returns a claim of the remote; it is empty if there is none.
func (p *place) claim(key, branch string) team.Entry {
	p.t.Helper()
	return test.Must(p.claimsOn("a", branch).layout().look(p.t.Context())).find(key)
}

// put makes a reference of the remote lead to an object that a script prints the id of.
func (p *place) put(key, script string) string {
	p.t.Helper()
	return p.sh("cd remote.git; id=$(" + script + "); git update-ref refs/symphony/claims/" + key + " $id; echo $id")
}

// What others put in the place of claims is read as something that is no claim, and can be replaced
// and deleted like one.
func TestGarbageInClaims(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	// the operator's git checks what it fetches, which must not keep the claims from being read
	p.sh("git config --global transfer.fsckObjects true; git config --global fetch.fsckObjects true")
	c := p.claimsOn("a", "")
	good := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
	long := strings.Repeat("x", maxClaim)
	ids := map[string]string{
		"a-blob":    p.put("a-blob", "printf '"+strings.TrimSpace(claimOf("b", 1).Content())+"' | git hash-object -w --stdin"),
		"a-tree":    p.put("a-tree", "git rev-parse main^{tree}"),
		"a-tag":     p.put("a-tag", "git tag -am x x main; git rev-parse refs/tags/x"),
		"a-commit":  p.put("a-commit", "git rev-parse main"),
		"no-json":   p.put("no-json", "printf 'tree %s\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\n\\377\\0\\001' $(git rev-parse main^{tree}) | git hash-object --literally -t commit -w --stdin"),
		"long":      p.put("long", "printf "+long+" | git commit-tree main^{tree}"),
		"huge":      p.put("huge", "head -c 3000000 /dev/zero | tr '\\0' y | git commit-tree main^{tree}"),
		"no-author": p.put("no-author", "printf 'tree %s\nauthor x\ncommitter <\n\nhm\n' $(git rev-parse main^{tree}) | git hash-object --literally -t commit -w --stdin"),
		"below/it":  p.put("below/it", "git rev-parse main"),
	}
	seen := test.Must(c.Look(t.Context()))
	test.Equal(t, "number", len(seen), len(ids)+1)
	for _, e := range seen {
		_, err := team.Parse(e.Content)
		test.Equal(t, e.Key+" is a claim", err == nil, e.Key == "WEB-1")
		if e.Key != "WEB-1" {
			test.Equal(t, e.Key, e.Object, ids[e.Key])
		}
		if len(e.Content) > maxClaim {
			t.Errorf("%s has %d bytes", e.Key, len(e.Content))
		}
	}

	// a claim can't be made above another one, which the remote refuses whoever asks
	_, err := c.Change(t.Context(), []team.Change{{Key: "below", New: "x"}})
	wantFault(t, err, host.CodeClaimsRefused, "failed to update ref")
	for key, id := range ids {
		made := change(t, c, team.Change{Key: key, Old: id, New: claimOf("c", 2).Content() + key})
		test.Equal(t, key, made.Refused, "")
		test.Equal(t, key, change(t, c, team.Change{Key: key, Old: made.Object}).Refused, "")
	}
	test.Equal(t, "the rest", look(t, c), "WEB-1 "+good.Object+" "+strings.TrimSpace(claimOf("a", 1).Content()))
}

// On the branch there may be anything, too. A branch with directories or other files is somebody's.
func TestGarbageOnClaimsBranch(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.claimsOn("a", "symphony-claims")
	good := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
	p.sh(`cd person; git fetch -q; git checkout -q -b symphony-claims origin/symphony-claims
		echo the claims of symphony > README.md; echo hm > WEB-2.json; ln -s /etc/passwd WEB-3.json
		head -c 100000 /dev/zero > WEB-4.json; echo x > "$(printf 'W \t\n\303\244.json')"
		git add .; git commit -qm more; git push -q origin symphony-claims`)
	for _, e := range test.Must(c.Look(t.Context())) {
		_, err := team.Parse(e.Content)
		test.Equal(t, e.Key+" is a claim", err == nil, e.Key == "WEB-1")
		test.Equal(t, e.Key+" is small", len(e.Content) <= maxClaim, true)
	}
	renewed := change(t, c, team.Change{Key: "WEB-1", Old: good.Object, New: claimOf("a", 2).Content()})
	test.Equal(t, "renewed", renewed.Refused, "")
	test.Equal(t, "files", p.sh("git -C remote.git ls-tree --name-only symphony-claims | wc -l"), "6")
	test.Equal(t, "commits", p.sh("git -C remote.git rev-list --count symphony-claims"), "3")

	p.sh("cd person; mkdir src; echo x > src/x; git add .; git commit -qm code")
	p.sh("cd person; git pull -q --rebase origin symphony-claims; git push -q origin symphony-claims")
	_, err := c.Look(t.Context())
	wantFault(t, err, host.CodeClaimsRefused, "which has other files: src")
	for _, branch := range []string{"main", "-x", "a..b"} {
		_, err = p.claimsOn("b", branch).Change(t.Context(), []team.Change{{Key: "WEB-1", New: "x"}})
		wantFault(t, err, host.CodeClaimsRefused, "repository.claims names the branch")
	}
	test.Equal(t, "main", p.sh("git -C remote.git rev-list --count main"), "1")
}

// A person deletes all claims, or puts back older ones.
func TestClaimsDeletedByAPerson(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		c := p.claimsOn("a", branch)
		first := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
		test.Contains(t, "claims", look(t, c), first.Object)
		before := p.sh("git -C remote.git for-each-ref --format='create %(refname) %(objectname)' refs/symphony refs/heads/symphony-claims")
		second := change(t, c, team.Change{Key: "WEB-1", Old: first.Object, New: claimOf("a", 2).Content()})
		p.sh(`cd remote.git; git for-each-ref --format='delete %(refname)' refs/symphony refs/heads/symphony-claims | git update-ref --stdin`)
		gone := team.Change{Key: "WEB-1", Old: second.Object, New: claimOf("a", 3).Content()}
		test.Equal(t, "renewed", change(t, c, gone), team.Changed{Refused: "stale info"})
		test.Equal(t, "claims", look(t, c), "")
		p.sh("cd remote.git; echo '" + before + "' | git update-ref --stdin")
		test.Equal(t, "renewed", change(t, c, gone), team.Changed{Refused: "stale info"})
		test.Contains(t, "claims", look(t, c), first.Object)
	})
}

// A remote that refuses all claims says why, and what to do.
func TestRemoteRefusesClaims(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, branch, script, message, hint string }{
		{
			"hook", "", "hook 'grep -q refs/symphony && { echo GL-HOOK-ERR: no such references; exit 1; } >&2'",
			"GL-HOOK-ERR: no such references (pre-receive hook declined)", "repository.claims: {branch: symphony-claims}",
		},
		{"hidden", "", "git config receive.hideRefs refs/symphony", "deny updating a hidden ref", "{branch: symphony-claims}"},
		{
			"protected branch", "symphony-claims",
			"hook 'grep -q symphony-claims && { echo the branch is protected; exit 1; } >&2'",
			"remote: the branch is protected (pre-receive hook declined)", "without review",
		},
		{"update hook", "", "mv hooks hooks.old; mkdir hooks; printf '#!/bin/sh\\nexit 1' > hooks/update; chmod +x hooks/update", "hook declined", "{branch"},
		// the look does not show what is pushed
		{"hidden from reading", "", "git config uploadpack.hideRefs refs/symphony", "it does not show a claim that it took", "{branch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.sh(`cd remote.git; hook() { mkdir -p hooks; printf '#!/bin/sh\n%s\nexit 0\n' "$1" > hooks/pre-receive; chmod +x hooks/pre-receive; }
				` + c.script)
			claims := p.claimsOn("a", c.branch)
			wantFault(t, claims.Try(t.Context()), host.CodeClaimsRefused, c.message, p.remote)
			wantHint(t, claims.Try(t.Context()), c.hint)
			test.Equal(t, "remote", p.sh("git -C remote.git for-each-ref --format='%(refname)'"), "refs/heads/main")
		})
	}
}

// A hook may refuse one of several claims. Then the others are carried out.
func TestRemoteRefusesOneClaim(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.hook("update", `case $1 in *WEB-2) echo not WEB-2 >&2; exit 1; esac`)
	results := test.Must(p.claimsOn("a", "").Change(t.Context(), []team.Change{
		{Key: "WEB-1", New: "1"}, {Key: "WEB-2", New: "2"},
	}))
	test.Equal(t, "the first", results["WEB-1"].Refused, "")
	test.Equal(t, "the second", results["WEB-2"], team.Changed{Refused: "remote rejected: hook declined"})
}

// A remote that this account may only read, or that can't be reached.
func TestRemoteIsReadOnly(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	backend := filepath.Join(p.sh("git --exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no HTTP server here")
	}
	served := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + p.dir, "GIT_HTTP_EXPORT_ALL=1"}}
	server := httptest.NewServer(served) // git refuses a push without a user: 403
	defer server.Close()
	local := p.remote
	for _, branch := range claimLayouts {
		p.remote = server.URL + "/remote.git"
		c := p.claimsOn("http", branch)
		test.Equal(t, "claims", look(t, c), "")
		_, err := c.Change(t.Context(), []team.Change{{Key: "WEB-1", New: "x"}})
		wantFault(t, err, host.CodeClaimsRefused, "can be read, and refuses the push", "403")
		wantHint(t, err, "let this account push there")

		// as forges do over ssh
		p.sh(`printf '#!/bin/sh\nshift; case "$*" in *git-receive-pack*) echo ERROR: The key you are authenticating with has been marked as read only. >&2; exit 1; esac
			exec sh -c "$*"\n' > ssh; chmod +x ssh`)
		p.remote = "host:" + local
		c = p.claimsOn("key", branch)
		c.env = append(c.env, "GIT_SSH_COMMAND="+filepath.Join(p.dir, "ssh"), "GIT_SSH_VARIANT=simple")
		test.Equal(t, "claims", look(t, c), "")
		_, err = c.Change(t.Context(), []team.Change{{Key: "WEB-1", New: "x"}})
		wantFault(t, err, host.CodeClaimsRefused, "marked as read only")

		// a dead server, and a dead path
		for _, remote := range []string{"http://127.0.0.1:1/remote.git", filepath.Join(p.dir, "none.git")} {
			p.remote = remote
			c = p.claimsOn("dead", branch)
			_, err = c.Look(t.Context())
			wantFault(t, err, host.CodeClaimsUnavailable, remote)
			_, err = c.Change(t.Context(), []team.Change{{Key: "WEB-1", New: "x"}})
			wantFault(t, err, host.CodeClaimsUnavailable, remote)
		}
		p.remote = local
	}
	test.Equal(t, "remote", p.sh("git -C remote.git for-each-ref --format='%(refname)'"), "refs/heads/main")
}

// After an answer that was lost nothing is known. A look tells.
func TestClaimsAnswerIsLost(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		c := p.claimsOn("a", branch)
		test.Equal(t, "claims", look(t, c), "")
		ask := []team.Change{{Key: "WEB-1", New: claimOf("a", 1).Content()}}
		p.hook("pre-receive", "kill -9 $PPID")
		_, err := c.Change(t.Context(), ask)
		wantFault(t, err, host.CodeClaimsUnavailable)
		test.Equal(t, "claims", look(t, c), "")
		p.hook("pre-receive", "")
		p.hook("reference-transaction", `test "$1" != committed || kill -9 $PPID`)
		_, err = c.Change(t.Context(), ask)
		wantFault(t, err, host.CodeClaimsUnavailable)
		p.hook("reference-transaction", "")
		test.Contains(t, "claims", look(t, c), "WEB-1 ", "token 1 of a")
		// the same once more is no success, because it is not known whose it is
		test.Equal(t, "again", change(t, c, ask[0]).Refused != "", true)
	})
}

// A delivery whose answer was lost is recognized when it is repeated with the same claim, or with one
// that replaces it, unless another machine has taken the claim since.
func TestFenceAnswerIsLost(t *testing.T) {
	test.Expensive(t)
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		c := p.claimsOn("a", branch)
		p.mustClone("one")
		old := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()}).Object
		deliver := func(renewed int, delivered string) (fenced, error) {
			t.Helper()
			return p.deliverWith(branch, delivered, team.Change{
				Key: "WEB-1", Old: old, New: claimOf("a", renewed).Content(),
			})
		}
		lose := func(renewed int, delivered string) {
			t.Helper()
			// both the push and the question after it
			p.hook("reference-transaction", `test "$1" != committed || { chmod 0 ../remote.git/objects; mv ../remote.git/HEAD ../HEAD; kill -9 $PPID; }`)
			_, err := deliver(renewed, delivered)
			wantFault(t, err, host.CodeDeliveryFailed)
			p.sh("mv HEAD remote.git/HEAD; chmod 700 remote.git/objects")
			p.hook("reference-transaction", "")
		}
		first := p.commit("one", "first")
		lose(2, "")
		test.Equal(t, "branch", p.at("work/one"), first)
		answer := test.Must(deliver(2, ""))
		test.Contains(t, "claims", look(t, c), "WEB-1 "+answer.Claim)
		old = answer.Claim

		second := p.commit("one", "second")
		lose(3, first)
		test.Equal(t, "branch", p.at("work/one"), second)
		wantFault(t, test.Err(deliver(4, first)), host.CodeClaimLost, "ann on a has it")
		old = p.claim("WEB-1", branch).Object
		answer = test.Must(deliver(4, first))
		test.Contains(t, "claims", look(t, c), "WEB-1 "+answer.Claim, "token 4 of a")
		old = answer.Claim

		p.commit("one", "third")
		lose(5, second)
		change(t, c, team.Change{
			Key: "WEB-1", Old: p.claim("WEB-1", branch).Object, New: claimOf("b", 6).Content(),
		})
		wantFault(t, test.Err(deliver(5, second)), host.CodeClaimLost, "ann on b has it")
	})
}

// A remote without atomic pushes can't be delivered to with a claim.
func TestRemoteIsNotAtomic(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		p.mustClone("one")
		p.commit("one", "first")
		p.sh("git -C remote.git config receive.advertiseAtomic false")
		c := p.claimsOn("a", branch)
		wantFault(t, c.Try(t.Context()), host.CodeClaimsNotAtomic, "knows no atomic pushes")
		made := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
		_, err := p.deliverWith(branch, "", team.Change{Key: "WEB-1", Old: made.Object, New: claimOf("a", 2).Content()})
		wantFault(t, err, host.CodeClaimsNotAtomic, p.remote)
		test.Equal(t, "branch", p.at("work/one"), "")
	})
}

// The language and the configuration of the operator change nothing.
func TestClaimsWithOperatorConfiguration(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		p.sh(`git config --global color.ui always; git config --global core.abbrev 5; git config --global push.default nothing
			git config --global push.useForceIfIncludes true; git config --global push.followTags true
			git config --global i18n.commitEncoding ISO-8859-1; git config --global i18n.logOutputEncoding UTF-16
			git config --global commit.gpgSign true; git config --global gpg.program /bin/false
			git config --global fetch.prune false; git config --global remote.pushDefault nowhere
			git config --global fetch.writeCommitGraph true; git config --global log.showSignature true
			git config --global url."$PWD/remote.git".insteadOf company:app`)
		p.env = append(p.env, "LANG=de_DE.UTF-8", "LANGUAGE=de", "LC_MESSAGES=de_DE.UTF-8", "GIT_TRACE_REDACT=1")
		p.remote = "company:app"
		a := p.claimsOn("a", branch)
		claim := claimOf("ä", 1)
		made := change(t, a, team.Change{Key: "WEB-1", New: claim.Content()})
		test.Equal(t, "refused", made.Refused, "")
		late := team.Change{Key: "WEB-1", New: claimOf("b", 2).Content()}
		test.Equal(t, "late", change(t, p.claimsOn("b", branch), late), team.Changed{Refused: "stale info"})
		seen := test.Must(a.Look(t.Context()))
		test.Equal(t, "content", test.Must(team.Parse(seen[0].Content)), claim)
		test.OK(t, a.Try(t.Context()))
	})
}

// A remote may name objects by SHA-256.
func TestClaimsWithSHA256(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		p.sh(`rm -rf remote.git person; git init -q --bare -b main --object-format=sha256 remote.git
			git init -q -b main --object-format=sha256 person; cd person; git commit -q --allow-empty -m one; git push -q ../remote.git main`)
		c := p.claimsOn("mirrors", branch)
		made := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
		test.Equal(t, "length", len(made.Object), sha256Length)
		p.mustClone("one")
		commit := p.commit("one", "first")
		test.Must(p.deliverWith(branch, "", team.Change{Key: "WEB-1", Old: made.Object, New: claimOf("a", 2).Content()}))
		test.Equal(t, "branch", p.at("work/one"), commit)
	})
}

// What is damaged in the repository of the claims on this machine is mended by the next look.
func TestClaimsRepositoryDamaged(t *testing.T) {
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		c := p.claimsOn("a", branch)
		made := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
		want := look(t, c)
		for i, damage := range []string{
			"rm HEAD", ": > HEAD", "rm -rf objects/*", "find objects -type f | while read f; do chmod u+w $f; : > $f; done",
			"find . -name 'symphony-claims' -o -name WEB-1 | while read f; do : > $f; done", "mkdir -p refs/heads; touch refs/heads/symphony-claims.lock packed-refs.lock",
			"printf '[core]\n\trepositoryformatversion = 99\n' > config", "rm config", "echo x > packed-refs",
			"for f in objects/pack/*.pack; do chmod u+w $f; echo x > $f; done 2>/dev/null || true",
		} {
			p.sh("cd a/*.claims; " + damage)
			test.Equal(t, damage, look(t, c), want)
			p.sh("cd a/*.claims; " + damage)
			next := team.Change{Key: "WEB-1", Old: made.Object, New: claimOf("a", i+2).Content()}
			if _, err := c.Change(t.Context(), []team.Change{next}); err != nil {
				wantFault(t, err, host.CodeClaimsUnavailable)
				test.Equal(t, damage, look(t, c), want) // as Member does then
				test.Equal(t, damage, change(t, c, next).Refused, "")
			}
			made.Object = p.claim("WEB-1", branch).Object
			want = look(t, c)
			test.Contains(t, damage, want, fmt.Sprintf("token %d of a", i+2))
		}
	})
}

// A renewal does not wait for a look that hangs.
func TestRenewalBesideAHangingLook(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.claimsOn("a", "")
	made := change(t, c, team.Change{Key: "WEB-1", New: claimOf("a", 1).Content()})
	hanging := p.claimsOn("a", "")
	p.sh(`printf '#!/bin/sh\necho $$ > ` + p.dir + `/hanging; exec sleep 1000\n' > upload; chmod +x upload`)
	hanging.env = append(hanging.env, "GIT_SSH_COMMAND="+filepath.Join(p.dir, "upload"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.host:.insteadOf", "GIT_CONFIG_VALUE_0="+p.dir)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- test.Err(hanging.Look(ctx)) }()
	p.await("hanging")
	renewed := change(t, c, team.Change{Key: "WEB-1", Old: made.Object, New: claimOf("a", 2).Content()})
	test.Equal(t, "renewed", renewed.Refused, "")
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := c.Look(short)
	wantFault(t, err, host.CodeClaimsUnavailable)
	cancel()
	wantFault(t, <-ended, host.CodeClaimsUnavailable)
	test.Contains(t, "claims", look(t, c), renewed.Object)
}

// helperVar makes TestClaimsHelper change the claims until it is killed.
const helperVar = "SYMPHONY_TEST_CLAIMS_HELPER"

// TestClaimsHelper is no test: it is the process that TestClaimsKilled kills.
func TestClaimsHelper(t *testing.T) {
	dir, branch, _ := strings.Cut(os.Getenv(helperVar), ":")
	if dir == "" {
		return
	}
	p := &place{t: t, dir: dir, remote: filepath.Join(dir, "remote.git")}
	p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "GIT_CONFIG_NOSYSTEM=1"}
	c := p.claimsOn("a", branch)
	for i := 0; ; i++ {
		old := p.claim("WEB-1", branch).Object
		next := claimOf(fmt.Sprint(os.Getpid()), i).Content()
		change(t, c, team.Change{Key: "WEB-1", Old: old, New: next})
	}
}

// A process that is killed in the middle of anything leaves nothing behind that the next one minds.
func TestClaimsKilled(t *testing.T) {
	test.Expensive(t)
	eachLayout(t, func(t *testing.T, branch string) {
		p := newPlace(t)
		c := p.claimsOn("a", branch)
		for round := range 12 {
			cmd := exec.Command(os.Args[0], "-test.run=^TestClaimsHelper$")
			cmd.Env = append(os.Environ(), helperVar+"="+p.dir+":"+branch)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			test.OK(t, cmd.Start())
			time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
			test.OK(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
			_ = cmd.Wait()
			if round%5 == 0 {
				p.sh("rm -rf a 2>/dev/null || true") // it dies while it makes the repository, too
			}
			// the last push of the dead process may still be under way
			test.Until(t, "the claim is replaced", func() bool {
				old := p.claim("WEB-1", branch)
				if old.Object != "" {
					test.Must(team.Parse(old.Content))
				}
				next := team.Change{Key: "WEB-1", Old: old.Object, New: claimOf("here", round).Content()}
				made := change(t, c, next)
				return made.Refused == "" && strings.Contains(look(t, c), made.Object)
			})
		}
		p.sh("git -C remote.git fsck; git -C a/*.claims fsck")
	})
}
