package repository

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/host"
)

// OpenPullRequest opens a pull request as host.PullRequestRequest describes. It asks GitHub first, so it may be repeated.
func (m *Mirror) OpenPullRequest(ctx context.Context, r host.PullRequestRequest) (answer host.PullRequestAnswer, err error) {
	hub, err := m.gitHub(ctx, r.GitHub)
	if err == nil && m.remote.Base == "" { // it may have another name by now
		err = m.withLock(ctx, func(w writer) error { return w.readHead(ctx) })
	}
	if err == nil {
		answer.By = hub.by
		answer.URL, answer.Opened, err = hub.open(ctx, r, cmp.Or(m.remote.Base, m.headBranch()))
	}
	if err != nil {
		return answer, &reconcile.Error{
			Code: host.CodeDeliveryFailed, Message: fmt.Sprintf("%s is pushed, but has no pull request: %v", r.Branch, err), Err: err,
		}
	}
	return answer, nil
}

// open returns the address of the pull request of a branch, and whether it has opened it.
func (g *gitHub) open(ctx context.Context, r host.PullRequestRequest, base string) (address string, opened bool, err error) {
	for range 2 {
		address, err = g.find(ctx, r.Branch, r.Commit)
		if address != "" || err != nil {
			return address, false, err
		}
		var made pullRequest
		err = g.call(ctx, http.MethodPost, "", map[string]string{"title": r.Title, "body": r.Body, "head": r.Branch, "base": base}, &made)
		var refused *refusal
		switch {
		case err == nil:
			return made.URL, true, nil
		case errors.As(err, &refused) && strings.Contains(refused.message, "No commits between"):
			return "", false, nil
		case errors.As(err, &refused) && strings.Contains(refused.message, "pull request already exists"):
			// Another has just opened it, so the list contains it now.
		default:
			return "", false, err
		}
	}
	return "", false, err
}

// pullRequest is GitHub's description of one.
type pullRequest struct {
	URL   string `json:"html_url"`
	State string `json:"state"`
	Head  struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"` // of the last commit while it was open
	} `json:"head"`
}

// find returns the open pull request of a branch, or else one that was merged or closed when the branch was at the commit.
func (g *gitHub) find(ctx context.Context, branch, commit string) (string, error) {
	owner, _, _ := strings.Cut(g.Repository, "/")
	query := url.Values{"head": {owner + ":" + branch}, "state": {"all"}, "per_page": {"100"}}
	var all []pullRequest
	if err := g.call(ctx, http.MethodGet, "?"+query.Encode(), nil, &all); err != nil {
		return "", err
	}
	found := ""
	for _, p := range all {
		switch {
		case p.Head.Ref != branch: // GitHub ignores a filter that it does not understand
		case p.State == "open":
			return p.URL, nil
		case p.Head.SHA == commit:
			found = p.URL
		}
	}
	return found, nil
}

// refusal is GitHub's answer with the reasons why it refused a request.
type refusal struct{ text, message string }

func (r *refusal) Error() string { return r.text }

// call sends a request about the pull requests of the repository, and decodes the answer.
func (g *gitHub) call(ctx context.Context, method, path string, body, into any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := g.send(ctx, method, "repos/"+g.Repository+"/pulls"+path, sent)
	switch {
	case err != nil:
		return fmt.Errorf("%s did not answer: %w; passes try again", g.API, err)
	case answer.code/100 != 2:
		return g.refused(answer)
	}
	if err := json.Unmarshal(answer.data, into); err != nil {
		return fmt.Errorf("%s does not answer as GitHub's API does: %w; correct repository.api", g.API, err)
	}
	return nil
}

// refused explains why GitHub refused a request, and what an operator can do.
func (g *gitHub) refused(answer reply) error {
	var said struct {
		Message string
		Errors  []struct{ Message, Field, Code string }
	}
	_ = json.Unmarshal(answer.data, &said) // without JSON the status is enough
	for _, e := range said.Errors {
		said.Message += "; " + cmp.Or(e.Message, strings.TrimSpace(e.Field+" "+e.Code))
	}
	next, h := "passes try again", answer.header
	limited := answer.code == http.StatusTooManyRequests || h.Get("X-Ratelimit-Remaining") == "0" || h.Get("Retry-After") != ""
	rights := g.by + " needs the right to write pull requests of " + g.Repository
	switch code := answer.code; {
	case code == http.StatusUnauthorized:
		next = g.login
	case limited:
		next = "the rate is limited; " + next
		// The reset is that of the primary limit, also in an answer about a secondary one.
		if at, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && h.Get("X-Ratelimit-Remaining") == "0" {
			next = "the rate is limited until " + time.Unix(at, 0).UTC().Format(time.RFC3339) + "; passes try again"
		}
	case code == http.StatusForbidden:
		next = rights
	case code == http.StatusNotFound:
		next = "there is no such repository at " + g.API + ", or " + rights
	}
	said.Message = text.Within(text.Visible(cmp.Or(said.Message, http.StatusText(answer.code))), maxComplaint)
	return &refusal{fmt.Sprintf("GitHub answers %d %s; %s", answer.code, said.Message, next), said.Message}
}
