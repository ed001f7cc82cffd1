package runner

import (
	"context"
	"net/url"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// pullRequest is the pull request of the run's issue.
type pullRequest struct{ *parts }

// words are what people call it.
func (p *pullRequest) words() reconcile.PullWords { return p.Here.Config.Repository.Words }

// rework returns why the issue came back; nil if it did not.
func (p *pullRequest) rework(ctx context.Context) (*reconcile.Rework, error) {
	if p.Forge == nil {
		return nil, nil
	}
	w, _, err := p.Journal.Watch(ctx, p.run.IssueID)
	return w.Rework, err
}

// openForge returns the adapter to pull requests, with the login of this machine.
func (p *pullRequest) openForge(ctx context.Context) (*reconcile.Forge, error) {
	env, err := p.shell.gitEnv(ctx)
	if err != nil {
		return nil, err
	}
	return p.Forge(ctx, env)
}

// maxTitle is the length of the longest title of a pull request in characters; forges allow at
// least 255.
const maxTitle = 200

func pullRequestTitle(issue reconcile.Issue) string {
	title := []rune(text.Visible(text.OneLine(issue.Identifier + ": " + issue.Title)))
	if len(title) > maxTitle {
		return string(title[:maxTitle]) + "…"
	}
	return string(title)
}

// pullRequestBody contains nothing from outside but the address of the issue, without
// characters that have a meaning in Markdown.
func pullRequestBody(issue reconcile.Issue, sentences ...string) string {
	body := "Opened by symphony"
	u, err := url.Parse(text.OrEmpty(issue.URL))
	if err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") &&
		!strings.ContainsAny(u.String(), "<>()[]`\\\"") {
		body += " for <" + u.String() + ">"
	}
	body += "."
	for _, sentence := range sentences {
		if sentence != "" {
			body += "\n\n" + sentence
		}
	}
	return body
}
