package workflow

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// Repository is the repository that symphony clones and pushes to. Without a URL the hooks do
// both.
type Repository struct {
	URL           string
	Base          string // empty for the remote's default branch
	Branch        string // the template of the name of an issue's branch, as written
	Deliver       string // DeliverBranch, DeliverPullRequest or DeliverNone
	Forge         string // the name of the ForgeKind; empty if the file does not name it
	API           string // of the forge, with DeliverPullRequest; also if the file does not name it
	OwnerName     string // of the repository there: owner/name
	Token         Secret // for that API; empty if only gh may open pull requests
	TokenVar      string // the variable that contains it
	Name, Email   string // of the author of commits; empty for the account's
	branchPattern *Prompt
	Submodules    bool   // clones have submodules
	Check         string // a command that decides before a push whether the commits may be pushed
	Sign          bool   // commits are signed with the operator's key before they are pushed
	Claims        Claims
}

// The values of repository.deliver.
const (
	DeliverBranch      = "branch"
	DeliverPullRequest = "pull-request"
	DeliverNone        = "none"
)

// Delivers reports whether symphony pushes the commits of runs.
func (r Repository) Delivers() bool { return r.URL != "" && r.Deliver != DeliverNone }

// OpensPullRequests reports whether symphony also opens pull requests.
func (r Repository) OpensPullRequests() bool { return r.URL != "" && r.Deliver == DeliverPullRequest }

// BranchFolders returns the branches that no remote may have, because all issues' branches are
// below them: symphony for symphony/{{ issue.identifier }}.
func (r Repository) BranchFolders() []string {
	fixed := r.Branch
	if !r.Delivers() {
		return nil
	}
	if at := strings.IndexAny(fixed, "{"); at >= 0 {
		fixed = fixed[:at]
	}
	var folders []string
	for at, letter := range fixed {
		if letter == '/' {
			folders = append(folders, fixed[:at])
		}
	}
	return folders
}

// Render returns the name of an issue's branch. It implements runner.Prompt.
func (r Repository) Render(issue reconcile.Issue, attempt int) (string, error) {
	return r.branchPattern.Render(issue, attempt)
}

// gitAddress matches a URL, and an address such as git@example.com:team/repo.git.
var gitAddress = text.Pattern(`^(?i:https?|ssh|git|file)://|^[\w.-]+(@[\w.-]+)?:/?[^:/]`)

func (r *reader) repositoryURL(f field) {
	address := r.cfg.Repository.URL
	const hint = "write for instance git@example.com:team/repo.git, https://example.com/team/repo.git or ./path"
	if top, _, _ := strings.Cut(address, "/"); top == "." || top == ".." || top == "~" {
		address = r.path(f, address)
		r.cfg.Repository.URL = address
	}
	_, err := url.Parse(address)
	switch {
	case address == "":
		if line, given := r.lines["repository"]; given {
			f.line = line
			r.invalid(f, "missing", hint)
		}
	case filepath.IsAbs(address) && !strings.ContainsFunc(address, unicode.IsControl):
	case strings.ContainsFunc(address, blank):
		r.invalid(f, "contains blanks or control characters", hint)
	case WithoutPassword(address) != address:
		r.invalid(
			f,
			"contains a password or a token, which agents could read",
			"configure a credential helper of git instead",
		)
	case !gitAddress().MatchString(address), err != nil && strings.Contains(address, "://"):
		r.invalid(f, "not an address that symphony clones from", hint)
	}
}

// beforePush warns about a key that changes how commits are pushed, if none are.
func (r *reader) beforePush(f field) {
	if !r.cfg.Repository.Delivers() {
		r.warnKey(f.key, "no effect, because symphony pushes no commits")
	}
}

// tokenLength tells a token from a user name: forges accept a token as the user of
// an address.
const tokenLength = 20

// WithoutPassword removes a password from an address, and a token in place of the user.
func WithoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	if _, has := u.User.Password(); !has && (len(u.User.Username()) < tokenLength || u.Scheme == "ssh") {
		return address
	}
	u.User = nil
	return u.String()
}

