package test

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noHome is a path at which there can be nothing, not even for root.
const noHome = "/dev/null/home"

// A test must not depend on the settings of whoever runs it, for instance on commit.gpgSign in
// ~/.gitconfig or on a list of ignored files. So the tests of every package that uses this
// package run without a home directory; a test that needs a home makes it.
func init() {
	if !slices.ContainsFunc(os.Args, isTestFlag) {
		return // a test started its own program as another, with a HOME for that
	}
	for name, value := range missing(goDirectories(), os.Getenv) {
		setenv(name, value)
	}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "GIT_CONFIG_GLOBAL"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	setenv("HOME", noHome)
}

func isTestFlag(arg string) bool { return strings.HasPrefix(arg, "-test.") }

// goDirectories are the directories of the go command that it would look for in the home
// directory: some tests build programs.
func goDirectories() map[string]string {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	cache := Must(os.UserCacheDir())
	config := Must(os.UserConfigDir())
	return map[string]string{
		"GOCACHE":        filepath.Join(cache, "go-build"),
		"GOENV":          filepath.Join(config, "go", "env"),
		"GOPATH":         filepath.Join(home, "go"),
		"XDG_CACHE_HOME": cache,
		"CARGO_HOME":     filepath.Join(home, ".cargo"),
		"RUSTUP_HOME":    filepath.Join(home, ".rustup"),
	}
}

// missing returns the directories that neither a variable of the environment nor a setting of
// go env -w names.
func missing(directories map[string]string, getenv func(string) string) map[string]string {
	// there may be no settings: GOENV=off names no file
	settings, _ := os.ReadFile(cmp.Or(getenv("GOENV"), directories["GOENV"]))
	left := maps.Clone(directories)
	for line := range strings.Lines(string(settings)) {
		name, _, _ := strings.Cut(line, "=")
		delete(left, name)
	}
	maps.DeleteFunc(left, func(name, _ string) bool { return getenv(name) != "" })
	return left
}

func setenv(name, value string) {
	if err := os.Setenv(name, value); err != nil {
		panic(err)
	}
}
