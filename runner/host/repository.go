package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/team"
)

// Clones connects the workspace of a run with the repository of the workflow. No program or
// setting of the workspace takes part.
type Clones interface {
	// Clone fills a new workspace with a clone of the repository.
	Clone(ctx context.Context, r CloneRequest) (CloneAnswer, error)
	// Fetch updates the remote references of a workspace that was cloned before, and moves its
	// branch to the commits that others pushed there, if no work of the agent is in the way.
	// No process may be at work in it, unless CloneRequest.Look is set.
	Fetch(ctx context.Context, r CloneRequest) (FetchAnswer, error)
	// Deliver pushes the commits of the workspace to the branch of its issue, such as
	// symphony/ABC-1.
	Deliver(ctx context.Context, r DeliverRequest) (DeliverAnswer, error)
	// Keep copies the commits of a workspace on another machine to this machine, where they
	// outlive it, and returns HEAD. The next clone for the issue begins there. Forget keeps
	// them no longer. Both do nothing for a workspace on this machine. Errors of Keep:
	// FaultHere, as of Mirror.Keep.
	Keep(ctx context.Context, r KeepRequest) (commit string, err error)
	Forget(ctx context.Context, r KeepRequest) error
	// CheckOut makes a clean copy of the commits of the workspace, in which verify.command
	// runs. No agent can write it. It exists until Finish; its cache stays as long as the
	// workspace.
	CheckOut(ctx context.Context, r CheckOutRequest) (CheckOutAnswer, error)
}

// Repository is where the work of a project comes from and goes to.
type Repository struct {
	URL string
	// Base is the branch that work begins at; empty for the remote's default branch.
	Base string
	// Name and Email are the author's of commits; empty for the account's.
	Name, Email string
	// Pushes: the work is pushed to it. A clone or a fetch for a branch that could not be
	// pushed fails then, before an agent works.
	Pushes bool
	// Team: other machines push to it, too. A clone for an issue begins at its branch if that exists
	// already: another machine may have made it, whose claim somebody has deleted.
	Team bool
	// Alone names this machine, such as "ann on desk", if it takes no claims although others may. A clone
	// or a fetch for an issue whose claim (team.Key) another machine has fails with CodeIssueElsewhere.
	Alone, Claim string
	// Submodules: clones have the submodules of the commit that is checked out, and theirs.
	Submodules bool
	// Sign: commits are signed with the operator's key before they are pushed.
	Sign bool
	// Obeyed are the paths in it that decide what symphony itself reads and runs for the
	// project, such as ops/WORKFLOW.md; with a link to that file, the link and the file.
	Obeyed []string
}

// Kept are the commits of an issue's work on other machines that a mirror on this machine
// keeps.
type Kept struct {
	Mirror string `json:"mirror"` // its path
	Commit string `json:"commit"` // the newest
	// Commits are on no branch or tag of the remote and were not delivered, the newest first
	// and at most 100, such as "1a2b3c4 Fix the total".
	Commits []string `json:"commits"`
}

// CloneRequest asks to fill the new, empty workspace that a run holds, or to fetch into an
// older workspace. A clone checks Branch out: at its commit on the remote, if that is
// Delivered or descends from it, and if Base does not contain it; otherwise at Base.
type CloneRequest struct {
	Repository        Repository
	Branch, Delivered string
	// Look: an agent is at work in the workspace. A fetch then changes nothing there but its
	// remote references, and nothing at all if Branch is at Delivered on the remote.
	Look bool
	// Issue is the id of the issue, whose kept commit (Run.Keep) a clone begins at, unless
	// Base, the branch on the remote or Delivered contains it. Without an id a clone keeps
	// nothing.
	Issue   string
	Timeout time.Duration
	// Env is the operator's environment, after the login profile, where git reaches the
	// remote. Git is found by its PATH. Git, ssh and credential helpers inherit it.
	Env []string
	// CheckoutEnv is the environment on the machine of the workspace, if that is another
	// machine.
	CheckoutEnv []string
}

// CloneAnswer is the name of the base and the commit that is checked out.
type CloneAnswer struct {
	Base, Commit string
	BaseCommit   string // the commit of Base
	Kept         string // the commit that was kept of the issue before; empty for none
	// Pushed is the commit of Branch on the remote, if others have pushed it on top of
	// Delivered; empty if not. Then Branch and Delivered are as in the request.
	Pushed, Branch, Delivered string
	// InTheWay is the commit of the branch on the remote, if someone else has made the branch
	// before the first delivery, which will fail; empty if not.
	InTheWay string
	// Found is the branch of a team that exists although no delivery to it is known: the clone begins
	// there. Nil for none.
	Found *FoundBranch
}

