package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

var made = time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)

// written writes an archive with two files.
func written(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.tar.gz")
	files := []File{{Name: "a/one", Data: []byte("one")}, {Name: "b/two", Data: []byte("two")}}
	test.OK(t, Write(path, Manifest{
		Kind:    "backup",
		Version: "v1",
		MadeAt:  made,
		Schema:  7,
		Files:   files,
	}))
	return path
}

func TestWriteAndRead(t *testing.T) {
	path := written(t)
	m, err := Read(path, "backup", []string{"a/one", "b/two"})
	test.OK(t, err)
	test.Equal(t, "the manifest", []any{m.Version, m.Schema, m.MadeAt, len(m.Files)}, []any{"v1", 7, made, 2})
	for i, want := range []string{"one", "two"} {
		test.Equal(t, m.Files[i].Name, string(m.Files[i].Data), want)
	}
	test.Equal(t, "mode of the archive", test.Must(os.Stat(path)).Mode(), 0o600)
	before := test.Must(os.ReadFile(path))
	test.Equal(t, "the code of the error", Write(path, Manifest{}).(*reconcile.Error).Code, "already_exists")
	dir := filepath.Dir(path)
	inDir := Write(dir, Manifest{Kind: "backup"}).(*reconcile.Error)
	test.Equal(t, "the error about a directory", inDir.Message, dir+" is a directory")
	test.Equal(t, "its hint", inDir.Hint, "name a file in it, such as "+dir+"/backup.tar.gz")
	e := Write(filepath.Join(path, "a.tar.gz"), Manifest{}).(*reconcile.Error)
	test.Equal(t, "the code without a folder", e.Code, "file_write")
	test.Equal(
		t,
		"the message",
		strings.HasSuffix(e.Message, "a.tar.gz/a.tar.gz can't be written: not a directory"),
		true,
	)
	test.Equal(t, "the file is unchanged", bytes.Equal(before, test.Must(os.ReadFile(path))), true)
}

// packed makes an archive of entries; the content of each is x.
func packed(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, h := range headers {
		content := "x"
		if h.Name == manifestName {
			content = string(text.JSON(Manifest{
				Kind:  "backup",
				Files: []File{{Name: "a/one", SHA256: strings.Repeat("0", 64)}},
			}))
		}
		h.Typeflag = max(h.Typeflag, tar.TypeReg)
		if h.Typeflag != tar.TypeReg {
			content = ""
		}
		h.Size = max(h.Size, int64(len(content)))
		test.OK(t, w.WriteHeader(&h))
		test.Must(w.Write([]byte(content)))
	}
	_ = w.Close() // an error if the last entry is not complete
	test.OK(t, zip.Close())
	return out.Bytes()
}

// Whatever is not a whole archive of ours is refused.
func TestHostileArchives(t *testing.T) {
	whole := test.Must(os.ReadFile(written(t)))
	manifest := tar.Header{Name: manifestName}
	for _, c := range []struct {
		what, want string
		data       []byte
	}{
		{"not an archive", "gzip", []byte("hello, world")},
		{"an empty file", "EOF", nil},
		{"the first half", "EOF", whole[:len(whole)/2]},
		{"a path above", `it contains "../../one"`, packed(t, tar.Header{Name: "../../one"})},
		{"an absolute path", `it contains "/etc/passwd"`, packed(t, tar.Header{Name: "/etc/passwd"})},
		{"another name", `it contains "a/two"`, packed(t, tar.Header{Name: "a/two"})},
		{"a symlink", "not a regular file", packed(t, tar.Header{
			Name:     "a/one",
			Typeflag: tar.TypeSymlink,
			Linkname: "/etc/passwd",
		})},
		{"a hard link", "not a regular file", packed(t, tar.Header{
			Name:     "a/one",
			Typeflag: tar.TypeLink,
			Linkname: "/etc/passwd",
		})},
		{"a directory", "not a regular file", packed(t, tar.Header{
			Name:     "a/one",
			Typeflag: tar.TypeDir,
		})},
		{"a device", "not a regular file", packed(t, tar.Header{
			Name:     "a/one",
			Typeflag: tar.TypeChar,
		})},
		{"a large size", "is too large", packed(t, tar.Header{Name: "a/one", Size: 1 << 40})},
		{
			"a file twice",
			"damaged or changed",
			packed(t, tar.Header{Name: "a/one"}, tar.Header{Name: "a/one"}, manifest),
		},
		{"no manifest", "it has no manifest", packed(t, tar.Header{Name: "a/one"})},
		{"another checksum", "damaged or changed", packed(t, tar.Header{Name: "a/one"}, manifest)},
		{"a missing file", "damaged or changed", packed(t, manifest)},
		{"more behind the manifest", "damaged or changed", packed(t, tar.Header{Name: "a/one"}, manifest, manifest)},
		{"another kind", "damaged or changed", whole},
	} {
		t.Run(c.what, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "hostile")
			test.OK(t, os.WriteFile(path, c.data, 0o600))
			kind := "backup"
			if c.what == "another kind" {
				kind = "support"
			}
			_, err := Read(path, kind, []string{"a/one", "b/two"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error must contain %q: %v", c.want, err)
			}
		})
	}
}

// What could not be read again is not written.
func TestLargeArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	err := Write(path, Manifest{Files: []File{{Name: "a/one", Data: make([]byte, mostBytes+1)}}})
	if err == nil || !strings.Contains(err.Error(), "would have 2.0 GiB") {
		t.Error(err)
	}
}
