package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// guarded is a workspace with a git repository, as the workflow's hooks have made it.
type guarded struct {
	*Guard
	t *testing.T
	// mark is what every attack makes, outside of the workspace. spare is a directory that the agent can write.
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
		check(t, os.Remove(g.Tree))
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
	g.Guard = &Guard{Tree: filepath.Join(dir, "tree"), Temp: []string{g.spare}, File: filepath.Join(dir, "git-trusted.json"), Verify: func() error { return nil }}
	check(t, os.Mkdir(g.Tree, 0o700))
	check(t, os.Mkdir(g.spare, 0o700))
	return g
}

func (g *guarded) trust() {
	g.t.Helper()
	check(g.t, g.Trust(g.t.Context(), AgentReach{
		Reaches: func(string) bool { return g.reaches }, Env: command(g.t, g.Tree, "true").Env,
	}))
}

func (g *guarded) undo(want ...string) {
	g.t.Helper()
	undone, err := g.Undo(g.t.Context())
	check(g.t, err)
	check(g.t, undone.Unsettled)
	slices.Sort(undone.Names)
	slices.Sort(want)
	if !slices.Equal(undone.Names, want) {
		g.t.Errorf("undone %q, want %q", undone.Names, want)
	}
}

// refuses checks that no hook may run, and that the reason names what was found.
func (g *guarded) refuses(want ...string) {
	g.t.Helper()
	for range 2 { // nor does another run make it trusted
		undone, err := g.Undo(g.t.Context())
		check(g.t, err)
		wantCode(g.t, undone.Unsafe, files.CodeFailed)
		for _, name := range want {
			if !strings.Contains(undone.Unsafe.Error(), name) {
				g.t.Errorf("%v does not name %s", undone.Unsafe, name)
			}
		}
		g.trust()
	}
}

// sh runs a script in the workspace, as the workflow's hooks are: with what HookSettings says.
func (g *guarded) sh(script string) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), bound)
	defer cancel()
	settings, _, err := g.HookSettings()
	check(g.t, err)
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir, cmd.Env = g.Tree, append(command(g.t, g.Tree, "true").Env, "MARK="+g.mark, "SPARE="+g.spare)
	for i, s := range settings {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	cmd.Env = append(cmd.Env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)))
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		g.t.Fatalf("%s: %v", script, ctx.Err())
	}
	return fmt.Sprintf("%s%v", out, err)
}

// ran reports whether the agent's program ran, and forgets it.
func (g *guarded) ran() bool {
	g.t.Helper()
	ran := there(g.t, g.mark)
	check(g.t, os.RemoveAll(g.mark))
	return ran
}

const hookEvil = `printf '#!/bin/sh\ntouch "$MARK"\ncat >/dev/null 2>&1 </dev/null\n' > "$HOOK"; chmod +x "$HOOK"; `

// twoBranches change the same file, and it has a program of git's that git has not got.
const twoBranches = `git checkout -qb b; echo b > file; git commit -qam b; echo d > other; git add other; git commit -qm d
	git checkout -q main; echo c > file; git commit -qam c
	mkdir git-merge-x; HOOK=git-merge-x/evil; ` + hookEvil

