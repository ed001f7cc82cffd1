package view

import (
	"cmp"
	"slices"

	"github.com/symphony-cron/symphony/reconcile"
)

// Joined is the state of several projects in the shape of an Overview: the lists of all, whose
// rows name their projects, and the sums of counts and totals. project_blocked is taken from the first
// project that sets it; last_pass is the newest,
// next_pass the earliest. schedule_active and paused are set if they are set in all projects.
// budget and health are null and project is empty.
type Joined struct {
	Overview
	// Projects are the single overviews in the order of the projects.
	Projects []Overview `json:"projects"`
}

// Join joins the overviews of several projects.
func Join(all []Overview) Joined {
	empty := Overview{Schedule: len(all) > 0, Paused: len(all) > 0}
	j := Joined{Overview: empty.confine(nil), Projects: append([]Overview{}, all...)}
	for _, v := range all {
		if v.GeneratedAt.After(j.GeneratedAt) {
			j.GeneratedAt = v.GeneratedAt
		}
		j.joinLists(v)
		j.Totals.Tokens = Tokens(reconcile.Tokens(j.Totals.Tokens).Plus(reconcile.Tokens(v.Totals.Tokens)))
		j.Totals.Seconds += v.Totals.Seconds
		j.Schedule = j.Schedule && v.Schedule
		j.Paused = j.Paused && v.Paused
		if v.LastPass != nil && (j.LastPass == nil || v.LastPass.StartedAt.After(j.LastPass.StartedAt)) {
			j.LastPass = v.LastPass
		}
		if v.NextPass != nil && (j.NextPass == nil || v.NextPass.At.Before(j.NextPass.At)) {
			j.NextPass = v.NextPass
		}
		j.ProjectBlock = cmp.Or(j.ProjectBlock, v.ProjectBlock)
		j.Disk = cmp.Or(j.Disk, v.Disk)
		if j.RateLimits == nil {
			j.RateLimits = v.RateLimits
		}
	}
	slices.SortStableFunc(j.Reviews, func(a, b ReviewRow) int { return a.Since.Compare(b.Since) })
	j.Results = joinResults(all)
	slices.SortStableFunc(j.Rows, Selection{}.compare)
	slices.SortStableFunc(j.Ended, func(a, b RunRow) int { return b.EndedAt.Compare(*a.EndedAt) })
	return j
}

func (j *Joined) joinLists(v Overview) {
	j.Running = append(j.Running, v.Running...)
	j.Retrying = append(j.Retrying, v.Retrying...)
	j.Held = append(j.Held, v.Held...)
	j.NeedsHelp = append(j.NeedsHelp, v.NeedsHelp...)
	j.Undelivered = append(j.Undelivered, v.Undelivered...)
	j.Kept = append(j.Kept, v.Kept...)
	j.Team = append(j.Team, v.Team...)
	j.Requests = append(j.Requests, v.Requests...)
	j.PullRequests = append(j.PullRequests, v.PullRequests...)
	j.Watched = append(j.Watched, v.Watched...)
	j.Reviews = append(j.Reviews, v.Reviews...)
	j.LookErrors = append(j.LookErrors, v.LookErrors...)
	j.Blocked = append(j.Blocked, v.Blocked...)
	j.Rows = append(j.Rows, v.Rows...)
	j.Hosts = append(j.Hosts, v.Hosts...)
	j.Accounts = append(j.Accounts, v.Accounts...)
	j.Obstacles = append(j.Obstacles, v.Obstacles...)
	j.Counts = j.Counts.Plus(v.Counts)
	if v.Skipped != nil { // the lists that are read on request stay nil without it
		j.Skipped = append(append([]SkippedRow{}, j.Skipped...), v.Skipped...)
	}
	if v.Ended != nil {
		j.Ended = append(append([]RunRow{}, j.Ended...), v.Ended...)
	}
}

// joinResults adds up the results of several projects; nil if they have not been read. The
// days are those of the first project: another one that is read after midnight has a day more.
func joinResults(all []Overview) *Results {
	var sum *Results
	for _, v := range all {
		if v.Results == nil {
			continue
		}
		if sum == nil {
			sum = &Results{}
			for _, d := range v.Results.Days {
				sum.Days = append(sum.Days, ResultDay{Date: d.Date, Outcomes: map[reconcile.Outcome]int{}})
			}
		}
		sum.handovers = append(sum.handovers, v.Results.handovers...)
		for _, d := range v.Results.Days {
			sum.day(d.Date).join(d)
		}
	}
	if sum != nil {
		sum.median()
	}
	return sum
}

func (d *ResultDay) join(more ResultDay) {
	d.HandedOver += more.HandedOver
	d.Seconds += more.Seconds
	for outcome, n := range more.Outcomes {
		d.Outcomes[outcome] += n
	}
	d.Spent = d.Joined(more.Spent)
}
