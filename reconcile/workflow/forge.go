package workflow

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// ForgeKind is a kind of forge, the service with the pull requests of a repository. All that
// differs between the kinds is in their rows, each in its own file, and in their adapters,
// which package wiring builds.
type ForgeKind struct {
	Name  string // the value of repository.forge, such as github
	Title string // the usual name, such as GitHub
	// hosts are known to be of this kind, such as github.com. A name that begins with a dot
	// stands for all hosts below it: .ghe.com.
	hosts []string
	// gitHosts are further hosts by which git reaches the hosts: ssh.github.com is github.com
	gitHosts map[string]string
	// apiPath is the path of the API at a host, such as /api/v1.
	apiPath string
	// api returns the address of the API at a host, if that is not always https://HOST and apiPath.
	api func(host string) string
	// groups: owners of repositories may have several parts: group/sub/project
	groups bool
	// TokenVars are the variables that usually contain a token, the preferred variable first.
	TokenVars []string
	// Gh: people log in with the program gh, which gives out its token.
	Gh     bool
	Rights string // of a token, for a person who makes one; empty if gh has them
	Words  reconcile.PullWords
	// MaxPulls is how many pull requests a pass may read; 0 if any number takes few requests.
	MaxPulls int
}

// forges are the kinds of forges. The first one is the kind of a host that is not known.
var forges = []ForgeKind{
	GitHubForge,
	GiteaForge,
	GitLabForge,
}

// ForgeTokenVars returns the variables that usually contain a token of a forge of any kind, and
// the kind of each.
func ForgeTokenVars() map[string]ForgeKind {
	vars := map[string]ForgeKind{}
	for _, kind := range forges {
		for _, name := range kind.TokenVars {
			vars[name] = kind
		}
	}
	return vars
}

// ForgeNames are the allowed values of repository.forge.
func ForgeNames() []string { return text.Map(forges, func(k ForgeKind) string { return k.Name }) }

// ForgeKind returns the kind of the forge: the kind that the workflow names, or else the kind
// of the host in the repository's address.
func (r Repository) ForgeKind() ForgeKind {
	host, _ := splitAddress(r.URL)
	for _, kind := range forges {
		if r.Forge == kind.Name || r.Forge == "" && kind.has(host) {
			return kind
		}
	}
	return forges[0]
}

// has reports whether a host is known to be of this kind.
func (k ForgeKind) has(host string) bool {
	return slices.ContainsFunc(k.hosts, func(known string) bool {
		return host == known || strings.HasPrefix(known, ".") && strings.HasSuffix(host, known)
	})
}

// Knows reports whether an address of git is on a host that is known to be of this kind.
func (k ForgeKind) Knows(address string) bool {
	host, _ := splitAddress(address)
	return host != "" && k.has(host)
}

// GuessedForge is the kind that the host of an address is taken for, such as github, if no kind knows
// that host; otherwise empty.
func GuessedForge(address string) string {
	isKnown := slices.ContainsFunc(forges, func(k ForgeKind) bool { return k.Knows(address) })
	if isKnown {
		return ""
	}
	return forges[0].Name
}

// At returns the address of the API for an address of git, as if the host were of this kind,
// and the repository's name, owner/name. Each is empty if the address lacks this part.
func (k ForgeKind) At(address string) (api, name string) {
	host, path := splitAddress(address)
	if host != "" {
		api = k.apiAt(host)
	}
	pattern := ownerName
	if k.groups {
		pattern = groupsName
	}
	if m := pattern().FindStringSubmatch(path); m != nil {
		name = m[1]
	}
	return api, name
}

func (k ForgeKind) apiAt(host string) string {
	if k.api != nil {
		return k.api(host)
	}
	return "https://" + host + k.apiPath
}

// apiInstead returns the address of the API that is meant by the address of a server or its pages; empty if
// the address may be that of an API.
func (k ForgeKind) apiInstead(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
		return ""
	}
	isAPI := strings.HasPrefix(u.Hostname(), "api.")
	hasPages := k.has(u.Hostname()) && !isAPI
	switch {
	case k.api != nil && hasPages:
		return k.api(u.Hostname())
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), k.apiPath), k.api != nil && (isAPI || isLoopback(u)):
		return "" // a server at a loopback address stands in for api.github.com
	}
	return u.Scheme + "://" + u.Host + k.apiPath
}

// isLoopback reports whether an address leads to this machine.
func isLoopback(u *url.URL) bool {
	return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}

// IsElsewhere reports whether an address of git is on a host that is known to be of another kind.
func (k ForgeKind) IsElsewhere(address string) bool {
	return slices.ContainsFunc(forges, func(other ForgeKind) bool {
		return other.Name != k.Name && other.Knows(address)
	})
}

// withoutTracker are hosts of repositories, or the ends of their names, that are of no kind of forge.
var withoutTracker = []string{"bitbucket.org", "dev.azure.com", ".visualstudio.com"}

// HostWithoutTracker returns the host of an address of git if it is known to be of no kind of forge,
// such as bitbucket.org; empty for any other.
func HostWithoutTracker(address string) string {
	host, _ := splitAddress(address)
	for _, known := range withoutTracker {
		if host == known || strings.HasSuffix(host, "."+strings.TrimPrefix(known, ".")) {
			return host
		}
	}
	return ""
}

// Below returns the name of a repository without the path of its server below the host: with
// the API https://HOST/gitlab/api/v4 the address https://HOST/gitlab/group/project is group/project.
func (k ForgeKind) Below(api, name string) string {
	u, err := url.Parse(api)
	if err != nil || !k.groups {
		return name
	}
	path := strings.Trim(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), k.apiPath), "/")
	return strings.TrimPrefix(name, path+"/")
}

// SameRepository reports whether two addresses of git lead to repositories of the same owner
// and name, on whatever hosts: ssh may have other names for them.
func SameRepository(a, b string) bool {
	host, path := splitAddress(a)
	otherHost, otherPath := splitAddress(b)
	name := ownerName().FindStringSubmatch(path)
	other := ownerName().FindStringSubmatch(otherPath)
	return host != "" && otherHost != "" && name != nil && other != nil && name[1] == other[1]
}

// usualTokenVar is the variable that usually contains a token of the forge.
func (r Repository) usualTokenVar() string {
	vars := r.ForgeKind().TokenVars
	if len(vars) == 0 {
		return "FORGE_TOKEN"
	}
	return vars[0]
}
