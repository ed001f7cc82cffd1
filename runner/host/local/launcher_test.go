package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// writeTree writes files below a new directory. A name that ends in * is executable, a text
// that begins with -> is a link.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := test.Must(filepath.EvalSymlinks(t.TempDir()))
	for name, text := range files {
		path := filepath.Join(root, strings.TrimSuffix(name, "*"))
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if to, link := strings.CutPrefix(text, "->"); link {
			test.OK(t, os.Symlink(filepath.Join(root, to), path))
			continue
		}
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, "*") {
			mode = 0o700
		}
		test.OK(t, os.WriteFile(path, []byte(text), mode))
	}
	return root
}

// Launchers are found in commands, behind links and in scripts. Other programs are not taken
// for launchers.
func TestLaunchers(t *testing.T) {
	root := writeTree(t, map[string]string{
		"bin/codex*":                "ELF",
		"bin/node*":                 "ELF",
		"bin/sh*":                   "ELF",
		"bin/env*":                  "ELF",
		"bin/mise*":                 "ELF",
		"bin/codex-by-mise":         "->bin/mise",
		"asdf/shims/codex-by-asdf*": "#!/usr/bin/env bash\nexec asdf exec codex \"$@\"\n",
		"bin/wrapped*":              "#!/bin/sh\n# as npx would\ncd /srv\nexec npx @openai/codex \"$@\"\n",
		"bin/twice*":                "#!/bin/sh\nexec wrapped \"$@\"\n",
		"bin/plain*":                "#!/bin/sh\n# npx is not used\nexec codex \"$@\"\n",
		"bin/of-npm*":               "#!/usr/bin/env node\nspawn('npm')\n",
		"bin/by-shim*":              "#!/usr/bin/env ruby-shim\n",
		"asdf/shims/ruby-shim*":     "ELF",
		"ws/own/codex*":             "ELF",
		"bin/of-the-workspace":      "->ws/own/codex",
	})
	l := launch{LaunchRequest: host.LaunchRequest{
		Path: root + "/bin:" + root + "/asdf/shims", Home: root, Writable: []string{root + "/ws"},
	}}
	for command, want := range map[string]string{
		"codex app-server":                          "",
		"exec codex -c model=npm app-server":        "",
		"FOO=bar nice -n 5 codex app-server":        "",
		"cd /srv/go && codex app-server":            "",
		"cd /srv && ./codex app-server":             "",
		"plain app-server":                          "",
		"of-npm app-server":                         "",
		root + "/bin/codex app-server":              "",
		"~/bin/codex app-server":                    "",
		"not-installed app-server":                  "",
		"npx codex app-server":                      "npx",
		"env A=b npx -y @openai/codex app-server":   "npx",
		"bash -lc 'exec pnpm dlx codex app-server'": "pnpm",
		"sh -c 'make codex'":                        "make",
		"/usr/bin/npx codex app-server":             "/usr/bin/npx",
		"mise exec -- codex app-server":             "mise",
		"codex-by-mise app-server":                  root + "/bin/codex-by-mise",
		"env -u DISPLAY codex-by-asdf app-server":   root + "/asdf/shims/codex-by-asdf",
		"wrapped app-server":                        root + "/bin/wrapped, which starts npx",
		"twice app-server": root + "/bin/twice, which starts " + root +
			"/bin/wrapped, which starts npx",
		"by-shim app-server": root + "/bin/by-shim, which starts " + root +
			"/asdf/shims/ruby-shim",
		"node node_modules/.bin/codex app-server":         "node_modules/.bin/codex",
		"./codex app-server":                              "./codex",
		"tools/codex app-server":                          "tools/codex",
		"true; codex-by-mise app-server":                  root + "/bin/codex-by-mise",
		"of-the-workspace app-server":                     root + "/bin/of-the-workspace",
		"if true; then exec yarn codex; else codex; fi":   "yarn",
		"OUT=$(npm root -g) codex app-server":             "npm",
		"timeout 5h codex-by-mise app-server 2>/dev/null": root + "/bin/codex-by-mise",
		"~/bin/codex-by-mise app-server":                  root + "/bin/codex-by-mise",
	} {
		test.Equal(t, command, l.find(command, 0).Program, want)
	}
}

// Files that an agent has left in the workspace are named, also those in a directory that
// can't be listed.
func TestLauncherFiles(t *testing.T) {
	root := writeTree(t, map[string]string{
		"bin/codex*":                    "ELF",
		"clean/main.c":                  "",
		"js/package.json":               "",
		"js/.npmrc":                     "",
		"js/lib/package.json":           "",
		"mise/.config/mise/config.toml": "",
		"tools/.tool-versions":          "",
		"own/codex*":                    "",
		"bin/nix-shell*":                "ELF",
		"bin/by-nix*":                   "#!/usr/bin/env -S nix-shell -i bash\nexec ./codex\n",
	})
	for _, c := range []struct{ dir, command, want string }{
		{"clean", "npx codex", ""},
		{"js", "npx codex", ".npmrc package.json"},
		{"js", "codex", ""},
		{"mise", "mise exec codex", ".config/mise"},
		{"tools", "asdf exec codex", ".tool-versions"},
		{"own", "./codex", "./codex"},
		{"own", "test -f ./.env.local && . ./.env.local; exec ./codex app-server", "./codex"},
		{"own", "npx rehash; ./codex app-server", "./codex"},
		{"own", "(cd /srv; ls); ./codex app-server", "./codex"},
		{"own", "(cd /srv; (cd /opt; ls); ./codex app-server)", ""},
		{"own", "X=$(cd /srv; pwd) ./codex app-server", "./codex"},
		{"own", "case $X in y) cd /srv; ls;; n) ./codex app-server; esac", "./codex"},
		{"own", "by-nix app-server", "./codex"},
		{"clean", "./codex", ""},
		{"nowhere", "npx codex", ""},
	} {
		l := launch{
			LaunchRequest: host.LaunchRequest{Dir: filepath.Join(root, c.dir), Path: root + "/bin"},
		}
		test.Equal(t, c.command, strings.Join(l.find(c.command, 0).Files, " "), c.want)
	}
	var before unix.Rlimit
	test.OK(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	test.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}))
	l := launch{LaunchRequest: host.LaunchRequest{Dir: filepath.Join(root, "clean")}}
	files := l.find("npx codex", 0).Files
	test.OK(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
	test.Equal(t, "files without a descriptor left", len(files), 0)
	test.Equal(t, "the limit is the error", paths.LimitReached(l.limit), true)
	if !test.Unprivileged(t) {
		return
	}
	clean := filepath.Join(root, "clean")
	test.OK(t, os.Chmod(clean, 0o300))
	t.Cleanup(func() { test.OK(t, os.Chmod(clean, 0o700)) })
	l = launch{LaunchRequest: host.LaunchRequest{Dir: clean}}
	files = l.find("npx codex", 0).Files
	test.Equal(t, "files of a directory that can't be listed", len(files), 1)
}
