package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// open implements reconcile.Forge.
func (h *hub) open(ctx context.Context, n reconcile.NewPull) (reconcile.OpenedPull, error) {
	opened, err := h.findOrCreate(ctx, n)
	if transport.RefusedFor(err, "already exists") {
		// Another process has opened it since, so that the list contains it now.
		return h.findOrCreate(ctx, n)
	}
	return opened, err
}

// findOrCreate looks for the merge requests of the branch, and creates one if there is none.
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
	if n.Base == "" { // the default branch may be renamed since the work began
		p, err := h.project(ctx)
		if err != nil {
			return opened, err
		}
		n.Base = p.DefaultBranch
	}
	// GitLab would open a merge request without commits, and for a branch that does not exist.
	_, err = get[struct{}](ctx, h, "/repository/branches/"+url.PathEscape(n.Branch), nil)
	if errors.Is(err, reconcile.ErrGone) {
		return opened, errors.Join(err, reconcile.ErrNoBranch)
	}
	if err != nil {
		return opened, err
	}
	compared, err := get[struct {
		Commits []struct{} `json:"commits"`
	}](ctx, h, "/repository/compare", url.Values{"from": {n.Base}, "to": {n.Branch}})
	if err != nil || len(compared.Commits) == 0 {
		return opened, err
	}
	a, err := h.ask(ctx, http.MethodPost, h.path("/merge_requests"), map[string]string{
		"title":         text.Short(n.Title, maxName),
		"description":   n.Body,
		"source_branch": n.Branch,
		"target_branch": n.Base,
	})
	if err != nil {
		return opened, err
	}
	made, err := transport.Decode[pull](h.Client.Client, a.Body)
	if err == nil && made.URL == "" {
		err = h.Fail("forge_unknown_payload", "the new merge request has no address")
	}
	if err != nil {
		return opened, err
	}
	opened.URL = made.URL
	opened.ID = made.name()
	opened.Opened = true
	return opened, nil
}

func (p pull) found() reconcile.FoundPull {
	return reconcile.FoundPull{
		ID:      p.name(),
		Open:    p.isOpen(),
		Foreign: p.isForeign(),
		Branch:  p.Branch,
		Commit:  p.Head,
		Base:    p.Base,
	}
}

// find returns the merge request of a branch with the highest rank: of several the newest. Its
// address is empty if there is none.
func (h *hub) find(ctx context.Context, n reconcile.NewPull) (pull, error) {
	var best pull
	query := url.Values{"source_branch": {n.Branch}, "state": {"all"}}
	err := list(ctx, h, "/merge_requests", query, func(pulls []pull) bool { // the newest first
		for _, p := range pulls {
			if n.Rank(p.found()) > n.Rank(best.found()) {
				best = p
			}
		}
		return !best.isOpen()
	})
	return best, err
}

// comment implements reconcile.Forge. It writes nothing if a comment with the marker exists.
func (h *hub) comment(ctx context.Context, number int, marker, body string) error {
	me, err := h.Me(ctx)
	if err != nil {
		return err
	}
	path := fmt.Sprintf("/merge_requests/%d", number)
	query := url.Values{"order_by": {"created_at"}, "sort": {"desc"}, "activity_filter": {"only_comments"}}
	there := false
	err = list(ctx, h, path+"/notes", query, func(notes []gitlabapi.Note) bool {
		for _, n := range notes {
			isOurs := n.Author != nil && n.Author.ID == me.ID
			there = there || isOurs && strings.Contains(n.Body, marker)
		}
		return false // only the newest
	})
	if err != nil || there {
		return err
	}
	_, err = h.PostNote(ctx, h.path("%s", path), body)
	return h.named(ctx, err)
}
