package repository

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // as git does
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/patch"
	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// programs are settings and hooks of a workspace's repository by which git would run ../pwn,
// or push somewhere else.
const programs = `
	for hook in pre-push reference-transaction post-checkout pre-auto-gc post-index-change \
		fsmonitor-watchman push-to-checkout; do
		mkdir -p .git/hooks; cp ../pwn .git/hooks/$hook
	done
	for key in core.sshCommand core.fsmonitor core.alternateRefsCommand core.askPass core.pager \
		core.editor core.gitProxy credential.helper uploadpack.packObjectsHook gpg.program \
		diff.external filter.x.clean filter.x.smudge filter.x.process alias.push alias.pack-objects \
		alias.rev-list alias.ls-remote sequence.editor ssh.variant remote.origin.receivepack \
		remote.origin.uploadpack remote.origin.vcs; do
		git config $key "$PWD/../pwn"
	done
	git config core.hooksPath .git/hooks; git config filter.x.required true; git config push.gpgSign true
	git config push.followTags true; git config push.recurseSubmodules on-demand; git config push.default matching
	git config remote.origin.url "ext::$PWD/../pwn"; git config remote.origin.pushurl "$PWD/../evil.git"
	git config remote.origin.mirror true
	git config --add remote.origin.push '+refs/*:refs/*'; git config remote.pushDefault evil
	git config protocol.ext.allow always
	git config url."$PWD/../evil.git".insteadOf "$PWD/../remote.git"
	git config url."$PWD/../evil.git".pushInsteadOf "$PWD/../remote.git"
	git config remote.origin.promisor true; git config extensions.partialClone origin
	printf '[include]\n\tpath = ../../pwn-config\n' >> .git/config; cp .git/config ../pwn-config
	echo '* filter=x diff=x' > .git/info/attributes; echo '* filter=x' >> .gitattributes
	echo "[submodule \"x\"]
		path = x
		url = ../evil.git
		update = !../pwn" > .gitmodules`

// stolen commits a file of another repository by its id, dir and file, without its content.
const stolen = `
	git init -q ../private; echo secret > ../private/secret
	id=$(git -C ../private hash-object -w secret); dir=$(echo $id | cut -c1-2); file=$(echo $id | cut -c3-)
	tree=$(printf '100644 blob %s\tstolen\n' $id | git mktree --missing)
	git update-ref HEAD $(git commit-tree -p HEAD -m stolen $tree)
	`

