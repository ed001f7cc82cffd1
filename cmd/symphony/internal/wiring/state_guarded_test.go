package wiring

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// What the next pass obeys is guarded, however a workflow, git or the account name it.
func TestOperatorFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		made     string // a shell script; it runs in the home directory
		workflow string // of the project in ~/app; empty for none
		changes  string // is changed by an agent
		guarded  bool
	}{
		{"the workflow", "", "polling: {interval_ms: 1000}", "app/WORKFLOW.md", true},
		{"a file beside it", "touch app/fine", "polling: {interval_ms: 1000}", "app/fine", true},
		{"a directory below", "mkdir -p app/a/b", "polling: {interval_ms: 1000}", "app/a/b", true},
		{"a directory beside it", "mkdir apple", "polling: {interval_ms: 1000}", "apple", false},
		{"beside a hook in the home directory", "touch x.sh; mkdir b", "hooks: {before_run: 'cd ~; ~/x.sh'}", "b", false},
		{"beside a hook in a directory of all", "mkdir t b; chmod 1777 t; touch t/x", "hooks: {before_run: '~/t/x'}", "t/y", false},
		{"an environment file that is new", "", "polling: {interval_ms: 1000}", ".config/symphony/new.env", true},
		{
			"a file to which one links",
			"mkdir -p .config/symphony dot; touch dot/env; ln -s ~/dot/env .config/symphony/a.env",
			"",
			"dot/env",
			true,
		},
		{"a hook by ~", "touch hook.sh", "hooks: {before_run: 'sh ~/hook.sh'}", "hook.sh", true},
		{"a hook by HOME in braces", "touch hook.sh", "hooks: {after_run: 'sh \"${HOME}/hook.sh\"'}", "hook.sh", true},
		{"a hook by a variable", "touch hook.sh", "hooks: {after_run: 'sh $TOOLS/hook.sh'}", "hook.sh", true},
		{"a hook in its workspace", "touch hook.sh", "hooks: {before_run: 'sh hook.sh'}", "hook.sh", false},
		{
			"on_attention in the home directory",
			"touch tell.sh",
			"hooks: {on_attention: 'sh ./tell.sh'}",
			"tell.sh",
			true,
		},
		{
			"verify",
			"touch verify.sh",
			"handoff: {state: Human Review}\nverify: {command: 'sh ~/verify.sh'}",
			"verify.sh",
			true,
		},
		{"an engine's script", "mkdir e; touch e/start e/rest", fromEngine, "e/start", true},
		{"an engine's script from home", "mkdir e; touch e/start e/rest", fromEngine, "e/rest", true},
		{
			"options of sbatch",
			"touch jobs.conf",
			"worker: {engine: {kind: slurm, args: ['--export-file=jobs.conf']}}",
			"jobs.conf",
			true,
		},
		{"the root on hosts with this home", "", "worker: {engine: {kind: slurm}, root: ~/far}", "far/ABC-1/x", true},
		{"codex.command", "touch run.sh", "codex: {command: '~/run.sh app-server'}", "run.sh", true},
		{"codex.home", "", "codex: {home: ~/ch}", "ch/config.toml", true},
		{
			"a certificate",
			"",
			"tracker: {kind: linear, project_slug: x-0123456789ab, ca_file: ~/ca.pem}",
			"ca.pem",
			true,
		},
		{"the workspaces", "", "workspace: {root: ~/ws}", "ws/ABC-1", true},
		{"the mirrors", "", "workspace: {root: ~/ws}", "ws/.symphony/mirrors/x.git/config", true},
		{"a writable root", "", "agent: {writable_roots: [~/cache]}", "cache", true},
		{
			"a writable root of codex",
			"",
			"codex: {turn_sandbox_policy: {type: workspaceWrite, writableRoots: [DIR/cache]}}",
			"cache",
			true,
		},
		{
			"the tracker's program",
			"",
			"tracker: {kind: command, provider: {command: [./t.sh, --config=t.conf]}}",
			"app/t.sh",
			true,
		},
		{
			"the tracker's settings",
			"touch app/t.conf",
			"tracker: {kind: command, provider: {command: [./t.sh, --config=t.conf]}}",
			"app/t.conf",
			true,
		},

		{"hooks of url: .", "git init -q app", "repository: {url: .}", "app/.git/hooks/post-receive", true},
		{"files of url: .", "git init -q app", "repository: {url: .}", "app/main.go", true},
		{
			"hooks of a path",
			"git init -q --bare bare.git",
			"repository: {url: DIR/bare.git}",
			"bare.git/hooks/post-receive",
			true,
		},
		{
			"hooks of a path without .git",
			"git init -q --bare bare.git",
			"repository: {url: DIR/bare}",
			"bare.git/hooks/update",
			true,
		},
		{
			"hooks of file:///",
			"git init -q --bare bare.git",
			"repository: {url: 'file://DIR/bare.git'}",
			"bare.git/hooks/update",
			true,
		},
		{
			"hooks of file://localhost/",
			"git init -q --bare bare.git",
			"repository: {url: 'file://localhostDIR/bare.git'}",
			"bare.git/hooks/update",
			true,
		},
		{
			"settings of file:/// with an escaped dot",
			"git init -q --bare bare.git",
			"repository: {url: 'file://DIR/bare%2egit'}",
			"bare.git/config",
			true,
		},
		{"hooks behind a linked worktree", linked, "repository: {url: DIR/tree}", "main/.git/hooks/update", true},
		{"the file .git of a linked worktree", linked, "repository: {url: DIR/tree}", "tree/.git", true},
		{"the main repository behind url: .", linkedApp, "repository: {url: .}", "main/.git/config", true},
		{
			"hooks elsewhere",
			"git init -q r; git -C r config core.hooksPath ../hooks",
			"repository: {url: DIR/r}",
			"hooks/pre-receive",
			true,
		},
		{
			"settings that a repository includes",
			"git init -q r; git -C r config include.path ../../more",
			"repository: {url: DIR/r}",
			"more",
			true,
		},
		{
			"by url.insteadOf",
			"git init -q r; git config --global url.$HOME/r.insteadOf https://x.example/r",
			"repository: {url: 'https://x.example/r'}",
			"r/.git/config",
			true,
		},
		{"a repository that does not exist yet", "", "repository: {url: DIR/later}", "later/hooks/update", true},

		{"git's settings in dotfiles", "mkdir dot; touch dot/git; ln -s ~/dot/git .gitconfig", "", "dot/git", true},
		{"what they include", "git config --global include.path '~/dot/more'", "", "dot/more", true},
		{
			"the login profile in dotfiles",
			"mkdir dot; touch dot/profile; ln -s dot/profile .profile",
			"",
			"dot/profile",
			true,
		},
		{
			"git's template for new repositories",
			"mkdir tpl; git config --global init.templateDir '~/tpl'",
			"",
			"tpl/hooks/post-checkout",
			true,
		},
		{
			"what such a file includes",
			"mkdir dot; git config -f dot/more include.path last; git config --global " +
				"'includeIf.hasconfig:remote.*.url:x.path' '~/dot/more'",
			"",
			"dot/last",
			true,
		},
		{
			"a file that is not there yet, of a variable of the environment file",
			"mkdir -p .config/symphony; echo 'BASH_ENV=$TOOLS/env.sh' > .config/symphony/symphony.env; " +
				"chmod 600 .config/symphony/symphony.env",
			"polling: {interval_ms: 1000}",
			"env.sh",
			true,
		},
		{"the last valid workflow", "touch hook.sh", "last good", "hook.sh", true},
		{"all beside a workflow that can't be read", "", "agent: [", "app/fine", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			home := test.Must(filepath.EvalSymlinks(t.TempDir()))
			test.OK(t, os.MkdirAll(filepath.Join(home, "app"), 0o700))
			vars := []string{
				"HOME=" + home,
				"PATH=" + os.Getenv("PATH"),
				"GIT_CONFIG_NOSYSTEM=1",
				"TOOLS=" + home,
			}
			w := &environ.Env{Environ: vars, Home: home, Dir: home, Now: time.Now}
			sh := exec.CommandContext(t.Context(), "sh", "-ec", c.made)
			sh.Dir = home
			sh.Env = append(
				vars,
				"GIT_AUTHOR_NAME=A",
				"GIT_AUTHOR_EMAIL=a@x",
				"GIT_COMMITTER_NAME=A",
				"GIT_COMMITTER_EMAIL=a@x",
			)
			out, err := sh.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if c.workflow != "" {
				addProject(t, w, home, c.workflow)
			}
			changes := test.Must(paths.Find(filepath.Join(home, c.changes)))
			var by []string
			for _, one := range test.Must(OperatorFiles(t.Context(), w)) {
				if changes.Inside(one.Place) {
					by = append(by, one.Path)
				}
			}
			if guarded := len(by) > 0; guarded != c.guarded {
				t.Errorf("%s is guarded: %v, by %s", c.changes, guarded, by)
			}
		})
	}
}

