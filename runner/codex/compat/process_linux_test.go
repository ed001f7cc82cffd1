package compat

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scripted is a codex that is a shell script: it says its version, and does body when it shall print its schema, for
// which there is a function "good".
func scripted(t *testing.T, body string) Options {
	t.Helper()
	dir := t.TempDir()
	schema := filepath.Join(dir, "schema")
	if err := Print(schema); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "codex")
	text := fmt.Sprintf(`#!/bin/sh
[ "$1" = --version ] && { echo "codex-cli 0.200.0"; exit; }
there=%s
for word; do [ "$last" = --out ] && out=$word; last=$word; done
good() { cp -r "$there/schema" "$out"; }
%s
`, dir, body)
	if err := os.WriteFile(bin, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return Options{
		Command: bin + " app-server", Dir: filepath.Join(t.TempDir(), "check"), Timeout: 20 * time.Second,
		Env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "SECRET_OF_OURS=hush", "SYMPHONY_RUN_ID=run-1"}, Secrets: []string{"SECRET_OF_OURS"},
	}
}

// check runs a check after which nothing may be left.
func check(t *testing.T, o Options) Report {
	t.Helper()
	r, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(o.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
	return r
}

// What a command may do in the place of printing its schema. It is let through, and what it did is told.
func TestUnchecked(t *testing.T) {
	const lead = "it printed no schema of its messages: "
	for name, row := range map[string]struct {
		body    string
		want    string // a part of Unchecked, "" for one that is checked
		timeout time.Duration
	}{
		"prints it":         {body: "good"},
		"older":             {body: `case "$*" in *experimental*) echo "error: unexpected argument '--experimental' found" >&2; exit 2;; esac; good`},
		"talks beside it":   {body: "echo hello; echo WARNING: x >&2; good"},
		"nothing":           {body: "exit 0", want: "open ClientRequest.json: no such file"},
		"refuses":           {body: "echo 'unrecognized subcommand' >&2; exit 2", want: "unrecognized subcommand"},
		"refuses at length": {body: "yes no | head -n 9999 | tr -d '\\n' >&2; exit 2", want: strings.Repeat("no", 150) + "…"},
		"fails in silence":  {body: "exit 3", want: "it ended with exit status 3"},
		"half of it":        {body: "good; rm $out/ServerNotification.json", want: "open ServerNotification.json: no such file"},
		"malformed":         {body: "good; echo '{' > $out/ClientRequest.json", want: "ClientRequest.json: unexpected EOF"},
		"another language":  {body: "good; echo '{\"a\":1}' > $out/ClientRequest.json", want: "ClientRequest.json lists no message"},
		"no object":         {body: "good; echo '[]' > $out/ClientRequest.json", want: "a JSON schema is an object"},
		"huge":              {body: "good; truncate -s 1G $out/ClientRequest.json", want: "ClientRequest.json has 1073741824 bytes"},
		"a link elsewhere":  {body: "good; mv $out/ClientRequest.json $there/x; ln -s $there/x $out/ClientRequest.json", want: "open ClientRequest.json: too many levels"},
		"a pipe":            {body: "good; rm $out/ClientRequest.json; mkfifo $out/ClientRequest.json", want: "ClientRequest.json is no plain file"},
		"elsewhere":         {body: "out=$there/elsewhere; good", want: "open ClientRequest.json: no such file"},
		"locked":            {body: "good; chmod 0 $out; chmod 0 ."},
		"hangs":             {body: "sleep 1000", want: "no answer within 1s", timeout: time.Second},
		"says without end":  {body: "yes", want: "no answer within 1s", timeout: time.Second},
		"serves":            {body: "cat >/dev/null", want: "open ClientRequest.json: no such file"}, // there is nothing to read
		"no such program":   {body: "exit 127", want: "absent"},
		"its home is gone":  {body: `[ -d "$CODEX_HOME" ] || { echo "Error: CODEX_HOME is gone" >&2; exit 1; }`, want: "Error: CODEX_HOME is gone"},
		"has what is kept":  {body: `[ -z "$SECRET_OF_OURS$SYMPHONY_RUN_ID" ] && good`},
		"works in a folder": {body: `case "$PWD $TMPDIR" in *check/work\ *check/work) good;; esac`},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "locked" && os.Geteuid() == 0 {
				row.want = "" // root reads it all the same
			} else if name == "locked" {
				row.want = "permission denied"
			}
			o := scripted(t, row.body)
			if row.timeout > 0 {
				o.Timeout = row.timeout
			}
			r := check(t, o)
			switch {
			case row.want == "absent":
				if !r.Absent || r.Unchecked != "" {
					t.Errorf("not absent: %+v", r)
				}
				return
			case row.want == "":
				if r.Unchecked != "" || len(r.Warning()) > 0 || len(r.Allowed) != 3 {
					t.Errorf("unchecked %q, warnings %q", r.Unchecked, r.Warning())
				}
			case !strings.HasPrefix(r.Unchecked, lead) || !strings.Contains(r.Unchecked, row.want):
				t.Errorf("unchecked %q, want %q", r.Unchecked, row.want)
			case len(r.Warning()) != 1:
				t.Errorf("warnings %q", r.Warning())
			}
			if r.Late != (row.timeout > 0) {
				t.Errorf("late: %v", r.Late)
			}
			if r.Err() != nil || r.Absent {
				t.Errorf("it is not let through: %v", r.Err())
			}
			if r.Version != "0.200.0" && row.timeout == 0 {
				t.Errorf("version %q", r.Version)
			}
		})
	}
}

