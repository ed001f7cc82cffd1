package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/giteaapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// maxSearched is how many pull requests are read to find those of a branch, the last changed
// first: Gitea can't be asked for the pull requests of a branch.
const maxSearched = 500

// open implements reconcile.Forge.
func (h *hub) open(ctx context.Context, n reconcile.NewPull) (reconcile.OpenedPull, error) {
	opened, err := h.findOrCreate(ctx, n)
	if transport.RefusedFor(err, "already exists") {
		// Another process has opened it since, so that the list contains it now.
		return h.findOrCreate(ctx, n)
	}
	return opened, err
}

// findOrCreate looks for the pull requests of the branch, and creates one if there is none.
func (h *hub) findOrCreate(ctx context.Context, n reconcile.NewPull) (reconcile.OpenedPull, error) {
	opened := reconcile.OpenedPull{By: h.o.By}
	known, err := h.find(ctx, n)
	if err != nil {
		return opened, err
	}
	if known.URL != "" {
		opened.URL = known.URL
		opened.ID = known.name()
		return opened, nil
	}
	n.Base, err = h.baseOr(ctx, n.Base)
	if err != nil {
		return opened, err
	}
	// Gitea would open a pull request without commits.
	compared, err := get[struct {
		Commits int `json:"total_commits"`
	}](ctx, h, giteaapi.ReadRepository, "/compare/"+url.PathEscape(n.Base)+"..."+url.PathEscape(n.Branch))
	if errors.Is(err, reconcile.ErrGone) {
		return opened, h.missing(ctx, err, n.Base)
	}
	if err != nil || compared.Commits == 0 {
		return opened, err
	}
	made, err := call[pull](ctx, h, giteaapi.WriteRepository, http.MethodPost, "/pulls", map[string]string{
		"title": n.Title,
		"body":  n.Body,
		"head":  n.Branch,
		"base":  n.Base,
	})
	switch {
	case err != nil:
		return opened, err
	case made.URL == "":
		return opened, h.Fail("forge_unknown_payload", "the new pull request has no address")
	}
	opened.URL = made.URL
	opened.ID = made.name()
	opened.Opened = true
	return opened, nil
}

// baseOr returns a base, or the default branch for none, which may be renamed since the work began.
func (h *hub) baseOr(ctx context.Context, base string) (string, error) {
	if base != "" {
		return base, nil
	}
	repository, err := get[struct {
		Base string `json:"default_branch"`
	}](ctx, h, giteaapi.ReadRepository, "")
	return repository.Base, err
}

// missing adds to the error of a comparison which branch is missing, about which Gitea answers alike.
// If the server died in the middle of a push its database lacks a branch that git has. Then
// /branches/NAME is 404 for ever, and only the comparison is right.
func (h *hub) missing(ctx context.Context, gone error, base string) error {
	_, err := get[struct{}](ctx, h, giteaapi.ReadRepository, "/branches/"+url.PathEscape(base))
	if err == nil {
		return errors.Join(gone, reconcile.ErrNoBranch)
	}
	if errors.Is(err, reconcile.ErrGone) {
		return gone
	}
	return err
}

func (p pull) found() reconcile.FoundPull {
	return reconcile.FoundPull{
		ID:      p.name(),
		Open:    p.State == pullOpen,
		Foreign: p.isForeign(),
		Branch:  p.branch(),
		Commit:  p.Head.SHA,
		Base:    p.Base.Ref,
	}
}

// find returns the pull request of a branch with the highest rank: of several the last changed.
// Its address is empty if there is none.
func (h *hub) find(ctx context.Context, n reconcile.NewPull) (pull, error) {
	var best pull
	read := 0
	query := url.Values{"state": {"all"}, "sort": {"recentupdate"}}
	err := list(ctx, h, giteaapi.ReadRepository, "/pulls", query, func(pulls []pull) bool {
		for _, p := range pulls {
			if n.Rank(p.found()) > n.Rank(best.found()) {
				best = p
			}
		}
		read += len(pulls)
		return best.State != pullOpen && read < maxSearched
	})
	return best, err
}

// comment implements reconcile.Forge. It writes nothing if a comment with the marker exists.
func (h *hub) comment(ctx context.Context, number int, marker, body string) error {
	me, err := h.Me(ctx)
	if err != nil {
		return err
	}
	// For a missing pull request the list of comments would have an error of the server.
	if _, err := h.readPull(ctx, number); err != nil {
		return err
	}
	path := fmt.Sprintf("/issues/%d/comments", number)
	comments, err := get[[]struct {
		User account `json:"user"`
		Body string  `json:"body"`
	}](ctx, h, giteaapi.WriteIssue, path)
	if err == nil && comments == nil { // null is no empty list
		err = h.Fail("forge_unknown_payload", "the answer contains no list of comments")
	}
	if err != nil {
		return err
	}
	const newest = 100
	slices.Reverse(comments)
	for _, c := range comments[:min(len(comments), newest)] {
		if c.User.Login == me.Login && strings.Contains(c.Body, marker) {
			return nil
		}
	}
	_, err = call[struct{}](ctx, h, giteaapi.WriteIssue, http.MethodPost, path, map[string]string{"body": body})
	return err
}
