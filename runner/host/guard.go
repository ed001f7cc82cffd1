package host

import "context"

// GitGuard undoes an agent's changes to the settings of git in its workspace, such as
// core.hooksPath or .git/hooks/post-commit.
type GitGuard interface {
	// GuardGit records the git settings and hooks of the workspace before an agent can change
	// them; RestoreGit restores them. RunHook refuses to run a hook if git could run a program
	// there that an agent left elsewhere, or if not everything could be read.
	GuardGit(ctx context.Context, r GuardGitRequest) error
	RestoreGit(ctx context.Context) (GitRestored, error)
}

// GuardGitRequest describes the places that an agent can write apart from its workspace.
type GuardGitRequest struct {
	// Anywhere: the agent can write wherever the account can. Writable are the directories
	// opened to it.
	Anywhere bool
	Writable []string
	// Env is the environment of hooks, which git inherits there.
	Env []string
}

// GitRestored lists the settings and files that were restored.
type GitRestored struct {
	// Names are settings and files: core.hooksPath, hooks/post-commit.
	Names []string
	// Locks are files such as .git/index.lock, which commands of git have left that were
	// killed. They were removed.
	Locks []string
	// Incomplete lists, for the log, the steps that could not be finished and will be tried
	// again; empty if all is done.
	Incomplete string
	// Untrusted is the reason why no hook may run in the workspace: an agent left something
	// that git could run, or not everything could be read. Empty if hooks may run.
	Untrusted string
}

// CodeUntrusted: no hook may run in a workspace, see GitRestored.Untrusted.
const CodeUntrusted = "workspace_untrusted"

// ObeyedRequest asks which files git obeys with an address. Without an address these are the
// settings of the account.
type ObeyedRequest struct {
	Address string   // of repository.url
	Env     []string // of the operator
	Home    string   // the home directory in Env
}
