package workspace

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// What is known to run nothing, and may stay where an agent has set it. It is this list and not one of what is
// dangerous, because every release of git can bring a new program and only this list is then still right. What is
// missing here costs an agent a setting; the report says which.

// harmlessSection reports those that run nothing by whatever name.
func harmlessSection(name string) bool {
	switch name {
	case "advice", "author", "color", "column", "committer", "i18n", "index", "stash", "status":
		return true
	}
	return false
}

// harmlessNames are sections with the names in them that run nothing. A section that has subsections is followed by a
// dot: what stands in one never means what stands in the section itself.
var harmlessNames = sync.OnceValue(func() map[string]string {
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
	// module is the git directory where it is that of a submodule, and tree what its work tree must lie in.
	module, tree string
	// remotes have an address that may stay: only of those a name means nothing else.
	remotes map[string]bool
}

// harmless reports a setting that can have nothing run, whoever has written it.
func (c configRules) harmless(s setting) bool {
	section := s.section
	if s.sub != "" {
		section += "."
	}
	if harmlessSection(s.section) || slices.Contains(strings.Fields(harmlessNames()[section]), s.name) {
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

// networkURL reports an address at which git itself speaks to a server. A path is none: what is pushed to it, by
// whoever, runs the hooks there. Nor is NAME::ADDRESS or a scheme that git leaves to a program.
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

// named gives the remotes whose name can stand for them: those that have an address that was trusted, or may stay.
// Where a branch names any other, git takes that for a path, and a file or link there can lead anywhere.
func (c configRules) named(trusted, now []setting) configRules {
	c.remotes = map[string]bool{}
	for _, s := range trusted {
		c.remotes[s.sub] = c.remotes[s.sub] || s.section == "remote" && s.name == "url"
	}
	for _, s := range now {
		c.remotes[s.sub] = c.remotes[s.sub] || s.section == "remote" && s.name == "url" && networkURL(s.value)
	}
	delete(c.remotes, "")
	return c
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
