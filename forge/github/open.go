package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// open implements reconcile.Forge.
func (h hub) open(ctx context.Context, n reconcile.NewPull) (reconcile.OpenedPull, error) {
	opened, err := h.findOrCreate(ctx, n)
	if transport.RefusedFor(err, "pull request already exists") {
		// Another process has opened it since, so that the list contains it now.
		return h.findOrCreate(ctx, n)
	}
	return opened, err
}

// findOrCreate asks for the pull requests of the branch, and creates one if there is none.
func (h hub) findOrCreate(ctx context.Context, n reconcile.NewPull) (reconcile.OpenedPull, error) {
	opened := reconcile.OpenedPull{By: h.o.By}
	known, err := h.find(ctx, n)
	if err != nil {
		return opened, err
	}
	if known.URL != "" {
		opened.URL = known.URL
		opened.ID = known.ID
		return opened, nil
	}
	if n.Base == "" { // the default branch may be renamed since the work began
		n.Base, err = h.defaultBranch(ctx)
		if err != nil {
			return opened, err
		}
	}
	made, err := send[struct {
		URL string `json:"html_url"`
		ID  string `json:"node_id"`
	}](ctx, h, http.MethodPost, "/pulls", map[string]string{
		"title": n.Title,
		"body":  n.Body,
		"head":  n.Branch,
		"base":  n.Base,
	})
	switch {
	case transport.RefusedFor(err, "No commits between"):
		return opened, nil
	case transport.RefusedFor(err, "head invalid"):
		return opened, errors.Join(err, reconcile.ErrNoBranch)
	case err != nil:
		return opened, err
	case made.URL == "":
		return opened, h.Fail("forge_unknown_payload", "the new pull request has no address")
	}
	opened.URL = made.URL
	opened.ID = made.ID
	opened.Opened = true
	return opened, nil
}

// defaultBranch returns the default branch of the repository.
func (h hub) defaultBranch(ctx context.Context) (string, error) {
	repository, err := send[struct {
		Base string `json:"default_branch"`
	}](ctx, h, http.MethodGet, "", nil)
	return repository.Base, err
}

// found is a pull request of a branch.
type found struct {
	ID      string `json:"id"`
	URL     string `json:"url"`
	State   string `json:"state"`
	Branch  string `json:"headRefName"`
	Base    string `json:"baseRefName"`
	Commit  string `json:"headRefOid"`        // the last commit while it was open
	Foreign bool   `json:"isCrossRepository"` // the branch is in a fork
}

func (p found) value() reconcile.FoundPull {
	return reconcile.FoundPull{
		ID:      p.ID,
		Open:    p.State == "OPEN",
		Foreign: p.Foreign,
		Branch:  p.Branch,
		Commit:  p.Commit,
		Base:    p.Base,
	}
}

// find returns the pull request of a branch with the highest rank: of several the newest. Its
// address is empty if there is none.
func (h hub) find(ctx context.Context, n reconcile.NewPull) (found, error) {
	fields, err := h.query(ctx, writePulls, document("branch"), map[string]any{"branch": n.Branch})
	if err != nil {
		return found{}, err
	}
	all, err := decode[transport.List[found]](h, "list of pull requests", fields["pullRequests"])
	if err != nil {
		return found{}, err
	}
	var best found
	for _, p := range all.Nodes {
		if n.Rank(p.value()) > n.Rank(best.value()) {
			best = p
		}
	}
	return best, nil
}

// comment implements reconcile.Forge. It writes nothing if a comment with the marker exists.
func (h hub) comment(ctx context.Context, number int, marker, body string) error {
	fields, err := h.query(ctx, writePulls, document("comments"), map[string]any{"number": number})
	if err != nil {
		return err
	}
	pull, err := decode[*struct {
		Comments transport.List[struct {
			Own  bool   `json:"viewerDidAuthor"`
			Body string `json:"body"`
		}] `json:"comments"`
	}](h, "pull request", fields["pullRequest"])
	if err != nil {
		return err
	}
	if pull == nil {
		return h.noPull(writePulls, number)
	}
	for _, c := range pull.Comments.Nodes {
		if c.Own && strings.Contains(c.Body, marker) {
			return nil
		}
	}
	path := fmt.Sprintf("/issues/%d/comments", number)
	_, err = h.do(ctx, writePulls, http.MethodPost, path, map[string]string{"body": body})
	return err
}