// FoundBranch is a branch of a team that exists although no delivery to it is known.
type FoundBranch struct {
	Commit string
	// Origin is the author of its last commit, such as "Ann <ann@example.com>"; empty if this
	// machine has pushed it.
	Origin string
}

// KeepRequest names the issue whose commits Run.Keep keeps.
type KeepRequest struct {
	Repository Repository
	Issue      string // its id
	Timeout    time.Duration
	Env        []string // of CloneRequest
}

// FetchAnswer is the base that a fetch found.
type FetchAnswer struct {
	Base, Commit string
	Behind       int     // commits of Base that HEAD of the workspace does not contain
	Pushed       *Pushed // others' pushes to the branch of the workspace; nil for none
	// Found is the same as that of CloneAnswer.
	Found *FoundBranch
	// Dropped is an earlier commit of Base, whose history was replaced since, if HEAD is built on
	// commits that Base has dropped.
	Dropped string
}

// Rebase is the command that brings the agent's commits from a commit which the base has dropped
// to the present base.
func Rebase(dropped string) string { return "git rebase --onto origin/HEAD " + dropped }

// MaxPushed is how many commits a Pushed names at most.
const MaxPushed = 20

// Pushed lists others' commits on the branch since symphony's last delivery, such as a commit
// of a person.
type Pushed struct {
	Commit  string // the newest commit
	Total   int    // number of commits that neither the last delivery nor the base contains
	Commits []PushedCommit
	// Taken: HEAD of the workspace contains Commit. Otherwise Why gives the reason: "the
	// workspace has commits that were not pushed".
	Taken bool
	Why   string
	// OfBase: no person has pushed. Symphony has merged the base into the branch, which demands
	// that for a merge of the pull request.
	OfBase bool
	// TakenWithoutAgent: a fetch can move the workspace to Commit once the agent that is at
	// work there ends.
	TakenWithoutAgent bool
}

// PushedCommit is a commit that others pushed.
type PushedCommit struct{ Author, Subject string }

// DeliverRequest asks to push HEAD of the workspace that a run holds to Branch. No process may
// change the workspace meanwhile.
type DeliverRequest struct {
	Repository Repository
	Branch     string
	// Delivered is the commit that symphony pushed to Branch last, perhaps with another
	// address of the repository; empty if it never did.
	Delivered string
	// Commit, if set, is the commit that was reviewed. Nothing is pushed if HEAD is at another
	// commit.
	Commit string
	// Try asks only whether the commits could be pushed, as far as they decide that
	// themselves.
	Try bool
	// Again pushes the commits again if Delivered has them all and Branch was deleted since.
	Again bool
	// TakeDropped pushes commits that the base has dropped, too.
	TakeDropped bool
	// Fence, if set, calls push with a change of this machine's claim of the issue. The delivery calls
	// it when nothing but the push is left to do, and not at all if there is nothing to push. push
	// changes the claim in the same push: without the claim nothing is pushed (CodeClaimLost), also if
	// this machine has another content there by now. A remote that has the new content has it from a
	// push whose answer was lost.
	Fence func(ctx context.Context, push PushFenced) error
	// ClaimsBranch is the branch of the remote with the claims, such as symphony-claims; empty if
	// they are references.
	ClaimsBranch string
	Check        Check
	// Commands are those of which Look.Proof tells: files that they may run. Empty for none.
	Commands string
	Timeout  time.Duration
	Env      []string // of CloneRequest
}

// Check is a command of the operator that decides, before a push, whether the commits may be pushed.
type Check struct {
	Script  string // for sh; empty for none
	Timeout time.Duration
	Env     []string // that of hooks, without secrets of symphony
}

// DeliverAnswer describes a push.
type DeliverAnswer struct {
	// Commit is HEAD, or its signed copy. Base is the name of the base.
	Commit, Base string
	// Head is HEAD as the delivery found it, if Commit is its signed copy; otherwise empty.
	Head string
	// BaseCommit is the commit of Base if a person has taken commits that it has dropped.
	BaseCommit string
	// Commits counts the commits of HEAD that neither Base nor Delivered contains. If there
	// are none, nothing was pushed.
	Commits int
	Look
}

// Look is what people should know about the commits that are on the branch and not on Base.
type Look struct {
	// Obeyed are those paths of the repository's Obeyed that they change.
	Obeyed []string
	// Unrelated: they have no common history with Base.
	Unrelated bool
	// Markers are the files in which a merge has left its marks.
	Markers []string
	// Proof are files that they change and that Verify or other checks may run or obey, such as
	// Makefile or check.sh.
	Proof []string
	// DeletedTests and ChangedTests are tests of Base.
	DeletedTests, ChangedTests []string
}

