package github

import (
	"github.com/symphony-cron/symphony/internal/adapter/githubapi"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/reconcile"
)

// Options configure a Client.
type Options struct {
	transport.Options          // Endpoint is https://HOST/api/v3 on GitHub Enterprise
	Repositories      []string // OWNER/NAME
	// StateLabels are the labels that are states; empty if issues are only open or closed.
	StateLabels []string
	// PriorityLabels are the labels of the priorities 1, 2 and so on.
	PriorityLabels []string
	// Assignee is the login, or "me", for which the workflow looks among several assignees of
	// an issue; may be empty.
	Assignee string
	// Project is the URL of a project (Projects v2) whose column is the state; empty for none.
	Project string
	// ReadOnly makes the agent's tools refuse every call.
	ReadOnly bool
	// Memory keeps the end of a limit and the list of open issues between processes. Nil: only
	// this client remembers them.
	Memory reconcile.TrackerMemory
	// Branch returns the branch on which an issue is worked on, empty for none. Nil: pull
	// requests are not read.
	Branch func(reconcile.Issue) string
}

// DefaultEndpoint is the URL of GitHub's REST API.
const DefaultEndpoint = "https://api.github.com"

var service = transport.Service{
	Name:    "GitHub",
	Prefix:  "tracker",
	Address: DefaultEndpoint,
	Paths:   true,
	Setting: "tracker.endpoint",
	Header:  githubapi.Header,
	Secret:  "GitHub token",
	Word:    "token",
	SetKey: "set GITHUB_TOKEN or GH_TOKEN, run `gh auth login`, " +
		"or set tracker.api_key to the $VARIABLE that holds it",
	CheckKey:      "check the GitHub token: it must be valid, and allow reading and writing issues of the repository",
	CheckEndpoint: "leave it out to use " + DefaultEndpoint + "; on GitHub Enterprise it is https://HOST/api/v3",
	Redirected:    "the token is not sent to another host or protocol",
	Strange: "the next pass asks again; if that does not help, " +
		"a proxy has changed GitHub's answer, or its API has changed",
	Endless:  "tracker_unknown_payload",
	Narrow:   "close or move old ones",
	Limited:  "GitHub accepts no more requests of this account",
	Separate: "account",
}
