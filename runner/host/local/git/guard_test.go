package git

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// guarded is a workspace with a git repository, as the workflow's hooks have made it.
type guarded struct {
	*Guard
	t *testing.T
	// mark is a file outside the workspace that every attack creates. spare is a directory
	// that the agent can write.
	mark, spare string
	reaches     bool // the agent can write anywhere
}

// guard makes one: a clone, or a linked worktree of a repository elsewhere.
func guard(t *testing.T, linked bool) *guarded {
	t.Helper()
	g := guardEmpty(t)
	if linked {
		main := filepath.Join(realTemp(t), "main")
		clone(t, main)
		test.OK(t, os.Remove(g.Tree))
		git(t, main, "worktree", "add", "-q", "-b", "topic", g.Tree)
	} else {
		clone(t, g.Tree)
	}
	return g
}

// guardEmpty makes one without a repository.
func guardEmpty(t *testing.T) *guarded {
	t.Helper()
	dir := realTemp(t)
	g := &guarded{t: t, mark: filepath.Join(dir, "ran"), spare: filepath.Join(dir, "tmp")}
	g.Guard = &Guard{
		Tree:   filepath.Join(dir, "tree"),
		Temp:   []string{g.spare, filepath.Join(dir, "cache")},
		File:   filepath.Join(dir, "git-trusted.json"),
		Verify: func() error { return nil },
	}
	test.OK(t, os.Mkdir(g.Tree, 0o700))
	test.OK(t, os.Mkdir(g.spare, 0o700))
	return g
}

func (g *guarded) trust() {
	g.t.Helper()
	settings := test.Must(ReadSettings(g.t.Context(), g.Tree, command(g.t, g.Tree, "true").Env))
	test.OK(
		g.t,
		g.Trust(g.t.Context(), func(string) bool { return g.reaches }, settings.HooksPath),
	)
}

func (g *guarded) undo(want ...string) {
	g.t.Helper()
	undone := test.Must(g.Undo(g.t.Context()))
	for _, name := range want {
		if !slices.ContainsFunc(
			undone.Names,
			func(done string) bool { return done == name || strings.HasSuffix(done, ": "+name) },
		) {
			g.t.Errorf("%s is not undone", name)
		}
	}
	if len(undone.Names) != len(want) || g.untrusted != nil || undone.Incomplete != "" {
		g.t.Errorf("undone %+v, want %q, %v", undone, want, g.untrusted)
	}
}

// refuses checks that no hook may run, and that the error names what was found.
func (g *guarded) refuses(want ...string) {
	g.t.Helper()
	for range 2 { // nor does another run make it trusted
		test.Must(g.Undo(g.t.Context()))
		_, _, err := g.HookEnv(nil)
		wantCode(g.t, err, host.CodeUntrusted)
		for _, name := range want {
			if !strings.Contains(err.Error(), name) {
				g.t.Errorf("%v does not name %s", err, name)
			}
		}
		g.trust()
	}
}

// sh runs a script in the workspace, as the workflow's hooks are: with the environment of
// hooks.
func (g *guarded) sh(script string) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), test.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = g.Tree
	// also where no hook may run
	cmd.Env, _, _ = g.HookEnv(append(command(g.t, g.Tree, "true").Env, "MARK="+g.mark, "SPARE="+g.spare))
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		g.t.Fatalf("%s: %v", script, ctx.Err())
	}
	return fmt.Sprintf("%s%v", out, err)
}

// do runs a script that must succeed.
func (g *guarded) do(script string) string {
	g.t.Helper()
	said, ok := strings.CutSuffix(g.sh("set -e; "+script), "<nil>")
	if !ok {
		g.t.Fatalf("%s: %s", script, said)
	}
	return said
}

// ran reports whether the agent's program ran, and forgets it.
func (g *guarded) ran() bool {
	g.t.Helper()
	ran := test.Exists(g.t, g.mark)
	test.OK(g.t, os.RemoveAll(g.mark))
	return ran
}

const hookEvil = `printf '#!/bin/sh\ntouch "$MARK"\ncat >/dev/null 2>&1 </dev/null\n' > "$HOOK"; chmod +x "$HOOK"; `

// twoBranches change the same file, and it has a program of git's that git has not got.
const twoBranches = `git checkout -qb b; echo b > file; git commit -qam b; echo d > other; git add other
	git commit -qm d
	git checkout -q main; echo c > file; git commit -qam c
	mkdir git-merge-x; HOOK=git-merge-x/evil; ` + hookEvil

// manyDirs makes many git directories, and behind them a submodule that .gitmodules does not
// let git ignore.
const manyDirs = `mkdir -p $(seq -f 'many/%g/.git' 2100)
	printf '[submodule "s"]\n\tpath = a/b/sub\n\turl = https://x.invalid/r\n\tignore = none\n' > .gitmodules
	git init -q -b main a/b/sub; git -C a/b/sub commit -q --allow-empty -m x; git add a/b/sub .gitmodules 2>&1; `

// remote is a repository of the operator's, servers are two that git takes for a server.
const (
	remote   = `git init -q --bare "$MARK.git"; git remote add origin "$MARK.git"; git push -q origin main; `
	companys = `git init -q --bare "$MARK-company.git"; git remote add company "$MARK-company.git"; `
	servers  = `git init -q --bare "$MARK-good"; git init -q --bare "$MARK-evil"; ` +
		`git config url."$MARK-".insteadOf https://h.invalid/; git remote add origin https://h.invalid/good; `
)

// elsewhere is a repository that runs a program, outside the workspace.
const elsewhere = `git init -q "$SPARE/r"; git -C "$SPARE/r" commit -q --allow-empty -m x; ` +
	`git -C "$SPARE/r" config core.fsmonitor 'touch "$MARK"; false'; `

