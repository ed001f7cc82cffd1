package reconcile

import (
	"context"
	"errors"
	"time"
)

// Forge hosts the pull requests of a project's repository, whatever its tracker is. Its errors
// are *Error with a class. The values that it returns are data from outside: bounded in size
// and number and valid UTF-8, but with any character. Whoever prints them escapes them.
type Forge struct {
	// Open opens a pull request for a branch that was pushed. None is opened if the branch
	// already has an open pull request, or if a person merged or closed a pull request at the
	// commit, or if the base contains the commit; so it may be repeated. The error wraps
	// ErrNoBranch if there is no such branch.
	Open func(ctx context.Context, n NewPull) (OpenedPull, error)
	// Number returns the number of the pull request at an address, 0 if it is none, and
	// whether the address is in this repository. After the repository was renamed, an address
	// under its old name is not here, although the pull request is: compare Pull.ID.
	Number func(address string) (number int, here bool)
	// Read reads pull requests by their numbers, with as few requests as the forge allows. The
	// answer omits pull requests that do not exist. Without numbers no request is made.
	Read func(ctx context.Context, numbers []int) (map[int]Pull, error)
	// ReadChecks reads the checks of a commit, or of the newest commit of a branch. The checks
	// of Pull.Base tell whether a failure is the pull request's own. The error wraps ErrGone
	// if there is no such commit.
	ReadChecks func(ctx context.Context, ref string) (Checks, error)
	// BuildsOn reports whether a commit is among the newest 100 of a pull request, so that its
	// newest commit contains it. The error wraps ErrGone if there is no such pull request.
	BuildsOn func(ctx context.Context, number int, commit string) (bool, error)
	// ReadLog returns the end of the log of a job (Check.Job) in whole lines, at most MaxLog
	// bytes. The error wraps ErrGone if there is no log, because the job is at work or its log
	// was deleted.
	ReadLog func(ctx context.Context, job int64) (string, error)
	// Rerun runs the failed jobs of a workflow run (Check.Run) again. It does nothing if the
	// run is at work.
	Rerun func(ctx context.Context, run int64) error
	// Comment comments on a pull request, unless a comment by the same account among the
	// newest 100 there contains marker, which the body contains. The error wraps ErrGone if
	// there is no such pull request.
	Comment func(ctx context.Context, number int, marker, body string) error

	// MayMerge reports whether the account of the token may merge into a base, empty for the
	// default branch: whether it may write to the repository, if the forge does not say more.
	// The token itself may have fewer rights. Nil: the forge can't tell. It is the only function
	// that an adapter may leave out.
	MayMerge func(ctx context.Context, base string) (bool, error)
	// ReadMerge reads what a merge of a pull request depends on. The error wraps ErrGone if
	// there is no such pull request.
	ReadMerge func(ctx context.Context, number int) (MergeRules, error)
	// Merge merges a pull request. The errors of it and of ArmMerge wrap ErrLater if that may
	// succeed soon, ErrBehind if the base demands that the branch contain its newest commit,
	// and ErrRejected if the forge refuses it.
	Merge func(ctx context.Context, m Merging) error
	// ArmMerge lets the forge merge a pull request by itself, once nothing that the base
	// requires is missing. It may be repeated. merged: the forge has merged at once.
	ArmMerge func(ctx context.Context, m Merging) (merged bool, err error)
	// DisarmMerge takes ArmMerge back. It does nothing if the forge would not merge anyway, or
	// if there is no such pull request.
	DisarmMerge func(ctx context.Context, number int) error
}

// Bounds of the values that a Forge returns.
const (
	MaxLog        = 16 << 10 // bytes of ReadLog
	MaxReviewText = 8 << 10  // bytes of the text of a review or of a comment in it
	MaxChecks     = 500      // of a commit: the failed checks first, then the unfinished checks
	MaxChecksRead = 2000     // of a commit with a failed check, to find all that have failed
	// MaxReviews is how many of a pull request are read: the newest ones, fewer if they are
	// long, and the last verdicts of people who may push.
	MaxReviews = 300
)

// ErrNoBranch is wrapped by the error of a pull request whose branch does not exist.
var ErrNoBranch = errors.New("the branch does not exist")

// CodeForgeMoved is the code of an error: the repository's name or owner is not the name or
// owner in the workflow.
const CodeForgeMoved = "forge_moved"

// NewPull is a pull request to open. It merges Branch, which was pushed to Commit, into Base;
// into the default branch if that is empty. Known is the ID of the pull request so
// far, empty for none: a branch may have several open pull requests, with other bases.
type NewPull struct{ Branch, Commit, Base, Title, Body, Known string }

// FoundPull is a pull request as a forge lists it, for NewPull.Rank.
type FoundPull struct {
	ID      string // as in Pull
	Open    bool
	Foreign bool // the branch is in a fork
	Branch  string
	Commit  string // the newest commit of the branch, or the last one while it was open
	Base    string
}