// attacks are what an agent does, what a hook of the workflow does after it, and what is undone in between. Each of them
// works where nothing is undone.
var attacks = []struct {
	name, agent, hook string
	linked, reaches   bool
	undone            []string
}{
	{name: "core.hooksPath", agent: `mkdir evil; HOOK=evil/pre-commit; ` + hookEvil + `git config core.hooksPath evil`, hook: "git commit --allow-empty -m x", undone: []string{"core.hookspath"}},
	{name: "core.hooksPath, old spelling", agent: `mkdir evil; HOOK=evil/pre-commit; ` + hookEvil + `printf '[CORE]HOOKSPATH=evil' >> .git/config`, hook: "git commit --allow-empty -m x", undone: []string{"core.hookspath"}},
	{name: "core.fsmonitor", agent: `git config core.fsmonitor 'touch "$MARK"; false'`, hook: "git status", undone: []string{"core.fsmonitor"}},
	{name: "core.sshCommand", agent: `git config core.sshCommand 'touch "$MARK"; false'`, hook: "git fetch ssh://nowhere.invalid/x", undone: []string{"core.sshcommand"}},
	{name: "core.editor", agent: `git config core.editor 'touch "$MARK"; false'`, hook: "git commit --allow-empty", undone: []string{"core.editor"}},
	{name: "core.pager", agent: `git config core.pager 'touch "$MARK"; cat'`, hook: "script -qc 'git --paginate log' /dev/null </dev/null", undone: []string{"core.pager"}},
	{name: "credential helper", agent: `git config credential.helper '!touch "$MARK";'`, hook: "printf 'protocol=https\\nhost=x.invalid\\n' | GIT_TERMINAL_PROMPT=0 git credential fill", undone: []string{"credential.helper"}},
	{name: "credential helper of a host", agent: `git config credential.https://x.invalid.helper '!touch "$MARK";'`, hook: "printf 'protocol=https\\nhost=x.invalid\\n' | GIT_TERMINAL_PROMPT=0 git credential fill", undone: []string{"credential.*.helper"}},
	{name: "filter", agent: `git config filter.evil.clean 'touch "$MARK"; cat'; echo '* filter=evil' > .gitattributes; echo x > new`, hook: "git add new", undone: []string{"filter.evil.clean"}},
	{name: "process filter", agent: `git config filter.evil.process 'touch "$MARK"; false'; echo '* filter=evil' > .gitattributes; echo x > new`, hook: "git add new", undone: []string{"filter.evil.process"}},
	{name: "alias", agent: `git config alias.publish '!touch "$MARK"'`, hook: "git publish", undone: []string{"alias.publish"}},
	{name: "external diff", agent: `git config diff.external 'touch "$MARK"; true'; echo more >> file`, hook: "git diff", undone: []string{"diff.external"}},
	{name: "diff command", agent: `git config diff.evil.command 'touch "$MARK"; true'; echo '* diff=evil' > .gitattributes; echo more >> file`, hook: "git diff", undone: []string{"diff.evil.command"}},
	{name: "textconv", agent: `git config diff.evil.textconv 'touch "$MARK"; cat'; echo '* diff=evil' > .gitattributes; echo more >> file`, hook: "git diff", undone: []string{"diff.evil.textconv"}},
	{name: "merge driver", agent: `git config merge.evil.driver 'touch "$MARK"; true'; echo 'file merge=evil' > .gitattributes; git checkout -qb b; echo b > file; git commit -qam b; git checkout -q main; echo c > file; git commit -qam c`, hook: "git merge b", undone: []string{"merge.evil.driver"}},
	{name: "include", agent: `printf '[alias]\n\tpublish = "!touch \\"$MARK\\""\n' > inc; git config include.path ../inc`, hook: "git publish", undone: []string{"include.path"}},
	{name: "conditional include", agent: `printf '[alias]\n\tpublish = "!touch \\"$MARK\\""\n' > inc; git config includeIf.gitdir:/.path ../inc`, hook: "git publish", undone: []string{"includeif.gitdir:/.path"}},
	{name: "gpg program", agent: `HOOK=gpg; ` + hookEvil + `git config gpg.program "$PWD/gpg"`, hook: "git commit -S --allow-empty -m x", undone: []string{"gpg.program"}},
	{name: "signing by itself", agent: `HOOK=gpg; ` + hookEvil + `git config gpg.program "$PWD/gpg"; git config commit.gpgSign true`, hook: "git commit --allow-empty -m x", undone: []string{"gpg.program", "commit.gpgsign"}},
	{name: "url instead of", agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil + `git config url."$SPARE/e".insteadOf https://x.invalid/r`, hook: "git push https://x.invalid/r HEAD:refs/heads/y", undone: []string{"url.*.insteadof"}},
	{name: "a path for a remote", agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil + `git remote add origin "$SPARE/e"`, hook: "git push origin HEAD:refs/heads/y", undone: []string{"remote.origin.url"}},
	{name: "ext:: for a remote", agent: `git config protocol.ext.allow always; git remote add origin 'ext::sh -c touch% $MARK'`, hook: "git fetch origin", undone: []string{"remote.origin.url", "protocol.ext.allow"}},
	{name: "a branch's remote is a path", agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil + `git config branch.main.remote "$SPARE/e"; git config branch.main.merge refs/heads/main`, hook: "git push", undone: []string{"branch.main.remote"}},
	{name: "a branch's remote is a file that leads away", agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil + `echo "gitdir: $SPARE/e" > away; git config branch.main.remote away; git config branch.main.merge refs/heads/main`, hook: "git push", undone: []string{"branch.main.remote"}},
	{name: "a remote by an old file", agent: `git init -q --bare "$SPARE/e"; HOOK=$SPARE/e/hooks/pre-receive; ` + hookEvil + `mkdir -p .git/remotes; echo "URL: $SPARE/e" > .git/remotes/up`, hook: "git push up HEAD:refs/heads/y", undone: []string{"remotes/up"}},
	{name: "upload pack", agent: `git remote add up https://x.invalid/r; git config remote.up.url ssh://x.invalid/r; git config remote.up.vcs "evil"; mkdir bin`, hook: `HOOK=bin/git-remote-evil; ` + hookEvil + `PATH="$PWD/bin:$PATH" git fetch up`, undone: []string{"remote.up.vcs"}},
	{name: "hook", agent: `HOOK=.git/hooks/post-commit; mkdir -p .git/hooks; ` + hookEvil, hook: "git commit --allow-empty -m x", undone: []string{"hooks/post-commit"}},
	{name: "hook by a link", agent: `HOOK=$SPARE/h; ` + hookEvil + `mkdir -p .git/hooks; ln -s "$SPARE/h" .git/hooks/post-commit`, hook: "git commit --allow-empty -m x", undone: []string{"hooks/post-commit"}},
	{name: "hooks by a link", agent: `mkdir "$SPARE/h"; HOOK=$SPARE/h/post-commit; ` + hookEvil + `rm -rf .git/hooks; ln -s "$SPARE/h" .git/hooks`, hook: "git commit --allow-empty -m x", undone: []string{"hooks"}},
	{name: "work tree configuration", agent: `git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch "$MARK"; false'`, hook: "git status", undone: []string{"core.fsmonitor"}},
	{name: "the repository moved away", agent: `mv .git "$SPARE/moved"; echo "gitdir: $SPARE/moved" > .git; git config core.fsmonitor 'touch "$MARK"; false'`, hook: "git status", undone: []string{".git"}},
	{name: "the repository behind a link", agent: `mv .git "$SPARE/moved"; ln -s "$SPARE/moved" .git; git config core.fsmonitor 'touch "$MARK"; false'`, hook: "git status", undone: []string{".git"}},
	{name: "the repository within the work tree", agent: `mv .git moved; ln -s moved .git; git config core.fsmonitor 'touch "$MARK"; false'`, hook: "git status", undone: []string{"moved: core.fsmonitor"}},
	{name: "a zero byte in .git", agent: `mv .git "$SPARE/moved"; printf 'gitdir: %s\0/x' "$SPARE/moved" > .git; git config core.fsmonitor 'touch "$MARK"; false'`, hook: "git status", undone: []string{".git"}},
	{name: "commondir", agent: `cp -r .git "$SPARE/other"; git --git-dir="$SPARE/other" config core.fsmonitor 'touch "$MARK"; false'; echo "$SPARE/other" > .git/commondir`, hook: "git status", undone: []string{"commondir"}},
	{name: "configuration by a link", agent: `cp .git/config "$SPARE/c"; git config --file "$SPARE/c" core.fsmonitor 'touch "$MARK"; false'; rm .git/config; ln -s "$SPARE/c" .git/config`, hook: "git status", undone: []string{"config"}},
	{name: "submodule without a .gitmodules", agent: `git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub 2>&1; git -C sub config core.fsmonitor 'touch "$MARK"; false'`, hook: "git status", undone: []string{"sub/.git: core.fsmonitor"}},
	{name: "submodule that was there turned away", agent: `git init -q "$SPARE/sub"; git -C "$SPARE/sub" commit -q --allow-empty -m x; git -C "$SPARE/sub" config core.fsmonitor 'touch "$MARK"; false'; mkdir sub; echo "gitdir: $SPARE/sub/.git" > sub/.git; git add sub`, hook: "git status", undone: []string{"sub/.git: leads elsewhere"}},
	{name: "module by a link", agent: `git init -q "$SPARE/sub"; git -C "$SPARE/sub" commit -q --allow-empty -m x; git -C "$SPARE/sub" config core.fsmonitor 'touch "$MARK"; false'; mkdir sub .git/modules; ln -s "$SPARE/sub/.git" .git/modules/sub; echo "gitdir: ../.git/modules/sub" > sub/.git; git add sub`, hook: "git status", undone: []string{"modules/sub"}},
	{name: "submodule's update", agent: `git config submodule.s.update '!touch "$MARK"'; git config submodule.s.url https://x.invalid/r; printf '[submodule "s"]\n\tpath = s\n\turl = https://x.invalid/r\n' > .gitmodules; git init -q s; git -C s commit -q --allow-empty -m x; git add s .gitmodules; git -C s commit -q --allow-empty -m y`, hook: "git submodule update", undone: []string{"submodule.s.update"}},
	{name: "a bare repository in a directory", agent: `git init -q --bare b; git -C b config alias.publish '!touch "$MARK"'`, hook: "cd b && git publish", undone: []string{"b: alias.publish"}},
	{name: "a bare repository without its names", agent: `git init -q --bare b; mv b/config b/c; mkdir x; mv b/objects b/refs x; mv b/c x/config; git config --file x/config alias.publish '!touch "$MARK"'; echo ../x > b/commondir`, hook: "cd b && git publish", undone: []string{"b: commondir"}},
	{name: "a rebase under way", agent: `GIT_SEQUENCE_EDITOR='f() { printf "break\n x\ttouch \"%s\"\nexec touch \"%s\"\n" "$MARK" "$MARK" > "$1"; }; f' git rebase -i HEAD`, hook: "git rebase --continue", undone: []string{"rebase-merge/git-rebase-todo"}},
	{name: "a rebase with a list elsewhere", agent: `GIT_SEQUENCE_EDITOR='f() { echo break > "$1"; }; f' git rebase -i HEAD; echo "exec touch \"$MARK\"" > todo; ln -sf ../../todo .git/rebase-merge/git-rebase-todo`, hook: "git rebase --continue", undone: []string{"rebase-merge/git-rebase-todo"}},
	{name: "a rebase's strategy", agent: twoBranches + `GIT_SEQUENCE_EDITOR='f() { echo "break\npick b" > "$1"; }; f' git rebase -i HEAD; echo x/evil > .git/rebase-merge/strategy`, hook: "git rebase --continue", undone: []string{"rebase-merge/strategy"}},
	{name: "a pick's strategy", agent: twoBranches + `git cherry-pick b~ b; git checkout -f HEAD -- file; git config --file .git/sequencer/opts options.strategy x/evil`, hook: "git cherry-pick --skip", undone: []string{"sequencer/opts"}},
	{name: "a link for a reflog", agent: `ln -sf "$MARK" .git/logs/HEAD`, hook: "git commit --allow-empty -m x", undone: []string{"logs/HEAD"}},
	{name: "a link for a branch's reflog", agent: `ln -sf "$MARK" .git/logs/refs/heads/main`, hook: "git commit --allow-empty -m x", undone: []string{"logs/refs/heads/main"}},
	{name: "a link for a message", agent: `ln -sf "$MARK" .git/COMMIT_EDITMSG`, hook: "git commit --allow-empty -m x", undone: []string{"COMMIT_EDITMSG"}},
	{name: "a link for what is fetched", agent: `ln -sf "$MARK" .git/FETCH_HEAD`, hook: "git fetch .", undone: []string{"FETCH_HEAD"}},
	{name: "a link for logs", agent: `rm -r .git/logs; mkdir -p "$SPARE/l/refs/heads"; ln -s "$MARK" "$SPARE/l/HEAD"; ln -s "$SPARE/l" .git/logs`, hook: "git commit --allow-empty -m x", undone: []string{"logs"}},
	{name: "a link in a bare repository", agent: `git init -q --bare b; git -C b config core.logAllRefUpdates true; mkdir -p b/logs/refs/heads; ln -s "$MARK" b/logs/refs/heads/y`, hook: "git push ./b HEAD:refs/heads/y", undone: []string{"b: logs/refs/heads/y"}},
	{name: "a link in a submodule", agent: `git init -q sub; git -C sub commit -q --allow-empty -m x; ln -sf "$MARK" sub/.git/logs/HEAD`, hook: "git -C sub commit --allow-empty -m y", undone: []string{"sub/.git: logs/HEAD"}},
	{name: "worktree: a link for a reflog", linked: true, agent: `ln -sf "$MARK" "$(git rev-parse --git-dir)/logs/HEAD"`, hook: "git commit --allow-empty -m x", undone: []string{"logs/HEAD"}},
	{name: "a directory that leads to its temporary one", agent: `git init -q "$SPARE/r"; git -C "$SPARE/r" config core.fsmonitor 'touch "$MARK"; false'; mkdir "$SPARE/r/deep"; ln -s "$SPARE/r/deep" sub`, hook: "cd sub && git status", undone: []string{"SPARE/r/.git: core.fsmonitor"}},
	{name: "trailer", agent: `git config trailer.x.cmd 'touch "$MARK"; true'; git config trailer.x.key X; echo m > msg`, hook: "git interpret-trailers --trailer x=1 msg", undone: []string{"trailer.x.cmd", "trailer.x.key"}},
	{name: "tar", agent: `git config tar.evil.command 'touch "$MARK"; cat'`, hook: "git archive --format=evil HEAD", undone: []string{"tar.evil.command"}},
	{name: "no git can read it", agent: `printf '[alias]\n\tpublish = "!touch \\"$MARK\\""\n[alias "' > c; cat .git/config >> c; cp c .git/config`, hook: "git publish", undone: []string{"config"}},
	{name: "worktree: own configuration", linked: true, agent: `D=$(git rev-parse --git-dir); git config --file "$D/config.worktree" core.fsmonitor 'touch "$MARK"; false'; git config --file "$(git rev-parse --git-common-dir)/config" extensions.worktreeConfig true`, hook: "git status", undone: []string{"core.fsmonitor"}},
	{name: "worktree: commondir", linked: true, agent: `D=$(git rev-parse --git-dir); cp -r "$(git rev-parse --git-common-dir)" "$SPARE/c"; git --git-dir="$SPARE/c" config alias.publish '!touch "$MARK"'; echo "$SPARE/c" > "$D/commondir"`, hook: "git publish", undone: []string{"commondir"}},
	{name: "worktree: commondir gone", linked: true, agent: `D=$(git rev-parse --git-dir); C=$(git rev-parse --git-common-dir); cp -r "$C/objects" "$C/refs" "$D/"; cp "$C/config" "$D/config"; rm "$D/commondir"; git config --file "$D/config" alias.publish '!touch "$MARK"'`, hook: "git publish", undone: []string{"commondir", "alias.publish"}},
	{name: "worktree: .git turned away", linked: true, agent: `git clone -q . "$SPARE/c"; git -C "$SPARE/c" config alias.publish '!touch "$MARK"'; echo "gitdir: $SPARE/c/.git" > .git`, hook: "git publish", undone: []string{".git"}},
	{name: "worktree: a repository of its own", linked: true, agent: `rm .git; git init -q; git config alias.publish '!touch "$MARK"'`, hook: "git publish", undone: []string{".git"}},
	{name: "worktree: the main repository", linked: true, reaches: true, agent: `git config alias.publish '!touch "$MARK"'; HOOK=$(git rev-parse --git-common-dir)/hooks/post-commit; mkdir -p "${HOOK%/*}"; ` + hookEvil, hook: "git publish; git commit --allow-empty -m x", undone: []string{"alias.publish", "hooks/post-commit"}},
}

