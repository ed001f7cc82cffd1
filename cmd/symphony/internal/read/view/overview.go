// Package view is the read model: what symphony knows of a project, of one issue, and of a period, as typed values. Their
// JSON is the output of ps, show and report with --json (specification 13.7 with additions): times are RFC 3339 in UTC,
// absent values are null, lists are never null. Package render makes text of them.
package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Overview is the state of a project at one moment.
type Overview struct {
	GeneratedAt time.Time        `json:"generated_at"`
	Counts      reconcile.Counts `json:"counts"`
	Claims
	Kept     []KeptRow    `json:"kept_workspaces"`
	Requests []RequestRow `json:"pending_requests"`
	// PullRequests are those that the tracker has described, the last seen first.
	PullRequests []PullRequestRow     `json:"pull_requests"`
	Totals       Totals               `json:"codex_totals"`
	RateLimits   json.RawMessage      `json:"rate_limits"`
	LastPass     *project.LastPassRow `json:"last_pass"`
	Paused       bool                 `json:"paused"`
	Blocked      *project.BlockedRow  `json:"blocked"`
	Budget       *BudgetRow           `json:"budget"` // null without agent.budget_per_day
	// Schedule is set while cron, a timer or --loop runs passes. Without a schedule no new run starts.
	Schedule bool `json:"schedule_active"`
	// LowUntil is set while too little of the tracker's allowance is left to look for new work.
	LowUntil *time.Time `json:"tracker_low_until"`
	// NextPass is when the schedule's next pass is expected; null where its passes show no rhythm yet.
	NextPass *NextPass  `json:"next_pass"`
	Project  ProjectRow `json:"project"`
	// Error is the reason why a project of several can't be read; left out otherwise.
	Error *reconcile.Error `json:"error,omitzero"`
	// Rows are the issues of all the lists above and below, one row each.
	Rows []Row `json:"issues"`
	// Skipped and Ended are read on request only (see Options), otherwise nil and left out.
	Skipped []SkippedRow `json:"skipped,omitzero"`
	Ended   []RunRow     `json:"ended,omitzero"`

	// Health and Results are read with the ended runs, Health also on its own, otherwise nil and left out.
	Health  *Health  `json:"health,omitzero"`
	Results *Results `json:"results,omitzero"`

	// scheduledAt is when the last pass of a schedule began; zero if there was none.
	scheduledAt time.Time
	// claims and skips are what Counts counts: also the candidates that the last pass did not start, where Skipped is not read.
	claims []reconcile.Claim
	places map[string]int // of claims in the queue for a slot
	skips  []reconcile.Skip
	// Issues are the identifiers or ids that the overview was confined to, as the caller gave them.
	Issues []string `json:"-"`
}

// NextPass is the schedule's next pass.
type NextPass struct {
	At      time.Time `json:"at"`
	Trigger string    `json:"trigger"`
}

// SkippedRow is a candidate that the last pass that fetched candidates did not start.
type SkippedRow struct {
	Project string `json:"project"`
	state.StoredSkip
}

// PullRequestRow is the pull request of an issue's branch.
type PullRequestRow struct {
	Project string `json:"project"`
	state.PullRequest
}

// ProjectRow names the project. Kind and slug are null where the workflow can't be read.
type ProjectRow struct {
	// Name is that of the folder of WORKFLOW.md, or of the state directory where the workflow is not known. In the rows of several
	// projects with the same name, the later ones have a number behind it.
	Name         string  `json:"name"`
	WorkflowPath string  `json:"workflow_path"`
	StateDir     string  `json:"state_dir"`
	TrackerKind  *string `json:"tracker_kind"`
	ProjectSlug  *string `json:"project_slug"`
}

func newProjectRow(workflowPath, stateDir string) ProjectRow {
	name := filepath.Base(stateDir)
	if workflowPath != "" {
		name = filepath.Base(filepath.Dir(workflowPath))
	}
	return ProjectRow{Name: name, WorkflowPath: workflowPath, StateDir: stateDir}
}

// Options select how much of an overview to read.
type Options struct {
	All    bool     // also skipped candidates, ended runs, the health and the results
	Health bool     // the health, also without All
	Ended  int      // how many ended runs; 0: the usual number
	Issues []string // identifiers or ids to confine the rows to; empty for all
	Name   string   // of the project; empty for that of its folder
}

