package git

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// A workspace is saved if a remote has every commit and every change is committed. Each case
// begins in a fresh clone.
func TestUnsaved(t *testing.T) {
	t.Parallel()
	const one = "1 commit not on any remote"
	wantUnsaved(t, 18, []unsavedCase{
		{"a fresh clone", "true", ""},
		{"pushed", "commit; git push -q origin HEAD:topic", ""},
		{"a commit", "commit", one},
		{"a commit on a branch", "git switch -qc b; commit; git switch -q main", one},
		{"a detached HEAD", "git switch -q --detach; commit", one},
		{"a tag", "git switch -q --detach; commit; git tag v1; git switch -q main", one},
		{
			"two stashes",
			"for x in a b; do echo $x > file; git add file; git stash -q; done",
			"4 commits not on any remote",
		},
		{"a changed file", "echo changed > file", "1 change not committed"},
		{"a new file", "put a/new x", "1 change not committed"},
		{"an ignored one", "put x.o x", ""},
		{"a pipe in the place of rules", "rm .gitignore; mkfifo .gitignore", "changes that git can't list"},
		{"a repository below", "repo sub", "in sub " + one},
		{
			"pushed within the workspace",
			`git init -q --bare .git/store.git; git remote add store .git/store.git; commit
			git push -q store HEAD:topic`,
			one,
		},
		{"without a remote", "rm -rf .git; git init -q; git add .; git commit -qm one", one},
		{"no repository", "rm -rf .git", "2 files in no repository"},
		{"nothing", "rm -rf ../ws", ""},
		{"a broken HEAD", "echo ? > .git/HEAD", "a repository that can't be read"},
		{"a configuration that runs a program", "git config core.fsmonitor 'touch ran; false'", ""},
		{"a packed branch", "git switch -qc b; commit; git switch -q main; git pack-refs --all", one},
		{
			"a tag packed alone",
			"git switch -q --detach; commit; git tag -am x v1; git switch -q main; git pack-refs",
			one,
		},
		{
			"a packed tag without a branch",
			"git switch -q --detach; git branch -qD main; commit; git tag v1; git checkout -q origin/main; git gc -q",
			one,
		},
		{
			"a tag of the remote on no branch",
			`git -C ../remote checkout -q --detach; commit ../remote; git -C ../remote tag off
				git -C ../remote checkout -q main
			cd ..; rm -rf ws; git clone -q "$PWD/remote" ws`,
			"",
		},
		{"the automatic stash of a rebase", `commit; git push -q origin HEAD:topic; echo changed > file
			GIT_SEQUENCE_EDITOR='echo break >' git rebase -q -i --autostash HEAD~1`, "2 commits not on any remote"},
		{
			"a changed file that git does not look at",
			"git update-index --assume-unchanged file; echo changed > file",
			"1 change not committed",
		},
		{
			"a changed file outside a sparse checkout",
			"git update-index --skip-worktree file; echo changed > file",
			"1 change not committed",
		},
		{"a sparse checkout", "git update-index --skip-worktree file; rm file", ""},
		{
			"a linked worktree's commit",
			"echo wt > .git/info/exclude; git worktree add -q --detach wt; commit wt",
			one + ", in wt " + one,
		},
		{
			"a submodule",
			`repo ../other; git -c protocol.file.allow=always submodule --quiet add ../other sub; git commit -qm sub
			git push -q origin HEAD:topic; commit sub; git submodule --quiet deinit --force --all`,
			"in submodule sub " + one,
		},
		{
			"pushed within the workspace by the push address", `git init -q --bare .git/store.git
				git config remote.origin.pushurl .git/store.git
			commit; git push -q origin HEAD:topic`, "2 commits not on any remote",
		},
		{
			"pushed within the workspace by another address", `git init -q --bare .git/store.git
				git config url."$PWD/.git/store.git".insteadOf far:
			git remote add far far:; commit; git push -q far HEAD:topic`, one,
		},
		{
			"pushed to a remote that the guard has undone",
			`git init -q --bare .git/store.git; git remote add store .git/store.git; commit
			git push -q store HEAD:topic; git config --remove-section remote.store`,
			one,
		},
		{
			"only on a remote that is gone",
			`git init -q --bare ../gone.git; git remote add gone ../gone.git; commit
			git push -q gone HEAD:topic; git reset -q --hard HEAD~; rm -rf ../gone.git`,
			one,
		},
		{
			"only on a remote that is gone, by another address",
			`git init -q --bare ../gone.git; git config url."$PWD/../gone.git".insteadOf far:
			git remote add far far:; commit; git push -q far HEAD:topic
			git reset -q --hard HEAD~; rm -rf ../gone.git`,
			one,
		},
		{
			"a remote to which pushes are prevented by another address",
			`git config url.no-push.pushInsteadOf "$PWD/../remote"; git remote add far "$PWD/../remote"
			commit; git push -q origin HEAD:topic; git fetch -q far`,
			"",
		},
		{"pushed within the workspace by an address without .git", `git init -q --bare .git/store.git
			git remote add store "$PWD/.git/store"; commit; git push -q store HEAD:topic`, one},
		{
			"a submodule of a linked worktree elsewhere", `git worktree add -q ../wt; repo ../other; cd ../wt
			git -c protocol.file.allow=always submodule --quiet add "$PWD/../other" sub; commit sub
			rm -rf sub`, "in submodule sub " + one,
		},
		{"a repository without commits", "rm -rf .git file .gitignore; git init -q", ""},
		{
			"a bare repository alone",
			"rm -rf .git .gitignore file; git clone -q --bare ../remote a/store.git; git --git-dir " +
				"a/store.git worktree add -q ../x; commit ../x; git -C ../x push -q . HEAD:refs/heads/y",
			"in a/store.git 2 commits not on any remote",
		},
		{
			"a bare repository with references in tables", `rm -rf .git .gitignore file; ` +
				`git init -q --bare a/t.git; mkdir a/t.git/reftable`,
			"in a/t.git a repository that can't be read",
		},
		{
			"a shallow clone",
			`cd ..; rm -rf ws; git -C remote commit -q --allow-empty -m two; ` +
				`git clone -q --depth 1 "file://$PWD/remote" ws`,
			"",
		},
		{"a commit in a shallow clone", `cd ..; rm -rf ws; git -C remote commit -q --allow-empty -m two
			git clone -q --depth 1 "file://$PWD/remote" ws; commit ws`, one},
		{"a commit in a partial clone", `cd ..; rm -rf ws; git -C remote config uploadpack.allowFilter true
			git clone -q --filter=blob:none "file://$PWD/remote" ws; commit ws`, one},
		{"no repository and no file", "rm -rf .git .gitignore file; mkdir empty; ln -s /etc link", ""},
		{
			"a file beside a repository",
			"mkdir r; mv .git .gitignore file r; put notes x",
			"1 file in no repository",
		},
		{"a broken reference", "echo ? > .git/refs/heads/x", "commits that git can't count"},
		{
			"a .git that leads nowhere",
			"rm -rf .git; echo gitdir: /nowhere > .git",
			"a repository that can't be read",
		},
	})
}

