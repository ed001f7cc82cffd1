package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
)

// Prepare returns the command line of bubblewrap for a box on this machine, without its name.
//
// The process must be started by a goroutine that is not locked to its thread: bubblewrap ends
// with the thread that started it, and a locked thread ends with its goroutine.
func Prepare(b Box) ([]string, error) {
	if err := b.refuseLinks(); err != nil {
		return nil, err
	}
	l, err := readLayout()
	if err != nil {
		return nil, err
	}
	l.Empty, err = withoutLinks(slices.Concat(b.Agents, b.Private))
	if err != nil {
		return nil, err
	}
	l.Secret, err = existingSecrets(b.Secret)
	if err != nil {
		return nil, err
	}
	l.Real, err = realPaths(b.Readable)
	if err != nil {
		return nil, err
	}
	return b.Arguments(l)
}

// refuseLinks refuses a box in which an agent decides where a path leads.
func (b Box) refuseLinks() error {
	agents, err := b.agentPlaces()
	if err != nil {
		return err
	}
	for i, dir := range b.writable() {
		if !agents[i].Exists {
			return fmt.Errorf("a directory of the sandbox: %s is missing", dir)
		}
		if agents[i].Path != dir {
			return fmt.Errorf("the sandbox can't have %s to write: it leads to %s", dir, agents[i].Path)
		}
	}
	for _, path := range b.shown() {
		if err := refuseLink(path, agents); err != nil {
			return err
		}
	}
	shared, err := withoutLinks(b.Shared)
	if err != nil {
		return err
	}
	if len(shared) < len(b.Shared) {
		return fmt.Errorf("the sandbox lacks a directory: one of %s", strings.Join(b.Shared, ", "))
	}
	return nil
}

// withoutLinks returns the directories that exist. It refuses those that lead through links: a
// mask has to be where the directory is, and nothing in a directory of agents may lead
// elsewhere.
func withoutLinks(dirs []string) ([]string, error) {
	var exist []string
	for _, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("a directory for the sandbox: %w", err)
		}
		if real != dir {
			return nil, fmt.Errorf("the sandbox can't show or hide %s: it leads to %s", dir, real)
		}
		exist = append(exist, dir)
	}
	return exist, nil
}

// existingSecrets returns where secrets are without links, outer ones first.
func existingSecrets(list []string) ([]Hidden, error) {
	var secrets []Hidden
	for _, path := range list {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) {
			continue // there is nothing, or the agent can't read it either
		}
		if err != nil {
			return nil, fmt.Errorf("a secret of the sandbox: %w", err)
		}
		info, err := os.Stat(real)
		if err != nil {
			return nil, fmt.Errorf("a secret of the sandbox: %w", err)
		}
		secrets = append(secrets, Hidden{Path: real, Dir: info.IsDir()})
	}
	slices.SortFunc(secrets, func(a, b Hidden) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(secrets), nil
}

// agentPlaces returns the directories in which agents write, first those of the box.
func (b Box) agentPlaces() ([]paths.Place, error) {
	var places []paths.Place
	for _, dir := range append(b.writable(), b.Agents...) {
		place, err := paths.Find(dir)
		if err != nil {
			return nil, fmt.Errorf("a directory of the sandbox: %w", err)
		}
		places = append(places, place)
	}
	return places, nil
}

// refuseLink refuses a path in a directory that agents write, and a path that leads through
// one.
func refuseLink(path string, agents []paths.Place) error {
	place, err := paths.Find(path)
	if err != nil {
		return fmt.Errorf("where %s leads: %w", path, err)
	}
	for _, dir := range agents {
		for _, passed := range append(place.Links, place) {
			if passed.Inside(dir) {
				return inWritable(path, dir.Path)
			}
		}
	}
	return nil
}

// realPaths returns those of the paths that lead through links.
func realPaths(list []string) ([]Link, error) {
	var links []Link
	for _, path := range list {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, fmt.Errorf("a directory of the sandbox: %w", err)
		}
		if real != path {
			links = append(links, Link{path, real})
		}
	}
	return links, nil
}

// shownIfThere are directories of programs. On most systems those below / lead into /usr.
var shownIfThere = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store",
	"/var/lib/ca-certificates", // of SUSE, to which /etc/ssl leads
}

// readLayout looks at the directories of this machine that every sandbox shows.
func readLayout() (Layout, error) {
	var l Layout
	for _, path := range shownIfThere {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return l, fmt.Errorf("directories of programs: %w", err)
		}
		if info.Mode().Type() != fs.ModeSymlink {
			l.Shown = append(l.Shown, path)
			continue
		}
		to, err := os.Readlink(path)
		if err != nil {
			return l, fmt.Errorf("directories of programs: %w", err)
		}
		l.Links = append(l.Links, Link{path, to})
	}
	public, _, err := publicParts("/etc")
	if err != nil {
		return l, fmt.Errorf("look for secrets: %w", err)
	}
	l.Settings = text.Filter(public.Settings, isNamed)
	l.Links = append(l.Links, public.Links...)
	resolver, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err == nil && paths.Inside("/run", resolver) {
		l.Resolver = resolver
	}
	return l, nil
}

