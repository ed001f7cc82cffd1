package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/runner/host"
)

// forgedPointer is a script that commits a pointer of Git LFS to content that is nowhere.
const forgedPointer = `echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 6\n' 7 > a.bin
	git -c filter.lfs.process= -c filter.lfs.clean= -c filter.lfs.required=false add .; git commit -qm pointer`

// Without git-lfs nothing of Git LFS is pushed. Files that only look like pointers are.
func TestLargeFilesWithoutLFS(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bin := filepath.Join(p.dir, "bin")
	test.OK(t, os.Mkdir(bin, 0o700))
	for _, name := range []string{"git", "sh"} {
		test.OK(t, os.Symlink(test.Must(exec.LookPath(name)), filepath.Join(bin, name)))
	}
	p.mustClone("one")
	p.sh("cd one; " + forgedPointer)
	path := p.env[0]
	p.env[0] = "PATH=" + bin
	wantFault(t, test.Err(p.deliver("one", "")), host.CodeIncomplete,
		"a.bin is a file of Git LFS, and git-lfs is not installed")
	p.env[0] = path
	p.wantRemote(p.sh("git -C remote.git rev-parse main") + " main")

	p.sh("cd one; git rm -q .gitattributes; git commit -qm plain")
	p.mustDeliver("one", "")
}

// What is pushed is complete: the content of files of Git LFS is uploaded, or nothing is
// pushed.
func TestLargeFiles(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("git-lfs is not installed")
	}
	p := newPlace(t)
	p.sh(`git lfs install --skip-repo; cd person; git lfs track '*.bin'; echo base > base.bin
		git add .; git commit -qm base; git push -q origin main`)
	before := p.sh("git -C remote.git for-each-ref")
	const missing = "a.bin is a file of Git LFS without content here or on the remote"
	refused := func(name, script string) {
		t.Helper()
		p.mustClone(name)
		p.sh("cd " + name + "; " + script)
		wantFault(t, test.Err(p.deliver(name, "")), host.CodeIncomplete, missing)
		test.Equal(t, "remote", p.sh("git -C remote.git for-each-ref"), before)
	}
	const add = "echo work > a.bin; git add a.bin; git commit -qm work\n" +
		"object=$(find .git/lfs/objects -type f -newer .git/HEAD); "
	refused("forged", forgedPointer)
	refused("pruned", add+"rm $object")
	refused("changed", add+"chmod +w $object; echo prey > $object")
	refused("linked", add+"mv $object ..; ln -s $PWD/../$(basename $object) $object")

	// The agent corrects it, and renames a file whose content is on the remote.
	p.sh(
		"cd forged; git rm -qf a.bin; echo good > b.bin; git mv base.bin moved.bin; git add .; git commit -qm work",
	)
	p.mustDeliver("forged", "")
	test.Equal(
		t,
		"a clone",
		p.sh("git clone -q -b work/forged remote.git fresh; cat fresh/b.bin fresh/moved.bin"),
		"good\nbase",
	)

	// A hook has uploaded the content.
	p.sh(`cd pruned; git checkout -q HEAD^; echo work > a.bin; git add a.bin
		git lfs push --object-id origin $(git cat-file -p :a.bin | sed -n s/oid.sha256://p)
		rm -r .git/lfs; git checkout -q -`)
	p.mustDeliver("pruned", "")

	// So many that they are asked for at once.
	p.mustClone("many")
	p.sh(`cd many; for i in $(seq 30); do echo $i > $i.bin; done; git add .; git commit -qm many
		git lfs push --object-id origin $(git lfs ls-files --long | cut -d' ' -f1); rm -r .git/lfs`)
	p.mustDeliver("many", "")
	p.mustClone("most")
	p.sh(`cd most; for i in $(seq 30); do echo most $i > $i.bin; done; cp 30.bin a.bin; git add .; git commit -qm most
		git lfs push --object-id origin $(git lfs ls-files --long | grep -v ' a.bin' | cut -d' ' -f1)
		echo last > a.bin; git add .; git commit -qm last; rm -r .git/lfs`)
	wantFault(t, test.Err(p.deliver("most", "")), host.CodeIncomplete, missing)

	// One content at two paths stands for itself alone.
	p.mustClone("twice")
	p.sh(`cd twice; echo same > 1.bin; cp 1.bin 2.bin; echo other > a.bin; git add .; git commit -qm twice
		git lfs push --object-id origin $(git lfs ls-files --long | grep ' 1.bin' | cut -d' ' -f1); rm -r .git/lfs`)
	wantFault(t, test.Err(p.deliver("twice", "")), host.CodeIncomplete, missing)

	// From another machine nothing is uploaded.
	p.mustClone("far")
	p.sh("cd far; echo far > a.bin; git add a.bin; git commit -qm far")
	m := p.mirror()
	work := test.Must(m.workOf(filepath.Join(p.dir, "far"), host.Origin{URL: p.remote}))
	work.GitDir = ""
	q := host.DeliverRequest{Branch: "work/far", Try: true}
	test.OK(t, test.Err(m.Deliver(t.Context(), q, work)))
	q.Try = false
	err := test.Err(m.Deliver(t.Context(), q, work))
	wantFault(t, err, host.CodeIncomplete, "a.bin is a file of Git LFS without content on the remote")

	// The server of the content is the one that the base names, not the agent.
	p.sh(`for s in good evil; do git init -q --bare $s.git; cp -r remote.git/lfs $s.git; done; cd person
		git config -f .lfsconfig lfs.url file://` + p.dir + `/good.git
		git add .; git commit -qm server; git push -q --no-verify origin main`)
	p.mustClone("server")
	p.sh(
		"cd server; git config -f .lfsconfig lfs.url file://" + p.dir + "/evil.git; echo elsewhere > c.bin\n" +
			"git add .; git commit -qm evil",
	)
	p.mustDeliver("server", "")
	test.Equal(t, "servers", p.sh("grep -rl elsewhere *.git | cut -d/ -f1"), "good.git")
	left := test.Must(filepath.Glob(filepath.Join(p.mirrors, "incoming-*")))
	test.Equal(t, "left files", len(left), 0)
}

