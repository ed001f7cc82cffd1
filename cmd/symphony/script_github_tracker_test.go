package main

import (
	"fmt"
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

func (githubTracker) Call(_, macro, text string) (tool string, args any, err error) {
	if macro == "comment" {
		return "issue_comment", map[string]string{"text": text}, nil
	}
	if closes(text) {
		text = "closed"
	}
	return "issue_update", map[string]string{"state": text}, nil
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