// What an agent writes into a git directory does not run in a hook of the workflow: it is put back, or no hook runs. That the
// attack works without the guard is checked first.
func TestGuardAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			prepare := func() *guarded {
				g := guard(t, a.linked)
				g.reaches = a.reaches
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
			check(t, err)
			if undone.Unsafe != nil { // then no hook runs
				said += undone.Unsafe.Error()
			} else if text := g.sh(a.hook); g.ran() {
				t.Errorf("the agent's program ran: %s", text)
			}
			for _, name := range a.undone {
				if !strings.Contains(said, strings.Replace(name, "SPARE", g.spare, 1)) {
					t.Errorf("%s is not named: %s", name, said)
				}
			}
		})
	}
}

// What the main repository of a worktree shares with it is another place for links; there even those that were there
// before may be an agent's. Those of the operator's are out of its reach.
func TestGuardSharedLinks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"main/.git", "main.git"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, true)
			common := filepath.Join(realTemp(t), name)
			check(t, os.MkdirAll(filepath.Dir(common), 0o700))
			check(t, os.Rename(git(t, g.Tree, "rev-parse", "--path-format=absolute", "--git-common-dir"), common))
			git(t, common, "--git-dir="+common, "worktree", "repair", g.Tree)
			log := filepath.Join(common, "logs", "refs", "heads", "topic")
			ours := filepath.Join(common, "description")
			for _, path := range []string{log, ours} {
				check(t, os.Remove(path))
				check(t, os.Symlink(g.mark, path))
			}
			g.trust()
			check(t, os.Symlink(g.mark, filepath.Join(common, "objects", "info", "commit-graph")))
			g.undo(common+": logs/refs/heads/topic", common+": objects/info/commit-graph")
			if said := g.sh("git commit --allow-empty -m x && git gc"); g.ran() || !strings.HasSuffix(said, "<nil>") {
				t.Errorf("it was written to: %s", said)
			}
			if target, err := os.Readlink(ours); err != nil || target != g.mark {
				t.Errorf("the operator's link is %q, %v", target, err)
			}
		})
	}
}