// A writable directory is refused if agents could change there what a pass obeys, or replace
// another writable directory.
func TestWritableRoots(t *testing.T) {
	t.Parallel()
	home := test.Must(filepath.EvalSymlinks(t.TempDir()))
	for _, name := range []string{"app", "other/cache/deep", "cache", ".config/symphony", ".codex"} {
		test.OK(t, os.MkdirAll(filepath.Join(home, name), 0o700))
	}
	test.OK(t, os.Symlink("cache", filepath.Join(home, "link")))
	w := &environ.Env{
		Environ: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")},
		Home:    home,
		Dir:     home,
		Now:     time.Now,
	}
	addProject(t, w, home, "agent: {writable_roots: [~/other/cache]}\nworkspace: {root: ~/ws}")
	for _, c := range []struct{ config, want string }{
		{"agent: {writable_roots: [~/cache]}", ""},
		{"agent: {writable_roots: [~/missing/cache]}", ""},
		{"agent: {writable_roots: [~/other/cache]}", ""}, // agents of both projects write it
		{"agent: {writable_roots: [~/other]}", "would let an agent change DIR/other/cache"},
		{"agent: {writable_roots: [~/other/cache/deep]}", "would let an agent change DIR/other/cache"},
		{"agent: {writable_roots: [~/app]}", "would let an agent change DIR/app/WORKFLOW.md"},
		{"agent: {writable_roots: [~/ws/ABC-1]}", "would let an agent change DIR/ws"},
		{"agent: {writable_roots: [~/.config]}", "would let an agent change DIR/.config/symphony"},
		{"agent: {writable_roots: [~/.codex/skills]}", "would let an agent change DIR/.codex"},
		{
			"agent: {writable_roots: [~/.local/state/symphony/worktrees]}",
			"would let an agent change DIR/.local/state/symphony",
		},
		{"agent: {writable_roots: [~/link/x]}", "leads to DIR/cache/x by the symlink DIR/link"},
		{"agent: {writable_roots: [/proc/self/cwd]}", "leads into /proc"},
		{
			"codex: {turn_sandbox_policy: {type: workspaceWrite, writableRoots: [DIR/app]}}",
			"would let an agent change DIR/app/WORKFLOW.md",
		},
		{
			"codex: {turn_sandbox_policy: {type: workspaceWrite, writableRoots: [DIR/link]}}",
			"leads to DIR/cache by the symlink DIR/link",
		},
		{
			"agent: {writable_roots: [~/cache]}\nrepository: {url: 'file://DIR/cache'}",
			"would let an agent change DIR/cache",
		},
	} {
		text := "---\ntracker: {kind: linear, project_slug: x-0123456789ab}\n" + c.config + "\n---\nWork.\n"
		path := filepath.Join(home, "new", "WORKFLOW.md")
		src := test.Must(workflow.NewSource(path, path, []byte(strings.ReplaceAll(text, "DIR", home))))
		p := NewProject(w, path, "")
		cfg := test.Must(p.parseWithoutKey(src))
		_, err := WritableRoots(t.Context(), p, cfg)
		want := strings.ReplaceAll(c.want, "DIR", home)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", c.config, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", c.config, err, want)
		}
	}
}

