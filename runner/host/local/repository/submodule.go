package repository

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// submodule is a path of a commit at which git keeps the commit of another repository. Its
// files are in that repository alone.
type submodule struct {
	path, commit string
	was          string // its commit before, where two commits are compared; empty for none
	name, url    string // in .gitmodules; empty without an entry there
}

// mostSubmodules is how many submodules a delivery examines. An agent can write any number.
const mostSubmodules = 100

// checkSubmodules returns an error if a clone of the pushed commits, with its submodules,
// would lack files: git init in a folder and git add make a submodule that nobody can fetch.
func (d *delivery) checkSubmodules(ctx context.Context) error {
	list, err := d.changedSubmodules(ctx)
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "list the submodules", err)
	}
	if len(list) > mostSubmodules {
		return incomplete(
			fmt.Sprintf("the commits change more than %d submodules", mostSubmodules),
			"deliver fewer of them at once",
		)
	}
	for _, s := range list {
		if err := d.checkSubmodule(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// checkSubmodule returns an error unless the commit of a submodule is on a branch of its
// remote.
func (d *delivery) checkSubmodule(ctx context.Context, s submodule) error {
	shown := text.Visible(text.Within(s.path, maxShown))
	if s.url == "" {
		return incomplete(
			shown+" is a git repository of its own, without a file in the commit",
			fmt.Sprintf("to commit its files, remove %s, run git rm --cached %s and git add %[2]s, "+
				"and commit again", text.ShellQuote(shown+"/.git"), text.ShellQuote(shown)),
		)
	}
	address, err := d.addressOf(s.url)
	if err != nil {
		from := text.Visible(text.Within(s.url, maxShown))
		return incomplete(
			fmt.Sprintf("the submodule %s comes from %s: %v", shown, from, err),
			"take it from the host of the repository",
		)
	}
	m := d.mirrorOf(address)
	if _, err := m.current(ctx); err != nil {
		return d.failed(host.CodeDeliveryFailed, "look for the commit of the submodule "+shown, err)
	}
	known, err := m.has(ctx, s.commit)
	if err != nil {
		return d.failed(host.CodeDeliveryFailed, "look for the commit of the submodule "+shown, err)
	}
	if known {
		return nil
	}
	return incomplete(
		fmt.Sprintf("the submodule %s is at commit %.12s, which is on no branch of %s",
			shown, s.commit, m.Address()),
		"use a commit that is there; only a person can push there",
	)
}

// deepestSubmodule is how deep submodules may be nested.
const deepestSubmodule = 5

// addSubmodules fills the submodules of a work tree, and the submodules of these. It reads the
// commit of the work tree from the mirror and, unless objects is empty, from that directory
// with git objects. It puts each repository where git submodule would, such as
// .git/modules/lib. It does not run git submodule, because an agent may have written
// .gitmodules.
func (m *Mirror) addSubmodules(ctx context.Context, tree, gitDir, commit, objects string, depth int) error {
	var list []submodule
	cmd := withObjects(m.localGit(ctx, "ls-tree", "-r", "-z", "--full-tree", commit), objects)
	cmd.Stdout = git.EachEntry(func(entry string) {
		about, at, _ := strings.Cut(entry, "\t")
		words := strings.Fields(about) // 160000 commit ID
		if len(words) == 3 && words[0] == "160000" && len(list) <= mostSubmodules {
			list = append(list, submodule{path: at, commit: words[2]})
		}
	})
	if err := m.run(cmd); err != nil {
		return err
	}
	list, err := m.withModules(ctx, commit, objects, list)
	if err != nil {
		return err
	}
	if len(list) > mostSubmodules || len(list) > 0 && depth == deepestSubmodule {
		const limits = "there are too many submodules: at most %d, and %d deep"
		return fmt.Errorf(limits, mostSubmodules, deepestSubmodule)
	}
	for _, s := range list {
		if s.url == "" { // a clone of git's leaves it empty, too
			continue
		}
		if err := m.addSubmodule(ctx, tree, gitDir, s, depth); err != nil {
			return s.failed(err)
		}
	}
	return nil
}

// addSubmodule fills a submodule.
func (m *Mirror) addSubmodule(ctx context.Context, tree, gitDir string, s submodule, depth int) error {
	address, err := m.addressOf(s.url)
	if err != nil {
		return err
	}
	if err := s.check(tree, gitDir); err != nil {
		return err
	}
	at := filepath.Join(tree, s.path)
	own := s.gitDir(gitDir)
	from := m.mirrorOf(address)
	if _, err := from.current(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		return err
	}
	clone := m.command(
		ctx, gitcmd.Nobody, "clone", "--quiet", "--shared", "--no-checkout", "--template=",
		"--separate-git-dir="+own, "--", from.path, at,
	)
	clone.Env = append(clone.Env, "GIT_ALLOW_PROTOCOL=file")
	remote := m.command(ctx, gitcmd.Nobody, "config", "remote.origin.url", from.Address())
	unsigned := m.command(ctx, gitcmd.Nobody, "config", "commit.gpgSign", "false")
	checkOut := m.command(ctx, gitcmd.Operator, "checkout", "--quiet", "--detach", s.commit)
	known := m.command(ctx, gitcmd.Nobody, "config", "submodule."+s.name+".url", from.Address())
	steps := []*exec.Cmd{
		clone,
		withDir(remote, own, at),
		withDir(unsigned, own, at),
		withDir(checkOut, own, at),
		withDir(known, gitDir, ""),
	}
	for _, step := range steps {
		if err := m.run(step); err != nil {
			return err
		}
	}
	return from.addSubmodules(ctx, at, own, s.commit, "", depth+1)
}

// gitDir is the git directory of a submodule, given the git directory of its parent.
func (s submodule) gitDir(of string) string { return filepath.Join(of, "modules", s.name) }

// failed adds the submodule to an error; the code and the next step stay.
func (s submodule) failed(err error) error {
	shown := text.Visible(text.Within(s.path, maxShown))
	known, isKnown := errors.AsType[*reconcile.Error](err)
	if !isKnown {
		return fmt.Errorf("the submodule %s: %w", shown, err)
	}
	return &reconcile.Error{
		Code:    known.Code,
		Message: "the submodule " + shown + ": " + known.Message,
		Hint:    known.Hint,
		Err:     err,
	}
}

// check returns an error if something of a submodule would be outside the work tree or the git
// directory.
func (s submodule) check(tree, gitDir string) error {
	if !filepath.IsLocal(s.name) || strings.HasPrefix(s.name, "-") || filepath.Clean(s.name) == "." {
		return errors.New("its name is no path")
	}
	if !filepath.IsLocal(s.path) {
		return errors.New("its path leads out of the work tree")
	}
	inTree := leadsThroughLink(tree, s.path)
	inGitDir := leadsThroughLink(gitDir, filepath.Join("modules", s.name)) ||
		leadsThroughLink(gitDir, "config")
	if inTree || inGitDir {
		return errors.New("its path leads through a link")
	}
	return nil
}

// leadsThroughLink reports whether a path in a directory contains a link, as far as it exists.
func leadsThroughLink(dir, path string) bool {
	for at := path; at != "."; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(dir, at))
		if err == nil && info.Mode()&os.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// maxShown is how many bytes of an agent's path or address a message contains.
const maxShown = 200

func incomplete(message, hint string) error {
	return reconcile.NewError(host.CodeIncomplete, message, hint)
}

// changedSubmodules lists the submodules of the commit that the base does not have at the same
// commit.
func (d *delivery) changedSubmodules(ctx context.Context) ([]submodule, error) {
	return d.submodulesSince(ctx, "refs/heads/"+d.base, d.Commit, "")
}

// submodulesSince lists the submodules of a commit that an earlier commit does not contain at
// the same commit, at most 1 more than the limit. See addSubmodules for objects.
func (m *Mirror) submodulesSince(
	ctx context.Context,
	earlier, commit, objects string,
) (list []submodule, err error) {
	cmd := m.localGit(
		ctx, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", earlier, commit, "--",
	)
	cmd = withObjects(cmd, objects)
	var change []string // the fields before a path: :000000 160000 OLD NEW A
	cmd.Stdout = git.EachEntry(func(entry string) {
		if change == nil {
			change = strings.Fields(entry)
			return
		}
		if len(change) == 5 && change[1] == "160000" && len(list) <= mostSubmodules {
			s := submodule{path: entry, commit: change[3]}
			if change[0] == ":160000" {
				s.was = change[2]
			}
			list = append(list, s)
		}
		change = nil
	})
	if err := m.run(cmd); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, nil
	}
	return m.withModules(ctx, commit, objects, list)
}

// withModules adds the settings of submodules in .gitmodules of a commit. See addSubmodules
// for objects.
func (m *Mirror) withModules(
	ctx context.Context,
	commit, objects string,
	list []submodule,
) ([]submodule, error) {
	file := commit + ":.gitmodules"
	isThere, err := m.says(withObjects(m.localGit(ctx, "rev-parse", "--verify", "--quiet", file), objects))
	if err != nil {
		return nil, err
	}
	if !isThere {
		return list, nil
	}
	cmd := m.localGit(
		ctx, "config", "--blob", file, "--no-includes", "-z", "--get-regexp", `^submodule\..*\.(path|url)$`,
	)
	cmd = withObjects(cmd, objects)
	cmd.Env = append(cmd.Env, allocLimit)
	out, err := m.output(cmd)
	if gitcmd.Exited(err) {
		return list, nil // a file that git can't read has no entry for anyone
	}
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // by path
	urls := map[string]string{}  // by name
	for entry := range strings.SplitSeq(out, "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		key = strings.TrimPrefix(key, "submodule.")
		if name, is := strings.CutSuffix(key, ".path"); is {
			names[strings.TrimSuffix(value, "/")] = name
		}
		if name, is := strings.CutSuffix(key, ".url"); is {
			urls[name] = value
		}
	}
	for i, s := range list {
		list[i].name = names[s.path]
		list[i].url = urls[list[i].name]
	}
	return list, nil
}

// mirrorOf returns the mirror of a submodule, given its address from addressOf.
func (m *Mirror) mirrorOf(address string) *Mirror {
	protocol, _ := hostOf(address)
	if filepath.IsAbs(address) {
		protocol = "file"
	}
	env := append(slices.Clone(m.env), "GIT_ALLOW_PROTOCOL="+protocol)
	return New(filepath.Dir(m.path), host.Repository{URL: address}, env, m.inherit)
}

// addressOf returns the address of a submodule. An agent may have written it, and git reaches
// it with the operator's credentials. So it must be on the host of the repository. For a
// repository on this machine, it may be in the same directory.
func (m *Mirror) addressOf(written string) (string, error) {
	if strings.ContainsFunc(written, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("the address contains control characters")
	}
	address := written
	if strings.HasPrefix(written, "./") || strings.HasPrefix(written, "../") {
		address = relativeTo(m.remote.URL, written)
	}
	if beside := m.localDir(); beside != "" {
		dir := filepath.Clean(strings.TrimPrefix(address, "file://"))
		if filepath.IsAbs(dir) && paths.Inside(filepath.Dir(beside), dir) {
			return dir, nil
		}
	}
	scheme, name := hostOf(address)
	ownScheme, own := hostOf(m.remote.URL)
	switch {
	case remoteHelper().MatchString(address), scheme != "https" && scheme != "ssh" && scheme != ownScheme:
		return "", errors.New("it is neither https nor ssh")
	case name == "":
		return "", errors.New("the address has no host")
	case name == own:
		return address, nil
	}
	return "", errors.New("it is on another host than the repository")
}

// remoteHelper matches an address that makes git start a program, such as ext::COMMAND.
var remoteHelper = text.Pattern(`^[\w.+-]*::`)

// hostOf returns the scheme and the host of an address, with its port, if any, for instance
// ssh and example.com for git@example.com:team/app. It returns no host where git and ssh read
// more into an address: to both, a@here:b@[there]:app is on the host there.
func hostOf(address string) (scheme, name string) {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Scheme, strings.ToLower(u.Host)
	}
	where, _, scp := strings.Cut(address, ":")
	if !scp || strings.Contains(where, "/") {
		return "", ""
	}
	if strings.ContainsAny(address, "[]") || strings.Count(address, "@") > 1 {
		return "", ""
	}
	_, name, named := strings.Cut(where, "@")
	if !named {
		name = where
	}
	return "ssh", strings.ToLower(name)
}

// relativeTo resolves a relative address in a repository: ../lib is https://host/team/lib in
// https://host/team/app.
func relativeTo(repository, relative string) string {
	base := strings.TrimSuffix(repository, "/")
	for {
		if rest, is := strings.CutPrefix(relative, "./"); is {
			relative = rest
			continue
		}
		rest, is := strings.CutPrefix(relative, "../")
		if !is {
			break
		}
		relative = rest
		if at := strings.LastIndexAny(base, "/:"); at >= 0 {
			base = base[:at+1]
			base = strings.TrimSuffix(base, "/")
		}
	}
	if strings.HasSuffix(base, ":") {
		return base + path.Clean(relative)
	}
	return base + "/" + path.Clean(relative)
}
