package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// What git commit in a workspace has to write: opened are directories that the agent can write
// anyhow, "repo" and "other" are repositories elsewhere. The agent can write the files that
// say where the repository is, and nothing that it writes there opens a directory outside its
// workspace.
func TestWritable(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	const linked = "git -C repo worktree add -q ../ws; "
	// forge makes ws look like a worktree with a git directory and a common one.
	const forge = `forge() { put ws/.git "gitdir: $PWD/$1\n"; put $1/commondir "$PWD/$2\n"; ` +
		`put $1/gitdir "$PWD/ws/.git\n"; put $1/HEAD "ref: refs/heads/main\n"; }; `
	for i, c := range []struct{ name, script, dir, opened, want string }{
		{name: "nothing", script: "true"},
		{name: "no repository", script: "mkdir ws"},
		{name: "a clone", script: "repo ws", want: "ws/.git"},
		{name: "a clone by a link", script: "repo real; ln -s real ws", want: "real/.git"},
		{name: "below a repository", script: "repo ws; mkdir ws/sub", dir: "ws/sub"},
		{name: "a linked worktree", script: linked + "mkdir repo/.git/reftable repo/.git/rr-cache"},
		{
			name:   "a linked worktree, opened",
			script: linked,
			opened: "repo/.git",
			want:   "repo/.git/worktrees/ws repo/.git",
		},
		{
			name:   "a worktree of a bare repository",
			script: "git clone -q --bare repo b; git -C b worktree add -q ../ws",
		},
		{
			name:   "a submodule",
			script: "repo ws; git -C ws -c protocol.file.allow=always submodule -q add ../repo lib",
			dir:    "ws/lib",
		},
		{
			name:   "a submodule, opened",
			script: "repo ws; git -C ws -c protocol.file.allow=always submodule -q add ../repo lib",
			dir:    "ws/lib",
			opened: "ws/.git",
			want:   "ws/.git/modules/lib",
		},
		{name: "a directory elsewhere", script: "git clone -q --separate-git-dir metas/ws repo ws"},
		{
			name:   "elsewhere, opened",
			script: "git clone -q --separate-git-dir metas/ws repo ws",
			opened: "none metas",
			want:   "metas/ws",
		},
		{
			name:   "elsewhere, opened by a link",
			script: "git clone -q --separate-git-dir metas/ws repo ws; ln -s metas link",
			opened: "link",
			want:   "metas/ws",
		},
		{
			name:   "elsewhere, opened within or beside",
			script: "git clone -q --separate-git-dir metas/ws repo ws",
			opened: "metas/ws/objects repo met",
		},
		{
			name:   "elsewhere, led on",
			script: "git clone -q --separate-git-dir metas/ws repo ws; rm -r metas/ws; ln -s ../repo/.git metas/ws",
			opened: "metas",
		},
		{name: "led to a plain directory", script: `put ws/.git "gitdir: $PWD/repo\n"`},
		{name: "led to another clone", script: `put ws/.git "gitdir: $PWD/repo/.git\n"`},
		{
			name:   "led to another worktree",
			script: `git -C repo worktree add -q ../theirs; put ws/.git "gitdir: $PWD/repo/.git/worktrees/theirs\n"`,
		},
		{name: "a link to a clone", script: "mkdir ws; ln -s ../repo/.git ws/.git"},
		{
			name:   "a link to a worktree",
			script: "git -C repo worktree add -q ../theirs; mkdir ws; ln -s ../theirs/.git ws/.git",
		},
		{name: "common directory outside", script: forge + "forge ws/fake repo/.git"},
		{name: "common directory in .git", script: `put ws/.git/commondir "$PWD/repo/.git\n"`},
		{
			name: "git directory by a link",
			script: `git -C repo worktree add -q ../theirs; put ws/.git "gitdir: g\n"; ` +
				`ln -s "$PWD/repo/.git/worktrees/theirs" ws/g`,
		},
		{name: "outside the tree", script: `put ws/.git "gitdir: ..\n"`},
		{name: "root", script: `put ws/.git "gitdir: /\n"`},
		{name: "nonsense", script: `put ws/.git "gitdir:\n"`},
		{name: "two lines", script: `put ws/.git "gitdir: x\n$PWD/repo\n"`},
		{name: "no such place", script: `put ws/.git "gitdir: /nowhere/at/all\n"`},
		{
			// theirs points back to theirs/.git; a link of that name must not make it ours
			name: "back by a link",
			script: `git -C repo worktree add -q ../theirs; ` +
				`put ws/.git "gitdir: $PWD/repo/.git/worktrees/theirs\n"; ln -s . ws/theirs`,
		},
		{
			name:   "objects by a link",
			script: forge + `forge ws/c/worktrees/w ws/c; ln -s "$PWD/repo" ws/c/objects; mkdir ws/c/refs`,
			want:   "ws/c/worktrees/w ws/c",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if i >= 12 { // the plain ones come first
				test.Expensive(t)
			}
			dir := realTemp(t)
			in := func(names string) (paths []string) {
				for _, name := range strings.Fields(names) {
					paths = append(paths, filepath.Join(dir, name))
				}
				return paths
			}
			sh(t, dir, "repo repo; mkdir metas; "+c.script)
			if c.dir == "" {
				c.dir = "ws"
			}
			ws := filepath.Join(dir, c.dir)
			got, err := Writable(ws, in(c.opened)...)
			test.Equal(
				t,
				"error and list",
				[]any{err, strings.Join(got, " ")},
				[]any{nil, strings.Join(in(c.want), " ")},
			)
			if !test.Exists(t, ws) {
				return
			}
			test.OK(t, test.Err(Root(ws)))
			test.Must(Fingerprint(t.Context(), ws))
		})
	}
}

