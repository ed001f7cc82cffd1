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
	opened.By = h.o.By
	for range 2 {
		if opened.URL, err = h.find(ctx, n.Branch, n.Commit); opened.URL != "" || err != nil {
			return opened, err
		}
		if n.Base == "" { // its name may be another one by now than when the work began
			repository, err := send[struct {
				Base string `json:"default_branch"`
			}](ctx, h, http.MethodGet, "", nil)
			if n.Base = repository.Base; err != nil {
				return opened, err
			}
		}
		made, wrong := send[struct {
			URL string `json:"html_url"`
		}](ctx, h, http.MethodPost, "/pulls", map[string]string{"title": n.Title, "body": n.Body, "head": n.Branch, "base": n.Base})
		refused := func(reason string) bool {
			return errors.Is(wrong, reconcile.ErrRejected) && strings.Contains(wrong.Error(), reason)
		}
		switch {
		case refused("No commits between"):
			return opened, nil
		case refused("head invalid"):
			return opened, errors.Join(wrong, reconcile.ErrNoBranch)
		case !refused("pull request already exists"): // or else another has just opened it, so the list contains it now
			opened.URL, opened.Opened = made.URL, wrong == nil
			return opened, wrong
		}
		err = wrong
	}
	return opened, err
}

// send sends a request for which the token may write pull requests, and decodes the answer.
func send[T any](ctx context.Context, h hub, method, path string, body any) (v T, err error) {
	a, err := h.do(ctx, writePulls, method, path, body)
	if err != nil {
		return v, err
	}
	return githubapi.Decode[T](h.Client.Client, "JSON of GitHub", a.Body)
}

// find returns the open pull request of a branch, or else the newest that was merged or closed when the branch was at the commit.
func (h hub) find(ctx context.Context, branch, commit string) (found string, err error) {
	fields, err := h.query(ctx, writePulls, document("branch"), map[string]any{"branch": branch})
	if err != nil {
		return "", err
	}
	all, err := decode[transport.List[struct {
		URL     string `json:"url"`
		State   string `json:"state"`
		Branch  string `json:"headRefName"`
		Commit  string `json:"headRefOid"` // the last one while it was open
		Foreign bool   `json:"isCrossRepository"`
	}]](h, "list of pull requests", fields["pullRequests"])
	for _, p := range all.Nodes {
		switch {
		case p.Foreign || p.Branch != branch:
		case p.State == "OPEN":
			return p.URL, nil
		case p.Commit == commit && found == "":
			found = p.URL
		}
	}
	return found, err
}

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