// attacks list what the operator has set up, what an agent does, what a hook of the workflow
// does later, and what is undone in between. Each attack succeeds if nothing is undone.
// TestAllows lists the settings that an agent may not make; here are those that show how one
// comes into effect.
var attacks = []struct {
	name, operator, agent, hook string
	linked, reaches             bool
	user                        bool // root would notice nothing
	undone                      []string
}{
	{
		name:   "core.fsmonitor",
		agent:  `git config core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{"core.fsmonitor"},
	},
	{
		name:   "hook",
		agent:  `HOOK=.git/hooks/post-commit; mkdir -p .git/hooks; ` + hookEvil,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"hooks/post-commit"},
	},
	{
		name: "a path for a remote",
		agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil +
			`git remote add origin "$SPARE/e"`,
		hook:   "git push origin HEAD:refs/heads/y",
		undone: []string{"remote.origin.url"},
	},
	{
		name: "commondir",
		agent: `cp -r .git "$SPARE/other"; ` +
			`git --git-dir="$SPARE/other" config core.fsmonitor 'touch "$MARK"; false'; ` +
			`echo "$SPARE/other" > .git/commondir`,
		hook:   "git status",
		undone: []string{"commondir"},
	},
	{
		name: "configuration by a link",
		agent: `cp .git/config "$SPARE/c"; git config --file "$SPARE/c" core.fsmonitor ` +
			`'touch "$MARK"; false'; rm .git/config; ln -s "$SPARE/c" .git/config`,
		hook:   "git status",
		undone: []string{"config"},
	},
	{
		name: "a rebase under way",
		agent: `GIT_SEQUENCE_EDITOR=` +
			`'f() { printf "break\n x\ttouch \"%s\"\nexec touch \"%s\"\n" "$MARK" "$MARK" > "$1"; }; f' git rebase -i HEAD`,
		hook:   "git rebase --continue",
		undone: []string{"rebase-merge/git-rebase-todo"},
	},
	{
		name:   "a link for a reflog",
		agent:  `ln -sf "$MARK" .git/logs/HEAD`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"logs/HEAD"},
	},
	{
		name:    "worktree: the main repository",
		linked:  true,
		reaches: true,
		agent: `git config alias.publish '!touch "$MARK"'; ` +
			`HOOK=$(git rev-parse --git-common-dir)/hooks/post-commit; mkdir -p "${HOOK%/*}"; ` + hookEvil,
		hook:   "git publish; git commit --allow-empty -m x",
		undone: []string{"alias.publish", "hooks/post-commit"},
	},
	{
		name: "a directory that leads to its temporary one",
		agent: `git init -q "$SPARE/r"; git -C "$SPARE/r" config core.fsmonitor 'touch "$MARK"; false'; ` +
			`mkdir "$SPARE/r/deep"; ln -s "$SPARE/r/deep" sub`,
		hook:   "cd sub && git status",
		undone: []string{"SPARE/r/.git: core.fsmonitor"},
	},
	{
		name:   "core.hooksPath, old spelling",
		agent:  `mkdir evil; HOOK=evil/pre-commit; ` + hookEvil + `printf '[CORE]HOOKSPATH=evil' >> .git/config`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"core.hookspath"},
	},
	{
		name: "filter",
		agent: `git config filter.evil.clean 'touch "$MARK"; cat'; ` +
			`echo '* filter=evil' > .gitattributes; echo x > new`,
		hook:   "git add new",
		undone: []string{"filter.evil.clean"},
	},
	{
		name:   "include",
		agent:  `printf '[alias]\n\tpublish = "!touch \\"$MARK\\""\n' > inc; git config include.path ../inc`,
		hook:   "git publish",
		undone: []string{"include.path"},
	},
	{
		name: "url instead of",
		agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil +
			`git config url."$SPARE/e".insteadOf https://x.invalid/r`,
		hook:   "git push https://x.invalid/r HEAD:refs/heads/y",
		undone: []string{"url.*.insteadof"},
	},
	{
		name: "a branch's remote is a path",
		agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil +
			`git config branch.main.remote "$SPARE/e"; git config branch.main.merge refs/heads/main`,
		hook:   "git push",
		undone: []string{"branch.main.remote"},
	},
	{
		name: "a branch's remote is a file that leads away",
		agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil +
			`echo "gitdir: $SPARE/e" > away; git config branch.main.remote away; ` +
			`git config branch.main.merge refs/heads/main`,
		hook:   "git push",
		undone: []string{"branch.main.remote"},
	},
	{
		name: "a remote by an old file",
		agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil +
			`mkdir -p .git/remotes; echo "URL: $SPARE/e" > .git/remotes/up`,
		hook:   "git push up HEAD:refs/heads/y",
		undone: []string{"remotes/up"},
	},
	{
		name:   "hook by a link",
		agent:  `HOOK=$SPARE/h; ` + hookEvil + `mkdir -p .git/hooks; ln -s "$SPARE/h" .git/hooks/post-commit`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"hooks/post-commit"},
	},
	{
		name: "hooks by a link",
		agent: `mkdir "$SPARE/h"; HOOK=$SPARE/h/post-commit; ` + hookEvil +
			`rm -rf .git/hooks; ln -s "$SPARE/h" .git/hooks`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"hooks"},
	},
	{
		name: "work tree configuration",
		agent: `git config extensions.worktreeConfig true; ` +
			`git config --worktree core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{"core.fsmonitor"},
	},
	{
		name: "the repository moved away",
		agent: `mv .git "$SPARE/moved"; echo "gitdir: $SPARE/moved" > .git; ` +
			`git config core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{".git"},
	},
	{
		name:   "the repository behind a link",
		agent:  `mv .git "$SPARE/moved"; ln -s "$SPARE/moved" .git; git config core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{".git"},
	},
	{
		name:   "the repository within the work tree",
		agent:  `mv .git moved; ln -s moved .git; git config core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{"moved: core.fsmonitor"},
	},
	{
		name: "a zero byte in .git",
		agent: `mv .git "$SPARE/moved"; printf 'gitdir: %s\0/x' "$SPARE/moved" > .git; ` +
			`git config core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{".git"},
	},
	{
		name: "submodule without a .gitmodules",
		agent: `git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>&1; ` +
			`git -C sub config core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{"sub/.git: core.fsmonitor"},
	},
	{
		name: "submodule that was there turned away",
		agent: `git init -q "$SPARE/sub"; git -C "$SPARE/sub" commit -q --allow-empty -m x; ` +
			`git -C "$SPARE/sub" config core.fsmonitor 'touch "$MARK"; false'; mkdir sub; ` +
			`echo "gitdir: $SPARE/sub/.git" > sub/.git; git add sub`,
		hook:   "git status",
		undone: []string{"sub/.git: leads elsewhere"},
	},
	{
		name: "module by a link",
		agent: `git init -q "$SPARE/sub"; git -C "$SPARE/sub" commit -q --allow-empty -m x; ` +
			`git -C "$SPARE/sub" config core.fsmonitor 'touch "$MARK"; false'; mkdir sub .git/modules; ` +
			`ln -s "$SPARE/sub/.git" .git/modules/sub; ` +
			`echo "gitdir: ../.git/modules/sub" > sub/.git; git add sub`,
		hook:   "git status",
		undone: []string{"modules/sub"},
	},
	{
		name:   "a bare repository in a directory",
		agent:  `git init -q --bare b; git -C b config alias.publish '!touch "$MARK"'`,
		hook:   "cd b && git publish",
		undone: []string{"b: alias.publish"},
	},
	{
		name: "a bare repository without its names",
		agent: `git init -q --bare b; mv b/config b/c; mkdir x; mv b/objects b/refs x; mv b/c x/config; ` +
			`git config --file x/config alias.publish '!touch "$MARK"'; echo ../x > b/commondir`,
		hook:   "cd b && git publish",
		undone: []string{"b: commondir"},
	},
	{
		name: "a rebase with a list elsewhere",
		agent: `GIT_SEQUENCE_EDITOR='f() { echo break > "$1"; }; f' git rebase -i HEAD; ` +
			`echo "exec touch \"$MARK\"" > todo; ln -sf ../../todo .git/rebase-merge/git-rebase-todo`,
		hook:   "git rebase --continue",
		undone: []string{"rebase-merge/git-rebase-todo"},
	},
	{
		name: "a rebase's strategy",
		agent: twoBranches + `GIT_SEQUENCE_EDITOR='f() { echo "break\npick b" > "$1"; }; ` +
			`f' git rebase -i HEAD; echo x/evil > .git/rebase-merge/strategy`,
		hook:   "git rebase --continue",
		undone: []string{"rebase-merge/strategy"},
	},
	{
		name: "a pick's strategy",
		agent: twoBranches + `git cherry-pick b~ b; git checkout -f HEAD -- file; ` +
			`git config --file .git/sequencer/opts options.strategy x/evil`,
		hook:   "git cherry-pick --skip",
		undone: []string{"sequencer/opts"},
	},
	{
		name:   "a link for a branch's reflog",
		agent:  `ln -sf "$MARK" .git/logs/refs/heads/main`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"logs/refs/heads/main"},
	},
	{
		name:   "a link for a message",
		agent:  `ln -sf "$MARK" .git/COMMIT_EDITMSG`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"COMMIT_EDITMSG"},
	},
	{
		name:   "a link for what is fetched",
		agent:  `ln -sf "$MARK" .git/FETCH_HEAD`,
		hook:   "git fetch .",
		undone: []string{"FETCH_HEAD"},
	},
	{
		name: "a link for logs",
		agent: `rm -r .git/logs; mkdir -p "$SPARE/l/refs/heads"; ln -s "$MARK" "$SPARE/l/HEAD"; ` +
			`ln -s "$SPARE/l" .git/logs`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"logs"},
	},
	{
		name: "a link in a bare repository",
		agent: `git init -q --bare b; git -C b config core.logAllRefUpdates true; ` +
			`mkdir -p b/logs/refs/heads; ln -s "$MARK" b/logs/refs/heads/y`,
		hook:   "git push ./b HEAD:refs/heads/y",
		undone: []string{"b: logs/refs/heads/y"},
	},
	{
		name:   "a link in a submodule",
		agent:  `git init -q sub; git -C sub commit -q --allow-empty -m x; ln -sf "$MARK" sub/.git/logs/HEAD`,
		hook:   "git -C sub commit --allow-empty -m y",
		undone: []string{"sub/.git: logs/HEAD"},
	},
	{
		name:   "worktree: a link for a reflog",
		linked: true,
		agent:  `ln -sf "$MARK" "$(git rev-parse --git-dir)/logs/HEAD"`,
		hook:   "git commit --allow-empty -m x",
		undone: []string{"logs/HEAD"},
	},
	{
		name: "no git can read it",
		agent: `printf '[alias]\n\tpublish = "!touch \\"$MARK\\""\n[alias "' > c; cat .git/config >> c; ` +
			`cp c .git/config`,
		hook:   "git publish",
		undone: []string{"config"},
	},
	{
		name: "a directory that can't be listed",
		user: true,
		agent: `mkdir dir; git init -q dir/sub; git -C dir/sub commit -q --allow-empty -m x; git add dir/sub; ` +
			`git -C dir/sub config core.fsmonitor 'touch "$MARK"; false'; chmod 311 dir`,
		hook:   "git status",
		undone: []string{"dir: permission denied"},
	},
	{
		name:   "a submodule behind many directories",
		agent:  manyDirs + `git -C a/b/sub config core.fsmonitor 'touch "$MARK"; false'`,
		hook:   "git status",
		undone: []string{"a/b/sub/.git: core.fsmonitor"},
	},
	{
		name:     "another server for a remote",
		operator: servers,
		agent:    `git remote set-url origin https://h.invalid/evil`,
		hook: `git push -q origin HEAD:refs/heads/x; git -C "$MARK-evil" rev-parse -q --verify x && ` +
			`touch "$MARK"`,
		undone: []string{"remote.origin.url"},
	},
	{
		name:     "another server for the pushes of a remote",
		operator: servers,
		agent:    `git remote set-url --push origin https://h.invalid/evil`,
		hook: `git push -q origin HEAD:refs/heads/x; git -C "$MARK-evil" rev-parse -q --verify x && ` +
			`touch "$MARK"`,
		undone: []string{"remote.origin.pushurl"},
	},
	{
		name:     "another remote for a branch",
		operator: servers,
		agent: `git remote add evil https://h.invalid/evil; git config branch.main.remote evil; ` +
			`git config branch.main.merge refs/heads/main`,
		hook:   `git push -q; git -C "$MARK-evil" rev-parse -q --verify main && touch "$MARK"`,
		undone: []string{"branch.main.remote"},
	},
	{
		name:     "another branch for a push",
		operator: remote + `git config push.default upstream; git switch -qc work; git push -qu origin work`,
		agent:    `git commit -q --allow-empty -m evil; git config branch.work.merge refs/heads/main`,
		hook: `git push -q; test "$(git -C "$MARK.git" rev-parse main)" = "$(git rev-parse HEAD)" && ` +
			`touch "$MARK"`,
		undone: []string{"branch.work.merge"},
	},
	{
		name:     "another branch for the pushes of a new branch",
		operator: remote + `git config push.default upstream`,
		agent:    `git switch -qc new; git branch -qu origin/main; git commit -q --allow-empty -m evil`,
		hook: `git push -q; test "$(git -C "$MARK.git" rev-parse main)" = "$(git rev-parse HEAD)" && ` +
			`touch "$MARK"`,
		undone: []string{"branch.new.merge"},
	},
	{
		name:     "another remote of the operator",
		operator: remote + companys + `git config push.default current`,
		agent: `git config branch.main.remote company; git config branch.main.pushRemote company; ` +
			`git config remote.pushDefault company`,
		hook:   `git push -q; git -C "$MARK-company.git" rev-parse -q --verify main && touch "$MARK"`,
		undone: []string{"branch.main.remote", "branch.main.pushremote", "remote.pushdefault"},
	},
	{
		name: "a long list of a rebase",
		agent: `GIT_SEQUENCE_EDITOR='f() { echo break > "$1"; }; f' git rebase -i HEAD
		{ head -c 1100000 /dev/zero | tr '\0' '#'; echo; echo "exec touch \"$MARK\""
		} > .git/rebase-merge/git-rebase-todo`,
		hook:   "git rebase --continue",
		undone: []string{"rebase-merge/git-rebase-todo"},
	},
	{
		name: "a worktree of a repository without HEAD",
		agent: `git init -q --bare b; mkdir -p b/worktrees/w; mv b/HEAD b/worktrees/w; ` +
			`echo ../.. > b/worktrees/w/commondir; git config --file b/config alias.publish '!touch "$MARK"'`,
		hook:   "cd b/worktrees/w && git publish",
		undone: []string{"b: alias.publish"},
	},
	{
		name:   "a repository relative to the process",
		agent:  elsewhere + `mkdir sub; echo "gitdir: /proc/self/cwd/../../tmp/r/.git" > sub/.git`,
		hook:   "cd sub && git status",
		undone: []string{"sub/.git: leads elsewhere"},
	},
	{
		name:   "a directory relative to the process",
		agent:  elsewhere + `mkdir "$SPARE/r/deep"; ln -s /proc/self/cwd/../tmp/r/deep sub`,
		hook:   "cd sub && git status",
		undone: []string{"SPARE/r/.git: core.fsmonitor"},
	},
	{
		name:     "an included file relative to the process",
		operator: `mkdir conf; : > conf/more; git config include.path ../conf/more`,
		agent: `rm -r conf; ln -s /proc/self/cwd/../tmp conf; ` +
			`git config --file "$SPARE/more" alias.publish '!touch "$MARK"'`,
		hook:   "git publish",
		undone: []string{"conf/more: leads elsewhere"},
	},
	{
		name:   "an index with a file outside",
		agent:  `O=${MARK%/*}; echo evil > zz_ran; git add zz_ran; rm zz_ran; sed -i 's#zz_ran#../ran#' .git/index`,
		hook:   "git checkout -- .",
		undone: []string{".git/index: ../ran"},
	},
	{
		name: "an index with a repository outside",
		agent: elsewhere + `git update-index --add --cacheinfo "160000,` +
			`$(git -C "$SPARE/r" rev-parse HEAD),zz_tmp/r"; sed -i 's#zz_tmp/r#../tmp/r#' .git/index`,
		hook:   "git status",
		undone: []string{".git/index: ../tmp/r"},
	},
	{
		name: "an index of a submodule with a file outside",
		agent: `git init -q sub; cd sub; git commit -q --allow-empty -m x; echo evil > zzzzz_ran; ` +
			`git add zzzzz_ran; rm zzzzz_ran; sed -i 's#zzzzz_ran#../../ran#' .git/index`,
		hook:   "git -C sub checkout -- .",
		undone: []string{"sub/.git/index: ../../ran"},
	},
	{
		name: "a repository in the git directory",
		agent: `git init -q .git/sub; git -C .git/sub commit -q --allow-empty -m x
			git -C .git/sub config core.fsmonitor 'touch "$MARK"; false'
		git update-index --add --cacheinfo "160000,$(git -C .git/sub rev-parse HEAD),zgit/sub"
		sed -i 's#zgit/sub#.git/sub#' .git/index`,
		hook:   "git status",
		undone: []string{".git/sub/.git: core.fsmonitor"},
	},
	{
		name: "a repository in a directory like .git",
		agent: `git init -q .GIT/sub; git -C .GIT/sub commit -q --allow-empty -m x
			git -C .GIT/sub config core.fsmonitor 'touch "$MARK"; false'
		git update-index --add --cacheinfo "160000,$(git -C .GIT/sub rev-parse HEAD),zGIT/sub"
		sed -i 's#zGIT/sub#.GIT/sub#' .git/index`,
		hook:   "git status",
		undone: []string{".GIT/sub/.git: core.fsmonitor"},
	},
	{
		name: "a work tree of a submodule behind a link",
		agent: `mkdir .git/modules; git init -q --separate-git-dir .git/modules/s s; echo x > s/ran
			git -C s add ran; git -C s commit -qm x; rm s/ran
		ln -s "${MARK%/*}" out; git config --file .git/modules/s/config core.worktree ../../../out`,
		hook:   "git -C s checkout -f",
		undone: []string{".git/modules/s: core.worktree"},
	},
	{
		name: "a rewritten address of a submodule",
		operator: `git init -q sub; git -C sub commit -q --allow-empty -m x; ` +
			`git -C sub config url.https://good.invalid/.insteadOf https://x.invalid/`,
		agent: `git init -q --bare "$SPARE/r"; HOOK=$SPARE/r/hooks/pre-receive; ` + hookEvil +
			`git -C sub config --rename-section url.https://good.invalid/ "url.$SPARE/"`,
		hook:   "git -C sub push https://x.invalid/r HEAD:refs/heads/y",
		undone: []string{"sub/.git: url.*.insteadof"},
	},
	{
		name: "hooks in the work tree of a submodule",
		operator: `git init -q sub; mkdir sub/.husky; git -C sub config core.hooksPath .husky; ` +
			`: > sub/.husky/pre-commit`,
		agent: `HOOK=sub/.husky/pre-commit; ` + hookEvil,
		hook:  "git -C sub commit --allow-empty -m x",
	},
	{
		name: "a linked hook of a submodule",
		operator: `git init -q sub; mkdir -p sub/.git/hooks; ln -s ../../hook sub/.git/hooks/pre-commit; ` +
			`: > sub/hook`,
		agent: `HOOK=sub/hook; ` + hookEvil,
		hook:  "git -C sub commit --allow-empty -m x",
	},
	{
		name: "a branch like an option",
		agent: `HOOK=$SPARE/receive; ` + hookEvil + `git init -q --bare "$SPARE/e"; ` +
			`git symbolic-ref HEAD "refs/heads/--receive-pack=$SPARE/receive"`,
		hook:   `git push "$SPARE/e" "$(git branch --show-current)" main`,
		undone: []string{"HEAD"},
	},
	{
		name: "a directory that leads into both of its own",
		agent: elsewhere + `mkdir -p "$SPARE/../cache" "$SPARE/d"; mv "$SPARE/r" "$SPARE/../cache"; ` +
			`mkdir "$SPARE/../cache/r/deep"; ln -s "$SPARE/../cache/r/deep" "$SPARE/d/x"; ln -s "$SPARE/d" sub`,
		hook:   "cd sub/x && git status",
		undone: []string{"cache/r/.git: core.fsmonitor"},
	},
	{
		name:   "worktree: own configuration",
		linked: true,
		agent: `D=$(git rev-parse --git-dir); ` +
			`git config --file "$D/config.worktree" core.fsmonitor 'touch "$MARK"; false'; ` +
			`git config --file "$(git rev-parse --git-common-dir)/config" extensions.worktreeConfig true`,
		hook:   "git status",
		undone: []string{"core.fsmonitor"},
	},
	{
		name:   "worktree: commondir",
		linked: true,
		agent: `D=$(git rev-parse --git-dir); cp -r "$(git rev-parse --git-common-dir)" "$SPARE/c"; ` +
			`git --git-dir="$SPARE/c" config alias.publish '!touch "$MARK"'; echo "$SPARE/c" > "$D/commondir"`,
		hook:   "git publish",
		undone: []string{"commondir"},
	},
	{
		name:   "worktree: commondir gone",
		linked: true,
		agent: `D=$(git rev-parse --git-dir); C=$(git rev-parse --git-common-dir); ` +
			`cp -r "$C/objects" "$C/refs" "$D/"; cp "$C/config" "$D/config"; rm "$D/commondir"; ` +
			`git config --file "$D/config" alias.publish '!touch "$MARK"'`,
		hook:   "git publish",
		undone: []string{"commondir", "alias.publish"},
	},
	{
		name:   "worktree: .git turned away",
		linked: true,
		agent: `git clone -q . "$SPARE/c"; git -C "$SPARE/c" config alias.publish '!touch "$MARK"'; ` +
			`echo "gitdir: $SPARE/c/.git" > .git`,
		hook:   "git publish",
		undone: []string{".git"},
	},
	{
		name:   "worktree: a repository of its own",
		linked: true,
		agent:  `rm .git; git init -q; git config alias.publish '!touch "$MARK"'`,
		hook:   "git publish",
		undone: []string{".git"},
	},
}

