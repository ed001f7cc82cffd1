package host

import "context"

// Paths answers questions about paths of a machine. It changes nothing, and runs no program
// that a repository names.
type Paths interface {
	// Existing returns the paths that exist. It follows no links.
	Existing(ctx context.Context, list []string) ([]string, error)
	// Resolve returns the paths without links, in the same order. A path that does not exist
	// is resolved as far as it does: /tmp/link/new is /var/new if /tmp/link leads to /var.
	Resolve(ctx context.Context, list []string) ([]string, error)
	// GitDirs finds the git directories of the repository that a directory is in.
	GitDirs(ctx context.Context, r GitDirsRequest) (GitDirs, error)
	// Launcher finds the program, such as npx, that reads files to decide which program a
	// command starts.
	Launcher(ctx context.Context, r LaunchRequest) (Launcher, error)
}

// GitDirsRequest asks about the repository that Path is in.
type GitDirsRequest struct {
	Path string
	// Opened are directories that the agent can write besides the workspace.
	Opened []string
}

// GitDirs are the directories of a repository.
type GitDirs struct {
	// Writable are the directories that git commit writes, such as /home/me/app/.git.
	Writable []string
	// Root is the root of the main repository, also for a worktree of it.
	Root string
}

// LaunchRequest is a shell command that is started in Dir, with the PATH and the home directory
// of its shell. Without a workspace Dir is empty.
type LaunchRequest struct {
	Dir                 string
	Command, Path, Home string
	Writable            []string // directories that an agent can write
}

// Launcher is a program that decides by files which other program it starts, such as npx.
type Launcher struct {
	// Program is empty if the command starts none.
	Program string
	// Files in the workspace, or in a directory that an agent can write, decide which program
	// is started.
	Files []string
}
