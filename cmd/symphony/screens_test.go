package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestScreens runs the scripts in testdata/screens. Each makes a situation from real runs,
// with the clock stopped, and compares what commands show in a real terminal with the screens
// beside it. UPDATE_SCREENS=1 writes these.
func TestScreens(t *testing.T) {
	test.Expensive(t)
	if !hasTmux() {
		t.Skip("tmux is not installed")
	}
	t.Parallel()
	p := params(t, "screens")
	files := test.Must(filepath.Glob(filepath.Join(p.Dir, "*.txtar")))
	p.Dir = ""
	p.Files = files
	p.Setup = func(env *testscript.Env) error { return setupScreens(t, env) }
	p.Cmds["screens"] = screensCmd("80", "24")
	p.Cmds["wide"] = screensCmd("160", "50")
	p.Cmds["svg"] = svgCmd
	p.Cmds["pictures"] = picturesCmd
	p.Cmds["api"] = apiCmd
	if os.Getenv("UPDATE_PICTURES") != "" {
		useBrowser(&p, startChromium(t, "chromium"))
	}
	testscript.Run(t, p)
}

// screenHome is the home directory that the screens show. The one in which a script runs has a
// path of the same width.
const screenHome = "/home/ann"

// commitDate is the date of every commit, so that its hash is the same in every run.
const commitDate = "2026-02-24T09:00:00Z"

// setupScreens gives a script a home with a project, a codex and a crontab.
func setupScreens(t *testing.T, env *testscript.Env) error {
	if err := setupScript(env); err != nil {
		return err
	}
	home := newScreenHome()
	t.Cleanup(func() { test.OK(t, os.RemoveAll(home)) }) // also after a failure
	set := env.Values[stageKey{}].(*stage)
	set.dirs = append(set.dirs, home)
	// a pass that a worker has started at its end may be writing there
	env.Defer(func() { sweep(env.T(), env.Getenv(markName), set.dirs) })
	fake := test.Must(inPath(env.Getenv("PATH"), "fake-codex"))
	program := test.Must(inPath(env.Getenv("PATH"), "symphony"))
	bin := filepath.Join(home, "bin")
	for path, text := range map[string]string{
		"bin/codex": "#!/bin/sh\nexec " + fake + ` "$@"` + "\n",
		"bin/crontab": "#!/bin/sh\ncase $1 in -l) cat ~/.tab 2>/dev/null || { echo no " +
			"crontab for ann >&2; exit 1; } ;; -) cat >~/.tab ;; esac\n",
		"bin/npm":                       npmScript,
		".profile":                      "PATH=" + bin + ":$PATH\nexport GIT_AUTHOR_DATE=" + commitDate + " GIT_COMMITTER_DATE=" + commitDate + "\n",
		".codex/auth.json":              `{"OPENAI_API_KEY": "sk-scripted"}`,
		".config/symphony/symphony.env": "LINEAR_API_KEY=" + env.Getenv("LINEAR_API_KEY") + "\n",
		"web-shop/WORKFLOW.md":          strings.ReplaceAll(made("WORKFLOW-screens.md"), "$LINEAR_ENDPOINT", env.Getenv("LINEAR_ENDPOINT")),
		"web-shop/package.json":         "{}\n",
	} {
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), modeOf(path)); err != nil {
			return err
		}
	}
	for k, v := range map[string]string{
		"HOME":               home,
		"PATH":               bin + ":" + env.Getenv("PATH"),
		"CODEX_HOME":         "",
		"SYMPHONY_STATE_DIR": "",
		"STATE":              "",
		"TZ":                 "UTC",
		"GIT_AUTHOR_DATE":    commitDate,
		"GIT_COMMITTER_DATE": commitDate,
		"PROJECT":            home + "/web-shop",
	} {
		env.Setenv(k, v)
	}
	env.Cd = filepath.Join(home, "web-shop")
	return os.Symlink(program, filepath.Join(bin, "symphony"))
}

// npmScript is the npm of the agents: "npm test" ends when the script of the test creates
// ~/.tested, "npm run" does not end.
const npmScript = `#!/bin/sh
case $1 in
ci) echo 'added 412 packages in 9s' ;;
test) until [ -e ~/.tested ]; do sleep 0.1; done; echo '41 tests passed' ;;
*) exec sleep 3600 ;;
esac
`

func modeOf(path string) os.FileMode {
	if filepath.Base(filepath.Dir(path)) == "bin" {
		return 0o700
	}
	return 0o600
}

// newScreenHome makes a directory whose path is as wide as screenHome. It is not in /tmp where
// that is possible, because doctor warns of workspaces there.
func newScreenHome() string {
	parent := "/tmp/"
	// that of root
	if u, err := user.Current(); err == nil && len(u.HomeDir)+len("/abc") <= len(screenHome) {
		parent = u.HomeDir + "/"
	}
	for {
		home := parent + strings.ToLower(rand.Text())[:len(screenHome)-len(parent)]
		if err := os.Mkdir(home, 0o700); !errors.Is(err, fs.ErrExist) {
			test.OK(mainT{}, err)
			return home
		}
	}
}