// Rank says how well a pull request fits as the one that is wanted, 0 for not at all: best is
// the known one if it is open, then an open one, then one that was merged or closed when the branch
// was at the commit. One with another base does not fit: whoever can open pull requests, an agent
// included, may have opened it from the same branch to production.
func (n NewPull) Rank(p FoundPull) int {
	switch {
	case p.Foreign || p.Branch != n.Branch:
		return 0
	case p.Open && n.Known != "" && p.ID == n.Known:
		return 3
	case n.Base != "" && p.Base != n.Base:
		return 0
	case p.Open:
		return 2
	case p.Commit == n.Commit:
		return 1
	}
	return 0
}

// OpenedPull is the pull request of a branch.
type OpenedPull struct {
	URL    string // empty if the base contains the commit
	ID     string // as in Pull
	Opened bool   // by this call
	By     string // the program or the variable whose rights were used
}

// Pull is a pull request as the forge describes it. It is stored as JSON.
type Pull struct {
	// ID is the forge's own name for it, which stays if the repository gets another name or
	// owner.
	ID     string `json:"id"`
	Number int    `json:"number"`
	URL    string `json:"url"`
	State  string `json:"state"` // open, merged, or closed without being merged
	Draft  bool   `json:"draft,omitempty"`
	Branch string `json:"branch"`
	Head   string `json:"head"` // the newest commit of Branch
	Base   string `json:"base"` // the name of the branch
	// BaseCommit is the newest commit of Base, if the forge can't tell a conflict from other
	// reasons for which it does not merge. Then git decides; otherwise it is empty.
	BaseCommit string `json:"base_commit,omitempty"`
	// mergeable or conflicting; unknown after a push to either branch, until the forge
	// computed it
	Mergeable string `json:"mergeable"`
	// AutoMerge says whether the forge merges it by itself; empty if the forge does not tell.
	AutoMerge string `json:"auto_merge,omitempty"`
	// of Head; soon after a push, Checks.Commit may still be the commit before
	Checks  Checks   `json:"checks"`
	Reviews []Review `json:"reviews,omitempty"`
}

// The values of Pull.AutoMerge.
const (
	AutoMergeOn  = "on"
	AutoMergeOff = "off"
)

// Checks are the checks of a commit, sorted by their names.
type Checks struct {
	Commit string `json:"commit"`
	// of all together: pending, success or failure; empty if there are none
	State string  `json:"state"`
	List  []Check `json:"list,omitempty"`
	// there are more checks, of which only State is known: not only successful ones
	Cut bool `json:"cut,omitempty"`
	// Hidden: the token may not see some
	Hidden bool `json:"hidden,omitempty"`
}

// Check is a check of a commit, or the status that another program reported for it.
type Check struct {
	// for a job of the forge's own, after the name of its workflow: CI / test
	Name  string `json:"name"`
	State string `json:"state"`         // CheckFailure or another
	URL   string `json:"url,omitempty"` // an address that any program may have set
	Job   int64  `json:"job,omitempty"` // one of the forge's own, for ReadLog; 0 for other checks
	Run   int64  `json:"run,omitempty"` // to which that job belongs, for Rerun; 0 for other checks
}

// The states of a check.
const (
	CheckPending = "pending" // it waits or is at work
	CheckSuccess = "success"
	CheckFailure = "failure" // also if it took too long, or could not start
	CheckSkipped = "skipped" // or neutral
	// it ended without a verdict: it was cancelled or replaced, or needs a person
	CheckOpen = "open"
)

// Review is a review of a pull request that its author submitted. A comment on a line, or an
// answer to it, outside a larger review is a review too.
type Review struct {
	ID string `json:"id"`
	// the login, for an app followed by [bot]; ghost for a deleted account
	Author string `json:"author"`
	Bot    bool   `json:"bot,omitempty"`
	// of the author in the repository: owner, member, collaborator, contributor, none and
	// others
	Role   string `json:"role"`
	Writer bool   `json:"writer,omitempty"` // the author may push to the repository
	// approved, changes_requested, commented or dismissed
	State  string    `json:"state"`
	At     time.Time `json:"at"`
	Commit string    `json:"commit"` // that was reviewed
	Body   string    `json:"body,omitempty"`
	// Comments are the comments on lines. CommentsCut: there are more.
	Comments    []ReviewComment `json:"comments,omitempty"`
	CommentsCut bool            `json:"comments_cut,omitempty"`
}

// ReviewComment is a comment of a review on a line.
type ReviewComment struct {
	File string `json:"file"`
	// in the newest commit; 0 if it is not there any more, or the comment is on the whole file
	Line int    `json:"line,omitempty"`
	Body string `json:"body"`
}