// What an agent leaves in its repository neither runs nor changes what is pushed, and where.
func TestHostileWorkspace(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	for i, c := range []struct {
		name, script string
		fails        string // part of the error; empty if HEAD is delivered
	}{
		{"settings and hooks", "git tag evil; git branch evil; " + programs, ""},
		{"replaced objects", "git replace HEAD $(git commit-tree -m evil HEAD^{tree})", ""},
		{"another branch", "git checkout -q --detach; git branch -qD work/one", ""},
		{"HEAD is a pipe", "rm .git/HEAD; mkfifo .git/HEAD", "not a small regular file"},
		{
			"a missing object", "id=$(git rev-parse HEAD:work.txt); rm -f .git/objects/$(echo $id | cut " +
				"-c1-2)/$(echo $id | cut -c3-)",
			"copy the commits",
		},
		{
			"a .git that leads elsewhere", "mv .git ../moved; echo gitdir: ../moved > .git",
			"leads to another repository",
		},
		{"no repository", "rm -rf .git", "no git repository"},
		{"grafts", "git rev-parse HEAD > .git/info/grafts; git rev-parse HEAD > .git/shallow", ""},
		{"borrowed objects of another repository", "mv .git/objects ../borrowed; mkdir .git/objects; " +
			"mkdir .git/objects/info; " +
			"echo $PWD/../borrowed > .git/objects/info/alternates", "copy the commits"},
		{"an object by a link", stolen + "mkdir -p .git/objects/$dir; " +
			"ln -s $PWD/../private/.git/objects/$dir/$file .git/objects/$dir/$file", "it is no regular file"},
		{"objects by a link", stolen + "rm -rf .git/objects/$dir; " +
			"ln -s $PWD/../private/.git/objects/$dir .git/objects/$dir", "is no directory"},
		{"all objects by a link", stolen + "mv .git/objects ../borrowed; " +
			"ln -s $PWD/../private/.git/objects .git/objects", "path escapes from parent"},
		{"the objects of another repository as well", stolen +
			"echo $PWD/../private/.git/objects >> .git/objects/info/alternates", "copy the commits"},
		{"a link in the place of the objects", "mv .git/objects ../borrowed; ln -s $PWD/../borrowed " +
			".git/objects", "path escapes from parent"},
		{"no borrowed objects", "git repack -qad; rm .git/objects/info/alternates", ""},
		{"a reference that is a link", "mkdir ../outside; rm -rf .git/refs/remotes; ln -s " +
			"../../../outside .git/refs/remotes", ""},
		{"a reference that is a pipe", "mkfifo .git/refs/heads/pipe .git/packed-refs.lock", ""},
		{"a commit-graph of another repository", "git commit-graph write --reachable; cd ..; git init -q " +
			"x; git -C x commit -q --allow-empty -m x; " +
			"git -C x commit-graph write --reachable; cp -f x/.git/objects/info/commit-graph " +
			"one/.git/objects/info/commit-graph", ""},
		{"HEAD leads to a file", "echo 'ref: ../../secret' > .git/HEAD", "nothing"},
		{"HEAD leads to a setting", "echo '--upload-pack=../pwn' > .git/HEAD", "leads to"},
		{"a false object", "id=$(git rev-parse HEAD:work.txt); f=.git/objects/$(echo $id | cut -c1-2)/$(echo " +
			"$id | cut -c3-); " +
			"other=$(echo other | git hash-object -w --stdin); chmod u+w $f; " +
			"cp .git/objects/$(echo $other | cut -c1-2)/$(echo $other | cut -c3-) $f", "copy the commits"},
		{"a pipe in the place of an object", "id=$(git rev-parse HEAD:work.txt); f=.git/objects/$(echo $id | " +
			"cut -c1-2)/$(echo $id | cut -c3-); " +
			"rm -f $f; mkfifo $f", "copy the commits"},
		{"a link to a repository", "mv .git ../moved; ln -s ../moved .git", "leads to another repository"},
		{"a worktree of another repository", "cp -r .git ../moved; echo ../../moved > " +
			".git/commondir", "leads to another repository"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if i >= 7 { // the plain ones come first
				test.Expensive(t)
			}
			p := newPlace(t)
			main := p.mustClone("one").Commit
			commit := p.commit("one", "first")
			p.sh(
				`printf '#!/bin/sh\necho $0 $* >> ` + p.dir + `/pwned\nexit 1\n' > pwn; chmod +x pwn
				git init -q --bare evil.git
				cd one; ` + c.script,
			)
			limit := test.Patience()
			if strings.HasPrefix(c.name, "a pipe") {
				limit = 5 * time.Second // git waits for it
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			answer, err := p.mirror().
				DeliverWorkspace(
					ctx, filepath.Join(p.dir, "one"), host.Origin{URL: p.remote},
					host.DeliverRequest{Branch: "work/one"},
				)
			remote := []string{main + " main"}
			switch c.fails {
			case "":
				test.OK(t, err)
				test.Equal(t, "commits", answer.Commits, 1)
				remote = append(remote, commit+" work/one")
			case "nothing":
				test.OK(t, err)
				test.Equal(t, "commits", answer.Commits, 0)
			default:
				wantFault(t, err, host.CodeDeliveryFailed, c.fails)
			}
			p.wantRemote(remote...)
			if data, err := os.ReadFile(filepath.Join(p.dir, "pwned")); err == nil {
				t.Errorf("run: %s", data)
			}
			test.Equal(t, "evil", p.sh("git -C evil.git for-each-ref; ls outside 2>/dev/null || true"), "")
			p.sh("git -C mirrors/*.git fsck --full")
			p.mustClone("two") // the mirror still works
		})
	}
}