// Links that were there before the agent stay, and where they led. So do those in a work tree, which the guard
// leaves alone, also where it lies in a bare repository or looks like one.
func TestGuardLinksThatStay(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.sh(`mkdir "$SPARE/shared"; mv .git/logs "$SPARE/shared/logs"; ln -s "$SPARE/shared/logs" .git/logs; ln -sf refs/heads/main .git/HEAD
		git clone -q --bare . bare; git -C bare worktree add -q tree`)
	g.trust()
	said := g.sh(`ln -s /nowhere link; mkdir -p objects refs; ln -s /nowhere refs/link; ln -s /nowhere objects/link; ln -s /nowhere bare/tree/link
		git branch b; ln -sf refs/heads/b .git/HEAD`)
	if !strings.HasSuffix(said, "<nil>") {
		t.Fatal(said)
	}
	g.undo()
	for path, want := range map[string]string{
		"link": "/nowhere", "refs/link": "/nowhere", "objects/link": "/nowhere", "bare/tree/link": "/nowhere",
		".git/logs": filepath.Join(g.spare, "shared", "logs"), ".git/HEAD": "refs/heads/b",
	} {
		if target, err := os.Readlink(filepath.Join(g.Tree, path)); err != nil || target != want {
			t.Errorf("%s is %q, %v", path, target, err)
		}
	}
}

