package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// setting is one entry of a git configuration file. Section and name are in lower case.
type setting struct {
	section, sub, name string
	value              string
	bare               bool // it stands without a value
}

// errNoConfig says that git can't read a configuration, or that there is no git.
var errNoConfig = errors.New("it can't be read as configuration")

// parseConfig has git read a configuration, from its standard input: no repository, no other configuration and no
// include has a part in that.
func parseConfig(ctx context.Context, data []byte) ([]setting, error) {
	if len(data) == 0 {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, "git", "config", "--file", "-", "--no-includes", "--list", "-z")
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_DIR=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
	}
	cmd.Stdin = bytes.NewReader(data)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoConfig, err)
	}
	var list []setting
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if entry == "" {
			continue
		}
		s := setting{}
		var key string
		var valued bool
		key, s.value, valued = strings.Cut(entry, "\n")
		s.bare = !valued
		first, last := strings.Index(key, "."), strings.LastIndex(key, ".")
		if first < 0 {
			return nil, fmt.Errorf("%w: the key %.60q", errNoConfig, key)
		}
		s.section, s.name = key[:first], key[last+1:]
		if last > first {
			s.sub = key[first+1 : last]
		}
		if last == first+1 { // a subsection without a name is not the section itself, and no tool writes one
			return nil, fmt.Errorf("%w: the key %.60q", errNoConfig, key)
		}
		list = append(list, s)
	}
	return list, nil
}

// writeConfig is the opposite of parseConfig.
func writeConfig(list []setting) []byte {
	var b bytes.Buffer
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace
	section := ""
	for _, s := range list {
		header := "[" + s.section + "]\n"
		if s.sub != "" {
			header = "[" + s.section + ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.sub) + "\"]\n"
		}
		if header != section {
			b.WriteString(header)
			section = header
		}
		b.WriteString("\t" + s.name)
		if !s.bare {
			b.WriteString(` = "` + quote(s.value) + `"`)
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// wholeFile is the name of a change in a configuration that can't be read.
const wholeFile = ""

// settleConfig returns what may be read outside the sandbox: the settings that can run a program as they were, the others
// as they are now. changed names what had to be put back; nothing if the configuration may stay as it is.
func settleConfig(ctx context.Context, now, was []byte) (result []byte, changed []string, err error) {
	have, err := parseConfig(ctx, now)
	var had []setting
	if err == nil {
		had, err = parseConfig(ctx, was)
	}
	if errors.Is(err, errNoConfig) {
		return was, []string{wholeFile}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rules := configRules{remotes: remotesOf(had, have)}
	trusted, risky := rules.risky(had), rules.risky(have)
	if slices.Equal(trusted, risky) {
		return now, nil, nil
	}
	left := slices.DeleteFunc(slices.Clone(have), func(s setting) bool { return !rules.cannotExecute(s) })
	if left = append(left, trusted...); !slices.ContainsFunc(left, func(s setting) bool { return !slices.Contains(had, s) }) {
		return was, differing(trusted, risky), nil // the operator's file, with its comments
	}
	result = writeConfig(left)
	if again, err := parseConfig(ctx, result); err != nil || !slices.Equal(again, left) {
		return was, differing(trusted, risky), ctx.Err()
	}
	return result, differing(trusted, risky), nil
}

// differing names what one list has more often than the other, each key once.
func differing(was, now []setting) (names []string) {
	count := map[setting]int{}
	for _, s := range was {
		count[s]--
	}
	for _, s := range now {
		count[s]++
	}
	for _, s := range slices.Concat(now, was) {
		if name := s.spelled(); count[s] != 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		names = append(names, "the order of its entries")
	}
	return names
}

// safeSections have no setting that can run a program.
var safeSections = []string{"advice", "author", "color", "column", "committer", "i18n", "index", "stash", "status"}

// safeSettings are, by section, the settings that can't run a program; every release of git can bring a new one that can,
// so this is the list of what may stay. A section with subsections is followed by a dot. What is missing here costs an agent
// a setting, and is reported.
var safeSettings = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"am": "threeway keepcr", "apply": "whitespace ignorewhitespace",
		"blame":      "showroot showemail blankboundary date coloring ignorerevsfile markignoredlines markunblamablelines",
		"branch":     "autosetupmerge autosetuprebase sort",
		"branch.":    "merge rebase description vscode-merge-base gh-merge-base github-pr-owner-number github-pr-base-branch",
		"checkout":   "guess workers thresholdforparallelism",
		"commit":     "cleanup status verbose",
		"core":       "abbrev autocrlf bare bigfilethreshold checkroundtripencoding checkstat commentchar commitgraph compression eol filemode fscache hidedotfiles ignorecase ignorestat logallrefupdates longpaths loosecompression multipackindex precomposeunicode preloadindex quotepath repositoryformatversion safecrlf sparsecheckout sparsecheckoutcone splitindex symlinks trustctime untrackedcache whitespace",
		"credential": "username usehttppath", "credential.": "username usehttppath",
		"diff":       "algorithm colormoved colormovedws context dirstat ignoresubmodules indentheuristic interhunkcontext mnemonicprefix noprefix relative renamelimit renames statgraphwidth statnamewidth submodule suppressblankempty wserrorhighlight",
		"extensions": "compatobjectformat noop objectformat preciousobjects refstorage worktreeconfig", // config.worktree is judged as config is
		"feature":    "experimental manyfiles",
		"fetch":      "all output parallel prune prunetags recursesubmodules unpacklimit writecommitgraph",
		"gc":         "aggressivedepth aggressivewindow auto autodetach autopacklimit bigpackthreshold cruftpacks packrefs pruneexpire reflogexpire reflogexpireunreachable worktreepruneexpire writecommitgraph",
		"grep":       "linenumber column patterntype extendedregexp threads fullname",
		"http":       "lowspeedlimit lowspeedtime maxrequests postbuffer version", "init": "defaultbranch defaultobjectformat defaultrefformat",
		"lfs": "repositoryformatversion", "lfs.": "access locksverify",
		"log": "abbrevcommit date decorate follow showroot", "maintenance": "auto strategy autodetach",
		"merge": "autostash conflictstyle ff log renamelimit renames stat branchdesc", "pull": "ff rebase", "push": "autosetupremote default followtags negotiate recursesubmodules usebitmaps useforceifincludes",
		"rebase":    "abbreviatecommands autosquash autostash forkpoint missingcommitscheck reschedulefailedexec stat updaterefs",
		"remote.":   "fetch followremotehead gh-resolved mirror partialclonefilter promisor prune prunetags push skipdefaultupdate skipfetchall tagopt",
		"rerere":    "autoupdate enabled",
		"submodule": "active fetchjobs propagatebranches recurse", "submodule.": "active branch fetchrecursesubmodules ignore shallow",
		"tag": "sort", "user": "email name useconfigonly", "worktree": "guessremote userelativepaths",
	}
})