// plainAttacks is how many of them, from the first on, are among the tests before a commit.
const plainAttacks = 9

// What an agent writes into a git directory does not run in a hook of the workflow: it is put
// back, or no hook runs. That the attack works without the guard is checked first.
func TestGuardAttacks(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	for i, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if i >= plainAttacks {
				test.Expensive(t)
			}
			if a.user && !test.Unprivileged(t) {
				return
			}
			prepare := func() *guarded {
				g := guard(t, a.linked)
				// whatever the modes of its directories
				t.Cleanup(func() { test.OK(t, files.RemoveTree(context.Background(), g.Tree)) })
				g.reaches = a.reaches
				g.do(a.operator)
				g.trust()
				said := g.sh(a.agent)
				t.Logf("the agent: %s", said)
				g.ran()
				return g
			}
			if g := prepare(); a.name != "no git can read it" { // git refuses that one as well
				if said := g.sh(a.hook); !g.ran() {
					t.Errorf("the attack does nothing: %s", said)
				}
			}
			g := prepare()
			undone, err := g.Undo(t.Context())
			said := strings.Join(undone.Names, " ")
			test.OK(t, err)
			if g.untrusted != nil { // then no hook runs
				said += g.untrusted.Error()
			} else if text := g.sh(a.hook); g.ran() {
				t.Errorf("the agent's program ran: %s", text)
			}
			for _, name := range a.undone {
				test.Contains(t, "output of git", said, strings.Replace(name, "SPARE", g.spare, 1))
			}
		})
	}
}