// screensCmd returns the command that runs commands in a terminal of that size and compares
// what they show with the file NAME-80x24.txt or NAME-160x50.txt: screens|wide NAME COMMAND...
func screensCmd(columns, rows string) scriptCommand {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		m := startScreens(ts)
		defer m.end(ts)
		var out strings.Builder
		for _, command := range args[1:] {
			text, code := screenOf(ts, m, command, columns, rows)
			fmt.Fprintf(&out, "$ symphony %s\n", command)
			switch code {
			case "0":
			case "":
				fmt.Fprintln(&out, "[waits for a key]")
			default:
				fmt.Fprintf(&out, "[exit code %s]\n", code)
			}
			fmt.Fprintf(&out, "%s\n\n", strings.TrimRight(plainScreen(ts, text), "\n"))
		}
		compareScreens(
			ts,
			filepath.Join(moduleRoot, "testdata", "screens", args[0]+"-"+columns+"x"+rows+".txt"),
			out.String(),
		)
	}
}

// startScreens starts a server of terminals whose windows stay after their commands have
// ended.
func startScreens(ts *testscript.TestScript) *multiplexer {
	m, err := startTmux(ts.Getenv("PROJECT"), append(scriptEnv(ts), "LC_ALL=C.UTF-8", "TZ=UTC"), "80", "24")
	ts.Check(err)
	ts.Check(
		m.do(
			"set-option",
			"-g",
			"remain-on-exit",
			"on",
			";",
			"set-option",
			"-g",
			"remain-on-exit-format",
			"",
			";",
			"set-option",
			"-g",
			"status",
			"off",
		),
	)
	return m
}

// screenOf runs a command in a terminal until it has ended or waits for a key, and returns
// what the terminal shows then and the exit code, empty if the command has not ended.
func screenOf(
	ts *testscript.TestScript,
	m *multiplexer,
	command, columns, rows string,
	options ...string,
) (text, code string) {
	exit := filepath.Join(ts.Getenv("WORK"), "exit")
	pane, err := m.run(
		"new-session",
		"-d",
		"-P",
		"-F",
		"#{pane_id}",
		"-c",
		ts.Getenv("PROJECT"),
		"-x",
		columns,
		"-y",
		rows,
		"symphony "+command+"; echo $? >"+exit+"; "+setTitle,
	)
	ts.Check(err)
	pane = strings.TrimSpace(pane)
	before := ""
	waitFor(ts, command+" to end or to wait for a key", func() (bool, string) {
		title, err := m.run("display-message", "-p", "-t", pane, "#{pane_title}")
		ts.Check(err)
		text, err = m.shown(append(options, "-t", pane)...)
		ts.Check(err)
		if strings.TrimSpace(title) == "ended" {
			code = strings.TrimSpace(ts.ReadFile(exit))
			return true, text
		}
		waits := waitsForKey.MatchString(strings.TrimSpace(text)) && text == before &&
			!strings.Contains(text, "reading …")
		before = text
		return waits, text
	})
	ts.Check(m.do("kill-pane", "-t", pane))
	return text, code
}

// setTitle tells by the title of the pane that tmux has shown all output. Tmux may miss the
// last output of a pane whose program exits.
const setTitle = `printf '\033]2;ended\033\\'; exec sleep 600`

// waitsForKey matches the screen of a pager or of top.
var waitsForKey = regexp.MustCompile(`(\n:|\(END\)|\bquit\b.*)$`)

// variable are the parts of a screen that differ from run to run, and what takes their places.
var variable = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d{5}`), "127.0.0.1:40000"},
	{
		regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		"3f0c2a51-8f8e-4b0e-9a53-0b6f1d0c7e42",
	},
	{regexp.MustCompile(`(by \w+), [\d.]+m?s, `), "$1, 45ms, "}, // a pass
	{regexp.MustCompile(`git version [\d.]+`), "git version 2.39.5"},
	{regexp.MustCompile(`[\d.]+ [MGT]iB free`), "21.4 GiB free"},
	{regexp.MustCompile(`web-shop-[0-9a-f]{12}\b`), "web-shop-1f0c7a52e09b"},
}

// plainScreen makes the parts of a screen equal that differ from run to run, without a change
// of their widths.
func plainScreen(ts *testscript.TestScript, text string) string {
	text = strings.ReplaceAll(text, ts.Getenv("HOME"), screenHome)
	for _, run := range test.Must(filepath.Glob(filepath.Join(ts.Getenv("HOME"), ".local/state/symphony/*/runs/*"))) {
		_, suffix, _ := strings.Cut(filepath.Base(run), "-")
		text = replaceWrapped(text, suffix, "k3v9xq")
	}
	for _, v := range variable {
		text = v.pattern.ReplaceAllString(text, v.text)
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// replaceWrapped replaces a word, also where the terminal has wrapped it, by another one of
// the same width.
func replaceWrapped(text, word, other string) string {
	text = strings.ReplaceAll(text, word, other)
	for i := 1; i < len(word); i++ {
		text = strings.ReplaceAll(text, word[:i]+"\n"+word[i:], other[:i]+"\n"+other[i:])
	}
	return text
}

func compareScreens(ts *testscript.TestScript, path, got string) {
	if os.Getenv("UPDATE_SCREENS") != "" {
		ts.Check(os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	ts.Check(err)
	if string(want) == got {
		return
	}
	wanted := strings.Split(string(want), "\n")
	lines := strings.Split(got, "\n")
	for i := range lines {
		if i >= len(wanted) || lines[i] != wanted[i] {
			ts.Logf(
				"%s:%d\nwant %q\ngot  %q",
				path,
				i+1,
				strings.Join(slices.Clone(wanted[min(i, len(wanted)):min(i+3, len(wanted))]), "\n"),
				strings.Join(lines[i:min(i+3, len(lines))], "\n"),
			)
			break
		}
	}
	ts.Fatalf(
		"%s differs: read it, and update it with UPDATE_SCREENS=1 go test ./cmd/symphony -run TestScreens",
		filepath.Base(path),
	)
}
