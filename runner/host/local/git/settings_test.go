package git

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// Unsaved work, the state of the repository and the agent's own git status agree on files that
// the account ignores everywhere.
func TestReadSettings(t *testing.T) {
	dir := realTemp(t)
	clone(t, filepath.Join(dir, "ws"))
	home := filepath.Join(dir, "home")
	test.Write(t, filepath.Join(home, ".config", "git", "ignore"), ".DS_Store\n")
	test.Write(t, filepath.Join(home, "patterns"), "__pycache__/\n")
	test.Write(t, filepath.Join(home, "gitconfig"), "[core]\n\texcludesFile = ~/patterns\n")
	test.Write(t, filepath.Join(dir, "ws", ".DS_Store"), "x")
	test.Write(t, filepath.Join(dir, "ws", "__pycache__", "a.pyc"), "x")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1"}
	for _, c := range []struct {
		name, setting, file, unsaved string
	}{
		{"git's default", "", ".config/git/ignore", "1 commit not on any remote, 1 change not committed"},
		{
			"XDG_CONFIG_HOME", "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), ".config/git/ignore",
			"1 commit not on any remote, 1 change not committed",
		},
		{
			"core.excludesFile", "GIT_CONFIG_GLOBAL=" + filepath.Join(home, "gitconfig"), "patterns",
			"1 commit not on any remote, 1 change not committed",
		},
		{
			"no such file", "XDG_CONFIG_HOME=" + filepath.Join(home, "none"), "",
			"1 commit not on any remote, 2 changes not committed",
		},
	} {
		account := test.Must(ReadSettings(t.Context(), filepath.Join(dir, "ws"), append(env, c.setting))).AccountFiles
		want := ""
		if c.file != "" {
			want = filepath.Join(home, c.file)
		}
		test.Equal(t, c.name, account.Ignored, want)
		work, _ := Unsaved(t.Context(), filepath.Join(dir, "ws"), "", "", account)
		test.Equal(t, c.name+": unsaved work", work, c.unsaved)
		status, _, _, err := Inspect(t.Context(), filepath.Join(dir, "ws"), Clone{
			Origin:       host.Origin{},
			AccountFiles: account,
		}, 0)
		test.OK(t, err)
		test.Equal(
			t,
			c.name+": show",
			status.Count == 1,
			c.unsaved == "1 commit not on any remote, 1 change not committed",
		)
	}
}

// The account's attributes decide what is a change, as for the agent's git: with eol=crlf a file
// whose lines end like that is as committed.
func TestAttributesOfAccount(t *testing.T) {
	dir := realTemp(t)
	ws := filepath.Join(dir, "ws")
	clone(t, ws)
	attributes := filepath.Join(dir, ".config", "git", "attributes")
	test.Write(t, attributes, "*.txt text eol=crlf\n")
	sh(t, ws, `printf 'a\r\n' > a.txt; git config core.attributesFile `+attributes+`
		git add .; git commit -qm work; git config --unset core.attributesFile; touch -d yesterday a.txt`)
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	account := test.Must(ReadSettings(t.Context(), ws, env)).AccountFiles
	work, _ := Unsaved(t.Context(), ws, "", "", account)
	test.Equal(t, "with the attributes", work, "2 commits not on any remote")
	work, _ = Unsaved(t.Context(), ws, "", "", AccountFiles{})
	test.Equal(t, "without them", work, "2 commits not on any remote, 1 change not committed")
}

// What a repository says of its hooks counts, because git in hooks obeys it. What it says of
// ignored files does not: an agent could hide its work.
func TestReadSettingsOfRepository(t *testing.T) {
	dir := realTemp(t)
	ws := filepath.Join(dir, "ws")
	clone(t, ws)
	sh(t, ws, "git config core.hooksPath "+dir+"/hooks; git config core.excludesFile "+dir+"/hide")
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	settings := test.Must(ReadSettings(t.Context(), ws, env))
	test.Equal(t, "hooks", settings.HooksPath, filepath.Join(dir, "hooks"))
	test.Equal(t, "ignored", settings.Ignored, "")
}

// A git that was killed has not said that hooks are nowhere else, nor has one that is too old
// for the question.
func TestReadSettingsOfFailedGit(t *testing.T) {
	for last, want := range map[string]string{
		"kill -9 $$": "signal: killed",
		"exit 129":   "2.31 or newer",
	} {
		bin := t.TempDir()
		script := "#!/bin/sh\n" + last + "\n"
		test.OK(t, os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o700)) //nolint:gosec // a program
		t.Setenv("PATH", bin)
		_, err := ReadSettings(t.Context(), bin, []string{"PATH=" + bin})
		test.Contains(t, "error", fmt.Sprint(err), "read core.hooksPath", want)
	}
}
