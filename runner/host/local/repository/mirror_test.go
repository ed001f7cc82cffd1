package repository

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

func TestCloneAndDeliver(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	answer := p.mustClone("one")
	main := p.sh("git -C person rev-parse main")
	test.Equal(t, "answer", answer, host.CloneAnswer{Base: "main", Commit: main, BaseCommit: main})
	test.Equal(
		t,
		"branch",
		p.sh("cd one; git branch --show-current; git status --short; git remote get-url origin; cat file"),
		"work/one\n"+p.remote+"\none",
	)
	if data, _ := os.ReadFile(filepath.Join(p.dir, "one/.git/objects/info/alternates")); !strings.HasPrefix(
		string(data),
		p.mirrors,
	) {
		t.Errorf("the workspace borrows from %q", data)
	}
	if nothing := p.mustDeliver("one", ""); nothing.Commits > 0 || nothing.Commit != main {
		t.Errorf("without a commit: %+v", nothing)
	}
	p.wantRemote(main + " main")

	p.commit("one", "first")
	second := p.commit("one", "second")
	test.Equal(t, "delivery", p.mustDeliver("one", ""), host.DeliverAnswer{
		Commit:  second,
		Base:    "main",
		Commits: 2,
	})
	p.wantRemote(main+" main", second+" work/one")
	unsaved, _ := git.Unsaved(t.Context(), filepath.Join(p.dir, "one"), "", "", git.AccountFiles{})
	test.Equal(t, "unsaved after the delivery", unsaved, "")
	if again := p.mustDeliver("one", second); again.Commits > 0 {
		t.Errorf("once more: %+v", again)
	}

	amended := p.sh("cd one; git commit -q --amend -m other; git rev-parse HEAD")
	test.Equal(t, "amended", p.mustDeliver("one", second), host.DeliverAnswer{
		Commit:  amended,
		Base:    "main",
		Commits: 1,
	})
	p.wantRemote(main+" main", amended+" work/one")
}

// A clone begins where symphony has left the branch, or where someone else has continued it.
func TestCloneContinues(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	base := p.sh("git -C person rev-parse main")
	delivered := p.commit("one", "first")
	p.mustDeliver("one", "")
	for _, c := range []struct{ name, change, delivered, want string }{
		{"as delivered", "", delivered, delivered},
		{"never delivered", "", "", base},
		{"another commit was delivered", "", strings.Repeat("1", 40), base},
		{"continued", "git checkout -qB w origin/work/one; git commit -q --allow-empty -m more; git push " +
			"-q origin w:work/one", delivered, "w"},
		{"replaced", "git push -qf origin $(git commit-tree -m other " +
			"main^{tree}):refs/heads/work/one", delivered, base},
		{"merged", "git push -qf origin " + delivered + ":work/one " + delivered + ":main", delivered, delivered},
		{"deleted", "git push -q origin :work/one", delivered, base},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.t = t
			p.sh(
				"rm -rf one; cd person; git push -qf origin " + base + ":main " + delivered +
					":work/one; git checkout -q --detach; git fetch -q; " + c.change,
			)
			answer := test.Must(p.clone("one", c.delivered))
			want := c.want
			if want == "w" {
				want = p.sh("git -C person rev-parse w")
			}
			test.Equal(t, "commit", answer.Commit, want)
			test.Equal(
				t,
				"HEAD",
				p.sh("cd one; git rev-parse HEAD; git branch --show-current"),
				want+"\nwork/one",
			)
		})
	}
}

