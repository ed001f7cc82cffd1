package repository

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// makeSigningKey gives the operator a key for signatures.
func (p *place) makeSigningKey() {
	p.t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		p.t.Skip("ssh-keygen is not installed")
	}
	p.sh(`ssh-keygen -q -t ed25519 -N '' -f key
		echo "a@example.org $(cat key.pub)" > signers
		git config --file home/.gitconfig gpg.format ssh
		git config --file home/.gitconfig user.signingKey $PWD/key.pub
		git config --file home/.gitconfig gpg.ssh.allowedSignersFile $PWD/signers`)
}

// Commits are signed with the operator's key before they are pushed, once each, and the
// workspace goes on with the copies.
func TestSignedDelivery(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.makeSigningKey()
	deliver := func(name, delivered string) (host.DeliverAnswer, error) {
		signs := p.mirrorOf(host.Repository{URL: p.remote, Sign: true})
		return signs.DeliverWorkspace(t.Context(), filepath.Join(p.dir, name), host.Origin{URL: p.remote},
			host.DeliverRequest{Branch: "work/" + name, Delivered: delivered})
	}
	const fields = "--format='%T %an %ae %ad %cn %ce %cd %B'"
	main := p.mustClone("one").Commit
	p.commit("one", "first")
	p.sh(
		`cd one; git checkout -q -b side main; git commit -q --allow-empty -m side --author 'Ann <ann@example.org>'
		git checkout -q work/one; git merge -q --no-ff -m merged side`,
	)
	before := p.sh("git -C one log " + fields + " main..work/one")
	unsigned := p.sh("git -C one rev-parse HEAD")
	answer := test.Must(deliver("one", ""))
	test.Equal(t, "answer", answer, host.DeliverAnswer{
		Commit:  answer.Commit,
		Base:    "main",
		Commits: 3,
		Head:    unsigned,
	})
	p.wantRemote(main+" main", answer.Commit+" work/one")
	test.Equal(t, "commits", p.sh("git -C remote.git log "+fields+" main..work/one"), before)
	test.Equal(t, "signatures", p.sh("git -C remote.git log --format=%G? main..work/one | sort -u"), "G")

	// The workspace has the same commits, and nothing in it has changed.
	test.Equal(
		t,
		"workspace",
		p.sh("cd one; git symbolic-ref HEAD; git rev-parse HEAD; git status --porcelain"),
		"refs/heads/work/one\n"+answer.Commit,
	)
	unsaved, _ := git.Unsaved(t.Context(), filepath.Join(p.dir, "one"), "", "", git.AccountFiles{})
	// side, which is a branch of its own
	test.Equal(t, "unsaved", unsaved, "1 commit not on any remote")
	again := test.Must(deliver("one", answer.Commit))
	test.Equal(t, "again", again, host.DeliverAnswer{Commit: answer.Commit, Base: "main"})

	// More work comes on top. What was pushed stays as it is.
	p.commit("one", "second")
	second := test.Must(deliver("one", answer.Commit))
	test.Equal(t, "more", second.Commits, 1)
	test.Equal(t, "parent", p.sh("git -C remote.git rev-parse work/one^"), answer.Commit)

	// A delivery that was interrupted before the workspace moved pushes the same commits.
	third := p.commit("one", "third")
	p.hook("pre-receive", "exit 1")
	wantFault(t, test.Err(deliver("one", second.Commit)), host.CodeDeliveryRefused)
	p.hook("pre-receive", "")
	pushed := test.Must(deliver("one", second.Commit)).Commit
	p.sh("git -C one reset -q --soft " + third)
	test.Equal(t, "the same", test.Must(deliver("one", pushed)), host.DeliverAnswer{
		Commit: pushed,
		Base:   "main",
		Head:   third,
	})
	test.Equal(t, "moved", p.sh("git -C one rev-parse HEAD"), pushed)

	// So does a fetch: a workspace on another machine gets the copies by it.
	p.sh("git -C one reset -q --soft " + third)
	test.Must(p.mirror().Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", pushed, false))
	test.Equal(t, "moved", p.sh("cd one; git rev-parse HEAD; git status --porcelain"), pushed)
	later := p.commit("one", "later")
	test.Must(p.mirror().Fetch(t.Context(), filepath.Join(p.dir, "one"), "work/one", pushed, false))
	test.Equal(t, "not moved", p.sh("git -C one rev-parse HEAD"), later)

	// Without a key nothing is pushed.
	p.sh("rm key key.pub")
	p.commit("one", "fourth")
	wantFault(t, test.Err(deliver("one", pushed)), host.CodeDeliveryFailed, "can't be signed: ")
	test.Equal(t, "branch", p.sh("git -C remote.git rev-parse work/one"), pushed)
}

// A program that waits for a person, such as for a passphrase, is named as the reason.
func TestSigningWaits(t *testing.T) {
	signTimeout = 100 * time.Millisecond
	t.Cleanup(func() { signTimeout = time.Minute })
	p := newPlace(t)
	p.sh(`printf '#!/bin/sh\nexec sleep 1000\n' > waits; chmod +x waits
		git config --file home/.gitconfig gpg.program $PWD/waits`)
	p.mustClone("one")
	p.commit("one", "first")
	signs := p.mirrorOf(host.Repository{URL: p.remote, Sign: true})
	workspace := filepath.Join(p.dir, "one")
	origin := host.Origin{URL: p.remote}
	_, err := signs.DeliverWorkspace(t.Context(), workspace, origin, host.DeliverRequest{Branch: "work/one"})
	wantFault(t, err, host.CodeDeliveryFailed, "can't be signed: the program that signs has not ended within 100ms")
}
