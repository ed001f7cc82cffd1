package workspace

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestOpenRootMakesWhatIsMissing(t *testing.T) {
	dir := test.Must(filepath.EvalSymlinks(t.TempDir()))
	test.OK(t, os.Symlink(dir, filepath.Join(dir, "link")))
	for range 2 {
		r := test.Must(OpenRoot(filepath.Join(dir, "link", "deep", "root")))
		test.Equal(t, "the resolved path", r.Path, filepath.Join(dir, "deep", "root"))
		for _, path := range []string{r.Path, r.meta()} {
			test.Equal(t, "mode of "+path, test.Must(os.Stat(path)).Mode().Perm(), 0o700)
		}
	}
}

func TestOpenRootRefuses(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	test.Write(t, in("file"), "")
	test.Write(t, in("filed/"+metaDir), "")
	for _, name := range []string{"shared", "linked", "open/" + metaDir, "another's"} {
		test.OK(t, os.MkdirAll(in(name), 0o700))
	}
	test.OK(t, os.Chmod(in("shared"), 0o775))
	test.OK(t, os.Chmod(in("open/"+metaDir), 0o777))
	test.OK(t, os.Symlink("nowhere", in("broken")))
	test.OK(t, os.Symlink(t.TempDir(), in("linked/"+metaDir)))
	if os.Geteuid() == 0 {
		test.OK(t, os.Chown(in("another's"), 65534, 65534))
	} else {
		test.OK(t, os.Chmod(in("another's"), 0))
	}
	for _, path := range []string{
		"relative/root", "", "/", in("file"), in("file/below"), in("shared"), in("broken"), in("linked"),
		in("open"), in("filed"), in("another's"),
	} {
		if _, err := OpenRoot(path); !isCode(err, CodeRootUnusable) {
			t.Errorf("%q: %v", path, err)
		}
		if _, ok, _ := FindRoot(path); ok {
			t.Errorf("found %q", path)
		}
	}
	test.Equal(t, "a refused root was made", test.Exists(t, "relative"), false)
}

func TestFindRootCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		_, ok, err := FindRoot(path)
		test.Equal(t, path+": found and error", []any{ok, err}, []any{false, nil})
	}
	entries, err := os.ReadDir(dir)
	test.Equal(t, "error, and number of entries", []any{err, len(entries)}, []any{nil, 0})
}

func TestListReportsWhatItCannotRead(t *testing.T) {
	r := newRoot(t)
	ready(t, r, owner("ABC-1", "r1"))
	ready(t, r, owner("ABC-2", "r1"))
	test.Write(t, r.record("torn"), `{"issue_id": "x"`)
	test.Write(t, r.record("odd"), `{"issue_id": "x", "identifier": "odd", "id": "1", "state": "sideways"}`)
	test.OK(t, syscall.Mkfifo(r.record("pipe"), 0o600))
	found, _, err := FindRoot(r.Path)
	test.OK(t, err)
	recs, err := found.List()
	if len(recs) != 2 || recs[0].Key != "ABC-1" || recs[1].Path != filepath.Join(r.Path, "ABC-2") {
		t.Errorf("%+v", recs)
	}
	test.Contains(t, "the error", fmt.Sprint(err), r.record("torn"), r.record("odd"), r.record("pipe"))
}

// Anything but a directory at the path of the workspace is left alone, including the target of
// a link.
func TestAcquireTouchesNothingThatIsNoDirectory(t *testing.T) {
	outside := t.TempDir()
	test.Write(t, filepath.Join(outside, "precious"), "kept")
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
				if state != "" {
					test.OK(t, r.writeRecord(recordOf(r, owner("A", "r1"), state)))
				}
				path := filepath.Join(r.Path, "A")
				test.OK(t, make(path))
				before := test.Must(os.Lstat(path))
				wantCode(t, test.Err(r.Acquire(t.Context(), owner("A", "r2"))), CodeInvalidCwd)
				wantCode(t, test.Err(r.Remove(t.Context(), owner("A", "r2"), day, false)), CodeInvalidCwd)
				after := test.Must(os.Lstat(path))
				if !os.SameFile(before, after) || !test.Exists(t, filepath.Join(outside, "precious")) {
					t.Fatal("it was touched")
				}
				rec, ok, err := r.Record("A")
				test.OK(t, err)
				wantHeld(t, r, "A", false)
				test.Equal(t, "found and state", []any{ok, rec.State}, []any{state != "", state})
			})
		}
	}
}

func recordOf(r *Root, o Owner, state State) Record {
	return Record{
		Owner: o,
		Key:   Key(o.Identifier),
		ID:    rand.Text(),
		State: state,
		Path:  filepath.Join(r.Path, Key(o.Identifier)),
	}
}

func TestContained(t *testing.T) {
	r := newRoot(t)
	outside := t.TempDir()
	test.OK(t, os.Mkdir(filepath.Join(r.Path, "a"), 0o700))
	test.OK(t, os.MkdirAll(r.Path+"-sibling/a", 0o700))
	test.OK(t, os.Symlink(outside, filepath.Join(r.Path, "out")))
	test.OK(t, os.Symlink("a", filepath.Join(r.Path, "in")))
	test.OK(t, contained(r.Path, filepath.Join(r.Path, "a")))
	for _, path := range []string{
		r.Path, filepath.Dir(r.Path), r.Path + "/..", r.Path + "/a/../..", r.Path + "-sibling/a", outside, "/",
		filepath.Join(r.Path, "out"), filepath.Join(r.Path, "in"),
	} {
		wantCode(t, contained(r.Path, path), CodeInvalidCwd)
	}
}

