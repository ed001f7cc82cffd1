package workflow

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/reconcile"
)

// Repository says where symphony clones from and pushes to. Without a URL the hooks do both.
type Repository struct {
	URL           string
	Base          string // empty for the remote's default branch
	Branch        string // the template of the name of an issue's branch, as written
	Deliver       string // DeliverBranch or DeliverNone
	Name, Email   string // of the author of commits; empty for the account's
	branchPattern *Prompt
}

// The values of repository.deliver.
const (
	DeliverBranch = "branch"
	DeliverNone   = "none"
)

// Delivers reports whether symphony pushes the commits of runs.
func (r Repository) Delivers() bool { return r.URL != "" && r.Deliver != DeliverNone }

// Render returns the name of an issue's branch. It implements runner.Prompt.
func (r Repository) Render(issue reconcile.Issue, attempt int) (string, error) {
	return r.branchPattern.Render(issue, attempt)
}

// scpAddress is an address such as git@example.com:team/repo.git.
var scpAddress = regexp.MustCompile(`^[\w.-]+(@[\w.-]+)?:[^:]`)

func (r *reader) repositoryURL(f field) {
	address := r.cfg.Repository.URL
	const hint = "write for instance git@example.com:team/repo.git, https://example.com/team/repo.git or an absolute path"
	u, err := url.Parse(address)
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
		r.invalid(f, "contains a password or a token, which agents could read", "configure a credential helper of git instead")
	case strings.Contains(address, "://"):
		if err != nil || u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh" && u.Scheme != "git" && u.Scheme != "file" {
			r.invalid(f, "not an address that symphony clones from", hint)
		}
	case !scpAddress.MatchString(address):
		r.invalid(f, "not an address that symphony clones from", hint)
	}
}

// tokenLength tells a token from a user name: GitHub and GitLab accept a token as the user of an address.
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
	pattern := r.cfg.Repository.Branch
	parsed, err := ParsePrompt(pattern, r.src.Name, f.line)
	for _, e := range Faults(err) {
		r.invalid(f, e.Message, templateHint)
	}
	if err != nil {
		return
	}
	for _, problem := range parsed.Check() {
		r.invalid(f, problem.Message, "")
	}
	r.cfg.Repository.branchPattern = parsed
	if pattern == "" || pattern == r.cfg.Repository.Base {
		r.invalid(f, "must be another branch than repository.base", "leave it out for "+defaultBranch)
	}
}

const defaultBranch = "symphony/{{ issue.identifier }}"