func TestRepoRoot(t *testing.T) {
	dir := realTemp(t)
	sh(
		t,
		dir,
		`repo repo; mkdir -p repo/a/b repo/c/.git repo/c/d plain; git clone -q --bare repo store/bare.git
			git -C store/bare.git worktree add -q ../../tree
		git -C repo worktree add -q ../linked; git clone -q --separate-git-dir elsewhere repo separate`,
	)
	for from, want := range map[string]string{
		"repo":     "repo",
		"repo/a/b": "repo",
		"repo/c/d": "repo",
		"plain":    "plain",
		"tree":     "store",
		"linked":   "repo",
		"separate": "separate",
	} {
		got, err := Root(filepath.Join(dir, from))
		test.Equal(t, from+": error and root", []any{err, got}, []any{nil, filepath.Join(dir, want)})
	}
	wantCode(t, test.Err(Root(filepath.Join(dir, "none"))), files.CodeFailed)
}

// The author of commits is that of the repository, which may have its own, or one that the
// account has for a folder.
func TestIdentity(t *testing.T) {
	home := t.TempDir()
	own := filepath.Join(home, "own")
	work := filepath.Join(home, "work", "shop")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = env
		test.Run(t, cmd)
	}
	for _, dir := range []string{own, work} {
		git("init", "-q", dir)
	}
	expect := func(dir, wantName, wantEmail string) {
		t.Helper()
		name, email := Identity(t.Context(), dir, env)
		test.Equal(t, "the author in "+dir, name+" <"+email+">", wantName+" <"+wantEmail+">")
	}
	expect(own, "", "")
	git("config", "--global", "user.name", "Ann")
	git("config", "--global", "user.email", "ann@home.example")
	git("config", "--global", "includeIf.gitdir:"+filepath.Join(home, "work")+"/.path", filepath.Join(home, "atwork"))
	git("config", "--file", filepath.Join(home, "atwork"), "user.email", "ann@work.example")
	git("-C", own, "config", "user.email", "ann@own.example")
	expect(own, "Ann", "ann@own.example")
	expect(work, "Ann", "ann@work.example")
}