func TestFreeBytes(t *testing.T) {
	dir := t.TempDir()
	// which counts nothing, and is never full
	for _, path := range []string{dir, filepath.Join(dir, "not", "yet"), "/proc"} {
		if free, err := FreeBytes(path); err != nil || free <= 0 {
			t.Errorf("%s: %d, %v", path, free, err)
		}
	}
	wantCode(t, test.Err(FreeBytes(filepath.Join(dir, strings.Repeat("x", 300)))), CodeFailed)
}

// stateDir makes one that is in use.
func stateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	test.Write(t, filepath.Join(dir, "state.db"), "")
	return dir
}

func TestClaimProject(t *testing.T) {
	r := newRoot(t)
	one := stateDir(t)
	two := stateDir(t)
	test.OK(t, r.Projects().Claim("https://t shop", one, nil))
	test.OK(t, r.Projects().Claim("https://t shop", one, nil))
	test.OK(t, r.Projects().Claim("https://t other", two, nil))
	err := r.Projects().Claim("https://t shop", two, nil)
	wantCode(t, err, CodeProjectConflict)
	test.Contains(t, "the error", err.Error(), one)
	// The same directory by another name is no other one.
	link := filepath.Join(t.TempDir(), "link")
	test.OK(t, os.Symlink(one, link))
	test.OK(t, r.Projects().Claim("https://t shop", link, nil))
	// A state directory that is no longer used gives way.
	test.OK(t, os.Remove(filepath.Join(one, "state.db")))
	test.OK(t, r.Projects().Claim("https://t shop", two, nil))
	test.Write(t, filepath.Join(one, "state.db"), "")
	wantCode(t, r.Projects().Claim("https://t shop", one, nil), CodeProjectConflict)
	test.OK(t, os.RemoveAll(two))
	test.OK(t, r.Projects().Claim("https://t shop", one, nil))
	test.Write(t, r.Projects().path("https://t shop"), "{")
	wantCode(t, r.Projects().Claim("https://t shop", one, nil), CodeFailed)
}

func TestOfManyClaimsOneWins(t *testing.T) {
	r := newRoot(t)
	r.leaseWait = test.Patience()
	var (
		won atomic.Int32
		all sync.WaitGroup
	)
	for range 8 {
		dir := stateDir(t)
		all.Go(func() {
			err := r.Projects().Claim("p", dir, nil)
			switch {
			case err == nil:
				won.Add(1)
			case !isCode(err, CodeProjectConflict):
				t.Error(err)
			}
		})
	}
	all.Wait()
	test.Equal(t, "state directories with the project", won.Load(), 1)
}

func TestKey(t *testing.T) {
	long := strings.Repeat("a", 120)
	for _, c := range []struct{ identifier, want string }{
		{"ABC-123", "ABC-123"},
		{"a.b_c-D", "a.b_c-D"},
		{long, long},
		{"ABC 1", "ABC_1-"},
		{"ABC/1", "ABC_1-"},
		{"../../etc", ".._.._etc-"},
		{"/etc/passwd", "_etc_passwd-"},
		{".", ".-"},
		{"..", "..-"},
		{".git", ".git-"},
		{".symphony", ".symphony-"},
		{"", "-"},
		{"ÄBC-1", "_BC-1-"},
		{"日本", "__-"},
		{"a\x00b\n", "a_b_-"},
		{"\xff\xfe", "__-"},
		{long + "a", long[:103] + "-"},
		{strings.Repeat("é", 119), strings.Repeat("_", 103) + "-"},
		{"ABC-1-0123456789abcdef", "ABC-1-0123456789abcdef-"},
	} {
		got := Key(c.identifier)
		if hash, ok := strings.CutPrefix(got, c.want); !ok ||
			strings.HasSuffix(c.want, "-") != (len(hash) == 16) || got != c.want && len(hash) != 16 {
			t.Errorf("Key(%q) = %q, want %q", c.identifier, got, c.want)
		}
	}
	// The suffix is part of the format: keys must be found again by later versions.
	test.Equal(t, "key", Key("ABC/1"), "ABC_1-40196a1712fb54ce")
}

func TestKeysAreContainedAndDistinct(t *testing.T) {
	// Few characters and short names, so that two identifiers often sanitize alike.
	text := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom([]rune("aA-_/. é")), 0, 4, -1), rapid.String(),
		rapid.StringMatching(`[a-z./]{0,130}(-[0-9a-f]{16})?`))
	rapid.Check(t, func(t *rapid.T) {
		a := text.Draw(t, "a")
		b := text.Draw(t, "b")
		switch rapid.IntRange(0, 3).Draw(t, "relation") {
		case 0:
			b = Key(a) // an issue that is named like the directory of another
		case 1:
			b = notInKey().ReplaceAllString(a, "_")
		}
		for _, identifier := range []string{a, b} {
			key := Key(identifier)
			if len(key) == 0 || len(key) > 120 || notInKey().MatchString(key) || key == "." || key == ".." ||
				key == metaDir {
				t.Fatalf("Key(%q) = %q: outside the alphabet or too long", identifier, key)
			}
		}
		if a != b && Key(a) == Key(b) {
			t.Fatalf("%q and %q share the key %q", a, b, Key(a))
		}
	})
}

// In a directory that all accounts share, another one can make a link with the name of a root
// that does not exist yet. What it leads to is not created.
func TestLinkOfAnotherAccount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another account")
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	target := filepath.Join(dir, "target")
	test.OK(t, os.Symlink("target", link))
	test.OK(t, CheckLinks(filepath.Join(link, "root")))
	test.OK(t, os.Lchown(link, 65534, 65534))
	for _, path := range []string{link, filepath.Join(link, "root")} {
		_, err := OpenRoot(path)
		wantCode(t, err, CodeRootUnusable)
		test.Contains(t, "error", err.Error(), link+" is a link of another account")
	}
	test.Equal(t, "target exists", test.Exists(t, target), false)
}