// The address of a remote may contain letters that Go would escape in another way than git.
func TestAddressInTheConfiguration(t *testing.T) {
	p := newPlace(t)
	address := p.dir + "/no\u200bwidth \"and\" back\\slash.git"
	test.OK(t, p.mirrorOf(host.Repository{URL: address}).makeStore(filepath.Join(p.dir, "scratch"), false))
	test.Equal(t, "address", p.sh("git config -f scratch/config remote.origin.url"), address)
}

// The content of files of Git LFS is read within a bound, and no longer than the context lasts.
// Only what is not there is missing.
func TestCopyContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := largeFiles{Mirror: newPlace(t).mirror(), workspace: dir}
	to := filepath.Join(t.TempDir(), "to")
	put := func(content string) pointer {
		sum := sha256.Sum256([]byte(content))
		p := pointer{path: "a.bin", oid: hex.EncodeToString(sum[:]), size: int64(len(content))}
		path := filepath.Join(dir, p.object())
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		test.Write(t, path, content)
		return p
	}
	there := put("there")
	gone := put("gone")
	test.OK(t, os.Remove(filepath.Join(dir, gone.object())))
	look := func(ctx context.Context, gitDir string, list ...pointer) error {
		found, missing, err := l.copyContent(ctx, list, gitDir)
		if err == nil {
			test.Equal(t, "found and missing", []int{len(found), len(missing)}, []int{1, 1})
		}
		return err
	}
	test.OK(t, look(t.Context(), "", there, gone))
	test.Equal(t, "copied by a look", test.Exists(t, to), false)
	test.OK(t, look(t.Context(), to, there, gone))
	test.Equal(t, "copy", test.Read(t, filepath.Join(to, there.object())), "there")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	test.ErrorIs(t, "ended", look(ended, "", there, gone), context.Canceled)

	sparse := put("sparse")
	sparse.size = mostContent
	test.OK(t, os.Truncate(filepath.Join(dir, sparse.object()), sparse.size))
	wantFault(t, look(t.Context(), "", there, sparse), host.CodeGitLimit, "more than 16 GiB of content")

	inTheWay := put("in the way")
	parent := filepath.Dir(filepath.Join(dir, inTheWay.object()))
	test.OK(t, os.RemoveAll(parent))
	test.Write(t, parent, "a file")
	wantFault(t, look(t.Context(), "", inTheWay), host.CodeDeliveryFailed, "copy a.bin of Git LFS", "not a directory")
}
