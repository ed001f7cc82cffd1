package schedule

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
)

// fakeLaunchctl keeps the loaded job in $HOME/loaded. As the real one does, it refuses a job that is loaded, and one that was
// unloaded a moment ago.
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

// A job of launchd is written and loaded, loaded again when it changes, shown by status, and removed.
func TestLaunchd(t *testing.T) {
	usesLaunchd = true
	defer func() { usesLaunchd = false }()
	home := t.TempDir()
	workflow := filepath.Join(home, "web & shop", "WORKFLOW.md")
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(workflow, "---\ntracker:\n  kind: file\n  provider: {path: issues}\n---\n{{ issue.title }}\n")
	write(filepath.Join(home, "bin", "launchctl"), fakeLaunchctl)
	t.Setenv("PATH", filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	var said strings.Builder
	p := project.New(&term.Env{
		Stdout: &said, Stderr: &said, Home: home, Now: time.Now,
		Environ: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_CONFIG_HOME=/Users/ann/config"},
	}, workflow, filepath.Join(home, "state"))
	name := nameOf(p)
	plain := strings.NewReplacer(home, "/Users/ann", name, "symphony-web", "gui/"+strconv.Itoa(os.Geteuid()), "gui/501")
	install := func() {
		s, kind, err := newPlan(p, Options{})
		if err == nil {
			s.program, s.vars = "/usr/local/bin/symphony", s.vars[1:] // HOME, which differs only here
			if err = kind.refuse(t.Context(), 0); err == nil {
				err = kind.install(t.Context())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	calls := func(want string) {
		t.Helper()
		text, _ := os.ReadFile(filepath.Join(home, "calls"))
		if got := strings.ReplaceAll(plain.Replace(strings.TrimSpace(string(text))), "\n", "; "); got != want {
			t.Errorf("calls: %s\nwant:  %s", got, want)
		}
		_ = os.Remove(filepath.Join(home, "calls"))
	}
	const job, file = "gui/501/symphony-web", "/Users/ann/Library/LaunchAgents/symphony-web.plist"

	install()
	calls("print gui/501; print " + job + "; print " + job + "; enable " + job + "; bootstrap gui/501 " + file)
	loaded, err := os.ReadFile(filepath.Join(home, "loaded"))
	want, wantErr := os.ReadFile("testdata/launchd.plist")
	if err != nil || wantErr != nil || plain.Replace(string(loaded)) != string(want) {
		t.Errorf("%v, %v: %s", err, wantErr, plain.Replace(string(loaded)))
	}
	install()
	calls("print gui/501; print " + job)

	write(workflow, "---\ntracker:\n  kind: file\n  provider: {path: issues}\npolling: {interval_ms: 1000}\n---\n{{ issue.title }}\n")
	p = project.New(p.Env, workflow, p.StateDir)
	install()
	calls("print gui/501; print " + job + "; print " + job + "; bootout " + job + "; enable " + job +
		"; bootstrap gui/501 " + file + "; bootstrap gui/501 " + file)
	if !strings.Contains(said.String(), "runs a pass every 10s; its errors are in "+home+"/Library/Logs/"+name+".log\n") {
		t.Errorf("%s", said.String())
	}

	write(filepath.Join(home, "exit"), "3")
	st, err := ReadStatus(t.Context(), p)
	if err != nil || st.Launchd == nil || !st.Launchd.Loaded || *st.Launchd.Exit != 3 || len(st.Problems) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if seen := AsScheduled(t.Context(), p, ""); seen.StateDir != p.StateDir || seen.Env.Getenv("XDG_CONFIG_HOME") == "" {
		t.Errorf("passes see %s, %q", seen.StateDir, seen.Env.Environ)
	}
	if what, _ := Running(t.Context(), p, ""); what == "" {
		t.Error("nothing runs passes")
	}
	if err := Remove(t.Context(), p, Options{}); err != nil || project.Exists(filepath.Join(home, "loaded")) ||
		project.Exists(filepath.Join(home, "Library", "LaunchAgents", name+".plist")) {
		t.Errorf("not removed: %v", err)
	}

	write(filepath.Join(home, "Library", "LaunchAgents", name+".plist"), "<plist/>")
	if _, kind, err := newPlan(p, Options{}); err != nil || kind.install(t.Context()) == nil {
		t.Errorf("another's file is overwritten; %v", err)
	}
}