// PushFenced pushes commits together with the change of a claim, and returns the object of the claim
// then.
type PushFenced func(claim team.Change) (object string, err error)

// CheckOutRequest asks for a checkout of the commit of the workspace that a run holds. No
// process may change the workspace meanwhile.
type CheckOutRequest struct {
	// Commit is HEAD as it was read, Branch the branch that it is on; empty if it is on none.
	Commit, Branch string
	// Verify is the command that will run in the checkout.
	Verify string
	// Repository is the workflow's description of the repository: who commits in the checkout,
	// and whether it contains submodules. The URL is the address that the workspace was cloned
	// from.
	Repository Repository
	Timeout    time.Duration
	// the operator's environment on the machine of the workspace, after the login profile
	Env []string
}

// CheckOutAnswer is a checkout: a repository of its own, with a clean work tree of the commit.
type CheckOutAnswer struct {
	// Space is the workspace with other directories: Path is the work tree, and TmpDir and
	// CacheDir are for the commands that run there.
	Space Workspace
	// Proof is that of Look.
	Proof []string
}

// WorkspaceDelivery asks to deliver the workspace at Path. Its git commands are marked with
// RunID.
type WorkspaceDelivery struct {
	DeliverRequest
	Path, RunID string
	// Source is the repository on this machine that the workspace was cloned from. Without a
	// URL in DeliverRequest the work goes to origin of Source, or to Source if it is without
	// an origin.
	Source Repository
	// DeliveredTo is the Address to which the commit Delivered was pushed; empty if there is
	// none. Another repository does not have that commit.
	DeliveredTo string
}

// WorkspaceDelivered is where the work was pushed, without a password.
type WorkspaceDelivered struct {
	DeliverAnswer
	Address string
}

// Origin is the address of a repository, and a commit that it contained.
type Origin struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
	// a newer such commit, with which the work is compared; empty if none was fetched
	Base string `json:"base,omitempty"`
	// Branch is the name of the base then. Dropped are earlier commits of that branch, with spaces
	// between, which it no longer contained at a later fetch: its history was replaced.
	Branch  string `json:"branch,omitempty"`
	Dropped string `json:"dropped,omitempty"`
}

// Mirrors are the mirrors of repositories on a machine whose git reaches the remotes. Through
// them, runs on other machines clone and deliver: bundles and packs travel between the mirrors
// of both machines, and only this machine needs credentials.
type Mirrors interface {
	// Mirror returns the mirror of a repository. Env is as in CloneRequest.
	Mirror(r Repository, env []string) Mirror
	// Claims returns the claims of issues in a repository. branch is as ClaimsBranch in
	// DeliverRequest.
	Claims(r Repository, branch string, env []string) Claims
}

const (
	// ClaimRefs is the directory of the references with claims.
	ClaimRefs = "refs/symphony/claims/"
	// UsualClaimsBranch is the branch with the claims of a remote that takes no other references, as
	// docs/team.md names it.
	UsualClaimsBranch = "refs/heads/symphony-claims"
)

// TrialClaim begins the keys of the claims that Claims.Try makes for a moment.
const TrialClaim = "try-"

// Claims are the claims of issues in the remote of a repository, such as
// refs/symphony/claims/3f2a9c1b04de55aa10c7. It may be used concurrently, also by several processes.
//
// Its errors are CodeClaimsUnavailable if the remote can't be asked or has not answered, and
// CodeClaimsRefused if the remote takes no claims, whoever has them.
type Claims interface {
	team.Remote
	// Try creates, reads, replaces and deletes a claim of no issue, to find out whether the remote
	// takes claims.
	Try(ctx context.Context) error
	// Tip returns the commit of a branch, which another machine may have pushed; empty if there is no
	// such branch.
	Tip(ctx context.Context, branch string) (commit string, err error)
}

// Mirror is the mirror of a repository.
type Mirror interface {
	// Address is the address of the remote without a password.
	Address() string
	// Unchanged reports whether a branch on the remote is at the commit that was delivered.
	Unchanged(ctx context.Context, branch, delivered string) (bool, error)
	// Bundle fetches from the remote, and returns a bundle of all branches and tags without
	// the contents of the commits in have.
	Bundle(ctx context.Context, r CloneRequest, have []string) (BundleAnswer, io.ReadCloser, error)
	// Deliver pushes the work of a run on another machine.
	Deliver(ctx context.Context, r DeliverRequest, w Work) (DeliverAnswer, error)
	// Keep brings the commit of such work into the mirror, which lends it to the next clone
	// for the issue. Forget keeps it no longer. Errors of Keep: FaultHere if this machine is
	// the reason, such as a full disk, so that it may succeed later.
	Keep(ctx context.Context, issue string, w Work) error
	Forget(ctx context.Context, issue string) error
	Merges
}