// configRules judges the settings of one configuration file.
type configRules struct {
	// module is the git directory of a submodule, whose work tree must lie in tree.
	module, tree string
	// remotes have an address that may stay. Where a branch names any other, git takes the name for a path.
	remotes map[string]bool
}

// remotesOf are the remotes with an address that was trusted, or may stay.
func remotesOf(trusted, now []setting) map[string]bool {
	remotes := map[string]bool{}
	for _, s := range trusted {
		remotes[s.sub] = remotes[s.sub] || s.section == "remote" && s.name == "url"
	}
	for _, s := range now {
		remotes[s.sub] = remotes[s.sub] || s.section == "remote" && s.name == "url" && networkURL(s.value)
	}
	delete(remotes, "")
	return remotes
}

func (c configRules) risky(list []setting) (some []setting) {
	for _, s := range list {
		if !c.cannotExecute(s) {
			some = append(some, s)
		}
	}
	return some
}

// cannotExecute reports settings that cannot execute a program.
func (c configRules) cannotExecute(s setting) bool {
	section := s.section
	if s.sub != "" {
		section += "."
	}
	if slices.Contains(safeSections, s.section) || slices.Contains(strings.Fields(safeSettings()[section]), s.name) {
		return true
	}
	switch section + " " + s.name {
	case "remote. url", "remote. pushurl", "submodule. url":
		return networkURL(s.value)
	case "branch. remote", "branch. pushremote", "remote pushdefault", "checkout defaultremote", "extensions partialclone":
		return s.value == "." || c.remotes[s.value]
	case "submodule. update":
		return slices.Contains([]string{"checkout", "rebase", "merge", "none"}, s.value)
	case "core worktree":
		path := s.value
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.module, path)
		}
		return c.module != "" && within(c.tree, path)
	}
	return false
}

// networkURL reports an address at which git itself speaks to a server. A path is none: a push to it runs the hooks there.
// Nor is NAME::ADDRESS, or a scheme that git leaves to a program.
func networkURL(url string) bool {
	if strings.Contains(url, "::") || strings.ContainsAny(url, "\n\r\x00") || strings.HasPrefix(url, "-") {
		return false
	}
	if scheme, rest, ok := strings.Cut(url, "://"); ok {
		return slices.Contains([]string{"https", "http", "ssh", "git", "git+ssh", "ssh+git"}, scheme) && !strings.HasPrefix(rest, "-")
	}
	// HOST:PATH, which goes by ssh.
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@+-]*:[^:]`).MatchString(url)
}

// spelled is the key for people, without what may hold a password.
func (s setting) spelled() string {
	name := s.name
	for _, as := range strings.Fields("hooksPath sshCommand askPass gitProxy insteadOf pushInsteadOf recentObjectsHook uploadPack receivePack defaultKeyCommand worktreeConfig excludesFile attributesFile pushDefault") {
		if strings.EqualFold(as, name) {
			name = as
		}
	}
	section := s.section
	if section == "includeif" {
		section = "includeIf"
	}
	switch {
	case s.sub == "":
		return section + "." + name
	case slices.Contains([]string{"credential", "http", "lfs", "url"}, s.section):
		return section + ".*." + name
	}
	sub := s.sub
	if len(sub) > 60 {
		sub = strings.ToValidUTF8(sub[:60], "") + "…"
	}
	return section + "." + sub + "." + name
}

// digest identifies what git could run.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))
}
