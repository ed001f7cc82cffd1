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

const (
	loadIssues = 1000
	loadClaims = 500
	loadPages  = loadIssues / 50
	loadCPU    = time.Second
)

// load times a pass over 1,000 candidates, of which 500 are claimed and the others blocked, so that it has everything
// to look at and nothing to start: once where every claimed issue has changed, and once where none has.
func (b *bench) load() error {
	s, err := b.project("load")
	if err != nil {
		return err
	}
	if err := b.tracker.Seed(b.ctx, nil); err != nil {
		return err
	}
	if _, err := s.quietTick(); err != nil { // makes the database
		return err
	}
	if err := s.claim(loadIssueList(0)[:loadClaims]); err != nil {
		return err
	}
	var changed, same []time.Duration
	var peaks []float64
	for n := range b.o.runs {
		if err := b.tracker.Seed(b.ctx, loadIssueList(n+1)); err != nil {
			return err
		}
		for _, to := range []*[]time.Duration{&changed, &same} {
			got, err := s.loadTick()
			if err != nil {
				return err
			}
			*to, peaks = append(*to, got.cpu()), append(peaks, float64(got.PeakKiB))
		}
	}
	t := &b.table
	t.heading(fmt.Sprintf("%d claims and %d candidates over %d pages, %d passes each", loadClaims, loadIssues, loadPages, b.o.runs))
	for _, r := range []struct {
		what   string
		values []time.Duration
	}{{"CPU, every claimed issue changed", changed}, {"CPU, nothing changed", same}} {
		figure, spread := milliseconds(r.values)
		t.judge(r.what, figure, spread, "under 1000 ms", median(r.values) < loadCPU)
	}
	_, figure, spread := mebibytes(peaks)
	t.note("peak resident", figure, spread)
	return nil
}

// loadTick is a pass that must have seen everything.
func (s *project) loadTick() (sample, error) {
	if _, err := s.b.tracker.requests(s.b.ctx); err != nil {
		return sample{}, err
	}
	got, err := s.quietTick()
	if err != nil {
		return got, err
	}
	log, err := s.b.tracker.requests(s.b.ctx)
	if err != nil {
		return got, err
	}
	pages := 0
	for _, e := range log {
		if e.Operation == "SymphonyCandidates" {
			pages++
		}
	}
	if pages != loadPages || len(log) != loadPages+loadClaims/50 {
		return got, fmt.Errorf("%d requests, %d of them pages of candidates, where %d pages and %d batches of claims were to be asked for",
			len(log), pages, loadPages, loadClaims/50)
	}
	return got, nil
}

// loadIssueList makes the issues; another version gives the same ones with other descriptions. The odd blocker in front
// is in no active state.
func loadIssueList(version int) []lineartest.Issue {
	list := make([]lineartest.Issue, 0, loadIssues+1)
	began := time.Now().Add(-48 * time.Hour)
	for n := range loadIssues {
		text := fmt.Sprintf("Version %d.\n\n%s", version, strings.Repeat("What is to be done here takes some words to say. ", 20))
		i := lineartest.Issue{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n+1), Identifier: fmt.Sprintf("ABC-%d", n+1),
			Title: fmt.Sprintf("Issue number %d of the load", n+1), Description: &text, State: "Todo", Priority: n % 5,
			Labels: []string{"Bug", "Feature"}, CreatedAt: began.Add(time.Duration(n) * time.Second),
		}
		if n >= loadClaims {
			i.BlockedBy = []string{fmt.Sprintf("ABC-%d", loadIssues+1)}
		}
		list = append(list, i)
	}
	return append(list, lineartest.Issue{Identifier: fmt.Sprintf("ABC-%d", loadIssues+1), Title: "Comes first", State: "Backlog"})
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
			DueAt: now.Add(4 * time.Minute), ErrorCode: "turn_failed", ErrorMessage: "the model said no", ClaimedAt: now,
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