func (r *reader) branch(f field) {
	if f.node == nil && r.cfg.Repository.URL == "" {
		return // no branch has a name of ours
	}
	pattern := r.cfg.Repository.Branch
	parsed, err := ParsePrompt(pattern, r.src.Name, f.line)
	for _, e := range Faults(err) {
		message := strings.TrimPrefix(e.Message, fmt.Sprintf("%s:%d: ", r.src.Name, f.line))
		r.invalid(f, message, templateHint)
	}
	if err != nil {
		return
	}
	for _, problem := range parsed.Check() {
		r.invalid(f, problem.Message, "correct it, or leave the key out for "+defaultBranch)
	}
	r.cfg.Repository.branchPattern = parsed
	if !strings.Contains(pattern, "{{") {
		r.invalid(f, "gives all issues the same branch", "leave it out for "+defaultBranch)
		return
	}
	name, err := parsed.Render(exampleIssue, 0)
	if err == nil && badBranch().MatchString(name) {
		r.invalid(
			f,
			fmt.Sprintf("gives %q for an issue %s %q, which git does not allow as the name of a branch",
				name, exampleIssue.Identifier, exampleIssue.Title),
			"use issue.identifier, or filters such as downcase and replace: \" \", \"-\"",
		)
	}
}

// exampleIssue is an issue like most.
var exampleIssue = reconcile.Issue{
	ID:         "1",
	Identifier: "ABC-1",
	Title:      "Fix the footer",
	State:      "Todo",
	Labels:     []string{"web"},
}

// badBranch matches what git allows in no name of a branch: see git help check-ref-format.
var badBranch = text.Pattern(`[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/]|[/.]$|(^|/)\.|\.lock(/|$)|^@$|^$`)

const defaultBranch = "symphony/{{ issue.identifier }}"

func (r *reader) repositoryAPI(f field) {
	secret := "the token of gh"
	if r.cfg.Repository.Token != "" {
		secret = "repository.token"
	}
	if f.node != nil {
		r.api(f, r.cfg.Repository.API, "leave it out for the API at the host of repository.url", "repository.token", secret)
	}
}

// repositoryForge completes the kind of the forge: a host that no kind knows is of the kind of
// the tracker, if the issues are there, too.
func (r *reader) repositoryForge(f field) {
	isGuess := GuessedForge(r.cfg.Repository.URL) != ""
	if f.node == nil && isGuess && r.besideIssues() && r.tracker.forge != forges[0].Name {
		r.cfg.Repository.Forge = r.tracker.forge
	}
}

// besideIssues reports whether the repository is on the server of the tracker, which is a forge,
// too.
func (r *reader) besideIssues() bool {
	host, _ := splitAddress(r.cfg.Repository.URL)
	name, _, _ := strings.Cut(host, ":") // without a port
	u, err := url.Parse(r.cfg.Tracker.Endpoint)
	return r.tracker.forge != "" && err == nil && name != "" && strings.EqualFold(name, u.Hostname())
}

// repositoryToken resolves the token. It is only accepted from a variable, because a file in a
// repository is no place for it.
func (r *reader) repositoryToken(f field) {
	repository := &r.cfg.Repository
	written := repository.Token.Reveal()
	repository.Token = ""
	name, isVar := reference(written)
	usual := repository.usualTokenVar()
	switch {
	case written == "":
		return
	case !isVar:
		r.invalid(
			f,
			"must be $NAME, a variable that contains the token",
			"write $"+usual+", and "+r.setHint(usual),
		)
		return
	}
	r.cfg.withhold(name)
	value, _ := r.env.lookup(name)
	repository.Token = Secret(strings.TrimSpace(value))
	repository.TokenVar = name
	switch {
	case strings.ContainsFunc(repository.Token.Reveal(), blank):
		r.invalid(f, "the variable "+name+" contains a blank or a control character", "copy the token again")
	case repository.Token == "" && !r.env.KeyOptional:
		r.invalid(f, "the environment variable "+name+" is not set, or empty", r.setHint(name))
	}
}

