package wiring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/local/workspace"
	"github.com/symphony-cron/symphony/state"
)

// A workflow in a directory of a workspace root that no run has used is obeyed only if a pass
// has run for it. A state directory with the name that it would have is no such pass.
func TestWorkflowInARoot(t *testing.T) {
	t.Parallel()
	home := test.Must(filepath.EvalSymlinks(t.TempDir()))
	w := &environ.Env{Home: home, Dir: home, Now: time.Now, Environ: []string{"HOME=" + home}}
	app := test.Must(state.Create(t.Context(), filepath.Join(StateHome(w), "app"), time.Now()))
	root := filepath.Join(home, "ws")
	test.OK(t, app.SetMeta(t.Context(), OwnerKey, filepath.Join(home, "app", "WORKFLOW.md")))
	test.OK(t, app.SetMeta(t.Context(), RootsKey, string(text.JSON([]string{root}))))
	test.OK(t, app.Close())
	test.Must(workspace.OpenRoot(root))
	path := filepath.Join(root, "free", "WORKFLOW.md")
	test.Write(t, path, "---\ntracker: {kind: file, provider: {path: issues}}\n---\nWork.\n")
	foreign := func(path string) bool { return NewProject(w, path, "").Foreign() != nil }
	test.Equal(t, "without a state", foreign(path), true)

	db := test.Must(state.Create(t.Context(), state.DefaultDir("", home, path), time.Now()))
	test.Equal(t, "with a state of its name", foreign(path), true)
	test.OK(t, db.SetMeta(t.Context(), OwnerKey, path))
	test.OK(t, db.Close())
	test.Equal(t, "with its own state", foreign(path), false)
	link := filepath.Join(home, "link")
	test.OK(t, os.Symlink(filepath.Dir(path), link))
	test.Equal(t, "through a link", foreign(filepath.Join(link, "WORKFLOW.md")), false)
}

// In a repository that keeps its references in tables, git says whether a worktree shows a
// commit. If it can't say that, because it is too old, the worktree may show one.
func TestShownCommitInTables(t *testing.T) {
	t.Parallel()
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	sh := func(script string) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c",
		}
		test.Run(t, cmd)
	}
	// git before 2.45 does not know the format, and reads neither worktree
	sh(`git init -q --ref-format=reftable shop 2>/dev/null || { git init -q shop; touch old; }
		git -C shop commit -q --allow-empty -m one
		git -C shop worktree add -q -b mine ../mine
		git -C shop worktree add -q --detach ../look
		if [ -e old ]; then
			git -C shop config core.repositoryFormatVersion 1
			git -C shop config extensions.refStorage reftable
			echo 'ref: refs/heads/.invalid' | tee shop/.git/worktrees/look/HEAD > shop/.git/worktrees/mine/HEAD
		fi`)
	isOld := test.Exists(t, filepath.Join(dir, "old"))
	for name, want := range map[string]bool{"look": true, "mine": isOld} {
		place, _ := shownCommit(t.Context(), filepath.Join(dir, name))
		test.Equal(t, name+" shows a commit", place != "", want)
	}
}

// An empty directory .git above, as codex leaves one where it is killed, is no repository.
func TestRepositoryAbove(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "shop", "ops")
	test.OK(t, os.MkdirAll(filepath.Join(dir, ".git"), 0o755))
	test.OK(t, os.MkdirAll(filepath.Join(top, "shop", ".git"), 0o755))
	test.OK(t, os.WriteFile(filepath.Join(top, "shop", ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o600))
	test.Equal(t, "the repository", RepositoryAbove(dir), filepath.Join(top, "shop"))
}
