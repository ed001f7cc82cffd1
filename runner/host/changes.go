package host

import "context"

// Changes lists the changes of the work in a workspace. It runs no program that a repository
// names.
type Changes interface {
	// Fingerprint returns a text that changes when the work in a directory progresses.
	Fingerprint(ctx context.Context, dir string) (string, error)
	// KeepEnd keeps the contents of a workspace, so that Diff can compare them as long as the
	// workspace exists. The answer is nil without a repository.
	KeepEnd(ctx context.Context, dir string) (*WorkEnd, error)
}
