package reconcile

import (
	"context"
	"time"
)

// Forge is where the pull requests of a project's repository are, whatever its tracker is. Its errors are *Error of ClassTracker.
// Everything that it returns is data from outside, which people and programs that are not trusted have written: it is bounded in size
// and number and is valid UTF-8, but contains any character. What prints it escapes it.
type Forge struct {
	Name string // what people call it, for messages
	// Open opens a pull request for a branch that was pushed. None is opened if the branch has an open one, or if a person has merged or
	// closed one at the commit, or if the base contains the commit; so it may be repeated.
	Open func(ctx context.Context, n NewPull) (OpenedPull, error)
	// Number returns the number of the pull request with an address; 0 if it is not one of this repository.
	Number func(address string) int
	// Read reads pull requests by their numbers, with one request for each 50. One that does not exist is not in the answer. Without
	// numbers no request is made.
	Read func(ctx context.Context, numbers []int) (map[int]Pull, error)
	// ReadChecks reads the checks of a commit, or of the newest commit of a branch. With those of Pull.Base, a failure that is not the
	// pull request's own can be told from others.
	ReadChecks func(ctx context.Context, ref string) (Checks, error)
	// ReadComments reads what reviewers have written to lines of a pull request, the oldest first.
	ReadComments func(ctx context.Context, number int) (list []ReviewComment, cut bool, err error)
	// ReadLog returns the end of the log of a job (Check.Job), at most MaxLog bytes that begin with a whole line. The error wraps ErrGone
	// if there is no log, because the job is at work or its log was deleted.
	ReadLog func(ctx context.Context, job int64) (string, error)
	// Rerun runs the failed jobs of a workflow run (Check.Run) again. It does nothing if the run is at work.
	Rerun func(ctx context.Context, run int64) error
	// Comment comments on a pull request, unless one of the newest 100 comments there, written by the same account, contains marker. The
	// body contains marker.
	Comment func(ctx context.Context, number int, marker, body string) error
}

// Bounds of what a Forge returns.
const (
	MaxLog           = 16 << 10 // bytes of ReadLog
	MaxForgeText     = 8 << 10  // bytes of the text of a review or comment
	MaxChecks        = 500      // of a commit
	MaxReviews       = 50       // of a pull request: the newest ones
	MaxReviewComment = 300      // of a pull request: the oldest ones
)

// CodeForgeMoved is the code of the error that the repository has another name or owner than the workflow says.
const CodeForgeMoved = "forge_moved"

// NewPull is a pull request to open. It merges Branch, which was pushed to Commit, into Base; into the default branch if that is empty.
type NewPull struct{ Branch, Commit, Base, Title, Body string }

// OpenedPull is the pull request of a branch.
type OpenedPull struct {
	URL    string // empty if the base contains the commit
	Opened bool   // by this call
	By     string // the program or the variable whose rights were used
}

// PullState is the state of a pull request.
type PullState string

const (
	PullOpen   PullState = "open"
	PullMerged PullState = "merged"
	PullClosed PullState = "closed" // without being merged
)

// Mergeable tells whether a pull request can be merged into its base.
type Mergeable string

const (
	MergeClean    Mergeable = "mergeable"
	MergeConflict Mergeable = "conflicting"
	MergeUnknown  Mergeable = "unknown" // the forge finds it out after each push to either branch: ask again
)

// Pull is a pull request as the forge describes it. It is stored as JSON.
type Pull struct {
	Number    int       `json:"number"`
	URL       string    `json:"url"`
	State     PullState `json:"state"`
	Draft     bool      `json:"draft,omitempty"`
	Branch    string    `json:"branch"`
	Base      string    `json:"base"` // the name of the branch
	Mergeable Mergeable `json:"mergeable"`
	Checks    Checks    `json:"checks"` // of the newest commit of Branch, which is Checks.Commit
	Reviews   []Review  `json:"reviews,omitempty"`
	// ReviewsCut: there are older reviews.
	ReviewsCut bool `json:"reviews_cut,omitempty"`
}

// Checks are the checks of a commit.
type Checks struct {
	Commit string  `json:"commit"`
	List   []Check `json:"list,omitempty"`
	Cut    bool    `json:"cut,omitempty"` // there are more, of which nothing is known
}

// CheckState is the state of a check.
type CheckState string

const (
	CheckPending CheckState = "pending" // it waits or is at work
	CheckSuccess CheckState = "success"
	CheckFailure CheckState = "failure" // also one that took too long, or could not start
	CheckSkipped CheckState = "skipped" // or neutral
	// CheckOpen: it has ended without a verdict: it was cancelled or replaced, or it needs a person.
	CheckOpen CheckState = "open"
)

// Check is a check of a commit, or what another program has reported as its status.
type Check struct {
	Name  string     `json:"name"` // of a job of GitHub Actions after that of its workflow: CI / test
	State CheckState `json:"state"`
	URL   string     `json:"url,omitempty"`
	Job   int64      `json:"job,omitempty"` // of GitHub Actions, for ReadLog; 0 for other checks
	Run   int64      `json:"run,omitempty"` // of GitHub Actions, for Rerun; 0 for other checks
}

// ReviewState is the verdict of a review.
type ReviewState string

const (
	ReviewApproved  ReviewState = "approved"
	ReviewChanges   ReviewState = "changes_requested"
	ReviewCommented ReviewState = "commented" // also each comment on a line, and each answer to one, outside a larger review
	ReviewDismissed ReviewState = "dismissed"
)

// Review is a review of a pull request. One that its author has not submitted yet is not returned.
type Review struct {
	ID     int64       `json:"id"`
	Author string      `json:"author"` // the login, that of an app followed by [bot]; ghost for a deleted account
	Bot    bool        `json:"bot,omitempty"`
	Role   string      `json:"role"` // of the author in the repository: owner, member, collaborator, contributor, none and others
	State  ReviewState `json:"state"`
	At     time.Time   `json:"at"`
	Body   string      `json:"body,omitempty"`
	Commit string      `json:"commit"` // that was reviewed
}

// ReviewComment is a comment on a line of a pull request.
type ReviewComment struct {
	ID     int64     `json:"id"`
	Review int64     `json:"review"` // its Review
	Author string    `json:"author"` // as in Review
	Bot    bool      `json:"bot,omitempty"`
	Role   string    `json:"role"`
	File   string    `json:"file"`
	Line   int       `json:"line,omitempty"` // of the newest commit; 0 if the line is not there any more, or the comment is on the file
	At     time.Time `json:"at"`
	Body   string    `json:"body"`
}