// Merges brings a branch up to date with its base, without a workspace and without an agent.
type Merges interface {
	// TryMerge finds out whether a merge of the base into a branch would conflict. It asks the
	// remote only if it does not know the commits.
	TryMerge(ctx context.Context, r MergeRequest) (MergeAnswer, error)
	// MakeMerge fetches, and makes a commit that merges the base into the branch, which must be
	// at Head. There is none if the branch contains the base, or if there are conflicts.
	MakeMerge(ctx context.Context, r MergeRequest) (MergeAnswer, error)
	// PushMerge pushes such a commit, unless the branch has moved meanwhile.
	PushMerge(ctx context.Context, r MergeRequest, commit string) error
}

// MergeRequest names a branch, its newest commit, and the base. BaseCommit is the commit of the
// base for TryMerge; MakeMerge takes the newest.
type MergeRequest struct{ Branch, Head, Base, BaseCommit string }

// MergeAnswer describes a merge of a base into a branch.
type MergeAnswer struct {
	BaseCommit string   // that was merged
	Contained  bool     // the branch contains it already
	Conflicts  []string // files in which they conflict
	Commit     string   // of MakeMerge
}

// BundleAnswer describes a bundle, and the clone to make from it.
type BundleAnswer struct {
	CloneAnswer
	Head string // the reference of the remote's default branch
}

// Work is the contents of a workspace on another machine.
type Work struct {
	Commit string   // HEAD, empty for none
	Cloned Origin   // the origin of the workspace
	Tips   []string // commits that the mirror of that machine contains, with all their objects
	// GitDir is the git directory of the workspace, which contains the content of files of Git
	// LFS; empty if it is on another machine.
	GitDir string
	// Pack writes a pack of Commit and its history, without the contents of commits in have
	// that the machine knows. The pack is not trusted.
	Pack func(ctx context.Context, have []string, to io.Writer) error
}

// CheckCommit returns an error if work is at another commit than want, which was read before;
// want is empty for any, and at is empty before the first commit.
func CheckCommit(at, want string) error {
	if want == "" || at == want {
		return nil
	}
	message := fmt.Sprintf("the work is at commit %s instead of %s", at, want)
	if at == "" {
		message = fmt.Sprintf("the work has no commit any more, instead of %s", want)
	}
	return reconcile.NewError("work_moved", message, "read the changes again")
}

// RepositorySteps are the steps of a clone, a fetch and a delivery on the machine of the
// workspace, if its worker is on another machine. Runs that are served implement it. No
// program or setting of the workspace takes part in them, and the machine needs no access to
// the remote.
type RepositorySteps interface {
	// ReadTips reads the commits of the mirror and the workspace.
	ReadTips(ctx context.Context, r TipsRequest) (TipsAnswer, error)
	// AddToBundle adds bytes to the bundle from which CloneBundle fills the workspace, or
	// FetchBundle updates it as Fetch does.
	AddToBundle(ctx context.Context, p Part) error
	CloneBundle(ctx context.Context, r BundleRequest) error
	FetchBundle(ctx context.Context, r BundleRequest) (FetchAnswer, error)
	// MakePack makes the pack of Work. ReadPack reads bytes of it, as many as fit into a Part.
	MakePack(ctx context.Context, r PackRequest) (PackAnswer, error)
	ReadPack(ctx context.Context, offset int64) (Part, error)
	// RecordDelivered records that HEAD of the workspace is on a branch of the remote.
	RecordDelivered(ctx context.Context, r DeliveredRequest) error
}

// TipsRequest names the repository by its address without a password. Work asks for the commit
// of the workspace, too.
type TipsRequest struct {
	Address string
	Work    bool
}

// TipsAnswer is Work without its pack.
type TipsAnswer struct {
	Tips   []string
	Commit string
	Cloned Origin
}

// PartSize is the largest number of bytes in a Part. A slow link has to carry one within half a minute, and
// one travels at a time.
const PartSize = 1 << 20

// Part are bytes of a bundle or a pack.
type Part struct {
	Offset int64
	Data   []byte
}

// BundleRequest asks to fill or update the workspace that a run holds from the bundle that was
// added. Env is CheckoutEnv of CloneRequest.
type BundleRequest struct {
	BundleAnswer
	Size        int64  // bytes of the bundle
	Address     string // as in TipsRequest
	Branch      string
	Delivered   string // as in CloneRequest
	Look        bool   // as in CloneRequest
	Name, Email string // as in Repository
	Env         []string
}

