// Package view is the read model of projects: their issues, runs and requests as typed values.
// Package detail adds a single issue, package report a period. Their JSON is the output of ps,
// show and report with --json (specification 13.7 with additions): times are RFC 3339 in UTC,
// absent values are null, lists are never null. Package render makes text of them.
package view

import (
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/claims"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/state"
)

// Overview is the state of a project at a moment.
type Overview struct {
	GeneratedAt time.Time        `json:"generated_at"`
	Counts      reconcile.Counts `json:"counts"`
	Claims
	// Blocked are the sessions that wait for a person.
	Blocked  []BlockedSession `json:"blocked"`
	Kept     []KeptRow        `json:"kept_workspaces"`
	Requests []RequestRow     `json:"pending_requests"`
	// PullRequests are the pull requests that the tracker described, the last seen first.
	PullRequests []PullRequestRow `json:"pull_requests"`
	// Watched are the open pull requests that passes watch, by their issues.
	Watched []WatchedRow `json:"watched_pull_requests"`
	// Reviews are the issues that wait for a person's review, the oldest first.
	Reviews []ReviewRow `json:"handed_over"`
	// LookErrors are why the last look at them failed.
	LookErrors   []LookErrorRow      `json:"pull_request_errors"`
	Totals       Totals              `json:"codex_totals"`
	RateLimits   json.RawMessage     `json:"rate_limits"`
	LastPass     *wiring.LastPassRow `json:"last_pass"`
	Paused       bool                `json:"paused"`
	ProjectBlock *wiring.BlockedRow  `json:"project_blocked"`
	// Accounts are the accounts of the agents that may work on issues.
	Accounts []AccountRow `json:"accounts"`
	Budget   *BudgetRow   `json:"budget"` // null without agent.budget_per_day
	// Disk is set while too little space is free for workspaces: no run starts.
	Disk *DiskRow `json:"disk_low"`
	// Schedule is set while cron, a timer or --loop runs passes. Without a schedule no new run
	// starts.
	Schedule bool `json:"schedule_active"`
	// Hosts are the machines on which agents work instead of this machine.
	Hosts []HostRow `json:"hosts"`
	// NextPass is when the schedule's next pass is expected; null where its passes show no
	// rhythm yet.
	NextPass *NextPass  `json:"next_pass"`
	Project  ProjectRow `json:"project"`
	// Error is the reason why a project of several can't be read; left out otherwise.
	Error *reconcile.Error `json:"error,omitzero"`
	// Obstacles are what stops the project or a part of it, the worst first.
	Obstacles []ObstacleRow `json:"obstacles"`
	// Rows are the issues of all the lists above and below, a row for each.
	Rows []Row `json:"issues"`
	// Skipped and Ended are read on request only (see Options), otherwise nil and left out.
	Skipped []SkippedRow `json:"skipped,omitzero"`
	Ended   []RunRow     `json:"ended,omitzero"`

	// Team are the claims of other machines that share the project, as this machine saw them last;
	// Options.Team reads them, and they are left out otherwise.
	Team []claims.TeamRow `json:"team,omitzero"`

	// Health and Results are read with the ended runs, Health also on its own, otherwise nil
	// and left out.
	Health  *Health  `json:"health,omitzero"`
	Results *Results `json:"results,omitzero"`

	// Demo is set for the project of a demo, which needs no schedule.
	Demo bool `json:"-"`
	// scheduledAt is when the last pass of a schedule began; zero if there was none.
	scheduledAt time.Time
	// listsReviews: Rows contains the issues that wait for a review, too.
	listsReviews bool
	// claims and skips are the input of Counts: also the candidates that the last pass did not
	// start, where Skipped is not read, without those that are stuck.
	claims []reconcile.Claim
	// stuck are the candidates that can't start before a person changes something, where Skipped
	// is not read.
	stuck  []SkippedRow
	places map[string]int // of claims in the queue for a slot
	skips  []reconcile.Skip
	// stop is why no issue starts at present, as a clause; empty if no reason is known.
	stop string
	// Issues are the identifiers or ids that the overview was confined to, as the caller gave
	// them.
	Issues []string `json:"-"`
}

// LastScheduled is when the last pass of a schedule began; nil if there was none. Passes of
// workers and operators may have run since.
func (v Overview) LastScheduled() *time.Time { return text.OrNull(v.scheduledAt) }

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
