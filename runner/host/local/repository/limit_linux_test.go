package repository

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// A commit that lists a thousand million files is not delivered, because nobody can tell which
// submodules it has. If it is on the remote, no clone lets git take more than its memory to
// check it out.
func TestTreeBomb(t *testing.T) {
	test.Expensive(t)
	before := maxMemory
	maxMemory = 64 << 20 // which git fills at once
	t.Cleanup(func() { maxMemory = before })
	p := newPlace(t)
	p.mustClone("one")
	commit := p.sh(`cd one
		blob=$(git hash-object -w --stdin </dev/null)
		tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '100644 blob %s\t%s\n' $blob $n; done | git mktree)
		for level in 1 2 3 4 5 6 7 8; do
			tree=$(for n in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\t%s\n' $tree $n; done | git mktree)
		done
		git update-ref HEAD $(git commit-tree -p HEAD -m bomb $tree); git rev-parse HEAD`)
	const reason = "git needs more than 64 MiB of memory"
	_, err := p.deliver("one", "")
	wantFault(t, err, host.CodeGitLimit, "look at the changes", reason)
	p.sh("git -C remote.git fetch -q ../one HEAD:refs/heads/work/two")
	_, err = p.clone("two", commit)
	wantFault(t, err, host.CodeGitLimit, "check out work/two", reason)
}
