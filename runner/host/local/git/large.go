package git

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A file of Git LFS is in a commit as a pointer with the hash of its content. The agent's git
// compares the two by a filter, which is a program and does not run here.

// changeFilter passes on entries of git status. It leaves out files of Git LFS whose content
// matches their pointer in the index.
type changeFilter struct {
	ctx  context.Context
	r    *reader
	each func(entry, path string)
	held []change // files that are perhaps not changed, and files that git listed after them
	err  error
}

// change is an entry of git status and its fields; the last field is the path.
type change struct {
	entry  string
	fields []string
}

func (c change) path() string { return c.fields[len(c.fields)-1] }

// The fields of an entry for a file that is not in conflict: "1 .M N... 100644 100644 100644
// ID ID PATH".
const (
	fieldStates    = 1 // in the index and in the work tree
	fieldIndexMode = 4
	fieldTreeMode  = 5
	fieldIndexID   = 7
)

// modified reports whether the content of a file differs from the index, but not its mode.
func (c change) modified() bool {
	return c.entry[0] == '1' && c.fields[fieldStates][1:] == "M" &&
		c.fields[fieldIndexMode] == c.fields[fieldTreeMode]
}

// mostHeld bounds the entries of which git is asked at once.
const mostHeld = 200

func (f *changeFilter) add(c change) {
	if len(f.held) == 0 && !c.modified() {
		f.each(c.entry, c.path())
		return
	}
	f.held = append(f.held, c)
	if len(f.held) == mostHeld {
		f.flush()
	}
}

// flush passes on the held entries.
func (f *changeFilter) flush() {
	held := f.held
	f.held = nil
	sizes := f.sizes(held)
	for _, c := range held {
		if c.modified() && f.r.isPointerTo(f.ctx, c, sizes[c.fields[fieldIndexID]]) {
			if c.fields[fieldStates] == ".M" {
				continue
			}
			c.entry = strings.Replace(c.entry, "M ", ". ", 1) // only the staged part changed
		}
		f.each(c.entry, c.path())
	}
}

// sizes returns the sizes of the blobs in the index of modified files, as text.
func (f *changeFilter) sizes(list []change) map[string]string {
	var ids strings.Builder
	for _, c := range list {
		if c.modified() {
			fmt.Fprintln(&ids, c.fields[fieldIndexID])
		}
	}
	sizes := map[string]string{}
	if ids.Len() == 0 || f.err != nil {
		return sizes
	}
	cmd := f.r.git(f.ctx, "cat-file", "--batch-check=%(objectname) %(objectsize)")
	cmd.Stdin = strings.NewReader(ids.String())
	out, err := f.r.output(cmd)
	f.err = err
	for line := range strings.Lines(out) {
		id, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		sizes[id] = size
	}
	return sizes
}

// isPointerTo reports whether the blob in the index, of which size is the length, is the
// pointer to the content of a file. Only if the length fits, the file is read.
func (r *reader) isPointerTo(ctx context.Context, c change, size string) bool {
	root, err := os.OpenRoot(r.tree)
	if err != nil {
		return false
	}
	defer root.Close()
	path := filepath.FromSlash(c.path())
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	const form = "version https://git-lfs.github.com/spec/v1\noid sha256:%064s\nsize %d\n"
	length := len(fmt.Sprintf(form, "", info.Size())) // %064s stands for any sum
	if size != strconv.Itoa(length) {
		return false
	}
	content := sha256.New()
	n, err := io.Copy(content, WithContext(ctx, file))
	if err != nil {
		return false
	}
	pointer := fmt.Sprintf(form, hex.EncodeToString(content.Sum(nil)), n)
	return blobID(pointer, len(c.fields[fieldIndexID])) == c.fields[fieldIndexID]
}

// WithContext returns a reader that ends with an error when a context ends.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(b)
}

// blobID is the name of a blob in a repository with names of so many characters.
func blobID(content string, length int) string {
	h := sha1.New() //nolint:gosec // as git names objects
	if length == 64 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00%s", len(content), content)
	return hex.EncodeToString(h.Sum(nil))
}