// unsavedCase is a script in a fresh clone, and what is then unsaved.
type unsavedCase struct{ name, script, want string }

// wantUnsaved checks cases. Those after the first plain ones are not among the tests before a
// commit.
func wantUnsaved(t *testing.T, plain int, cases []unsavedCase) {
	t.Helper()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if i >= plain {
				test.Expensive(t)
			}
			dir := realTemp(t)
			t.Cleanup(
				func() { test.OK(t, exec.CommandContext(context.Background(), "chmod", "-R", "u+rwX", dir).Run()) },
			)
			sh(t, dir, `repo remote; git clone -q "$PWD/remote" ws; cd ws; `+c.script)
			got := unsaved(t, filepath.Join(dir, "ws"))
			// versions of git differ
			if begins, more := strings.CutSuffix(c.want, ", …"); !more || !strings.HasPrefix(got, begins) {
				test.Equal(t, "unsaved", got, c.want)
			}
		})
	}
}

func unsaved(t *testing.T, dir string, also ...string) string {
	t.Helper()
	got, _ := Unsaved(t.Context(), dir, "", "", AccountFiles{}, also...)
	return got
}

// What takes too long counts as unsaved, and the reason mentions that.
func TestUnsavedTakesTooLong(t *testing.T) {
	dir := realTemp(t)
	clone(t, filepath.Join(dir, "ws"))
	got, _ := Unsaved(ended(t), filepath.Join(dir, "ws"), "", "", AccountFiles{})
	test.Equal(t, "unsaved", got, "work that can't be listed within 30s")
}

// What can't be read counts as unsaved.
func TestUnsavedUnreadable(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	if !test.Unprivileged(t) {
		return
	}
	wantUnsaved(t, 5, []unsavedCase{
		{"an ignored file", "put x.o x; chmod 0 x.o", ""},
		{"a file", "chmod 0 file", "1 change not committed"},
		{"a new file", "put new x; chmod 0 new", "1 change not committed"},
		{"a folder", "put a/file x; chmod 0 a", "folders that can't be read"},
		{
			"a folder that can't be listed, with a repository",
			"repo a; echo a > .git/info/exclude; chmod 311 a",
			"folders that can't be read",
		},
		{"the workspace", "chmod 311 .", "folders that can't be read"},
		{"HEAD", "chmod 0 .git/HEAD", "a repository that can't be read"},
		{"the index", "chmod 0 .git/index", "changes that git can't list"},
		{"the objects", "commit; chmod 0 .git/objects", "commits that git can't count, …"},
		{"the references", "commit; chmod 0 .git/refs", "commits that git can't count, …"},
		{"the branches", "commit; chmod 0 .git/refs/heads", "commits that git can't count, …"},
		{"a branch", "commit; chmod 0 .git/refs/heads/main", "a repository that can't be read"},
		{
			"the stashes",
			"echo x > file; git stash -q; chmod 0 .git/logs/refs",
			"commits that git can't count",
		},
		{"the repository", "chmod 0 .git", "a repository that can't be read"},
	})
}

