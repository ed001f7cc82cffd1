package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/symphony-cron/symphony/internal/githubapi"
	"github.com/symphony-cron/symphony/internal/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// open implements reconcile.Forge. It asks for the pull requests of the branch first.
func (h hub) open(ctx context.Context, n reconcile.NewPull) (opened reconcile.OpenedPull, err error) {
	for range 2 {
		var base string
		opened.URL, base, err = h.find(ctx, n)
		opened.By = h.o.By
		if opened.URL != "" || err != nil {
			return opened, err
		}
		var a transport.Answer
		a, err = h.do(ctx, writePulls, http.MethodPost, "/pulls", map[string]string{"title": n.Title, "body": n.Body, "head": n.Branch, "base": base})
		refused := func(reason string) bool {
			return errors.Is(err, reconcile.ErrRejected) && strings.Contains(err.Error(), reason)
		}
		switch {
		case err == nil:
			made, err := githubapi.Decode[struct {
				URL string `json:"html_url"`
			}](h.Client.Client, "pull request", a)
			return reconcile.OpenedPull{URL: made.URL, Opened: true, By: h.o.By}, err
		case refused("No commits between"):
			return opened, nil
		case !refused("pull request already exists"): // or else another has just opened it, so the list contains it now
			return opened, err
		}
	}
	return opened, err
}

// find returns the open pull request of a branch, or else one that was merged or closed when the branch was at the commit; and the base of
// a new one.
func (h hub) find(ctx context.Context, n reconcile.NewPull) (found, base string, err error) {
	fields, err := h.query(ctx, writePulls, branchQuery, map[string]any{"branch": n.Branch})
	if err != nil {
		return "", "", err
	}
	if base = n.Base; base == "" { // it may have another name by now than when the work began
		main, wrong := decode[struct{ Name string }](h, "default branch", fields["defaultBranchRef"])
		base, err = main.Name, wrong
	}
	all, wrong := decode[list[struct {
		URL     string `json:"url"`
		State   string `json:"state"`
		Branch  string `json:"headRefName"`
		Commit  string `json:"headRefOid"` // the last one while it was open
		Foreign bool   `json:"isCrossRepository"`
	}]](h, "list of pull requests", fields["pullRequests"])
	for _, p := range all.Nodes {
		switch {
		case p.Foreign || p.Branch != n.Branch:
		case p.State == "OPEN":
			return p.URL, base, nil
		case p.Commit == n.Commit && found == "":
			found = p.URL
		}
	}
	return found, base, errors.Join(err, wrong)
}

// comment implements reconcile.Forge.
func (h hub) comment(ctx context.Context, number int, marker, body string) error {
	fields, err := h.query(ctx, writePulls, commentsQuery, map[string]any{"number": number})
	if err != nil {
		return err
	}
	pull, err := decode[*struct {
		Comments list[struct {
			Own  bool   `json:"viewerDidAuthor"`
			Body string `json:"body"`
		}] `json:"comments"`
	}](h, "pull request", fields["pullRequest"])
	switch {
	case err != nil:
		return err
	case pull == nil:
		return h.gone(writePulls, fmt.Sprint("there is no pull request ", number))
	}
	for _, c := range pull.Comments.Nodes {
		if c.Own && strings.Contains(c.Body, marker) {
			return nil
		}
	}
	_, err = h.do(ctx, writePulls, http.MethodPost, fmt.Sprintf("/issues/%d/comments", number), map[string]string{"body": body})
	return err
}