// What an agent sets that runs nothing stays, byte for byte.
func TestGuardHarmless(t *testing.T) {
	t.Parallel()
	for _, linked := range []bool{false, true} {
		t.Run(fmt.Sprint("linked ", linked), func(t *testing.T) {
			t.Parallel()
			g := guard(t, linked)
			g.reaches = true
			g.trust()
			said := g.sh(`set -e; git config user.name Ann; git config user.email ann@example.com
				git remote add origin https://example.com/r.git; git remote add two git@example.com:r.git; git remote add three ssh://git@example.com/r.git
				git branch b; git config branch.b.remote origin; git config branch.b.merge refs/heads/b; git config pull.rebase true
				git config --add remote.origin.fetch '+refs/pull/*:refs/x/*'
				git commit -q --allow-empty -m x; git tag t; git stash list; git worktree add -q wt; git -C wt commit -q --allow-empty -m y
				git init -q nested; git -C nested commit -q --allow-empty -m z; git config branch.main.remote .
				git sparse-checkout set --no-cone / 2>&1`)
			if !strings.HasSuffix(said, "<nil>") {
				t.Fatal(said)
			}
			config := git(t, g.Tree, "rev-parse", "--git-path", "config")
			before, err := os.ReadFile(absolute(g.Tree, config))
			check(t, err)
			g.undo()
			after, err := os.ReadFile(absolute(g.Tree, config))
			check(t, err)
			if string(before) != string(after) {
				t.Errorf("the configuration was\n%s\nand is\n%s", before, after)
			}
			if out := git(t, g.Tree, "-C", "wt", "status", "--porcelain"); out != "" {
				t.Errorf("the worktree: %s", out)
			}
		})
	}
}