// What the operator's hooks create, what the agent changes, what is undone or refused, and the
// result.
func TestGuard(t *testing.T) {
	t.Parallel()
	const harmless = `git config user.name Ann; git config user.email ann@example.com
		git remote add origin https://example.com/r.git; git remote add two git@example.com:r.git
		git remote add three ssh://git@example.com/r.git
		git branch b; git config branch.b.remote origin; git config branch.b.merge refs/heads/b
		git config pull.rebase true
		git config --add remote.origin.fetch '+refs/pull/*:refs/x/*'; git config branch.main.remote .
		git commit -q --allow-empty -m x; git tag t; git stash list; git worktree add -q wt
		git -C wt commit -q --allow-empty -m y
		git init -q nested; git -C nested commit -q --allow-empty -m z; git sparse-checkout set --no-cone / 2>&1
		cp "$(git rev-parse --git-path config)" "$SPARE/config"`
	const same = `cmp "$SPARE/config" "$(git rev-parse --git-path config)"; git -C wt status --porcelain`
	for _, c := range []struct {
		name            string
		linked, none    bool // instead of a clone
		operator, agent string
		undone, refused string // words
		look, want      string
	}{
		{name: "harmless settings stay, byte for byte", agent: harmless, look: same},
		{
			name:   "also in a worktree and its main repository",
			linked: true,
			agent:  harmless,
			look:   same,
		},
		{
			name: "the operator's settings and hooks",
			operator: `mkdir -p .git/hooks/lib; git config alias.ours '!true'; git config core.sshCommand 'ssh -v'
				echo ours > .git/hooks/lib/common; echo ours > .git/hooks/pre-commit
				chmod 755 .git/hooks/pre-commit; ln -s pre-commit .git/hooks/pre-push`,
			agent: `git config --unset alias.ours; git config core.sshCommand evil; git config user.name Ann
				chmod 644 .git/hooks/pre-commit; echo evil > .git/hooks/lib/common; rm .git/hooks/pre-push`,
			undone: "alias.ours core.sshcommand hooks/pre-commit hooks/lib/common hooks/pre-push",
			look: `git config alias.ours; git config core.sshCommand; git config user.name; cat .git/hooks/lib/common
				stat -c %a .git/hooks/pre-commit; readlink .git/hooks/pre-push`,
			want: "!true\nssh -v\nAnn\nours\n755\npre-commit\n",
		},
		{
			name:     "a configuration that is gone comes back with its mode",
			operator: `chmod 644 .git/config; git config alias.ours '!true'`,
			agent:    "rm .git/config",
			undone:   "alias.ours",
			look:     "git config alias.ours; stat -c %a .git/config",
			want:     "!true\n644\n",
		},
		{
			name:   "a main repository that another process has changed",
			linked: true,
			agent:  `git config alias.operators '!true'`,
			look:   "git config alias.operators",
			want:   "!true\n",
		},
		{
			name: "links that were there, and those of a work tree, which may lie in a bare repository " +
				"or look like one",
			operator: `mkdir "$SPARE/shared"; mv .git/logs "$SPARE/shared/logs"
				ln -s "$SPARE/shared/logs" .git/logs; ln -sf refs/heads/main .git/HEAD
				git clone -q --bare . bare; git -C bare worktree add -q tree`,
			agent: `ln -s /nowhere link; mkdir -p objects refs; ln -s /nowhere refs/link
				ln -s /nowhere objects/link; ln -s /nowhere bare/tree/link
				git branch b; ln -sf refs/heads/b .git/HEAD`,
			look: `readlink link refs/link objects/link bare/tree/link .git/HEAD; test -L .git/logs`,
			want: "/nowhere\n/nowhere\n/nowhere\n/nowhere\nrefs/heads/b\n",
		},
		{
			name: "a repository that the agent makes",
			none: true,
			agent: `git init -q .; git config user.name Ann; git remote add origin https://example.com/r
				git commit -q --allow-empty -m x
				git config core.fsmonitor 'touch "$MARK"'; HOOK=.git/hooks/post-commit; ` + hookEvil,
			undone: "core.fsmonitor hooks/post-commit",
			look:   "git config user.name; git commit -q --allow-empty -m y",
			want:   "Ann\n",
		},
		{
			name: "a workspace laid out as a bare repository", none: true,
			agent: `git init -q --bare .; git config core.fsmonitor 'touch "$MARK"'; ` +
				`git config alias.publish '!touch "$MARK"'; HOOK=hooks/post-commit; ` + hookEvil,
			refused: "core.fsmonitor alias.publish hooks/post-commit",
		},
		{
			name: "a repository that pushes to another one in the workspace",
			agent: `git init -q --bare tests/origin.git; git clone -q "$PWD/tests/origin.git" tests/work 2>&1
				git -C tests/work commit -q --allow-empty -m x; git -C tests/work push -q -u origin HEAD`,
		},
		{
			name: "a repository that pushes to another one by a link",
			agent: `git init -q nested; git init -q --bare "$SPARE/r"; ln -s "$SPARE" out; ` +
				`git -C nested remote add origin "$PWD/out/r"`,
			refused: "nested/.git:remote.origin.url",
		},
		{
			name: "included files of the work tree",
			operator: `git config include.path ../.gitconfig; git config includeIf.onbranch:evil.path ../later
				git config --file .gitconfig alias.ours '!true'; git config --file .gitconfig include.path more`,
			agent: `git config --file more alias.publish '!touch "$MARK"'; git config --file more user.name Ann
				git config --file later core.fsmonitor evil; git config --file .gitconfig alias.ours '!false'`,
			refused: "more:alias.publish later:core.fsmonitor .gitconfig:alias.ours",
		},
		{
			name: "a configuration that is a link into the work tree",
			operator: `mv .git/config shared; ln -s ../shared .git/config; ` +
				`git config --file shared alias.ours '!true'`,
			agent: `git config --file shared alias.evil '!false'`, refused: "alias.evil",
		},
		{
			name: "links in the place of directories lead to what is neither read nor written",
			operator: `git init -q ../outside; git -C ../outside config alias.operators '!true'
				echo '[alias] operators = !true' > ../outside/conf
				git init -q sub; mkdir -p dir other/deep; echo '[alias] ours = !true' | tee dir/conf > other/deep/conf
				git config include.path ../dir/conf; ln -s other/deep by; git config --add include.path ../by/conf`,
			agent: `rm -r sub dir by; O=$(cd ../outside; pwd); ln -s "$O" sub; ln -s "$O" dir; ln -s "$O" by
				git config --file other/deep/conf alias.evil x`,
			refused: "dir/conf by/conf",
			look:    "cat ../outside/conf; git -C ../outside config alias.operators",
			want:    "[alias] operators = !true\n!true\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := guardEmpty(t)
			if !c.none {
				g = guard(t, c.linked)
			}
			g.reaches = c.name == "also in a worktree and its main repository"
			g.do(c.operator)
			g.trust()
			test.OK(t, test.Err(g.Undo(t.Context())))
			g.trust()
			g.do(c.agent)
			g.ran()
			if c.refused != "" {
				g.refuses(strings.Fields(strings.ReplaceAll(c.refused, ":", ": "))...)
			} else {
				g.undo(strings.Fields(c.undone)...)
			}
			test.Equal(
				t,
				"the answer, and whether the trap ran",
				[]any{g.do(c.look), g.ran()},
				[]any{c.want, false},
			)
			if c.refused != "" {
				return
			}
			// Changes between two agents are the operator's, and are kept.
			g.do("test -e .git || git init -q; git config alias.later '!true'")
			g.undo()
			g.trust()
			g.undo()
			test.Equal(t, "alias.later", g.do("git config alias.later"), "!true\n")
		})
	}
}

