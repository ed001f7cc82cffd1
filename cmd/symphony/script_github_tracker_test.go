package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

// githubTracker is GitHub as the tracker of a script. The states of open issues are labels;
// Done and Canceled are closed issues.
type githubTracker struct{ *githubtest.Server }

func startGitHub(_ *testscript.Env, set *stage) (scriptTracker, error) {
	set.github.StateLabels = append(set.github.StateLabels, "Backlog")
	return githubTracker{set.github}, nil
}

// closes reports whether a state of the scripts is that of a closed issue.
func closes(state string) bool { return state == "Done" || state == "Canceled" }

func (g githubTracker) Add(i scriptIssue) error {
	made := githubtest.Issue{
		Title:     i.Title,
		Body:      i.Description,
		Labels:    i.Labels,
		BlockedBy: i.BlockedBy,
		CreatedAt: time.Now().Add(-i.Age),
	}
	if _, err := fmt.Sscanf(i.Identifier, "GH-%d", &made.Number); err != nil {
		return err
	}
	if i.Priority > 0 {
		made.Labels = append(made.Labels, fmt.Sprint("P", i.Priority-1))
	}
	if closes(i.State) {
		made.State = "closed"
	} else {
		made.Labels = append(made.Labels, i.State)
	}
	_, err := g.AddIssue(made)
	return err
}

func (g githubTracker) Move(issue, state string) error {
	if closes(state) {
		state = "closed"
	}
	return g.Server.Move(issue, state)
}

func (g githubTracker) Comment(issue, text string) error {
	_, err := g.Server.Comment(issue, "kim", text)
	return err
}

func (g githubTracker) Remove(issue string) error { return g.Delete(issue) }

func (g githubTracker) State(issue string) (string, error) {
	state, err := g.Server.State(issue)
	if state == "closed" {
		state = "Done"
	}
	return state, err
}

func (g githubTracker) Comments(issue string) (int, error) {
	i, err := g.Issue(issue)
	return len(i.Comments), err
}

func (g githubTracker) Call(issue, macro, text string) (tool string, args any, err error) {
	path := "/repos/" + g.Repository + "/issues/" + strings.TrimPrefix(issue, "GH-")
	switch {
	case macro == "comment":
		return "github_api", map[string]any{
			"method": "POST",
			"path":   path + "/comments",
			"body":   map[string]string{"body": text},
		}, nil
	case closes(text):
		return "github_api", map[string]any{
			"method": "PATCH",
			"path":   path,
			"body":   map[string]string{"state": "closed"},
		}, nil
	}
	// The labels are replaced by these. The first run of handoff has the label ui.
	return "github_api", map[string]any{
		"method": "PATCH",
		"path":   path,
		"body":   map[string]any{"labels": []string{text, "ui"}},
	}, nil
}

func (g githubTracker) Down() { g.fail(githubtest.Failure{Kind: githubtest.FailDown}) }

func (g githubTracker) Garbage() { g.fail(githubtest.Failure{Kind: githubtest.FailHTML}) }

func (g githubTracker) Limit(d time.Duration) {
	g.fail(githubtest.Failure{
		Kind:  githubtest.FailRateLimit,
		Reset: time.Now().Add(d + time.Second).Unix(),
	})
}

func (g githubTracker) fail(f githubtest.Failure) {
	if f.Kind != githubtest.FailRateLimit {
		f.Times = -1
	}
	if err := g.Fail(f); err != nil {
		panic(err) // the kinds are constants
	}
}

func (g githubTracker) Up()            { g.ClearFailures() }
func (g githubTracker) Requests() int  { return len(g.Log()) }
func (g githubTracker) ClearRequests() { g.ClearLog() }
