package host

import "context"

// Changes lists the changes of the work in a workspace. It runs no program that a repository
// names.
type Changes interface {
	// Fingerprint returns a text that changes when the work in a directory progresses.
	Fingerprint(ctx context.Context, dir string) (string, error)
	// ChangedFiles returns the files of the request that the work changed since its base.
	ChangedFiles(ctx context.Context, r ChangedRequest) ([]string, error)
	// IgnoredFiles lists files in the work tree that git ignores, such as .env.
	IgnoredFiles(ctx context.Context, r IgnoredRequest) (Ignored, error)
	// KeepEnd keeps the contents of a workspace, so that Diff can compare them as long as the
	// workspace exists. The answer is nil without a repository.
	KeepEnd(ctx context.Context, dir string) (*WorkEnd, error)
}

// ChangedRequest asks which of Files, such as Makefile, the work in Path changed.
type ChangedRequest struct {
	Path  string
	Files []string
}

// IgnoredRequest asks for at most Most files in Path that git ignores.
type IgnoredRequest struct {
	Path string
	Most int
}

// Ignored are files that git ignores.
type Ignored struct {
	Files []string // the first of them
	// Count is the number of all ignored files. A directory that is ignored as a whole counts
	// as 1.
	Count int
}