// The agent can write git hooks in the work tree. If a setting or a link points git there, git
// runs without hooks in the workflow's hooks.
func TestGuardTreeHooks(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]bool{
		`git config core.hooksPath .husky`:                                         true,
		`rm -rf .git/hooks; ln -s ../.husky .git/hooks`:                            true,
		`mkdir -p .git/hooks; ln -s ../../.husky/pre-commit .git/hooks/pre-commit`: true,
		`mkdir -p .git/hooks; mv .husky/pre-commit .git/hooks`:                     false,
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			g := guard(t, false)
			g.do(`mkdir .husky; HOOK=.husky/pre-commit; ` + hookEvil + set)
			g.sh("git commit --allow-empty -m x")
			if !g.ran() {
				t.Fatal("the operator's hook does not run before there was an agent")
			}
			g.trust()
			g.undo()
			said := g.sh("git commit --allow-empty -m x")
			_, reasons, err := g.HookEnv(nil)
			test.OK(t, err)
			if g.ran() == want || (len(reasons) == 1) != want {
				t.Errorf("reasons %q: %s", reasons, said)
			}
		})
	}
}

// An agent may replace a file by anything: no link is followed, no pipe blocks, and nothing is
// written through a second name.
func TestGuardSpecialFiles(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	for name, put := range map[string]string{
		"pipe":      "mkfifo $F",
		"link":      "ln -s $OUTSIDE $F",
		"hard link": "ln $OUTSIDE $F",
		"directory": "mkdir -m 500 $F",
		"loop":      "ln -s $F $F",
		"secret":    "cp $OUTSIDE $F; chmod 0 $F",
		"large":     "yes '#' | head -n 600000 > $F",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, false)
			g.do(
				"echo ours > .git/hooks/pre-push; cp .git/config ../config; printf '[alias]\n\tx = !y\n' " +
					"> ../outside; cp ../outside ../same",
			)
			g.trust()
			g.do(
				`OUTSIDE=$PWD/../outside; for F in .git/config .git/hooks/pre-push; ` +
					`do rm $F; ` + put + `; done; chmod 0 .git/hooks; chmod 500 .git`,
			)
			test.OK(t, test.Err(g.Undo(t.Context())))
			test.Equal(
				t,
				"the hook",
				g.do("cmp .git/config ../config; cmp ../outside ../same; cat .git/hooks/pre-push"),
				"ours\n",
			)
		})
	}
}