// Read reads the overview of a project.
func Read(ctx context.Context, p *project.Project, o Options) (Overview, error) {
	f := facts{p: p, name: o.Name, now: p.Env.Now().UTC()}
	if err := f.open(ctx); err != nil {
		return Overview{}, err
	}
	defer f.db.Close()
	for _, ref := range o.Issues {
		id, _, known, err := f.db.Views.FindIssue(ctx, ref)
		if err == nil && !known {
			err = UnknownIssue(ctx, f.db, ref, "it is neither claimed nor skipped, and has had no run")
		}
		if err != nil {
			return Overview{}, err
		}
		f.only = append(f.only, id)
	}
	var err error
	if f.recorded, err = f.db.Store.State(ctx); err != nil {
		return Overview{}, err
	}
	if err := f.read(ctx); err != nil {
		return Overview{}, err
	}
	kept, err := f.keptRows(ctx)
	if err != nil {
		return Overview{}, err
	}
	v := Overview{
		GeneratedAt: f.now, Claims: f.claims(), Kept: kept, Requests: []RequestRow{}, Issues: o.Issues, Paused: f.recorded.Paused,
		Blocked: f.block, Budget: f.budget, Schedule: f.schedule, NextPass: f.nextPass, Project: f.project(),
		scheduledAt: f.rhythm.Last.StartedAt,
	}
	v.claims = only(f.recorded.Claims, func(c reconcile.Claim) bool { return f.wants(c.IssueID) })
	if f.low.After(f.now) {
		v.LowUntil = &f.low
	}
	for _, r := range f.recorded.Runs {
		if r.Kind == reconcile.AgentRun {
			v.Totals.add(r, f.now)
		}
	}
	for _, r := range f.requests {
		if !f.wants(r.IssueID) {
			continue
		}
		row := f.requestRow(r)
		if i := slices.IndexFunc(v.Running, func(run RunningRow) bool { return run.RunID == r.RunID }); i >= 0 {
			row.IssueURL, row.Title = v.Running[i].IssueURL, v.Running[i].Title
		}
		v.Requests = append(v.Requests, row)
	}
	if err := v.addHistory(ctx, f, o); err != nil {
		return v, err
	}
	v.count()
	v.Rows = v.rows()
	return v, nil
}

// addHistory adds the last pass, the rate limits, the totals of settled runs, and what Options ask for.
func (v *Overview) addHistory(ctx context.Context, f facts, o Options) error {
	var errs [8]error
	v.LastPass, errs[0] = project.LastPass(ctx, f.db)
	v.RateLimits, errs[1] = f.db.Views.RateLimits(ctx)
	totals, err := f.db.Views.Totals(ctx)
	v.Totals.Tokens = Tokens(reconcile.Tokens(v.Totals.Tokens).Plus(totals.Tokens))
	v.Totals.Seconds += totals.Runtime.Seconds()
	errs[2] = err
	skipped, err := f.db.Views.Skips(ctx)
	claimed := map[string]reconcile.Claim{} // since the pass that skipped the issue
	for _, c := range f.recorded.Claims {
		claimed[c.IssueID] = c
	}
	v.places = placesOf(skipped, claimed)
	rows := []SkippedRow{}
	for _, s := range skipped {
		if _, is := claimed[s.IssueID]; is || !f.wants(s.IssueID) {
			continue
		}
		s.Place = v.places[s.IssueID]
		rows = append(rows, SkippedRow{f.name, s})
		if s.Reason != reconcile.SkipUnsavedWork { // Kept has it
			v.skips = append(v.skips, s.Skip)
		}
	}
	if o.All || len(o.Issues) > 0 {
		v.Skipped = rows
	}
	errs[3] = err
	pulls, err := f.db.Views.PullRequests(ctx)
	errs[5], v.PullRequests = err, []PullRequestRow{}
	for _, p := range pulls {
		if f.wants(p.IssueID) {
			v.PullRequests = append(v.PullRequests, PullRequestRow{f.name, p})
		}
	}
	slices.SortFunc(v.PullRequests, func(a, b PullRequestRow) int {
		return cmp.Or(b.SeenAt.Compare(a.SeenAt), cmp.Compare(a.Identifier, b.Identifier))
	})
	if o.All || o.Health {
		v.Health, errs[6] = f.health(ctx)
	}
	if o.All {
		runs, err := f.db.Views.EndedRuns(ctx, f.only, cmp.Or(o.Ended, project.PastRuns))
		v.Ended = []RunRow{}
		for _, r := range runs {
			v.Ended = append(v.Ended, f.runRow(r))
		}
		errs[4] = err
		v.Results, errs[7] = f.results(ctx)
	}
	return errors.Join(errs[:]...)
}

// placesOf numbers the issues that still wait for a slot in the order of the stored queue, by their ids.
func placesOf(skipped []state.StoredSkip, claimed map[string]reconcile.Claim) map[string]int {
	queue := slices.DeleteFunc(slices.Clone(skipped), func(s state.StoredSkip) bool {
		c, is := claimed[s.IssueID]
		return s.Place == 0 || is && c.Standing(false) != reconcile.StatusQueued
	})
	slices.SortFunc(queue, func(a, b state.StoredSkip) int { return cmp.Compare(a.Place, b.Place) })
	places := map[string]int{}
	for i, s := range queue {
		places[s.IssueID] = i + 1
	}
	return places
}