// completeRepository finds the API and the repository there that pull requests are opened in,
// and the token, which git's credential helpers may use in any case.
func (r *reader) completeRepository() {
	repository := &r.cfg.Repository
	tracker := r.cfg.Tracker
	kind := repository.ForgeKind()
	api, name := kind.At(repository.URL)
	if r.tracker.forge == kind.Name && r.besideIssues() {
		api = tracker.Endpoint
	}
	bare := func(address string) string { return strings.ToLower(strings.TrimRight(address, "/")) }
	if r.tracker.forge == kind.Name && repository.TokenVar == "" &&
		bare(cmp.Or(repository.API, api)) == bare(tracker.Endpoint) {
		repository.Token = tracker.APIKey
		repository.TokenVar = r.cfg.KeyVar
	}
	if !repository.OpensPullRequests() {
		r.warnKey("repository.api", "no effect without repository.deliver: pull-request")
		r.warnKey("repository.forge", "no effect without repository.deliver: pull-request")
		return
	}
	f := r.field("repository.deliver")
	host, _ := splitAddress(repository.URL)
	switch {
	case repository.Forge == "" && HostWithoutTracker(repository.URL) != "":
		r.invalid(f, "symphony opens no pull requests on "+host, "write deliver: branch instead")
	case repository.API != "":
		r.apiAddress(r.field("repository.api"), repository.API, kind)
	case api == "":
		r.invalid(
			f,
			"repository.url is not an address on "+kind.Title,
			"write deliver: branch, or such an address, and repository.forge if that does not tell its kind",
		)
	default:
		repository.API = api
		r.warnGuessed(kind)
	}
	if !kind.Gh && repository.TokenVar == "" {
		r.invalid(
			f,
			"to open "+kind.Words.Name+"s on "+kind.Title+" symphony needs repository.token",
			"write token: $"+kind.TokenVars[0]+", and put a token with "+kind.Rights+" into that variable",
		)
	}
	repository.OwnerName = kind.Below(repository.API, name)
	if name == "" {
		r.invalid(
			f,
			"repository.url does not end with the owner and the name of a repository",
			"write deliver: branch, or such an address",
		)
	}
}

// warnGuessed warns about a host that no kind of forge knows, unless it is also the tracker's: its
// API answers only if the guess is right.
func (r *reader) warnGuessed(kind ForgeKind) {
	repository := r.cfg.Repository
	host, _ := splitAddress(repository.URL)
	isNamed := repository.Forge != "" || r.field("repository.forge").node != nil
	isAddress := strings.Contains(repository.URL, ":")
	if isNamed || !isAddress || GuessedForge(repository.URL) == "" || r.besideIssues() {
		return
	}
	others := text.Filter(ForgeNames(), func(name string) bool { return name != kind.Name })
	r.warn(r.field("repository.url"), fmt.Sprintf("%s is taken for %s: write repository.forge: %s, or %s",
		host, kind.Title, kind.Name, strings.Join(others, " or ")))
}

var (
	ownerName = text.Pattern(`([\w.-]+/[\w.-]+?)(?:\.git)?/*$`)
	// the whole path, such as group/sub/project
	groupsName = text.Pattern(`^/*((?:[\w.-]+/)+[\w.-]+?)(?:\.git)?/*$`)
)

// splitAddress returns the host of an address of git, as web addresses name it, and the path.
func splitAddress(address string) (host, path string) {
	u, err := url.Parse(address)
	switch {
	case filepath.IsAbs(address):
		return "", address
	case strings.Contains(address, "://") && err == nil:
		host = u.Hostname()
		path = u.Path
		if u.Scheme == "https" {
			host = u.Host // with its port
		}
	default:
		host, path, _ = strings.Cut(address, ":")
		host = host[strings.LastIndexByte(host, '@')+1:]
	}
	host = strings.ToLower(host)
	for _, kind := range forges {
		host = cmp.Or(kind.gitHosts[host], host)
	}
	return host, path
}