// The next holder completes an interrupted Undo, and its end is recorded.
func TestGuardPending(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.trust()
	git(t, g.Tree, "config", "alias.evil", "!false")
	test.ErrorIs(t, "error", test.Err(g.Undo(ended(t))), context.Canceled)
	_, _, err := g.HookEnv(nil)
	wantCode(t, err, host.CodeUntrusted)

	next := &guarded{
		t:     t,
		Guard: &Guard{Tree: g.Tree, Temp: g.Temp, File: g.File, Verify: g.Verify},
	}
	next.undo("alias.evil")
	git(t, next.Tree, "config", "alias.ours", "!true") // an after_run
	next.undo()
	next.trust()
	git(t, next.Tree, "config", "alias.evil", "!false")
	next.undo("alias.evil")
}

// If the snapshot can't be read, no hook runs.
func TestGuardUnreadable(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.trust()
	git(t, g.Tree, "config", "alias.evil", "!false")
	test.Write(t, g.File, "{") // by an agent that may write there
	g.undo("alias.evil")
	g.snapshot = nil // the next holder
	test.Write(t, g.File, "{")
	wantCode(t, test.Err(g.Undo(t.Context())), files.CodeFailed)
	_, _, err := g.HookEnv(nil)
	wantCode(t, err, files.CodeFailed)
}

// A search that ends early is not trusted, neither before nor after the agent.
func TestGuardTooLarge(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.trust()
	g.limit = 1
	test.Equal(t, "there is a reason not to trust it", test.Must(g.Undo(t.Context())).Untrusted != "", true)
	_, _, err := g.HookEnv(nil)
	wantCode(t, err, host.CodeUntrusted)
	wantCode(t, g.Trust(t.Context(), func(string) bool { return false }, ""), host.CodeUntrusted)
	g.limit = 0
	g.undo()
}

// Directories may be deeper than a path can be long. A repository there, whose files can't be
// read, is not trusted.
func TestGuardDeep(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	const moveDown = `D=$(printf 'deep/%.0s' $(seq 250)); for i in 1 2 3 4; do mkdir -p "x/$D"; ` +
		`mv deep "x/$D"; mv x/deep .; done`
	g := guard(t, false)
	g.trust()
	g.do("mkdir deep; " + moveDown)
	g.undo()
	g.trust()
	g.do("rm -r deep; git init -q deep; " + moveDown)
	test.Contains(t, "what is not trusted", test.Must(g.Undo(t.Context())).Untrusted, "/deep/.git: ")
}

