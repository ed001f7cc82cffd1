package host

import (
	"net/url"
	"strings"
	"time"
)

// Repository is where the work of a project comes from and goes to.
type Repository struct {
	URL string
	// Base is the branch that work begins at; empty for the remote's default branch.
	Base string
	// Name and Email are those of commits; empty for the account's.
	Name, Email string
}

// CloneRequest asks to fill the new, empty workspace that a run holds. Branch is checked out: at its commit on the remote, if that is
// Delivered or descends from it, and if Base does not contain it; otherwise at Base.
type CloneRequest struct {
	Repository        Repository
	Branch, Delivered string
	Timeout           time.Duration
	// Env is the operator's environment, after the login profile. Git is found by its PATH. Git, ssh and credential helpers inherit it.
	Env []string
}

// CloneAnswer is the name of the base and the commit that is checked out.
type CloneAnswer struct {
	Base, Commit string
	BaseCommit   string // that of Base
}

// DeliverRequest asks to push HEAD of the workspace that a run holds to Branch. No process may change the workspace meanwhile.
type DeliverRequest struct {
	Repository Repository
	Branch     string
	// Delivered is the commit that symphony pushed to Branch last, perhaps with another address of the repository; empty if it never did.
	Delivered string
	Timeout   time.Duration
	Env       []string // as in CloneRequest
}

// DeliverAnswer describes what was pushed.
type DeliverAnswer struct {
	// Commit is HEAD, Base the name of the base.
	Commit, Base string
	// Commits counts the commits of HEAD that neither Base nor Delivered contains. If there are none, nothing was pushed.
	Commits int
}

// GitHub is a repository on GitHub in which pull requests are opened.
type GitHub struct {
	API        string // its address
	Repository string // owner/name
	// Token is used if gh is not logged in. Empty: gh must be. TokenVar is the variable that contains it, for messages.
	Token, TokenVar string
}

// GhHost returns the host of GitHub's API as gh names it.
func GhHost(api string) string {
	u, err := url.Parse(api)
	switch {
	case err != nil:
		return ""
	case strings.Trim(u.Path, "/") == "": // that of Enterprise is https://HOST/api/v3
		return strings.TrimPrefix(u.Host, "api.")
	}
	return u.Host
}

// PullRequestRequest asks for a pull request that merges Branch, which has been pushed to Commit, into the base. None is opened if
// Branch has an open one, or if a person has merged or closed one at Commit.
type PullRequestRequest struct {
	Repository     Repository
	GitHub         GitHub
	Branch, Commit string
	Title, Body    string
	Timeout        time.Duration
	Env            []string // the operator's, in which gh is found
}

// PullRequestAnswer is the pull request of a branch.
type PullRequestAnswer struct {
	URL    string // empty if Base contains Commit
	Opened bool   // by this request
	By     string // the program or the variable whose rights were used
}

// Codes of errors of Clone and Deliver.
const (
	// CodeRepositoryUnavailable: the remote can't be reached, or has no such branch.
	CodeRepositoryUnavailable = "repository_unavailable"
	// CodeGitKilled: a signal has ended git twice, which is no evidence about the remote.
	CodeGitKilled = "git_killed"
	// CodeNoIdentity: git knows no name or address for commits in a clone.
	CodeNoIdentity = "git_identity_missing"
	// CodeInvalidBranch: git does not allow the name of a branch, or work is never pushed to it.
	CodeInvalidBranch = "invalid_branch"
	// CodeDeliveryFailed: nothing was pushed, or the result is unknown.
	CodeDeliveryFailed = "delivery_failed"
	// CodeRepositoryChanged: the workspace was cloned from another repository.
	CodeRepositoryChanged = "repository_changed"
	// CodeDeliveryConflict: someone else has changed the branch; it stays as it is.
	CodeDeliveryConflict = "delivery_conflict"
)
