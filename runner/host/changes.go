package host

import "context"

// Changes tells what the work in a workspace has changed. It runs no program that a repository
// names.
type Changes interface {
	// Fingerprint returns a text that changes when the work in a directory progresses.
	Fingerprint(ctx context.Context, dir string) (string, error)
	// ChangedFiles returns which of some files the work has changed since its base.
	ChangedFiles(ctx context.Context, r ChangedRequest) ([]string, error)
	// IgnoredFiles lists files in the work tree that git ignores, such as .env.
	IgnoredFiles(ctx context.Context, r IgnoredRequest) (Ignored, error)
	// KeepEnd keeps what a workspace contains, so that Diff can compare it as long as the
	// workspace exists. The answer is nil without a repository.
	KeepEnd(ctx context.Context, dir string) (*WorkEnd, error)
}

// ChangedRequest asks which of Files, such as Makefile, the work in Path has changed.
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
	// Count is the number of all. A directory that is ignored as a whole counts as one.
	Count int
}