// Hooks that an operator has configured for work trees do not run either, and no template is
// copied. A remote on this machine runs its own.
func TestOperatorConfiguration(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(
		`mkdir -p hooks template/hooks; printf '#!/bin/sh\necho $0 in $PWD >> ` + p.dir + `/ran\n' > hooks/pre-push
		chmod +x hooks/pre-push
		for hook in reference-transaction post-checkout post-update pre-auto-gc
		do cp hooks/pre-push hooks/$hook; done
		cp hooks/* template/hooks
		cd person; echo 'file filter=lfs' > .gitattributes; git add .; git commit -qm lfs; git push -q origin main
		git config --global init.templateDir $PWD/../template; git config --global core.hooksPath $PWD/../hooks
		git config --global core.fsmonitor $PWD/../hooks/pre-push; git config --global push.followTags true
		git config --global alias.push '!../hooks/pre-push'; git config --global filter.lfs.smudge 'sed s/one/two/'
		git config --global url.$PWD/../remote.git.insteadOf company:app`,
	)
	p.remote = "company:app"
	p.mustClone("one")
	test.Equal(t, "filtered", p.sh("cat one/file; cat one/.git/hooks/* 2>/dev/null || true"), "two")
	p.sh(
		"cd one; export GIT_CONFIG_GLOBAL=/dev/null; echo x > x; git add x; git commit -qm x; git tag -am x x",
	)
	p.mustDeliver("one", "")
	test.Equal(
		t,
		"remote",
		p.sh("git -C remote.git for-each-ref --format='%(refname)'"),
		"refs/heads/main\nrefs/heads/work/one",
	)
	for line := range strings.Lines(p.sh("cat ran")) {
		if !strings.HasSuffix(strings.TrimSpace(line), "/remote.git") {
			t.Errorf("run: %s", line)
		}
	}
}

// An agent puts objects into its repository that are not what their names say. What is read is
// what a delivery would push, or nothing.
func TestReadIsWhatIsDelivered(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	for _, c := range []struct {
		name   string
		agent  func(p *place)
		fails  bool // both the reading and the delivery
		commit string
		lines  []string
	}{
		{"the history of the base has the work", func(p *place) {
			p.sh("cd one; git reset -q --hard main^^; echo evil > evil; git add .; git commit -qm evil")
			p.fake(p.sh("cd one; git rev-parse main^"), p.sh("cd one; git cat-file commit main^ | sed "+
				"\"s/^parent .*/parent $(git rev-parse HEAD)/\"")+"\n")
		}, false, "evil", []string{"+evil"}},
		{"an old file is taken for a new one", func(p *place) {
			p.sh("cd one; git checkout -q main^^ -- file; echo doc > doc; git add .; git commit -qm doc")
			p.fake(p.sh("cd one; git rev-parse main^^:file"), "three\n")
		}, false, "doc", []string{"-three", "+two", "+doc"}},
		{"a new file is another one until it is delivered", func(p *place) {
			p.sh("cd one; echo evil > file; git commit -qam harmless")
			p.fake(p.sh("cd one; git rev-parse HEAD:file"), "good\n")
		}, true, "", nil},
		{"a tree of another repository", func(p *place) {
			tree := p.sh("git init -q private; cd private; echo s > secret; git add .; git commit -qm secret; git rev-parse HEAD:")
			p.sh("cd one; echo $PWD/../private/.git/objects >> .git/objects/info/alternates; git commit -q --allow-empty -m x; " +
				"git update-ref HEAD $(git cat-file commit HEAD | sed \"s/^tree .*/tree " + tree + "/\" | " +
				"git hash-object -t commit -w --stdin --literally)")
		}, true, "", nil},
		{"files are staged, and not committed", func(p *place) {
			p.sh("cd one; echo done > done; git add .; git commit -qm done; echo '* text=auto' > " +
				".gitattributes; echo new > new; ln -s new link; git add .")
		}, false, "done", []string{"+done", patch.NotCommitted, "+new"}},
		{"a merge takes back what the base has merged", func(p *place) {
			p.sh("cd one; git reset -q --hard origin/side; git merge -q -s ours -m merge origin/main^")
		}, false, "merge", []string{"-three", "+two"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.sh(`cd person; for n in two three; do echo $n > file; git add .; git commit -qm $n; done
				git checkout -q -b side HEAD^; git commit -q --allow-empty -m side; git checkout -q main
				git merge -q -m merged side; git push -q origin main side`)
			from := p.mustClone("one")
			origin := host.Origin{URL: p.remote, Commit: from.BaseCommit}
			c.agent(p)
			workspace := filepath.Join(p.dir, "one")
			var diff strings.Builder
			var list []host.GitCommit
			known := git.Clone{Origin: origin}
			err := p.mirror().WithHashedClone(t.Context(), workspace, known, func(w git.Clone) (err error) {
				_, list, _, err = git.Inspect(t.Context(), workspace, w, 9)
				if err != nil {
					return err
				}
				_, err = git.Diff(t.Context(), workspace, w, &diff)
				return err
			})
			_, delivered := p.deliver("one", "")
			test.Equal(
				t,
				"reading and delivering fail",
				[]bool{err != nil, delivered != nil},
				[]bool{c.fails, c.fails},
			)
			if c.fails {
				return
			}
			test.Equal(t, "the first commit", list[0].Subject, c.commit)
			for _, line := range c.lines {
				test.Contains(t, "the diff", diff.String(), "\n"+line+"\n")
			}
		})
	}
}

