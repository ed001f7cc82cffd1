package git

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// Obeyed finds the files that git obeys with an address: see host.Local. If git can't answer,
// because a repository or a setting is broken, it would not obey either, and only the path
// itself needs a guard.
func Obeyed(ctx context.Context, q host.ObeyedRequest) (o []string, err error) {
	g := operatorsGit{env: q.Env, home: q.Home}
	if q.Address == "" {
		g.addSettings(ctx, &o, "/")
		return o, ctx.Err()
	}
	for _, path := range localPaths(q.Address, g.realAddress(ctx, q.Address)) {
		found := g.addRepository(ctx, &o, path)
		if !found { // git looks there next
			found = g.addRepository(ctx, &o, path+".git")
		}
		if !found {
			o = append(o, path, path+".git")
		}
	}
	return o, ctx.Err()
}

// operatorsGit is git with the operator's environment and settings.
type operatorsGit struct {
	env  []string
	home string
}

// answer returns the output of git in a directory, without the line feed at its end; false if
// it fails.
func (g operatorsGit) answer(ctx context.Context, dir string, args ...string) (string, bool) {
	words := append([]string{"-c", "safe.directory=*"}, args...)
	cmd := gitcmd.Command(ctx, dir, gitcmd.AsConfigured, g.env, words...)
	out, err := gitcmd.Output(cmd, gitcmd.NoLimit)
	return strings.TrimSuffix(out, "\n"), err == nil
}

// realAddress applies the settings url.<base>.insteadOf to an address.
func (g operatorsGit) realAddress(ctx context.Context, address string) string {
	real, ok := g.answer(ctx, "/", "ls-remote", "--get-url", "--", address)
	if !ok {
		return address
	}
	return real
}

// localPaths returns the paths of this machine that addresses name: /a/path, and
// file:///a/path.
func localPaths(addresses ...string) (paths []string) {
	const scheme = "file://"
	for _, address := range addresses {
		if filepath.IsAbs(address) {
			paths = append(paths, filepath.Clean(address))
			continue
		}
		if len(address) < len(scheme) || !strings.EqualFold(address[:len(scheme)], scheme) {
			continue
		}
		_, path, _ := strings.Cut(address[len(scheme):], "/") // after the host, which git ignores
		decoded, err := url.PathUnescape("/" + path)
		if err != nil {
			decoded = "/" + path
		}
		paths = append(paths, filepath.Clean(decoded))
	}
	return paths
}

// addRepository adds the git directories of a repository, including the main repository of a
// linked worktree, its hooks and its settings. It returns false if git finds no repository
// there.
func (g operatorsGit) addRepository(ctx context.Context, o *[]string, path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	above := "GIT_CEILING_DIRECTORIES=" + filepath.Dir(path) // the repository is here, not above
	here := operatorsGit{env: append(append([]string{}, g.env...), above), home: g.home}
	out, ok := here.answer(ctx, path, "rev-parse", "--git-dir", "--git-common-dir", "--git-path", "hooks")
	if !ok {
		return false
	}
	for line := range strings.SplitSeq(out, "\n") {
		*o = append(*o, absolute(path, line))
	}
	dotGit := filepath.Join(path, ".git")
	if exists(dotGit) { // a file in a linked worktree
		*o = append(*o, dotGit)
	}
	here.addSettings(ctx, o, path)
	return true
}

// addSettings adds the files with git's settings for a directory, including files that do not
// exist yet.
func (g operatorsGit) addSettings(ctx context.Context, o *[]string, dir string) {
	out, ok := g.answer(ctx, dir, "config", "--list", "--show-origin", "-z")
	if !ok {
		return
	}
	parts := strings.Split(out, "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		origin, isFile := strings.CutPrefix(parts[i], "file:")
		if isFile {
			origin = absolute(dir, origin)
			*o = append(*o, origin)
		}
		g.addSetting(ctx, o, obeyedSetting{dir: dir, origin: origin, text: parts[i+1]})
	}
}

// obeyedSetting is a setting as git config lists it.
type obeyedSetting struct {
	dir    string // the directory in which git works
	origin string // the file that contains it
	text   string // the name and the value, in two lines
	depth  int    // length of the chain of includes that leads to it
}

// mostIncludes is how deep files with settings may include each other. Git allows as many.
const mostIncludes = 10

// addSetting adds the value of a setting, and the directories and files with more settings
// that it names.
func (g operatorsGit) addSetting(ctx context.Context, o *[]string, s obeyedSetting) {
	name, value, _ := strings.Cut(s.text, "\n")
	name = strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "include") && strings.HasSuffix(name, ".path"):
		file := absolute(filepath.Dir(s.origin), g.expand(value))
		*o = append(*o, file)
		if s.depth > 0 || strings.HasPrefix(name, "includeif.") {
			g.addIncluded(ctx, o, s, file)
		}
	case name == "core.hookspath", name == "init.templatedir":
		*o = append(*o, absolute(s.dir, g.expand(value)))
	}
}

// addIncluded adds the settings of a file whether or not its condition is true in this
// directory: it may be true in another directory.
func (g operatorsGit) addIncluded(ctx context.Context, o *[]string, by obeyedSetting, file string) {
	if by.depth == mostIncludes || !exists(file) {
		return
	}
	out, ok := g.answer(ctx, "/", "config", "--file", file, "--list", "-z")
	if !ok {
		return
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		g.addSetting(ctx, o, obeyedSetting{
			dir:    by.dir,
			origin: file,
			text:   text,
			depth:  by.depth + 1,
		})
	}
}

// expand replaces ~/ as git does.
func (g operatorsGit) expand(path string) string {
	if rest, found := strings.CutPrefix(path, "~/"); found {
		return filepath.Join(g.home, rest)
	}
	return path
}
