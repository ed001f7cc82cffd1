package runner

import (
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// The kinds of links.
const (
	linkPullRequest = "pull_request"
	linkAttachment  = "attachment"
)

// maxLink is the length of the longest address that is kept.
const maxLink = 400

// createPullRequest are words of commands of gh, glab, tea and hub that create a pull request.
var createPullRequest = []string{"pr create", "mr create", "pulls create", "pull-request"}

// linksInItem returns the pull requests in a message of the agent, or in the output of a
// command that creates a pull request. Other items may name unrelated pull requests.
func linksInItem(item *agent.Item) []reconcile.Link {
	contains := func(words string) bool { return strings.Contains(item.Command, words) }
	switch {
	case item == nil || !item.Ended:
	case item.Kind == agent.ItemMessage:
		return linksIn(item.Text, false)
	case item.Kind == agent.ItemCommand && slices.ContainsFunc(createPullRequest, contains):
		return linksIn(item.Output, false)
	}
	return nil
}

// linksInMutation returns the addresses that a successful mutation attached in the tracker,
// and the pull requests in it.
func linksInMutation(m reconcile.Mutation) []reconcile.Link {
	if !m.Success {
		return nil
	}
	attaches := slices.ContainsFunc(
		m.Fields,
		func(f string) bool { return strings.HasPrefix(f, "attachment") },
	)
	text := m.Query + " " + string(m.Variables)
	// JSON escapes in addresses
	return linksIn(strings.NewReplacer(`\/`, "/", `\u0026`, "&").Replace(text), attaches)
}

// linksIn returns the pull requests in a text, and its other addresses if they are
// attachments.
func linksIn(text string, attachments bool) []reconcile.Link {
	var links, others []reconcile.Link
	for _, u := range urlsIn(text) {
		if page := pullRequestPath().FindStringSubmatch(u.Path); page != nil {
			u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: page[1]}
			links = append(links, reconcile.Link{Kind: linkPullRequest, URL: u.String()})
		} else if attachments {
			others = append(others, reconcile.Link{Kind: linkAttachment, URL: u.String()})
		}
	}
	return append(links, others...)
}

// pullRequestPath matches OWNER/REPO/pull/7, and the corresponding paths of other forges. The
// group is the main page.
var pullRequestPath = text.Pattern(
	`^(/[^/]+/[^/]+/(?:[^/]+/)*?(?:` + strings.Join(reconcile.PullPaths(), "|") + `)/\d+)(?:/|$)`,
)

// anyURL matches an address up to a character that can't be part of it, or that texts and
// GraphQL put around addresses.
var anyURL = text.Pattern("https?://[^\\x00-\\x20\\x7f\"<>()\\[\\]{}|\\\\^`]+")

// urlsIn returns the addresses in a text, without user names and passwords.
func urlsIn(text string) []*url.URL {
	var all []*url.URL
	for _, word := range anyURL().FindAllString(text, -1) {
		word = strings.TrimRight(word, ".,;:!?*_'")
		if u, err := url.Parse(word); err == nil && u.Host != "" && len(word) <= maxLink {
			u.User = nil
			all = append(all, u)
		}
	}
	return all
}