// Remotes that can't be cloned from. The message is the reason in what git and the remote say.
func TestCloneFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`git init -q --bare empty.git
		printf '#!/bin/sh\necho git@host: Permission denied "(publickey)." >&2; exit 255\n' > ssh; chmod +x ssh`)
	p.env = append(p.env, "GIT_SSH_COMMAND="+filepath.Join(p.dir, "ssh"))
	for _, c := range []struct {
		remote host.Repository
		branch string
		parts  []string
	}{
		{
			host.Repository{URL: filepath.Join(p.dir, "none.git")},
			"w",
			[]string{"fatal: ", "does not appear to be a git repository"},
		},
		{host.Repository{URL: "git@host:org/app.git"}, "w", []string{
			"(git@host:org/app.git): git ls-remote: git@host: Permission denied (publickey).",
		}},
		{
			host.Repository{URL: "http://user:secret@127.0.0.1:1/app.git"},
			"w",
			[]string{"fatal: unable to access 'http://127.0.0.1:1/app.git/'"},
		},
		{host.Repository{URL: filepath.Join(p.dir, "empty.git")}, "w", []string{"it has no commit"}},
		{host.Repository{
			URL:  filepath.Join(p.dir, "empty.git"),
			Base: "main",
		}, "w", []string{`it has no branch "main": correct repository.base`}},
		{host.Repository{
			URL:  p.remote,
			Base: "release",
		}, "w", []string{`it has no branch "release": correct repository.base`}},
		{host.Repository{
			URL:  p.remote,
			Base: "main~0",
		}, "w", []string{`it has no branch "main~0"`}},
	} {
		workspace := t.TempDir()
		_, err := p.mirrorOf(c.remote).Clone(t.Context(), workspace, c.branch, "")
		wantFault(t, err, host.CodeRepositoryUnavailable, c.parts...)
		test.Lacks(t, "the error", err.Error(), "secret", "and the repository exists")
	}
	const forbidden = "git does not take this name for a branch"
	for branch, part := range map[string]string{
		"main":                   "it is the base",
		"a..b":                   forbidden,
		"-x":                     forbidden,
		"HEAD":                   forbidden,
		"@":                      forbidden,
		"refs/heads/x":           forbidden,
		"":                       forbidden,
		"FETCH_HEAD":             forbidden,
		"ORIG_HEAD":              forbidden,
		"+main":                  forbidden,
		"heads/main":             forbidden,
		"tags/v1":                forbidden,
		"remotes/origin/main":    forbidden,
		strings.Repeat("a1", 20): forbidden,
		"ma\u202ein":             forbidden,
		"main\u200b":             forbidden,
	} {
		wantFault(
			t,
			test.Err(p.mirror().Clone(t.Context(), t.TempDir(), branch, "")),
			host.CodeInvalidBranch,
			part,
		)
	}

	p.sh(`rm home/.gitconfig; git config --file home/.gitconfig user.useConfigOnly true`)
	wantFault(
		t,
		test.Err(p.mirror().Clone(t.Context(), t.TempDir(), "w", "")),
		host.CodeNoIdentity,
		"no email was given",
	)
	test.Must(p.mirrorOf(host.Repository{
		URL:   p.remote,
		Name:  "Agent",
		Email: "agent@example.org",
	}).Clone(t.Context(), t.TempDir(), "w", ""))
}

// Another base than the default branch does not hide that the remote has a new default branch.
func TestDefaultBranchIsRenamed(t *testing.T) {
	p := newPlace(t)
	remote := host.Repository{URL: p.remote, Base: "main", Pushes: true}
	test.Must(p.mirrorOf(remote).Clone(t.Context(), t.TempDir(), "work", ""))
	p.sh("git -C remote.git branch trunk main; git -C remote.git symbolic-ref HEAD refs/heads/trunk")
	_, err := p.mirrorOf(remote).Clone(t.Context(), t.TempDir(), "trunk", "")
	wantFault(t, err, host.CodeInvalidBranch, "or the default branch of the remote")
	remote.Base = ""
	test.Equal(
		t,
		"base",
		test.Must(p.mirrorOf(remote).Clone(t.Context(), t.TempDir(), "work", "")).Base,
		"trunk",
	)
}