// namedSettings are what programs look for in /etc, of which nothing else is shown: a secret could
// be put there during a run. Each takes 0.2 ms of the start of a box.
var namedSettings = strings.Fields(`*-release R alternatives bash* ca-certificates* crypto-policies debian_version
	environment fonts gai.conf gitattributes gitconfig group host.conf hostname hosts inputrc java* jvm* ld.so.*
	locale* localtime login.defs machine-id magic* maven mime.types networks npmrc nsswitch.conf passwd perl
	php* pip.conf pki profile profile.d protocols python* resolv.conf rpc ruby* services shells ssl terminfo texmf
	timezone xdg zsh*`)

// isNamed reports whether a path below /etc is one of namedSettings, or below one.
func isNamed(name string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(name, "/etc/"), "/")
	return slices.ContainsFunc(namedSettings, func(pattern string) bool {
		matches, _ := filepath.Match(pattern, first) // the patterns are valid
		return matches
	})
}

// publicParts returns the Settings and Links below dir without secrets, which is what this account
// may read and not every account, such as /etc/shadow if this is root. To show dir with masks is
// not enough, because a mask falls off when its file is replaced by another one, as passwd does.
// whole reports that dir has no secret at all.
func publicParts(dir string) (parts Layout, whole bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return parts, true, nil // removed since, or closed to the agent, too
	}
	if err != nil {
		return parts, false, err
	}
	whole = true
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return parts, false, err
		}
		mode := info.Mode()
		switch {
		case mode.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err == nil {
				parts.Links = append(parts.Links, Link{path, to})
			}
		case mode.IsDir() && mode.Perm()&0o005 == 0o005:
			below, isWhole, err := publicParts(path)
			if err != nil {
				return parts, false, err
			}
			whole = whole && isWhole
			if isWhole {
				parts.Settings = append(parts.Settings, path)
				continue
			}
			parts.Settings = append(parts.Settings, below.Settings...)
			parts.Links = append(parts.Links, below.Links...)
		case mode.IsDir() || mode.Perm()&0o004 == 0:
			// without capabilities, because it is its own
			isSecret := unix.Access(path, unix.R_OK) == nil || mode.IsDir() && unix.Access(path, unix.X_OK) == nil
			whole = whole && !isSecret
		default:
			parts.Settings = append(parts.Settings, path)
		}
	}
	return parts, whole, nil
}

// besideBin are directories in which programs of a directory called bin find their parts: node
// of /home/me/node/bin in /home/me/node/lib. Others may contain anything: /home/me/.local/share
// has keyrings, and what is beside /home/me/bin is the account's own.
var besideBin = []string{"lib", "lib64", "libexec"}

// ProgramDirs returns the directories that a box has to show so that programs can run: those of
// a PATH outside of the directories that every box shows, and of the files to which the names
// of the programs lead. home is the home of the account, of which no directory above is shown.
func ProgramDirs(path, home string, programs ...string) ([]string, error) {
	var dirs []string
	homePlace, err := paths.Find(home)
	if err != nil {
		return nil, fmt.Errorf("find the home directory: %w", err)
	}
	// What is in the home is hidden, also below a directory that every box shows.
	isOpen := func(dir string) bool { return isShown(dir) && !paths.Inside(home, dir) }
	add := func(dir string) error {
		real, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // as a shell passes over it
		}
		if err != nil {
			return fmt.Errorf("a directory of programs: %w", err)
		}
		switch {
		case real == "/" || paths.Inside(real, home):
		case !isOpen(dir): // also if it leads into one that is: /home/me/.nix-profile/bin
			dirs = append(dirs, dir)
		case !isOpen(real): // the link is there
			dirs = append(dirs, real)
		}
		return nil
	}
	addBin := func(dir string) error {
		if err := add(dir); err != nil {
			return err
		}
		parent, err := paths.Find(filepath.Dir(dir)) // which may be closed to the account
		isApart := err == nil && !homePlace.Inside(parent)
		if filepath.Base(dir) != "bin" || !isApart {
			return nil
		}
		for _, name := range besideBin {
			if err := add(filepath.Join(filepath.Dir(dir), name)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if err := addBin(filepath.Clean(dir)); err != nil {
			return nil, err
		}
	}
	for _, program := range programs {
		if err := addBin(filepath.Dir(program)); err != nil {
			return nil, err
		}
		file, err := filepath.EvalSymlinks(program)
		if err != nil {
			return nil, fmt.Errorf("a program for the sandbox: %w", err)
		}
		if err := addBin(packageOf(file)); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// isShown reports whether every box shows a directory.
func isShown(dir string) bool {
	for _, shown := range append([]string{"/etc"}, shownIfThere...) {
		if paths.Inside(shown, dir) {
			return true
		}
	}
	return false
}

// packageOf returns the directory with everything that belongs to a program. A package of npm
// finds others in the outermost node_modules.
func packageOf(file string) string {
	before, _, isPackage := strings.Cut(file, "/node_modules/")
	if isPackage {
		return before + "/node_modules"
	}
	return filepath.Dir(file)
}
