package runner

import (
	"context"
	"encoding/json"
	"net/url"
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

// longestLink is more than any that a person would open.
const longestLink = 400

// keepLinks adds to the run where its work can be looked at, and writes it down at once: a worker that dies takes nothing
// of it along.
func (j *job) keepLinks(links []reconcile.Link) {
	for i := range links {
		links[i].URL = j.Redactor.Text(links[i].URL)
	}
	var before, after int
	j.rec.change(func(r *reconcile.Run) {
		before = len(r.Links)
		r.Links = reconcile.MergeLinks(r.Links, links)
		after = len(r.Links)
	})
	if after > before {
		j.rec.flush(context.Background())
	}
}

// linksSaid are the pull requests that an item tells of: a message of the agent's, or the output of a command that made
// one. What else the agent reads may name any pull request.
func linksSaid(item *agent.Item) []reconcile.Link {
	switch {
	case item == nil || !item.Ended:
	case item.Kind == agent.ItemMessage:
		return pullRequests(item.Text)
	case item.Kind == agent.ItemCommand && makesPullRequest(item.Command):
		return pullRequests(item.Output)
	}
	return nil
}

// makesPullRequest knows the command lines of gh, glab, hub and tea.
func makesPullRequest(command string) bool {
	for _, words := range []string{"pr create", "mr create", "pulls create", "pull-request"} {
		if strings.Contains(command, words) {
			return true
		}
	}
	return false
}

// linksMade are those that a mutation has left in the tracker: what it attached, and pull requests in any text.
func linksMade(m reconcile.Mutation) []reconcile.Link {
	if !m.Success {
		return nil
	}
	text := m.Query + " " + strings.Join(stringsOf(m.Variables), " ")
	links := pullRequests(text)
	if !slices.ContainsFunc(m.Fields, func(f string) bool { return strings.HasPrefix(f, "attachment") }) {
		return links
	}
	for _, u := range urlsIn(text) {
		if pullRequest(u) == nil {
			links = append(links, reconcile.Link{Kind: linkAttachment, URL: u.String()})
		}
	}
	return links
}

// stringsOf are the texts in a JSON value, in the order of its keys.
func stringsOf(raw json.RawMessage) []string {
	var value any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil {
		return nil
	}
	var all []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			all = append(all, v)
		case []any:
			for _, member := range v {
				walk(member)
			}
		case map[string]any:
			for _, key := range sortedKeys(v) {
				walk(v[key])
			}
		}
	}
	walk(value)
	return all
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func pullRequests(text string) []reconcile.Link {
	var links []reconcile.Link
	for _, u := range urlsIn(text) {
		if pr := pullRequest(u); pr != nil {
			links = append(links, reconcile.Link{Kind: linkPullRequest, URL: pr.String()})
		}
	}
	return links
}

// pullRequest is the page of the pull request that an address lies on, nil where it lies on none: OWNER/REPO/pull/7 and
// what GitLab, Bitbucket and Gitea have in its place.
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

// urlsIn finds the addresses in a text, without names and passwords.
func urlsIn(text string) []*url.URL {
	var all []*url.URL
	for {
		at := strings.Index(text, "http")
		if at < 0 {
			return all
		}
		text = text[at:]
		if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
			text = text[len("http"):]
			continue
		}
		end := strings.IndexFunc(text, endsURL)
		if end < 0 {
			end = len(text)
		}
		word := strings.TrimRight(text[:end], ".,;:!?*_'")
		text = text[end:]
		if u, err := url.Parse(word); err == nil && u.Host != "" && len(word) <= longestLink {
			u.User = nil
			all = append(all, u)
		}
	}
}

// endsURL knows what no address holds unquoted, and the marks that texts and GraphQL put around one.
func endsURL(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("\"<>()[]{}|\\^`", r) }
