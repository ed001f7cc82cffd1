package proc

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// TreeFD is the number of the descriptor by which hooks and agents hold their run's tree file, and so does all that
// they start: a mark that no change of the environment, the session or the parent takes away, only closing it.
//
// Low numbers are taken by shell scripts for their own ends (3 to 9), by shells (10 and up, 255), and Node closes all
// up to 16 and from there on as far as they are in use without a gap. Beyond 63 a strict limit on descriptors ends.
const TreeFD = 63

// OpenTree opens the tree file of a run, which it makes if need be. Nothing is ever written there.
func OpenTree(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("tree file: %w", err)
	}
	return f, nil
}

// treeRoom is how many numbers beyond TreeFD a fork uses for a moment, to bring the others to theirs.
const treeRoom = 16

// WithTree appends tree to files, the first of which becomes descriptor first, so that it becomes TreeFD. The numbers
// between are closed in the child. Without a tree, and where its number is taken or too near the limit on descriptors,
// files stay as they are.
func WithTree(files []*os.File, first int, tree *os.File) []*os.File {
	var limit unix.Rlimit
	if tree == nil || len(files) > TreeFD-first || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur <= TreeFD+treeRoom {
		return files
	}
	out := make([]*os.File, TreeFD-first+1)
	copy(out, files)
	out[TreeFD-first] = tree
	return out
}

// shownPath is path as the system shows it for an open file: without symlinks, as far as its folder is there.
func shownPath(path string) string {
	if path == "" {
		return ""
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.Base(path))
}