// An agent does not fill an operator's terminal with the name of a branch or of a commit.
func TestLongNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(realTemp(t), "ws")
	clone(t, dir)
	sh(t, dir, "head -c 1000000 /dev/zero | tr '\\0' x | git commit -q --allow-empty -F -")
	_, items := Unsaved(t.Context(), dir, "", "", AccountFiles{})
	if got := strings.Join(items, "\n"); got == "" || len(got) > 700 {
		t.Errorf("%d bytes", len(got))
	}
	sh(t, dir, "{ printf 'ref: refs/heads/'; head -c 1000000 /dev/zero | tr '\\0' x; } > .git/HEAD")
	if g, _, _, err := Inspect(t.Context(), dir, Clone{}, 0); err == nil {
		t.Errorf("the branch has %d bytes", len(*g.Branch))
	}
}

// The branches of a linked worktree remain in the main repository, but not the commits of a
// detached HEAD, nor the repository of a submodule of the worktree. Commits in the workspace's
// directories for temporary files and caches are deleted with the workspace.
func TestUnsavedInDirectoriesDeletedToo(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	const one = "1 commit not on any remote"
	for _, c := range []struct{ name, script, want string }{
		{"a branch", "git -C main worktree add -q -b topic ../ws; commit ws", ""},
		{"a detached HEAD", "git -C main worktree add -q --detach ../ws; commit ws", one},
		{"a submodule", `git -C main worktree add -q -b topic ../ws; repo other; cd ws
			git -c protocol.file.allow=always submodule --quiet add "$PWD/../other" sub; git commit -qm sub
			cd sub; git switch -qc work; commit`, "in sub " + one},
		{"a remote", "git clone -q remote ws; git clone -q --bare remote tmp/b.git; git -C ws remote add " +
			"b ../tmp/b.git; commit ws; git -C ws push -q b main", one},
		{"a main repository", "git clone -q --mirror remote tmp/m.git; git -C tmp/m.git worktree add -q " +
			"-b topic ../../ws; commit ws", "2 commits not on any remote"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := realTemp(t)
			sh(t, dir, "repo remote; mkdir tmp; git clone -q remote main; "+c.script)
			also := []string{filepath.Join(dir, "tmp"), filepath.Join(dir, "none")}
			test.Equal(t, "unsaved", unsaved(t, filepath.Join(dir, "ws"), also...), c.want)
		})
	}
}

// Files in no repository count, unless they are exactly those that after_create has left.
func TestUnsavedOutside(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	for _, c := range []struct{ name, script, want string }{
		{"unchanged", "true", ""},
		{"a repository that is saved", "git clone -q ../remote vendor", ""},
		{"a changed file", "echo more >> src/main.c", "2 files in no repository"},
		{"as large as before", "put src/main.c 3", "2 files in no repository"},
		{"a new file beside a repository", "git clone -q ../remote vendor; put report x", "3 files in no repository"},
		{"a removed file", "rm .env", "1 file in no repository"},
		{"all files removed", "rm -r .env src", ""},
		{"a folder that can't be read", "chmod 0 src", "folders that can't be read, 2 files in no repository"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := realTemp(t)
			ws := filepath.Join(dir, "ws")
			sh(t, dir, "repo remote; mkdir ws; cd ws; put .env x; put src/main.c 2")
			t.Cleanup(
				func() { test.OK(t, exec.CommandContext(context.Background(), "chmod", "-R", "u+rwX", ws).Run()) },
			)
			known := OutsideFiles(t.Context(), ws)
			sh(t, ws, c.script)
			if got, _ := Unsaved(t.Context(), ws, known, "", AccountFiles{}); got != c.want && test.Unprivileged(t) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Files that after_create has left are known wherever the workspace is, also if a folder
// can't be read there. The names of such folders are relative to the workspace.
func TestUnsavedOutsideOfMovedWorkspace(t *testing.T) {
	t.Parallel()
	if !test.Unprivileged(t) {
		return
	}
	dir := realTemp(t)
	sh(t, dir, "mkdir -p ws/closed; put ws/.env x; chmod 0 ws/closed")
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "chmod", "-R", "u+rwX", dir).Run() })
	known := OutsideFiles(t.Context(), filepath.Join(dir, "ws"))
	sh(t, dir, "mv ws moved")
	test.Equal(t, "moved", OutsideFiles(t.Context(), filepath.Join(dir, "moved")), known)
	_, items := Unsaved(t.Context(), filepath.Join(dir, "moved"), "", "", AccountFiles{})
	test.Equal(t, "the items", items, []string{".env", "closed"})
}
