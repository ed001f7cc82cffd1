package wiring

import (
	"context"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// lookBound is how long git may look for what became of a file or of a branch: in a huge
// repository on a slow disk that would take long, and the hint is not worth it.
const lookBound = 3 * time.Second

// Fate is what has become of a branch in a repository of this machine.
type Fate struct {
	Gone bool   // there is no branch of that name
	In   string // the branch with its commits: the base, or the one that is checked out
}

// FateOf looks where the commits of a branch are. base is empty if it is not known.
func FateOf(ctx context.Context, p *Project, dir, branch, commit, base string) (f Fate) {
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	found, err := referencesOf(ctx, dir, p.Environ(), "--format=%(refname)", "refs/heads/"+branch)
	if err != nil {
		return f
	}
	f.Gone = len(found) == 0
	const format = "--format=%(HEAD)%(refname:lstrip=2)"
	in, err := referencesOf(ctx, dir, p.Environ(), "--contains="+commit, format, "refs/heads")
	if err != nil {
		return f
	}
	for _, name := range in {
		name, isHere := strings.CutPrefix(name, "*")
		if name != branch && (name == base || isHere && f.In == "") {
			f.In = name
		}
	}
	return f
}

// referencesOf returns the words that git for-each-ref prints about a repository.
func referencesOf(ctx context.Context, dir string, env []string, args ...string) ([]string, error) {
	found, err := gitcmd.Ask(ctx, dir, env, append([]string{"for-each-ref"}, args...)...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(found), nil // no name has blanks
}
