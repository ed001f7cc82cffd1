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
	"strings"
	"syscall"
)

// A file of Git LFS is in a commit as a pointer with the hash of its content. The agent's git
// compares the two by a filter, which is a program and does not run here.

// The fields of an entry of git status for a file that is not in conflict: "1 .M N... 100644 100644
// 100644 ID ID PATH".
const (
	fieldStates    = 1 // in the index and in the work tree
	fieldIndexMode = 4
	fieldTreeMode  = 5
	fieldIndexID   = 7
)

// withoutPointer returns an entry of git status without the change of a file of Git LFS whose
// content matches its pointer in the index; empty if nothing else of it changed.
func (r *reader) withoutPointer(ctx context.Context, entry string, fields []string) string {
	path := fields[len(fields)-1]
	isModified := entry[0] == '1' && fields[fieldStates][1:] == "M" &&
		fields[fieldIndexMode] == fields[fieldTreeMode]
	if !isModified || !r.isPointerTo(ctx, path, fields[fieldIndexID]) {
		return entry
	}
	if fields[fieldStates] == ".M" {
		return ""
	}
	return strings.Replace(entry, "M ", ". ", 1) // only the staged part changed
}

// isPointerTo reports whether a blob is the pointer to the content of a file.
func (r *reader) isPointerTo(ctx context.Context, path, blob string) bool {
	root, err := os.OpenRoot(r.tree)
	if err != nil {
		return false
	}
	defer root.Close()
	file, err := root.OpenFile(filepath.FromSlash(path), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	content := sha256.New()
	n, err := io.Copy(content, WithContext(ctx, file))
	if err != nil {
		return false
	}
	const form = "version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n"
	return blobID(fmt.Sprintf(form, content.Sum(nil), n), len(blob)) == blob
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
