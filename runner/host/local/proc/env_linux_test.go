package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestScrub(t *testing.T) {
	env := []string{
		"PATH=/bin", "SYMPHONY_RUN_ID=r", "SYMPHONY_ISSUE_ID=1", "SYMPHONY_ISSUE_TITLE=a=b", "SYMPHONY_ATTEMPT=2",
		"SYMPHONY_WORKSPACE=/w", "SYMPHONY_OUTCOME=failed", "CODEX_THREAD_ID=t", "SYMPHONY_WORKFLOW=w", "LINEAR_API_KEY=k",
		"LINEAR_API_KEY_FILE=f", "odd", "HOME=/h",
	}
	before := slices.Clone(env)
	want := []string{"PATH=/bin", "SYMPHONY_WORKFLOW=w", "LINEAR_API_KEY_FILE=f", "odd", "HOME=/h"}
	if got := Scrub(env, "LINEAR_API_KEY", "NOT_THERE"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if !slices.Equal(env, before) {
		t.Error("it changed what it was given")
	}
	if got := Scrub(nil); got == nil || len(got) != 0 {
		t.Errorf("nothing became %v", got)
	}
}

func TestShellUnsetInALoginShell(t *testing.T) {
	for _, shell := range []string{"bash", "sh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Skip(err)
		}
		home := t.TempDir()
		profile := func(text string) {
			must(t, os.WriteFile(filepath.Join(home, ".profile"), []byte(text), 0o600))
		}
		sh := func(command string) (string, error) {
			cmd := exec.Command(path, "-lc", command)
			cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "KEY=inherited"}
			out, err := cmd.Output()
			return strings.TrimSpace(string(out)), err
		}
		profile("KEY=secret; export KEY TOKEN=secret2 OTHER=fine\nhello() { echo \"hello $1\"; }\n")
		if got, err := sh("echo $KEY"); got != "secret" || err != nil {
			t.Fatalf("%s: the profile is not read: %q, %v", shell, got, err)
		}
		command := "printenv KEY TOKEN OTHER; hello \"a  'b'\" # done\ncat <<E && hello $OTHER\nx\nE"
		want := "fine\nhello a  'b'\nx\nhello fine"
		if got, err := sh(ShellUnset([]string{"KEY", "TOKEN", "NOT_SET"}, command)); got != want || err != nil {
			t.Errorf("%s: %q, %v", shell, got, err)
		}
		if _, err := sh(ShellUnset([]string{"KEY"}, "exit 5")); err == nil || err.Error() != "exit status 5" {
			t.Errorf("%s: exit status: %v", shell, err)
		}
		profile("KEY=secret; export KEY; readonly KEY\n")
		if got, err := sh(ShellUnset([]string{"KEY"}, "printenv")); got != "" || err == nil {
			t.Errorf("%s: ran with a secret that can't be unset: %q", shell, got)
		}
	}
}

func TestShellIn(t *testing.T) {
	for _, shell := range []string{"bash", "sh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Skip(err)
		}
		home, dir := t.TempDir(), filepath.Join(t.TempDir(), "-it's $HOME")
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(home, ".profile"), []byte("cd() { command cd /; }; CDPATH=/; cd /usr\n"), 0o600))
		run := func(dir string) (string, error) {
			cmd := exec.Command(path, "-lc", ShellIn(dir, "pwd"))
			cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
			out, err := cmd.Output()
			return string(out), err
		}
		if out, err := run(dir); out != dir+"\n" || err != nil {
			t.Errorf("%s ran in %q, %v", shell, out, err)
		}
		if out, err := run("/nowhere"); out != "" || err == nil || err.Error() != "exit status 78" {
			t.Errorf("%s, no such directory: %q, %v", shell, out, err)
		}
	}
}

func TestShellReport(t *testing.T) {
	for _, shell := range []string{"bash", "sh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Skip(err)
		}
		home, mark := t.TempDir(), filepath.Join(t.TempDir(), "it's there")
		run := func(profile, mark string) (string, error) {
			must(t, os.WriteFile(filepath.Join(home, ".profile"), []byte(profile), 0o600))
			cmd := exec.Command(path, "-lc", ShellReport([]string{"KEY", "A-B", "TOKEN"}, mark, "echo ran"))
			cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
			out, err := cmd.Output()
			return string(out), err
		}
		there := func() bool { _, err := os.Lstat(mark); return err == nil }
		if out, err := run("OTHER=x\n", mark); out != "ran\n" || err != nil || there() {
			t.Errorf("%s, no key in the profile: %q, %v, reported %v", shell, out, err, there())
		}
		for range 2 { // also where the file is there and the profile forbids to write over files
			if out, err := run("set -C; export TOKEN=\n", mark); out != "ran\n" || err != nil || !there() {
				t.Errorf("%s, a key in the profile: %q, %v, reported %v", shell, out, err, there())
			}
		}
		if out, err := run("KEY=k\n", "/nowhere/at/all"); out != "" || err == nil {
			t.Errorf("%s, no report possible: %q, %v", shell, out, err)
		}
	}
}