// A default branch that was renamed while the agent worked is the base of the delivery, and
// nothing is pushed to its new name.
func TestDefaultBranchIsRenamedDuringRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	commit := p.commit("one", "first")
	p.sh("git -C remote.git branch -m main trunk")
	ws := filepath.Join(p.dir, "one")
	toTrunk := host.DeliverRequest{Branch: "trunk"}
	_, err := p.mirror().DeliverWorkspace(t.Context(), ws, host.Origin{URL: p.remote}, toTrunk)
	wantFault(t, err, host.CodeInvalidBranch, "it is the base, or the default branch of the remote")
	test.Equal(t, "delivered", p.mustDeliver("one", ""), host.DeliverAnswer{
		Commit:  commit,
		Base:    "trunk",
		Commits: 1,
	})
}

func TestGitIsMissing(t *testing.T) {
	p := newPlace(t)
	p.env[0] = "PATH=/nonexistent"
	t.Setenv("PATH", "/nonexistent")
	wantFault(
		t,
		test.Err(p.mirror().Clone(t.Context(), t.TempDir(), "w", "")),
		host.CodeRepositoryUnavailable,
		"git is missing",
	)
	read := files.Failed(exec.Command("git").Run(), "read the commits")
	test.Equal(
		t,
		"hint",
		read.(*reconcile.Error).Hint,
		"install git, or add its directory to PATH in ~/.profile",
	)
}

// A git command that is killed runs once more. If it is killed again, the error does not blame
// the remote, which would block all issues.
func TestGitIsKilled(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	git := test.Must(exec.LookPath("git"))
	p.sh(
		`mkdir bin; printf '#!/bin/sh\ncase "$*" in *" fetch "*) if [ -e kill ] || [ ! -e ../once ]; ` +
			`then : > ../once; kill -9 $$; fi ;; esac\nexec ` + git + ` "$@"\n' > bin/git; chmod +x bin/git`,
	)
	p.env[0] = "PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH")
	test.Must(p.mirror().Clone(t.Context(), t.TempDir(), "one", ""))
	test.Equal(t, "git was killed", test.Exists(t, filepath.Join(p.dir, "once")), true)
	p.sh("touch mirrors/kill")
	wantFault(
		t,
		test.Err(p.mirror().Clone(t.Context(), t.TempDir(), "two", "")),
		host.CodeGitKilled,
		"fetch",
		"signal: killed",
	)
	// of the clone in the workspace
	for _, command := range []string{"clone", "config", "var", "checkout"} {
		p.sh(
			`printf '#!/bin/sh\ncase " $* " in *" ` + command + ` "*) kill -9 $$ ;; ` +
				`esac\nexec ` + git + ` "$@"\n' > bin/git`,
		)
		wantFault(
			t,
			test.Err(p.mirror().Clone(t.Context(), t.TempDir(), "three", "")),
			host.CodeGitKilled,
			"signal: killed",
		)
	}
}

// The base may be another branch than the default one, which may change.
func TestBase(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	release := p.sh(
		`cd person; git checkout -q -b release; git commit -q --allow-empty -m release; git push -q origin release
		git rev-parse HEAD`,
	)
	workspace := filepath.Join(p.dir, "one")
	test.OK(t, os.Mkdir(workspace, 0o700))
	named := p.mirrorOf(host.Repository{
		URL:   p.remote,
		Base:  "release",
		Name:  "Robot",
		Email: "robot@example.org",
	})
	answer := test.Must(named.Clone(t.Context(), workspace, "work/one", ""))
	test.Equal(t, "named", answer, host.CloneAnswer{
		Base:       "release",
		Commit:     release,
		BaseCommit: release,
	})
	test.Equal(
		t,
		"author",
		p.sh(
			"cd one; git config user.name; git config user.email; git symbolic-ref refs/remotes/origin/HEAD",
		),
		"Robot\nrobot@example.org\nrefs/remotes/origin/release",
	)
	test.Equal(t, "default", p.mustClone("two").Base, "main")
	p.sh("git -C remote.git symbolic-ref HEAD refs/heads/release")
	test.Equal(t, "new default", p.mustClone("three").Base, "release")
}

