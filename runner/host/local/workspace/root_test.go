package workspace

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenRootMakesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Symlink(dir, filepath.Join(dir, "link")))
	r, err := OpenRoot(filepath.Join(dir, "link", "deep", "root"))
	check(t, err)
	real, err := filepath.EvalSymlinks(dir)
	check(t, err)
	if r.Path != filepath.Join(real, "deep", "root") {
		t.Fatalf("not resolved: %s", r.Path)
	}
	for _, path := range []string{r.Path, r.meta()} {
		info, err := os.Stat(path)
		check(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
	_, err = OpenRoot(r.Path)
	check(t, err)
}

func TestOpenRootRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	check(t, os.Mkdir(filepath.Join(dir, "shared"), 0o700))
	check(t, os.Chmod(filepath.Join(dir, "shared"), 0o775))
	check(t, os.Symlink("nowhere", filepath.Join(dir, "broken")))
	for _, name := range []string{"linked", "open", "filed"} {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	check(t, os.Symlink(t.TempDir(), filepath.Join(dir, "linked", metaDir)))
	check(t, os.Mkdir(filepath.Join(dir, "open", metaDir), 0o700))
	check(t, os.Chmod(filepath.Join(dir, "open", metaDir), 0o777))
	write(t, filepath.Join(dir, "filed", metaDir), "")
	for _, path := range []string{
		"relative/root", "", "/", filepath.Join(dir, "file"), filepath.Join(dir, "file", "below"),
		filepath.Join(dir, "shared"), filepath.Join(dir, "broken"),
		filepath.Join(dir, "linked"), filepath.Join(dir, "open"), filepath.Join(dir, "filed"),
	} {
		_, err := OpenRoot(path)
		if !isCode(err, CodeRootUnusable) {
			t.Errorf("%q: %v", path, err)
		}
		if _, ok, err := FindRoot(path); ok || err == nil && there(t, path) && !strings.HasSuffix(path, "broken") && path != "" {
			t.Errorf("found %q: %v, %v", path, ok, err)
		}
	}
	if there(t, "relative") {
		t.Error("a refused root was made")
	}
}

func TestOpenRootRefusesAnothersRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		check(t, os.Chown(dir, 65534, 65534))
		_, err := OpenRoot(dir)
		wantCode(t, err, CodeRootUnusable)
		return
	}
	_, err := OpenRoot("/usr")
	wantCode(t, err, CodeRootUnusable)
}

func TestFindRootCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		if _, ok, err := FindRoot(path); ok || err != nil {
			t.Fatalf("%s: %v, %v", path, ok, err)
		}
	}
	entries, err := os.ReadDir(dir)
	check(t, err)
	if len(entries) > 0 {
		t.Fatalf("created %v", entries)
	}
	r := newRoot(t)
	ready(t, r, owner("ABC-1", "r1"))
	found, ok, err := FindRoot(r.Path)
	check(t, err)
	if !ok || found.Path != r.Path {
		t.Fatalf("%v, %v", found, ok)
	}
	recs, err := found.List()
	check(t, err)
	if len(recs) != 1 || recs[0].Identifier != "ABC-1" || recs[0].Path != filepath.Join(r.Path, "ABC-1") {
		t.Fatalf("%+v", recs)
	}
}

func TestListReportsWhatItCannotRead(t *testing.T) {
	r := newRoot(t)
	ready(t, r, owner("ABC-1", "r1"))
	ready(t, r, owner("ABC-2", "r1"))
	write(t, r.record("torn"), `{"issue_id": "x"`)
	write(t, r.record("odd"), `{"issue_id": "x", "identifier": "odd", "id": "1", "state": "sideways"}`)
	check(t, syscall.Mkfifo(r.record("pipe"), 0o600))
	recs, err := r.List()
	if len(recs) != 2 || recs[0].Key != "ABC-1" || recs[1].Key != "ABC-2" {
		t.Errorf("%+v", recs)
	}
	for _, name := range []string{"torn", "odd", "pipe"} {
		if err == nil || !strings.Contains(err.Error(), r.record(name)) {
			t.Errorf("%s is not in %v", name, err)
		}
	}
}