// What the workflow's hooks have set is put back where the agent took it away or changed it, and is trusted also where it
// came in a later run.
func TestGuardOperators(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	said := g.sh(`set -e; mkdir -p .git/hooks/lib; git config alias.ours '!true'; git config core.sshCommand 'ssh -v'
		echo ours > .git/hooks/lib/common; echo ours > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; ln -s pre-commit .git/hooks/pre-push`)
	g.trust()
	g.undo()
	g.trust()
	said += g.sh(`set -e; git config --unset alias.ours; git config core.sshCommand evil; git config user.name Ann
		chmod 644 .git/hooks/pre-commit; echo evil > .git/hooks/lib/common; rm .git/hooks/pre-push`)
	g.undo("alias.ours", "core.sshcommand", "hooks/pre-commit", "hooks/lib/common", "hooks/pre-push")
	got := g.sh(`git config alias.ours; git config core.sshCommand; git config user.name; cat .git/hooks/lib/common; stat -c %a .git/hooks/pre-commit; readlink .git/hooks/pre-push`)
	if got != "!true\nssh -v\nAnn\nours\n755\npre-commit\n<nil>" {
		t.Errorf("%s\n%s", said, got)
	}
	// between two agents all is the operator's
	git(t, g.Tree, "config", "alias.later", "!true")
	g.undo()
	g.trust()
	g.undo()
	if got := git(t, g.Tree, "config", "alias.later"); got != "!true" {
		t.Errorf("alias.later is %q", got)
	}
}

// The main repository of a worktree is left alone where the agent could not write it: another process has changed it.
func TestGuardLeavesTheMainRepository(t *testing.T) {
	t.Parallel()
	g := guard(t, true)
	g.trust()
	git(t, g.Tree, "config", "alias.operators", "!true")
	g.undo()
	if got := git(t, g.Tree, "config", "alias.operators"); got != "!true" {
		t.Errorf("alias.operators is %q", got)
	}
}