// What a schedule obeys is guarded also where the caller has another home directory, and
// others for state and settings.
func TestOperatorFilesOfASchedule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		vars []string
		home string // of the caller
	}{
		{"the same", nil, "home"},
		{"other XDG directories", []string{"XDG_STATE_HOME=DIR/state", "XDG_CONFIG_HOME=DIR/config"}, "home"},
		{"another home directory", nil, "elsewhere"},
		{"both", []string{"XDG_STATE_HOME=DIR/state", "XDG_CONFIG_HOME=DIR/config"}, "elsewhere"},
	} {
		base := test.Must(filepath.EvalSymlinks(t.TempDir()))
		home := filepath.Join(base, "home")
		test.OK(t, os.MkdirAll(filepath.Join(home, "app"), 0o700))
		cron := &environ.Env{
			Environ: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")},
			Home:    home,
			Dir:     home,
			Now:     time.Now,
		}
		addProject(t, cron, home, "polling: {interval_ms: 1000}")
		w := &environ.Env{
			Home:        filepath.Join(base, c.home),
			AccountHome: home,
			Dir:         base,
			Now:         time.Now,
		}
		for _, entry := range append(c.vars, "HOME="+w.Home, "PATH="+os.Getenv("PATH")) {
			w.Environ = append(w.Environ, strings.ReplaceAll(entry, "DIR", base))
		}
		list := test.Must(OperatorFiles(t.Context(), w))
		for _, name := range []string{
			"app/WORKFLOW.md",
			".config/symphony/app.env",
			".config/symphony/symphony.env",
			".local/state/symphony/app/state.db",
		} {
			place := test.Must(paths.Find(filepath.Join(home, name)))
			by := slices.ContainsFunc(list, func(one Guarded) bool { return place.Inside(one.Place) })
			test.Equal(t, c.name+": "+name+" is guarded", by, true)
		}
		secrets := SecretFiles(
			NewProject(w, filepath.Join(base, "WORKFLOW.md"), ""),
			state.NewAccount("", home, filepath.Join(home, ".codex")),
			false,
		)
		test.Equal(
			t,
			c.name+": environment files are secrets",
			slices.Contains(secrets, filepath.Join(home, ".config/symphony")),
			true,
		)
	}
}