// Whatever stands where the workspace should be is left alone, and so is what a link leads to.
func TestAcquireTouchesNothingThatIsNoDirectory(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious"), "kept")
	for name, make := range map[string]func(path string) error{
		"file":         func(p string) error { return os.WriteFile(p, []byte("kept"), 0o600) },
		"link out":     func(p string) error { return os.Symlink(outside, p) },
		"link to root": func(p string) error { return os.Symlink(filepath.Dir(p), p) },
		"link inside":  func(p string) error { return os.Symlink(metaDir, p) },
		"broken link":  func(p string) error { return os.Symlink("nowhere", p) },
		"pipe":         func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"socket": func(p string) error {
			l, err := net.Listen("unix", p)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		},
	} {
		for _, state := range []State{"", Creating, Prepared, Removing} {
			t.Run(name+" "+string(state), func(t *testing.T) {
				r := newRoot(t)
				o := owner("A", "r2")
				if state != "" {
					check(t, r.writeRecord(recordOf(r, owner("A", "r1"), state)))
				}
				path := filepath.Join(r.Path, "A")
				check(t, make(path))
				before, err := os.Lstat(path)
				check(t, err)
				_, err = r.Acquire(t.Context(), o)
				wantCode(t, err, CodeInvalidCwd)
				_, err = r.Remove(t.Context(), o, day, false)
				wantCode(t, err, CodeInvalidCwd)
				after, err := os.Lstat(path)
				check(t, err)
				if !os.SameFile(before, after) || !there(t, filepath.Join(outside, "precious")) {
					t.Fatal("it was touched")
				}
				rec, ok, err := r.readRecord("A")
				check(t, err)
				if ok != (state != "") || rec.State != state {
					t.Fatalf("record %+v", rec)
				}
				if held, err := r.Held("A"); held || err != nil {
					t.Fatalf("lease kept: %v, %v", held, err)
				}
			})
		}
	}
}

func recordOf(r *Root, o Owner, state State) Record {
	key := Key(o.Identifier)
	return Record{Owner: o, Key: key, ID: newID(), State: state, Path: filepath.Join(r.Path, key)}
}

func TestContained(t *testing.T) {
	r := newRoot(t)
	outside := t.TempDir()
	check(t, os.Mkdir(filepath.Join(r.Path, "a"), 0o700))
	check(t, os.MkdirAll(r.Path+"-sibling/a", 0o700))
	check(t, os.Symlink(outside, filepath.Join(r.Path, "out")))
	check(t, os.Symlink("a", filepath.Join(r.Path, "in")))
	check(t, contained(r.Path, filepath.Join(r.Path, "a")))
	for _, path := range []string{
		r.Path, filepath.Dir(r.Path), r.Path + "/..", r.Path + "/a/../..", r.Path + "-sibling/a", outside, "/",
		filepath.Join(r.Path, "out"), filepath.Join(r.Path, "in"),
	} {
		wantCode(t, contained(r.Path, path), CodeInvalidCwd)
	}
	for _, key := range []string{"", ".", "..", "../a", "a/b", "/", "/etc", metaDir} {
		if path, err := r.path(key); !isCode(err, CodeInvalidCwd) {
			t.Errorf("key %q gives %q, %v", key, path, err)
		}
	}
}

// One that counts no space says zero of it, as a full disk does.
func TestFreeBytesWhereNoneAreCounted(t *testing.T) {
	const counts = "/proc"
	var st unix.Statfs_t
	if err := unix.Statfs(counts, &st); err != nil || st.Blocks > 0 {
		t.Skipf("%s is no file system that counts nothing: %v", counts, err)
	}
	if free, err := FreeBytes(counts); err != nil || free <= 0 {
		t.Errorf("%d, %v", free, err)
	}
}

func TestFreeBytes(t *testing.T) {
	dir := t.TempDir()
	here, err := FreeBytes(dir)
	check(t, err)
	below, err := FreeBytes(filepath.Join(dir, "not", "yet"))
	check(t, err)
	var st syscall.Statfs_t
	check(t, syscall.Statfs(dir, &st))
	if here <= 0 || below <= 0 || here > int64(st.Blocks)*int64(st.Bsize) {
		t.Fatalf("%d and %d", here, below)
	}
	_, err = FreeBytes(filepath.Join(dir, strings.Repeat("x", 300)))
	wantCode(t, err, CodeFailed)
}