// What a killed git or a power failure leaves in the mirror is removed, and a branch that
// became a directory of branches replaces it.
func TestMirrorRecovers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh("git -C person push -q origin main:topic")
	p.mustClone("one")
	p.sh(`cd mirrors/*.git; : > packed-refs.lock; : > HEAD.lock; mkdir -p refs/heads objects/pack
		: > refs/heads/main.lock; : > objects/pack/tmp_pack_x; : > objects/pack/.tmp-1-pack-x.pack
		: > objects/pack/pack-x.keep; : > refs/heads/main
		cd ../../person; git push -q origin :topic; git commit -q --allow-empty -m more
		git push -q origin main main:topic/a`)
	p.mustClone("two")
	main := p.sh("git -C person rev-parse main")
	refs := p.sh("git -C mirrors/*.git for-each-ref --format='%(objectname) %(refname:short)'")
	test.Equal(t, "mirror", refs, main+" main\n"+main+" topic/a")
	test.Equal(
		t,
		"leftovers",
		p.sh(
			"find mirrors/*.git -name '*.lock' -o -name '*tmp*' -o -name '*.keep' -o -path '*/objects/??/*'",
		),
		"",
	)
	p.sh("cd mirrors/*.git; : > HEAD") // its creator died
	p.mustClone("three")
}

// The configuration of a mirror is written anew before git reads it, so that what an agent may
// once have written there does not run.
func TestMirrorIsConfiguredAnew(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	plant := `cd mirrors/*.git; git config core.fsmonitor 'touch "` + p.dir + `/ran"; false'
		git config core.gitProxy 'touch ` + p.dir + `/ran'
		git config uploadpack.packObjectsHook 'touch ` + p.dir + `/ran'
		git config core.sshCommand 'touch ` + p.dir + `/ran'
		git init -q --bare ../other; git -C ../other config core.fsmonitor 'touch "` + p.dir + `/ran"; false'
		echo ../other > commondir`
	p.sh(plant)
	p.mustClone("two")
	p.commit("two", "work")
	p.sh(plant)
	test.OK(t, test.Err(p.deliver("two", "")))
	test.Equal(
		t,
		"what is left",
		p.sh("ls ran mirrors/*.git/commondir 2>/dev/null || grep touch mirrors/*.git/config || true"),
		"",
	)
}

// A program that git leaves in the background, such as a cache of credentials, does not keep
// the mirror locked.
func TestProgramInBackground(t *testing.T) {
	p := newPlace(t)
	p.sh(
		`printf '#!/bin/sh\nsleep 1000 >/dev/null 2>&1 &\necho $! >> ` + p.dir +
			`/left\nshift $(($#-1)); exec sh -c "$1"\n' > ssh; chmod +x ssh`,
	)
	p.env = append(p.env, "GIT_SSH_COMMAND="+filepath.Join(p.dir, "ssh"))
	p.remote = "host:" + p.remote
	p.mustClone("one")
	defer p.sh("kill $(cat left)")
	p.commit("one", "first")
	p.mustDeliver("one", "")
}

// The mirror was deleted: the next delivery makes a new one.
func TestDeliverWithoutMirror(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	commit := p.commit("one", "first")
	p.sh("rm -rf mirrors")
	test.Equal(t, "delivery", p.mustDeliver("one", "").Commit, commit)
}

// Many fetches and deliveries leave many packs. They are joined, and no object is lost, even
// if no reference leads to it.
func TestPacksAreJoined(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	p.sh(`cd mirrors/*.git; tree=$(git rev-parse main^{tree})
		for i in $(seq 60)
		do git commit-tree -m $i $tree | tee -a ../made | git pack-objects -q objects/pack/pack; done
		git prune-packed; echo unreachable | git hash-object -w --stdin >> ../made
		git update-ref refs/heads/old $(sed -n 1p ../made)`)
	p.mustClone("two")
	if packs, _ := filepath.Glob(filepath.Join(p.mirrors, "*/objects/pack/*.pack")); len(packs) > 5 {
		t.Errorf("%d packs", len(packs))
	}
	test.Equal(
		t,
		"missing",
		p.sh("git -C mirrors/*.git cat-file --batch-check < mirrors/made | grep -c missing || true"),
		"0",
	)
	p.sh("git -C one fsck")
}

