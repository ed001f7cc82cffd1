package repository

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// A branch that could not be pushed is refused before an agent works for it, and at the
// delivery.
func TestBranchCantBePushed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	try := func(branch string) error {
		pushes := host.Repository{URL: p.remote, Base: "main", Pushes: true}
		return test.Err(p.mirrorOf(pushes).Clone(t.Context(), t.TempDir(), branch, ""))
	}
	p.sh("git -C person push -q origin main:work main:deep/one/two")
	wantFault(t, try("work/one"), host.CodeBranchInTheWay, `the remote has a branch "work"`, `"work/one"`)
	wantFault(t, try("main/one"), host.CodeBranchInTheWay, `the remote has a branch "main"`)
	wantFault(t, try("deep/one"), host.CodeInvalidBranch, `the remote has a branch "deep/one/two"`)
	test.OK(t, try("deeper/one"))

	p.sh("git -C person push -q origin :work")
	p.remote = filepath.Join(p.dir, "person")
	p.sh("cd person; git checkout -q -b work/one; git worktree add -q -b work/two ../'second tree'")
	wantFault(
		t,
		try("work/one"),
		host.CodeBranchCheckedOut,
		"work/one is checked out in "+p.remote+": switch to another branch",
	)
	wantFault(
		t,
		try("work/two"),
		host.CodeBranchCheckedOut,
		"work/two is checked out in "+p.dir+"/second tree: ",
	)
	e, _ := errors.AsType[*reconcile.Error](try("work/two"))
	test.Equal(t, "hint", e.Hint, "git -C '"+p.dir+"/second tree' switch -")
	for _, value := range []string{"updateInstead", "no"} {
		p.sh("git -C person config receive.denyCurrentBranch " + value)
		test.OK(t, try("work/two"))
	}
	p.sh(
		"git -C person config --unset receive.denyCurrentBranch; git -C person checkout -q main; git -C " +
			"person branch -q -D work/one",
	)
	p.mustClone("one")
	p.commit("one", "first")
	p.sh("git -C person checkout -q -b work/one")
	wantFault(t, test.Err(p.deliver("one", "")), host.CodeBranchCheckedOut, "switch to another branch there")
	p.sh("git -C person checkout -q main; git -C person branch -q -D work/one")
	p.mustDeliver("one", "")
}

// A repository of another account, which git refuses, is named with the two ways out.
func TestForeignRemote(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
	_, err := p.mirror().Clone(t.Context(), t.TempDir(), "w", "")
	wantFault(t, err, host.CodeRepositoryUnavailable, "dubious ownership", "with chown -R, or run git config "+
		"--global --add safe.directory "+p.remote)
}

// A lock that another git has left in the remote is named, with what to do.
func TestLockIsLeft(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	p.commit("one", "first")
	p.sh("mkdir -p remote.git/refs/heads/work && touch remote.git/refs/heads/work/one.lock")
	wantFault(t, test.Err(p.deliver("one", "")), host.CodeDeliveryFailed,
		"if no git works there now, remove ", "/refs/heads/work/one.lock")
	p.sh("rm remote.git/refs/heads/work/one.lock")
	p.mustDeliver("one", "")
}

// A clone on this machine that lacks history is named, with the command that mends it.
func TestIncompleteRemote(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`cd person; echo two > file; git commit -qam two; git push -q origin main; cd ..
		git clone -q --depth 1 file://$PWD/remote.git shallow`)
	p.remote = filepath.Join(p.dir, "shallow")
	workspace := filepath.Join(p.dir, "workspace")
	test.OK(t, os.Mkdir(workspace, 0o700))
	_, err := p.mirror().Clone(t.Context(), workspace, "w", "")
	wantFault(t, err, host.CodeRepositoryUnavailable, p.remote+" is a shallow clone, which lacks")
	known, _ := errors.AsType[*reconcile.Error](err)
	p.sh(known.Hint)
	test.Must(p.mirror().Clone(t.Context(), workspace, "w", ""))
}