// A directory of a repository that can't be listed is made readable, and what is in it stays.
func TestGuardOpensDirectories(t *testing.T) {
	t.Parallel()
	if !test.Unprivileged(t) {
		return
	}
	g := guard(t, false)
	g.trust()
	g.do("chmod 311 .git/objects .git/refs .git/refs/heads .git")
	g.undo()
	g.do("git fsck && git log")
}

// A directory with more files that git could run than are examined is not trusted, and the
// error names it.
func TestGuardTooManyFiles(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.trust()
	for _, dir := range []string{".git/hooks", "sub/.git/hooks"} {
		g.do(
			"git init -q sub; mkdir -p " + dir + "; cd " + dir + "; i=0; while [ $i -le 1000 ]; do : > " +
				"h$i; i=$((i+1)); done",
		)
		for range 2 {
			undone := test.Must(g.Undo(t.Context()))
			test.Contains(
				t,
				"what is not trusted",
				undone.Untrusted,
				dir[:len(dir)-6]+" holds more than 1000 files that git could run",
			)
		}
		g.do("rm -r " + dir)
	}
	g.undo()
}

func settings(t *testing.T, text string) []setting {
	t.Helper()
	return test.Must(parseConfig(t.Context(), []byte(text)))
}

// Settings that an agent may make, and settings that it may not.
func TestAllows(t *testing.T) {
	t.Parallel()
	dangerous := `
core.hooksPath=x core.fsmonitor=x core.fsmonitor=true core.sshCommand=x core.pager=x core.editor=x
core.askPass=x core.gitProxy=x
core.worktree=/etc core.worktree=sub core.attributesFile=x core.excludesFile=x core.alternateRefsCommand=x
core.notesRef=x core.sharedRepository=0666
core.protectHFS=false core.protectNTFS=false sequence.editor=x
credential.helper=x credential.https://h.helper=x filter.a.clean=x filter.a.smudge=x filter.a.process=x
filter.a.required=true
diff.external=x diff.a.command=x diff.a.textconv=x diff.a.cachetextconv=true diff.tool=x difftool.a.cmd=x
diff.guitool=x
merge.a.driver=x merge.tool=x merge.guitool=x mergetool.a.cmd=x mergetool.a.path=x alias.x=y alias.status=y
include.path=x includeIf.gitdir:/.path=x gpg.program=x gpg.ssh.program=x gpg.x509.program=x
gpg.ssh.defaultKeyCommand=x gpg.format=ssh
user.signingKey=x commit.gpgSign=true commit.template=x tag.gpgSign=true push.gpgSign=true pager.log=x
url./x.insteadOf=y url./x.pushInsteadOf=y url.https://h.insteadOf=y protocol.allow=always protocol.ext.allow=always
remote.a.uploadpack=x remote.a.receivepack=x remote.a.vcs=x remote.a.proxy=x remote.a.url=/srv/x
remote.a.url=../x remote.a.url=x remote.a.url=file:///x
remote.a.url=ext::x remote.a.url=fd::3 remote.a.url=foo://h/x remote.a.url=-oProxyCommand=x
remote.a.url=ssh://-oProxyCommand=x remote.a.url=-x:y
remote.a.url=./h:x remote.a.url=/h:x remote.a.pushurl=/x remote.a.url= remote.a.url=https::x
branch.a.merge=refs/heads/b branch.a.remote=/x branch.a.remote=.. branch.a.remote=../x branch.a.remote=unknown
branch.a.pushRemote=unknown branch.a.mergeOptions=-sx remote.pushDefault=/x
submodule.a.update=!x submodule.a.url=/x submodule.a.url=../x submodule.a.command=x
gc.recentObjectsHook=x trailer.a.cmd=x trailer.a.command=x browser.a.cmd=x web.browser=x help.browser=x
man.a.cmd=x man.viewer=x
sendemail.smtpServer=x sendemail.a.toCmd=x imap.tunnel=x instaweb.httpd=x interactive.diffFilter=x
guitool.a.cmd=x gui.a=b
lfs.customtransfer.a.path=x lfs.standalonetransferagent=x lfs.extension.a.clean=x lfs.url=file:///x
lfs.https://h.standalonetransferagent=x
uploadpack.packObjectsHook=x receive.procReceiveRefs=x receive.denyCurrentBranch=ignore hook.a.command=x
hook.a.event=x tar.a.command=x
extensions.partialClone=/x extensions.unheardOf=x ssh.variant=x http.proxy=x http.sslVerify=false http.sslCert=x
pull.twohead=x pull.octopus=x rebase.instructionFormat=x sparse.expectFilesOutsideOfPatterns=x
maintenance.repo=x scalar.repo=x
push.default=matching push.followTags=true push.recurseSubmodules=on-demand remote.a.push=x remote.a.mirror=true
submodule.recurse=true
remote.origin.url=https://h/x remote.origin.pushurl=https://h/x
bundle.a.uri=x fetch.bundleURI=x transfer.bundleURI=true init.templateDir=x notes.rewriteRef=x safe.directory=*
blame.a.b=c branch.a.b=c
unheard.of=x`
	fine := `
core.bare=false core.repositoryFormatVersion=0 core.fileMode=true core.logAllRefUpdates=true core.autocrlf=input
core.sparseCheckout=true
user.name=x user.email=x branch.a.remote=origin branch.a.remote=. branch.a.pushRemote=origin
branch.a.merge=refs/heads/a branch.a/b.c.rebase=true branch.autoSetupMerge=always
remote.a.url=https://h/x remote.a.url=http://h/x remote.a.url=ssh://git@h/x remote.a.url=git@h:x/y.git
remote.a.url=host.of.mine:y remote.a.pushurl=https://h/x
remote.a.fetch=+refs/heads/*:refs/remotes/a/* remote.a.tagOpt=--no-tags remote.a.promisor=true
remote.pushDefault=origin remote.a.gh-resolved=base
extensions.partialClone=origin extensions.objectFormat=sha1 extensions.worktreeConfig=true
submodule.a.url=https://h/x submodule.a.active=true submodule.a.update=rebase submodule.active=. color.ui=false
color.branch.current=red advice.detachedHead=false
pull.rebase=true merge.conflictStyle=zdiff3 init.defaultBranch=main rerere.enabled=true gc.auto=0
lfs.repositoryFormatVersion=0 lfs.https://h/x.access=basic status.short=true log.date=iso i18n.commitEncoding=x`
	origin := map[string]bool{"origin": true}
	rules := configRules{tree: "/ws", theirs: origin, remotes: origin}
	for text, want := range map[string]bool{dangerous: false, fine: true} {
		for _, kv := range strings.Fields(text) {
			key, value, _ := strings.Cut(kv, "=")
			first := strings.Index(key, ".")
			last := strings.LastIndex(key, ".")
			s := setting{
				section: strings.ToLower(key[:first]),
				name:    strings.ToLower(key[last+1:]),
				value:   value,
			}
			if last > first {
				s.sub = key[first+1 : last]
			}
			test.Equal(t, kv, rules.allows(s), want)
		}
	}
	rules.tree = realTemp(t)
	rules.module = filepath.Join(rules.tree, ".git/modules/a")
	sh(t, rules.tree, `mkdir -p .git/modules/a other; put a/.git "gitdir: ../.git/modules/a\n"; ln -s a link`)
	for value, want := range map[string]bool{
		"../../../a":        true,
		rules.tree + "/a":   true,
		"../../../link":     false,
		"../../../other":    false,
		"../../../none":     false,
		"../../../../other": false,
		"/etc":              false,
		"../../..":          false,
	} {
		test.Equal(t, "core.worktree", rules.allows(setting{
			section: "core",
			name:    "worktree",
			value:   value,
		}), want)
	}
}