// The path of the mirror has characters of patterns.
func TestPatternInPath(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mirrors = filepath.Join(p.dir, "a[b]*")
	p.mustClone("one")
	p.commit("one", "two")
	p.sh(
		"for m in 'a[b]*'/remote-*.git; do touch \"$m/objects/pack/tmp_pack_x\"; done; mkdir " +
			"'a[b]*/incoming-old'; touch -d '2 days ago' 'a[b]*/incoming-old'",
	)
	test.Equal(t, "commits", p.mustDeliver("one", "").Commits, 1)
	test.Equal(t, "left", p.sh("cd 'a[b]*'; ls -d incoming-* */objects/pack/tmp_* 2>/dev/null || true"), "")
	test.Equal(t, "mirrors", len(test.Must(In(p.mirrors, p.env))), 1)
}

// The names of objects are SHA-256 also where the default branch has no commit.
func TestBaseNamesObjects(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`git init -q --bare --object-format=sha256 -b none large.git
		git init -q --object-format=sha256 -b trunk seed; cd seed; git commit -q --allow-empty -m one
		git push -q ../large.git trunk`)
	large := p.mirrorOf(host.Repository{URL: filepath.Join(p.dir, "large.git"), Base: "trunk"})
	answer := test.Must(large.Clone(t.Context(), t.TempDir(), "work", ""))
	test.Equal(t, "commit", answer.Commit, p.sh("git -C seed rev-parse HEAD"))
}

// A git that is killed while it compares says nothing about the last delivery: a clone that
// began at the base would later replace it.
func TestKilledWhileDeliveryIsCompared(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.mustClone("one")
	delivered := p.commit("one", "first")
	p.mustDeliver("one", "")
	git := test.Must(exec.LookPath("git"))
	p.env[0] = "PATH=" + filepath.Join(p.dir, "bin") + ":" + os.Getenv("PATH")
	for _, command := range []string{"merge-base", "show-ref"} {
		p.sh(`mkdir -p bin; rm -rf one; printf '#!/bin/sh\ncase " $* " in *" ` + command +
			` "*) kill -9 $$ ;; esac\nexec ` + git + ` "$@"\n' > bin/git; chmod +x bin/git`)
		wantFault(t, test.Err(p.clone("one", delivered)), host.CodeGitKilled, "signal: killed")
	}
}

// A history that git can't read is no answer. That the mirror lacks a commit is one.
func TestContains(t *testing.T) {
	p := newPlace(t)
	p.mustClone("ws")
	m := p.mirror()
	commits := strings.Fields(p.sh(`cd ` + m.path + `
		tree=$(git rev-parse 'refs/heads/main^{tree}')
		one=$(git commit-tree -m one $tree)
		two=$(git commit-tree -m two -p $one $tree)
		echo $one $two $(git commit-tree -m three -p $two $tree)`))
	const none = "1111111111111111111111111111111111111111"
	for _, c := range []struct {
		commit, other string
		want          bool
	}{
		{commits[2], commits[0], true},
		{commits[0], commits[2], false},
		{commits[0], none, false},
		{none, commits[0], false},
		{"refs/heads/none", commits[0], false},
	} {
		got := test.Must(m.contains(t.Context(), c.commit, c.other))
		test.Equal(t, c.commit+" contains "+c.other, got, c.want)
	}
	object := filepath.Join(m.path, "objects", commits[1][:2], commits[1][2:])
	test.OK(t, os.Remove(object))
	test.Write(t, object, "damaged")
	_, err := m.contains(t.Context(), commits[2], commits[0])
	if err == nil {
		t.Error("a commit of the history is damaged, and git answered")
	}
}
