package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/files"
)

const (
	maxEnd = 64 << 20 // bytes of files with uncommitted changes stored for an end
	// the name of a file in the directory of ends: the tree and the commit of the last end
	lastEnd = "last"
)

// KeepEnd stores the contents of the work tree of dir in the directory ends, which is
// symphony's: committed or not, with new files and without ignored files, so that DiffEnds can
// compare them. It counts the changes since the end before. It returns nil without a
// repository. Commits stay in the repository, where git removes them some time after no branch
// contains them any more.
func KeepEnd(ctx context.Context, dir string, clone Clone, ends string) (end *host.WorkEnd, err error) {
	ctx, cancel := within(ctx, fingerprintFor)
	defer cancel()
	r, ok, err := openToCompare(ctx, dir, clone)
	if err != nil || !ok {
		return nil, readFailed(ctx, dir, err)
	}
	defer func() { err = readFailed(ctx, dir, errors.Join(err, r.close())) }()
	r.objects = ends
	end, err = r.keepTree(ctx, ends)
	if err != nil {
		return nil, err
	}
	last, _ := files.ReadRegular(filepath.Join(ends, lastEnd), maxHead) // there may be none
	tree, commit, known := strings.Cut(string(last), " ")
	if !known {
		tree = end.Base
	}
	err = r.countSince(ctx, end, tree, commit)
	if err != nil && known { // git may have removed it
		err = r.countSince(ctx, end, end.Base, "")
	}
	if err != nil {
		return end, err
	}
	return end, os.WriteFile(filepath.Join(ends, lastEnd), []byte(end.Tree+" "+r.commit), 0o600)
}

// keepTree stores the work tree in ends. It returns an error if the files that are not
// committed have more than maxEnd bytes.
func (r *reader) keepTree(ctx context.Context, ends string) (end *host.WorkEnd, err error) {
	if err := files.OwnDir(ends); err != nil {
		return nil, err
	}
	if err := r.copyIndex(); err != nil {
		return nil, err
	}
	if err := r.showHidden(ctx); err != nil {
		return nil, err
	}
	changed, err := r.listUncommitted(ctx)
	if err != nil {
		return nil, err
	}
	if changed.bytes > maxEnd {
		return nil, fmt.Errorf("files that are not committed have more than %d MiB", maxEnd>>20)
	}
	if err := r.addToIndex(ctx, changed.untracked.String()); err != nil {
		return nil, err
	}
	end = &host.WorkEnd{Uncommitted: changed.count}
	if end.Uncommitted > 0 {
		if err := r.run(r.gitThatStores(ctx, "add", "--update")); err != nil {
			return nil, err
		}
	}
	end.Tree, err = r.output(r.gitThatStores(ctx, "write-tree", "--missing-ok"))
	if err != nil {
		return nil, err
	}
	end.Base, err = r.whereWorkBegan(ctx)
	return end, err
}

// countSince counts the changes in an end since an earlier tree, and the commits that neither
// the base nor an earlier end contains.
func (r *reader) countSince(ctx context.Context, end *host.WorkEnd, tree, commit string) error {
	text, err := r.output(r.git(ctx, append(diffTreeWords, "--numstat", tree, end.Tree, "--")...))
	if err != nil {
		return err
	}
	end.Files = 0
	end.Added = 0
	end.Removed = 0
	for line := range strings.Lines(text) {
		var added, removed int // of a binary file they are not numbers
		_, _ = fmt.Sscan(line, &added, &removed)
		end.Files++
		end.Added += added
		end.Removed += removed
	}
	_, base, err := r.base()
	if err != nil || r.commit == "" || base+commit == "" {
		return err
	}
	count, err := r.countAhead(ctx, base, commit)
	if err != nil && base != "" { // git removed the earlier commit
		count, err = r.countAhead(ctx, base)
	}
	if err != nil {
		return err
	}
	end.Commits = *count
	return nil
}

// DiffEnds writes the differences between two trees that KeepEnd stored in ends, or two
// commits of the repository of dir; ok is false where git finds no repository.
func DiffEnds(ctx context.Context, dir, ends, from, to string, w io.Writer) (ok bool, err error) {
	ctx, cancel := within(ctx, diffFor)
	defer cancel()
	r, ok, err := openToCompare(ctx, dir, Clone{})
	if err != nil || !ok {
		return ok, readFailed(ctx, dir, err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	r.objects = ends
	for _, tree := range []string{from, to} {
		isKept, err := r.hasTree(ctx, tree)
		if err != nil {
			return true, readFailed(ctx, dir, err)
		}
		if !isKept {
			return true, reconcile.NewError(
				host.CodeEndNotKept,
				dir+" no longer has what one of the attempts has left: it was made anew since, or "+
					"git has removed it",
				"compare other attempts",
			)
		}
	}
	for _, tree := range []string{from, to} {
		if err := r.checkSize(ctx, tree); err != nil {
			return true, readFailed(ctx, dir, err)
		}
	}
	cmd := r.git(ctx, append(slices.Concat(diffTreeWords, asRenames), from, to, "--")...)
	cmd.Stdout = w
	return true, readFailed(ctx, dir, r.run(cmd))
}

// hasTree reports whether an object is a tree, or a commit with one.
func (r *reader) hasTree(ctx context.Context, id string) (bool, error) {
	if !objectID(id) {
		return false, nil
	}
	err := r.run(r.git(ctx, "cat-file", "-e", id+"^{tree}"))
	if gitcmd.Exited(err) {
		return false, nil
	}
	return err == nil, err
}
