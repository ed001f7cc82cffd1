package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/paths"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// setting is an entry of a git configuration file. Section and name are in lower case.
type setting struct {
	section, sub, name string
	value              string
}

// key returns the setting's name in git's notation.
func (s setting) key() string {
	if s.sub == "" {
		return s.section + "." + s.name
	}
	return s.section + "." + s.sub + "." + s.name
}

// String returns the setting's name for messages, without parts that may contain a password.
func (s setting) String() string {
	if s.sub != "" && slices.Contains([]string{"credential", "http", "lfs", "url"}, s.section) {
		s.sub = "*"
	}
	s.sub = text.Within(s.sub, 60)
	return s.key()
}

// errNoConfig: git can't read a configuration, or git is missing.
var errNoConfig = errors.New("it can't be read as configuration")

// gitConfig runs git config on a single file, or on stdin for "-", without any repository,
// other configuration or include.
func gitConfig(ctx context.Context, stdin []byte, file string, args ...string) (string, error) {
	cmd := plainGit(ctx, "/", append([]string{"config", "--file", file, "--no-includes"}, args...)...)
	cmd.Env = append(cmd.Env, "GIT_DIR=/dev/null")
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := gitcmd.Output(cmd, maxMemory)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoConfig, err)
	}
	return out, nil
}

func parseConfig(ctx context.Context, data []byte) (list []setting, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	out, err := gitConfig(ctx, data, "-", "--list", "-z")
	if err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(out, "\x00") {
		key, value, valued := strings.Cut(line, "\n")
		if key == "" {
			continue
		}
		if !valued {
			value = "true"
		}
		first := strings.Index(key, ".")
		last := strings.LastIndex(key, ".")
		// A subsection with an empty name differs from the section itself, and no tool writes
		// it.
		if first < 0 || last == first+1 {
			return nil, fmt.Errorf("%w: the key %.60q", errNoConfig, key)
		}
		s := setting{section: key[:first], name: key[last+1:], value: value}
		if last > first {
			s.sub = key[first+1 : last]
		}
		list = append(list, s)
	}
	return list, nil
}