// A configuration that includes a file of the work tree makes that one, too.
func TestGuardIncluded(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	git(t, g.Tree, "config", "include.path", "../.gitconfig")
	git(t, g.Tree, "config", "includeIf.onbranch:evil.path", "../later")
	write(t, filepath.Join(g.Tree, ".gitconfig"), "[alias]\n\tours = !true\n[include]\n\tpath = more\n")
	g.trust()
	write(t, filepath.Join(g.Tree, "more"), "[alias]\n\tpublish = !touch \"$MARK\"\n[user]\n\tname = Ann\n")
	write(t, filepath.Join(g.Tree, "later"), "[core]\n\tfsmonitor = evil\n")
	git(t, g.Tree, "config", "--file", ".gitconfig", "alias.ours", "!false")
	g.refuses("more: alias.publish", "later: core.fsmonitor", ".gitconfig: alias.ours")
}

// Where the agent puts a link in the place of a directory, what it leads to is neither read nor written.
func TestGuardLedAway(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	outside := filepath.Join(realTemp(t), "outside")
	clone(t, outside)
	git(t, outside, "config", "alias.operators", "!true")
	operators := filepath.Join(outside, ".git", "config")
	write(t, filepath.Join(outside, "conf"), "[alias]\n\toperators = !true\n")
	g.sh(`git init -q sub; mkdir -p dir other/deep; printf '[alias]\n\tours = !true\n' | tee dir/conf > other/deep/conf
		git config include.path ../dir/conf; ln -s other/deep by; git config --add include.path ../by/conf`)
	g.trust()
	g.undo()
	g.trust()
	said := g.sh(`rm -r sub dir by; O='` + outside + `'; ln -s "$O" sub; ln -s "$O" dir; ln -s "$O" by; git config --file other/deep/conf alias.evil x`)
	if !strings.HasSuffix(said, "<nil>") {
		t.Fatal(said)
	}
	before, err := os.ReadFile(operators)
	check(t, err)
	g.refuses("dir/conf", "by/conf")
	if after, err := os.ReadFile(operators); err != nil || string(after) != string(before) {
		t.Errorf("the operator's configuration is now %q, %v", after, err)
	}
	if conf, err := os.ReadFile(filepath.Join(outside, "conf")); err != nil || string(conf) != "[alias]\n\toperators = !true\n" {
		t.Errorf("the operator's file is now %q, %v", conf, err)
	}
}

// A configuration that is a link into the work tree, likewise.
func TestGuardLinkedConfiguration(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.sh(`mv .git/config shared; ln -s ../shared .git/config; git config --file shared alias.ours '!true'`)
	g.trust()
	git(t, g.Tree, "config", "--file", "shared", "alias.evil", "!false")
	g.refuses("alias.evil")
}

// Hooks that lie in the work tree are the agent's to write, whichever setting points git there: the workflow's hooks go without.
func TestGuardTreeHooks(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]string{
		"core.hooksPath": `git config core.hooksPath .husky`,
		"a link":         `rm -rf .git/hooks; ln -s ../.husky .git/hooks`,
		"a linked hook":  `mkdir -p .git/hooks; ln -s ../../.husky/pre-commit .git/hooks/pre-commit`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guard(t, false)
			g.sh(`mkdir .husky; HOOK=.husky/pre-commit; ` + hookEvil + set)
			if g.sh("git commit --allow-empty -m x"); !g.ran() {
				t.Fatal("the operator's hook does not run before there was an agent")
			}
			g.trust()
			g.undo()
			if said := g.sh("git commit --allow-empty -m x"); g.ran() {
				t.Errorf("it ran: %s", said)
			}
			_, reasons, err := g.HookSettings()
			check(t, err)
			if len(reasons) != 1 {
				t.Errorf("reasons %q", reasons)
			}
		})
	}
	g := guard(t, false)
	g.trust()
	g.undo()
	if settings, reasons, err := g.HookSettings(); err != nil || len(settings)+len(reasons) > 0 {
		t.Errorf("%q %q %v where no hook lies in the work tree", settings, reasons, err)
	}
}

// A workspace that is no repository, and is laid out as a bare one.
func TestGuardBareWorkspace(t *testing.T) {
	t.Parallel()
	g := guardEmpty(t)
	g.trust()
	g.sh(`git init -q --bare .; git config core.fsmonitor 'touch "$MARK"'; git config alias.publish '!touch "$MARK"'; HOOK=hooks/post-commit; ` + hookEvil)
	g.refuses("core.fsmonitor", "alias.publish", "hooks/post-commit")
}

