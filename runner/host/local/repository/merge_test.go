package repository

import (
	"os"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// A merge is tried without the remote if the mirror knows both commits. It tells the files in
// conflict.
func TestTryMerge(t *testing.T) {
	p := newPlace(t)
	p.mustClone("one")
	head := p.commit("one", "first")
	p.mustDeliver("one", "")
	q := host.MergeRequest{
		Branch:     "work/one",
		Head:       head,
		Base:       "main",
		BaseCommit: p.sh("git -C person rev-parse HEAD"),
	}
	try := func() host.MergeAnswer {
		t.Helper()
		return test.Must(p.mirror().TryMerge(t.Context(), q))
	}
	test.Equal(t, "the base is contained", try().Contained, true)
	q.BaseCommit = p.sh("cd person; echo x > other; git add .; git commit -qm other; git push -q; git rev-parse HEAD")
	test.Equal(t, "another file", try(), host.MergeAnswer{BaseCommit: q.BaseCommit})
	q.BaseCommit = p.sh("cd person; echo x > work.txt; git add .; git commit -qm work; git push -q; git rev-parse HEAD")
	test.Equal(t, "the same file", try().Conflicts, []string{"work.txt"})
	p.sh("mv remote.git away")
	test.Equal(t, "without the remote", try().Conflicts, []string{"work.txt"})
	q.BaseCommit = strings.Repeat("1", 40)
	_, err := p.mirror().TryMerge(t.Context(), q)
	wantFault(t, err, host.CodeRepositoryUnavailable)
}

// git names no file for a conflict of renamed directories.
func TestTryMergeOfRenamedDirectories(t *testing.T) {
	p := newPlace(t)
	p.sh("cd person; mkdir z; echo a > z/a; echo b > z/b; git add .; git commit -qm z; git push -q")
	p.mustClone("one")
	head := p.sh("cd one; mkdir x y; git mv z/a x/a; git mv z/b y/b; git commit -qm split; git rev-parse HEAD")
	p.mustDeliver("one", "")
	base := p.sh("cd person; echo new > z/new; git add .; git commit -qm new; git push -q; git rev-parse HEAD")
	q := host.MergeRequest{Branch: "work/one", Head: head, Base: "main", BaseCommit: base}
	tried := test.Must(p.mirror().TryMerge(t.Context(), q))
	test.Equal(t, "conflicts", tried.Conflicts, []string{renamedDirectories})
	made := test.Must(p.mirror().MakeMerge(t.Context(), q))
	test.Equal(t, "the commit of a merge", made.Commit, "")
}

// A merge of the base is made on top of the branch, and pushed only if nobody has pushed there
// meanwhile.
func TestMakeMerge(t *testing.T) {
	p := newPlace(t)
	p.mustClone("one")
	head := p.commit("one", "first")
	p.mustDeliver("one", "")
	base := p.sh("cd person; echo x > other; git add .; git commit -qm other; " +
		"git push -q; git rev-parse HEAD")
	q := host.MergeRequest{Branch: "work/one", Head: head, Base: "main"}
	m := p.mirrorOf(host.Repository{URL: p.remote, Name: "Symphony", Email: "symphony@example.org"})
	made := test.Must(m.MakeMerge(t.Context(), q))
	test.Equal(t, "base", made.BaseCommit, base)
	p.wantRemote(base+" main", head+" work/one")
	person := p.sh("cd person; git fetch -q; git checkout -q work/one; git commit -q --allow-empty -m person; git push -q; git rev-parse HEAD")
	wantFault(t, m.PushMerge(t.Context(), q, made.Commit), host.CodeDeliveryFailed)
	p.wantRemote(base+" main", person+" work/one")
	_, err := m.MakeMerge(t.Context(), q)
	wantFault(t, err, host.CodeDeliveryFailed, "instead of")

	q.Head = person
	made = test.Must(m.MakeMerge(t.Context(), q))
	test.OK(t, m.PushMerge(t.Context(), q, made.Commit))
	p.wantRemote(base+" main", made.Commit+" work/one")
	test.Equal(t, "the commit", p.sh("git -C remote.git log -1 --format='%P %an %ce %s' work/one"),
		person+" "+base+" Symphony symphony@example.org Merge branch 'main' into work/one")
	test.Equal(t, "its files", p.sh("git -C remote.git ls-tree --name-only work/one"), "file\nother\nwork.txt")

	q.Head = made.Commit
	again := test.Must(m.MakeMerge(t.Context(), q))
	test.Equal(t, "the base is contained", []any{again.Contained, again.Commit}, []any{true, ""})
	p.sh("cd person; git checkout -q main; echo y > work.txt; git add .; git commit -qm work; git push -q")
	test.Equal(t, "a conflict", test.Must(m.MakeMerge(t.Context(), q)).Conflicts, []string{"work.txt"})
}

// A git that can't merge without a work tree is named.
func TestMergeByOldGit(t *testing.T) {
	p := newPlace(t)
	p.mustClone("one")
	head := p.commit("one", "first")
	p.mustDeliver("one", "")
	base := p.sh("cd person; echo x > other; git add .; git commit -qm other; git push -q; git rev-parse HEAD")
	p.sh(`mkdir old; { echo '#!/bin/sh'; echo 'case "$*" in *" merge-tree "*) exit 129; esac'
		echo "exec $(command -v git) \"\$@\""; } > old/git; chmod +x old/git`)
	p.env[0] = "PATH=" + p.dir + "/old:" + os.Getenv("PATH")
	q := host.MergeRequest{Branch: "work/one", Head: head, Base: "main", BaseCommit: base}
	const why = "git is older than 2.38"
	_, err := p.mirror().TryMerge(t.Context(), q)
	wantFault(t, err, host.CodeRepositoryUnavailable, why)
	_, err = p.mirror().MakeMerge(t.Context(), q)
	wantFault(t, err, host.CodeDeliveryFailed, why)
}
