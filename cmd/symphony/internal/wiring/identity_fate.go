package wiring

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host"
)

// lookBound is how long git may look for what became of a file: in a huge repository on a slow
// disk that would take long, and the hint is not worth it.
const lookBound = 3 * time.Second

// Fate is what has become of a branch in a repository of this machine.
type Fate struct {
	Gone bool   // there is no branch of that name
	In   string // the branch with its commits: the base, or the one that is checked out
}

// FateOf looks where the commits of a branch are. base is empty if it is not known.
func FateOf(ctx context.Context, p *Project, dir, branch, commit, base string) (f Fate) {
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

// gitSays returns the output of git in a directory.
func gitSays(ctx context.Context, p *Project, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = host.Scrub(p.Environ(), host.GitRepositoryVars...)
	said, err := cmd.Output()
	return string(said), err
}
