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
	ask := func(stdin string, args ...string) (string, error) {
		cmd := r.git(ctx, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(cmd.Env, "GIT_LITERAL_PATHSPECS=1")
		return r.output(cmd)
	}
	raw, err := ask("", append(slices.Concat(diffTreeWords, RawChanges), from, r.commit, "--")...)
	if err != nil {
		return nil, err
	}
	return ProofFiles(ask, r.commit, command, ParseChanges(raw))
}

// workFrom is whereWorkBegan also for a repository made by hooks: there the branches of the
// remote say nothing, because the agent can move them. If the agent removed the commit where
// its work began, all files are its work.
func (r *reader) workFrom(ctx context.Context, began string) (string, error) {
	if r.baseCommit != "" || began == "" {
		return r.whereWorkBegan(ctx)
	}
	isThere, err := r.hasTree(ctx, began)
	if err != nil {
		return "", err
	}
	if !isThere {
		return r.emptyTree(), nil
	}
	return began, nil
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
