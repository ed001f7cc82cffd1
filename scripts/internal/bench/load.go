package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/linear/lineartest"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/state"
)

// load says which issues a project has: so many candidates, of which the first are claimed and the others blocked, so
// that a pass has everything to look at and nothing to start. Another version has other descriptions.
type load struct{ Candidates, Claims, Version int }

const pageSize = 50 // of the tracker's answers, by the specification

// pages is how many requests a list takes.
func pages(n int) int { return (n + pageSize - 1) / pageSize }

// requests are those that a pass can't do without: the candidates, page by page, and the claimed issues by their ids.
func (l load) requests() int { return max(pages(l.Candidates), 1) + pages(l.Claims) }

// issues makes them. The odd blocker in front is in no active state.
func (l load) issues(now time.Time) []lineartest.Issue {
	list := make([]lineartest.Issue, 0, l.Candidates+1)
	blocker := fmt.Sprintf("ABC-%d", l.Candidates+1)
	began := now.Add(-48 * time.Hour)
	for n := range l.Candidates {
		text := fmt.Sprintf("Version %d.\n\n%s", l.Version, strings.Repeat("What is to be done here takes some words to say. ", 20))
		i := lineartest.Issue{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n+1), Identifier: fmt.Sprintf("ABC-%d", n+1),
			Title: fmt.Sprintf("Issue number %d of the load", n+1), Description: &text, State: "Todo", Priority: n % 5,
			Labels: []string{"Bug", "Feature"}, CreatedAt: began.Add(time.Duration(n) * time.Second),
		}
		if n >= l.Claims {
			i.BlockedBy = []string{blocker}
		}
		list = append(list, i)
	}
	return append(list, lineartest.Issue{Identifier: blocker, Title: "Comes first", State: "Backlog"})
}

// claim writes the claims as passes would have left them: half of them wait, half are held.
func (s *project) claim(issues []lineartest.Issue) (err error) {
	ctx := s.b.ctx
	db, err := state.Open(ctx, s.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	project, err := s.project()
	if err != nil {
		return err
	}
	now := time.Now()
	for n, i := range issues {
		c := reconcile.Claim{
			IssueID: i.ID, Identifier: i.Identifier, Status: reconcile.Waiting, Kind: reconcile.Backoff, Attempt: 1, Failures: 1,
			DueAt: now.Add(45 * time.Minute), ErrorCode: "turn_failed", ErrorMessage: "the model said no", ClaimedAt: now,
			Issue: reconcile.Issue{ID: i.ID, Identifier: i.Identifier, Title: i.Title, State: i.State}, Project: project,
		}
		if n%2 == 0 {
			c.Status, c.HoldReason, c.HoldMessage, c.HeldAt = reconcile.Held, reconcile.HoldOperator, "held by the operator", now
		}
		if err := db.Commit(ctx, now, reconcile.Change{Claim: &c}); err != nil {
			return err
		}
	}
	return nil
}

// project is how claims name the stage's project.
func (s *project) project() (string, error) {
	source, err := workflow.Read(s.Workflow)
	if err != nil {
		return "", err
	}
	cfg, err := workflow.Parse(source, workflow.Environment{
		Home: s.Dir, Temp: s.Dir, Lookup: func(string) (string, bool) { return lineartest.DefaultKey, true },
	})
	if err != nil {
		return "", err
	}
	return cfg.Policy().Project, nil
}