// settleConfig returns the trusted configuration was, plus the added settings of now that an
// agent may make. changed names the settings that were changed back, or name if the file can't
// be read. If it is empty, now may stay as it is.
func settleConfig(
	ctx context.Context,
	now, was []byte,
	name string,
) (result []byte, changed []string, err error) {
	have, err := parseConfig(ctx, now)
	if errors.Is(err, errNoConfig) {
		return was, []string{name}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	had, err := parseConfig(ctx, was)
	if errors.Is(err, errNoConfig) {
		return was, []string{name}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	theirs := remotesOf(had, nil)
	rules := configRules{theirs: theirs, remotes: theirs}
	if len(theirs) == 0 {
		rules.remotes = remotesOf(have, rules.allowsAddress)
	}
	trusted := rules.risky(had)
	risky := rules.risky(have)
	if slices.Equal(trusted, risky) {
		return now, nil, nil
	}
	count := map[setting]int{}
	for _, s := range trusted {
		count[s]--
	}
	for _, s := range risky {
		count[s]++
	}
	for _, s := range slices.Concat(risky, trusted) {
		if count[s] != 0 && !slices.Contains(changed, s.String()) {
			changed = append(changed, s.String())
		}
	}
	if changed == nil {
		changed = []string{"the order of its entries"}
	}
	added := text.Filter(have, func(s setting) bool { return rules.allows(s) && !slices.Contains(had, s) })
	result, err = withSettings(ctx, was, added)
	return result, changed, err
}

// withSettings returns a configuration with more settings.
func withSettings(ctx context.Context, config []byte, added []setting) ([]byte, error) {
	dir, err := os.MkdirTemp("", scratchPattern)
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	for _, s := range added {
		if _, err := gitConfig(ctx, nil, file, "--add", s.key(), s.value); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(file)
}

// safeSections are sections without settings that can run a program, safeSettings such
// settings of other sections. Settings that change the content or the target of a push are not
// among them. These are lists of allowed settings, because any release of git can add a
// setting that runs a program. A section with subsections ends with a dot. A setting that is
// missing here is undone and reported.
var safeSections = []string{
	"advice", "author", "color", "column", "committer", "i18n", "index", "stash", "status",
}

const safeSettings = `
am threeway keepcr
apply whitespace ignorewhitespace
branch autosetupmerge autosetuprebase sort
branch. rebase description vscode-merge-base gh-merge-base github-pr-owner-number github-pr-base-branch
commit cleanup status verbose
core abbrev autocrlf bare bigfilethreshold checkstat commitgraph compression eol filemode ignorecase
core logallrefupdates longpaths multipackindex precomposeunicode preloadindex quotepath
core repositoryformatversion safecrlf sparsecheckout sparsecheckoutcone
core splitindex symlinks trustctime untrackedcache whitespace
credential username usehttppath
credential. username usehttppath
diff algorithm colormoved colormovedws context indentheuristic mnemonicprefix noprefix
diff renamelimit renames submodule
extensions compatobjectformat objectformat preciousobjects refstorage worktreeconfig
feature experimental manyfiles
fetch all parallel prune prunetags recursesubmodules writecommitgraph
gc auto autodetach autopacklimit pruneexpire reflogexpire reflogexpireunreachable worktreepruneexpire
http lowspeedlimit lowspeedtime postbuffer version
init defaultbranch
lfs repositoryformatversion
lfs. access locksverify
log abbrevcommit date decorate follow
maintenance auto strategy autodetach
merge autostash conflictstyle ff log renamelimit renames stat
pull ff rebase
rebase autosquash autostash missingcommitscheck stat updaterefs
remote. fetch followremotehead gh-resolved partialclonefilter promisor prune prunetags skipfetchall tagopt
rerere autoupdate enabled
submodule active fetchjobs
submodule. active branch fetchrecursesubmodules ignore shallow
tag sort
user email name useconfigonly
worktree guessremote userelativepaths
`

var isSafe = sync.OnceValue(func() map[string]bool {
	safe := map[string]bool{}
	for line := range strings.Lines(safeSettings) {
		section, names, _ := strings.Cut(line, " ")
		for _, name := range strings.Fields(names) {
			safe[section+" "+name] = true
		}
	}
	return safe
})

// configRules judges the settings of a configuration file.
type configRules struct {
	// tree is the workspace. If it is set, a remote may be a repository in it, because all
	// repositories in it are searched.
	tree string
	// module is the git directory of a submodule, whose work tree must be inside tree.
	module string
	// theirs are the operator's remotes, whose addresses an agent may not change. remotes are
	// the remotes that a branch may name: the same or, in a repository without any, all with
	// an allowed address. If a branch names another, git uses the name as a path.
	theirs, remotes map[string]bool
}

// remotesOf returns the remotes in a configuration: all if allowed is nil, otherwise only
// remotes with an allowed address.
func remotesOf(list []setting, allowed func(address string) bool) map[string]bool {
	remotes := map[string]bool{}
	for _, s := range list {
		if s.section == "remote" && s.name == "url" && s.sub != "" && (allowed == nil || allowed(s.value)) {
			remotes[s.sub] = true
		}
	}
	return remotes
}

func (c configRules) risky(list []setting) []setting {
	return slices.DeleteFunc(slices.Clone(list), c.allows)
}

// allows reports whether an agent may make a setting: it can't make git execute a program, or
// push more or elsewhere.
func (c configRules) allows(s setting) bool {
	section := s.section
	if s.sub != "" {
		section += "."
	}
	if slices.Contains(safeSections, s.section) || isSafe()[section+" "+s.name] {
		return true
	}
	switch section + " " + s.name {
	case "remote. url", "remote. pushurl":
		return !c.theirs[s.sub] && c.allowsAddress(s.value)
	case "submodule. url":
		return c.allowsAddress(s.value)
	case "checkout defaultremote", "extensions partialclone":
		return s.value == "." || c.remotes[s.value]
	case "branch. remote", "branch. pushremote", "remote pushdefault":
		// If there are several remotes, a push could then go to a different remote than
		// before.
		return s.value == "." || c.remotes[s.value] && len(c.theirs) < 2
	case "branch. merge": // with push.default=upstream a push goes there
		return s.value == "refs/heads/"+s.sub
	case "submodule. update":
		return slices.Contains([]string{"checkout", "rebase", "merge", "none"}, s.value)
	case "core worktree":
		tree := absolute(c.module, s.value)
		return c.module != "" && tree != c.tree && paths.Inside(c.tree, tree) &&
			leadsTo(filepath.Join(tree, ".git"), c.module)
	}
	return false
}

// allowsAddress reports whether an agent may set the address of a remote: it leads to a
// server, or to a repository in the workspace.
func (c configRules) allowsAddress(address string) bool {
	if networkURL(address) {
		return true
	}
	real, err := filepath.EvalSymlinks(address)
	return err == nil && real == address && c.tree != "" && paths.Inside(c.tree, address) &&
		(isBare(address) || exists(filepath.Join(address, ".git")))
}

// leadsTo reports whether a file named .git, which is not behind a link, points to a git
// directory.
func leadsTo(dotGit, gitDir string) bool {
	tree := filepath.Dir(dotGit)
	real, _, err := resolveDir(tree)
	if err != nil || real != tree {
		return false
	}
	to, ok, err := pointer(dotGit, "gitdir:")
	if err != nil || !ok {
		return false
	}
	real, ok, err = resolveDir(to)
	return err == nil && ok && real == gitDir
}

var scpAddress = text.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.@+-]*:[^:]`)

// networkURL reports whether git itself contacts a server at an address. It does not for a
// path, where a push runs the hooks of that repository, nor for NAME::ADDRESS or a scheme that
// another program handles.
func networkURL(url string) bool {
	if strings.Contains(url, "::") || strings.ContainsAny(url, "\n\r\x00") {
		return false
	}
	if scheme, rest, ok := strings.Cut(url, "://"); ok {
		return slices.Contains([]string{"https", "http", "ssh", "git", "git+ssh", "ssh+git"}, scheme) &&
			!strings.HasPrefix(rest, "-")
	}
	return scpAddress().MatchString(url)
}

// digest returns a hash of parts.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))
}
