package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
)

// PackTree writes a pack of the commit of HEAD in dir, with its files and without its history.
// HEAD must still be commit.
func PackTree(ctx context.Context, dir, commit string, to io.Writer) (err error) {
	r, err := openCommitted(ctx, dir, commit)
	if err != nil {
		return readFailed(ctx, dir, err)
	}
	defer func() { err = readFailed(ctx, dir, errors.Join(err, r.close())) }()
	objects, err := r.output(r.git(ctx, "rev-list", "--objects", "--no-object-names", "--no-walk", commit))
	if err != nil {
		return err
	}
	pack := r.git(ctx, "pack-objects", "--stdout", "--quiet")
	pack.Stdin = strings.NewReader(objects + "\n")
	pack.Stdout = to
	return r.run(pack)
}

// openCommitted opens the repository of dir, whose HEAD must be commit.
func openCommitted(ctx context.Context, dir, commit string) (*reader, error) {
	r, ok, err := openReader(ctx, dir)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("it has no git repository")
	}
	if r.commit != commit {
		return nil, errors.Join(fmt.Errorf("HEAD is no longer %s", commit), r.close())
	}
	return r, nil
}

// ChangedProof returns ProofFiles among the files that HEAD changed since the work left its base.
func ChangedProof(ctx context.Context, dir string, clone Clone, command string) (files []string, err error) {
	r, ok, err := openToCompare(ctx, dir, clone)
	if err != nil || !ok {
		return nil, readFailed(ctx, dir, err)
	}
	defer func() { err = readFailed(ctx, dir, errors.Join(err, r.close())) }()
	if r.commit == "" {
		return nil, nil
	}
	from, err := r.workFrom(ctx, clone.Began)
	if err != nil {
		return nil, err
	}
	ask := r.asker(ctx)
	for _, base := range from {
		diff, err := ReadChanges(ask, base, r.commit)
		if err != nil {
			return nil, err
		}
		changed, err := ProofFiles(ask, diff, command)
		if err != nil {
			return nil, err
		}
		files = append(files, changed...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// workFrom returns the commits at which the work left its base. In a repository made by hooks the
// branches of the remote say nothing, because the agent can move them: there it is the commit
// where the run began. If the agent removed that, all files are its work.
func (r *reader) workFrom(ctx context.Context, began string) ([]string, error) {
	if r.baseCommit == "" && began != "" {
		isThere, err := r.hasTree(ctx, began)
		if err != nil {
			return nil, err
		}
		if !isThere {
			began = r.emptyTree()
		}
		return []string{began}, nil
	}
	_, base, err := r.base()
	if err != nil {
		return nil, err
	}
	if base != "" {
		list, err := MergeBases(r.asker(ctx), base, r.commit)
		if err != nil || len(list) > 0 {
			return list, err
		}
	}
	one, err := r.whereWorkBegan(ctx)
	return []string{one}, err
}

// Began returns the commit of HEAD in dir, or the empty tree if there is none, and the commits
// beside it that no remote has.
func Began(ctx context.Context, dir string) (commit string, beside []string) {
	r, ok, err := openReader(ctx, dir)
	if err != nil || !ok {
		return emptyTree1, nil
	}
	defer func() { _ = r.close() }()           // a temporary directory
	places, _ := r.elsewhere(ctx, "", Clone{}) // what it misses counts as an agent's
	beside = text.Map(places, func(p place) string { return p.commit })
	return cmp.Or(r.commit, r.emptyTree()), beside
}