// Secrets behind a link are hidden with the directory in which the link ends: a file alone would be
// hidden only until another takes its place.
func TestLinkedSecrets(t *testing.T) {
	t.Parallel()
	home := test.Must(filepath.EvalSymlinks(t.TempDir()))
	in := func(name string) string { return filepath.Join(home, name) }
	for _, link := range []struct{ at, to string }{
		{".codex/auth.json", "vault/auth.json"},
		{".config/symphony/app.env", "team/app.env"},
	} {
		test.Write(t, in(link.to), "")
		test.OK(t, os.MkdirAll(filepath.Dir(in(link.at)), 0o700))
		test.OK(t, os.Symlink(in(link.to), in(link.at)))
	}
	w := &environ.Env{Environ: []string{"HOME=" + home}, Home: home, Dir: home, Now: time.Now}
	secrets := SecretFiles(NewProject(w, in("app/WORKFLOW.md"), ""), state.NewAccount("", home, in(".codex")), false)
	test.Equal(t, "secrets", secrets, []string{in(".codex"), in("vault"), in(".config/symphony"), in("team")})
}

const (
	fromEngine = "worker: {engine: {kind: command, start: 'sh ~/e/start', connect: 'sh e/rest', status: " +
		"'sh e/rest', stop: 'sh e/rest'}}"
	linked = "git init -q main; git -C main commit -q --allow-empty -m first; git -C main worktree add -q ../tree"
	// linkedApp makes the folder of the workflow a linked worktree.
	linkedApp = "rmdir app; git init -q main; git -C main commit -q --allow-empty -m first; git -C main " +
		"worktree add -q ../app"
)

// addProject adds the project in ~/app. The text "last good" stands for one whose workflow is
// broken, but was valid.
func addProject(t *testing.T, w *environ.Env, home, config string) {
	t.Helper()
	file := func(config string) []byte {
		if !strings.Contains(config, "tracker:") {
			config += "\ntracker: {kind: linear, project_slug: x-0123456789ab}"
		}
		return []byte(strings.ReplaceAll("---\n"+config+"\n---\nWork.\n", "DIR", home))
	}
	path := filepath.Join(home, "app", "WORKFLOW.md")
	db := test.Must(state.Create(t.Context(), filepath.Join(StateHome(w), "app"), time.Now()))
	test.OK(t, db.SetMeta(t.Context(), OwnerKey, path))
	if config == "last good" {
		test.OK(t, db.SetMeta(t.Context(), LastGoodKey, string(file("hooks: {before_run: sh ~/hook.sh}"))))
		config = "hooks: ["
	}
	test.OK(t, db.Close())
	test.OK(t, os.WriteFile(path, file(config), 0o600))
}
