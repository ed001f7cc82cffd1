package host

import (
	"context"
	"io"
	"time"

	"github.com/symphony-cron/symphony/reconcile"
)

// Roots are the operations of a machine on workspace roots, and on workspaces that no run
// holds.
type Roots interface {
	// FreeBytes returns the free space of a root's volume. If the root does not exist yet, the
	// nearest directory above it counts.
	FreeBytes(ctx context.Context, root string) (int64, error)
	// Workspaces lists the workspaces in a root; none if the root does not exist. The error
	// names the records that can't be read; the others are returned.
	Workspaces(ctx context.Context, root string) ([]WorkspaceRecord, error)
	// Inspect describes a workspace for operators. It changes nothing, and runs no program
	// that a repository names.
	Inspect(ctx context.Context, r WorkspaceRequest) (InspectAnswer, error)
	// Diff writes the changes of the work in a workspace since its base commit, as git diff
	// does, and reports whether there is a repository with the commits or trees to compare. It
	// changes nothing, and runs no program that a repository names.
	Diff(ctx context.Context, r WorkspaceRequest, w io.Writer) (found bool, err error)
	// Purge deletes removed workspaces whose time in the trash is over.
	Purge(ctx context.Context, t ProjectTrash) (PurgeAnswer, error)
}

// ProjectTrash names the removed workspaces of a project in a workspace root, which need not
// exist.
type ProjectTrash struct {
	Root, Project string
	// KeepRemoved is how long removed workspaces of the project are kept. With less than
	// MinFree bytes of free space they are deleted at once.
	KeepRemoved time.Duration
	MinFree     int64
	Now         time.Time
}

// WorkspaceRecord is a workspace that some run used.
type WorkspaceRecord struct {
	reconcile.Workspace
	StateDir, RunID string // of the last run that held it
}

// WorkspaceRequest names the directory of a workspace.
type WorkspaceRequest struct {
	Path string
	// Commits asks Inspect for the newest commits of the work, so many at most. Commits of a
	// clone, and the output of Diff, are read as a delivery would push them.
	Commits int
	// Hashed lets Inspect read a clone in this way also without Commits: while its agent works, it
	// could lead git to the objects of another repository.
	Hashed bool
	// Commit, if set, is where HEAD of a clone must be: else Diff returns an error.
	Commit string
	// From and To, if set, are the trees or commits that Diff compares instead, as a WorkEnd
	// names them.
	From, To string
}

// CodeEndNotKept is the code of the error that an attempt's files can't be compared any more.
const CodeEndNotKept = "not_found"

// WorkEnd is the contents of a workspace at the end of a run, and the changes since the last
// kept end of an earlier run, or else since the work left its base.
type WorkEnd struct {
	// git's name of the work tree, with new files and without ignored ones
	Tree    string `json:"tree"`
	Base    string `json:"base"` // the commit at which the work left its base
	Files   int    `json:"files"`
	Added   int    `json:"added"` // lines
	Removed int    `json:"removed"`
	Commits int    `json:"commits"`
	// Uncommitted is the number of files with changes that were not committed.
	Uncommitted int `json:"uncommitted"`
}

// InspectAnswer describes a workspace.
type InspectAnswer struct {
	Exists bool       // as a directory
	Git    *GitStatus // nil without a repository
	// Commits are the commits that Base of Git does not contain, newest first.
	Commits []GitCommit
}

// GitCommit is a commit with the first line of its message.
type GitCommit struct {
	ID      string `json:"commit"`
	Subject string `json:"subject"`
}

// GitStatus describes a workspace's repository for operators.
type GitStatus struct {
	Branch *string `json:"branch"` // nil if HEAD is detached
	Commit *string `json:"commit"` // nil if there is none yet
	// Base is the branch that the work is compared with: the default branch of origin,
	// otherwise main or master; nil if there is none. In a clone of symphony's it stands for
	// the commit that symphony found there at the clone, or at the last fetch. Ahead counts
	// the commits of HEAD that Base does not contain.
	Base  *string `json:"base"`
	Ahead *int    `json:"commits_ahead"`
	// Elsewhere are branches, stashes (stash@{0}) and linked worktrees (worktree wt) with commits
	// that neither HEAD, Base nor a remote contains, and that were not there before the first
	// agent. At most 20 are named.
	Elsewhere []string `json:"commits_elsewhere,omitempty"`
	// Remote is origin's branch of the same name, as of the last push or fetch here; nil if
	// there is none. Unpushed counts the commits of HEAD that it does not contain.
	Remote   *string `json:"remote_branch"`
	Unpushed *int    `json:"commits_not_pushed"`
	// Count is the number of files in the work tree with changes that are not committed,
	// Changed the first of them.
	Count   int         `json:"changed_count"`
	Changed []GitChange `json:"changed"`
}

// GitChange is a file with its git status: "?" if it is untracked, "u" if it is in conflict,
// otherwise the two letters of the short format for the index and the work tree, with a dot
// for no change.
type GitChange struct {
	Status string `json:"status"`
	Path   string `json:"path"`
}

// ExamineRequest names a workspace by its root and its key.
type ExamineRequest struct{ Root, Key string }

// Unsaved is work that exists nowhere else: its description, empty if there is none, and
// names.
type Unsaved struct {
	Work  string
	Items []string
}

// ExamineAnswer describes a workspace that may be removed.
type ExamineAnswer struct {
	Unsaved Unsaved
	InUse   bool  // a process holds its lease
	Bytes   int64 // that it occupies on disk
}

// TrashRequest names an entry of a root's trash by its path.
type TrashRequest struct{ Root, Path string }

// Removed is a workspace in the trash.
type Removed struct {
	// IssueID is empty, and Identifier the key of the workspace, if its record is lost. Then
	// it is not Restorable.
	IssueID, Identifier string
	Path                string
	Bytes               int64
	At                  time.Time // when it was moved there
	Due                 time.Time // from then on a pass deletes it, unless it contains unsaved work
	Unsaved             Unsaved
	Discarded           bool // an operator accepted the loss of Unsaved
	Restorable          bool
}

// RestoreAnswer is the path of the restored workspace.
type RestoreAnswer struct{ Path string }

// PurgeAnswer counts the deleted entries, and names entries that could not be deleted or are
// kept because of unsaved work.
type PurgeAnswer struct {
	Removed     int
	Undeletable []string
	Unsaved     map[string]string // path to work
}

// LeaveRequest names a root and a state directory. Dissolve also removes symphony's files in
// the root, unless something is left there that is not symphony's.
type LeaveRequest struct {
	Root, StateDir string
	Dissolve       bool
}