// Whatever the command makes of itself, it does not outlive the check.
func TestNothingOutlivesTheCheck(t *testing.T) {
	o := scripted(t, `good
sleep 1000 & echo $! >$there/pids
setsid sh -c 'echo $$ >>'$there'/pids; exec sleep 1000' &
(setsid env -i /bin/sh -c 'echo $$ >>'$there'/pids; exec sleep 1000' >/dev/null 2>&1 </dev/null &)
while [ "$(wc -l <$there/pids)" -lt 3 ]; do sleep 0.01; done`)
	began := time.Now()
	if r := check(t, o); r.Unchecked != "" {
		t.Errorf("unchecked: %s", r.Unchecked)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSuffix(o.Command, "/codex app-server"), "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		if lives(t, pid) {
			t.Errorf("process %d lives", pid)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// lives tells a process from one that is gone, or whose end nobody has looked at.
func lives(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z")
}

// A check that died has left its folder, and a process in it: the next one clears both away.
func TestAfterOneThatDied(t *testing.T) {
	o := scripted(t, `good; [ -e $there/again ] || { echo $$ >$there/pid; touch $there/again; exec sleep 1000; }`)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := makePlace(ctx, o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	there := strings.TrimSuffix(o.Command, "/codex app-server")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = p.print(t.Context(), o) // nobody waits for it
	}()
	defer func() { cancel(); <-ended }()
	until := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(filepath.Join(there, "again")); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it does not begin")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if r := check(t, o); r.Unchecked != "" {
		t.Errorf("unchecked: %s", r.Unchecked)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("its process lives")
		_ = unix.Kill(pidIn(t, filepath.Join(there, "pid")), unix.SIGKILL)
	}
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A report holds until the command, the home or one of the programs changes.
func TestCurrent(t *testing.T) {
	o := scripted(t, "good")
	bin := strings.TrimSuffix(o.Command, " app-server")
	r := check(t, o)
	if !r.Current(o.Command, "") {
		t.Fatal("it does not hold for what it was got from")
	}
	if r.Current(o.Command+" -c a=b", "") || r.Current(o.Command, "/elsewhere") {
		t.Error("it holds for another command")
	}
	text, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	// As a package that is installed anew: of the same size, with the time of its content set back.
	info, err := os.Stat(bin)
	if err != nil {
		t.Fatal(err)
	}
	// Or even written anew in its place.
	if err := errors.Join(os.WriteFile(bin, text, 0o700), os.Chtimes(bin, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if r.Current(o.Command, "") {
		t.Error("it holds for a program that was written anew")
	}
	r = check(t, o)
	other := filepath.Join(t.TempDir(), "codex")
	text = []byte(strings.Replace(string(text), "0.200.0", "0.200.1", 1))
	if err := errors.Join(os.WriteFile(other, text, 0o700), os.Chtimes(other, info.ModTime(), info.ModTime()), os.Rename(other, bin)); err != nil {
		t.Fatal(err)
	}
	if r.Current(o.Command, "") {
		t.Error("it holds for another program at the same place")
	}
	if r = check(t, o); r.Version != "0.200.1" || !r.Current(o.Command, "") {
		t.Errorf("anew: %+v", r)
	}
	if err := os.Remove(bin); err != nil {
		t.Fatal(err)
	}
	if r.Current(o.Command, "") {
		t.Error("it holds for a program that is gone")
	}
}

// The program that a command starts may be found by the login shell alone.
func TestProgramOfTheProfile(t *testing.T) {
	o := scripted(t, "good")
	dir := strings.TrimSuffix(o.Command, "/codex app-server")
	if err := os.WriteFile(filepath.Join(dir, ".bash_profile"), []byte("echo welcome; PATH="+dir+":$PATH; cd /\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Command = "exec nice codex app-server -c a=b | cat"
	if r := check(t, o); r.Binary != filepath.Join(dir, "codex") || r.Version != "0.200.0" || r.Unchecked != "" || len(r.Programs) != 3 {
		t.Errorf("%+v", r)
	}
}

// A command of the workspace's can't be run elsewhere: it is let through, with a warning that is kept.
func TestCommandOfTheWorkspace(t *testing.T) {
	o := scripted(t, "good")
	o.Command = "./tools/codex app-server"
	if r := check(t, o); r.Absent || !strings.Contains(r.Unchecked, "./tools/codex") {
		t.Errorf("%+v", r)
	}
}

// A command that is not there says so when it is run.
func TestNoSuchCommand(t *testing.T) {
	o := scripted(t, "good")
	o.Command = "no-such-codex app-server"
	if r := check(t, o); !r.Absent || len(r.Warning()) > 0 || r.Err() != nil {
		t.Errorf("%+v", r)
	}
}
