package runner

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The kinds of links.
const (
	linkPullRequest = "pull_request"
	linkAttachment  = "attachment"
)

// maxLink is the length above which an address is ignored.
const maxLink = 400

// keepLinks adds links to the work of the run. They are written at once, so that they are not lost if the worker dies.
func (j *job) keepLinks(links []reconcile.Link) {
	for i := range links {
		links[i].URL = j.Redactor.Text(links[i].URL)
	}
	more := false
	j.rec.change(func(r *reconcile.Run) {
		before := len(r.Links)
		r.Links = reconcile.MergeLinks(r.Links, links)
		more = len(r.Links) > before
	})
	if more {
		j.rec.flush(context.Background())
	}
}

// createsPullRequest matches the command lines of gh, glab, tea and hub.
var createsPullRequest = regexp.MustCompile(`pr create|mr create|pulls create|pull-request`)

// linksInItem returns the pull requests that a message of the agent names, or that a command has printed which created one.
// The agent's other items may name unrelated pull requests.
func linksInItem(item *agent.Item) []reconcile.Link {
	switch {
	case item == nil || !item.Ended:
	case item.Kind == agent.ItemMessage:
		return linksIn(item.Text, false)
	case item.Kind == agent.ItemCommand && createsPullRequest.MatchString(item.Command):
		return linksIn(item.Output, false)
	}
	return nil
}

// linksInMutation returns what a successful mutation has attached in the tracker, and the pull requests that it names.
func linksInMutation(m reconcile.Mutation) []reconcile.Link {
	if !m.Success {
		return nil
	}
	attaches := slices.ContainsFunc(m.Fields, func(f string) bool { return strings.HasPrefix(f, "attachment") })
	text := m.Query + " " + string(m.Variables)
	return linksIn(strings.NewReplacer(`\/`, "/", `\u0026`, "&").Replace(text), attaches) // as JSON may write an address
}

// linksIn returns the pull requests that a text names, and its other addresses if they are attachments.
func linksIn(text string, attachments bool) []reconcile.Link {
	var links, others []reconcile.Link
	for _, u := range urlsIn(text) {
		if pr := pullRequest(u); pr != nil {
			links = append(links, reconcile.Link{Kind: linkPullRequest, URL: pr.String()})
		} else if attachments {
			others = append(others, reconcile.Link{Kind: linkAttachment, URL: u.String()})
		}
	}
	return append(links, others...)
}

// pullRequest returns the main page of the pull request that an address belongs to, nil if it belongs to none:
// OWNER/REPO/pull/7, and the corresponding paths of GitLab, Bitbucket and Gitea.
func pullRequest(u *url.URL) *url.URL {
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	for i := 2; i+1 < len(parts); i++ {
		switch parts[i] {
		case "pull", "merge_requests", "pull-requests", "pulls":
			if number := parts[i+1]; number == "" || strings.Trim(number, "0123456789") != "" {
				return nil
			}
			page := *u
			page.Path, page.RawPath, page.RawQuery, page.Fragment = "/"+strings.Join(parts[:i+2], "/"), "", "", ""
			return &page
		}
	}
	return nil
}

// anyURL ends an address at characters that it cannot contain unquoted, and at marks that texts and GraphQL put around one.
var anyURL = regexp.MustCompile("https?://[^\\x00-\\x20\\x7f\"<>()\\[\\]{}|\\\\^`]+")

// urlsIn finds the addresses in a text, and removes names and passwords from them.
func urlsIn(text string) []*url.URL {
	var all []*url.URL
	for _, word := range anyURL.FindAllString(text, -1) {
		word = strings.TrimRight(word, ".,;:!?*_'")
		if u, err := url.Parse(word); err == nil && u.Host != "" && len(word) <= maxLink {
			u.User = nil
			all = append(all, u)
		}
	}
	return all
}