// settleConfig restores the trusted configuration and keeps the settings that an agent may
// make.
func TestSettle(t *testing.T) {
	t.Parallel()
	const was = "[core]\n\tbare = false\n[alias]\n\ta = 1\n\tb = 2\n"
	for _, c := range []struct {
		name, now, want string
		changed         []string
	}{
		{"as it was", was, was, nil},
		{"harmless", was + "[user]\n\tname = x\n", was + "[user]\n\tname = x\n", nil},
		{"harmless ones gone", "[alias]\n\ta = 1\n\tb = 2\n", "[alias]\n\ta = 1\n\tb = 2\n", nil},
		{"added", was + "[pager]\n\tlog = x\n", was, []string{"pager.log"}},
		{"added twice", was + "[alias]\n\ta = 1\n", was, []string{"alias.a"}},
		{"changed", strings.Replace(was, "a = 1", "a = 3", 1), was, []string{"alias.a"}},
		{"gone", strings.Replace(was, "\ta = 1\n", "", 1), was, []string{"alias.a"}},
		{
			"in another order", "[core]\n\tbare = false\n[alias]\n\tb = 2\n\ta = 1\n", was,
			[]string{"the order of its entries"},
		},
		{"no configuration", was + "[", was, []string{"config"}},
		{"a subsection without a name", was + "[user \"\"]\n\tname = x\n", was, []string{"config"}},
		{
			"both", was + "[user]\n\tname = x\n[pager]\n\tlog = x\n", was + "[user]\n\tname = x\n",
			[]string{"pager.log"},
		},
		{
			"a branch at a remote that goes", was + "[remote \"r\"]\n\turl = /x\n[branch \"b\"]\n" +
				"\tremote = r\n\tmerge = refs/heads/b\n",
			was + "[branch \"b\"]\n\tmerge = refs/heads/b\n",
			[]string{"remote.r.url", "branch.b.remote"},
		},
	} {
		got, changed, err := settleConfig(t.Context(), []byte(c.now), []byte(was), "config")
		test.OK(t, err)
		test.Equal(
			t,
			c.name+": text and changed files",
			[]any{string(got), changed},
			[]any{c.want, c.changed},
		)
	}
	if got, _, err := settleConfig(ended(t), []byte("[a]\nb\n"), nil, "config"); err == nil {
		t.Errorf("no error with the time over, but %q", got)
	}
	for _, secret := range settings(t, "[url \"https://user:secret@h\"]\n\tinsteadOf = x\n[credential "+
		"\"https://user:secret@h\"]\n\thelper = y\n") {
		test.Lacks(t, "the name", secret.String(), "secret")
	}
}

// Without git, the trusted configuration is restored.
func TestSettleWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	got, changed, err := settleConfig(
		t.Context(),
		[]byte("[user]\n\tname = x\n"),
		[]byte("[core]\n"),
		"config",
	)
	test.Equal(
		t,
		"text, changed files and error",
		[]any{string(got), changed, err},
		[]any{"[core]\n", []string{"config"}, nil},
	)
}

// The guard's settings come after the settings for git that are already in the environment.
func TestWithConfig(t *testing.T) {
	two := []string{"core.hooksPath=/dev/null", "safe.bareRepository=explicit"}
	for _, c := range []struct{ env, settings, want []string }{
		{
			[]string{"A=1"},
			two[:1],
			[]string{"A=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=/dev/null", "GIT_CONFIG_COUNT=1"},
		},
		{[]string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c"}, two, []string{
			"GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c", "GIT_CONFIG_KEY_1=core.hooksPath",
			"GIT_CONFIG_VALUE_1=/dev/null",
			"GIT_CONFIG_KEY_2=safe.bareRepository", "GIT_CONFIG_VALUE_2=explicit", "GIT_CONFIG_COUNT=3",
		}},
		{
			[]string{"GIT_CONFIG_COUNT=many"},
			two[:1],
			[]string{"GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=/dev/null", "GIT_CONFIG_COUNT=1"},
		},
	} {
		test.Equal(t, "the environment", withConfig(c.env, c.settings...), c.want)
	}
}

// Of several files that can't be read, each try names the same one: messages that differ would
// not count as the same failure.
func TestUnreadableNamesTheFirst(t *testing.T) {
	list := map[string]entry{"HEAD": {}}
	for _, name := range []string{"hooks/pre-push", "config", "description", "info/exclude"} {
		list[name] = entry{Mode: fs.ModeIrregular}
	}
	for range 20 {
		test.Equal(t, "the error", fmt.Sprint(unreadable(list)), "config can't be read")
	}
}

// TestHooksBehindLink: the workspace's hook is a link, as a hook after_create makes it. An agent
// puts a link to the hooks of another repository in the place of the directory.
func TestHooksBehindLink(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	foreign := filepath.Join(g.spare, "hooks")
	test.Write(t, filepath.Join(foreign, "pre-commit"), "of the operator\n")
	g.do(`mkdir -p scripts; touch scripts/pre-commit; ln -sf ../../scripts/pre-commit .git/hooks/pre-commit`)
	g.trust()
	g.do(`rm -rf .git/hooks; ln -s "$SPARE/hooks" .git/hooks`)
	g.undo("hooks", "hooks/pre-commit")
	test.Equal(t, "the other hook", test.Read(t, filepath.Join(foreign, "pre-commit")), "of the operator\n")
	target := test.Must(os.Readlink(filepath.Join(g.Tree, ".git", "hooks", "pre-commit")))
	test.Equal(t, "the hook", target, "../../scripts/pre-commit")
}

// TestForeignObjects: an agent has its clone borrow objects of another repository.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	const object = "objects/58/7be6b4c3f93f93c489c0111bba5596147a26cb" // of a file with the line x
	g := guard(t, false)
	g.do(`git init -q "$SPARE/e"; echo x | git -C "$SPARE/e" hash-object -w --stdin`)
	g.trust()
	g.do(`mkdir -p .git/objects/58; ln -s "$SPARE/e/.git/` + object + `" .git/` + object + `
		echo "$SPARE/e/.git/objects" >> .git/objects/info/alternates`)
	g.undo("objects/info/alternates", object)
	g.do("! git cat-file -e 587be6b4c3f93f93c489c0111bba5596147a26cb 2>&1")
}
