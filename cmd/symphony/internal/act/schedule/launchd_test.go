package schedule

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/environ"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/test"
)

// fakeLaunchctl keeps the loaded job in $HOME/loaded. As the real one does, it refuses a job
// that is loaded, and one that was unloaded a moment ago.
const fakeLaunchctl = `#!/bin/sh
echo "$*" >> "$HOME/calls"
case $1 in
print)
	case $2 in */*/*) [ -e "$HOME/loaded" ] || exit 113; echo "	state = not running"; echo "	last exit code = $(cat "$HOME/exit" 2>/dev/null || echo 0)" ;; esac ;;
bootout) rm "$HOME/loaded" && touch "$HOME/ending" ;;
bootstrap)
	if rm "$HOME/ending" 2>/dev/null; then echo 'Bootstrap failed: 5: Input/output error' >&2; exit 5; fi
	[ ! -e "$HOME/loaded" ] && cp "$3" "$HOME/loaded" ;;
esac
`

// launchdMac is a machine with launchd and a project.
type launchdMac struct {
	*testing.T
	home, workflow string
	said           []string
	p              *wiring.Project
	plain          *strings.Replacer // makes paths and names those of testdata
}

func newLaunchdMac(t *testing.T) *launchdMac {
	home := t.TempDir()
	m := &launchdMac{T: t, home: home, workflow: filepath.Join(home, "web & shop", "WORKFLOW.md")}
	m.write(m.workflow, "---\ntracker:\n  kind: file\n  provider: {path: issues}\n---\n{{ issue.title }}\n")
	m.write(filepath.Join(home, "bin", "launchctl"), fakeLaunchctl)
	t.Setenv("PATH", filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	env := &environ.Env{
		Home:    home,
		Now:     time.Now,
		Environ: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_CONFIG_HOME=/Users/ann/config"},
	}
	m.p = wiring.NewProject(env, m.workflow, filepath.Join(home, "state"))
	m.plain = strings.NewReplacer(
		home,
		"/Users/ann",
		(&plan{caller: m.p}).name(),
		"symphony-web",
		"gui/"+strconv.Itoa(os.Geteuid()),
		"gui/501",
	)
	return m
}

func (m *launchdMac) write(path, text string) {
	test.OK(m, os.MkdirAll(filepath.Dir(path), 0o700))
	test.OK(m, os.WriteFile(path, []byte(text), 0o700))
}

func (m *launchdMac) install() {
	s, kind, err := newPlan(m.p, Options{})
	test.OK(m, err)
	s.program = "/usr/local/bin/symphony"
	s.vars = s.vars[1:] // HOME, which differs only here
	test.OK(m, kind.refuse(m.Context(), 0))
	test.OK(m, kind.install(m.Context()))
	m.said = s.changes.Done
}

// calls checks the calls of launchctl since the last check.
func (m *launchdMac) calls(want string) {
	m.Helper()
	text, _ := os.ReadFile(filepath.Join(m.home, "calls"))
	test.Equal(
		m.T,
		"the calls",
		strings.ReplaceAll(m.plain.Replace(strings.TrimSpace(string(text))), "\n", "; "),
		want,
	)
	_ = os.Remove(filepath.Join(m.home, "calls"))
}

// A job of launchd is written and loaded, loaded again when it changes, shown by status, and
// removed.
func TestLaunchd(t *testing.T) {
	usesLaunchd = true
	defer func() { usesLaunchd = false }()
	m := newLaunchdMac(t)
	name := (&plan{caller: m.p}).name()
	const job, file = "gui/501/symphony-web", "/Users/ann/Library/LaunchAgents/symphony-web.plist"

	m.install()
	m.calls(
		"print gui/501; print " + job + "; print " + job + "; enable " + job + "; bootstrap gui/501 " + file,
	)
	loaded := test.Must(os.ReadFile(filepath.Join(m.home, "loaded")))
	want := test.Must(os.ReadFile("testdata/launchd.plist"))
	test.Equal(t, "the job", m.plain.Replace(string(loaded)), string(want))
	m.install()
	m.calls("print gui/501; print " + job)

	m.write(
		m.workflow,
		"---\ntracker:\n  kind: file\n  provider: {path: issues}\npolling: {interval_ms: 1000}\n---\n{{ "+
			"issue.title }}\n",
	)
	m.p = wiring.NewProject(m.p.Env, m.workflow, m.p.StateDir)
	m.install()
	m.calls("print gui/501; print " + job + "; print " + job + "; bootout " + job + "; enable " + job +
		"; bootstrap gui/501 " + file + "; bootstrap gui/501 " + file)
	test.Contains(
		t,
		"what was done",
		strings.Join(m.said, "\n"),
		"runs a pass every 10s; its errors are in "+m.home+"/Library/Logs/"+name+".log",
	)

	m.write(filepath.Join(m.home, "exit"), "3")
	st, err := ReadStatus(t.Context(), m.p)
	if err != nil || st.Launchd == nil || !st.Launchd.Loaded || *st.Launchd.Exit != 3 ||
		len(st.Problems) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if seen := AsScheduled(t.Context(), m.p, ""); seen.StateDir != m.p.StateDir ||
		seen.Env.Getenv("XDG_CONFIG_HOME") == "" {
		t.Errorf("passes see %s, %q", seen.StateDir, seen.Env.Environ)
	}
	if what, _ := Running(t.Context(), m.p, ""); what == "" {
		t.Error("nothing runs passes")
	}
	if _, err := Remove(t.Context(), m.p, Options{}); err != nil ||
		wiring.Exists(filepath.Join(m.home, "loaded")) ||
		wiring.Exists(filepath.Join(m.home, "Library", "LaunchAgents", name+".plist")) {
		t.Errorf("not removed: %v", err)
	}

	m.write(filepath.Join(m.home, "Library", "LaunchAgents", name+".plist"), "<plist/>")
	if _, kind, err := newPlan(m.p, Options{}); err != nil || kind.install(t.Context()) == nil {
		t.Errorf("another's file is overwritten; %v", err)
	}
}