// PackRequest asks for the pack of Work.
type PackRequest struct {
	Address, Commit string
	Have            []string
}

// PackAnswer is the size of the pack in bytes.
type PackAnswer struct{ Size int64 }

// DeliveredRequest names a delivered commit, and where it was delivered. BaseCommit is as in
// DeliverAnswer.
type DeliveredRequest struct{ Address, Branch, Commit, BaseCommit string }

// Within calls f with a limit on its time. The error tells whether the limit was reached or
// ctx ended.
func Within[A any](
	ctx context.Context,
	limit time.Duration,
	code, what string,
	f func(context.Context) (A, error),
) (A, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := f(limited)
	if err == nil || limited.Err() == nil {
		return answer, err
	}
	if ctx.Err() != nil {
		return answer, fmt.Errorf("%s: %w", what, ctx.Err())
	}
	known, ok := errors.AsType[*reconcile.Error](err)
	if !ok {
		known = &reconcile.Error{Message: err.Error()}
	}
	took := text.Took(limit.Milliseconds())
	return answer, &reconcile.Error{
		Code:    code,
		Message: fmt.Sprintf("%s took longer than %s: %s", what, took, known.Message),
		Hint:    known.Hint,
	}
}

// FaultHere is an error of this machine in work that another machine takes part in.
type FaultHere struct{ Err error }

func (e FaultHere) Error() string { return e.Err.Error() }
func (e FaultHere) Unwrap() error { return e.Err }

// Codes of errors of Clone, Fetch and Deliver.
const (
	// CodeRepositoryUnavailable: the remote can't be reached, or lacks the branch.
	CodeRepositoryUnavailable = "repository_unavailable"
	// CodeGitKilled: a signal ended git twice, which is no evidence about the remote.
	CodeGitKilled = "git_killed"
	// CodeGitLimit: an agent's files make git need more memory, or print more, than it may.
	CodeGitLimit = "git_limit"
	// CodeNoIdentity: git knows no name or address for commits in a clone.
	CodeNoIdentity = "git_identity_missing"
	// CodeInvalidBranch: git does not allow the name of a branch, or work is never pushed to
	// it.
	CodeInvalidBranch = "invalid_branch"
	// CodeBranchInTheWay: a branch of the remote, such as symphony, keeps git from making
	// branches for issues, such as symphony/ABC-1.
	CodeBranchInTheWay = "branch_in_the_way"
	// CodeBranchCheckedOut: a person checked the branch out where it would be pushed.
	CodeBranchCheckedOut = reconcile.CodeBranchCheckedOut
	// CodeDeliveryFailed: nothing was pushed, or the result is unknown.
	CodeDeliveryFailed = "delivery_failed"
	// CodeWorkspaceBroken: someone removed .git from the workspace, so that no work in it could
	// be pushed.
	CodeWorkspaceBroken = "workspace_broken"
	// CodeRepositoryChanged: the workspace was cloned from another repository.
	CodeRepositoryChanged = "repository_changed"
	// CodeIncomplete: a clone of the commits to push would lack files of submodules or of Git
	// LFS.
	CodeIncomplete = reconcile.CodeIncomplete
	// CodeDeliveryRefused: a rule of the remote, or the operator's check, refuses the commits.
	CodeDeliveryRefused = reconcile.CodeDeliveryRefused
	// CodeBaseReplaced: the base has dropped commits on which these are built.
	CodeBaseReplaced = reconcile.CodeBaseReplaced
	// CodeDeliveryConflict: someone else changed the branch; it stays as it is.
	CodeDeliveryConflict = reconcile.CodeDeliveryConflict
	// CodeClaimLost: the remote has another claim than the request expects: another machine has the
	// issue, a person has removed the claim, or this machine has renewed it.
	CodeClaimLost = team.CodeLost
	// CodeIssueElsewhere: another machine has the issue, and this one takes no claims.
	CodeIssueElsewhere = reconcile.CodeIssueElsewhere
)

// Codes of errors of Claims, and of Deliver with a claim.
const (
	// CodeClaimsUnavailable: the remote can't be reached, or its answer was lost.
	CodeClaimsUnavailable = "claims_unavailable"
	// CodeClaimsRefused: the remote refuses the references or the branch of the claims, or the branch is in
	// use for something else.
	CodeClaimsRefused = team.CodeRefused
	// CodeClaimsNotAtomic: the remote can't push a branch and a claim at once.
	CodeClaimsNotAtomic = "claims_not_atomic"
)