// A repository that the agent makes where there was none becomes harmless, and no reason to stop hooks.
func TestGuardNewRepository(t *testing.T) {
	t.Parallel()
	g := guardEmpty(t)
	g.trust()
	said := g.sh(`set -e; git init -q .; git config user.name Ann; git remote add origin https://example.com/r; git commit -q --allow-empty -m x`)
	if !strings.HasSuffix(said, "<nil>") {
		t.Fatal(said)
	}
	g.sh(`git config core.fsmonitor 'touch "$MARK"'; HOOK=.git/hooks/post-commit; ` + hookEvil)
	g.undo("core.fsmonitor", "hooks/post-commit")
	if got := git(t, g.Tree, "config", "user.name"); got != "Ann" {
		t.Errorf("user.name is %q", got)
	}
}

// Whatever is put where a file was: nothing is followed, waited for or written through.
func TestGuardSpecialFiles(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(realTemp(t), "outside")
	for name, put := range map[string]func(string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink(outside, path) },
		"hard link": func(path string) error { return os.Link(outside, path) },
		"directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "a", "b"), 0o500) },
		"loop":      func(path string) error { return os.Symlink(path, path) },
		"nothing":   func(string) error { return nil },
		"secret":    func(path string) error { return os.WriteFile(path, []byte("[alias]\n\tx = !y\n"), 0) },
		"large": func(path string) error {
			return os.WriteFile(path, []byte("[alias]\n\tx = !y\n"+strings.Repeat("#\n", maxControlFile)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, os.RemoveAll(outside))
			write(t, outside, "[alias]\n\tx = !y\n")
			g := guard(t, false)
			config, hook := filepath.Join(g.Tree, ".git", "config"), filepath.Join(g.Tree, ".git", "hooks", "pre-push")
			write(t, hook, "ours")
			trusted, err := os.ReadFile(config)
			check(t, err)
			g.trust()
			for _, path := range []string{config, hook} {
				check(t, os.Remove(path))
				check(t, put(path))
			}
			check(t, os.Chmod(filepath.Dir(config), 0o500))
			check(t, os.Chmod(filepath.Dir(hook), 0))
			_, err = g.Undo(t.Context())
			check(t, err)
			if got, err := os.ReadFile(hook); err != nil || string(got) != "ours" {
				t.Errorf("the hook is %q, %v", got, err)
			}
			got, err := os.ReadFile(config)
			if name == "nothing" { // what sets nothing may go
				trusted = nil
			}
			if err != nil && name != "nothing" || string(got) != string(trusted) {
				t.Errorf("the configuration is %q, %v", got, err)
			}
			if got, err := os.ReadFile(outside); err != nil || string(got) != "[alias]\n\tx = !y\n" {
				t.Errorf("outside is %q, %v", got, err)
			}
		})
	}
}

// What is cut off is done by the next holder, and the end of it is written down.
func TestGuardPending(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.trust()
	git(t, g.Tree, "config", "alias.evil", "!false")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Undo(ended)
	wantCode(t, err, files.CodeFailed)

	next := &guarded{t: t, Guard: &Guard{Tree: g.Tree, Temp: g.Temp, File: g.File, Verify: g.Verify}}
	next.undo("alias.evil")
	git(t, next.Tree, "config", "alias.ours", "!true") // an after_run
	next.undo()
	next.trust()
	git(t, next.Tree, "config", "alias.evil", "!false")
	next.undo("alias.evil")
}

// What was written down and can't be read is no reason to let hooks run.
func TestGuardUnreadable(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.trust()
	git(t, g.Tree, "config", "alias.evil", "!false")
	write(t, g.File, "{") // by an agent that may write there
	g.undo("alias.evil")
	g.snapshot = nil // the next holder
	write(t, g.File, "{")
	_, err := g.Undo(t.Context())
	wantCode(t, err, files.CodeFailed)
	_, _, err = g.HookSettings()
	wantCode(t, err, files.CodeFailed)
	check(t, g.Forget())
	g.undo()
}

// A search that ends early is told, and closes what it has not seen.
func TestGuardPartial(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	g.trust()
	for i := range findDirs + 1 {
		check(t, os.MkdirAll(filepath.Join(g.Tree, "many", fmt.Sprint(i), ".git"), 0o700))
	}
	undone, err := g.Undo(t.Context())
	check(t, err)
	if !undone.Partial {
		t.Fatal("not told")
	}
	g.sh(`git init -q --bare b; git -C b config alias.publish '!touch "$MARK"'; git init -q sub; git -C sub commit -q --allow-empty -m x
		git add sub; git -C sub config core.fsmonitor 'touch "$MARK"; false'`)
	g.ran()
	if said := g.sh("git status; cd b && git publish"); g.ran() {
		t.Errorf("it ran: %s", said)
	}
}