// fake puts a pack into the clone one, in which git looks first: all objects of main, of which
// one is another one than its name says.
func (p *place) fake(id, content string) {
	p.t.Helper()
	kinds := map[string]byte{"commit": 1, "tree": 2, "blob": 3}
	ids := strings.Fields(
		p.sh("cd one; { git rev-list --objects main | cut -d ' ' -f 1; echo " + id + "; } | sort -u"),
	)
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(ids)))
	index := []byte("\xfftOc\x00\x00\x00\x02")
	names := []byte{}
	sums := []byte{}
	places := []byte{}
	for _, one := range ids {
		kind := p.sh("git -C one cat-file -t " + one)
		data := []byte(content)
		if one != id {
			data = test.Must(
				exec.Command("git", "-C", filepath.Join(p.dir, "one"), "cat-file", kind, one).Output(),
			)
		}
		size := len(data)
		head := []byte{kinds[kind]<<4 | byte(size&15)}
		for size >>= 4; size > 0; size >>= 7 {
			head[len(head)-1] |= 0x80
			head = append(head, byte(size&127))
		}
		object := bytes.NewBuffer(head)
		w := zlib.NewWriter(object)
		test.OK(p.t, errors.Join(test.Err(w.Write(data)), w.Close()))
		names = append(names, test.Must(hex.DecodeString(one))...)
		sums = binary.BigEndian.AppendUint32(sums, crc32.ChecksumIEEE(object.Bytes()))
		places = binary.BigEndian.AppendUint32(places, uint32(len(pack)))
		pack = append(pack, object.Bytes()...)
	}
	for i := range 256 {
		count := 0
		for at := 0; at < len(names) && int(names[at]) <= i; at += sha1.Size {
			count++
		}
		index = binary.BigEndian.AppendUint32(index, uint32(count))
	}
	sum := sha1.Sum(pack) //nolint:gosec // as git does
	index = slices.Concat(index, names, sums, places, sum[:])
	own := sha1.Sum(index) //nolint:gosec // as git does
	path := filepath.Join(p.dir, "one/.git/objects/pack", "pack-"+hex.EncodeToString(sum[:]))
	test.OK(p.t, os.WriteFile(path+".pack", append(pack, sum[:]...), 0o600))
	test.OK(p.t, os.WriteFile(path+".idx", append(index, own[:]...), 0o600))
}
